"""One cell as text, exactly: the coding in which all readers of the interop check answer.

======================  ==========================================================
type                    text (null is ``None``)
======================  ==========================================================
BOOLEAN                 ``true`` / ``false``
TINYINT .. BIGINT       decimal digits
FLOAT, DOUBLE           ``f:`` / ``d:`` and the IEEE bits in hex (every NaN is the canonical one)
DECIMAL                 ``n:`` and the digits with all places of the scale
CHAR, VARCHAR           ``s:`` and the text
BINARY, VARBINARY       ``x:`` and hex
DATE                    ``day:`` and days since the epoch
TIME                    ``ms:`` and milliseconds of the day
TIMESTAMP, LTZ          ``ns:`` and nanoseconds since the epoch
VARIANT                 ``v:`` and both binaries in hex, ``/`` between
ARRAY, ROW              ``[``, the cells inside one after the other, ``]``
MAP, MULTISET           ``{``, key and value of each entry by the order of the keys' texts, ``}``
======================  ==========================================================

A cell inside another is ``-`` for null, else the number of its characters, ``:`` and its text.

``java/Cells.java`` is the same table in Java. Two ways lead here: from Arrow columns (what a
Python reader returned) and from plain Python values with a Paimon type (what a case expects). They
share no code with the product, and this module needs nothing but pyarrow: it also runs inside the
virtual environments of the other engines.
"""

from __future__ import annotations

import decimal
import math
import re
import struct
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

Cell = str | None

_UNIT_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_NAN_32, _NAN_64 = "f:7fc00000", "d:7ff8000000000000"


def _float_cell(value: float) -> str:
    return _NAN_32 if math.isnan(value) else "f:" + struct.pack(">f", value).hex()


def _double_cell(value: float) -> str:
    return _NAN_64 if math.isnan(value) else "d:" + struct.pack(">d", value).hex()


def _decimal_cell(value: decimal.Decimal, scale: int) -> str:
    with decimal.localcontext(prec=60):
        return f"n:{value.quantize(decimal.Decimal(1).scaleb(-scale)):f}"


def _inside(cells: Iterable[Cell]) -> str:
    return "".join("-" if c is None else f"{len(c)}:{c}" for c in cells)


def inside(cell: str) -> list[Cell]:
    """The cells inside a cell of an ARRAY, a ROW, a MAP or a MULTISET, one after the other.

    >>> inside("[1:5-4:s:ab]"), inside("{}")
    (['5', None, 's:ab'], [])
    """
    found: list[Cell] = []
    at = 1
    while at < len(cell) - 1:
        if cell[at] == "-":
            found.append(None)
            at += 1
        else:
            colon = cell.index(":", at)
            end = colon + 1 + int(cell[at:colon])
            found.append(cell[colon + 1 : end])
            at = end
    return found


def with_inside(cell: str, cells: Iterable[Cell]) -> str:
    """The same array, row, map or multiset with other cells inside."""
    return f"{cell[0]}{_inside(cells)}{cell[-1]}"


def _sequence_cell(cells: Iterable[Cell]) -> str:
    return f"[{_inside(cells)}]"


def _map_cell(entries: Iterable[tuple[Cell, Cell]]) -> str:
    ordered = sorted(entries, key=lambda entry: entry[0] or "")
    return f"{{{_inside(c for entry in ordered for c in entry)}}}"


def _variant_cell(value: bytes, metadata: bytes) -> str:
    return f"v:{value.hex()}/{metadata.hex()}"


def _nested_cells(column: pa.ChunkedArray) -> list[Cell]:
    kind, found = column.type, []
    for chunk in column.chunks:
        # one row at a time: the plainest way, and the tables here are small
        for scalar in chunk:
            if not scalar.is_valid:
                found.append(None)
            elif pa.types.is_struct(kind) and {f.name for f in kind} == {"value", "metadata"}:
                found.append(_variant_cell(scalar["value"].as_py(), scalar["metadata"].as_py()))
            elif pa.types.is_struct(kind):
                found.append(
                    _sequence_cell(_one_cell(scalar[i], f.type) for i, f in enumerate(kind))
                )
            else:
                values = scalar.values
                if pa.types.is_map(kind):
                    keys, items = (
                        column_cells(pa.chunked_array([values.field(i)])) for i in (0, 1)
                    )
                    found.append(_map_cell(zip(keys, items, strict=True)))
                else:
                    found.append(_sequence_cell(column_cells(pa.chunked_array([values]))))
    return found


def _one_cell(scalar: pa.Scalar, kind: pa.DataType) -> Cell:
    array = pa.array([scalar], kind) if not pa.types.is_nested(kind) else pa.repeat(scalar, 1)
    return column_cells(pa.chunked_array([array]))[0]


