"""Rows through the frames of other libraries and back, with planted bugs of theirs.

A run draws columns of every type, values at the edges where a library rounds, and nulls. The rows
go into a table, out by one door (pandas, Polars, Arrow, Python rows and columns) and into a second
table: both hold the same. Then integers are made floats on the way, as pandas does by itself: the
write refuses them, or the values are the same.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Collection
from decimal import Decimal

import pandas as pd
import polars as pl
import pyarrow as pa

import tidelake
from proving.planting import edited
from tidelake.errors import InvalidInputError
from tidelake.fileio import MemoryFileIO
from tidelake.table.conversion import inputs, pandas_frames, python_values
from tidelake.types import DataField
from tidelake.types.arrow import to_arrow_type

__all__ = ["CHECKS", "PLANTED", "check_frames", "run_seed"]

ROWS = 6
NULLS_SHARE = 0.3
_MOMENT = dt.datetime(2026, 3, 8, 2, 30, 0, 123_456)
_INTEGERS = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}


def _whole(bits: int, rng: random.Random) -> int:
    edges = [0, -1, 2**bits - 1, -(2**bits), min(2**53 + 1, 2**bits - 1), min(2**24 + 1, 2**7 - 1)]
    return rng.choice([*edges, rng.randrange(-(2**bits), 2**bits)])


def _instant(digits: int, rng: random.Random, zone: dt.tzinfo | None) -> object:
    moment = _MOMENT.replace(tzinfo=zone) + dt.timedelta(
        microseconds=rng.randrange(-(10**15), 10**15)
    )
    if digits == 3:
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    return moment if digits == 6 else pd.Timestamp(moment) + pd.Timedelta(rng.randrange(1000), "ns")


_SCALARS: dict[str, Callable[[random.Random], object]] = {
    **{name: lambda rng, bits=bits: _whole(bits, rng) for name, bits in _INTEGERS.items()},
    "BOOLEAN": lambda rng: rng.random() < 0.5,
    "FLOAT": lambda rng: rng.choice([0.5, -0.0, float("nan"), float("inf"), 2.0**24, 1e30]),
    "DOUBLE": lambda rng: rng.choice([0.1, -0.0, float("nan"), float("inf"), 2.0**53, 1e300]),
    "DECIMAL(38, 3)": lambda rng: Decimal(rng.randrange(-(10**38) + 1, 10**38)).scaleb(-3),
    "DECIMAL(9, 2)": lambda rng: Decimal(rng.randrange(-(10**9) + 1, 10**9)).scaleb(-2),
    "STRING": lambda rng: rng.choice(["", "a", "nan", "None", "ü\0"]),
    "BYTES": lambda rng: rng.choice([b"", b"\xff\0", b"nan"]),
    "DATE": lambda rng: dt.date(1, 1, 1) + dt.timedelta(rng.randrange(3_652_059)),
    "TIME(3)": lambda rng: (
        dt.datetime.min + dt.timedelta(milliseconds=rng.randrange(86_400_000))
    ).time(),
    **{f"TIMESTAMP({n})": lambda rng, n=n: _instant(n, rng, None) for n in (3, 6, 9)},
    **{f"TIMESTAMP_LTZ({n})": lambda rng, n=n: _instant(n, rng, dt.UTC) for n in (3, 6, 9)},
}


class Column:
    """A drawn type and its values."""

    def __init__(
        self, rng: random.Random, *, maps: bool, without: Collection[str], depth: int = 2
    ) -> None:
        nested = ["ARRAY", "ROW", *(["MAP"] if maps else [])] if depth else []
        kind = rng.choice([*nested, None, None, None])
        self.children = [
            Column(rng, maps=maps, without=without, depth=depth - 1)
            for _ in range(2 if kind else 0)
        ]
        self.kind = kind
        self.scalar = (
            rng.choice(sorted(_SCALARS.keys() - set(without))) if rng.random() < 0.6 else "BIGINT"
        )

    @property
    def type(self) -> str:
        if self.kind is None:
            return self.scalar
        inner = [child.type for child in self.children]
        if self.kind == "ROW":
            return f"ROW<a {inner[0]}, b {inner[1]}>"
        return f"ARRAY<{inner[0]}>" if self.kind == "ARRAY" else f"MAP<STRING, {inner[1]}>"

    def value(self, rng: random.Random, *, may_be_null: bool = True) -> object:
        if may_be_null and rng.random() < NULLS_SHARE:
            return None
        if self.kind is None:
            return _SCALARS[self.scalar](rng)
        if self.kind == "ROW":
            return {name: c.value(rng) for name, c in zip("ab", self.children, strict=True)}
        count = rng.randrange(3)
        if self.kind == "ARRAY":
            return [self.children[0].value(rng) for _ in range(count)]
        return [("xyz"[n], self.children[1].value(rng)) for n in range(count)]


def _columns(table: tidelake.Table) -> dict[str, list[object]]:
    rows = table.to_arrow()
    return {name: rows.column(name).to_pylist() for name in rows.column_names}


DOORS: dict[str, Callable[[tidelake.Table], object]] = {
    "pandas": lambda table: table.to_pandas(),
    "pandas by Arrow's types": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas columns": lambda table: dict(table.to_pandas().items()),
    "polars": lambda table: table.to_polars(),
    "polars columns": lambda table: {c.name: c for c in table.to_polars().get_columns()},
    "arrow": lambda table: table.to_arrow(),
    "python rows": lambda table: table.to_arrow().to_pylist(),
    "python columns": _columns,
}


def run_seed(seed: int) -> None:
    """One table through every door."""
    rng = random.Random(f"frames {seed}")
    fine = [name for name in _SCALARS if name.endswith("(9)")]
    coarse = [name for name in _SCALARS if name.startswith("TIMESTAMP") and name not in fine]
    without = fine if rng.random() < 0.7 else coarse  # a table has one sort or the other
    # Polars has no maps: what it makes of them is refused
    columns = {f"c{n}": Column(rng, maps=seed % 2 == 0, without=without) for n in range(4)}
    catalog = tidelake.open("/w", fileio=MemoryFileIO())
    schema = {"k": "INT", **{name: column.type for name, column in columns.items()}}
    table = catalog.create_table("db.t", schema)
    rows = [{"k": k, **{name: c.value(rng) for name, c in columns.items()}} for k in range(ROWS)]
    fields = table.table_schema.fields
    table.write(pa.table({f.name: _arrow(rows, f) for f in fields}))
    for number, (name, door) in enumerate(DOORS.items()):
        if "polars" in name and seed % 2 == 0:
            continue
        target = catalog.create_table(f"db.t{number}", schema)
        target.write(door(table))
        assert _shown(target) == _shown(table), (seed, name, schema)
    _as_floats(catalog, rng)


def _arrow(rows: list[dict], field: DataField) -> pa.Array:
    return pa.array([row[field.name] for row in rows], to_arrow_type(field.type))


def _shown(table: tidelake.Table) -> list[str]:
    """Each row as text, in which a NaN equals a NaN."""
    return sorted(repr(row) for row in table.to_arrow().to_pylist())


def _as_floats(catalog: tidelake.Catalog, rng: random.Random) -> None:
    """Integers that became floats on the way are refused where they may be others."""
    values = [_whole(63, rng) if rng.random() < 0.5 else rng.randrange(2**40) for _ in range(3)]
    floats = [float(value) for value in values]
    with_null = [*floats, None]
    given: dict[str, object] = {
        "rows": [{"v": value} for value in with_null],
        "columns": {"v": with_null},
        "pandas": pd.DataFrame({"v": with_null}),
        "pandas without nulls": pd.DataFrame({"v": floats}),
        "pandas Float64": pd.DataFrame({"v": pd.array(with_null, dtype="Float64")}),
        "pandas column": {"v": pd.Series(with_null)},
        "polars": pl.DataFrame({"v": with_null}),
        "polars column": {"v": pl.Series(with_null)},
        "arrow": pa.table({"v": pa.array(with_null, pa.float64())}),
    }
    for number, (name, data) in enumerate(given.items()):
        table = catalog.create_table(f"db.f{number}", {"v": "BIGINT"})
        try:
            table.write(data)
        except InvalidInputError as error:
            if error.kind not in {"value_range", "bad_value", "column_type"}:
                raise
            continue
        got = [value for value in table.to_arrow()["v"].to_pylist() if value is not None]
        assert sorted(got) == sorted(values), (name, values, got)


def check_frames() -> None:
    """Some seeds; the test draws more."""
    for seed in range(6):
        run_seed(seed)


CHECKS = (check_frames,)
PLANTED = (
    (
        "a frame keeps integers beside nulls as floats",
        "check_frames",
        (
            pandas_frames,
            "_exact",
            edited("kinds.is_integer(kind) and column.null_count", "kinds.is_null(kind)"),
        ),
    ),
    (
        "floats from two to the 53rd on are taken for integers",
        "check_frames",
        (inputs, "_check_whole", lambda _: lambda *_, **__: None),
    ),
    (
        "Python's floats from two to the 53rd on are taken for integers",
        "check_frames",
        (python_values, "_cut", edited("return rounds or value", "return value")),
    ),
    (
        "a frame makes NaN of a null inside a value",
        "check_frames",
        (pandas_frames, "_has_inner_nulls", lambda _: lambda _: False),
    ),
)
