"""A stored file as a file of pyarrow: its end comes with the opening, the rest by ranges."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from tidelake.fileio.files.positioned_file import PositionedFile

TAIL_BYTES = 64 << 10
"""Read when a file is opened: the footer of most Parquet files, and all of a small file."""


def open_tailed(size_bytes: int, tail: bytes, read: Callable[[int, int], bytes]) -> pa.NativeFile:
    """Make a file for random access.

    Parameters
    ----------
    tail : bytes
        Its last bytes.
    read : callable
        Takes an offset and a length; gives exactly those bytes.
    """
    return pa.PythonFile(_TailedInput(size_bytes, tail, read), mode="r")


class _TailedInput(PositionedFile):
    """Reads go to the tail in memory, or to the store."""

    def __init__(self, size_bytes: int, tail: bytes, read: Callable[[int, int], bytes]) -> None:
        super().__init__(size_bytes)
        self._tail = tail
        self._tail_begin = size_bytes - len(tail)
        self._read_range = read

    def read_at(self, offset: int, length: int) -> bytes:
        if offset >= self._tail_begin:
            return self._tail[offset - self._tail_begin :][:length]
        return self._read_range(offset, length)