def column_cells(column: pa.ChunkedArray) -> list[Cell]:
    """The cells of one Arrow column."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pa.types.is_timestamp(kind):
        factor = _UNIT_NS[kind.unit]
        return [
            None if v is None else f"ns:{v * factor}" for v in column.cast(pa.int64()).to_pylist()
        ]
    if pa.types.is_date32(kind):
        return [None if v is None else f"day:{v}" for v in column.cast(pa.int32()).to_pylist()]
    if pa.types.is_time(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        factor = _UNIT_NS[kind.unit]
        return [
            None if v is None else f"ms:{v * factor // 1_000_000}"
            for v in column.cast(width).to_pylist()
        ]
    if pa.types.is_nested(kind):
        return _nested_cells(column)
    values = column.to_pylist()
    if pa.types.is_boolean(kind):
        return [None if v is None else str(v).lower() for v in values]
    if pa.types.is_integer(kind):
        return [None if v is None else str(v) for v in values]
    if pa.types.is_float32(kind):
        return [None if v is None else _float_cell(v) for v in values]
    if pa.types.is_float64(kind):
        return [None if v is None else _double_cell(v) for v in values]
    if pa.types.is_decimal(kind):
        return [None if v is None else _decimal_cell(v, kind.scale) for v in values]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return [None if v is None else "s:" + v for v in values]
    if (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    ):
        return [None if v is None else "x:" + v.hex() for v in values]
    message = f"no text form for a cell of Arrow type {kind}"
    raise TypeError(message)


def table_cells(table: pa.Table) -> list[tuple[Cell, ...]]:
    """The rows of an Arrow table as tuples of cells."""
    if not table.num_columns:
        return [()] * table.num_rows
    return list(zip(*(column_cells(c) for c in table.columns), strict=True))


TypeForm = str | dict[str, Any]


def _nested_value_cell(value: Any, form: dict[str, Any]) -> Cell:
    """The cell of a list (ARRAY), a tuple (ROW) or a list of pairs (MAP, MULTISET)."""
    root = form["type"].split()[0]
    if root == "ARRAY":
        return _sequence_cell(value_cell(v, form["element"]) for v in value)
    if root == "ROW":
        types = [f["type"] for f in form["fields"]]
        return _sequence_cell(value_cell(v, t) for v, t in zip(value, types, strict=True))
    key, item = (form["element"], "INT") if root == "MULTISET" else (form["key"], form["value"])
    return _map_cell((value_cell(k, key), value_cell(v, item)) for k, v in value)


def value_cell(value: object, type_text: TypeForm) -> Cell:
    """The cell of a plain Python value under a Paimon type such as ``"DECIMAL(10, 2) NOT NULL"``.

    DATE is given as days, TIME as milliseconds, TIMESTAMP as nanoseconds: whole numbers, so that
    no calendar or clock stands between a case and what it means.

    >>> value_cell(decimal.Decimal("1.5"), "DECIMAL(10, 2)"), value_cell(-0.0, "DOUBLE")
    ('n:1.50', 'd:8000000000000000')
    """
    if value is None:
        return None
    if isinstance(type_text, dict):
        return _nested_value_cell(value, type_text)
    root = re.match(r"[A-Z_]+", type_text).group()
    if root == "VARIANT":
        return _variant_cell(*value)
    if root == "BOOLEAN":
        return str(value).lower()
    if root in {"TINYINT", "SMALLINT", "INT", "BIGINT"}:
        return str(value)
    if root == "FLOAT":
        return _float_cell(value)
    if root == "DOUBLE":
        return _double_cell(value)
    if root == "DECIMAL":
        return _decimal_cell(value, int(re.search(r",\s*(\d+)\)", type_text).group(1)))
    if root in {"CHAR", "VARCHAR", "STRING"}:
        return "s:" + value
    if root in {"BINARY", "VARBINARY", "BYTES"}:
        return "x:" + value.hex()  # type: ignore[attr-defined]
    prefix = {"DATE": "day", "TIME": "ms", "TIMESTAMP": "ns", "TIMESTAMP_LTZ": "ns"}[root]
    return f"{prefix}:{value}"


def difference(
    expected: list[tuple[Cell, ...]], found: list[tuple[Cell, ...]], columns: list[str]
) -> str | None:
    """The first difference between two bags of rows, in words; None where they are equal.

    >>> difference([("1", "s:a")], [("1", "s:b")], ["k", "v"])
    "v: 's:a' expected, 's:b' found, in the row k=1, v=s:a"
    >>> difference([("1",)], [("1",), ("1",)], ["k"])
    '2 rows instead of 1; not expected: k=1'
    """
    order = [tuple((c is not None, c or "") for c in row) for row in expected]
    expected = [row for _, row in sorted(zip(order, expected, strict=True), key=lambda p: p[0])]
    order = [tuple((c is not None, c or "") for c in row) for row in found]
    found = [row for _, row in sorted(zip(order, found, strict=True), key=lambda p: p[0])]
    if expected == found:
        return None
    left, right = _bag_minus(expected, found), _bag_minus(found, expected)
    if len(expected) != len(found) or not left:
        lost = f"; missing: {_show(left[0], columns)}" if left else ""
        extra = f"; not expected: {_show(right[0], columns)}" if right else ""
        return f"{len(found)} rows instead of {len(expected)}{lost}{extra}"
    # the found row that shares most cells with the expected one is the one that went wrong
    want = left[0]
    have = max(right, key=lambda row: sum(a == b for a, b in zip(want, row, strict=True)))
    at = next(i for i, (a, b) in enumerate(zip(want, have, strict=True)) if a != b)
    return (
        f"{columns[at]}: {want[at]!r:.60} expected, {have[at]!r:.60} found,"
        f" in the row {_show(want, columns)}"
    )


def _bag_minus(
    left: list[tuple[Cell, ...]], right: list[tuple[Cell, ...]]
) -> list[tuple[Cell, ...]]:
    counts: dict[tuple[Cell, ...], int] = {}
    for row in right:
        counts[row] = counts.get(row, 0) + 1
    rest = []
    for row in left:
        if counts.get(row, 0):
            counts[row] -= 1
        else:
            rest.append(row)
    return rest


def _show(row: tuple[Cell, ...], columns: list[str]) -> str:
    shown = [
        f"{name}={'null' if c is None else c[:40]}" for name, c in zip(columns, row, strict=True)
    ]
    return ", ".join(shown[:4]) + (", .." if len(shown) > 4 else "")
