"""Rollback, drop, create and rename at every storage call of whoever is slow beside them."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from proving.fsck import check_table
from proving.rooted import RootedFileIO
from proving.standstill import at_each_call
from sizes import SIZE

import tidelake
from tidelake import AddColumn, NotFoundError, OutcomeUnknownError, StorageError
from tidelake.errors import ConflictError
from tidelake.fileio import MemoryFileIO
from tidelake.telemetry import Env

COLUMNS = pa.schema({"k": pa.int64(), "v": pa.string()})
ANEW = pa.schema({"k": pa.int64(), "w": pa.int64(), "v": pa.int32()})
OPTIONS = {"bucket": 1, "num-sorted-run.compaction-trigger": 3}
RETAINED = {"snapshot.num-retained.min": 2, "snapshot.num-retained.max": 4}
SEEDS = itertools.count(1)


def catalog_on(files):
    return tidelake.open("/w", fileio=files, env=Env.seeded(next(SEEDS)))


def opened(files):
    return catalog_on(files).table("db.t")


def filled(options=OPTIONS):
    """What makes copies of a storage with one table of four commits."""
    files = MemoryFileIO()
    fill(files, options)

    def copy():
        made = MemoryFileIO()
        made._files.update(files._files)
        made._dirs.update({path: dict(names) for path, names in files._dirs.items()})
        return made

    return copy


def fill(files, options=OPTIONS):
    table = catalog_on(files).create_table("db.t", COLUMNS, primary_keys=["k"], options=options)
    for k in range(1, 5):
        table.write([{"k": k, "v": f"v{k}"}])
    return files


def moments(world, operation, act):
    return at_each_call(
        world, opened, operation, act,
        step=SIZE.paused_step, decisive_step=SIZE.paused_decisive_step,
    )  # fmt: skip


def keys(table):
    return sorted(table.to_arrow()["k"].to_pylist())


def hint_of(files, name="LATEST"):
    path = f"/w/db.db/t/snapshot/{name}"
    return int(files.read_bytes(path)) if files.exists(path) else None


def check_hints(files, where):
    """What Java takes at its word names a snapshot that is there."""
    for name in ("LATEST", "EARLIEST"):
        hint = hint_of(files, name)
        there = hint is None or files.exists(f"/w/db.db/t/snapshot/snapshot-{hint}")
        assert there, f"{where}: {name} names {hint}"


def write(table):
    return table.write([{"k": 9, "v": "mine"}])


OPERATIONS = {
    "write": write,
    "overwrite": lambda t: t.write([{"k": 9, "v": "mine"}], mode="overwrite"),
    "delete": lambda t: t.delete("k = 1"),
    "compact": lambda t: t.compact(full=True),
    "expire": lambda t: t.maintenance.expire_snapshots(retain_max=1, retain_min=1, max_deletes=99),
    "rollback": lambda t: t.rollback_to(3),
    "tag": lambda t: t.tags.create("one"),
    "alter": lambda t: t.alter(AddColumn("x", "INT")),
}


# ---- a rollback


@pytest.mark.parametrize("options", [OPTIONS, OPTIONS | RETAINED])
def test_a_write_beside_a_rollback_is_there_or_was_taken_back(options):
    at_first = None
    for moment in moments(filled(options), write, lambda f: opened(f).rollback_to(3)):
        files, where = moment.files, moment.where
        table = opened(files)
        found = keys(table)
        if moment.others is None:
            assert found in ([1, 2, 3], [1, 2, 3, 9]), f"{where}: {found}"
        else:  # snapshot 3 had expired
            assert found == [1, 2, 3, 4, 9], f"{where}: {found}, {moment.others}"
        at_first = at_first or found
        if moment.error is not None:
            assert 9 not in found, where
            assert isinstance(moment.error, ConflictError), f"{where}: {moment.error}"
        check_hints(files, where)
        check_table(files, "/w/db.db/t")
        table.history()
        table.write([{"k": 10, "v": "after"}])
        assert keys(opened(files)) == [*found, 10], where
        check_hints(files, where)
        check_table(files, "/w/db.db/t")
    assert 9 in at_first, "a rollback that is over before the write began does not hinder it"


@pytest.mark.parametrize("what", ["expire", "compact", "delete", "rollback", "tag", "overwrite"])
def test_what_is_slow_beside_a_rollback_leaves_a_whole_table(what):
    for moment in moments(filled(), OPERATIONS[what], lambda f: opened(f).rollback_to(2)):
        files, where = moment.files, f"{what}, {moment.where}"
        table = opened(files)
        found = keys(table)
        possible = {"delete": [2], "overwrite": [9], "rollback": [1, 2, 3]}.get(what)
        if moment.others is None:
            assert found in ([1, 2], possible), f"{where}: {found}"
        check_hints(files, where)
        check_table(files, "/w/db.db/t")
        assert table.latest_snapshot_id >= 2, where
        write(table)
        assert 9 in keys(opened(files)), where
        opened(files).maintenance.expire_snapshots(retain_max=1, retain_min=1, max_deletes=99)
        check_table(files, "/w/db.db/t")


def test_a_write_beside_a_rollback_and_as_many_commits_again_loses_none_of_them():
    def go_on(files):
        table = opened(files)
        table.rollback_to(2)
        for k in (7, 8):  # the newest has the number of the one that the writer builds on
            table.write([{"k": k, "v": "theirs"}], options={"write-only": "true"})

    options = OPTIONS | {"write-only": "true"}
    for moment in moments(filled(options), write, go_on):
        found = keys(opened(moment.files))
        mine = [9] if 9 in found else []
        assert found == [1, 2, 7, 8, *mine], f"{moment.where}: {found}"
        assert mine or moment.error is None or isinstance(moment.error, ConflictError)
        check_table(moment.files, "/w/db.db/t")


def test_what_an_expiry_holds_does_not_come_back_behind_a_rollback_to_an_older_tag():
    files = fill(MemoryFileIO())
    table = opened(files)
    table.tags.create("old", snapshot_id=2)
    newest = table.latest_snapshot_id
    table.maintenance.expire_snapshots(retain_max=newest - 2, retain_min=1)

    def copy():
        made = MemoryFileIO()
        made._files.update(files._files)
        made._dirs.update({path: dict(names) for path, names in files._dirs.items()})
        return made

    for moment in moments(copy, OPERATIONS["expire"], lambda f: opened(f).rollback_to(tag="old")):
        found = opened(moment.files)
        assert found.latest_snapshot_id == 2, f"{moment.where}: {found.latest_snapshot_id}"
        assert keys(found) == [1, 2], moment.where


def test_of_two_rollbacks_the_one_that_goes_further_back_stays():
    for moment in moments(filled(), OPERATIONS["rollback"], lambda f: opened(f).rollback_to(1)):
        assert keys(opened(moment.files)) in ([1], [1, 2, 3]), moment.where
        check_table(moment.files, "/w/db.db/t")
        if moment.error is not None:
            assert moment.error.kind in ("rollback_race", "rollback_target", "snapshot_not_found")


def test_an_expiry_of_a_dropped_table_leaves_no_changelog_in_the_next():
    options = OPTIONS | {"changelog-producer": "input", "changelog.num-retained.max": 99}
    for moment in moments(filled(options), OPERATIONS["expire"], create_anew(2)):
        left = moment.files.list_dir("/w/db.db/t/changelog")
        assert [s.name for s in left if not s.is_dir] == [], moment.where


# ---- a drop, and another table of the name


def drop(files):
    catalog_on(files).drop_table("db.t")


def create_anew(writes):
    def act(files):
        drop(files)
        table = catalog_on(files).create_table(
            "db.t", ANEW, primary_keys=["k"], options={"bucket": 1, "write-only": "true"}
        )
        for k in range(writes):
            table.write([{"k": 100 + k, "w": k, "v": k}])
            if k % 2:
                table.tags.create(f"t{k}")

    return act


@pytest.mark.parametrize("writes", [0, 6])
@pytest.mark.parametrize("what", OPERATIONS)
def test_what_is_slow_in_a_dropped_table_changes_nothing_in_the_next(what, writes):
    _check_anew(filled(), what, writes)


def test_a_write_to_a_dropped_table_changes_nothing_in_the_next_on_a_disk(tmp_path_factory):
    _check_anew(lambda: fill(RootedFileIO(tmp_path_factory.mktemp("w"))), "write", 6)


def _check_anew(world, what, writes):
    expected = [100 + k for k in range(writes)]
    refused = 0
    for moment in moments(world, OPERATIONS[what], create_anew(writes)):
        files, where = moment.files, f"{what}, {moment.where}"
        table = opened(files)
        assert table.schema.names == ["k", "w", "v"], where
        assert keys(table) == expected, f"{where}: {keys(table)}"
        assert table.latest_snapshot_id == (writes or None), where
        assert table.history().num_rows == writes, where
        assert sorted(table.handle.tags.names()) == [f"t{k}" for k in range(1, writes, 2)], where
        if moment.error is not None:
            refused += 1
            unknown = isinstance(moment.error, OutcomeUnknownError)
            assert not unknown, f"{where}: {moment.error!r}"
        table.write([{"k": 500, "w": 1, "v": 1}])
        assert keys(opened(files)) == [*expected, 500], where
        check_table(files, "/w/db.db/t")
        check_hints(files, where)
    assert refused >= 3


@pytest.mark.parametrize("what", OPERATIONS)
def test_what_is_slow_in_a_dropped_table_brings_nothing_back(what):
    for moment in moments(filled(), OPERATIONS[what], drop):
        files, where = moment.files, f"{what}, {moment.where}"
        catalog = catalog_on(files)
        assert catalog.list_tables("db") == [], where
        unknown = isinstance(moment.error, OutcomeUnknownError)
        assert not unknown, f"{where}: {moment.error!r}"
        catalog.create_table("db.t", ANEW, primary_keys=["k"], options={"bucket": 1})
        catalog.table("db.t").write([{"k": 1, "w": 1, "v": 1}])
        assert keys(opened(files)) == [1], where
        check_table(files, "/w/db.db/t")


def test_a_write_beside_a_rename_is_in_the_table_or_refused():
    outcomes = set()
    rename = lambda f: catalog_on(f).rename_table("db.t", "db.u")  # noqa: E731
    for moment in moments(filled(), write, rename):
        files, where = moment.files, moment.where
        found = keys(catalog_on(files).table("db.u"))
        outcome = "written" if moment.error is None else type(moment.error).__name__
        outcomes.add((outcome, 9 in found))
        if 9 in found:
            unknown = isinstance(moment.error, OutcomeUnknownError)
            assert moment.error is None or unknown, f"{where}: {moment.error!r}"
        else:
            assert isinstance(moment.error, NotFoundError), f"{where}: {moment.error!r}"
        check_table(files, "/w/db.db/u")
        assert catalog_on(files).list_tables("db") == ["u"], where
    assert {("NotFoundError", False), ("OutcomeUnknownError", True), ("written", True)} == outcomes


# ---- hints that come late


def test_issue_22_a_late_hint_locks_no_table():
    """A committer stands still before it writes LATEST = 5, and dies after it."""
    files = fill(MemoryFileIO())
    table = opened(files)
    newest = table.latest_snapshot_id
    table.rollback_to(2)
    files.replace("/w/db.db/t/snapshot/LATEST", str(newest).encode())
    again = opened(files)
    assert keys(again) == [1, 2]
    again.to_arrow(snapshot_id=1)
    again.compact(full=True)
    files.replace("/w/db.db/t/snapshot/LATEST", b"9")
    again.maintenance.expire_snapshots(retain_max=2, retain_min=1)
    assert keys(opened(files)) == [1, 2]
    again.write([{"k": 9, "v": "x"}])
    check_hints(files, "a commit mends it")
    files.replace("/w/db.db/t/snapshot/LATEST", b"9")
    again.rollback_to(again.latest_snapshot_id)
    check_hints(files, "a rollback mends it")
    assert keys(opened(files)) == [1, 2, 9]


def test_a_table_without_a_directory_of_snapshots_is_written():
    """Java makes it with the first commit."""
    files = MemoryFileIO()
    catalog_on(files).create_table("db.t", COLUMNS, primary_keys=["k"], options=OPTIONS)
    assert not files.exists("/w/db.db/t/snapshot")
    write(opened(files))
    assert keys(opened(files)) == [9]


# ---- a storage that refuses


@pytest.mark.parametrize("first", [True, False])
def test_issue_22_a_refused_link_ends_the_commit_and_leaves_nothing(tmp_path, monkeypatch, first):
    import errno
    import os

    catalog = tidelake.open(tmp_path)
    table = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options=OPTIONS)
    if not first:
        write(table)
    before = sorted(p for p in tmp_path.rglob("*") if p.is_file())
    slept = []
    monkeypatch.setattr(type(table.handle.env.clock), "sleep_ms", lambda _, ms: slept.append(ms))
    link = os.link
    for code in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EROFS, errno.EACCES):

        def refuse(*_args, code=code, **_kwargs):
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(os, "link", refuse)
        with pytest.raises(StorageError, match=os.strerror(code)) as caught:
            table.write([{"k": 10, "v": "x"}])
        assert not isinstance(caught.value, OutcomeUnknownError)
        assert sorted(p for p in tmp_path.rglob("*") if p.is_file()) == before
    assert slept == []
    monkeypatch.setattr(os, "link", link)
    table.write([{"k": 11, "v": "x"}])
    assert keys(catalog.table("db.t")) == ([11] if first else [9, 11])
