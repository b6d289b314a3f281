"""Fetches the column chunks that a read of a Parquet file wants, before Arrow asks for them.

1. The footer says where each chunk is. Neighbours are joined if the hole between them is at most
   :data:`HOLE_BYTES`, up to :data:`JOINED_BYTES`: a request costs about as much as such a hole.
2. Row groups are put together to **windows** of half the memory at most. A window's ranges come by
   one call. The first one comes when the file is opened; from then on the next one is fetched while
   the current one is read, as far as the memory allows.
3. If the chunks of a row group exceed the memory, the first piece of each comes by one call, and
   each chunk goes on in such pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from tidelake.fileio import ByteRange
from tidelake.format.fetching.fetched_file import FetchedBytes
from tidelake.format.fetching.read_ahead import ReadAhead
from tidelake.format.read_error import corrupt

HOLE_BYTES = 256 << 10
JOINED_BYTES = 16 << 20
PIECE_BYTES_MIN = 64 << 10


@dataclass(frozen=True, slots=True)
class _Window:
    """Row groups that are fetched together."""

    groups: tuple[int, ...]
    chunks: tuple[ByteRange, ...]
    ranges: tuple[ByteRange, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes that are fetched."""
        return _bytes_of(self.ranges)


class ColumnFetch:
    """Brings the chunks of each row group into memory before it is read.

    Parameters
    ----------
    groups : sequence of int
        The row groups wanted, ascending.
    """

    def __init__(
        self,
        stack: ExitStack,
        source: FetchedBytes,
        metadata: pq.FileMetaData,
        groups: Sequence[int],
        names: Sequence[str],
        *,
        ahead: ReadAhead,
        path: str,
    ) -> None:
        self._source = source
        leaves = _leaves(metadata, names)
        size = source.size_bytes
        chunks = [(g, chunk_ranges(metadata, g, leaves, size, path=path)) for g in groups]
        windows = windows_of(chunks, ahead.bytes_max)
        if any(window.size_bytes > ahead.bytes_max for window in windows):
            piece = max(PIECE_BYTES_MIN, ahead.bytes_max // max(1, len(leaves)))
            source.piece_bytes = piece
            windows = [_first_pieces(group, ranges, piece) for group, ranges in chunks]
        self._current: tuple[int, ...] = ()
        first = source.fetch(windows[0].ranges) if windows else []
        begun = {windows[0].groups: first} if windows else {}

        def fetched(window: _Window) -> tuple[_Window, list[tuple[int, pa.Buffer]]]:
            found = begun.pop(window.groups, None)
            return window, source.fetch(window.ranges) if found is None else found

        self._fetches = ahead.reads.ranges.map_ahead(
            fetched, windows, weight=lambda w: w.size_bytes, weight_max=ahead.bytes_max
        )
        stack.callback(self._fetches.close)

    def bring(self, group: int) -> None:
        """Wait for the chunks of a row group, and release those before. Requires: in order."""
        if group in self._current:
            return
        self._source.replace([], [])
        window, pieces = next(self._fetches)
        assert group in window.groups, "row groups are read in order"
        self._current = window.groups
        self._source.replace(pieces, window.chunks)


def _leaves(metadata: pq.FileMetaData, names: Sequence[str]) -> list[int]:
    """Positions of the leaf columns of some columns."""
    schema = metadata.schema
    wanted = tuple(f"{name}." for name in names)
    return [
        i for i in range(metadata.num_columns) if f"{schema.column(i).path}.".startswith(wanted)
    ]


def chunk_ranges(
    metadata: pq.FileMetaData, group: int, leaves: Sequence[int], size_bytes: int, *, path: str
) -> list[ByteRange]:
    """Find the column chunks of a row group in the file.

    Raises
    ------
    CorruptError
        One of them would lie outside the file.
    """
    found = []
    group_metadata = metadata.row_group(group)
    for leaf in leaves:
        chunk = group_metadata.column(leaf)
        start, length = int(chunk.data_page_offset), int(chunk.total_compressed_size)
        if chunk.has_dictionary_page and 0 < int(chunk.dictionary_page_offset) < start:
            start = int(chunk.dictionary_page_offset)
        if start < 0 or length < 0 or start + length > size_bytes:
            reason = f"a column of row group {group} would end at byte {start + length}"
            raise corrupt(path, f"{reason}, but it has {size_bytes} bytes")
        found.append((start, length))
    return sorted(found)


def joined(ranges: Sequence[ByteRange]) -> list[ByteRange]:
    """Join neighbours with small holes between them. Requires: ascending.

    Examples
    --------
    >>> joined([(0, 10), (10, 5), (1 << 20, 7)])
    [(0, 15), (1048576, 7)]
    """
    out: list[ByteRange] = []
    for start, length in ranges:
        if out:
            before, before_length = out[-1]
            end = max(before + before_length, start + length)
            near = start - (before + before_length) <= HOLE_BYTES
            if near and (end - before <= JOINED_BYTES or start < before + before_length):
                out[-1] = (before, end - before)
                continue
        out.append((start, length))
    return out


def windows_of(chunks: Sequence[tuple[int, list[ByteRange]]], bytes_max: int) -> list[_Window]:
    """Put consecutive row groups together, up to half of the memory.

    A row group that lies before the one that was read last begins a window, so that the parts of
    each are ascending. Complexity: linear in the chunks, because only the last range may grow.
    """
    windows: list[_Window] = []
    groups: list[int] = []
    ranges: list[ByteRange] = []
    parts: list[ByteRange] = []
    size_bytes = 0
    for group, own in chunks:
        more = joined([*parts[-1:], *own])
        grown_bytes = size_bytes + _bytes_of(more) - _bytes_of(parts[-1:])
        is_behind = bool(ranges and own) and own[0] < ranges[-1]
        if groups and (grown_bytes > bytes_max // 2 or is_behind):
            windows.append(_Window(tuple(groups), tuple(ranges), tuple(parts)))
            groups, ranges, parts = [], [], []
            more = joined(own)
            grown_bytes = _bytes_of(more)
        groups.append(group)
        ranges += own
        parts[-1:] = more
        size_bytes = grown_bytes
    if groups:
        windows.append(_Window(tuple(groups), tuple(ranges), tuple(parts)))
    return windows


def _bytes_of(ranges: Sequence[ByteRange]) -> int:
    return sum(length for _, length in ranges)


def _first_pieces(group: int, ranges: list[ByteRange], piece_bytes: int) -> _Window:
    first = tuple((start, min(length, piece_bytes)) for start, length in ranges)
    return _Window((group,), tuple(ranges), first)
