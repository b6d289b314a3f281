"""A data file of a remote storage, read from bytes that were fetched before they were asked for.

1. The file's end is kept for good, other pieces until :meth:`FetchedBytes.replace`. A read inside
   one piece gives a part of it, without a copy.
2. A read of other bytes goes to the storage. It takes :attr:`FetchedBytes.piece_bytes` at once,
   because readers go on from there, but nothing beyond the end of the column chunk that it is in.
   Of each chunk the last such piece is kept.

The size is the manifest's, so no request asks for it: a file that is shorter fails as truncated.
Not thread-safe: one thread at a time, as data files are read.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Protocol

import pyarrow as pa

from tidelake.fileio import ByteRange, check_range
from tidelake.fileio.files import PositionedFile

PIECE_BYTES = 8 << 20
"""Bytes of a request of a file that is read from its beginning to its end."""


class RangedFiles(Protocol):
    """The part of a storage that gives ranges."""

    def read_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Read several ranges of one file at once."""
        ...


class FetchedBytes:
    """What was fetched of one file.

    Parameters
    ----------
    piece_bytes : int
        Bytes that a read of other bytes fetches at once, at least.
    """

    def __init__(
        self, files: RangedFiles, path: str, size_bytes: int, *, piece_bytes: int = PIECE_BYTES
    ) -> None:
        self._files = files
        self._path = path
        self._end: tuple[int, pa.Buffer] = (size_bytes, pa.py_buffer(b""))
        self._starts: list[int] = []
        self._pieces: list[pa.Buffer] = []
        self._chunk_starts: list[int] = [0]
        self._chunk_ends: list[int] = [size_bytes]
        self._missed: dict[int, tuple[int, pa.Buffer]] = {}
        self.size_bytes = size_bytes
        self.piece_bytes = piece_bytes

    def fetch_end(self, length: int) -> None:
        """Fetch the last bytes, by one request."""
        length = min(length, self.size_bytes)
        start = self.size_bytes - length
        if length:
            self._end = (start, self._asked([(start, length)])[0])

    def fetch(self, ranges: Sequence[ByteRange]) -> list[tuple[int, pa.Buffer]]:
        """Fetch ranges at once; what the file's end holds is not fetched again.

        Returns
        -------
        list of (offset, buffer)
            For :meth:`replace`. Any thread may call this.
        """
        known = self._end[0]
        wanted = [(start, min(length, known - start)) for start, length in ranges if start < known]
        wanted = [(start, length) for start, length in wanted if length]
        found = self._asked(wanted) if wanted else []
        return [(start, part) for (start, _), part in zip(wanted, found, strict=True)]

    def replace(self, pieces: Sequence[tuple[int, pa.Buffer]], chunks: Sequence[ByteRange]) -> None:
        """Keep these pieces, and no others but the file's end.

        Parameters
        ----------
        pieces : sequence of (offset, buffer)
            From :meth:`fetch`; ascending, without overlaps.
        chunks : sequence of ByteRange
            Parts of the file that are read each from its beginning to its end; ascending.
        """
        self._starts = [start for start, _ in pieces]
        self._pieces = [part for _, part in pieces]
        self._chunk_starts = [start for start, _ in chunks]
        self._chunk_ends = [start + length for start, length in chunks]
        self._missed.clear()

    def read(self, start: int, length: int) -> pa.Buffer:
        """Give bytes, from memory where they are; fewer at the file's end."""
        length = min(length, self.size_bytes - start)
        if length <= 0:
            return pa.py_buffer(b"")
        found = self._found(start, length)
        return self._miss(start, length) if found is None else found

    def open(self) -> pa.NativeFile:
        """Open it; several may be open."""
        return pa.PythonFile(_FetchedFile(self), mode="r")

    def _asked(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Ask the storage, and check that it kept to the ranges: their bytes go unchecked else."""
        found = self._files.read_ranges(self._path, ranges)
        for (start, length), part in zip(ranges, found, strict=True):
            check_range(self._path, start, length, part.size)
        return found

    def _found(self, start: int, length: int) -> pa.Buffer | None:
        if start >= self._end[0]:
            return self._end[1].slice(start - self._end[0], length)
        place = bisect.bisect_right(self._starts, start) - 1
        if place < 0:
            return None
        offset = start - self._starts[place]
        if offset + length <= self._pieces[place].size:
            return self._pieces[place].slice(offset, length)
        return self._joined(place, start, length)

    def _joined(self, place: int, start: int, length: int) -> pa.Buffer | None:
        """Join the pieces that a read spans; None if there is a hole."""
        parts: list[bytes] = []
        at, left = start, length
        for begin, piece in zip(self._starts[place:], self._pieces[place:], strict=True):
            if not begin <= at < begin + piece.size:
                return None
            part = piece.slice(at - begin, min(left, begin + piece.size - at))
            parts.append(part.to_pybytes())
            at, left = at + part.size, left - part.size
            if not left:
                return pa.py_buffer(b"".join(parts))
        if at < self._end[0]:
            return None
        parts.append(self._end[1].slice(at - self._end[0], left).to_pybytes())
        return pa.py_buffer(b"".join(parts))

    def _miss(self, start: int, length: int) -> pa.Buffer:
        place = bisect.bisect_right(self._chunk_starts, start) - 1
        known = self._missed.get(place)
        if known is not None and known[0] <= start and start + length <= known[0] + known[1].size:
            return known[1].slice(start - known[0], length)
        end = self._chunk_ends[place] if place >= 0 else start
        taken = max(length, min(self.piece_bytes, end - start))
        [piece] = self._asked([(start, taken)])
        self._missed[place] = (start, piece)
        return piece.slice(0, length)


class _FetchedFile(PositionedFile):
    """The file as pyarrow reads it."""

    def __init__(self, source: FetchedBytes) -> None:
        super().__init__(source.size_bytes)
        self._source = source

    def read(self, size: int | None = -1) -> pa.Buffer:
        wanted = self._source.size_bytes if size is None or size < 0 else size
        found = self._source.read(self._at, wanted)
        self._at += found.size
        return found


def whole_or_in_pieces(
    stack: ExitStack, files: RangedFiles, path: str, size_bytes: int, *, bytes_max: int
) -> pa.NativeFile:
    """Open a file that is read from its beginning to its end.

    It is fetched whole, in several ranges at once, if it has at most `bytes_max` bytes; else in
    pieces as they are read.
    """
    piece_bytes = max(1, min(PIECE_BYTES, bytes_max))
    source = FetchedBytes(files, path, size_bytes, piece_bytes=piece_bytes)
    if size_bytes <= bytes_max:
        starts = range(0, size_bytes, PIECE_BYTES)
        ranges = [(start, min(PIECE_BYTES, size_bytes - start)) for start in starts]
        source.replace(source.fetch(ranges), [(0, size_bytes)])
    return stack.enter_context(source.open())
