"""A stored file as a file of pyarrow: its end comes with the opening, the rest by ranges."""

from __future__ import annotations

import io
from collections.abc import Callable

import pyarrow as pa

__all__ = ["TAIL_BYTES", "opened"]

TAIL_BYTES = 64 << 10
"""Read when a file is opened: the footer of most Parquet files, and all of a small file."""


def opened(size_bytes: int, tail: bytes, read: Callable[[int, int], bytes]) -> pa.NativeFile:
    """Make a file for random access.

    Parameters
    ----------
    size_bytes : int
        Its length.
    tail : bytes
        Its last bytes.
    read : callable
        Takes an offset and a length; gives exactly those bytes.
    """
    return pa.PythonFile(_ObjectInput(size_bytes, tail, read), mode="r")


class _ObjectInput(io.RawIOBase):
    """Reads go to the tail in memory, or to the store."""

    def __init__(self, size_bytes: int, tail: bytes, read: Callable[[int, int], bytes]) -> None:
        self._size = size_bytes
        self._tail = tail
        self._tail_begin = size_bytes - len(tail)
        self._read_range = read
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def size(self) -> int:
        return self._size

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._at)
        length = left if size is None or size < 0 else min(size, left)
        if not length:
            return b""
        begin = self._at
        self._at += length
        if begin >= self._tail_begin:
            return self._tail[begin - self._tail_begin :][:length]
        return self._read_range(begin, length)
