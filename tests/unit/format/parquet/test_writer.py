"""Files are what Paimon's readers expect, exact in size, and leave nothing behind on failure."""

from __future__ import annotations

import io
import os
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from unit.format.rows import PATH, batch_of, field, parquet_of, sample_batch, scalar_fields, write

from tidelake.errors import (
    AlreadyExistsError,
    ClosedError,
    InvalidInputError,
    StorageError,
    UnsupportedError,
)
from tidelake.fileio import LocalFileIO, MemoryFileIO
from tidelake.format import FormatOptions, format_options, kv_fields, open_writer, read_batches
from tidelake.options import Options
from tidelake.testing import FaultMode, FaultyFileIO, SimulatedCrash
from tidelake.types import TableSchema

GOLDEN = Path(__file__).parents[3] / "golden" / "parquet_schema.txt"
READABLE_ENCODINGS = {"PLAIN", "RLE", "RLE_DICTIONARY", "PLAIN_DICTIONARY", "DELTA_BINARY_PACKED"}


def all_kv_fields():
    keys = tuple(
        field(100 + i, f"k{i}", t) for i, t in enumerate(["INT NOT NULL", "DATE NOT NULL"])
    )
    schema = TableSchema(0, (*keys, *scalar_fields()), 200, primary_keys=("k0", "k1"))
    return kv_fields(schema)


def test_the_parquet_schema_is_paimons():
    """Physical type, id, logical type, required or optional, as Java 1.3.1 writes them."""
    fields = all_kv_fields()
    files = MemoryFileIO()
    open_writer(files, PATH, fields, FormatOptions(), stats_columns=frozenset()).close()
    text = str(parquet_of(files).schema).split("\n", 1)[1].strip() + "\n"
    text = text.replace(", is_from_converted_type=false, force_set_converted_type=false", "")
    if os.environ.get("TIDELAKE_REWRITE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


def test_only_encodings_that_every_paimon_reads_are_used():
    fields = all_kv_fields()
    rows = 5000
    system = [
        list(range(rows)),
        list(range(rows)),
        list(range(rows)),
        [0] * rows,
        list(range(rows)),
        list(range(rows)),
    ]
    values = sample_batch(rows=rows).columns
    schema = batch_of(fields, [[] for _ in fields]).schema
    arrays = [pa.array(c, schema.field(i).type) for i, c in enumerate([*system, *values])]
    files, _ = write(pa.RecordBatch.from_arrays(arrays, schema=schema), fields)
    group = parquet_of(files).metadata.row_group(0)
    encodings = {
        group.column(i).path_in_schema: set(group.column(i).encodings) for i in range(len(fields))
    }
    assert set().union(*encodings.values()) <= READABLE_ENCODINGS
    for name in ("_KEY_k0", "_KEY_k1", "k0", "k1", "_SEQUENCE_NUMBER"):
        assert "DELTA_BINARY_PACKED" in encodings[name], name
    assert "RLE_DICTIONARY" in encodings["_VALUE_KIND"]


def test_pages_have_checksums_and_indexes_and_no_arrow_schema():
    files, _ = write(sample_batch(), scalar_fields())
    file = parquet_of(files)
    columns = [file.metadata.row_group(0).column(i) for i in range(len(scalar_fields()))]
    floating = {i for i, f in enumerate(scalar_fields()) if str(f.type) in {"FLOAT", "DOUBLE"}}
    assert {i for i, c in enumerate(columns) if not c.has_column_index} == floating
    assert {i for i, c in enumerate(columns) if c.statistics is None} == floating
    assert list(file.metadata.metadata) == [b"tidelake.checksum"]
    data = bytearray(files.read_bytes(PATH))
    page = data.index(b"a longer text")
    data[page] ^= 1
    damaged = pq.ParquetFile(io.BytesIO(bytes(data)), page_checksum_verification=True)
    with pytest.raises(OSError, match="CRC"):
        damaged.read()


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "lz4", "none"])
def test_other_engines_read_the_same_values(tmp_path, compression):
    fields = [f for f in scalar_fields() if str(f.type) not in {"DATE", "TIMESTAMP(3)"}]
    batch = sample_batch(fields)
    path = str(tmp_path / "a.parquet")
    write(
        batch,
        fields,
        files=LocalFileIO(),
        path=path,
        options=FormatOptions(compression=compression),
    )
    expected = batch.to_pydict()
    assert pq.read_table(path).to_pydict() == expected
    by_polars = pl.read_parquet(path)
    assert by_polars["c4"].to_list() == expected["c4"]
    assert by_polars["c9"].to_list() == expected["c9"]
    assert by_polars["c11"].to_list() == expected["c11"]
    names = ", ".join(f.name for f in fields if "TIME" not in str(f.type))
    by_duckdb = duckdb.sql(f"select {names} from read_parquet('{path}')").fetchall()
    assert by_duckdb == list(zip(*[expected[n] for n in names.split(", ")], strict=True))
    types = dict(duckdb.sql(f"select name, type from parquet_schema('{path}')").fetchall())
    assert types["c7"] == "INT32"
    assert types["c8"] == "INT64"
    assert types["c9"] == "FIXED_LEN_BYTE_ARRAY"


