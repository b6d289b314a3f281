"""Chooses files of an append table to join, without any IO.

*Bucketed* (rows of a bucket have an order): walk the files in sequence order and gather neighbours.

1. As soon as ``compaction.min.file-num`` files are gathered they are picked.
2. If fewer gathered files reach twice the target size, the first is dropped: it or its neighbours
   are large.

A full compaction takes all files after the leading ones that have the target size and no deleted
rows, if most of these files are small or some have deleted rows. With
``compaction.force-rewrite-all-files`` it takes all files.

*Unaware* of buckets (no order): fill bins with small files and files that need a rewrite, smallest
first, until a bin has twice the target size. The rest is a bin if it has
``compaction.min.file-num`` files or one that needs a rewrite. A file needs a rewrite if more than
``compaction.delete-ratio-threshold`` of its rows are deleted.

Source: Paimon's ``BucketedAppendCompactManager`` and ``AppendCompactCoordinator`` (1.3.1).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import dropwhile

from tidelake.metadata.data_file import DataFileMeta

SMALL_FILE_SHARE = 0.7
FULL_FILES_MIN = 3


def pick_bucketed(
    files: Iterable[DataFileMeta], *, files_min: int, target_size_bytes: int
) -> tuple[DataFileMeta, ...]:
    """Choose neighbours to join.

    Parameters
    ----------
    files : iterable of DataFileMeta
        The bucket's files, in any order.

    Returns
    -------
    tuple of DataFileMeta
        In sequence order; none if nothing is worthwhile.
    """
    gathered: deque[DataFileMeta] = deque()
    size_bytes = 0
    for file in _in_sequence(files):
        gathered.append(file)
        size_bytes += file.file_size_bytes
        if len(gathered) >= max(2, files_min):
            return tuple(gathered)
        if size_bytes >= 2 * target_size_bytes:
            size_bytes -= gathered.popleft().file_size_bytes
    return ()


def pick_bucketed_full(
    files: Iterable[DataFileMeta],
    *,
    target_size_bytes: int,
    has_deletes: Callable[[DataFileMeta], bool] = lambda _: False,
    rewrites_all: bool = False,
) -> tuple[DataFileMeta, ...]:
    """Choose the files of a bucket's full compaction, in sequence order."""
    if rewrites_all:
        return tuple(_in_sequence(files))
    rest = tuple(
        dropwhile(
            lambda f: f.file_size_bytes >= target_size_bytes and not has_deletes(f),
            _in_sequence(files),
        )
    )
    small = sum(f.file_size_bytes < target_size_bytes for f in rest)
    worth_it = len(rest) >= FULL_FILES_MIN and small > len(rest) - small
    return rest if worth_it or any(map(has_deletes, rest)) else ()


def pick_unaware(
    files: Iterable[DataFileMeta],
    *,
    files_min: int,
    target_size_bytes: int,
    needs_rewrite: Callable[[DataFileMeta], bool] = lambda _: False,
) -> tuple[tuple[DataFileMeta, ...], ...]:
    """Choose bins of files to join; each becomes one or two files."""
    small = sorted(
        (
            f
            for f in files
            if f.file_size_bytes < target_size_bytes * SMALL_FILE_SHARE or needs_rewrite(f)
        ),
        key=lambda f: (f.file_size_bytes, f.file_name),
    )
    bins: list[tuple[DataFileMeta, ...]] = []
    current: list[DataFileMeta] = []
    for file in small:
        current.append(file)
        full = sum(f.file_size_bytes for f in current) >= 2 * target_size_bytes
        if full and (len(current) > 1 or needs_rewrite(file)):
            bins.append(tuple(current))
            current = []
    if len(current) >= max(2, files_min) or any(map(needs_rewrite, current)):
        bins.append(tuple(current))
    return tuple(bins)


def _in_sequence(files: Iterable[DataFileMeta]) -> Sequence[DataFileMeta]:
    return sorted(files, key=lambda f: (f.min_sequence_number, f.max_sequence_number, f.file_name))
