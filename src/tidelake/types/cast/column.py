"""Casts one column: the entry to the casts of numbers, texts and times."""

from __future__ import annotations

import pyarrow as pa

from tidelake.errors import InvalidInputError, UnsupportedError, shortened
from tidelake.types.arrow import to_arrow_type
from tidelake.types.cast import number, text, time
from tidelake.types.cast.rules import BINARIES, DAY_TIMES, TEXTS, TIMESTAMPS, can_cast, needs_zone
from tidelake.types.data_type import DataType

_TIMES = TIMESTAMPS | DAY_TIMES


def cast_values(
    values: pa.Array, source: DataType, target: DataType, *, zone: str | None = None
) -> pa.Array:
    """Cast a column's values to another type, as Paimon does for files older than the type.

    Parameters
    ----------
    source, target : DataType
        The old and the new type; nullability is ignored.
    zone : str, optional
        The local time zone, by its IANA name; needed only if
        :func:`~tidelake.types.cast.rules.needs_zone` says so.

    Returns
    -------
    pyarrow.Array
        Of the Arrow type of `target`. A decimal that is too large for it becomes null.

    Raises
    ------
    InvalidInputError
        A value cannot be cast: a text that is not a number, a timestamp that Arrow cannot hold.
    UnsupportedError
        There is no cast between the types, or the zone is needed but unknown.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> cast_values(pa.array([383, -1], pa.int32()), parse_type("INT"), parse_type("TINYINT"))
    <pyarrow.lib.Int8Array object at ...>
    [
      127,
      -1
    ]
    """
    if source.as_nullable() == target.as_nullable():
        return values
    if not can_cast(source, target, explicit=True):
        message = f"There is no cast from {source.as_nullable()} to {target.as_nullable()}."
        raise UnsupportedError(message, kind="cast")
    if zone is None and needs_zone(source, target):
        message = (
            f"A cast from {source.as_nullable()} to {target.as_nullable()} depends on the local"
            " time zone, which is not known here: set the environment variable TZ to its name."
        )
        raise UnsupportedError(message, kind="cast_zone")
    try:
        cast = _cast(values, source, target, zone or "UTC")
    except (ValueError, ArithmeticError) as error:  # pyarrow's ArrowInvalid is a ValueError
        message = (
            f"{shortened(repr(str(error)))} cannot be cast from {source.as_nullable()} to"
            f" {target.as_nullable()}"
        )
        raise InvalidInputError(message, kind="cast_value") from error
    assert cast.type == to_arrow_type(target), f"{source} to {target} gave {cast.type}"
    return cast


def _cast(values: pa.Array, source: DataType, target: DataType, zone: str) -> pa.Array:
    a, b = source.root, target.root
    if a in TEXTS:
        if b in TEXTS:
            return text.sized_text(values, target)
        return (
            time.text_to_time(values, target, zone)
            if b in _TIMES
            else text.from_text(values, target)
        )
    if a in BINARIES and b in BINARIES:
        return text.sized_bytes(values, target)
    if b in _TIMES:
        return time.to_time(values, source, target, zone)
    if a in _TIMES:
        return time.from_time(values, source, target, zone)
    if b in TEXTS:
        return text.to_text(values, source, target)
    return number.number_cast(values, source, target)
