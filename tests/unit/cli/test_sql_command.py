"""The command without Spark: what it prints, where, and its exit codes."""

import io
import json
import sys
from datetime import UTC, datetime
from decimal import Decimal

import pytest

import tidelake
from tidelake.cli.engine import Engine
from tidelake.cli.main import main
from tidelake.cli.on_spark import statements
from tidelake.cli.shell.pager import Pager
from tidelake.cli.shell.session_commands import run_input
from tidelake.cli.shell.shell import Shell

ORDERS = (
    "CREATE TABLE orders (id INT, item STRING, price DECIMAL(6, 2), at TIMESTAMP_LTZ(3),"
    " PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1')"
)


@pytest.fixture
def lake(tmp_path):
    """A warehouse with two orders."""
    place = tmp_path / "lake"
    assert main(["sql", "-w", str(place), "-c", ORDERS]) == 0
    table = tidelake.open(place).table("default.orders")
    table.write([{"id": 1, "item": "tea", "price": Decimal("3.5"), "at": None}])
    table.write([{"id": 2, "item": None, "price": None, "at": None}])
    return str(place)


def run(capsys, lake, *argv):
    """Exit code, lines of the standard output, text of the standard error."""
    code = main(["sql", "-w", lake, "--no-spark", *argv])
    shown = capsys.readouterr()
    return code, shown.out.splitlines(), shown.err


def test_statements_of_the_command_line_and_of_files_run_in_turn(lake, capsys, tmp_path):
    file = tmp_path / "a.sql"
    file.write_text("-- counts\nSELECT count(*) AS n FROM orders;\n")
    argv = ("--format", "csv", "-c", "SHOW TABLES; SELECT id FROM orders LIMIT 1", "-f", str(file))
    assert run(capsys, lake, *argv) == (
        0,
        ["namespace,tableName,isTemporary", "default,orders,false", "id", "1", "n", "2"],
        "",
    )


def test_the_standard_input_is_read(lake, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT item FROM orders WHERE id = 1;"))
    assert run(capsys, lake, "--format", "json") == (0, ['{"item":"tea"}'], "")


def test_json_lines(lake, capsys):
    code, lines, _ = run(capsys, lake, "--format", "json", "-c", "SELECT * FROM orders")
    assert code == 0
    assert [json.loads(line) for line in lines] == [
        {"id": 1, "item": "tea", "price": 3.5, "at": None},
        {"id": 2, "item": None, "price": None, "at": None},
    ]


def test_a_failing_statement_ends_with_1_and_a_caret(lake, capsys):
    text = "SELECT id FROM orders LIMIT 1;\nSELECT itm\n FROM orders; DROP TABLE orders"
    code, lines, err = run(capsys, lake, "--format", "csv", "-c", text)
    assert code == 1
    assert lines == ["id", "1"]
    assert err.splitlines() == [
        "error: There is no column `itm`. Did you mean 'item'? At line 2, column 8:",
        "  SELECT itm",
        "         ^",
    ]
    assert run(capsys, lake, "-c", "SELECT count(*) FROM orders")[0] == 0


def test_a_text_that_cannot_be_read_runs_not_at_all(lake, capsys):
    code, lines, err = run(capsys, lake, "-c", "DROP TABLE orders; SELEC 1")
    assert (code, lines) == (1, [])
    assert "Did you mean 'SELECT'?" in err
    assert run(capsys, lake, "-c", "SELECT count(*) FROM orders")[0] == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT sum(id) FROM orders", "This query needs Spark"),
        ("INSERT INTO orders VALUES (3, upper('rye'), 1, NULL)", "This INSERT needs Spark"),
        ("DELETE FROM orders WHERE id = 1", "This DELETE needs Spark"),
        ("SET 'spark.sql.shuffle.partitions' = '2'", "needs Spark"),
    ],
)
def test_what_needs_spark_is_refused_without_it(lake, capsys, text, words):
    code, lines, err = run(capsys, lake, "-c", text)
    assert (code, lines) == (1, [])
    assert words in err
    assert "--no-spark" in err


def test_a_wrong_database_or_memory_is_said(lake, capsys):
    code, _, err = run(capsys, lake, "-d", "defautl", "-c", "SHOW TABLES")
    assert code == 1
    assert "There is no database 'defautl'" in err
    code, _, err = run(capsys, lake, "--memory", "much", "-c", "SHOW TABLES")
    assert code == 1
    assert "much" in err


def test_a_file_that_is_no_text_is_said(lake, capsys, tmp_path):
    file = tmp_path / "a.sql"
    file.write_bytes(b"\xff\xfe")
    code, _, err = run(capsys, lake, "-f", str(file))
    assert code == 1
    assert "a.sql cannot be read" in err


