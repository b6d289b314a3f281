r"""Integers of seven bits a byte, lowest first, as Avro, Thrift, Protobuf and Snappy write them.

The high bit of a byte is set if another byte follows. Numbers with a sign are written as
``(n << 1) ^ (n >> 63)``, so that small ones stay short (zigzag).
"""

from __future__ import annotations

BYTES_MAX = 10
"""The most bytes for a number of 64 bits."""


def encode(value: int) -> bytes:
    r"""Encode a number that is not negative.

    Examples
    --------
    >>> encode(1), encode(300)
    (b'\x01', b'\xac\x02')
    """
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode(data: bytes, start: int = 0) -> tuple[int, int]:
    r"""Decode the number at an offset; return the offset behind it, too.

    Raises
    ------
    ValueError
        The bytes end early, or the number has more than :data:`BYTES_MAX` bytes.

    Examples
    --------
    >>> decode(b"\xac\x02", 0)
    (300, 2)
    """
    value = 0
    for at, byte in enumerate(data[start : start + BYTES_MAX]):
        value |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            return value, start + at + 1
    too_long = len(data) - start >= BYTES_MAX
    raise ValueError("a number is too long" if too_long else "a number is cut short")


def zigzag(value: int) -> int:
    """Move the sign of a 64-bit number to the lowest bit.

    Examples
    --------
    >>> zigzag(-1), zigzag(32)
    (1, 64)
    """
    return (value << 1) ^ (value >> 63)


def unzigzag(value: int) -> int:
    """Undo :func:`zigzag`.

    Examples
    --------
    >>> unzigzag(1), unzigzag(64)
    (-1, 32)
    """
    return (value >> 1) ^ -(value & 1)
