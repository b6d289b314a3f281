"""Deleting a tag deletes the files that it alone kept."""

from __future__ import annotations

import pyarrow as pa
import pytest
from unit.table.test_version_methods import expire

from tidelake import CorruptError, NotFoundError

SCHEMA = pa.schema({"k": pa.int64()})


@pytest.fixture
def table(catalog):
    """Each of five snapshots replaces all rows of the one before."""
    made = catalog.create_table("db.t", SCHEMA)
    for k in range(1, 6):
        made.write([{"k": k}], mode="overwrite")
    for snapshot_id in range(1, 5):
        made.tags.create(f"t{snapshot_id}", snapshot_id=snapshot_id)
    return made


def files(table) -> set[str]:
    found = set()
    for directory in ("manifest", "bucket-0", "index", "statistics"):
        listing = table.fileio.list_dir(f"{table.paths.location}/{directory}")
        found |= {f"{directory}/{status.name}" for status in listing}
    return found


def data_files(table) -> int:
    return sum(name.startswith("bucket-0/") for name in files(table))


def read(table, tag: str) -> list[int]:
    return table.to_arrow(tag=tag)["k"].to_pylist()


def test_while_the_snapshot_is_there_only_the_tag_goes(table):
    before = files(table)
    table.tags.delete("t2")
    assert files(table) == before
    assert table.to_arrow(snapshot_id=2)["k"].to_pylist() == [2]


def test_what_only_the_tag_kept_goes_with_it(table):
    expire(table, 4)
    before = files(table)
    table.tags.delete("t2")
    gone = before - files(table)
    assert data_files(table) == 4
    # the data file, the delta's manifest with its DELETE and ADD, and the two lists
    assert len([name for name in gone if name.startswith("bucket-0/")]) == 1
    assert {name.split("/")[0] for name in gone} == {"bucket-0", "manifest"}
    assert [read(table, name) for name in ("t1", "t3", "t4")] == [[1], [3], [4]]
    assert table.to_arrow()["k"].to_pylist() == [5]
    for name in ("t1", "t4", "t3"):
        table.tags.delete(name)
    assert data_files(table) == 1
    assert table.to_arrow()["k"].to_pylist() == [5]
    table.write([{"k": 6}])
    assert sorted(table.to_arrow()["k"].to_pylist()) == [5, 6]


def test_another_tag_of_the_snapshot_keeps_its_files(table):
    table.tags.create("again", snapshot_id=2)
    expire(table, 4)
    before = files(table)
    table.tags.delete("t2")
    assert files(table) == before
    assert read(table, "again") == [2]


def test_files_that_a_neighbour_has_stay(catalog):
    table = catalog.create_table("db.grows", SCHEMA)
    for k in range(1, 4):
        table.write([{"k": k}])
    table.tags.create("one", snapshot_id=1)
    table.tags.create("two", snapshot_id=2)
    expire(table, 2)
    table.tags.delete("two")
    assert sorted(table.to_arrow()["k"].to_pylist()) == [1, 2, 3]
    assert read(table, "one") == [1]
    table.tags.delete("one")
    assert sorted(table.to_arrow()["k"].to_pylist()) == [1, 2, 3]


def test_files_that_branches_may_share_stay(table):
    expire(table, 4)
    path = f"{table.paths.location}/branch/branch-b/snapshot/snapshot-1"
    table.fileio.write_once(path, table.fileio.read_bytes(table.paths.tag("t1")))
    before = files(table)
    table.tags.delete("t2")
    assert files(table) == before


def test_a_neighbour_that_cannot_be_read_stops_it_before_anything_goes(table):
    expire(table, 4)
    path = table.paths.tag("t3")
    table.fileio.replace(path, b"{")
    before = files(table)
    with pytest.raises(CorruptError, match="tag-t3"):
        table.tags.delete("t2")
    assert files(table) == before
    assert read(table, "t2") == [2]


def test_an_unknown_tag_is_refused_with_near_names(table):
    with pytest.raises(NotFoundError, match="Did you mean"):
        table.tags.delete("tt2")
