"""Rows as the bytes of their columns, as Arrow's memory has them, for callers who send them on.

No Arrow object is made of them: for up to a hundred rows each of Arrow's calls costs more than the
bytes it moves. A boolean has one byte. Under a null, a value of fixed width is zero, and text has
no bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

_ONE = struct.Struct("<II")


class RawColumn(NamedTuple):
    """The bytes of one column.

    Parameters
    ----------
    values : bytes
        Of all rows, joined.
    offsets : bytes
        Of text and bytes: where each value begins and the last one ends, u32.
    valid : bytes
        A bit for each row, the lowest first, 0 for a null; empty where nothing is null.
    """

    values: bytes
    offsets: bytes = b""
    valid: bytes = b""


@dataclass(frozen=True, slots=True)
class RawRows:
    """The rows found for some keys.

    Parameters
    ----------
    snapshot_id : int or None
        The snapshot that answers; None for a table without one.
    found : bytes
        A bit for each key, the lowest first.
    columns : list of RawColumn
        Their rows, in the order of the keys.
    """

    snapshot_id: int | None
    found: bytes
    rows_count: int
    columns: list[RawColumn]


def raw_column(values: Sequence[bytes | None], width: int) -> RawColumn:
    r"""Join the values of a column.

    Parameters
    ----------
    values : sequence of (bytes or None)
        None is a null.
    width : int
        Bytes of a value; 0 for text and bytes.

    Examples
    --------
    >>> raw_column([b"ab", None, b"c"], 0).values, raw_column([b"\1", None], 1)
    (b'abc', RawColumn(values=b'\x01\x00', offsets=b'', valid=b'\x01'))
    """
    valid = b""
    if len(values) == 1:
        value = values[0]
        if value is not None:
            return RawColumn(value) if width else RawColumn(value, _ONE.pack(0, len(value)))
    if None in values:
        valid = bits_of([value is not None for value in values])
    nothing = bytes(width)
    plain = [nothing if value is None else value for value in values] if valid else values
    joined = b"".join(plain)  # type: ignore[arg-type]
    if width:
        return RawColumn(joined, b"", valid)
    ends = accumulate(map(len, plain), initial=0)  # type: ignore[arg-type]
    return RawColumn(joined, struct.pack(f"<{len(values) + 1}I", *ends), valid)


def bits_of(flags: Sequence[bool]) -> bytes:
    """Give flags as bits, the lowest first.

    Examples
    --------
    >>> bits_of([True, False, True]).hex()
    '05'
    """
    whole = 0
    for place, flag in enumerate(flags):
        whole |= flag << place
    return whole.to_bytes((len(flags) + 7) // 8, "little")
