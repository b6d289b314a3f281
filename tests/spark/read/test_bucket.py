from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from tidelake.codec.bucket import buckets_of
from tidelake.spark.expression.bucket_expression import binary_row, bucket_column, has_expression
from tidelake.spark.expression.expression import big_endian_bytes, hex_bytes, quoted
from tidelake.spark.expression.types import spark_schema
from tidelake.types import DataField, TypeRoot, parse_type
from tidelake.types.arrow import to_arrow_type

ALL_BITS = 2_147_483_647
"""A number of buckets that leaves nearly the whole hash visible."""

TYPES = [
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "CHAR(9)",
    "BYTES", "DATE", "DECIMAL(10, 2)", "DECIMAL(18, 18)", "DECIMAL(1, 1)", "DECIMAL(30, 6)",
    "DECIMAL(38, 0)", "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(6) WITH LOCAL TIME ZONE",
]  # fmt: skip
ROWS = 40
MICROS_MIN, MICROS_MAX = -62_135_510_400_000_000, 253_402_214_400_000_000


def value_of(rng: random.Random, data_type):
    root, precision = data_type.root, data_type.precision
    if data_type.nullable and rng.random() < 0.2:
        return None
    bits = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}.get(root.value)
    if bits:
        high = 2 ** (bits - 1)
        return rng.choice([0, 1, -1, high - 1, -high, rng.randrange(-high, high)])
    match root:
        case TypeRoot.BOOLEAN:
            return rng.random() < 0.5
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return rng.choice([0.0, 1.5, -2.25, float(rng.randrange(-(2**20), 2**20)) / 8])
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            length = rng.choice([0, 1, 2, 6, 7, 8, 9, 15, 16, 17, 40])
            return "".join(rng.choice("ab日é\x00z") for _ in range(length))
        case TypeRoot.VARBINARY:
            return rng.randbytes(rng.choice([0, 1, 6, 7, 8, 9, 16, 100]))
        case TypeRoot.DATE:
            return dt.date(1, 1, 2) + dt.timedelta(days=rng.randrange(3_652_000))
        case TypeRoot.DECIMAL:
            unscaled = rng.randrange(-(10**precision) + 1, 10**precision)
            return Decimal(f"{rng.choice([0, 1, -1, unscaled])}E-{data_type.scale}")
    # a moment that the clocks of New York skip, among others
    micros = rng.choice(
        [0, -1, 1, -1001, 1_678_588_200_123_456, rng.randrange(MICROS_MIN, MICROS_MAX)]
    )
    unit = 10 ** (6 - precision)
    micros = micros // unit * unit
    zone = dt.UTC if root is TypeRoot.TIMESTAMP_LTZ else None
    return dt.datetime(1970, 1, 1, tzinfo=zone) + dt.timedelta(microseconds=micros)


@pytest.fixture(scope="module")
def sample(spark):
    """A column of each type, with and without nulls, as fields, Arrow arrays and a DataFrame."""
    rng = random.Random(7)
    fields, arrays = [], []
    for text in TYPES:
        for suffix in ("", " NOT NULL"):
            data_type = parse_type(text + suffix)
            name = f"c{len(fields)}"
            fields.append(DataField(len(fields), name, data_type))
            values = [value_of(rng, data_type) for _ in range(ROWS)]
            arrays.append(pa.array(values, to_arrow_type(data_type)))
    columns = [a.to_pylist() for a in arrays]
    rows = [tuple(column[i] for column in columns) for i in range(ROWS)]
    frame = spark.createDataFrame(rows, spark_schema(fields)).coalesce(1).cache()
    yield fields, arrays, frame
    frame.unpersist()


def keys_of(fields):
    return [(f, F.col(quoted(f.name))) for f in fields]


def key_sets(fields):
    by_type = {str(f.type): i for i, f in enumerate(fields)}
    composite = [
        ["STRING NOT NULL", "STRING"],
        ["STRING", "BYTES", "TIMESTAMP(6)", "INT", "CHAR(9)"],
        ["TIMESTAMP(6) NOT NULL", "STRING NOT NULL", "BIGINT NOT NULL", "DATE"],
        ["TIMESTAMP(6) WITH LOCAL TIME ZONE", "DECIMAL(10, 2)", "BOOLEAN"],
        ["DECIMAL(30, 6)", "STRING", "DOUBLE NOT NULL"],
    ]
    singles = [[i] for i in range(len(fields))]
    return singles + [[by_type[t] for t in types] for types in composite]


