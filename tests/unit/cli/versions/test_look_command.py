"""``tidelake ls``, ``show``, ``files``, ``snapshots`` and ``history`` of the program."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import tidelake
from tidelake.cli.main import main


@pytest.fixture
def table(tmp_path):
    catalog = tidelake.open(tmp_path)
    columns = pa.schema({"day": pa.string(), "k": pa.int64()})
    made = catalog.create_table(
        "db.t", columns, primary_keys=["day", "k"], partition_keys=["day"], options={"bucket": "1"}
    )
    made.write([{"day": "a", "k": 1}, {"day": "b", "k": 2}])
    made.tags.create("first")
    made.write([{"day": "a", "k": 3}])
    catalog.create_table("db.empty", columns)
    catalog.create_database("other")
    return made


@pytest.fixture
def look(tmp_path, capsys):
    def run(command, *words, code=0):
        assert main([command, "-w", str(tmp_path), *words]) == code
        said = capsys.readouterr()
        return said.out if not code else said.err

    return run


def rows(text):
    return [json.loads(line) for line in text.splitlines()]


def test_databases_and_tables_are_listed(table, look, tmp_path):
    assert rows(look("ls", "--format", "json")) == [
        {"database": "db", "tables": 2},
        {"database": "other", "tables": 0},
    ]
    empty, full = rows(look("ls", "db", "--format", "json"))
    assert (empty["table"], empty["kind"], empty["snapshot"], empty["rows"]) == (
        "empty",
        "append",
        None,
        0,
    )
    found = {name: full[name] for name in ("table", "kind", "snapshot", "rows", "files")}
    assert found == {"table": "t", "kind": "primary key", "snapshot": 2, "rows": 3, "files": 3}
    assert full["bytes"] == sum(f.stat().st_size for f in (tmp_path / "db.db/t").rglob("data-*"))
    assert "last_commit" in look("ls", "db")


def test_a_damaged_table_does_not_hide_the_others(table, look, tmp_path):
    (tmp_path / "db.db" / "t" / "snapshot" / "snapshot-2").write_bytes(b"{")
    _, damaged = rows(look("ls", "db", "--format", "json"))
    assert "snapshot-2" in damaged["problem"]
    assert damaged["rows"] is None


def test_a_table_and_its_system_tables_are_shown(table, look):
    assert look("show", "db.t") == f"{table}\n"
    [tag] = rows(look("show", "t", "tags", "-d", "db", "--format", "json"))
    assert (tag["tag_name"], tag["snapshot_id"]) == ("first", 1)
    found = rows(look("files", "db.t", "--format", "json"))
    assert [one["record_count"] for one in found] == [1, 1, 1]
    assert look("files", "db.t", "--format", "csv").startswith("partition,bucket,level,")


def test_snapshots_and_history_tell_commits_tags_and_schemas(table, look):
    found = rows(look("snapshots", "db.t", "--format", "json"))
    assert [(one["snapshot_id"], one["commit_kind"], one["tags"]) for one in found] == [
        (1, "APPEND", "first"),
        (2, "APPEND", None),
    ]
    table.add_column("x", "INT")
    events = rows(look("history", "db.t", "--format", "json"))
    assert [one["event"] for one in events][:2] == ["SCHEMA", "APPEND"]
    assert sorted(one["event"] for one in events) == ["APPEND", "APPEND", "SCHEMA", "SCHEMA", "TAG"]
    assert events[1]["what"].startswith("snapshot 2: +1 stored rows, 3 in all, by ")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("show", "db.t", "snapshot"), 1, "Did you mean"),
        (("files", "db.t$files"), 1, "is a system table"),
        (("ls", "dc"), 1, "dc"),
        (("history", "db.u"), 1, "Table 'u' does not exist"),
        (("files",), 2, "required: TABLE"),
        (("snapshot", "db.t"), 2, "Did you mean"),
    ],
)
def test_what_is_not_there_is_said(table, look, words, code, says):
    assert says in look(*words, code=code)
