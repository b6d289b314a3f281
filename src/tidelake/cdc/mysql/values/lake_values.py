"""Cells as Arrow's columns of the lake's types, and which rows do not fit.

What does not fit is never bent into shape: its row goes to the quarantine. The cases:

- ``0000-00-00`` is MySQL's sign for "no date" (``IS NULL`` finds it in a NOT NULL column): null
  where the column takes nulls, as Debezium and Java's driver have it; else the row is rejected.
- Other days that no calendar has, such as ``2024-00-10``: rejected.
- TIME outside of a day, which MySQL uses for durations: rejected; Paimon wraps it round. TIME's
  digits after the millisecond are cut off, as Paimon's TIME has none.
- ``tinyint(1)`` other than 0 and 1: rejected; the switch ``tinyint1-not-bool`` takes it.
- ``bigint unsigned`` beyond a BIGINT under ``bigint-unsigned-to-bigint``: rejected.
- Bytes that are no text of their charset, numbers of no ENUM value, damaged geometries: rejected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidelake.cdc.mysql.binlog.times import MICROS, MICROS_PER_DAY, Moments
from tidelake.cdc.mysql.values.cells import Cells, Mask, decimal_array
from tidelake.cdc.mysql.values.columns import ReadableColumn
from tidelake.cdc.mysql.values.geometry import geo_json
from tidelake.cdc.mysql.values.native_type import GEOMETRIES
from tidelake.types import DataType, TypeRoot
from tidelake.types.arrow import to_arrow_type

INT64_MAX = 2**63 - 1
UTC_NAMES = frozenset({"UTC", "+00:00", "Etc/UTC", "GMT", "Z"})


@dataclass(frozen=True, slots=True)
class Converted:
    """A column of the lake.

    Parameters
    ----------
    wrong : numpy.ndarray or None
        Rows that do not fit; their value here has no meaning.
    """

    array: pa.Array
    wrong: Mask = None


def to_lake(column: ReadableColumn, cells: Cells, zone: str) -> Converted:
    """Convert one column; requires: it has a type in the lake.

    Parameters
    ----------
    zone : str
        In which TIMESTAMP becomes a wall-clock time: ``Europe/Berlin``, ``+02:00``.
    """
    kind = column.type
    assert kind is not None
    values = cells.values
    if isinstance(values, Moments):
        found = _times(column, values, cells.ok, zone)
    elif isinstance(values, np.ndarray):
        found = _numbers(column, values, cells.ok)
    elif column.native.name == "bit":
        found = _bits(column, values)
    elif column.native.name in GEOMETRIES:
        found = _geometries(values)
    elif column.native.name == "set" and kind.root is not TypeRoot.ARRAY:
        found = Converted(pc.binary_join(values, ","))
    else:
        found = _arrow(values, kind)
    wrong = _either(cells.wrong, found.wrong)
    if wrong is not None and cells.ok is not None:
        wrong = wrong & cells.ok
    return Converted(found.array, wrong if wrong is not None and wrong.any() else None)


def _either(left: Mask, right: Mask) -> Mask:
    if left is None or right is None:
        return right if left is None else left
    return left | right


def _present(count: int, ok: Mask, wrong: Mask) -> NDArray[np.bool_] | None:
    """Arrow's mask of nulls: True where there is none."""
    absent = None if ok is None else ~ok
    return _either(absent, wrong) if count else None


def _numbers(column: ReadableColumn, values: NDArray[Any], ok: Mask) -> Converted:
    kind = column.type
    assert kind is not None
    absent = None if ok is None else ~ok
    if kind.root is TypeRoot.BOOLEAN:
        wrong = (values != 0) & (values != 1)
        return Converted(pa.array(values == 1, mask=_present(len(values), ok, wrong)), wrong)
    if kind.root is TypeRoot.DECIMAL:
        pairs = np.zeros((len(values), 2), np.uint64)
        pairs[:, 0] = values
        assert kind.precision is not None
        return Converted(decimal_array(pairs, kind.precision, kind.scale or 0, ok))
    if kind.root is TypeRoot.VARCHAR:
        text = pa.array(values, mask=absent).cast(pa.string())
        return Converted(pc.utf8_lpad(text, 4, "0") if column.native.name == "year" else text)
    wrong = None
    if values.dtype == np.uint64:
        wrong = values > INT64_MAX
        absent = _present(len(values), ok, wrong)
    target = to_arrow_type(kind)
    return Converted(pa.array(values.astype(target.to_pandas_dtype()), target, mask=absent), wrong)


def _arrow(values: pa.Array, kind: DataType) -> Converted:
    target = to_arrow_type(kind)
    if values.type.equals(target):
        return Converted(values)
    if pa.types.is_decimal(values.type):  # to-string
        texts = [None if one is None else f"{one:f}" for one in values.to_pylist()]
        return Converted(pa.array(texts, pa.string()))
    if pa.types.is_list(values.type):
        return Converted(values.cast(target))
    if pa.types.is_string(values.type):
        return Converted(values.cast(target))
    if pa.types.is_string(target):  # bytes under to-string
        try:
            return Converted(values.cast(target))
        except pa.ArrowInvalid:
            return _one_by_one(values, bytes.decode)
    return Converted(values.cast(target))


