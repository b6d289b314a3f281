"""One commit to a table, from the checks to the result: the path of all writes and jobs.

1. Begin: the table's options are checked before the first byte. A commit identity that is already
   committed is a replay: nothing is written.
2. Rows go to a :class:`~tidelake.table.write.table_writer.TableWriter`, or a job brings commit
   messages that its tasks wrote. If that fails the new files are deleted; nothing is visible.
3. Commit: the committer publishes. If it refuses, the files are deleted. If the outcome is
   unknown, or the process is interrupted while publishing, they stay: they may be visible.
4. If another commit changed the rows that a statement read, the statement is repeated on the newest
   snapshot (:meth:`WriteTransaction.run`).

If compactions look keys up, one that lost to another commit is tried again, and a replay does a
compaction that the first commit did not reach. The rows are visible without that: reads merge what
is not compacted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

from tidelake.commit import Committed
from tidelake.commit.conflicts.concurrent_changes import ROWS_CHANGED, EmptyTable
from tidelake.commit.conflicts.deletion_conflicts import DELETIONS_CHANGED
from tidelake.commit.plans import StreamProgress
from tidelake.commit.stream_step import MadeCommit
from tidelake.errors import ConflictError, OutcomeUnknownError, TidelakeError
from tidelake.merge import MergeSpec
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.data_file import CommitMessage
from tidelake.metadata.log.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from tidelake.options import declared
from tidelake.store import LookupStrategy
from tidelake.table.conversion.inputs import is_replayable, record_batches, with_row_kinds
from tidelake.table.handle.handle import TableHandle
from tidelake.table.partition_done import mark_at_end
from tidelake.table.write.compaction_conflict import check_some_compacted
from tidelake.table.write.delta_commits_trigger import full_compactions
from tidelake.table.write.expired_inputs import BASE_EXPIRED, names_expired_inputs
from tidelake.table.write.gathered_changelogs import GatheredChangelogs
from tidelake.table.write.new_writer import new_writer
from tidelake.table.write.overwrite import Overwrite, partial_overwrite_error
from tidelake.table.write.result import (
    CommitIdentity,
    RowCounts,
    WriteResult,
    joined,
    written_counts,
)
from tidelake.table.write.table_writer import TableWriter, delete_new_files
from tidelake.table.write.writable import check_writable

COMPACTIONS_AGAIN_MAX = 2
"""The most retries of lost compactions, before they are left to the next write."""
TRIES_MAX = 10
"""The most repeats of a statement after other commits were faster."""
ASSIGNMENTS_MAX = 5
"""The same for rows whose buckets alone depend on the table's content."""
BUCKETS_CHANGED = "bucket_assignment"
"""The conflict of rows whose buckets came from an index that has changed."""

_CHANGED = frozenset({DELETIONS_CHANGED, ROWS_CHANGED, BUCKETS_CHANGED, BASE_EXPIRED})


class MessageSource(Protocol):
    """Writes files and describes them in commit messages."""

    @property
    def base_snapshot_id(self) -> int | None:
        """The snapshot that it began from, 0 for the empty table; None if not fixed."""
        ...

    @property
    def rows_count(self) -> int:
        """Rows taken so far."""
        ...

    def prepare_commit(self) -> Sequence[CommitMessage]:
        """Write all files."""
        ...

    def close(self) -> None:
        """Release memory; the files stay."""
        ...

    def abort(self) -> None:
        """Delete the files."""
        ...


Source = TypeVar("Source", bound=MessageSource)
RowBatches = Iterable[tuple[pa.RecordBatch, np.ndarray | None]]
"""Rows with their row kinds; None if all are inserts."""
Watermark = int | Callable[[], int | None] | None
"""Event time in ms up to which rows are complete, or a function that returns it after the write."""


@dataclass(frozen=True, slots=True)
class TaskMessages:
    """Messages of tasks that have written their files."""

    handle: TableHandle
    messages: Sequence[CommitMessage]
    base_snapshot_id: int | None
    rows_count: int

    def prepare_commit(self) -> Sequence[CommitMessage]:
        """The messages."""
        return self.messages

    def close(self) -> None:
        """Do nothing: no resource is held."""

    def abort(self) -> None:
        """Delete the files."""
        delete_new_files(self.handle.fileio, self.handle.paths, self.messages)


@dataclass(frozen=True, slots=True)
class _Done:
    """The published snapshots."""

    committed: Committed
    messages: Sequence[CommitMessage]
    rows_count: int

    def result(self, identity: CommitIdentity, counts: RowCounts) -> WriteResult:
        """Make the result."""
        return WriteResult.of_commit(
            self.committed, self.messages, identity, rows_count=self.rows_count, counts=counts
        )