@pytest.mark.share(2)
@pytest.mark.parametrize(("buckets_count", "sets_from"), [(ALL_BITS, 0), (7, -5), (1, -2)])
def test_the_expression_gives_the_kernels_bucket(spark, sample, buckets_count, sets_from):
    fields, arrays, frame = sample
    sets = key_sets(fields)[sets_from:]
    columns = [
        bucket_column(spark, keys_of([fields[i] for i in key]), buckets_count=buckets_count)
        for key in sets
    ]
    names = [f"b{i}" for i in range(len(sets))]
    found = frame.select(*(c.alias(n) for c, n in zip(columns, names, strict=True))).collect()
    for key, name in zip(sets, names, strict=True):
        expected = buckets_of(
            [arrays[i] for i in key], [fields[i].type for i in key], buckets_count
        )
        types = [str(fields[i].type) for i in key]
        assert [row[name] for row in found] == expected.tolist(), types


def test_bytes_by_way_of_text_are_those_of_the_cast(spark, sample):
    fields, _, frame = sample
    keys = keys_of([f for f in fields if has_expression(f.type)][::3])
    by_cast, by_text = binary_row(keys, big_endian_bytes(spark)), binary_row(keys, hex_bytes)
    found = frame.select(by_cast.alias("a"), by_text.alias("b")).collect()
    assert [row["a"] for row in found] == [row["b"] for row in found]


def test_modulus_of_negative_numbers_rounds_down(spark):
    field = DataField(0, "k", parse_type("BIGINT NOT NULL"))
    numbers = [0, 1, -1, 5, -5, 2**63 - 1, -(2**63)]
    column = bucket_column(spark, keys_of([field]), buckets_count=5, function="mod")
    frame = spark.createDataFrame([(n,) for n in numbers], "k bigint")
    expected = buckets_of([pa.array(numbers)], [field.type], 5, function="mod")
    assert [row[0] for row in frame.select(column).collect()] == expected.tolist()


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("type_text", "value", "row_hex", "hash_value"),
    [  # rows and hashes of Java Paimon 1.3.1
        ("INT", 42, "00000000000000002a00000000000000", 907821237),
        ("INT", None, "00010000000000000000000000000000", -1748325344),
        ("BIGINT", -5, "0000000000000000fbffffffffffffff", -716660054),
        ("TINYINT", -1, "0000000000000000ff00000000000000", 2004758659),
        ("SMALLINT", 300, "00000000000000002c01000000000000", 690796707),
        ("BOOLEAN", True, "00000000000000000100000000000000", 1465514398),
        ("STRING", "", "00000000000000000000000000000080", 302122119),
        ("STRING", "abcdefg", "00000000000000006162636465666787", -1431907323),
        ("STRING", "abcdefgh", "000000000000000008000000100000006162636465666768", -843760178),
        ("STRING", "é€", "0000000000000000c3a9e282ac000085", 1244700773),
        ("BYTES", b"\1\2\3", "00000000000000000102030000000083", 1066645297),
        ("DATE", dt.date(2022, 1, 8), "0000000000000000384a000000000000", -1241043695),
        ("DECIMAL(18, 2)", Decimal("-12.34"), "00000000000000002efbffffffffffff", 808378434),
        (
            "TIMESTAMP(3)",
            dt.datetime(2023, 11, 14, 22, 13, 20, 123000),
            "00000000000000007b68e5cf8b010000",
            -1285420957,
        ),
        (
            "TIMESTAMP(6) WITH LOCAL TIME ZONE",
            dt.datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=dt.UTC),
            "000000000000000040f50600100000007b68e5cf8b010000",
            1196670069,
        ),
        (
            "TIMESTAMP(6)",
            None,
            "000100000000000000000000100000000000000000000000",
            -340882661,
        ),
    ],
)
def test_rows_and_hashes_are_javas(spark, type_text, value, row_hex, hash_value):
    field = DataField(0, "k", parse_type(type_text))
    frame = spark.createDataFrame([(value,)], spark_schema([field]))
    row = binary_row(keys_of([field]), big_endian_bytes(spark))
    found = frame.select(F.hex(row), F.hash(row)).first()
    assert (found[0].lower(), found[1]) == (row_hex, hash_value)