def _bits(column: ReadableColumn, values: pa.Array) -> Converted:
    kind, count = column.type, column.native.length
    assert kind is not None
    if kind.root is TypeRoot.BOOLEAN:
        ones = pc.equal(values, pa.scalar(b"\1", pa.binary()))
        return Converted(ones if isinstance(ones, pa.Array) else ones.combine_chunks())
    if kind.root is TypeRoot.VARCHAR:
        return _one_by_one(values, lambda raw: f"{int.from_bytes(raw, 'big'):0{count}b}")
    return Converted(values)


def _geometries(values: pa.Array) -> Converted:
    return _one_by_one(values, geo_json)


def _one_by_one(values: pa.Array, read: Callable[[bytes], str]) -> Converted:
    wrong = np.zeros(len(values), np.bool_)
    texts: list[str | None] = []
    for row, raw in enumerate(values.to_pylist()):
        try:
            texts.append(None if raw is None else read(raw))
        except ValueError:  # UnicodeDecodeError is one
            wrong[row] = True
            texts.append(None)
    return Converted(pa.array(texts, pa.string()), wrong if wrong.any() else None)


def _times(column: ReadableColumn, moments: Moments, ok: Mask, zone: str) -> Converted:
    kind, name = column.type, column.native.name
    assert kind is not None
    values, wrong = moments.values, moments.is_wrong
    if name == "time":
        return _clock_times(kind, values, ok, column.native.length)
    absent = None if ok is None else ~ok
    if moments.is_zero.any() or wrong.any():
        # whether null or rejected, no value stands there
        unset = moments.is_zero | wrong
        wrong = wrong | moments.is_zero if not kind.nullable else wrong
        absent = unset if absent is None else absent | unset
        values = np.where(unset, 0, values)
    if name == "date":
        days = pa.array(values.astype(np.int32), pa.int32(), mask=absent).cast(pa.date32())
        return Converted(days if kind.root is TypeRoot.DATE else days.cast(pa.string()), wrong)
    micros = pa.array(values, pa.int64(), mask=absent)
    if name == "timestamp":
        micros = on_the_clock(micros, zone)
    if kind.root is TypeRoot.VARCHAR:
        return Converted(
            _moment_texts(micros.cast(pa.timestamp("us")), column.native.length), wrong
        )
    target = to_arrow_type(kind)
    found = micros.cast(pa.timestamp("us"))
    if target.unit == "us":
        return Converted(found, wrong)
    return Converted(found.cast(target), wrong)


def on_the_clock(micros: pa.Array, zone: str) -> pa.Array:
    """Microseconds since 1970 in UTC as those of a zone's wall clock.

    Examples
    --------
    >>> on_the_clock(pa.array([0, None]), "+02:00").to_pylist()
    [7200000000, None]
    """
    if zone in UTC_NAMES:
        return micros
    if zone[0] in "+-":
        minutes = int(zone[1:3]) * 60 + int(zone[4:6])
        offset = minutes * 60 * MICROS
        return pc.add(micros, -offset if zone[0] == "-" else offset)
    local = pc.local_timestamp(micros.cast(pa.timestamp("us", tz=zone)))
    return local.cast(pa.int64())


def _clock_times(kind: DataType, micros: NDArray[np.int64], ok: Mask, digits: int) -> Converted:
    if kind.root is TypeRoot.VARCHAR:
        texts = [time_text(int(one), digits) for one in micros]
        return Converted(pa.array(texts, pa.string(), mask=None if ok is None else ~ok))
    wrong = (micros < 0) | (micros >= MICROS_PER_DAY)
    absent = _present(len(micros), ok, wrong)
    millis = np.where(wrong, 0, micros // 1000).astype(np.int32)
    return Converted(pa.array(millis, pa.int32(), mask=absent).cast(pa.time32("ms")), wrong)


def time_text(micros: int, digits: int) -> str:
    """Print a TIME as MySQL does.

    Examples
    --------
    >>> time_text(-45296_789000, 3)
    '-12:34:56.789'
    """
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    seconds, fraction = divmod(micros, MICROS)
    text = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}"[: len(text) + 1 + digits] if digits else text


def _moment_texts(moments: pa.Array, digits: int) -> pa.Array:
    whole = moments.cast(pa.string())  # always with six digits
    return pc.utf8_slice_codeunits(whole, 0, 20 + digits if digits else 19)


def reason(column: ReadableColumn) -> str:
    """Why a value of a column is rejected, as a clause."""
    name, kind = column.native.name, column.type
    assert kind is not None
    more = ""
    if name == "tinyint" and kind.root is TypeRoot.BOOLEAN:
        more = "; the type mapping 'tinyint1-not-bool' takes it"
    elif name in {"date", "datetime", "timestamp"} and not kind.nullable:
        more = "; the type mapping 'to-nullable' makes 0000-00-00 a null"
    elif name == "time":
        more = "; it is outside of a day"
    return f"column '{column.name}': the value does not fit {kind.as_nullable()}{more}"
