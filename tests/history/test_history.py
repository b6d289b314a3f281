"""Warehouses written by earlier releases, and by this one when it was cut, are read and go on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from history.make import VERSION, content, make

import tidelake

HERE = Path(__file__).parent
RELEASES = sorted(p.name for p in HERE.iterdir() if (p / "expected.json").is_file())
EXPECTED = {
    release: json.loads((HERE / release / "expected.json").read_text(encoding="utf-8"))
    for release in RELEASES
}
TABLES = [(release, name) for release in RELEASES for name in EXPECTED[release]]


def place(release):
    return HERE / release / "warehouse"


def test_there_is_history():
    assert "0.1" in RELEASES
    assert len(EXPECTED["0.1"]) == 8


def check(table, expected):
    """Every snapshot and tag holds what was written then."""
    fields = table.table_schema.fields
    assert [[f.name, str(f.type)] for f in fields] == expected["columns"]
    assert list(table.primary_keys) == expected["primary_keys"]
    assert list(table.partition_keys) == expected["partition_keys"]
    for snapshot_id, rows in expected["snapshots"].items():
        assert content(table.to_arrow(snapshot_id=int(snapshot_id))) == rows, snapshot_id
        assert table.count(snapshot_id=int(snapshot_id)) == len(rows)
    for tag, snapshot_id in expected["tags"].items():
        assert content(table.to_arrow(tag=tag)) == expected["snapshots"][str(snapshot_id)], tag


@pytest.mark.parametrize(("release", "name"), TABLES)
def test_every_snapshot_reads_as_it_was_written(release, name):
    expected = EXPECTED[release][name]
    table = tidelake.open(place(release)).table(name)
    assert str(table.latest_snapshot_id) == list(expected["snapshots"])[-1]
    check(table, expected)
    assert table.system_table("files").count() >= 1
    assert table.history().num_rows == len(expected["snapshots"])


@pytest.mark.parametrize(("release", "name"), TABLES)
def test_a_table_of_then_is_written_now(release, name, tmp_path):
    shutil.copytree(place(release), tmp_path / "warehouse")
    expected = EXPECTED[release][name]
    table = tidelake.open(tmp_path / "warehouse").table(name)
    rows = table.to_arrow()
    if table.primary_keys:
        table.delete(rows.select(table.primary_keys))
        assert table.count() == 0
        table.write(rows)
        after = content(rows)
    else:
        table.write(rows)
        after = content(pa.concat_tables([rows, rows]))
    assert content(table.to_arrow()) == after
    table.compact(full=True)
    assert content(table.to_arrow()) == after
    check(table, expected)


def test_the_script_says_what_it_said_and_writes_the_same_bytes_twice(tmp_path):
    def files(root):
        return {p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()}

    make(tmp_path / "a")
    make(tmp_path / "b")
    assert files(tmp_path / "a") == files(tmp_path / "b")
    now = json.loads((tmp_path / "a/expected.json").read_text(encoding="utf-8"))
    assert now == EXPECTED[VERSION]
