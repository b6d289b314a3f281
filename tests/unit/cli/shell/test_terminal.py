"""The prompt, by keys that a pipe types."""

import threading

import pyarrow as pa
import pytest

import tidelake
from tidelake.sql import SqlSession

pytest.importorskip("prompt_toolkit", reason="the extra cli is not installed")

from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from tidelake.cli.shell.terminal import Terminal, history_path

TAB, ENTER, UP, CTRL_C, CTRL_D = "\t", "\r", "\x1b[A", "\x03", "\x04"


@pytest.fixture
def session(tmp_path):
    catalog = tidelake.open(tmp_path / "lake")
    schema = pa.schema({"id": pa.int32(), "price": pa.float64()})
    catalog.create_table("default.orders", schema)
    return SqlSession(catalog)


@pytest.fixture
def keys():
    with create_pipe_input() as pipe:
        yield pipe


def terminal(session, keys, history):
    return Terminal(session, history=history, input=keys, output=DummyOutput())


def test_a_statement_goes_on_until_its_semicolon(session, keys, tmp_path):
    keys.send_text(f"SELECT ';'{ENTER}FROM orders{ENTER};{ENTER}")
    assert terminal(session, keys, tmp_path / "h").read() == "SELECT ';'\nFROM orders\n;"


def test_commands_of_the_program_need_no_semicolon(session, keys, tmp_path):
    found = terminal(session, keys, tmp_path / "h")
    for text in ("\\format json", "exit", "", "  "):
        keys.send_text(text + ENTER)
        assert found.read() == text


def test_tab_completes(session, keys, tmp_path):
    keys.send_text(f"SELECT * FROM ord{TAB}")
    # whoever types on at once does without the word
    later = threading.Timer(1, keys.send_text, [f" LIMIT 1;{ENTER}"])
    later.start()
    assert terminal(session, keys, tmp_path / "h").read() == "SELECT * FROM orders LIMIT 1;"


def test_the_history_holds_no_secret(session, keys, tmp_path):
    text = "CREATE CATALOG c WITH ('jdbc.password' = 'canary');"
    keys.send_text(text + ENTER)
    assert terminal(session, keys, tmp_path / "h").read() == text
    assert "canary" not in (tmp_path / "h").read_text()
    assert "CREATE CATALOG c" in (tmp_path / "h").read_text()


def test_lines_of_before_come_back_in_another_session(session, keys, tmp_path):
    place = tmp_path / "deep" / "history"
    keys.send_text(f"SHOW{ENTER}TABLES;{ENTER}")
    first = terminal(session, keys, place).read()
    keys.send_text(UP + ENTER)
    assert terminal(session, keys, place).read() == first == "SHOW\nTABLES;"


def test_without_a_place_for_lines_the_prompt_works(session, keys, tmp_path):
    taken = tmp_path / "file"
    taken.write_text("")
    keys.send_text(f"SHOW TABLES;{ENTER}")
    assert terminal(session, keys, taken / "history").read() == "SHOW TABLES;"


@pytest.mark.parametrize(("key", "error"), [(CTRL_C, KeyboardInterrupt), (CTRL_D, EOFError)])
def test_ctrl_c_forgets_and_ctrl_d_leaves(session, keys, tmp_path, key, error):
    keys.send_text(("SELECT 1" if key == CTRL_C else "") + key)
    with pytest.raises(error):
        terminal(session, keys, tmp_path / "h").read()


def test_lines_are_kept_among_the_user_s_state(tmp_path):
    assert history_path({"XDG_STATE_HOME": str(tmp_path)}) == tmp_path / "tidelake" / "history"
    assert history_path({}).parts[-4:] == (".local", "state", "tidelake", "history")