class Statement(Protocol):
    """A change made from a snapshot's content."""

    def attempt(self) -> WriteResult:
        """Make it on the newest snapshot and commit.

        Raises
        ------
        ConflictError
            Another commit changed what it read.
        """
        ...


class WriteTransaction:
    """One commit. For one thread; on Spark it runs on the driver.

    Used as a context manager, it deletes at the end the files of anything not committed. After a
    refused commit it is as good as new, so that a statement can be tried again.

    Parameters
    ----------
    identity : CommitIdentity, optional
        Who commits; by default an identity of its own.
    overwrite : Overwrite, optional
        What the commit replaces; by default it adds.
    watermark : int or callable, optional
        Of the stream of these rows; a snapshot's watermark is never below the one before.
    is_wanted_empty : bool
        Whether to make a snapshot even without rows.

    Raises
    ------
    InvalidInputError, UnsupportedError
        This version cannot write the table.
    """

    def __init__(
        self,
        handle: TableHandle,
        identity: CommitIdentity | None = None,
        *,
        overwrite: Overwrite | None = None,
        watermark: Watermark = None,
        is_wanted_empty: bool = False,
    ) -> None:
        check_writable(handle)
        self.watermark = watermark
        self.is_wanted_empty = is_wanted_empty
        self.handle = handle
        self.identity = identity or CommitIdentity.of(handle, None, None)
        self.overwrite = overwrite
        self._source: MessageSource | None = None
        self.buckets_count = 0
        """How many buckets, of all partitions, the last commit wrote to."""
        self.made: MadeCommit | None = None
        """The commit, made now or found; None without a snapshot of its own that is kept."""

    # ---- begin

    def replayed(self) -> WriteResult | None:
        """The result of a repeated commit; None if the identity is not committed yet.

        If the first commit was stopped before its compaction and the table looks keys up, the
        compaction is done now, so that its changelog and deletion vectors exist.

        Raises
        ------
        InvalidInputError
            It is a batch of a stream whose number was committed with other rows, or whose last
            commit was rolled back.
        """
        found = replay_of(self.handle, self.identity)
        if found is None:
            return None
        self.made = found.made
        return found.result

    def run(
        self, statement: Statement, *, kinds: Collection[str] = _CHANGED, tries: int | None = None
    ) -> WriteResult:
        """Run a statement, and repeat it on the newest snapshot while other commits are faster.

        Other commits wait for one that loses again and again (:mod:`tidelake.commit.fairness`).

        Parameters
        ----------
        kinds : collection of str
            The conflicts after which it is repeated.
        tries : int, optional
            The most attempts; :data:`TRIES_MAX` by default.

        Raises
        ------
        ConflictError
            Others were faster in every attempt; nothing was changed.
        """
        if (done := self.replayed()) is not None:
            return done
        return self.handle.committer().in_turns(
            self.identity.user, statement.attempt, kinds=kinds, tries=tries or TRIES_MAX
        )

    def run_assigned(self, statement: Statement, *, tries: int = ASSIGNMENTS_MAX) -> WriteResult:
        """The same for rows that depend on others only by their buckets and compactions."""
        return self.run(statement, kinds=(BUCKETS_CHANGED, BASE_EXPIRED), tries=tries)

    # ---- rows or messages

    def write(self, data: object, *, row_kinds: object | None = None) -> WriteResult:
        """Take all rows and commit; arguments as of :meth:`tidelake.Table.write`."""
        is_assigned = self.handle.bucket_mode.is_assigned and self.overwrite is None
        again = is_replayable(data) and not isinstance(row_kinds, Iterator)
        return self.run(
            _Rows(self, data, row_kinds),
            kinds=(BUCKETS_CHANGED, BASE_EXPIRED) if is_assigned else (BASE_EXPIRED,),
            tries=ASSIGNMENTS_MAX if again else 1,
        )

    def write_batches(self, batches: RowBatches) -> WriteResult:
        """Take all rows, each batch with its row kinds, and commit."""
        if (done := self.replayed()) is not None:
            return done
        with self:
            self._add(batches)
            return self.commit()

    def add(self, data: object, *, row_kinds: object | None = None) -> None:
        """Take some rows; arguments as of :meth:`tidelake.Table.write`."""
        table = self.handle.identifier
        batches = record_batches(data, self.handle.schema.fields, table=table)
        rows = with_row_kinds(batches, row_kinds, table=table)
        self._add(rows, are_at_hand=is_replayable(data))

    def _add(self, batches: RowBatches, *, are_at_hand: bool = False) -> None:
        handle, overwrite = self.handle, self.overwrite
        takes_none = handle.schema.keys_may_move and overwrite is not None and overwrite.is_partial
        writer = self._source or self.open_writer(reads_now=are_at_hand)
        assert isinstance(writer, TableWriter), "rows or messages"
        before = writer.rows_count
        for batch, kinds in batches:
            rows = batch if overwrite is None else overwrite.with_columns(handle, batch)
            if takes_none and rows.num_rows:
                raise partial_overwrite_error(handle.identifier)
            with names_expired_inputs(handle, writer):
                writer.write(rows, kinds, first_row=writer.rows_count - before)

    def open_writer(
        self,
        *,
        base_snapshot_id: int | None = None,
        fills_defaults: bool = True,
        reads_now: bool = False,
    ) -> TableWriter:
        """Open the writer of this commit; arguments as of :func:`new_writer`."""
        writer = new_writer(
            self.handle,
            user=self.identity.user,
            overwrite=self.overwrite,
            base_snapshot_id=base_snapshot_id,
            fills_defaults=fills_defaults,
            reads_now=reads_now,
        )
        return self.take(writer)

    def take(self, source: Source) -> Source:
        """Let another source write the files of this commit."""
        assert self._source is None, "one source for each commit"
        self._source = source
        return source

    def add_messages(
        self,
        messages: Sequence[CommitMessage],
        *,
        base_snapshot_id: int | None,
        rows_count: int = 0,
    ) -> None:
        """Take the messages of tasks that have written their files.

        Parameters
        ----------
        base_snapshot_id : int or None
            The newest snapshot before the first task began, 0 for none; None if not fixed.
        """
        self.take(TaskMessages(self.handle, messages, base_snapshot_id, rows_count))

    @property
    def rows_count(self) -> int:
        """Rows taken so far and not committed."""
        return 0 if self._source is None else self._source.rows_count

    # ---- commit or abort

    def commit(
        self,
        *,
        read_snapshot: Snapshot | EmptyTable | None = None,
        counts: RowCounts | None = None,
    ) -> WriteResult:
        """Make the rows visible; full compactions that are due go with them.

        Parameters
        ----------
        read_snapshot : Snapshot or EmptyTable, optional
            The rows were made from this snapshot's content: it is a conflict if others wrote to
            their keys since.
        counts : RowCounts, optional
            How many rows had which change; by default what any write knows.

        Raises
        ------
        ConflictError, OutcomeUnknownError
            As of :meth:`tidelake.commit.Committer.commit`.
        """
        done = self._publish(read_snapshot=read_snapshot)
        known = counts or written_counts(self.handle, done.rows_count)
        if self.overwrite is not None:
            known = replace(known, deleted=None)
        result = done.result(self.identity, known)
        if self.overwrite is not None or not result.compactions_dropped:
            return result
        buckets = [m.bucket_id for m in done.messages if m.compact_before]
        return _compacted_again(self.handle, result, buckets)

    def commit_compactions(
        self, *, all_or_nothing: bool = False, fails_if_all_lost: bool = True
    ) -> WriteResult:
        """Commit compactions, without new rows.

        Parameters
        ----------
        all_or_nothing : bool
            Whether no compaction may be left out alone.
        fails_if_all_lost : bool
            Whether it is an error if other commits changed all of the buckets.

        Raises
        ------
        ConflictError
            Other commits changed all of the buckets; nothing was changed.
        """
        done = self._publish(all_or_nothing=all_or_nothing, fails_if_all_lost=fails_if_all_lost)
        return done.result(self.identity, RowCounts())

    def _publish(
        self,
        *,
        read_snapshot: Snapshot | EmptyTable | None = None,
        all_or_nothing: bool = False,
        fails_if_all_lost: bool = False,
    ) -> _Done:
        """Write all files, publish, close the source.

        The files are deleted only if none of them can be visible.
        """
        handle, identity, overwrite = self.handle, self.identity, self.overwrite
        source, self._source = self._source, None
        assert source is not None, "rows or messages were added"
        may_be_visible = False
        changelogs = GatheredChangelogs(handle)
        try:
            if isinstance(source, TableWriter) and source.rows_count and overwrite is None:
                source.full_compactions = full_compactions(handle)
            with names_expired_inputs(handle, source):
                messages = changelogs.gather(source.prepare_commit())
            committer = handle.committer()
            watermark = self.watermark() if callable(self.watermark) else self.watermark
            self.buckets_count = len({message.bucket_id for message in messages})
            stream = StreamProgress(watermark, self.is_wanted_empty, identity.step)
            may_be_visible = True
            if overwrite is not None:
                committed = committer.overwrite(
                    messages,
                    user=identity.user,
                    identifier=identity.identifier,
                    partitions=overwrite.partitions,
                    read_snapshot=overwrite.read_snapshot,
                    stream=stream,
                )
            else:
                committed = committer.commit(
                    messages,
                    user=identity.user,
                    identifier=identity.identifier,
                    kind=CommitKind.COMPACT if all_or_nothing else None,
                    base_snapshot_id=source.base_snapshot_id,
                    all_or_nothing=all_or_nothing,
                    read_snapshot=read_snapshot,
                    stream=stream,
                )
            if fails_if_all_lost:
                check_some_compacted(handle.identifier, committed)
        except OutcomeUnknownError:
            raise
        except TidelakeError:
            may_be_visible = False  # the committer's promise
            raise
        finally:
            # an interrupt may have come while publishing, so its files stay
            if may_be_visible:
                source.close()
                changelogs.close()
            else:
                source.abort()
                changelogs.abort()
        self.made = MadeCommit.of(committed.snapshots[0]) if committed.snapshots else None
        if committed.snapshots and identity.identifier == BATCH_IDENTIFIER:
            mark_at_end(handle, messages)
        return _Done(committed, messages, source.rows_count)

    def abort(self) -> None:
        """Delete uncommitted files; a forked child deletes none."""
        source, self._source = self._source, None
        if source is not None:
            source.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abort()


