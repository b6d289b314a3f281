"""The cache on the local disk: what never changes is read once, and nothing else is kept."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from unit.fileio.contract import FileIOContract

import tidelake
from tidelake.errors import CorruptError, NotFoundError
from tidelake.fileio import CachedFileIO, LocalFileIO, MemoryFileIO
from tidelake.telemetry import SeededIds
from tidelake.testing import DelayedFileIO

UUID = "0b2f4c3e-52cf-4b3a-9f0e-6f0d7c1f5a11"
DATA = f"/t/bucket-0/data-{UUID}-0.parquet"
MIB = 1 << 20


class TestCachedFileIO(FileIOContract):
    @pytest.fixture
    def files(self, tmp_path):
        return CachedFileIO(MemoryFileIO(), str(tmp_path), bytes_max=MIB)

    @pytest.fixture
    def root(self):
        return "/w"


@pytest.fixture
def remote():
    files = DelayedFileIO(MemoryFileIO(), delay_ms=0)
    files.write_once(DATA, bytes(range(250)))
    files.write_once("/t/snapshot/snapshot-1", b"{}")
    files.reset()
    return files


@pytest.fixture
def cached(remote, tmp_path):
    return CachedFileIO(remote, str(tmp_path / "cache"), bytes_max=MIB)


def test_what_was_read_is_not_read_again(remote, cached):
    assert cached.read_range(DATA, 10, 50) == bytes(range(10, 60))
    assert cached.read_range(DATA, 20, 5) == bytes(range(20, 25))
    parts = cached.read_ranges(DATA, [(12, 3), (100, 20), (59, 1)])
    assert [bytes(p) for p in parts] == [bytes(range(12, 15)), bytes(range(100, 120)), b"\x3b"]
    assert remote.counts.bytes_read == 70
    assert remote.counts.requests == 2
    assert cached.read_bytes(DATA) == bytes(range(250))
    assert cached.read_bytes(DATA) == bytes(range(250))
    assert cached.read_range(DATA, 200, 50) == bytes(range(200, 250))
    assert remote.counts.requests == 3


def test_files_that_may_change_are_read_each_time(remote, cached):
    for _ in range(2):
        assert cached.read_bytes("/t/snapshot/snapshot-1") == b"{}"
        assert cached.read_range("/t/snapshot/snapshot-1", 0, 1) == b"{"
        assert bytes(cached.read_ranges("/t/snapshot/snapshot-1", [(1, 1)])[0]) == b"}"
    assert remote.counts.requests == 6


@pytest.mark.parametrize(
    "name",
    [
        f"x/tag-{UUID}",
        f"x/consumer-{UUID}",
        f"tag/tag-{UUID}",
        f"branch/branch-b/tag/tag-{UUID}",
        f"consumer/consumer-{UUID}",
        f"consumer/lease-3-{UUID}",
        f"branch/branch-{UUID}/snapshot/LATEST",
        f"snapshot/snapshot-1-{UUID}",
        f"schema/schema-0-{UUID}",
        f"changelog/changelog-1-{UUID}",
        f"service/service-{UUID}",
        f"metadata/{UUID}.metadata.json",
        UUID,
    ],
)
def test_a_name_that_is_written_again_is_read_each_time(remote, cached, name):
    """Users may give a tag, a consumer or a branch a uuid as its name."""
    for data in (b"one", b"two"):
        remote.replace(f"/t/{name}", data)
        assert cached.read_bytes(f"/t/{name}") == data
        assert cached.read_range(f"/t/{name}", 0, 3) == data


@pytest.mark.parametrize(
    "name",
    [
        f"p=1/bucket-0/data-{UUID}-0.parquet",
        f"bucket-postpone/data-u-me-s-0-w-{UUID}-0.avro",
        f"bucket-0/changelog-{UUID}-0.parquet",
        f"bucket-0/data-{UUID}-0.parquet.index",
        f"bucket-0/index-{UUID}-0",
        f"index/index-{UUID}-0",
        f"index/global-index-{UUID}.index",
        f"manifest/manifest-{UUID}-0",
        f"manifest/manifest-list-{UUID}-0",
        f"manifest/index-manifest-{UUID}-0",
        f"statistics/stat-{UUID}-0",
        f"branch/branch-b/manifest/manifest-{UUID}-0",
    ],
)
def test_a_name_that_is_written_once_is_read_once(remote, cached, name):
    remote.write_once(f"/t/{name}", b"one")
    for _ in range(2):
        assert cached.read_bytes(f"/t/{name}") == b"one"
    assert remote.counts.requests == 2  # with the write


def test_a_replaced_file_is_read_anew(cached):
    assert cached.read_bytes(DATA) == bytes(range(250))
    cached.replace(DATA, b"other")
    assert cached.read_bytes(DATA) == b"other"


def test_a_path_is_shown_as_the_storage_shows_it(remote, tmp_path):
    class Shown(DelayedFileIO):
        def uri_of(self, path):
            return f"s3://b{path}"

    files = Shown(MemoryFileIO(), delay_ms=0)
    assert CachedFileIO(files, str(tmp_path), bytes_max=MIB).uri_of("/t") == "s3://b/t"


def test_nothing_is_left_of_a_file_that_is_removed(cached, tmp_path):
    cached.read_bytes(DATA)
    cached.read_range(DATA, 3, 4)
    cached.delete(DATA)
    [shard] = (tmp_path / "cache").iterdir()
    assert list(shard.iterdir()) == []
    cached.write_once(DATA, b"again")
    assert cached.read_bytes(DATA) == b"again"
    assert len(_entries(tmp_path / "cache")) == 1


def test_another_process_and_another_place(remote, cached, tmp_path):
    cached.read_range(DATA, 0, 10)
    other = CachedFileIO(remote, str(tmp_path / "cache"), bytes_max=MIB)
    assert other.read_range(DATA, 0, 10) == bytes(range(10))
    assert remote.counts.requests == 1
    elsewhere = MemoryFileIO()
    elsewhere.write_once(DATA, b"other bytes")
    there = CachedFileIO(elsewhere, str(tmp_path / "cache"), bytes_max=MIB, place="s3://b")
    assert there.read_range(DATA, 0, 5) == b"other"


def _entries(directory) -> list[Path]:
    return sorted(p for p in Path(directory).rglob("*") if p.is_file())


@pytest.mark.parametrize("damage", ["flip", "cut", "grow", "empty"])
def test_a_damaged_entry_is_read_from_the_storage(remote, cached, tmp_path, damage):
    cached.read_range(DATA, 0, 200)
    [entry] = _entries(tmp_path / "cache")
    data = bytearray(entry.read_bytes())
    data[7] ^= 4 if damage == "flip" else 0
    ends = {"cut": 150, "empty": 0}.get(damage, 200)
    entry.write_bytes(data[:ends] + (b"x" if damage == "grow" else b""))
    assert cached.read_range(DATA, 3, 20) == bytes(range(3, 23))
    assert remote.counts.requests == 2
    assert cached.read_range(DATA, 3, 20) == bytes(range(3, 23))
    assert remote.counts.requests == 2


def test_a_disk_that_refuses_costs_requests_only(remote, tmp_path):
    taken = tmp_path / "cache"
    taken.write_bytes(b"a file, where the directory should be")
    cached = CachedFileIO(remote, str(taken), bytes_max=MIB)
    for _ in range(2):
        assert cached.read_range(DATA, 0, 3) == b"\0\1\2"
    assert remote.counts.requests == 2


def test_the_least_used_are_removed_beyond_the_limit(tmp_path):
    files = DelayedFileIO(MemoryFileIO(), delay_ms=0)
    ids = SeededIds(1)
    names = [f"/t/bucket-0/data-{ids.uuid()}-0.parquet" for _ in range(60)]
    for name in names:
        files.write_once(name, os.urandom(40_000))
    cached = CachedFileIO(files, str(tmp_path), bytes_max=MIB)
    for number, name in enumerate(names):
        cached.read_bytes(name)
        cached.read_bytes(names[0])  # in use all the time
        for at, entry in enumerate(_entries(tmp_path)):
            assert entry.stat().st_size <= 40_000, (number, at)
        assert sum(e.stat().st_size for e in _entries(tmp_path)) <= MIB
    files.reset()
    cached.read_bytes(names[0])
    cached.read_bytes(names[-1])
    assert files.counts.requests == 0
    cached.read_bytes(names[1])
    assert files.counts.requests == 1
    huge = f"/t/bucket-0/data-{ids.uuid()}-0.parquet"
    files.write_once(huge, bytes(MIB // 2))
    kept = _entries(tmp_path)
    cached.read_bytes(huge)
    assert _entries(tmp_path) == kept  # it would have pushed out half of the rest


def test_a_part_that_a_killed_process_left_is_removed_later(remote, cached, tmp_path):
    cached.read_range(DATA, 0, 10)
    [entry] = _entries(tmp_path / "cache")
    new, old = entry.parent / ".new.part", entry.parent / ".old.part"
    for part in (new, old):
        part.write_bytes(b"0")
    os.utime(old, (1, 1))
    CachedFileIO(remote, str(tmp_path / "cache"), bytes_max=MIB).read_range(DATA, 20, 10)
    assert new.exists()
    assert not old.exists()


@pytest.mark.parametrize(
    "name",
    [
        "film.part",
        ".film.part",
        "0-4096-0badcafe",
        "films/.film.part",
        "ab/.film.part",
        "ab/films/.film.part",
        f"ab/{'c' * 31}/0-4096-0badcafe",
        f"films/{'c' * 32}/.film.part",
        f"ab/{'c' * 32}/more/.film.part",
    ],
)
def test_a_file_of_somebody_else_stays(remote, cached, tmp_path, name):
    cached.read_range(DATA, 0, 10)
    theirs = tmp_path / "cache" / name
    theirs.parent.mkdir(parents=True, exist_ok=True)
    theirs.write_bytes(bytes(4096))
    os.utime(theirs, (1, 1))
    names = [f"/t/bucket-0/data-{SeededIds(seed).uuid()}-0.parquet" for seed in range(40)]
    again = CachedFileIO(remote, str(tmp_path / "cache"), bytes_max=MIB)
    for made in names:  # more than the limit, so entries are removed
        remote.write_once(made, bytes(40_000))
        again.read_bytes(made)
    assert len(_entries(tmp_path / "cache")) < len(names)
    assert theirs.exists()


def test_only_its_owner_may_look_into_it(remote, tmp_path):
    before = os.umask(0)
    try:
        cached = CachedFileIO(remote, str(tmp_path / "new" / "cache"), bytes_max=MIB)
        cached.read_range(DATA, 0, 10)
    finally:
        os.umask(before)
    made = [path for path in (tmp_path / "new").rglob("*") if path.is_dir()]
    modes = {path.stat().st_mode & 0o777 for path in [tmp_path / "new", *made]}
    assert (len(made), modes) == (3, {0o700})


@pytest.mark.parametrize("level", ["cache", "shard", "file"])
def test_a_directory_that_others_may_write_to_is_not_used(remote, tmp_path, caplog, level):
    """They could put other bytes there under a name that fits them."""
    top = tmp_path / level
    CachedFileIO(remote, str(top), bytes_max=MIB).read_range(DATA, 0, 10)
    [entry] = _entries(top)
    opened = {"cache": top, "shard": entry.parent.parent, "file": entry.parent}[level]
    for mode in (0o770, 0o702):
        opened.chmod(mode)
        entry.rename(entry.with_name("0-10-e38a6876"))
        entry.with_name("0-10-e38a6876").write_bytes(bytes(10))
        cached = CachedFileIO(remote, str(top), bytes_max=MIB)
        for _ in range(2):
            assert cached.read_range(DATA, 0, 10) == bytes(range(10))
        assert len(_entries(top)) == 1
        entry.with_name("0-10-e38a6876").rename(entry)
    warnings = [r.getMessage() for r in caplog.records if "others may write" in r.getMessage()]
    assert len(warnings) == 1  # in this process
    assert str(opened) in warnings[0]
    opened.chmod(0o755)
    cached = CachedFileIO(remote, str(top), bytes_max=MIB)
    cached.read_range(DATA, 0, 10)
    assert cached.read_range(DATA, 0, 10) == bytes(range(10))


def test_a_directory_of_somebody_else_is_not_used(remote, tmp_path, caplog, monkeypatch):
    top = tmp_path / "theirs"
    top.mkdir(mode=0o700)
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    cached = CachedFileIO(remote, str(top), bytes_max=MIB)
    for _ in range(2):
        assert cached.read_range(DATA, 0, 10) == bytes(range(10))
    assert (remote.counts.requests, _entries(top)) == (2, [])
    [warning] = [r.getMessage() for r in caplog.records]
    assert f"{top} belongs to another user" in warning


def test_a_deleted_file_is_not_served(remote, cached):
    cached.read_bytes(DATA)
    cached.delete(DATA)
    with pytest.raises(NotFoundError):
        cached.read_bytes(DATA)


def test_a_bound_holds_for_entries_too(cached):
    cached.read_bytes(DATA)
    with pytest.raises(CorruptError, match="has 250 bytes"):
        cached.read_bytes(DATA, bytes_max=249)


def test_a_table_is_read_once_from_the_storage(tmp_path):
    files = DelayedFileIO(LocalFileIO(), delay_ms=0)
    cached = CachedFileIO(files, str(tmp_path / "cache"), bytes_max=MIB)
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    table = tidelake.open(tmp_path / "w", fileio=cached).create_table("db.t", schema)
    table.write([{"k": 1, "v": 2}])
    rows = []
    requests = []
    for _ in range(2):
        again = tidelake.open(tmp_path / "w", fileio=cached).table("db.t")
        files.reset()
        rows.append(again.to_arrow().to_pylist())
        requests.append(files.counts.requests)
    assert rows == [[{"k": 1, "v": 2}]] * 2
    assert pickle.loads(pickle.dumps(table)).to_arrow().num_rows == 1
    # the second time only what may change: hint, snapshot, schemas
    assert requests[1] <= requests[0] - 4
