"""The identity of a commit, and its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from tidelake.commit import Committed
from tidelake.commit.stream_step import StreamStep
from tidelake.errors import InvalidInputError
from tidelake.fileio.name import validate_name
from tidelake.metadata.data_file import CommitMessage
from tidelake.metadata.log.snapshot import BATCH_IDENTIFIER
from tidelake.table.handle.arguments import whole_number
from tidelake.table.handle.handle import TableHandle


@dataclass(frozen=True, slots=True)
class CommitIdentity:
    """The identity of a commit. A write is not repeated under an identity already committed."""

    user: str
    identifier: int
    is_given: bool
    """Whether the caller chose it, so that it may already be committed."""
    step: StreamStep | None = None
    """Of a batch of a stream: what it covers, and the commit that it follows."""

    @classmethod
    def of(
        cls,
        handle: TableHandle,
        user: str | None,
        identifier: int | None,
        *,
        step: StreamStep | None = None,
    ) -> CommitIdentity:
        """Take the caller's identity, or make one for a batch write.

        Raises
        ------
        InvalidInputError
            Only one of the two is given, or one is not valid.
        """
        if user is None and identifier is None:
            return cls(handle.env.ids.uuid(), BATCH_IDENTIFIER, is_given=False)
        if user is None or identifier is None:
            message = (
                "Give commit_user and commit_identifier together: a repeated pair is committed"
                " once, so each write of a user needs its own, rising identifier."
            )
            raise InvalidInputError(message, kind="commit_identity", table=handle.identifier)
        validate_name(user, "user")
        number = whole_number(identifier)
        if number is None or not 0 <= number < BATCH_IDENTIFIER:
            message = f"commit_identifier must be a number from 0 on, not {identifier!r}."
            raise InvalidInputError(message, kind="commit_identity", table=handle.identifier)
        return cls(user, number, is_given=True, step=step)


@dataclass(frozen=True, slots=True)
class RowCounts:
    """How many rows a write inserted, updated and deleted; None if unknown."""

    inserted: int | None = 0
    updated: int | None = 0
    deleted: int | None = 0


UNKNOWN_COUNTS = RowCounts(None, None, None)


def written_counts(handle: TableHandle, rows_count: int) -> RowCounts:
    """The counts of a plain write: without a primary key every row is a new one."""
    if handle.schema.primary_keys and rows_count:
        return UNKNOWN_COUNTS
    return RowCounts(inserted=rows_count)


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of a write.

    Parameters
    ----------
    snapshot_ids : tuple of int
        The snapshots it made: none if there was nothing to write, two if it also compacted (the
        rows are in the first).
    rows : int
        Rows taken in.
    files : int
        Files written: data files, and the index files in which rows are marked as deleted.
    bytes : int
        Size of these files.
    already_committed : bool
        The commit identity was already committed, so no row was written. A compaction that the
        first commit left out may have been done now.
    compactions_dropped : int
        Compactions that lost to another writer's. The rows are safe and visible; a later write
        compacts.
    buckets_interleaved : int
        Buckets of a primary-key table to which another writer committed during this write. The
        rows of both exist; of two rows of one key the larger sequence number wins, not the
        later commit.
    rows_inserted, rows_updated, rows_deleted : int or None
        Rows by what happened to them; None if only reading the table could answer. A write to
        an append table inserts all of its rows. Updates, deletes by a condition and upserts of
        some columns read the old rows, so they know. A plain upsert, a delete by keys and an
        overwrite do not.
    """

    snapshot_ids: tuple[int, ...] = ()
    rows: int = 0
    files: int = 0
    bytes: int = 0
    already_committed: bool = False
    compactions_dropped: int = 0
    buckets_interleaved: int = 0
    rows_inserted: int | None = 0
    rows_updated: int | None = 0
    rows_deleted: int | None = 0

    @classmethod
    def of_commit(
        cls,
        committed: Committed,
        messages: Sequence[CommitMessage],
        identity: CommitIdentity,
        *,
        rows_count: int,
        counts: RowCounts,
    ) -> WriteResult:
        """Make the result of a commit of these messages."""
        sizes = [
            *(f.file_size_bytes for m in messages for f in (*m.new_files, *m.compact_after)),
            *(
                f.file_size_bytes
                for m in messages
                if m.changes_rows and m.deletions is not None
                for f in m.deletions.added
            ),
        ]
        return cls(
            snapshot_ids=tuple(s.id for s in committed.snapshots),
            rows=rows_count,
            files=len(sizes),
            bytes=sum(sizes),
            already_committed=committed.replayed and identity.is_given,
            compactions_dropped=len(committed.dropped_compactions),
            buckets_interleaved=len(committed.interleaved),
        ).with_counts(counts)

    def with_counts(self, counts: RowCounts) -> Self:
        """The same result with other counts; a repeated commit changed no row and keeps its own."""
        if self.already_committed:
            return self
        return replace(
            self,
            rows_inserted=counts.inserted,
            rows_updated=counts.updated,
            rows_deleted=counts.deleted,
        )


def joined(results: Sequence[WriteResult]) -> WriteResult:
    """The joint result of several commits."""
    return WriteResult(
        snapshot_ids=tuple(i for r in results for i in r.snapshot_ids),
        rows=sum(r.rows for r in results),
        files=sum(r.files for r in results),
        bytes=sum(r.bytes for r in results),
        compactions_dropped=sum(r.compactions_dropped for r in results),
        buckets_interleaved=sum(r.buckets_interleaved for r in results),
        rows_inserted=_sum([r.rows_inserted for r in results]),
        rows_updated=_sum([r.rows_updated for r in results]),
        rows_deleted=_sum([r.rows_deleted for r in results]),
    )


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
