"""Orphan files: what counts as one, and that it is removed after two looks only."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace

import pyarrow as pa
import pytest

import tidelake
from tidelake import ConflictError, CorruptError, InvalidInputError, NotFoundError, StorageError
from tidelake.commit.orphans import NamedFiles, quarantine
from tidelake.maintenance import call
from tidelake.table.jobs import orphans
from tidelake.table.stream.lease import held_snapshot
from tidelake.telemetry import ManualClock
from tidelake.testing import FaultMode, FaultyFileIO

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64()})
DAY_S = 86_400
OF_KEYS = {"bucket": 1, "changelog-producer": "input", "deletion-vectors.enabled": "false"}


def aged(place, days=3):
    """Make every file below a directory older."""
    for directory, _, names in os.walk(place):
        for name in names:
            path = f"{directory}/{name}"
            then = os.stat(path).st_mtime - days * DAY_S
            os.utime(path, (then, then))


def waited(table):
    """Make the quarantine older."""
    aged(f"{table.paths.location}/quarantine")


def made(catalog, name="db.t", *, partitioned=False, **options):
    keys = ["k"] if not partitioned else ["k", "v"]
    table = catalog.create_table(
        name,
        SCHEMA,
        primary_keys=keys,
        partition_keys=["v"] if partitioned else (),
        options=OF_KEYS | options,
    )
    for number in range(3):
        table.write([{"k": k, "v": number} for k in (number, 7)])
    return table


def put(table, path, data=b"orphan"):
    table.fileio.write_once(f"{table.paths.location}/{path}", data)
    return path


def paths(found, state=None):
    rows = found.files.to_pylist()
    return {row["path"] for row in rows if state in (None, row["state"])}


def there(table, path):
    return table.fileio.exists(f"{table.paths.location}/{path}")


def removed(catalog, table):
    """Two runs that are days apart."""
    aged(catalog.warehouse)
    table.maintenance.remove_orphan_files()
    waited(table)
    return table.maintenance.remove_orphan_files()


ORPHANS = (
    "bucket-0/data-1f-0.parquet",
    "manifest/manifest-1f-0",
    "manifest/manifest-list-1f-0",
    "index/index-1f-0",
    "statistics/stat-1f-0",
    "snapshot/.snapshot-7.0b62f3d4-6d2e-44b2-a5d3-5c1f5a8a2c11.tmp",
    "snapshot/.tidelake-0b62f3d4-6d2e-44b2-a5d3-5c1f5a8a2c11.tmp",
    "tag/.tidelake-0b62f3d4-6d2e-44b2-a5d3-5c1f5a8a2c11.tmp",
    "consumer/.tidelake-0b62f3d4-6d2e-44b2-a5d3-5c1f5a8a2c11.tmp",
    "branch/branch-b/snapshot/.tidelake-0b62f3d4-6d2e-44b2-a5d3-5c1f5a8a2c11.tmp",
)
OTHERS = (
    "README.txt",
    "bucket-0/half.managed.blob",
    "metadata/v9.metadata.json.bak",
    "consumer/consumer-c",
    "tag/notes",
    "elsewhere/data-1f-0.parquet",
    "_SUCCESS",
)


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(tmp_path)


def branch(table, name, tag=None):
    """A branch as Java Paimon makes it: copies of a schema, and of a snapshot and its tag."""
    base = f"{table.paths.branch_dir}/branch-{name}"
    files = table.fileio
    files.write_once(f"{base}/schema/schema-0", files.read_bytes(table.paths.schema(0)))
    if tag is not None:
        data = files.read_bytes(table.paths.tag(tag))
        number = json.loads(data)["id"]
        files.write_once(f"{base}/snapshot/snapshot-{number}", data)
        files.write_once(f"{base}/tag/tag-{tag}", data)


def test_files_that_nothing_names_are_removed_after_two_looks(catalog):
    table = made(catalog)
    branch(table, "b")
    for path in (*ORPHANS, *OTHERS):
        put(table, path, b'{"nextSnapshot": 1}')
    aged(catalog.warehouse)
    first = table.maintenance.remove_orphan_files()
    assert paths(first, "new") == set(ORPHANS)
    assert (first.removed_count, first.quarantined_count) == (0, len(ORPHANS))
    second = table.maintenance.remove_orphan_files()
    assert (second.removed_count, second.waiting_count) == (0, len(ORPHANS))
    waited(table)
    third = table.maintenance.remove_orphan_files()
    assert (third.removed_count, third.removed_bytes) == (len(ORPHANS), 19 * len(ORPHANS))
    assert not any(there(table, path) for path in ORPHANS)
    assert all(there(table, path) for path in OTHERS)
    assert table.count() == 4
    assert table.fileio.list_dir(f"{table.paths.location}/quarantine") == []
    assert not table.maintenance.remove_orphan_files().files.num_rows


def test_a_table_without_orphans_keeps_every_file(catalog):
    table = made(catalog)
    table.tags.create("t", snapshot_id=1)
    table.maintenance.analyze()
    table.compact(full=True)
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    branch(table, "b", tag="t")
    table.fileio.delete(table.paths.tag("t"))  # as Java Paimon does
    before = sorted(name for _, _, names in os.walk(catalog.warehouse) for name in names)
    assert removed(catalog, table).files.num_rows == 0
    after = sorted(name for _, _, names in os.walk(catalog.warehouse) for name in names)
    assert after == before


def test_buckets_of_partitions_are_searched(catalog):
    table = made(catalog, partitioned=True)
    orphan = put(table, "v=1/bucket-0/data-1f-0.parquet")
    marks = [put(table, path) for path in ("v=1/_SUCCESS", "v=1/other/x", "other/bucket-0/x")]
    assert paths(removed(catalog, table), "due") == {orphan}
    assert not there(table, orphan)
    assert all(there(table, path) for path in marks)


def test_young_files_stay(catalog):
    table = made(catalog)
    aged(catalog.warehouse)
    put(table, ORPHANS[0])
    assert not table.maintenance.remove_orphan_files().files.num_rows
    before_ms = int(time.time() * 1000) + 3_600_000
    with pytest.raises(InvalidInputError, match="is not in the past"):
        table.maintenance.remove_orphan_files(older_than=before_ms)
    with pytest.raises(InvalidInputError, match="has no time zone"):
        table.maintenance.remove_orphan_files(older_than="2024-01-01 00:00:00")


def test_a_clock_that_is_ahead_makes_no_file_old(catalog):
    table = made(catalog)
    put(table, ORPHANS[0])
    ahead = ManualClock(int(time.time() * 1000) + 30 * DAY_S * 1000)
    handle = replace(table.handle, env=replace(table.handle.env, clock=ahead))
    found = tidelake.table.Table(handle).maintenance.remove_orphan_files()
    assert not found.files.num_rows


def test_a_dry_run_changes_nothing(catalog):
    table = made(catalog)
    put(table, ORPHANS[0])
    aged(catalog.warehouse)
    found = table.maintenance.remove_orphan_files(dry_run=True)
    assert paths(found, "new") == {ORPHANS[0]}
    assert not table.fileio.list_dir(f"{table.paths.location}/quarantine")
    table.maintenance.remove_orphan_files()
    waited(table)
    found = table.maintenance.remove_orphan_files(dry_run=True)
    assert (found.removed_count, paths(found, "due")) == (1, {ORPHANS[0]})
    assert "would be removed" in repr(found)
    assert there(table, ORPHANS[0])


def test_a_file_that_is_committed_late_leaves_the_quarantine(catalog):
    table = made(catalog)
    tag = table.fileio.read_bytes(table.paths.snapshot(1))
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    orphan = put(table, ORPHANS[0])
    aged(catalog.warehouse)
    table.maintenance.remove_orphan_files()
    waited(table)
    document = json.loads(tag) | {"statistics": orphan.rpartition("/")[2]}
    document.pop("tidelake.checksum")
    newest = json.loads(table.fileio.read_bytes(table.paths.snapshot(3)))
    document |= {key: newest[key] for key in newest if "anifest" in key}
    table.fileio.write_once(table.paths.tag("late"), json.dumps(document).encode())
    assert not table.maintenance.remove_orphan_files().files.num_rows
    assert there(table, orphan)
    assert table.maintenance.quarantined_files().num_rows == 0


def test_a_file_that_changed_begins_anew(catalog):
    table = made(catalog)
    put(table, ORPHANS[0])
    aged(catalog.warehouse)
    table.maintenance.remove_orphan_files()
    waited(table)
    table.fileio.replace(f"{table.paths.location}/{ORPHANS[0]}", b"other")
    aged(catalog.warehouse)
    found = table.maintenance.remove_orphan_files()
    assert (found.removed_count, found.quarantined_count) == (0, 1)


def test_undeleted_files_stay_for_good(catalog):
    table = made(catalog)
    for path in ORPHANS[:2]:
        put(table, path)
    aged(catalog.warehouse)
    table.maintenance.remove_orphan_files()
    waiting = table.maintenance.quarantined_files()
    assert waiting["path"].to_pylist() == list(ORPHANS[:2])
    with pytest.raises(NotFoundError, match="is not in the quarantine"):
        table.maintenance.undelete_files(["bucket-0/data-1f-1.parquet"])
    assert table.maintenance.undelete_files([ORPHANS[0]]) == (ORPHANS[0],)
    waited(table)
    found = table.maintenance.remove_orphan_files()
    assert paths(found, "kept") == {ORPHANS[0]}
    assert there(table, ORPHANS[0])
    assert not there(table, ORPHANS[1])
    assert table.maintenance.undelete_files() == ()


def test_a_file_that_a_killed_run_removed_is_not_undeleted(catalog):
    table = made(catalog)
    for path in ORPHANS[:2]:
        put(table, path)
    aged(catalog.warehouse)
    table.maintenance.remove_orphan_files()
    table.fileio.delete(f"{table.paths.location}/{ORPHANS[0]}")
    with pytest.raises(NotFoundError, match="was removed"):
        table.maintenance.undelete_files([ORPHANS[0]])
    assert table.maintenance.undelete_files() == (ORPHANS[1],)


class _Deleting(FaultyFileIO):
    """A storage on which somebody acts before the first data file is deleted."""

    def __init__(self, inner, act):
        super().__init__(inner, {})
        self._act = act

    def delete(self, path, **given):
        if "/bucket-0/" in path and self._act is not None:
            act, self._act = self._act, None
            act()
        super().delete(path, **given)


def runs_beside(table, act):
    """A run that removes files, and what somebody does meanwhile."""
    beside = tidelake.table.Table(replace(table.handle, fileio=_Deleting(table.fileio, act)))
    return beside.maintenance.remove_orphan_files(parallelism=1)


@pytest.fixture
def due(catalog):
    """A table with two orphans that the next run removes."""
    table = made(catalog)
    found = [put(table, f"bucket-0/data-1f-{number}.parquet") for number in range(2)]
    aged(catalog.warehouse)
    table.maintenance.remove_orphan_files()
    waited(table)
    return table, found


def test_a_file_that_a_run_removes_now_is_not_undeleted(due):
    table, found = due

    def undelete():
        with pytest.raises(ConflictError, match="2 of 2 files"):
            table.maintenance.undelete_files()

    assert runs_beside(table, undelete).removed_count == 2
    assert not any(there(table, path) for path in found)


def test_a_file_that_a_run_would_remove_later_is_undeleted(due, monkeypatch):
    monkeypatch.setattr(orphans, "REMOVED_AT_ONCE", 1)
    table, (first, second) = due
    done = runs_beside(table, lambda: table.maintenance.undelete_files([second]))
    assert (done.removed_count, done.failed_count) == (1, 0)
    assert (there(table, first), there(table, second)) == (False, True)
    left = table.fileio.list_dir(f"{table.paths.location}/quarantine")
    assert [status.name.partition("-")[0] for status in left] == ["kept"]


def test_what_a_killed_run_was_removing_is_cleared_later(catalog):
    table = made(catalog)
    path = put(table, "quarantine/removal-0", b"{}")
    aged(catalog.warehouse)
    table.maintenance.remove_orphan_files()
    assert not there(table, path)


@pytest.mark.parametrize("vital", ["manifest list", "manifest", "index", "tag", "snapshot"])
def test_what_cannot_be_read_ends_the_search(catalog, vital):
    table = made(catalog)
    table.tags.create("t", snapshot_id=1)
    table.maintenance.expire_snapshots(retain_max=2, retain_min=1)
    put(table, ORPHANS[0])
    newest = table.handle.snapshots.latest()
    files, where = table.fileio, table.paths
    manifests = table.handle.manifests.manifest_list(files, where, newest.base_manifest_list)
    match vital:
        case "manifest list":
            files.delete(where.manifest(newest.base_manifest_list))
        case "manifest":
            files.delete(where.manifest(manifests[0].file_name))
        case "tag":
            files.replace(where.tag("t"), b"{")
        case "snapshot":
            files.replace(where.snapshot(3), b"{")
        case "index":
            document = json.loads(files.read_bytes(where.snapshot(3)))
            document.pop("tidelake.checksum")
            document["indexManifest"] = "index-manifest-gone-0"
            files.replace(where.snapshot(3), json.dumps(document).encode())
    aged(catalog.warehouse)
    table = tidelake.open(catalog.warehouse).table("db.t")
    with pytest.raises((NotFoundError, CorruptError)):
        table.maintenance.remove_orphan_files()
    assert there(table, ORPHANS[0])


def test_a_key_that_may_name_files_ends_the_search(catalog):
    table = made(catalog)
    path = table.paths.snapshot(3)
    document = json.loads(table.fileio.read_bytes(path)) | {"blobManifest": "blob-1"}
    document.pop("tidelake.checksum")
    table.fileio.replace(path, json.dumps(document).encode())
    aged(catalog.warehouse)
    with pytest.raises(CorruptError, match="blobManifest"):
        table.maintenance.remove_orphan_files()


def test_a_branch_without_schema_ends_the_search(catalog):
    table = made(catalog)
    put(table, "branch/branch-b/snapshot/EARLIEST", b"1")
    aged(catalog.warehouse)
    with pytest.raises(NotFoundError, match="has no schema"):
        table.maintenance.remove_orphan_files()


def test_every_listing_that_fails_ends_the_search(catalog):
    table = made(catalog)
    put(table, ORPHANS[0])
    aged(catalog.warehouse)
    table.maintenance.remove_orphan_files()
    waited(table)
    traced = FaultyFileIO(table.fileio, {})
    seen = tidelake.table.Table(replace(table.handle, fileio=traced))
    assert seen.maintenance.remove_orphan_files(dry_run=True).removed_count == 1
    calls = [entry.call for entry in traced.trace if entry.op == "list_dir"]
    assert len(calls) > 10
    for number in calls:
        faulty = FaultyFileIO(table.fileio, {number: FaultMode.EIO_BEFORE})
        failing = tidelake.table.Table(replace(table.handle, fileio=faulty))
        with pytest.raises(StorageError):
            failing.maintenance.remove_orphan_files(dry_run=True)
    assert there(table, ORPHANS[0])


def test_a_live_reader_without_its_snapshot_puts_removal_off(catalog):
    table = made(catalog)
    put(table, ORPHANS[0])
    aged(catalog.warehouse)
    table.maintenance.remove_orphan_files()
    with held_snapshot(table.handle, 2):
        waited(table)
        for number in (1, 2):
            table.fileio.delete(table.paths.snapshot(number))
        table.fileio.replace(table.paths.earliest_hint, b"3")
        found = table.maintenance.remove_orphan_files()
        assert found.held_by.startswith("read-")
        assert found.removed_count == 0
        assert "waits for the reader" in repr(found)
    assert table.maintenance.remove_orphan_files().removed_count >= 1


def test_a_reader_that_comes_during_the_search_puts_removal_off(due, monkeypatch):
    table, found = due
    readers = iter([None, "reader"])
    monkeypatch.setattr(NamedFiles, "reader_without_snapshot", lambda _: next(readers))
    result = table.maintenance.remove_orphan_files()
    assert (result.held_by, result.removed_count) == ("reader", 0)
    assert all(there(table, path) for path in found)
    assert table.maintenance.quarantined_files().num_rows == 2


def test_checksums_of_snapshots_go_with_them(catalog):
    table = made(catalog)
    of_live = [put(table, f"snapshot/.{name}.crc") for name in ("snapshot-3", "LATEST")]
    of_gone = put(table, "snapshot/.snapshot-9.crc")
    assert paths(removed(catalog, table), "due") == {of_gone}
    assert all(there(table, path) for path in of_live)


def test_a_listing_that_lacks_a_known_tag_ends_the_search(catalog):
    table = made(catalog)
    table.tags.create("t", snapshot_id=1)
    put(table, ORPHANS[0])
    aged(catalog.warehouse)
    table.maintenance.remove_orphan_files()
    waited(table)

    class Stale(FaultyFileIO):
        def list_dir(self, path):
            return [] if path.endswith("/tag") else super().list_dir(path)

    stale = tidelake.table.Table(replace(table.handle, fileio=Stale(table.fileio, {})))
    with pytest.raises(StorageError, match="lacks tag 't'"):
        stale.maintenance.remove_orphan_files()
    assert there(table, ORPHANS[0])


def test_damaged_files_of_the_quarantine_are_refused(catalog):
    table = made(catalog)
    aged(catalog.warehouse)
    for number, text in enumerate(("{", '{"version": 2}', '{"version": 1, "files": [[1]]}')):
        path = put(table, f"quarantine/files-{number}", text.encode())
        with pytest.raises(CorruptError, match="quarantine"):
            table.maintenance.remove_orphan_files()
        table.fileio.delete(f"{table.paths.location}/{path}")


def test_many_files_take_several_manifests(catalog, monkeypatch):
    monkeypatch.setattr(quarantine, "FILES_MAX", 4)
    table = made(catalog)
    for number in range(10):
        put(table, f"bucket-0/data-{number}.parquet")
    aged(catalog.warehouse)
    table.maintenance.remove_orphan_files()
    assert len(table.fileio.list_dir(f"{table.paths.location}/quarantine")) == 3
    waited(table)
    assert table.maintenance.remove_orphan_files().removed_count == 10


def test_files_that_iceberg_shows_stay(catalog):
    pytest.importorskip("pyiceberg")
    options = {"metadata.iceberg.storage": "table-location", "changelog-producer": "none"}
    table = made(catalog, **options)
    table.compact(full=True)
    for number in (4, 3, 2, 1):
        table.fileio.delete(table.paths.snapshot(number))
    for name in ("LATEST", "EARLIEST"):
        table.fileio.delete(f"{table.paths.snapshot_dir}/{name}")
    aged(catalog.warehouse)
    found = paths(table.maintenance.remove_orphan_files())
    data = {p for p in found if p.startswith("bucket-0")}
    listed = {s.name for s in table.fileio.list_dir(f"{table.paths.location}/bucket-0")}
    assert len(listed) - len(data) == 1  # the one that Iceberg's readers see


def test_all_tables_of_a_database_are_searched(catalog):
    first, second = made(catalog), made(catalog, "db.u")
    for table in (first, second, made(catalog, "other.t")):
        put(table, ORPHANS[0])
    aged(catalog.warehouse)
    second.fileio.replace(second.paths.snapshot(3), b"{")
    dropped = f"{catalog.warehouse}/.tidelake-staging/0b62f3d4-dropped"
    catalog.fileio.write_once(f"{dropped}/schema/schema-0", b"{}")
    dry = catalog.remove_orphan_files("db.*", dry_run=True)
    assert dry.dropped_directories == 1
    found = catalog.remove_orphan_files("db.*")
    assert [t.table for t in found.tables] == ["db.t"]
    assert isinstance(found.failed["db.u"], CorruptError)
    assert (found.quarantined_count, found.quarantined_bytes, found.removed_count) == (1, 6, 0)
    assert found.dropped_directories == 1
    assert not catalog.fileio.exists(dropped)
    waited(first)
    assert catalog.remove_orphan_files("db.t").removed_bytes == 6
    assert len(catalog.remove_orphan_files("*.*", dry_run=True).tables) == 2
    with pytest.raises(NotFoundError, match="does not exist"):
        catalog.remove_orphan_files("nowhere.*")
    with pytest.raises(NotFoundError, match="does not exist"):
        catalog.remove_orphan_files("db.v")
    with pytest.raises(InvalidInputError, match="parallelism"):
        catalog.remove_orphan_files("db.t", parallelism=0)


def test_the_procedure_answers_as_paimons(catalog):
    table = made(catalog)
    put(table, ORPHANS[0])
    aged(catalog.warehouse)
    asked = {"table": "db.t", "parallelism": 2, "mode": "LOCAL"}
    assert list(call(catalog, "sys.remove_orphan_files", named=asked).to_pylist()[0].items()) == [
        ("deletedFileCount", 0),
        ("deletedFileTotalLenInBytes", 0),
        ("quarantinedFileCount", 1),
        ("quarantinedFileTotalLenInBytes", 6),
    ]
    waited(table)
    older = int(time.time() * 1000) - 1000
    assert there(table, ORPHANS[0])
    for dry_run in (True, False):
        given = {"table": "db.*", "older_than": older, "dry_run": dry_run}
        answer = call(catalog, "remove_orphan_files", named=given).to_pylist()[0]
        assert answer["deletedFileCount"] == 1
        assert there(table, ORPHANS[0]) is dry_run
    with pytest.raises(InvalidInputError, match="'local' or 'distributed'"):
        call(catalog, "remove_orphan_files", named={"table": "db.t", "mode": "far"})
    table.fileio.replace(table.paths.snapshot(3), b"{")
    with pytest.raises(CorruptError):
        call(catalog, "remove_orphan_files", named={"table": "db.*"})


def test_a_branch_and_its_table_keep_each_others_files(catalog):
    table = made(catalog)
    put(table, ORPHANS[0])
    table.branches.create("b")
    on_branch = catalog.table("db.t$branch_b")
    for number in range(2):
        on_branch.write([{"k": 20 + number, "v": 1}])
        table.write([{"k": 30 + number, "v": 1}])
    aged(catalog.warehouse)
    assert paths(on_branch.maintenance.remove_orphan_files()) == {ORPHANS[0]}
    waited(table)
    assert on_branch.maintenance.remove_orphan_files().removed_count == 1
    assert (table.count(), on_branch.count()) == (6, 2)
    assert not table.maintenance.remove_orphan_files().files.num_rows


@pytest.mark.parametrize("by", ["catalog", "procedure"])
def test_a_branch_is_searched_by_its_name(catalog, by):
    table = made(catalog)
    table.branches.create("b")
    put(table, ORPHANS[0])
    aged(catalog.warehouse)
    name = "db.t$branch_b"
    if by == "catalog":
        assert [t.table for t in catalog.remove_orphan_files(name).tables] == ["db.t"]
    else:
        call(catalog, "remove_orphan_files", named={"table": name})
    assert table.maintenance.quarantined_files()["path"].to_pylist() == [ORPHANS[0]]
    with pytest.raises(InvalidInputError, match="is a system table"):
        catalog.remove_orphan_files("db.t$files")


def test_a_reader_of_a_branch_puts_removal_off(catalog):
    table = made(catalog)
    table.branches.create("b")
    on_branch = catalog.table("db.t$branch_b")
    for number in range(3):
        on_branch.write([{"k": number, "v": 1}])
    put(table, ORPHANS[0])
    aged(catalog.warehouse)
    with held_snapshot(on_branch.handle, 1):
        on_branch.fileio.delete(on_branch.paths.snapshot(1))
        on_branch.fileio.replace(on_branch.paths.earliest_hint, b"2")
        assert table.maintenance.remove_orphan_files(dry_run=True).held_by.startswith("read-")
