"""The ways of rows on ``docs/internals/hops.md`` are those that calls go."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from proving.hops import assert_way, hops, traced

import tidelake
from tidelake.fileio import MemoryFileIO
from tidelake.table import Table
from tidelake.telemetry import SerialExecutor

HOPS_MAX = 12
DATA = pa.table({"k": pa.array([1, 2, 3], pa.int32()), "v": [1, 2, 3]})
PARQUET_WRITTEN = frozenset(
    {"store/write_buffer.py:RowBuffer.append", "format/parquet/writer.py:ParquetFileWriter.write"}
)
PARQUET_READ = frozenset({"format/parquet/reader.py:read_parquet"})


@pytest.fixture
def table():
    """Everything happens in one thread, the one that is traced."""
    catalog = tidelake.open("/w", fileio=MemoryFileIO())
    options = {"bucket": 1}
    made = catalog.create_table(
        "db.t", {"k": "INT", "v": "BIGINT"}, primary_keys=["k"], options=options
    )
    made.write(DATA)
    handle = made.handle
    return Table(replace(handle, env=replace(handle.env, executor=SerialExecutor())))


def test_an_upsert_goes_the_way_that_the_page_says(table):
    root = traced(lambda: table.write(DATA), lambda value: value is DATA)
    assert_way(hops(root, PARQUET_WRITTEN), "Table.write", hops_max=HOPS_MAX)


def test_a_merged_read_goes_the_way_that_the_page_says(table):
    table.write(DATA)
    root = traced(table.to_arrow, lambda _: False)
    assert_way(hops(root, PARQUET_READ), "Table.to_arrow", hops_max=HOPS_MAX)
