"""The scanner sees what becomes of a table: commits, compactions, rollbacks, new schemas, drops."""

from __future__ import annotations

import pytest
from unit.service.service_kit import SCHEMA, made_table

import tidelake
from tidelake.errors import InvalidInputError, NotFoundError, StorageRefusedError
from tidelake.metadata.log.consumer import ConsumerLog
from tidelake.scan import split_from_bytes
from tidelake.service.address.snapshot_scanner import SnapshotFileScanner, TableVersion


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(tmp_path)


@pytest.fixture
def scan(catalog):
    made = []

    def open_scanner(name="db.t"):
        scanner = SnapshotFileScanner(catalog, name, service_id=f"s{len(made)}", generation=5)
        made.append(scanner)
        return scanner

    yield open_scanner
    for scanner in made:
        scanner.close()


def everything(bucket_id):
    return True


def names(changes, index):
    """The file names of each bucket, before (2) or after (3)."""
    return {
        c[0].bucket: [
            f.file_name
            for section in split_from_bytes(c[index]).sections
            for run in section
            for f in run
        ]
        for c in changes.changes
        if c[index]
    }


def test_commits_are_seen_and_changes_name_the_changed_buckets_only(catalog, scan):
    table = made_table(catalog, rows=0)
    scanner = scan()
    assert scanner.poll()
    assert scanner.state.version == TableVersion(5, 0, 0)
    assert not scanner.poll()
    table.write([{"id": i, "v": "a"} for i in range(20)])
    assert scanner.poll()
    first = scanner.changes(TableVersion(), everything)
    assert first.whole
    assert sorted(names(first, 3)) == [0, 1]
    table.write([{"id": 3, "v": "b"}])
    assert scanner.poll()
    second = scanner.changes(first.version, everything)
    assert second.version == TableVersion(5, 2, 0)
    assert not second.whole
    (bucket,) = names(second, 3)
    assert names(second, 2)[bucket] == names(first, 3)[bucket]
    assert len(names(second, 3)[bucket]) == 2
    assert scanner.changes(second.version, everything).changes == ()
    assert scanner.changes(first.version, lambda b: b.bucket != bucket).changes == ()


def test_a_table_that_may_not_be_written_is_served_without_a_hold(catalog, scan, caplog):
    table = made_table(catalog, rows=3)
    log = ConsumerLog(table.fileio, table.handle.paths)

    def refused(*_, **__):
        raise StorageRefusedError("Read-only file system", kind="not_writable")

    scanner = scan()
    for name in ("put_if_absent", "replace", "open_dir"):
        if hasattr(scanner.fileio, name):
            setattr(scanner.fileio, name, refused)
    assert scanner.poll()
    assert scanner.problem == ""
    assert scanner.state.version.snapshot == table.latest_snapshot_id
    assert log.states() == {}
    assert not scanner.poll()
    assert caplog.text.count("goes on without a hold") == 1


def test_a_compaction_is_a_change_of_files(catalog, scan):
    table = made_table(catalog, buckets=1)
    table.write([{"id": 1, "v": "b"}])
    scanner = scan()
    scanner.poll()
    before = scanner.state.version
    table.compact(full=True)
    assert scanner.poll()
    changes = scanner.changes(before, everything)
    assert len(names(changes, 2)[0]) == 2
    assert len(names(changes, 3)[0]) == 1


def test_a_rollback_begins_a_generation_also_when_the_id_comes_again(catalog, scan):
    table = made_table(catalog)
    table.write([{"id": 1, "v": "b"}])
    scanner = scan()
    scanner.poll()
    assert scanner.state.version == TableVersion(5, 2, 0)
    table.rollback_to(1)
    scanner.poll()
    assert scanner.state.version == TableVersion(6, 1, 0)
    table.write([{"id": 1, "v": "c"}])
    scanner.poll()
    seen = scanner.state.version
    assert seen == TableVersion(6, 2, 0)
    table.rollback_to(1)
    table.write([{"id": 1, "v": "d"}])
    table.write([{"id": 1, "v": "e"}])
    scanner.poll()
    assert scanner.state.version == TableVersion(7, 3, 0)
    assert scanner.changes(seen, everything).whole


def test_a_table_made_anew_is_another_generation_with_its_own_schema(catalog, scan):
    table = made_table(catalog)
    table.add_column("w", "INT")
    scanner = scan()
    scanner.poll()
    assert scanner.state.version == TableVersion(5, 1, 1)
    catalog.drop_table("db.t")
    assert scanner.poll()
    assert not scanner.state
    with pytest.raises(NotFoundError, match="dropped"):
        scanner.changes(TableVersion(), everything)
    made_table(catalog, buckets=3)
    assert scanner.poll()
    assert scanner.state.version == TableVersion(6, 1, 0)
    assert len(scanner.state.buckets) == 3
    catalog.drop_table("db.t")
    made_table(catalog, rows=5)
    scanner.poll()
    assert scanner.state.version == TableVersion(7, 1, 0)


def test_a_new_schema_is_a_new_version_before_any_commit(catalog, scan):
    table = made_table(catalog)
    scanner = scan()
    scanner.poll()
    table.add_column("w", "INT")
    assert scanner.poll()
    assert scanner.state.version == TableVersion(5, 1, 1)
    assert scanner.changes(TableVersion(5, 1, 0), everything).whole


def test_a_lease_holds_the_oldest_snapshot_until_it_is_released(catalog, scan):
    table = made_table(catalog)
    scanner = scan()
    scanner.poll()
    for number in range(4):
        table.write([{"id": 1, "v": f"x{number}"}])
    scanner.poll()
    table.maintenance.expire_snapshots(
        retain_max=1, retain_min=1, older_than="2100-01-01 00:00:00Z"
    )
    assert table.handle.snapshots.earliest_id() == 1
    scanner.release(4)
    table.maintenance.expire_snapshots(
        retain_max=1, retain_min=1, older_than="2100-01-01 00:00:00Z"
    )
    assert table.handle.snapshots.earliest_id() == 4
    scanner.close()
    assert not ConsumerLog(table.fileio, table.paths).next_ids()


def test_no_commit_and_no_lock_is_left_in_the_table(catalog, scan):
    table = made_table(catalog)
    before = table.latest_snapshot_id
    scanner = scan()
    for _ in range(5):
        scanner.poll()
    assert table.latest_snapshot_id == before


def test_a_table_without_a_key_is_refused(catalog, scan):
    catalog.create_table("db.log", SCHEMA)
    with pytest.raises(InvalidInputError, match="no primary key"):
        scan("db.log")
    with pytest.raises(NotFoundError):
        scan("db.none")
    made_table(catalog)
    with pytest.raises(InvalidInputError, match="no primary key"):
        scan("db.t$snapshots")
