"""Cuts what a snapshot gives to a stream into units, bucket by bucket.

A batch takes whole **units** of a bucket:

=====================  ===========================  =======================================
what is read           unit                         why
=====================  ===========================  =======================================
state, files alone     a file                       no key is in two of them
state, files to merge  a section                    the files of a section share keys
new rows, no key       a file                       each row stands for itself
changes of keys        the files of a commit        one key's changes of a commit are one
keys that may move     the whole commit             a key leaves one partition for another
difference, overwrite  a part of the difference     as of a read of changes
=====================  ===========================  =======================================

Units are numbered through a snapshot. Their order depends only on the snapshot and the few options
that decide which files are visible, so a number means the same after a restart. Columns and filters
do not change units: a filter leaves out parts, never units.

Memory: the entries of the snapshot's files as columns. Only the files that are read become objects.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelake.metadata.manifest.lazy_file_list import FileList, names_of, sizes_of
from tidelake.scan import BucketFiles, Section, Split
from tidelake.scan.split_generator import PackRule, pack_ordered, raw_splits
from tidelake.table.changelog.changelog_protocols import ChangePart
from tidelake.table.changelog.moved_keys import parts_in_passes

Counts = NDArray[np.int64]


class BucketUnits(Protocol):
    """The units of one bucket."""

    @property
    def partition(self) -> bytes | None:
        """Serialized BinaryRow; None where units span several partitions."""
        ...

    @property
    def counts(self) -> tuple[Counts, Counts, Counts]:
        """Files, bytes and rows of each unit."""
        ...

    @property
    def names(self) -> Sequence[str] | pa.Array:
        """The names of all files, in the order of the units."""
        ...

    def parts(self, start: int, end: int, rule: PackRule) -> Iterator[ChangePart]:
        """Give the parts of units `start` to `end`, the second excluded."""
        ...


@dataclass(frozen=True, slots=True)
class LoggedFiles:
    """New files of an append table: each is a unit."""

    bucket: BucketFiles

    @property
    def partition(self) -> bytes:
        """Serialized BinaryRow."""
        return self.bucket.partition

    @property
    def counts(self) -> tuple[Counts, Counts, Counts]:
        """Files, bytes and rows of each unit."""
        return _file_counts(self.bucket.files)

    @property
    def names(self) -> pa.Array:
        """The names of the files."""
        return names_of(self.bucket.files)

    def parts(self, start: int, end: int, rule: PackRule) -> Iterator[ChangePart]:
        """Files one after the other, packed."""
        return ((split,) for split in raw_splits(self.bucket, self.bucket.files[start:end], rule))


@dataclass(frozen=True, slots=True)
class StateFiles(LoggedFiles):
    """Files of a state that need no merge: each is a unit."""

    def parts(self, start: int, end: int, rule: PackRule) -> Iterator[ChangePart]:
        """Nothing before, files after, packed."""
        empty = _without_files(self.bucket)
        for split in raw_splits(self.bucket, self.bucket.files[start:end], rule):
            yield empty, split


@dataclass(frozen=True, slots=True)
class LoggedCommit(LoggedFiles):
    """The changes that one commit wrote to a bucket of keys: one unit."""

    @property
    def counts(self) -> tuple[Counts, Counts, Counts]:
        """Files, bytes and rows of the one unit."""
        files, sizes, rows = _file_counts(self.bucket.files)
        return _one(files.sum()), _one(sizes.sum()), _one(rows.sum())

    def parts(self, start: int, end: int, rule: PackRule) -> Iterator[ChangePart]:  # noqa: ARG002
        """All files, read one after the other."""
        if start < end:
            yield (self.bucket.split(((self.bucket.files,),), raw=True),)


@dataclass(frozen=True, slots=True)
class StateSections:
    """Files of a state that need a merge: each section is a unit.

    Parameters
    ----------
    sections : tuple of Section
        In key order.
    """

    bucket: BucketFiles
    sections: tuple[Section, ...]

    @property
    def partition(self) -> bytes:
        """Serialized BinaryRow."""
        return self.bucket.partition

    @property
    def counts(self) -> tuple[Counts, Counts, Counts]:
        """Files, bytes and rows of each unit."""
        files = [[f for run in section for f in run] for section in self.sections]
        return (
            np.array([len(own) for own in files], dtype=np.int64),
            np.array([sum(f.file_size_bytes for f in own) for own in files], dtype=np.int64),
            np.array([sum(f.row_count for f in own) for own in files], dtype=np.int64),
        )

    @property
    def names(self) -> Sequence[str]:
        """The names of the files, section by section."""
        return [f.file_name for section in self.sections for run in section for f in run]

    def parts(self, start: int, end: int, rule: PackRule) -> Iterator[ChangePart]:
        """Nothing before, sections after; raw for one file without deletes, else merged."""
        empty = _without_files(self.bucket)
        for raw, some in itertools.groupby(self.sections[start:end], _stands_alone):
            if raw:
                files = tuple(section[0][0] for section in some)
                splits = raw_splits(self.bucket, files, rule)
            else:
                packed = pack_ordered(some, rule.section_weight, target=rule.target_bytes)
                splits = [self.bucket.split(tuple(own), raw=False) for own in packed]
            for split in splits:
                yield empty, split


@dataclass(frozen=True, slots=True)
class ChangedParts:
    """Parts of a difference, in units that cannot be cut.

    Parameters
    ----------
    partition : bytes, optional
        Serialized BinaryRow; None where a unit spans several partitions.
    units : tuple of tuple of ChangePart
        The parts of each unit, in order.
    moves : bool
        Whether a key may have changes in several parts of a unit, of which the last must come last.
    """

    partition: bytes | None
    units: tuple[tuple[ChangePart, ...], ...]
    moves: bool = False

    @property
    def counts(self) -> tuple[Counts, Counts, Counts]:
        """Files, bytes and rows of each unit."""
        splits = [[split for part in unit for split in part] for unit in self.units]
        return (
            np.array([sum(s.files_count for s in own) for own in splits], dtype=np.int64),
            np.array([sum(s.size_bytes for s in own) for own in splits], dtype=np.int64),
            np.array([sum(s.row_count for s in own) for own in splits], dtype=np.int64),
        )

    @property
    def names(self) -> Sequence[str]:
        """The names of the files, part by part."""
        return [
            file.file_name
            for unit in self.units
            for part in unit
            for split in part
            for file in split.files
        ]

    def parts(self, start: int, end: int, rule: PackRule) -> Iterator[ChangePart]:  # noqa: ARG002
        """The parts as they are, or in passes."""
        for unit in self.units[start:end]:
            yield from parts_in_passes(unit) if self.moves else unit


class SnapshotUnits:
    """All units of one snapshot in one phase.

    Parameters
    ----------
    buckets : sequence of BucketUnits
        In the order of the stream.
    """

    def __init__(self, buckets: Sequence[BucketUnits]) -> None:
        self._buckets = tuple(buckets)
        counts = [bucket.counts for bucket in self._buckets]
        none = np.zeros(0, np.int64)
        self.files, self.bytes, self.rows = (
            np.concatenate([none, *(own[i] for own in counts)]) for i in range(3)
        )
        """Of each unit: files, bytes, rows."""
        self._ends = list(itertools.accumulate(len(own[0]) for own in counts))

    @property
    def count(self) -> int:
        """Number of units."""
        return len(self.files)

    @property
    def mark(self) -> int:
        """A checksum of the units' files in their order; never 0."""
        checksum = 0
        for bucket, own in zip(self._buckets, self._ends, strict=True):
            names = bucket.names
            texts = names.to_pylist() if isinstance(names, pa.Array) else names
            checksum = zlib.crc32("\n".join([*texts, str(own)]).encode(), checksum)
        return checksum or 1

    def parts(
        self, start: int, end: int, rule: PackRule, *, partitions: frozenset[bytes] | None = None
    ) -> Iterator[ChangePart]:
        """Give the parts of units `start` to `end`, the second excluded."""
        first = 0
        for bucket, last in zip(self._buckets, self._ends, strict=True):
            low, high = max(start, first) - first, min(end, last) - first
            chosen = (
                partitions is None or bucket.partition is None or bucket.partition in partitions
            )
            if low < high and chosen:
                yield from bucket.parts(low, high, rule)
            first = last

    def partitions(self) -> list[bytes]:
        """The partitions, each once."""
        found = dict.fromkeys(bucket.partition for bucket in self._buckets)
        return [partition for partition in found if partition is not None]


def _file_counts(files: Sequence[object]) -> tuple[Counts, Counts, Counts]:
    assert isinstance(files, FileList)
    return np.ones(len(files), dtype=np.int64), sizes_of(files), files.row_counts


def _one(value: np.int64) -> Counts:
    return np.array([value], dtype=np.int64)


def _without_files(bucket: BucketFiles) -> Split:
    return replace(bucket, files=(), deletions={}).split((), raw=True)


def _stands_alone(section: Section) -> bool:
    return len(section) == 1 and len(section[0]) == 1 and section[0][0].delete_row_count == 0
