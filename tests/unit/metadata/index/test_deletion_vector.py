"""Deletion vectors and their index files: golden bytes, Java's files, damage, hostile bytes."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.metadata.made import PATHS, UNHURRIED, fixture_tables

from tidelake.errors import CorruptError, NotFoundError, TidelakeError, UnsupportedError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.index.deletion_file import (
    DeletionRange,
    Frame,
    deletion_ranges,
    read_deletions,
    read_frame,
    write_deletion_files,
)
from tidelake.metadata.index.deletion_vector import (
    decode_vector,
    encode_vector,
    frame_of,
    length_in_manifest,
)
from tidelake.metadata.index.index_manifest import read_index_manifest
from tidelake.metadata.index_entry import DELETION_VECTORS, HASH, IndexEntry, IndexFile
from tidelake.metadata.log.snapshot_log import SnapshotLog
from tidelake.metadata.manifest.manifest_cache import ManifestCache
from tidelake.metadata.manifest.snapshot_entries import live_entries

GOLDEN = Path(__file__).parents[3] / "golden" / "deletion_vectors.txt"
TARGET = 2 << 20


def golden_bytes():
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()
    return bytes.fromhex("".join(line.partition("#")[0] for line in lines))


def positions_of(values):
    return np.array(sorted(values), np.int64)


def frame(values, *, bitmap64=False):
    return Frame(encode_vector(positions_of(values), bitmap64=bitmap64), len(set(values)))


def new_names():
    return ((f"index-{i}", f"/wh/db.db/t/index/index-{i}") for i in itertools.count())


def written(frames, *, target_size_bytes=TARGET):
    fileio = MemoryFileIO()
    files = write_deletion_files(fileio, new_names(), frames, target_size_bytes=target_size_bytes)
    return fileio, files


def ranges_of(files):
    return deletion_ranges(PATHS, [IndexEntry(bytes(12), 0, file) for file in files])


def test_an_index_file_has_the_bytes_of_the_golden_one():
    frames = {"data-a-0.parquet": frame([5, 7]), "data-b-0.parquet": frame([5, 7], bitmap64=True)}
    fileio, (file,) = written(frames)
    assert fileio.read_bytes("/wh/db.db/t/index/index-0") == golden_bytes()
    assert file == IndexFile(
        DELETION_VECTORS,
        "index-0",
        77,
        2,
        ranges=(("data-a-0.parquet", 1, 24, 2), ("data-b-0.parquet", 33, 44, 2)),
    )
    for name, where in ranges_of([file]).items():
        got = read_deletions(fileio, where, file_name=name, row_count=8)
        assert got.tolist() == [5, 7]


@UNHURRIED
@given(
    st.sets(st.integers(0, 200_000), max_size=50)
    | st.integers(1, 90_000).map(lambda n: set(range(n)))
    | st.integers(1, 90_000).map(lambda n: set(range(0, 2 * n, 2))),
    st.booleans(),
)
def test_positions_come_back_as_they_were(values, bitmap64):
    data = encode_vector(positions_of(values), bitmap64=bitmap64)
    same = frame_of(data + b"next", length=length_in_manifest(data))
    assert same == data
    assert decode_vector(same, row_count=200_001).tolist() == sorted(values)


def test_positions_beyond_32_bits_come_back():
    far = [3, 2**32 - 1, 2**32, 3 * 2**32 + 9]
    data = encode_vector(positions_of(far), bitmap64=True)
    assert decode_vector(data, row_count=4 * 2**32).tolist() == far
    with pytest.raises((CorruptError, ValueError)):
        decode_vector(data, row_count=2**32)


def test_a_vector_of_32_bits_holds_no_runs_as_java_writes_none():
    rows = np.arange(5_000)
    assert len(encode_vector(rows, bitmap64=False)) == 8 + 4 + 16 + 8192
    assert len(encode_vector(rows, bitmap64=True)) == 8 + 4 + 8 + 4 + 15


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["pk_dv", "pk_dv64"])
def test_java_s_index_files_are_read_and_written_byte_for_byte(oracle_dir, name):
    vectors = 0
    for _, fileio, paths in fixture_tables(oracle_dir):
        if not paths.location.endswith(f"/{name}"):
            continue
        log = SnapshotLog(fileio, paths)
        for snapshot_id in log.ids():
            snapshot = log.load(snapshot_id)
            if snapshot.index_manifest is None:
                continue
            entries = read_index_manifest(fileio, paths, snapshot.index_manifest)
            live = live_entries(fileio, paths, snapshot, ManifestCache(1 << 20))
            rows = dict(zip(live["file_name"].to_pylist(), live["row_count"].tolist(), strict=True))
            for entry in entries:
                assert entry.file.index_type == DELETION_VECTORS
                frames = {}
                for data_file, where in deletion_ranges(paths, [entry]).items():
                    got = read_deletions(
                        fileio, where, file_name=data_file, row_count=rows[data_file]
                    )
                    assert len(got)
                    again = encode_vector(got, bitmap64=name == "pk_dv64")
                    assert again == read_frame(fileio, where, file_name=data_file).data
                    frames[data_file] = Frame(again, where.cardinality)
                    vectors += 1
                ours, (file,) = written(frames, target_size_bytes=None)
                java = fileio.read_bytes(
                    paths.index_file(entry.partition, entry.bucket, entry.file.file_name)
                )
                assert ours.read_bytes("/wh/db.db/t/index/index-0") == java
                assert (file.ranges, file.row_count) == (entry.file.ranges, entry.file.row_count)
    assert vectors


def test_files_are_closed_at_the_target_size_and_there_is_one_without_a_target():
    frames = {f"data-{i}.parquet": frame([i]) for i in range(5)}
    _, files = written(frames, target_size_bytes=50)
    assert [f.row_count for f in files] == [2, 2, 1]
    assert list(ranges_of(files)) == list(frames)
    fileio, (file,) = written(frames, target_size_bytes=None)
    assert file.row_count == 5
    for i, (name, where) in enumerate(ranges_of([file]).items()):
        assert read_deletions(fileio, where, file_name=name, row_count=9).tolist() == [i]
    assert written({}, target_size_bytes=50)[1] == ()
    fileio, (empty,) = written({}, target_size_bytes=None)
    assert fileio.read_bytes("/wh/db.db/t/index/index-0") == b"\x01"
    assert (empty.file_size_bytes, empty.row_count, empty.ranges) == (1, 0, ())


def test_every_changed_byte_of_a_vector_is_found():
    frames = {"a": frame([5, 7]), "b": frame([1, 2, 9], bitmap64=True)}
    fileio, files = written(frames)
    data = fileio.read_bytes("/wh/db.db/t/index/index-0")
    ranges = ranges_of(files)
    for place in range(len(data)):
        damaged = MemoryFileIO()
        changed = bytearray(data)
        changed[place] ^= 1 + place % 255
        damaged.write_once("/wh/db.db/t/index/index-0", bytes(changed))
        with pytest.raises((CorruptError, UnsupportedError)) as caught:  # noqa: PT012
            for name, where in ranges.items():
                read_deletions(damaged, where, file_name=name, row_count=10)
        assert "/wh/db.db/t/index/index-0" in str(caught.value)


def test_a_file_that_is_cut_short_or_missing_is_refused():
    fileio, files = written({"a": frame([5, 7])})
    (where,) = ranges_of(files).values()
    data = fileio.read_bytes(where.path)
    cut = MemoryFileIO()
    cut.write_once(where.path, data[:-1])
    with pytest.raises(CorruptError):
        read_deletions(cut, where, file_name="a", row_count=10)
    with pytest.raises(NotFoundError):
        read_deletions(MemoryFileIO(), where, file_name="a", row_count=10)


@pytest.mark.parametrize(
    ("positions", "cardinality", "row_count"),
    [([5, 7], 2, 7), ([5, 7], 3, 10), ([5, 7], 1, 10), (range(0, 90_000, 2), 45_000, 10)],
)
def test_a_vector_that_is_not_of_its_data_file_is_refused(positions, cardinality, row_count):
    frames = {"a": Frame(encode_vector(positions_of(positions), bitmap64=False), cardinality)}
    fileio, files = written(frames)
    (where,) = ranges_of(files).values()
    with pytest.raises(CorruptError, match="data file 'a' in index file /wh"):
        read_deletions(fileio, where, file_name="a", row_count=row_count)


@pytest.mark.parametrize(("offset", "length"), [(0, 24), (-1, 24), (1, -5), (1, 33), (99, 1)])
def test_a_range_that_cannot_be_is_refused(offset, length):
    file = IndexFile(DELETION_VECTORS, "index-0", 33, 1, ranges=(("a", offset, length, 2),))
    with pytest.raises(CorruptError, match="index-0"):
        ranges_of([file])


def test_two_vectors_of_one_data_file_are_refused():
    file = IndexFile(DELETION_VECTORS, "index-0", 33, 1, ranges=(("a", 1, 24, 2),))
    other = IndexFile(DELETION_VECTORS, "index-1", 33, 1, ranges=(("a", 1, 24, 2),))
    with pytest.raises(CorruptError, match="another"):
        ranges_of([file, other])


def test_a_file_outside_the_table_is_refused_and_other_types_are_left_out():
    outside = IndexFile(DELETION_VECTORS, "i", 33, 1, ranges=(), external_path="/else/i")
    with pytest.raises(UnsupportedError):
        ranges_of([outside])
    assert ranges_of([IndexFile(HASH, "i", 8, 2)]) == {}


@UNHURRIED
@given(st.binary(max_size=120), st.integers(0, 130), st.integers(0, 10_000))
def test_any_bytes_are_refused_or_give_rows_of_the_file(data, length, row_count):
    fileio = MemoryFileIO()
    fileio.write_once("/i", b"\x01" + data)
    where = DeletionRange("/i", 1, length, None, len(data) + 1)
    try:
        got = read_deletions(fileio, where, file_name="a", row_count=row_count)
    except TidelakeError:
        return
    assert (np.diff(got) > 0).all()
    assert not len(got) or (got[0] >= 0 and got[-1] < row_count)
