"""The bytes of an opened lookup file: mapped whole, or read piece by piece.

A file that fits the memory budget is mapped. Of any other, single gets read the few bytes that they
need (``pread``), and a batch maps the file for as long as the batch is answered.

A :class:`FileBytes` reads items as a ``memoryview`` does, so the search does not know which it has.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
from typing import Any, Protocol

from tidelake.telemetry import PerProcess


class Items(Protocol):
    """Numbers by their place."""

    def __getitem__(self, place: int) -> Any: ...


class FileBytes:
    """Items of a file that is not mapped."""

    __slots__ = ("_file", "_offset", "_size", "_unpack")

    def __init__(self, file: int, offset: int, code: str) -> None:
        self._file = file
        self._offset = offset
        one = struct.Struct("<" + code)
        self._size = one.size
        self._unpack = one.unpack

    def __getitem__(self, place: int) -> Any:
        return self._unpack(os.pread(self._file, self._size, self._offset + place * self._size))[0]


def map_file(file: int, size_bytes: int, *, populated: bool = False) -> mmap.mmap:
    """Map a whole file to read; if `populated`, with all its pages in memory."""
    flags = mmap.MAP_SHARED | (getattr(mmap, "MAP_POPULATE", 0) if populated else 0)
    return mmap.mmap(file, size_bytes, prot=mmap.PROT_READ, flags=flags)


class MappedBudget:
    """How many bytes of lookup files are mapped at a time. Thread-safe.

    Parameters
    ----------
    bytes_max : int
        The most of them.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        # a file may be dropped, and so given back, while this thread counts another
        self._lock = PerProcess(threading.RLock)
        self._bytes = 0

    @property
    def mapped_bytes(self) -> int:
        """Bytes that are mapped now."""
        return self._bytes

    def take(self, size_bytes: int) -> bool:
        """Count a file as mapped, if it fits."""
        with self._lock.value:
            if self._bytes + size_bytes > self.bytes_max:
                return False
            self._bytes += size_bytes
            return True

    def give(self, size_bytes: int) -> None:
        """Count it no more."""
        with self._lock.value:
            self._bytes -= size_bytes