@dataclass(frozen=True, slots=True)
class _Rows:
    """A write of rows that are all given at once."""

    transaction: WriteTransaction
    data: object
    row_kinds: object | None

    def attempt(self) -> WriteResult:
        """Take the rows and commit."""
        with self.transaction as out:
            out.add(self.data, row_kinds=self.row_kinds)
            return out.commit()


@dataclass(frozen=True, slots=True)
class Replay:
    """What is known of a commit that was made before under the same identity.

    Parameters
    ----------
    made : MadeCommit or None
        None if the commit is not the step of a stream, or has no snapshot that is kept.
    """

    result: WriteResult
    made: MadeCommit | None = None


def is_committed(handle: TableHandle, identity: CommitIdentity) -> bool:
    """Whether a commit was made before under an identity that was given; raises as `replayed`."""
    return _found(handle, identity)[0]


def replay_of(handle: TableHandle, identity: CommitIdentity) -> Replay | None:
    """Find a commit that was made before; errors and side effects as of `replayed` above."""
    is_done, first = _found(handle, identity)
    if not is_done:
        return None
    made = None if first is None else MadeCommit.of(first)
    done = WriteResult(already_committed=True)
    if not _looks_up(handle):
        return Replay(done, made)
    buckets = handle.committer().uncompacted_buckets(identity.user, identity.identifier)
    again = replace(_compacted_again(handle, done, buckets), compactions_dropped=0)
    return Replay(again, made)


