"""How the live files of a snapshot lie: by bucket and level, by partition, by size.

A few passes over columns of numbers, whatever the number of files; a row of Python is made only for
what a page shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidelake.engine.health import FileMeasures, live_deletions
from tidelake.engine.metadata import Snapshot
from tidelake.engine.scan import live_files
from tidelake.engine.tables import TableHandle

Counts = NDArray[np.int64]
LEAST_POWER, MOST_POWER = 10, 34
"""Sizes of files are counted by powers of two: below 1 KB, ..., 16 GB and more."""


@dataclass(frozen=True, slots=True)
class LevelSum:
    """The files of a level, of a bucket or of all."""

    level: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BucketLayout:
    """A bucket: its files by level, and what a read has to merge.

    Parameters
    ----------
    levels : tuple of LevelSum
        One for each level of the table, also without files.
    """

    partition: str
    bucket: int
    files: int
    rows: int
    bytes: int
    runs: int
    levels: tuple[LevelSum, ...]


@dataclass(frozen=True, slots=True)
class PartitionLayout:
    """A partition."""

    name: str
    buckets: int
    files: int
    rows: int
    bytes: int
    newest_ms: int


@dataclass(frozen=True, slots=True)
class SizeBin:
    """Files whose size is within bounds.

    Parameters
    ----------
    below_bytes : int, optional
        The bound above; None for the last bin.
    """

    from_bytes: int
    below_bytes: int | None
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class FileLayout:
    """The live files of a snapshot, summed.

    Parameters
    ----------
    levels : tuple of LevelSum
        Of all buckets.
    sizes : tuple of SizeBin
        From the smallest to the largest that has files.
    bucket_order, partition_order : int array
        Positions from the one to look at first: most runs, most bytes.
    """

    files: int
    rows: int
    bytes: int
    deleted_rows: int
    runs_max: int
    levels: tuple[LevelSum, ...]
    sizes: tuple[SizeBin, ...]
    bucket_order: NDArray[np.intp]
    partition_order: NDArray[np.intp]
    _buckets: _BucketSums
    _partitions: _PartitionSums

    @property
    def buckets_count(self) -> int:
        """Buckets with files."""
        return len(self.bucket_order)

    @property
    def partitions_count(self) -> int:
        """Partitions with files."""
        return len(self.partition_order)

    @property
    def median_bytes(self) -> int:
        """The lower bound of the size of which half the files are."""
        half, seen = self.files / 2, 0
        for one in self.sizes:
            seen += one.files
            if seen >= half:
                return one.from_bytes
        return 0

    def buckets(self, first: int, count: int) -> list[BucketLayout]:
        """Some buckets, those with most sorted runs before the others."""
        return [self._buckets.row(n) for n in self.bucket_order[first : first + count].tolist()]

    def partitions(self, first: int, count: int) -> list[PartitionLayout]:
        """Some partitions, those that were written last before the others."""
        picked = self.partition_order[first : first + count]
        return [self._partitions.row(n) for n in picked.tolist()]


@dataclass(frozen=True, slots=True)
class _Names:
    """Texts of partitions, made when they are shown."""

    handle: TableHandle
    partitions: Sequence[bytes]

    def text(self, number: int) -> str:
        texts = self.handle.paths.partition_texts(self.partitions[number])
        return ", ".join(f"{name}={value}" for name, value in texts.items())


@dataclass(frozen=True, slots=True)
class _BucketSums:
    """Columns with an entry for each bucket; `level_files`, `level_bytes` [buckets, levels]."""

    names: _Names
    partition: NDArray[np.int32]
    bucket: NDArray[np.int32]
    files: Counts
    rows: Counts
    bytes: Counts
    runs: Counts
    level_files: Counts
    level_bytes: Counts

    def row(self, n: int) -> BucketLayout:
        return BucketLayout(
            self.names.text(int(self.partition[n])),
            int(self.bucket[n]),
            int(self.files[n]),
            int(self.rows[n]),
            int(self.bytes[n]),
            int(self.runs[n]),
            _levels(self.level_files[n], self.level_bytes[n]),
        )


@dataclass(frozen=True, slots=True)
class _PartitionSums:
    """Columns with an entry for each partition."""

    names: _Names
    partition: NDArray[np.int32]
    buckets: Counts
    files: Counts
    rows: Counts
    bytes: Counts
    newest_ms: Counts

    def row(self, n: int) -> PartitionLayout:
        return PartitionLayout(
            self.names.text(int(self.partition[n])),
            int(self.buckets[n]),
            int(self.files[n]),
            int(self.rows[n]),
            int(self.bytes[n]),
            int(self.newest_ms[n]),
        )


def file_layout(handle: TableHandle, snapshot: Snapshot) -> FileLayout:
    """Sum the live files of a snapshot.

    Raises
    ------
    CorruptError, NotFoundError
        A file of metadata is damaged, or expired meanwhile.
    """
    context = handle.read_context()
    measures = FileMeasures.of(
        live_files(context, snapshot, manifests=handle.manifests),
        live_deletions(context, snapshot, manifests=handle.manifests),
    )
    return layout_of(handle, measures)


def layout_of(handle: TableHandle, measures: FileMeasures) -> FileLayout:
    """Sum files that are measured."""
    entries, starts = measures.entries, measures.starts
    names = _Names(handle, entries.partitions)
    level = np.asarray(entries["level"]).astype(np.int64)
    levels_count = int(level.max(initial=0)) + 1
    buckets_count, sizes, rows = len(starts), measures.sizes, measures.rows
    first = np.zeros(len(level), np.int64)
    first[starts] = 1
    cell = (np.cumsum(first) - 1) * levels_count + level
    shape = (buckets_count, levels_count)
    level_files = np.bincount(cell, minlength=buckets_count * levels_count).reshape(shape)
    level_bytes = np.zeros(buckets_count * levels_count, np.int64)
    np.add.at(level_bytes, cell, sizes)
    level_bytes = level_bytes.reshape(shape)
    runs = measures.runs()
    of_buckets = _BucketSums(
        names,
        np.asarray(entries["partition_id"])[starts],
        np.asarray(entries["bucket"])[starts],
        measures.of_buckets(np.ones(len(level), np.int64)),
        measures.of_buckets(rows),
        measures.of_buckets(sizes),
        runs,
        level_files,
        level_bytes,
    )
    of_partitions = _partition_sums(names, of_buckets, measures)
    return FileLayout(
        files=len(level),
        rows=int(rows.sum()),
        bytes=int(sizes.sum()),
        deleted_rows=int(measures.deleted.sum()),
        runs_max=int(runs.max(initial=0)),
        levels=_levels(level_files.sum(axis=0), level_bytes.sum(axis=0)),
        sizes=size_bins(sizes),
        bucket_order=np.lexsort((-of_buckets.bytes, -runs)),
        partition_order=np.lexsort((-of_partitions.bytes, -of_partitions.newest_ms)),
        _buckets=of_buckets,
        _partitions=of_partitions,
    )


def _partition_sums(names: _Names, buckets: _BucketSums, measures: FileMeasures) -> _PartitionSums:
    ids = buckets.partition
    first = np.flatnonzero(np.r_[len(ids) > 0, ids[1:] != ids[:-1]])
    made = measures.entries["creation_time_ms"].fill_null(0).to_numpy(zero_copy_only=False)
    # a manifest holds the writer's wall clock: it is taken for this machine's zone
    offset_ms = names.handle.env.clock.local_offset_ms()
    newest = np.where(made > 0, made - offset_ms, 0).astype(np.int64)

    def sums(values: Counts) -> Counts:
        return np.add.reduceat(values, first) if len(first) else np.zeros(0, np.int64)

    return _PartitionSums(
        names,
        ids[first],
        sums(np.ones(len(ids), np.int64)),
        sums(buckets.files),
        sums(buckets.rows),
        sums(buckets.bytes),
        np.maximum.reduceat(newest, measures.starts[first]) if len(first) else newest,
    )


def _levels(files: Counts, sizes: Counts) -> tuple[LevelSum, ...]:
    pairs = zip(files.tolist(), sizes.tolist(), strict=True)
    return tuple(LevelSum(level, count, total) for level, (count, total) in enumerate(pairs))


def size_bins(sizes: Counts) -> tuple[SizeBin, ...]:
    """Count files by powers of two of their size; no bin before the first or behind the last file.

    Examples
    --------
    >>> [(b.from_bytes, b.below_bytes, b.files) for b in size_bins(np.array([100, 1024, 5000]))]
    [(0, 1024, 1), (1024, 2048, 1), (2048, 4096, 0), (4096, 8192, 1)]
    """
    if not len(sizes):
        return ()
    bounds = np.left_shift(1, np.arange(LEAST_POWER, MOST_POWER + 1, dtype=np.int64))
    place = np.searchsorted(bounds, sizes, side="right")
    count = len(bounds) + 1
    files = np.bincount(place, minlength=count)
    total = np.zeros(count, np.int64)
    np.add.at(total, place, sizes)
    found = np.flatnonzero(files)
    edges = [0, *bounds.tolist()]
    return tuple(
        SizeBin(
            edges[n],
            edges[n + 1] if n + 1 < count else None,
            int(files[n]),
            int(total[n]),
        )
        for n in range(int(found[0]), int(found[-1]) + 1)
    )
