"""Java Paimon 1.3.1 reads copies of tables, and tables of others that moved in, as we do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from proving.expiring import TABLES, work

import tidelake
from interop.cells import difference, table_cells
from interop.test_versions import opened

pytestmark = pytest.mark.oracle
DELTA = Path(__file__).parents[1] / "golden" / "delta_vectors" / "table"


def check_equal(peer, place):
    columns, rows = peer.read(place)
    assert difference(rows, table_cells(opened(place).to_arrow()), columns) is None
    assert rows


@pytest.mark.parametrize("kind", ["append-dv", "dynamic", "dv"])
def test_java_reads_copies_and_writes_on(peer, tmp_path, kind):
    catalog = tidelake.open(tmp_path)
    how: dict[str, Any] = {**TABLES[kind]}
    keys = how.pop("primary_keys", ())
    columns = {"k": "BIGINT", "v": "BIGINT", "p": "STRING"}
    table = catalog.create_table("db.t", columns, primary_keys=keys, options=how)
    work(table, 4)
    table.alter(tidelake.RenameColumn("v", "w"))
    table.write([{"k": 3, "w": 33, "p": "x"}])
    for name, history in (("c", False), ("h", True)):
        catalog.clone_table("db.t", f"db.{name}", history=history)
        place = tmp_path / "db.db" / name
        check_equal(peer, place)
        peer.do("write", place, rows=[["+I", "77", "7", "s:java"]])
        check_equal(peer, place)
    assert 77 not in table.to_arrow()["k"].to_pylist()


def test_java_reads_tables_that_moved_in(peer, tmp_path):
    rows = pa.table(
        {
            "k": [1, 2, 3, 4],
            "s": ["a", None, "c", "d"],
            "n": pa.array([1, 2, 3, None], pa.decimal128(20, 2)),
            "t": pa.array([1, 2, 3, 4], pa.timestamp("us")),
            "p": [1, 1, 2, None],
            "q": ["x/y", "x", "x", "x"],
        }
    )
    pq.write_to_dataset(rows, tmp_path / "hive", partition_cols=["p", "q"])
    catalog = tidelake.open(tmp_path)
    catalog.migrate_table("hive", tmp_path / "hive", "db.t")
    place = tmp_path / "db.db" / "t"
    check_equal(peer, place)
    table = catalog.table("db.t")
    table.alter(tidelake.RenameColumn("s", "u"), tidelake.AddColumn("z", "INT"))
    table.write([{"k": 5, "u": "e", "n": 5, "t": None, "p": 2, "q": "x", "z": 1}])
    check_equal(peer, place)


@pytest.mark.parametrize("wide", ["false", "true"])
def test_java_reads_deleted_rows_that_moved_in_and_deletes_more(peer, tmp_path, wide):
    """A table of Delta's own, with vectors of 32 bits and of 64."""
    catalog = tidelake.open(tmp_path)
    options = {"deletion-vectors.bitmap64": wide}
    catalog.migrate_table("delta", DELTA, "db.t", options=options)
    place = tmp_path / "db.db" / "t"
    check_equal(peer, place)
    catalog.table("db.t").delete("v = 1 AND g < 66")
    check_equal(peer, place)
    peer.do("write", place, rows=[["+I", "77", "7"]])
    check_equal(peer, place)
    catalog.table("db.t").compact(full=True)
    check_equal(peer, place)


@pytest.mark.parametrize("kind", ["append-dv", "dv"])
def test_java_reads_files_that_got_indexes_later(peer, tmp_path, kind):
    catalog = tidelake.open(tmp_path)
    how: dict[str, Any] = {**TABLES[kind]}
    keys = how.pop("primary_keys", ())
    columns = {"k": "BIGINT", "v": "BIGINT", "p": "STRING"}
    table = catalog.create_table("db.t", columns, primary_keys=keys, options=how)
    work(table, 4)
    table.alter(tidelake.SetOption("file-index.bitmap.columns", "v,p"))
    assert catalog.table("db.t").maintenance.rewrite_file_index().files_count > 0
    place = tmp_path / "db.db" / "t"
    check_equal(peer, place)
    peer.do("write", place, rows=[["+I", "77", "7", "s:java"]])
    check_equal(peer, place)


def test_java_reads_nested_columns_and_int96_that_moved_in(peer, tmp_path):
    """Files of two forms of one column, as a Delta table has them after an evolution."""
    point = pa.struct({"x": pa.int64(), "y": pa.string()})
    old = pa.struct({"x": pa.int32()})
    source = tmp_path / "src"
    source.mkdir()
    moment = pa.timestamp("us")
    first = pa.table(
        {
            "k": [1, 2],
            "s": pa.array([{"x": 1}, None], old),
            "l": pa.array([[{"x": 1}], []], pa.list_(old)),
            "m": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32())),
            "t": pa.array([1, 253_402_214_400_000_000], moment),
        }
    )
    second = pa.table(
        {
            "k": [3],
            "s": pa.array([{"x": 5, "y": "q"}], point),
            "l": pa.array([[{"x": 2, "y": None}]], pa.list_(point)),
            "m": pa.array([[("b", None)]], pa.map_(pa.string(), pa.int32())),
            "t": pa.array([None], moment),
        }
    )
    for name, rows in (("a", first), ("b", second)):
        path = source / f"{name}.parquet"
        with pq.ParquetWriter(path, rows.schema, use_deprecated_int96_timestamps=True) as writer:
            writer.write_table(rows)
            writer.add_key_value_metadata({"org.apache.spark.version": "4.0.1"})
    catalog = tidelake.open(tmp_path)
    catalog.migrate_table("parquet", source, "db.t")
    place = tmp_path / "db.db" / "t"
    check_equal(peer, place)
    table = catalog.table("db.t")
    table.alter(tidelake.RenameColumn(("s", "y"), "z"), tidelake.AddColumn(("s", "y"), "INT"))
    check_equal(peer, place)
