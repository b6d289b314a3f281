"""Index manifests and hash index files: the bytes of the golden files, Java's files, bad ones."""

import io
import json
from dataclasses import replace
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from unit.metadata.made import PARTITIONED, PATHS, fixture_tables, partition

from tidelake.codec.bucket import hash_rows
from tidelake.errors import CorruptError, NotFoundError, UnsupportedError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.index import hash_index
from tidelake.metadata.index.hash_index import (
    HashIndexFile,
    hash_index_name,
    read_hash_index,
    write_hash_index,
)
from tidelake.metadata.index.index_manifest import (
    SCHEMA,
    decode_index_manifest,
    encode_index_manifest,
    read_index_manifest,
    write_index_manifest,
)
from tidelake.metadata.index_entry import DELETION_VECTORS, HASH, IndexEntry, IndexFile
from tidelake.metadata.log.snapshot_log import SnapshotLog
from tidelake.types import parse_type

GOLDEN = Path(__file__).parents[3] / "golden"
VECTORS = (("data-a-0.parquet", 1, 24, 2), ("data-b-0.parquet", 25, 22, None))
ENTRIES = (
    IndexEntry(partition("mon"), 1, IndexFile(HASH, "index-a-0", 8, 2)),
    IndexEntry(partition(None), 0, IndexFile(DELETION_VECTORS, "index-b-0", 47, 2, ranges=VECTORS)),
)


def hex_of(lines):
    return bytes.fromhex("".join(line.partition("#")[0] for line in lines))


def test_an_index_manifest_has_the_bytes_of_the_golden_one():
    data = encode_index_manifest(ENTRIES, codec="null", name="index-manifest-golden-0")
    lines = (GOLDEN / "index_manifest.txt").read_text(encoding="utf-8").splitlines()
    (schema_line,) = (line for line in lines if line.startswith("{"))
    assert json.loads(schema_line) == SCHEMA
    assert schema_line.encode() in data
    sync = data[-16:]
    blocks = hex_of(line for line in lines if not line.startswith("{"))
    assert data[data.index(sync) + 16 : -16] == blocks
    assert decode_index_manifest(data, path="m") == ENTRIES


def test_an_index_file_has_the_bytes_of_java_s():
    fileio = MemoryFileIO()
    hashes = hash_rows([pa.array([1, 2], pa.int32())], [parse_type("INT")])
    file = write_hash_index(fileio, PATHS, "index-a-0", hashes, partition=bytes(12), bucket=0)
    data = fileio.read_bytes("/wh/db.db/t/index/index-a-0")
    assert data == hex_of((GOLDEN / "index_file.txt").read_text(encoding="utf-8").splitlines())
    assert file == IndexFile(HASH, "index-a-0", 8, 2)
    back = read_hash_index(fileio, PATHS, IndexEntry(bytes(12), 0, file))
    assert back.dtype == np.int32
    assert back.tolist() == hashes.tolist() == [1465514398, 1340390384]


def test_entries_of_every_kind_come_back_as_they_went_in():
    global_index = {
        "_ROW_RANGE_START": 0, "_ROW_RANGE_END": 9, "_INDEX_FIELD_ID": 1,
        "_EXTRA_FIELD_IDS": None, "_INDEX_META": b"x", "_SOURCE_META": None,
    }  # fmt: skip
    later = IndexEntry(bytes(12), 0, IndexFile("btree", "i", 3, 1, global_index=global_index))
    fileio = MemoryFileIO()
    entries = (*ENTRIES, later)
    write_index_manifest(fileio, PARTITIONED, "index-manifest-1-0", entries)
    assert read_index_manifest(fileio, PARTITIONED, "index-manifest-1-0") == entries


def test_one_of_ours_that_is_cut_behind_its_header_is_damaged():
    data = encode_index_manifest(ENTRIES, name="m")
    header = data[: data.index(data[-16:]) + 16]
    assert len(header) < len(data)
    with pytest.raises(CorruptError, match="lost its entries"):
        decode_index_manifest(header, path="m")


def test_one_without_entries_is_read_where_java_wrote_it():
    out = io.BytesIO()
    fastavro.writer(out, SCHEMA, [])
    assert decode_index_manifest(out.getvalue(), path="m") == ()


