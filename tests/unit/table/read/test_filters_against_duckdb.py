"""Random filters on tables full of traps, against DuckDB on the same rows unfiltered.

The tables have many small files, overlapping runs, deletes, partitions, long strings with common
prefixes (so that statistics are truncated), NaN, signed zeros, nulls and extreme values: a plan
that prunes too much, or a filter applied before the merge, shows as a missing or an extra row.
"""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidelake

SCHEMA = pa.schema(
    [
        ("p", pa.string()),
        ("k", pa.int32()),
        ("s", pa.string()),
        ("d", pa.float64()),
        ("m", pa.decimal128(20, 3)),
        ("t", pa.timestamp("us")),
        ("day", pa.date32()),
        ("b", pa.bool_()),
    ]
)
LONG = "common-prefix-of-sixteen-and-more-"
POOL = {
    "p": ["", "a", "b", "z z"],
    "k": [*range(60), -(2**31), 2**31 - 1],
    "s": [None, "", "a", "ab", "é", "zz\uffff", LONG + "a", LONG + "b", LONG + "\uffff", "z" * 40],
    "d": [None, 0.0, -0.0, 1.5, -1e300, 1e300, float("inf"), float("-inf"), float("nan")],
    "m": [None, Decimal("0.001"), Decimal("-12345678901234567.999"), Decimal(7), Decimal("1.500")],
    "t": [
        None,
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
        dt.datetime(2024, 2, 29, 12),
        dt.datetime(2024, 2, 29, 12, 0, 0, 1),
        dt.datetime(9999, 12, 31),
    ],
    "day": [None, dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(2024, 2, 29)],
    "b": [None, True, False],
}


def random_rows(rng, count):
    """Rows of few distinct values per column, so that a file's statistics exclude much."""
    few = {n: pool if n in {"p", "k"} else rng.sample(pool, 2) for n, pool in POOL.items()}
    picked = {name: [rng.choice(pool) for _ in range(count)] for name, pool in few.items()}
    return pa.table([pa.array(picked[f.name], f.type) for f in SCHEMA], schema=SCHEMA)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    rng = random.Random(7)
    catalog = tidelake.open(tmp_path_factory.mktemp("w"))
    small = {
        "target-file-size": "4 kb",
        "source.split.target-size": "8 kb",
        "source.split.open-file-cost": "1 kb",
    }
    made = {
        "append": catalog.create_table("d.append", SCHEMA, options=small),
        "append in buckets": catalog.create_table(
            "d.buckets",
            SCHEMA,
            partition_keys=["p"],
            options={**small, "bucket": 3, "bucket-key": "s,k"},
        ),
        "keyed": catalog.create_table(
            "d.keyed", SCHEMA, primary_keys=["k"], options={**small, "bucket": 2}
        ),
        "keyed in partitions": catalog.create_table(
            "d.parts",
            SCHEMA,
            primary_keys=["p", "k"],
            partition_keys=["p"],
            options={**small, "bucket": 2, "write-only": True},
        ),
        "keyed by sequence": catalog.create_table(
            "d.sequence",
            SCHEMA,
            primary_keys=["k"],
            options={**small, "bucket": 1, "sequence.field": "t,m", "write-only": True},
        ),
    }
    for table in made.values():
        for round_number in range(8):
            table.write(random_rows(rng, 25))
            if table.primary_keys and round_number in {1, 3}:
                gone = random_rows(rng, 15)
                table.write(gone, row_kinds=["-D"] * 15)
        if "parts" in table.identifier:
            table.copy({"write-only": False}).compact(full=True)
            table.write(random_rows(rng, 20))
    return {name: (table, table.to_arrow()) for name, table in made.items()}


def literal(value):
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    return repr(value) if isinstance(value, float) else str(value)


def is_plain(value):
    """Whether a value has a literal in SQL."""
    return (
        value is not None
        and not (isinstance(value, float) and abs(value) in {float("inf")})
        and value == value
    )


def column_condition(name):
    values = st.sampled_from([v for v in POOL[name] if is_plain(v)]).map(literal)
    operators = ["=", "<>"] if name == "b" else ["=", "<>", "<", "<=", ">", ">="]
    compare = st.builds("{} {} {}".format, st.just(name), st.sampled_from(operators), values)
    listed = st.lists(values, min_size=1, max_size=3).map(lambda v: f"{name} IN ({', '.join(v)})")
    null = st.sampled_from([f"{name} IS NULL", f"{name} IS NOT NULL"])
    kinds = [compare, compare, listed, null]
    if name != "b":
        kinds.append(st.builds("{} BETWEEN {} AND {}".format, st.just(name), values, values))
    if name in {"s", "p"}:
        kinds.append(st.sampled_from([f"{name} LIKE 'a%'", f"{name} LIKE '{LONG}%'"]))
    return st.one_of(kinds)


condition = st.recursive(
    st.sampled_from(SCHEMA.names).flatmap(column_condition),
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("(NOT {})".format, inner),
    ),
    max_leaves=4,
)


def shown(table):
    return sorted(map(repr, table.to_pylist()))


@pytest.mark.parametrize(
    "kind",
    ["append", "append in buckets", "keyed", "keyed in partitions", "keyed by sequence"],
)
@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=condition)
def test_filters_give_what_duckdb_gives(tables, kind, text):
    table, everything = tables[kind]
    want = duckdb.from_arrow(everything).filter(text).to_arrow_table()
    got = table.to_arrow(where=text)
    assert shown(got) == shown(want.cast(got.schema))
    assert table.count(where=text) == got.num_rows
    assert table.to_arrow(where=text, columns=["m"], limit=3).num_rows == min(3, got.num_rows)
