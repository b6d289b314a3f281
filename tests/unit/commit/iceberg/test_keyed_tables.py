"""Iceberg metadata of primary-key tables: the highest level, or all but 0 with vectors."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from unit.commit.iceberg.iceberg_lake import IcebergLake, assert_same_rows, rows_of

from tidelake.errors import UnsupportedError
from tidelake.metadata.index.deletion_vector import decode_vector, frame_of

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
KEYED = {"primary_keys": ["k"]}
VECTORS = {
    "deletion-vectors.enabled": "true",
    "deletion-vectors.bitmap64": "true",
    "metadata.iceberg.format-version": "3",
    "bucket": "1",
}


def rows(start, stop, text):
    return [{"k": k, "v": text} for k in range(start, stop)]


def test_a_primary_key_table_shows_its_last_full_compaction(tmp_path):
    lake = IcebergLake(tmp_path, SCHEMA, options={"bucket": "2"}, **KEYED)
    lake.table.write(rows(0, 20, "old"))
    assert lake.iceberg().scan().to_arrow().num_rows == 0
    assert lake.document()["snapshots"][-1]["summary"]["total-data-files"] == "0"
    lake.table.compact(full=True)
    assert_same_rows(lake)
    compacted = rows_of(lake.table.to_arrow())
    lake.table.write(rows(10, 30, "new"))
    lake.table.delete("k < 5")
    assert rows_of(lake.iceberg().scan().to_arrow()) == compacted
    lake.table.compact(full=True)
    assert_same_rows(lake)
    assert lake.iceberg().scan().to_arrow().num_rows == 25


def test_every_bucket_and_partition_shows_its_own_last_full_compaction(tmp_path):
    schema = pa.schema([pa.field("p", pa.string(), nullable=False), *SCHEMA])
    lake = IcebergLake(
        tmp_path, schema, options={"bucket": "2"}, primary_keys=["p", "k"], partition_keys=["p"]
    )
    lake.table.write([{"p": p, **row} for p in "ab" for row in rows(0, 9, "old")])
    lake.table.compact(full=True)
    lake.table.write([{"p": p, **row} for p in "ab" for row in rows(0, 9, "new")])
    lake.table.compact(full=True, partitions={"p": "b"})
    found = lake.iceberg().scan().to_arrow().to_pylist()
    assert {(r["p"], r["v"]) for r in found} == {("a", "old"), ("b", "new")}
    assert len(found) == 18


def files_without_deleted_rows(lake):
    """Read by the specification: each data file without the positions of its vector."""
    io = PyArrowFileIO()
    data, vectors = {}, {}
    for manifest in lake.manifests():
        for entry in lake.records(manifest["manifest_path"]):
            file = entry["data_file"]
            if entry["status"] == 2:
                continue
            if manifest["content"] == 0:
                data[file["file_path"]] = file
            else:
                assert file["referenced_data_file"] not in vectors, "one vector for each file"
                vectors[file["referenced_data_file"]] = file
    assert vectors.keys() <= data.keys()
    out = []
    for path, file in data.items():
        with io.new_input(path).open() as opened:
            table = pa.parquet.read_table(opened)
        assert table.num_rows == file["record_count"]
        keep = np.ones(table.num_rows, bool)
        if path in vectors:
            keep[positions(vectors[path], table.num_rows)] = False
        out.append(table.filter(pa.array(keep)).select(["k", "v"]))
    return pa.concat_tables(out)


def positions(vector, row_count):
    assert vector["file_format"] == "puffin"
    assert vector["content_offset"]
    assert vector["content_size_in_bytes"]
    blob = Path(vector["file_path"]).read_bytes()[vector["content_offset"] :]
    blob = blob[: vector["content_size_in_bytes"]]
    assert Path(vector["file_path"]).read_bytes()[:4] == b"PFA1"
    # size (i32, big-endian), magic, bitmap, CRC (u32, big-endian): a deletion-vector-v1 blob
    assert int.from_bytes(blob[:4], "big") == len(blob) - 8
    assert blob[4:8] == bytes.fromhex("d1d33964")
    found = decode_vector(frame_of(blob, length=len(blob)), row_count=row_count)
    assert len(found) == vector["record_count"]
    return found


def test_vectors_of_all_levels_but_zero_are_shown(tmp_path):
    lake = IcebergLake(tmp_path, SCHEMA, options=VECTORS, **KEYED)
    lake.table.write(rows(0, 20_000, "a"))
    deleted = []
    for start in (5, 20, 40, 44):
        lake.table.write(rows(start, start + 3, "b"))
        assert rows_of(files_without_deleted_rows(lake)) == rows_of(lake.table.to_arrow())
        assert_same_rows(lake)
        deleted.append(lake.document()["snapshots"][-1]["summary"]["total-position-deletes"])
    assert max(map(int, deleted)) >= 3, "compactions leave some vectors"
    lake.table.delete("k in (48, 49)")
    assert rows_of(files_without_deleted_rows(lake)) == rows_of(lake.table.to_arrow())
    lake.table.compact(full=True)
    assert rows_of(files_without_deleted_rows(lake)) == rows_of(lake.table.to_arrow())
    assert lake.document()["snapshots"][-1]["summary"]["total-delete-files"] == "0"


def test_row_ids_of_version_3_rise_and_are_kept(tmp_path):
    options = {
        "metadata.iceberg.format-version": "3",
        "metadata.iceberg.compaction.max.file-num": "3",
    }
    lake = IcebergLake(tmp_path, SCHEMA, options=options)
    for k in range(4):
        lake.table.write(rows(10 * k, 10 * k + 3, "x"))
    snapshots = lake.document()["snapshots"]
    assert [(s["first-row-id"], s["added-rows"]) for s in snapshots] == [
        (0, 3),
        (3, 3),
        (6, 9),  # three manifests were merged into a new one, which reserves ids for all its rows
        (15, 3),
    ]
    assert lake.document()["next-row-id"] == 18
    merged = lake.records(lake.manifests()[0]["manifest_path"])
    assert [e["data_file"]["first_row_id"] for e in merged] == [0, 3, None]
    assert lake.manifests()[0]["first_row_id"] == 6
    assert_same_rows(lake)


def test_append_tables_with_deletion_vectors_show_their_rows_too(tmp_path):
    with pytest.raises(UnsupportedError, match="would see the rows that its deletion vectors"):
        IcebergLake(tmp_path, SCHEMA, options={"deletion-vectors.enabled": "true"})
    lake = IcebergLake(tmp_path, SCHEMA, options=VECTORS | {"bucket": "-1"})
    lake.table.write(rows(0, 10, "a"))
    lake.table.write(rows(10, 20, "b"))
    lake.table.delete("k in (0, 3, 6, 9, 12, 19)")
    assert rows_of(files_without_deleted_rows(lake)) == rows_of(lake.table.to_arrow())
    lake.table.delete("k = 11")
    assert rows_of(files_without_deleted_rows(lake)) == rows_of(lake.table.to_arrow())


def test_vectors_of_32_bits_are_shown_as_64(tmp_path):
    options = VECTORS | {"deletion-vectors.bitmap64": "false", "bucket": "2"}
    lake = IcebergLake(tmp_path, SCHEMA, options=options, **KEYED)
    lake.table.write(rows(0, 20_000, "a"))
    lake.table.write(rows(3, 9, "b"))
    lake.table = lake.table.set_options({"deletion-vectors.bitmap64": "true"})
    lake.table.write(rows(7, 8, "c"))
    assert int(lake.document()["snapshots"][-1]["summary"]["total-position-deletes"]) >= 6
    assert rows_of(files_without_deleted_rows(lake)) == rows_of(lake.table.to_arrow())
    assert_same_rows(lake)


def test_files_of_vectors_go_with_their_snapshots(tmp_path):
    limits = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "2"}
    lake = IcebergLake(tmp_path, SCHEMA, options=VECTORS | limits, **KEYED)
    lake.table.write(rows(0, 20_000, "a"))
    for k in range(4):
        lake.table.write(rows(k, k + 1, "b"))
        assert_same_rows(lake)
    named = {
        Path(entry["data_file"]["file_path"]).name
        for snapshot in lake.document()["snapshots"]
        for manifest in lake.records(snapshot["manifest-list"])
        for entry in lake.records(manifest["manifest_path"])
    }
    assert set(lake.names(".puffin")) <= named