def test_every_flipped_bit_is_noticed():
    data = encode_index_manifest(ENTRIES, name="index-manifest-golden-0")
    for place in range(len(data) * 8):
        broken = bytearray(data)
        broken[place // 8] ^= 1 << place % 8
        try:
            assert decode_index_manifest(bytes(broken), path="m") == ENTRIES
        except (CorruptError, UnsupportedError):
            continue


def test_the_files_of_real_paimon_are_read(oracle_dir):
    types = set()
    for _, fileio, paths in fixture_tables(oracle_dir):
        for snapshot in map(SnapshotLog(fileio, paths).load, SnapshotLog(fileio, paths).ids()):
            if snapshot.index_manifest is None:
                continue
            entries = read_index_manifest(fileio, paths, snapshot.index_manifest)
            types |= {entry.file.index_type for entry in entries}
            for entry in entries:
                if entry.file.index_type == HASH:
                    hashes = read_hash_index(fileio, paths, entry)
                    assert len(set(hashes.tolist())) == entry.file.row_count
    assert types == {HASH, DELETION_VECTORS}


def test_two_hash_indexes_of_a_bucket_and_other_versions_are_refused():
    twice = [ENTRIES[0], IndexEntry(partition("mon"), 1, IndexFile(HASH, "index-c-0", 4, 1))]
    with pytest.raises(CorruptError, match="two hash index files"):
        decode_index_manifest(encode_index_manifest(twice, name="m"), path="m")


@pytest.mark.parametrize("size", [0, 7, 12])
def test_an_index_file_of_another_size_is_refused(size):
    fileio = MemoryFileIO()
    fileio.write_once("/wh/db.db/t/index/index-a-0", bytes(size))
    entry = IndexEntry(bytes(12), 0, IndexFile(HASH, "index-a-0", 8, 2))
    with pytest.raises(CorruptError, match="index-a-0"):
        read_hash_index(fileio, PATHS, entry)
    with pytest.raises(CorruptError, match="index-a-0"):
        list(HashIndexFile(fileio, PATHS, entry).chunks())


@pytest.mark.parametrize("count", [0, 1, 3, 4, 8])
def test_an_index_file_is_read_in_chunks_too(count, monkeypatch):
    monkeypatch.setattr(hash_index, "CHUNK_HASHES", 4)
    fileio = MemoryFileIO()
    hashes = np.arange(count, dtype=np.int32) * 70_000 - 9
    file = write_hash_index(fileio, PATHS, "index-a-0", hashes, partition=bytes(12), bucket=0)
    stored = HashIndexFile(fileio, PATHS, IndexEntry(bytes(12), 0, file))
    assert stored.count == count
    for first in range(count + 1):
        chunks = [chunk.copy() for chunk in stored.chunks(first)]
        sizes = [min(4, count - at) for at in range(first, count, 4)]
        assert [len(chunk) for chunk in chunks] == sizes
        assert b"".join(chunks) == hashes[first:].astype(">i4").tobytes()
    assert stored.read().tolist() == hashes.tolist()


@pytest.mark.parametrize("is_remote", [False, True])
def test_the_name_of_an_index_file_says_how_many_hashes_are_sorted(is_remote, monkeypatch):
    monkeypatch.setattr(hash_index, "SORTED_CHUNK_HASHES", 4)
    monkeypatch.setattr(hash_index, "REMOTE_CHUNKS", 2)
    fileio = MemoryFileIO()
    monkeypatch.setattr(type(fileio), "is_remote", is_remote)
    hashes = np.array([*range(-50, 50, 5), 7, 3], np.int32)
    name = hash_index_name("index-a-0", 20)
    file = write_hash_index(fileio, PATHS, name, hashes, partition=bytes(12), bucket=0)
    stored = HashIndexFile(fileio, PATHS, IndexEntry(bytes(12), 0, file))
    assert (stored.count, stored.sorted_count) == (22, 20)
    chunks = [chunk.copy() for chunk in stored.sorted_chunks()]
    assert [len(chunk) for chunk in chunks] == [4] * 5
    assert b"".join(chunks) == hashes[:20].astype(">i4").tobytes()
    assert (
        b"".join(chunk.copy() for chunk in stored.chunks(20)) == hashes[20:].astype(">i4").tobytes()
    )
    for other, count in (("index-a-1-sorted-23", 0), ("index-a-1-sorted-", 0), ("index-b-2", 0)):
        entry = IndexEntry(bytes(12), 0, replace(file, file_name=other))
        assert HashIndexFile(fileio, PATHS, entry).sorted_count == count


def test_an_index_file_that_is_gone_or_elsewhere_is_said():
    gone = IndexEntry(bytes(12), 0, IndexFile(HASH, "index-a-0", 8, 2))
    with pytest.raises(NotFoundError):
        read_hash_index(MemoryFileIO(), PATHS, gone)
    with pytest.raises(NotFoundError):
        list(HashIndexFile(MemoryFileIO(), PATHS, gone).chunks())
    outside = IndexFile(HASH, "index-a-0", 8, 2, external_path="s3://b/index-a-0")
    with pytest.raises(UnsupportedError, match="outside"):
        read_hash_index(MemoryFileIO(), PATHS, IndexEntry(bytes(12), 0, outside))
    bad = IndexEntry(bytes(12), 0, IndexFile(HASH, "../index-a-0", 8, 2))
    with pytest.raises(CorruptError, match="plain file name"):
        read_hash_index(MemoryFileIO(), PATHS, bad)
