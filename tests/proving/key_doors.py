"""One rule for keys: what each call for rows by key takes is what ``write`` takes.

A table has a key of a drawn type. Values of all kinds are asked for by every call there is: of the
table, of a local query, of both clients of a service; one at a time and many. For each value:

1. ``write`` takes it into a table of the same columns, or refuses it.
2. Every call takes it exactly if ``write`` did. All that refuse it give the same kind of error.
3. All that take it give the row that was written by it, and that a batch read gives; and none of a
   key that was not written.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

import tidelake
from tidelake.errors import InvalidInputError, TidelakeError

__all__ = ["TYPES", "VALUES", "check_doors", "kernel_doors", "some_values", "table_of"]

TYPES = (
    "TINYINT",
    "INT",
    "BIGINT",
    "BOOLEAN",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(10, 2)",
    "DECIMAL(30, 2)",
    "STRING",
    "VARCHAR(3)",
    "CHAR(3)",
    "BYTES",
    "VARBINARY(2)",
    "DATE",
    "TIME(3)",
    "TIMESTAMP(0)",
    "TIMESTAMP(3)",
    "TIMESTAMP(6)",
    "TIMESTAMP(9)",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE",
)
_DAY, _NOON = dt.date(2026, 1, 2), dt.datetime(2026, 1, 2, 12)
VALUES: tuple[Any, ...] = (
    *(0, 1, -1, 127, 128, 2**31, 2**63 - 1, 2**63, 10**27, True, False),
    *(0.0, -0.0, 1.0, 1.5, 0.1, 1e39, -1e300, float("nan"), float("inf")),
    *map(Decimal, ("0", "1", "1.5", "1.50", "1.005", "12345678901", "1E+2", "NaN", "Infinity")),
    *("", "a", "äöü", "abcd", "1", "1.5", "true", "2026-01-02", "2026-01-02 12:00:00", "a\ud800"),
    *(b"", b"a", b"abc", b"\xff", bytearray(b"a"), memoryview(b"a")),
    *(_DAY, dt.date(1, 1, 1), dt.date(9999, 12, 31)),
    *(_NOON, _NOON.replace(hour=0), _NOON.replace(microsecond=1000), _NOON.replace(microsecond=1)),
    *(_NOON.replace(tzinfo=dt.UTC), _NOON.replace(tzinfo=dt.timezone(dt.timedelta(hours=2)))),
    *(dt.datetime.min, dt.datetime.max),
    *(dt.time(12), dt.time(12, microsecond=1000), dt.time(12, microsecond=1)),
    *(dt.time(12, tzinfo=dt.UTC), dt.timedelta(days=1)),
    *(np.int8(1), np.int64(1), np.uint64(2**63), np.float32(0.5), np.float64(1.5), np.bool_(True)),
    *(np.str_("a"), np.bytes_(b"a")),
    *(np.datetime64("2026-01-02"), np.datetime64("2026-01-02T12:00:00", "us")),
    *(np.datetime64("2026-01-02T12:00:00.000000001"), np.datetime64("NaT")),
    *([], [1], {}, {"k": 1}, {1}, object(), 1j, None),
)
Door = Callable[[object], Any]


def table_of(catalog: tidelake.Catalog, data_type: str, name: str = "db.t") -> tidelake.Table:
    """A table whose key is one column of a type."""
    return catalog.create_table(
        name, {"k": data_type, "v": "INT"}, primary_keys=["k"], options={"bucket": "2"}
    )


def some_values(data_type: str, count: int) -> list[Any]:
    """Drawn values, and all of those that a column of the type may take."""
    draw = random.Random(f"{data_type} {count}")
    return draw.sample(VALUES, min(count, len(VALUES)))


def kernel_doors(table: tidelake.Table, query: Any) -> dict[str, Door]:
    """The calls that ask a table, and a local query of it."""
    return {
        "table.get": lambda key: table.get({"k": key}),
        "table.get_many": lambda key: _only(table.get_many([{"k": key}])),
        "query.get": lambda key: query.get({"k": key}),
        "query.get_many": lambda key: _only(query.get_many([{"k": key}])),
        "query.get_many, among others": lambda key: query.get_many([{"k": key}] * 2)[1],
    }


def _only(rows: list[Any]) -> Any:
    (row,) = rows
    return row


def check_doors(
    table: tidelake.Table, values: Sequence[Any], doors: dict[str, Door], *, refresh: Door
) -> int:
    """Write each value, then ask for it by every door; how many values were taken.

    Parameters
    ----------
    table : Table
        Of :func:`table_of`.
    values : sequence
        The keys.
    doors : dict of str to callable
        Each gives the row of a key.
    refresh : callable
        Called with the table before the doors are asked.
    """
    data_type = table.table_schema.field("k").type
    taken = []
    for number, value in enumerate(values):
        try:
            table.write([{"k": value, "v": number}])
        except InvalidInputError:
            taken.append(False)
        else:
            taken.append(True)
    refresh(table)
    rows = [*map(repr, table.to_arrow().to_pylist()), "None"]
    for value, is_taken in zip(values, taken, strict=True):
        said = {name: _said(door, value) for name, door in doors.items()}
        assert len(set(said.values())) == 1, f"{value!r} for {data_type}: {said}"
        (one,) = set(said.values())
        if is_taken:
            assert one in rows, f"{value!r} for {data_type}: {one}, {rows}"
            assert one != "None", f"{value!r} for {data_type} was written and is not found"
        else:
            kind = "key_null" if value is None else "key_type"
            assert one == kind, f"{value!r} for {data_type}: {one}"
    return sum(taken)


def _said(door: Door, key: object) -> str:
    try:
        return repr(door(key))
    except TidelakeError as error:
        return error.kind
