"""Columns that do not shrink are stored as they are; what is read is the same."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from unit.format.rows import PATH, field, parquet_of

from tidelake.fileio import MemoryFileIO
from tidelake.format import FormatOptions, open_writer, read_batches
from tidelake.format.parquet.column_codec import column_codecs
from tidelake.types.arrow import to_arrow_schema

ROWS = 20_000


def table(rng=None):
    rng = np.random.default_rng(7) if rng is None else rng
    noise = rng.random(ROWS)
    return pa.table(
        {
            "noise": noise,
            "noise_text": pa.array([rng.bytes(12) for _ in range(ROWS)], pa.binary()),
            "hex_text": pa.array([rng.bytes(12).hex() for _ in range(ROWS)]),
            "small": rng.integers(0, 1000, ROWS),
            "nulls": pa.array(noise, mask=noise > 0.5),
            "empty": pa.array([""] * ROWS),
            "truth": pa.array(noise > 0.5),
            "days": pa.array([dt.date(2024, 1, 1)] * ROWS),
            "money": pa.array([Decimal(int(i)) for i in range(ROWS)], pa.decimal128(12, 0)),
        }
    )


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "lz4"])
def test_only_what_does_not_shrink_is_stored_as_it_is(codec):
    rows = table()
    chosen = column_codecs(rows, rows.column_names, codec)
    kept = {"noise", "noise_text"}
    if codec in {"snappy", "lz4"}:
        kept.add("hex_text")  # these find repetitions only, not few distinct bytes
    assert {name for name, own in chosen.items() if own == "none"} == kept
    assert set(chosen.values()) == {codec, "none"}
    assert list(chosen) == rows.column_names


def test_a_sample_is_taken_from_within_a_slice():
    rng = np.random.default_rng(1)
    column = np.concatenate([np.zeros(ROWS), rng.random(ROWS), np.zeros(ROWS)])
    whole = pa.table({"a": column, "b": pa.array([f"{v:.17f}" for v in column])})
    assert column_codecs(whole.slice(ROWS, ROWS), ["a"], "zstd") == {"a": "none", "b": "zstd"}
    assert column_codecs(whole.slice(0, ROWS), ["a", "b"], "zstd")["a"] == "zstd"


@pytest.mark.parametrize("rows", [0, 1, 100])
def test_a_few_rows_tell_nothing(rows):
    few = table().slice(0, rows)
    assert set(column_codecs(few, few.column_names, "zstd").values()) == {"zstd"}


def test_a_file_that_is_not_compressed_stays_so():
    assert set(column_codecs(table(), ["noise"], "none").values()) == {"none"}


def test_a_file_of_both_kinds_of_columns_is_read_as_it_was_written():
    fields = [field(0, "noise", "DOUBLE"), field(1, "small", "BIGINT"), field(2, "days", "DATE")]
    rows = table().select([f.name for f in fields]).cast(to_arrow_schema(fields))
    files = MemoryFileIO()
    writer = open_writer(files, PATH, fields, FormatOptions(), stats_columns=frozenset())
    writer.write(rows)
    writer.close()
    group = parquet_of(files).metadata.row_group(0)
    assert [group.column(i).compression for i in range(3)] == ["UNCOMPRESSED", "ZSTD", "ZSTD"]
    assert pa.Table.from_batches(read_batches(files, PATH, fields)).equals(rows)
