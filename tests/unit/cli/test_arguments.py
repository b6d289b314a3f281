"""The command line: what is taken, what is refused, and with which exit code."""

import subprocess
import sys
import time
from importlib import metadata

import pytest
from servers.fake_metastore import fake_metastore

from tidelake.cli.arguments import UsageError, read_arguments
from tidelake.cli.declaration import COMMANDS, SQL
from tidelake.cli.main import main


def test_all_options_are_read(tmp_path):
    file = tmp_path / "a.sql"
    file.write_text("")
    given = read_arguments(
        ["sql", "-w", "lake", "-c", "SELECT 1", "-c", "-- two", "-f", str(file), "-f", "-",
         "--format", "vertical", "--catalog", "c", "-d", "db", "--no-spark", "--master",
         "local[2]", "--conf", "a.b=c=d", "--memory", "512 mb", "--echo", "--timing",
         "--no-pager", "--history", "h"],
        {},
    )  # fmt: skip
    assert given.texts == ("SELECT 1", "-- two")
    assert given.files == (str(file), "-")
    assert (given.format, given.catalog, given.database) == ("vertical", "c", "db")
    assert (given.spark, given.master, given.conf) == (False, "local[2]", {"a.b": "c=d"})
    assert (given.memory, given.echo, given.timing, given.pager, given.history) == (
        "512 mb", True, True, False, "h",
    )  # fmt: skip


def test_arguments_of_a_server_of_spark_connect(tmp_path):
    token = tmp_path / "token"
    token.write_text("of sixteen letters")
    given = read_arguments(["connect", "-w", "lake", "--port", "0", "--token", str(token)], {})
    assert (given.port, given.token, given.catalog) == (0, str(token), "tidelake")
    assert read_arguments(["connect", "-w", "lake"], {}).port == 15_002
    for wrong in (["--port", "65536"], ["--port", "x"], ["--token", str(tmp_path / "none")]):
        with pytest.raises(UsageError, match=wrong[0]):
            read_arguments(["connect", "-w", "lake", *wrong], {})


def test_the_warehouse_may_be_a_variable():
    assert read_arguments(["sql"], {"TIDELAKE_WAREHOUSE": "lake"}).warehouse == "lake"
    assert read_arguments(["sql", "-w", "x"], {"TIDELAKE_WAREHOUSE": "lake"}).warehouse == "x"


def test_options_of_the_catalog_come_from_a_file_and_the_command_line(tmp_path):
    file = tmp_path / "lake.properties"
    file.write_text("# mine\n\nmetastore = jdbc\nuri=a=b\njdbc.password= secret \nwarehouse=w\n")
    for command in (["tail", "t"], ["serve", "t"], ["get", "t", "1"], ["sql"]):
        argv = [*command, "--catalog-file", str(file), "--catalog-option", "uri=c"]
        given = read_arguments(argv, {"TIDELAKE_WAREHOUSE": "lake"})
        assert given.warehouse == "w"
        assert given.catalog_options == {"metastore": "jdbc", "uri": "c", "jdbc.password": "secret"}
        assert "secret" not in repr(given)
    file.write_text("metastore=jdbc\nsecret\n")
    with pytest.raises(UsageError, match=r"line 2 of .* is not KEY=VALUE"):
        read_arguments(argv, {})


def test_a_catalog_in_a_database_is_used_by_each_command(tmp_path, capsys):
    where = ["-w", str(tmp_path / "w"), "--catalog-option", "metastore=jdbc"]
    where += ["--catalog-option", f"uri=jdbc:sqlite:{tmp_path}/c.db"]
    made = "CREATE TABLE t (k BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '1')"
    assert main(["sql", *where, "--no-spark", "-c", f"{made}; SHOW TABLES"]) == 0
    assert " t" in capsys.readouterr().out
    assert main(["get", "t", "1", *where]) == 0
    assert main(["tail", "t", "--from", "full", "--timeout", "0", *where]) == 0
    other = [word.replace("/c.db", "/d.db") for word in where]
    assert main(["get", "t", "1", *other]) == 1
    assert "Database 'default' does not exist" in capsys.readouterr().err


def test_a_catalog_in_a_metastore_is_used_by_each_command(tmp_path, capsys):
    with fake_metastore() as metastore:
        where = ["-w", str(tmp_path / "w"), "--catalog-option", "metastore=hive"]
        where += ["--catalog-option", f"uri={metastore.uri}"]
        made = "CREATE TABLE t (k BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '1')"
        second = f"'metastore' = 'hive', 'uri' = '{metastore.uri}', 'warehouse' = '{tmp_path}/v'"
        more = f"CREATE CATALOG o WITH ('type' = 'paimon', {second}); CREATE TABLE o.d.u (k INT)"
        assert main(["sql", *where, "--no-spark", "-c", f"{made}; {more}; SHOW TABLES"]) == 0
        assert " t" in capsys.readouterr().out
        assert sorted(metastore.tables) == [("d", "u"), ("default", "t")]
        assert main(["get", "t", "1", *where]) == 0
    assert main(["get", "t", "1", *where]) == 1
    assert "does not answer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "a command is missing"),
        (["sqll"], "invalid choice: 'sqll'"),
        (["sql"], "TIDELAKE_WAREHOUSE"),
        (["sql", "-w", "x", "--format", "xml"], "'table', 'json', 'csv', 'vertical'"),
        (["sql", "-w", "x", "--conf", "a"], "KEY=VALUE, not 'a'"),
        (["sql", "-w", "x", "-f", "no-such.sql"], "there is no file no-such.sql"),
        (["sql", "-w", "x", "-f", "-", "-f", "-"], "only once"),
        (["sql", "-w", "x", "--form", "csv"], "--form"),
        (["sql", "-w", "x", "SELECT 1"], "SELECT 1"),
        (
            ["sql", "-w", "x", "--formt=csv"],
            "--formt=csv. Did you mean '--format'?\nTry 'tidelake sql",
        ),
        (["tail", "-w", "x", "t", "--timout", "1"], "Did you mean '--timeout'"),
        (["--versoin"], "unrecognized arguments: --versoin"),
    ],
)
def test_what_is_wrong_is_said(argv, words, monkeypatch, capsys):
    monkeypatch.delenv("TIDELAKE_WAREHOUSE", raising=False)
    with pytest.raises(UsageError) as caught:
        read_arguments(argv, {})
    assert words in str(caught.value)
    assert main(argv) == 2
    shown = capsys.readouterr()
    assert words in shown.err
    assert shown.out == ""


@pytest.mark.parametrize("key", ["-5", "-5,7", "-.5,x", "2026-11-25,-7"])
def test_a_key_may_begin_with_a_negative_number(key):
    given = read_arguments(["get", "-w", "x", "t", key, "1", "--json"], {})
    assert given.keys == (key, "1")


def test_every_option_is_in_the_help(capsys):
    with pytest.raises(SystemExit) as ended:
        read_arguments(["sql", "--help"], {})
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert not [name for flag in SQL.flags for name in flag.names if name not in shown]


def test_options_are_declared_once():
    for command in COMMANDS:
        names = [name for flag in command.flags for name in flag.names]
        assert len(names) == len(set(names))
        assert all(flag.what.endswith(".") for flag in command.flags)


def test_the_version_is_told_without_the_package():
    began = time.perf_counter()
    code = (
        "import sys; sys.argv = ['tidelake', '--version']; import tidelake_command as c;"
        " code = c.main(); assert 'pyarrow' not in sys.modules; sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"tidelake {metadata.version('tidelake')}\n"
    assert time.perf_counter() - began < 10
