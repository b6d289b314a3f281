"""Columns and rows that the tests of data files share."""

from __future__ import annotations

import datetime
import decimal
import io

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from tidelake.fileio import MemoryFileIO
from tidelake.format import FormatOptions, open_writer
from tidelake.types import DataField, parse_type
from tidelake.types.arrow import to_arrow_schema

PATH = "/t/bucket-0/data-1.parquet"

SCALARS = (
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(9, 2)",
    "DECIMAL(18, 3)",
    "DECIMAL(38, 10)",
    "CHAR(3)",
    "STRING",
    "BYTES",
    "DATE",
    "TIME(3)",
    "TIMESTAMP(3)",
    "TIMESTAMP(6)",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE",
)


def field(id_: int, name: str, type_: str) -> DataField:
    return DataField(id_, name, parse_type(type_))


def scalar_fields(*, nullable: bool = True) -> tuple[DataField, ...]:
    suffix = "" if nullable else " NOT NULL"
    return tuple(field(i, f"c{i}", t + suffix) for i, t in enumerate(SCALARS))


def batch_of(fields, columns) -> pa.RecordBatch:
    schema = to_arrow_schema(fields)
    arrays = [pa.array(c, schema.field(i).type) for i, c in enumerate(columns)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def sample_batch(fields=None, rows: int = 3) -> pa.RecordBatch:
    """Some rows of every scalar type; the last of three is null."""
    utc = datetime.UTC
    day = datetime.datetime(2024, 2, 29, 23, 59, 59, 123000)
    samples = {
        "BOOLEAN": [True, False],
        "TINYINT": [-128, 127],
        "SMALLINT": [-32768, 32767],
        "INT": [-(2**31), 2**31 - 1],
        "BIGINT": [-(2**63), 2**63 - 1],
        "FLOAT": [-1.5, 3.25],
        "DOUBLE": [1e300, -0.0],
        "DECIMAL(9, 2)": [decimal.Decimal("-9999999.99"), decimal.Decimal("0.01")],
        "DECIMAL(18, 3)": [decimal.Decimal("999999999999999.999"), decimal.Decimal(0)],
        "DECIMAL(38, 10)": [
            decimal.Decimal("-1234567890123456789012345678.0123456789"),
            decimal.Decimal(1),
        ],
        "CHAR(3)": ["abc", "ü"],
        "STRING": ["", "a longer text than sixteen characters"],
        "BYTES": [b"", b"\x00\xff"],
        "DATE": [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)],
        "TIME(3)": [datetime.time(0), datetime.time(23, 59, 59, 999000)],
        "TIMESTAMP(3)": [day, datetime.datetime(1, 1, 1)],
        "TIMESTAMP(6)": [day.replace(microsecond=123456), datetime.datetime(9999, 12, 31)],
        "TIMESTAMP(3) WITH LOCAL TIME ZONE": [day.replace(tzinfo=utc)] * 2,
        "TIMESTAMP(6) WITH LOCAL TIME ZONE": [day.replace(tzinfo=utc)] * 2,
    }
    fields = scalar_fields() if fields is None else fields
    columns = []
    for f in fields:
        values = samples[str(f.type.as_nullable())]
        cycle = [*values, None] if f.type.nullable else values
        columns.append([cycle[i % len(cycle)] for i in range(rows)])
    return batch_of(fields, columns)


def write(batch, fields, *, files=None, path=PATH, options=None, stats=None):
    """Write one file; the FileIO and the footer."""
    files = MemoryFileIO() if files is None else files
    columns = frozenset(f.name for f in fields) if stats is None else stats
    writer = open_writer(files, path, fields, options or FormatOptions(), stats_columns=columns)
    writer.write(batch)
    return files, writer.close()


def parquet_of(files, path=PATH) -> pq.ParquetFile:
    return pq.ParquetFile(io.BytesIO(files.read_bytes(path)))


def put_parquet(table: pa.Table, *, ids=None, files=None, path=PATH, **options) -> MemoryFileIO:
    """A file as another writer would make it, with field ids where given."""
    files = MemoryFileIO() if files is None else files
    if ids is not None:
        table = table.cast(
            pa.schema(
                [
                    f.with_metadata({"PARQUET:field_id": str(i)})
                    for f, i in zip(table.schema, ids, strict=True)
                ]
            )
        )
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    files.write_once(path, sink.getvalue())
    return files


def values_of(type_: str) -> st.SearchStrategy:
    """Any value of a scalar type, or None."""
    return st.none() | some_value_of(type_)


def some_value_of(type_: str) -> st.SearchStrategy:
    """Any value of a scalar type."""
    data_type = parse_type(type_)
    name = str(data_type)
    digits = data_type.precision or 0
    strategies = {
        "BOOLEAN": st.booleans(),
        "TINYINT": st.integers(-128, 127),
        "SMALLINT": st.integers(-(2**15), 2**15 - 1),
        "INT": st.integers(-(2**31), 2**31 - 1),
        "BIGINT": st.integers(-(2**63), 2**63 - 1),
        "FLOAT": st.floats(width=32),
        "DOUBLE": st.floats(),
        "CHAR(3)": st.text(max_size=3),
        "STRING": st.text(max_size=40),
        "BYTES": st.binary(max_size=40),
        "DATE": st.dates(),
        "TIME(3)": st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    }
    if name in strategies:
        return strategies[name]
    if name.startswith("DECIMAL"):
        unscaled = st.integers(-(10**digits) + 1, 10**digits - 1)
        return unscaled.map(
            lambda n: decimal.Decimal((n < 0, tuple(map(int, str(abs(n)))), -data_type.scale))
        )
    zone = st.just(datetime.UTC) if "ZONE" in name else st.none()
    step = 1000 if digits <= 3 else 1
    return st.datetimes(timezones=zone).map(
        lambda t: t.replace(microsecond=t.microsecond // step * step)
    )
