"""A purge removes rows and history, and nothing that a later commit needs."""

from __future__ import annotations

import contextlib

import pyarrow as pa
import pytest
from unit.table.test_version_methods import Meanwhile

import tidelake
from tidelake import CorruptError, StorageError, UnsupportedError
from tidelake.fileio import MemoryFileIO
from tidelake.testing import FaultMode, FaultyFileIO, SimulatedCrash

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64()})
OPTIONS = {"bucket": 1, "changelog-producer": "input", "num-sorted-run.compaction-trigger": "3"}


def made(catalog):
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options=OPTIONS)
    for number in range(5):
        table.write([{"k": k, "v": number} for k in (number, 7)])
        if number == 1:
            table.tags.create("old")
    table.maintenance.analyze()
    return table


def files(table, *directories: str) -> set[str]:
    found = set()
    for directory in directories or ("manifest", "bucket-0", "index", "statistics", "tag"):
        listing = table.fileio.list_dir(f"{table.paths.location}/{directory}")
        found |= {f"{directory}/{status.name}" for status in listing}
    return found


def snapshots(table) -> list[int]:
    return table.history()["snapshot_id"].to_pylist()


def test_only_an_empty_snapshot_is_left(catalog):
    table = made(catalog)
    first = table.fileio.read_bytes(table.paths.snapshot(1))
    table.fileio.write_once(f"{table.paths.changelog_dir}/changelog-1", first)
    table.fileio.write_once(f"{table.paths.consumer_dir}/consumer-c", b'{"nextSnapshot": 1}')
    latest = table.latest_snapshot_id
    foreseen = table.maintenance.purge_files(dry_run=True)
    assert table.count() == 6
    done = table.maintenance.purge_files()
    assert done == foreseen
    assert (done.snapshot_id, done.removed_tags) == (latest + 1, ("old",))
    assert done.removed_snapshot_ids == tuple(range(1, latest + 1))
    assert (table.count(), snapshots(table)) == (0, [latest + 1])
    assert files(table, "bucket-0", "tag", "consumer", "changelog") == set()
    live = table.system_table("manifests").to_arrow()["file_name"].to_pylist()
    assert {f"manifest/{name}" for name in live} < files(table)
    assert len(files(table, "manifest")) == len(live) + 2
    assert len(files(table, "statistics")) == 1  # inherited, as by any commit
    for hint in (table.paths.latest_hint, table.paths.earliest_hint):
        assert table.fileio.read_bytes(hint) == str(latest + 1).encode()
    table.write([{"k": 1, "v": 1}])
    assert table.to_arrow().to_pylist() == [{"k": 1, "v": 1}]


def test_an_empty_table_keeps_its_snapshot(catalog):
    table = catalog.create_table("db.t", SCHEMA)
    assert table.maintenance.purge_files() == table.maintenance.purge_files(dry_run=True)
    assert table.latest_snapshot_id is None
    table.write([{"k": 1, "v": 1}])
    table.truncate()
    assert table.maintenance.purge_files(dry_run=True) == table.maintenance.purge_files()
    assert snapshots(table) == [2]
    assert table.maintenance.purge_files().removed_snapshot_ids == ()


def test_a_table_with_branches_is_refused(catalog):
    table = made(catalog)
    table.fileio.write_once(f"{table.paths.branch_dir}/branch-b/schema/schema-0", b"{}")
    with pytest.raises(UnsupportedError, match="has branches"):
        table.maintenance.purge_files()
    assert table.count() == 6


def test_a_tag_that_cannot_be_read_stops_it_before_history_goes(catalog):
    table = made(catalog)
    table.fileio.replace(table.paths.tag("old"), b"{")
    before = files(table)
    with pytest.raises(CorruptError, match="tag-old"):
        table.maintenance.purge_files()
    assert before <= files(table)
    assert table.to_arrow(snapshot_id=2).num_rows == 3


def test_a_commit_meanwhile_keeps_its_rows():
    inner = MemoryFileIO()
    made(tidelake.open("/w", fileio=inner))
    other = tidelake.open("/w", fileio=inner).table("db.t")

    def commit():
        other.write([{"k": 70, "v": 1}])
        other.compact(full=True)

    table = tidelake.open("/w", fileio=Meanwhile(inner, "delete", commit)).table("db.t")
    done = table.maintenance.purge_files()
    assert other.to_arrow().to_pylist() == [{"k": 70, "v": 1}]
    assert snapshots(other)[0] == done.snapshot_id
    other.write([{"k": 71, "v": 2}])
    assert other.count() == 2


@pytest.mark.parametrize(
    "mode", [FaultMode.CRASH_BEFORE, FaultMode.CRASH_AFTER, FaultMode.EIO_AFTER]
)
def test_wherever_it_stops_the_table_is_whole_and_the_next_call_ends_it(mode):
    counted = FaultyFileIO(_world(), {})
    tidelake.open("/w", fileio=counted).table("db.t").maintenance.purge_files()
    changes = [n for n, e in enumerate(counted.trace, start=1) if e.op in _CHANGES]
    assert len(changes) > 10
    for call in changes:
        inner = _world()
        faulty = FaultyFileIO(inner, {call: mode})
        with contextlib.suppress(SimulatedCrash, StorageError):
            tidelake.open("/w", fileio=faulty).table("db.t").maintenance.purge_files()
        table = tidelake.open("/w", fileio=inner).table("db.t")
        for snapshot_id in snapshots(table):
            table.to_arrow(snapshot_id=snapshot_id)
        for name in table.system_table("tags").to_arrow()["tag_name"].to_pylist():
            table.to_arrow(tag=name)
        table.maintenance.purge_files()
        assert (table.count(), len(snapshots(table))) == (0, 1), call
        table.write([{"k": 1, "v": 1}])
        assert table.to_arrow().to_pylist() == [{"k": 1, "v": 1}], call


_CHANGES = {"delete", "replace", "put_if_absent", "delete_dir"}


def _world() -> MemoryFileIO:
    inner = MemoryFileIO()
    table = tidelake.open("/w", fileio=inner).create_table("db.t", SCHEMA)
    for number in range(2):
        table.write([{"k": number, "v": 0}])
    table.tags.create("a")
    return inner