def test_echo_and_timing_go_to_the_standard_error(lake, capsys):
    argv = ("--format", "csv", "--echo", "--timing", "-c", "-- first\nSELECT id FROM orders")
    code, lines, err = run(capsys, lake, *argv)
    assert code == 0
    assert lines == ["id", "1", "2"]
    assert err.startswith("-- first\nSELECT id FROM orders\n(2 rows, ")


def test_spark_starts_with_the_session_as_it_is(lake):
    """Another Spark stands in: what it is handed, and that it is started once."""
    started = []

    class Side:
        version, zone = "0", "UTC"

        def __init__(self, session, *, master, conf, notify):
            started.append((session.database, master, dict(conf)))

        def answer(self, statement, text):
            return None

        def stop(self):
            started.append("stopped")

    told = []
    engine = Engine(lake, master="local[1]", conf={"a": "b"}, notify=told.append)
    shell = Shell(engine, out=io.StringIO(), err=io.StringIO())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statements, "SparkSide", Side)
        assert shell.run("CREATE DATABASE shop; USE shop; SHOW TABLES")
        assert not engine.spark_runs
        assert shell.run("SELECT 1; SELECT 2; SELECT id FROM default.orders")
        engine.close()
    assert started == [("shop", "local[1]", {"a": "b"}), "stopped"]
    assert [line.split()[0] for line in told] == ["Spark", "Spark"]


@pytest.mark.parametrize(
    ("zone", "shown"),
    [
        ("America/New_York", "2026-11-21T19:00:00-05:00"),
        ("+08:00", "2026-11-22T08:00:00+08:00"),
        ("GMT-1", "2026-11-21T23:00:00-01:00"),
        ("UTC", "2026-11-22T00:00:00+00:00"),
    ],
)
def test_instants_are_shown_in_the_session_s_zone(lake, capsys, zone, shown):
    instant = datetime(2026, 11, 22, tzinfo=UTC)
    rows = [{"id": 3, "item": None, "price": None, "at": instant}]
    tidelake.open(lake).table("default.orders").write(rows)
    argv = ("--format", "json", "--conf", f"spark.sql.session.timeZone={zone}")
    found = run(capsys, lake, *argv, "-c", "SELECT at FROM orders WHERE id = 3")
    assert found == (0, [f'{{"at":"{shown}"}}'], "")


def test_a_zone_that_is_none_is_said(lake, capsys):
    argv = ("--conf", "spark.sql.session.timeZone=Mars/Olympus", "-c", "SELECT * FROM orders")
    code, _, err = run(capsys, lake, *argv)
    assert code == 1
    assert "'Mars/Olympus' is unknown" in err


def test_rows_that_nobody_leafed_to_are_not_counted(lake):
    rows = [{"id": n, "item": "x" * 200, "price": None, "at": None} for n in range(20_000)]
    tidelake.open(lake).table("default.orders").write(rows)
    err = io.StringIO()
    pager = Pager(lambda: (80, 10), {"PAGER": "head -1", "PATH": "/usr/bin:/bin"})
    shell = Shell(Engine(lake), out=io.StringIO(), err=err, timing=True, pager=pager)
    assert shell.run("SELECT * FROM orders")
    assert err.getvalue().endswith("+ rows)\n")
    err.truncate(0)
    assert shell.run("SELECT * FROM orders WHERE id = 1")
    assert "(1 row, " in err.getvalue() or err.getvalue().endswith("(1 row)\n")


def test_commands_of_the_program(lake):
    err = io.StringIO()
    shell = Shell(Engine(lake), out=io.StringIO(), err=err)
    assert not run_input("\\format csv", shell)
    assert not run_input("\\timing", shell)
    assert not run_input("SELECT id FROM orders LIMIT 1;", shell)
    assert not run_input(";", shell)
    assert not run_input("\\format cvs", shell)
    assert not run_input("\\nothing", shell)
    assert not run_input("help", shell)
    assert run_input("exit;", shell)
    assert shell.out.getvalue() == "id\n1\n"  # type: ignore[attr-defined]
    said = err.getvalue()
    assert "Timing is on." in said
    assert "(1 row, " in said
    assert "Did you mean 'csv'?" in said
    assert "There is no command '\\nothing'" in said
    assert "\\format FORMAT" in said


def test_an_option_that_does_nothing_is_warned_of_beside_the_answer(lake, capsys):
    text = "CREATE TABLE idle (k INT) TBLPROPERTIES ('snapshot.clean-empty-directories' = 'true')"
    code, _, err = run(capsys, lake, "-c", text)
    assert code == 0
    assert err.startswith(
        "warning: Table default.idle: 'snapshot.clean-empty-directories' promises"
    )
