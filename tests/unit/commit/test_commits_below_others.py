"""A commit whose put comes after others took its number, and their snapshot of it expired."""

from __future__ import annotations

import pyarrow as pa
import pytest
from unit.commit.commit_world import RemoteMemory

import tidelake
from tidelake.errors import OutcomeUnknownError, StorageError
from tidelake.fileio import MemoryFileIO

COLUMNS = pa.schema({"k": pa.int64()})


class Paused:
    """Others act right before and right behind the first put of a snapshot of an id."""

    def __init__(self, snapshot_id):
        super().__init__()
        self.name, self.before, self.behind = f"/snapshot/snapshot-{snapshot_id}", None, None
        self.failing, self.is_unanswered = None, False

    def put_if_absent(self, path, data, **named):
        before = behind = None
        if path.endswith(self.name):
            before, behind = self.before, self.behind
            self.before = self.behind = None
        if before is not None:
            before()
        done = super().put_if_absent(path, data, **named)
        if behind is not None:
            behind()
            if self.is_unanswered:
                raise StorageError("No answer.", path=path)
        return done

    def read_bytes(self, path, **named):
        if self.failing is not None and path.endswith(self.failing):
            raise StorageError("The storage is away.", path=path)
        return super().read_bytes(path, **named)


class OnDisk(Paused, MemoryFileIO):
    """A storage with directories."""


class InStore(Paused, RemoteMemory):
    """A store: a directory is only a path, and independent requests go at once."""


STORAGES = pytest.mark.parametrize("storage", [OnDisk, InStore])


def made(storage, before, **options):
    """A table with some commits, and its storage."""
    files = storage(before + 1)
    table = tidelake.open("/w", fileio=files).create_table(
        "db.t", COLUMNS, primary_keys=["k"], options={"write-only": "true", **options}
    )
    for key in range(before):
        table.write([{"k": key}])
    return table, files


def opened(files):
    return tidelake.open("/w", fileio=files).table("db.t")


def keys_of(files):
    return opened(files).to_arrow().sort_by("k")["k"].to_pylist()


def write_and_expire(files, count, *, compacts=False):
    table = opened(files)
    for key in range(count):
        if compacts:
            table.compact(full=True)
        table.write([{"k": 100 + key}])
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)


@STORAGES
@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("meanwhile", [1, 2, 4])
def test_a_commit_whose_number_was_taken_and_has_expired_is_not_lost(storage, before, meanwhile):
    ours, files = made(storage, before)
    files.before = lambda: write_and_expire(files, meanwhile)
    written = ours.write([{"k": 50}])
    assert written.snapshot_ids == (before + meanwhile + 1,)
    expected = [*range(before), 50, *(100 + key for key in range(meanwhile))]
    assert keys_of(files) == expected
    assert opened(files).latest_snapshot_id == before + meanwhile + 1
    hint = files.read_bytes("/w/db.db/t/snapshot/LATEST")
    assert int(hint) == before + meanwhile + 1


@pytest.mark.parametrize("meanwhile", [2, 4])
def test_nor_where_its_base_came_back_by_a_request_that_was_late(meanwhile):
    ours, files = made(InStore, 2)
    base = files.read_bytes("/w/db.db/t/snapshot/snapshot-2")

    def others():
        write_and_expire(files, meanwhile)
        assert files.put_if_absent("/w/db.db/t/snapshot/snapshot-2", base)

    files.before = others
    assert ours.write([{"k": 50}]).snapshot_ids == (2 + meanwhile + 1,)
    assert keys_of(files) == [0, 1, 50, *(100 + key for key in range(meanwhile))]


@STORAGES
@pytest.mark.parametrize("is_unanswered", [False, True])
@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("meanwhile", [1, 2, 4])
def test_a_commit_that_expired_before_it_was_read_back_is_there(
    storage, before, meanwhile, is_unanswered
):
    """Others built on it: by the next snapshot, or by its files where that has expired, too."""
    ours, files = made(storage, before)
    files.is_unanswered = is_unanswered
    files.behind = lambda: write_and_expire(files, meanwhile)
    assert ours.write([{"k": 50}]).snapshot_ids == (before + 1,)
    assert keys_of(files) == [*range(before), 50, *(100 + key for key in range(meanwhile))]
    assert opened(files).latest_snapshot_id == before + meanwhile + 1
    assert int(files.read_bytes("/w/db.db/t/snapshot/LATEST")) == before + meanwhile + 1


@STORAGES
@pytest.mark.parametrize("before", [0, 2])
def test_of_one_that_expired_with_all_that_shows_it_the_outcome_is_unknown(storage, before):
    """Its file was replaced, and a merge of the manifests left that out."""
    merging = {"manifest.full-compaction-threshold-size": "1 b"}
    ours, files = made(storage, before, **merging)
    files.behind = lambda: write_and_expire(files, 2, compacts=True)
    with pytest.raises(OutcomeUnknownError, match="more than that has expired"):
        ours.write([{"k": 50}])
    assert keys_of(files) == [*range(before), 50, 100, 101]


@STORAGES
@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("meanwhile", [2, 3])
def test_one_that_came_late_and_was_removed_as_such_is_made_again(storage, before, meanwhile):
    """The next snapshot does not follow it, or is gone: then nothing is acknowledged."""
    ours, files = made(storage, before)

    def remove_it():
        opened(files).maintenance.expire_snapshots(retain_max=1, retain_min=1)
        assert not files.exists(f"/w/db.db/t{files.name}")

    files.before, files.behind = lambda: write_and_expire(files, meanwhile), remove_it
    expected = [*range(before), *(100 + key for key in range(meanwhile))]
    if meanwhile == 2:
        assert ours.write([{"k": 50}]).snapshot_ids == (before + meanwhile + 1,)
        assert keys_of(files) == sorted([*expected, 50])
        return
    with pytest.raises(OutcomeUnknownError, match="more than that has expired"):
        ours.write([{"k": 50}])
    assert keys_of(files) == expected


@STORAGES
@pytest.mark.parametrize("hint", ["EARLIEST", "LATEST", "snapshot-4"])
def test_where_the_storage_cannot_be_asked_the_outcome_is_unknown_or_right(storage, hint):
    ours, files = made(storage, 2)

    def others():
        write_and_expire(files, 2)
        files.failing = f"/snapshot/{hint}"

    files.before = others
    try:
        ours.write([{"k": 50}])
        said = [50]
    except OutcomeUnknownError:
        said = []
    files.failing = None
    assert keys_of(files) in ([0, 1, 100, 101], [0, 1, 50, 100, 101])
    assert set(said) <= set(keys_of(files))