def _found(handle: TableHandle, identity: CommitIdentity) -> tuple[bool, Snapshot | None]:
    """Whether a commit was made before; its first snapshot, of a step of a stream."""
    if not identity.is_given:
        return False, None
    committer, user, identifier = handle.committer(), identity.user, identity.identifier
    if identity.step is not None:
        return committer.committed_batch(user, identifier, identity.step)
    return not committer.filter_committed(user, [identifier]), None


def _looks_up(handle: TableHandle) -> bool:
    """Whether each commit looks up older rows of its keys and compacts them."""
    schema, options = handle.schema, handle.options
    if not schema.primary_keys or options.get(declared.WRITE_ONLY):
        return False
    return LookupStrategy(MergeSpec.of(schema, options), options, schema.field_names).looks_up


def _compacted_again(
    handle: TableHandle, written: WriteResult, buckets: Collection[BucketId]
) -> WriteResult:
    """Compact buckets whose compaction a commit lost, if the table looks keys up.

    The commit's rows are visible: a failure from here on does not change `written`.
    """
    if not buckets or not _looks_up(handle):
        return written
    for _ in range(COMPACTIONS_AGAIN_MAX):
        try:
            with WriteTransaction(handle) as out:
                writer = out.open_writer()
                for bucket_id in buckets:
                    writer.compact(*bucket_id, full=False)
                again = out.commit_compactions()
        except ConflictError:
            continue
        except TidelakeError:
            break  # any conflict is left to the next write
        written = replace(
            joined([written, again]),
            already_committed=written.already_committed,
            compactions_dropped=again.compactions_dropped,
        )
        if not again.compactions_dropped:
            break
    return written


def compact_due(handle: TableHandle) -> WriteResult:
    """Run the full compactions that were due with the newest commit; one commit."""
    due = full_compactions(handle, committed=True)
    if due is None or not due.due:
        return WriteResult()
    with WriteTransaction(handle) as out:
        out.open_writer().full_compactions = due
        return out.commit()