@pytest.mark.parametrize("type_", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("row_group_rows", [1_000_000, 2])
def test_duckdb_finds_a_nan_which_is_greater_than_all_numbers(tmp_path, type_, row_group_rows):
    """Bounds that leave NaN out made it skip the row group, here the only or the second one."""
    path = str(tmp_path / "a.parquet")
    fields = [field(0, "d", type_), field(1, "i", "INT")]
    batch = batch_of(fields, [[1.0, 2.0, 1.0, float("nan")], [1, 2, 3, 4]])
    options = FormatOptions(row_group_rows=row_group_rows)
    write(batch, fields, files=LocalFileIO(), path=path, options=options)
    found = duckdb.sql(f"select i from read_parquet('{path}') where d > 100").fetchall()
    assert found == [(4,)]


def test_the_footer_tells_exact_size_and_rows(tmp_path):
    path = str(tmp_path / "a.parquet")
    _, footer = write(sample_batch(rows=1000), scalar_fields(), files=LocalFileIO(), path=path)
    assert footer.size_bytes == os.path.getsize(path)
    assert footer.row_count == 1000


def test_small_batches_share_a_row_group():
    f = field(0, "a", "BIGINT")
    files = MemoryFileIO()
    writer = open_writer(files, PATH, [f], FormatOptions(), stats_columns=frozenset())
    for i in range(500):
        writer.write(batch_of([f], [[i]]))
    assert writer.row_count == 500
    assert writer.buffered_bytes > 0
    writer.close()
    file = parquet_of(files)
    assert file.metadata.num_row_groups == 1
    assert file.read()["a"].to_pylist() == list(range(500))


@pytest.mark.parametrize(
    "options", [FormatOptions(row_group_rows=100), FormatOptions(row_group_bytes=800)]
)
def test_a_huge_batch_is_cut_into_row_groups(options):
    f = field(0, "a", "BIGINT NOT NULL")
    files = MemoryFileIO()
    writer = open_writer(files, PATH, [f], options, stats_columns=frozenset())
    table = pa.Table.from_batches([batch_of([f], [list(range(1030))])])
    writer.write(table.slice(30))
    assert writer.buffered_bytes < 800
    writer.close()
    file = parquet_of(files)
    rows = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
    assert max(rows) <= 101
    assert sum(rows) == 1000
    assert file.read()["a"].to_pylist() == list(range(30, 1030))


def test_the_size_estimate_is_near_the_size():
    f = field(0, "a", "BIGINT")
    rng = np.random.default_rng(1)
    files = MemoryFileIO()
    writer = open_writer(
        files, PATH, [f], FormatOptions(row_group_rows=10_000), stats_columns=frozenset()
    )
    assert writer.bytes_written_estimate == 0
    for _ in range(15):
        writer.write(batch_of([f], [rng.integers(0, 2**40, 3000)]))
    estimate = writer.bytes_written_estimate
    assert writer.close().size_bytes == pytest.approx(estimate, rel=0.2)


def test_dictionaries_go_to_columns_of_few_values():
    fields = [field(0, "few", "STRING"), field(1, "many", "STRING"), field(2, "null", "INT")]
    rows = 20_000
    columns = [[f"v{i % 7}" for i in range(rows)], [f"v{i}" for i in range(rows)], [None] * rows]
    files, _ = write(batch_of(fields, columns), fields)
    group = parquet_of(files).metadata.row_group(0)
    assert "RLE_DICTIONARY" in group.column(0).encodings
    assert "RLE_DICTIONARY" not in group.column(1).encodings


def test_a_null_in_a_required_column_is_refused_by_name():
    fields = [field(0, "k", "INT NOT NULL")]
    files = MemoryFileIO()
    writer = open_writer(files, PATH, fields, FormatOptions(), stats_columns=frozenset())
    with pytest.raises(InvalidInputError, match="'k' is NOT NULL but 1 of 2"):
        writer.write(pa.record_batch({"k": pa.array([1, None], pa.int32())}))
    writer.abort()
    assert not files.exists(PATH)


def test_rows_of_other_columns_are_a_programming_error():
    fields = [field(0, "k", "INT")]
    writer = open_writer(MemoryFileIO(), PATH, fields, FormatOptions(), stats_columns=frozenset())
    with pytest.raises(AssertionError):
        writer.write(pa.record_batch({"k": pa.array([1], pa.int64())}))
    with pytest.raises(AssertionError):
        writer.write(pa.record_batch({"x": pa.array([1], pa.int32())}))


def test_mixed_timestamp_precisions_are_refused_before_a_file_is_made():
    files = MemoryFileIO()
    fields = [field(0, "fine", "TIMESTAMP(9)"), field(1, "coarse", "TIMESTAMP(6)")]
    with pytest.raises(UnsupportedError, match=r"'fine'.*'coarse'"):
        open_writer(files, PATH, fields, FormatOptions(), stats_columns=frozenset())
    assert not files.exists(PATH)


def test_nanosecond_timestamps_are_int96_and_have_bounds():
    fields = [
        field(0, "a", "TIMESTAMP(9)"),
        field(1, "b", "TIMESTAMP(7) WITH LOCAL TIME ZONE"),
    ]
    nanos = [-1, 0, 1_700_000_000_123_456_789, None]
    batch = batch_of(fields, [nanos, nanos])
    files, footer = write(batch, fields)
    schema = parquet_of(files).schema
    assert [schema.column(i).physical_type for i in range(2)] == ["INT96", "INT96"]
    assert (footer.stats[0].min, footer.stats[0].max) == (-1, 1_700_000_000_123_456_789)
    assert next(iter(read_batches(files, PATH, fields))).equals(batch)


def test_a_codec_that_paimon_cannot_read_is_refused():
    fields = [field(0, "a", "INT")]
    for name in ("brotli", "lzo", "snapy"):
        with pytest.raises(UnsupportedError, match=name):
            open_writer(
                MemoryFileIO(),
                PATH,
                fields,
                FormatOptions(compression=name),
                stats_columns=frozenset(),
            )


def test_options_of_the_table_are_taken():
    options = Options.parse(
        {
            "file.compression": "zstd",
            "file.compression.zstd-level": "9",
            "metadata.stats-mode": "counts",
        }
    )
    chosen = format_options(options)
    assert (chosen.compression, chosen.zstd_level, chosen.stats_mode) == ("zstd", 9, "counts")
    with pytest.raises(UnsupportedError):
        format_options(Options.parse({"file.compression": "brotli"}))
    defaults = format_options(Options.parse({}))
    assert defaults == FormatOptions()


def test_a_file_is_never_written_over():
    files, _ = write(sample_batch(), scalar_fields())
    with pytest.raises(AlreadyExistsError):
        write(sample_batch(), scalar_fields(), files=files)


def test_abort_removes_the_file_and_closing_twice_is_refused():
    files = MemoryFileIO()
    fields = scalar_fields()
    writer = open_writer(
        files, PATH, fields, FormatOptions(row_group_rows=1), stats_columns=frozenset()
    )
    writer.write(sample_batch())
    writer.abort()
    writer.abort()
    del writer
    assert not files.exists(PATH)
    writer = open_writer(files, PATH, fields, FormatOptions(), stats_columns=frozenset())
    writer.close()
    writer.abort()
    assert files.exists(PATH)
    with pytest.raises(ClosedError):
        writer.close()
    with pytest.raises(ClosedError):
        writer.write(sample_batch())


@pytest.mark.parametrize("mode", [FaultMode.EIO_BEFORE, FaultMode.ENOSPC, FaultMode.EIO_AFTER])
def test_a_storage_error_in_the_middle_comes_through_and_abort_cleans_up(mode):
    inner = MemoryFileIO()
    f = field(0, "a", "BIGINT")
    writer = open_writer(
        FaultyFileIO(inner, {3: mode}),
        PATH,
        [f],
        FormatOptions(compression="none", row_group_bytes=6 << 20),
        stats_columns=frozenset(),
    )
    batch = batch_of([f], [np.random.default_rng(1).integers(0, 2**62, 2_000_000)])
    with pytest.raises(StorageError, match="fault of call 3"):
        writer.write(batch)
    writer.abort()
    assert not inner.exists(PATH)


def test_a_crash_in_the_middle_comes_through():
    f = field(0, "a", "BIGINT")
    writer = open_writer(
        FaultyFileIO(MemoryFileIO(), {2: FaultMode.CRASH_BEFORE}),
        PATH,
        [f],
        FormatOptions(),
        stats_columns=frozenset(),
    )
    writer.write(batch_of([f], [[1]]))
    with pytest.raises(SimulatedCrash):
        writer.close()


def test_a_page_of_wide_texts_is_bounded_by_bytes():
    files, texts = MemoryFileIO(), field(0, "s", "STRING")
    writer = open_writer(files, PATH, [texts], FormatOptions(), stats_columns=frozenset())
    writer.write(batch_of([texts], [[f"{i:08}" * 500 for i in range(5_000)]]))
    writer.close()
    file = pq.ParquetFile(pa.BufferReader(files.read_bytes(PATH)), pre_buffer=False)
    before = pa.total_allocated_bytes()
    batches = file.iter_batches(1, use_threads=False)
    assert next(batches).num_rows == 1
    assert (
        pa.total_allocated_bytes() - before < 4 << 20
    )  # the page that the row is in; 20 MB in all
