"""A data file as manifests describe it, and what a writer hands to the commit.

These values are Paimon's ``DataFileMeta``, ``ManifestEntry`` and ``SimpleStats`` (1.3.1, manifest
entry version 2); ``docs/format/manifest.md`` shows their bytes.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from tidelake.metadata.bucket_id import InBucket
from tidelake.metadata.index_entry import DeletionChange, IndexChange

EMPTY_ROW = bytes(12)
"""Serialized BinaryRow of no fields: arity 0 as 4 bytes big-endian, then 8 header bytes."""


class FileKind(enum.IntEnum):
    """Whether an entry adds or deletes a file (on disk: never renumber)."""

    ADD = 0
    DELETE = 1


class FileSource(enum.IntEnum):
    """How a file came to be (on disk: never renumber)."""

    APPEND = 0
    COMPACT = 1


@dataclass(frozen=True, slots=True)
class SimpleStats:
    """Smallest and largest value and number of nulls of each column.

    Parameters
    ----------
    min_values, max_values : bytes
        Serialized BinaryRows (arity prefix included) over the columns with statistics.
    null_counts : tuple of (int or None)
        One per column; None where unknown.
    """

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...]


EMPTY_STATS = SimpleStats(EMPTY_ROW, EMPTY_ROW, ())


@dataclass(frozen=True, slots=True)
class DataFileMeta:
    """One data file as the manifests describe it; field order is the order on disk."""

    file_name: str
    file_size_bytes: int
    row_count: int
    min_key: bytes
    max_key: bytes
    key_stats: SimpleStats
    value_stats: SimpleStats
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int
    extra_files: tuple[str, ...] = ()
    creation_time_ms: int | None = None
    """Local wall clock of the writer, stored as if UTC (as Paimon does)."""
    delete_row_count: int | None = None
    embedded_index: bytes | None = None
    file_source: int | None = None
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None
    write_cols_sequences: tuple[int, ...] | None = None
    """Paimon 2.x only; kept so that a rewritten manifest loses nothing."""


def levels_digest(files: Iterable[DataFileMeta], vectors: Iterable[str] = ()) -> bytes:
    """A digest of a bucket's files above level 0.

    Equal for the same files on the same levels, in any order, and the same index files of
    deletion vectors, given by their names, because such a file never changes.

    Examples
    --------
    >>> len(levels_digest([]))
    32
    """
    names = sorted(f"{file.level}:{file.file_name}" for file in files if file.level > 0)
    return hashlib.sha256("\n".join([*names, *sorted(vectors)]).encode()).digest()


@dataclass(frozen=True, slots=True)
class ManifestEntry(InBucket):
    """One change of the table's set of files."""

    kind: FileKind
    partition: bytes
    """Serialized BinaryRow of the partition columns, arity prefix included."""
    bucket: int
    total_buckets: int
    file: DataFileMeta

    @property
    def identity(self) -> tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]:
        """The fields that identify a file in two entries; the level is one of them."""
        f = self.file
        return (
            self.partition,
            self.bucket,
            f.level,
            f.file_name,
            f.extra_files,
            f.embedded_index,
            f.external_path,
        )


@dataclass(frozen=True, slots=True)
class CommitMessage(InBucket):
    """The result of one writer in one bucket: the part of a commit that travels to the driver."""

    partition: bytes
    bucket: int
    total_buckets: int
    new_files: tuple[DataFileMeta, ...] = ()
    compact_before: tuple[DataFileMeta, ...] = ()
    compact_after: tuple[DataFileMeta, ...] = ()
    index: IndexChange | None = None
    """For a dynamic bucket with new rows."""
    changelog: tuple[DataFileMeta, ...] = ()
    """Changelog files of the new files."""
    compact_changelog: tuple[DataFileMeta, ...] = ()
    """Changelog files of the compaction."""
    deletions: DeletionChange | None = None
    """Belongs to the compaction if there is one, else to the new files."""
    compact_seen: bytes | None = None
    """For a compaction that looked keys up: :func:`levels_digest` of the untouched files and the
    deletion vectors before it."""
    removed_files: tuple[DataFileMeta, ...] = ()
    """For an append table: files with deleted or updated rows; their other rows are in the new
    files."""

    @property
    def changes_rows(self) -> bool:
        """Whether existing rows are deleted or updated."""
        return bool(self.removed_files or (self.deletions and not self.has_compaction))

    @property
    def has_compaction(self) -> bool:
        """Whether files are replaced by others.

        True too if rows left no file behind, as deletes do, but are in a changelog or mark older
        rows.
        """
        looked_up = self.compact_seen is not None
        replaces = self.compact_before or self.compact_after
        return bool(replaces or self.compact_changelog or (looked_up and self.deletions))

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written, deleted or compacted."""
        return not (
            self.new_files
            or self.has_compaction
            or self.changelog
            or self.deletions
            or self.removed_files
        )

    @property
    def made_files(self) -> tuple[DataFileMeta, ...]:
        """The files that the message created, each once.

        A file that a compaction only lifted to another level keeps its old name.
        """
        before = {f.file_name for f in self.compact_before}
        after = tuple(f for f in self.compact_after if f.file_name not in before)
        return (*self.new_files, *after, *self.changelog, *self.compact_changelog)
