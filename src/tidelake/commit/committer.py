"""Makes written files visible: the only place where a table's state changes.

1. The messages become a plan (:mod:`tidelake.commit.plans`): an APPEND of new files, an OVERWRITE
   of partitions, or of rows of older files that were deleted or updated. Compactions become a
   second plan, a COMPACT snapshot of the same user and identifier.
2. At each attempt the plan finds what it changes in the newest snapshot, and what conflicts with
   it. New files are only added, so two jobs that write one bucket both succeed, with all rows of
   both. The committer reports where their sequence numbers interleave.
3. Compactions are checked bucket by bucket. One that no longer fits is dropped and reported; the
   data does not depend on it.
4. Publishing, races, and outcomes in doubt: :mod:`tidelake.commit.publisher`.
5. After a commit tags are made and removed by the clock (:mod:`tidelake.commit.tags`), and old
   partitions (:mod:`tidelake.commit.partition_expiry`) and snapshots expire
   (:mod:`tidelake.commit.expiry`), unless the table is ``write-only``. Iceberg metadata is written
   where the table has it (:mod:`tidelake.commit.iceberg`).

Once the data is committed, no failure of compaction, expiry or metadata after it is raised: an
error from :meth:`Committer.commit` means that no row became visible. Source: Paimon's
``FileStoreCommitImpl`` (1.3.1), with the duplicate check on every attempt and rule 4 of
:mod:`tidelake.commit.conflicts.file_conflicts` added.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from tidelake.commit.conflicts.concurrent_changes import EmptyTable
from tidelake.commit.context import CommitContext
from tidelake.commit.delta import Committed, check_messages, compactions
from tidelake.commit.expiry import expire_quietly
from tidelake.commit.fairness import in_turns
from tidelake.commit.iceberg import sync_before_expiry, sync_quietly
from tidelake.commit.idempotence import DuplicateCheck, OwnFiles, last_commit
from tidelake.commit.partition_expiry import drop_user, due_plan
from tidelake.commit.plans import (
    NO_STREAM,
    AdoptionPlan,
    AppendPlan,
    CommitPlan,
    CompactionPlan,
    ManifestMergePlan,
    OverwritePlan,
    StatisticsPlan,
    StreamProgress,
)
from tidelake.commit.publisher import Publisher
from tidelake.commit.shown_partitions import show_partitions_quietly
from tidelake.commit.stream_step import StreamStep, committed_batch
from tidelake.commit.tags import keep_tags
from tidelake.errors import InvalidInputError, TidelakeError
from tidelake.fileio.name import validate_name
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.data_file import CommitMessage, FileKind
from tidelake.metadata.log.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from tidelake.options import declared
from tidelake.types.predicate import Predicate

T = TypeVar("T")
_OF_WRITERS = frozenset({CommitKind.APPEND, CommitKind.OVERWRITE})
_LOG = logging.getLogger("tidelake")


class Committer:
    """Commits to one table. Runs on the driver; not thread-safe."""

    def __init__(self, context: CommitContext) -> None:
        self._context = context

    def commit(
        self,
        messages: Sequence[CommitMessage],
        *,
        user: str,
        identifier: int = BATCH_IDENTIFIER,
        kind: CommitKind | None = None,
        base_snapshot_id: int | None = None,
        all_or_nothing: bool = False,
        read_snapshot: Snapshot | EmptyTable | None = None,
        stream: StreamProgress = NO_STREAM,
    ) -> Committed:
        """Make the messages' files visible.

        Parameters
        ----------
        user, identifier
            With an identifier the commit takes effect at most once, however often it is repeated; a
            user's identifiers rise. Without one, only attempts of this call, and calls with the
            same messages and a `base_snapshot_id`, are recognised as the same commit.
        base_snapshot_id : int, optional
            The snapshot that the writers began from; 0 for the empty table.
        all_or_nothing : bool
            Whether the compactions belong together, so that none may be dropped alone.
        read_snapshot : Snapshot or EmptyTable, optional
            For new rows that were computed from old ones, in a primary-key table: the snapshot of
            the old rows. A later write of others to these keys is a conflict.
        stream : StreamProgress
            The watermark of a stream with these rows, and whether a commit without files makes a
            snapshot.

        Returns
        -------
        Committed
            The snapshots, and the compactions that were dropped.

        Raises
        ------
        InvalidInputError
            The messages cannot be one commit.
        ConflictError
            All attempts lost their race; the table was rolled back to before what the writers
            began from; a partition has another number of buckets now; files, deletion vectors or
            rows that the writers read were changed; or one of compactions that belong together
            does not fit. Nothing became visible.
        NotFoundError
            The table was dropped, and perhaps created again; nothing became visible.
        StorageError
            The storage failed; nothing became visible.
        OutcomeUnknownError
            The storage failed while publishing: no data file may be deleted.
        """
        context = self._context
        self._check(messages, user)
        plan = AppendPlan.of(
            context,
            messages,
            base_snapshot_id=base_snapshot_id,
            read_snapshot=read_snapshot,
            stream=stream,
        )
        if kind not in {None, CommitKind.APPEND, CommitKind.COMPACT} or (
            kind is CommitKind.COMPACT and plan.delta.entries.num_rows
        ):
            message = (
                f"Commit to table '{context.table}': kind {kind} does not go with these files."
                " Leave kind= out, and it follows from them."
            )
            raise InvalidInputError(message, kind="commit_kind", table=context.table)
        return self._publish(
            plan,
            messages,
            user=user,
            identifier=identifier,
            base_snapshot_id=base_snapshot_id,
            all_or_nothing=all_or_nothing,
            step=stream.step,
        )

    def overwrite(
        self,
        messages: Sequence[CommitMessage],
        *,
        user: str,
        identifier: int = BATCH_IDENTIFIER,
        partitions: Predicate | str | None = None,
        read_snapshot: Snapshot | None = None,
        stream: StreamProgress = NO_STREAM,
    ) -> Committed:
        """Replace the rows of some partitions by the messages' files.

        Parameters
        ----------
        partitions : Predicate, 'dynamic' or None
            A bound predicate on partition columns; the partitions with new files; or the whole
            table.
        read_snapshot : Snapshot, optional
            For new files that were computed from old rows: the snapshot of the old rows. A later
            change of these partitions by others is a conflict.

        Raises
        ------
        InvalidInputError
            A new file lies in a partition that is not overwritten.
        ConflictError
            The partitions have other files or rows than in `read_snapshot`; nothing became visible.

        Notes
        -----
        An overwrite has no changelog, as in Java: a reader of changes does not see it.

        The postpone bucket is part of a partition only where the table writes to it (``bucket`` is
        -2): rows that wait there outlive a partition's change to another number of buckets.
        """
        self._check(messages, user)
        plan = OverwritePlan.of(
            self._context,
            messages,
            partitions=partitions,
            read_snapshot=read_snapshot,
            stream=stream,
        )
        if plan.is_no_op:
            return Committed()
        return self._publish(plan, messages, user=user, identifier=identifier, step=stream.step)

    def adopt(self, plan: AdoptionPlan, *, user: str) -> Snapshot | None:
        """Make files of elsewhere the first snapshot of an empty table.

        Returns
        -------
        Snapshot or None
            None if there are no files.

        Raises
        ------
        ConflictError
            The table has a snapshot; nothing became visible.
        NotFoundError, StorageError, OutcomeUnknownError
            As :meth:`commit`.
        """
        done = self._publish(plan, (), user=user, expires_partitions=False)
        return done.snapshots[0] if done.snapshots else None

    def drop_old_partitions(
        self, partitions: frozenset[bytes], *, read_snapshot: Snapshot | None = None
    ) -> Committed:
        """Drop partitions that are too old, with all their rows.

        Parameters
        ----------
        partitions : frozenset of bytes
            As in the manifests.
        read_snapshot : Snapshot, optional
            The snapshot in which they were chosen, if a later change of them is a conflict.

        Raises
        ------
        ConflictError
            The partitions have other rows than in `read_snapshot`; nothing became visible.
        NotFoundError, StorageError, OutcomeUnknownError
            As :meth:`commit`.
        """
        plan = OverwritePlan.of_drop(self._context, partitions, read_snapshot=read_snapshot)
        return self._publish(plan, (), user=drop_user(self._context), expires_partitions=False)

    def expire_partitions_if_due(self, *, identifier: int = BATCH_IDENTIFIER) -> Snapshot | None:
        """Drop partitions that are too old, if it is time to look; a failure is logged.

        Each drop is a commit of its own user, so it is no step of the stream whose commit it
        follows.

        Returns
        -------
        Snapshot or None
            The newest drop's.
        """
        context = self._context
        snapshot = None
        try:
            plan = due_plan(context, identifier=identifier)
            for batch in () if plan is None else plan.batches:
                read_snapshot = None if plan is None else plan.checked_snapshot
                drop = OverwritePlan.of_drop(context, batch, read_snapshot=read_snapshot)
                own = DuplicateCheck(
                    context,
                    user=drop_user(context),
                    identifier=BATCH_IDENTIFIER,
                    base_snapshot_id=None,
                    own_files=OwnFiles.of((), ()),
                    step=None,
                )
                snapshot = Publisher(context, own).publish(drop).snapshot or snapshot
        except TidelakeError as error:
            _LOG.warning("Table %s: old partitions could not expire: %s", context.table, error)
        return snapshot

    def compact_manifests(self, *, user: str) -> Snapshot | None:
        """Merge the newest snapshot's manifests, without entries that cancel out.

        Returns
        -------
        Snapshot or None
            A COMPACT snapshot; None where there is one manifest, or only large ones without
            DELETEs.

        Raises
        ------
        ConflictError, NotFoundError, StorageError, OutcomeUnknownError
            As :meth:`commit`.
        """
        done = self._publish(ManifestMergePlan(self._context), (), user=user)
        return done.snapshots[0] if done.snapshots else None

    def analyze(self, statistics: str, *, user: str) -> Snapshot:
        """Give the table a file of statistics, in an ANALYZE snapshot.

        Parameters
        ----------
        statistics : str
            The file's name; it is written already.

        Raises
        ------
        ConflictError, NotFoundError, StorageError, OutcomeUnknownError
            As :meth:`commit`.
        """
        (snapshot,) = self._publish(StatisticsPlan(statistics), (), user=user)
        return snapshot

    def in_turns(
        self, user: str, work: Callable[[], T], *, kinds: Collection[str], tries: int
    ) -> T:
        """Repeat work until no other commit wins; see :func:`tidelake.commit.fairness.in_turns`."""
        return in_turns(self._context, user, work, kinds=kinds, tries=tries)

    def filter_committed(self, user: str, identifiers: Sequence[int]) -> list[int]:
        """The identifiers of a user that are not committed yet, for a restart.

        A user's identifiers rise, so all up to that of the user's newest snapshot are committed.
        """
        last = last_commit(self._context.log, user, self._context.env.executor)
        return [i for i in identifiers if last is None or i > last.commit_identifier]

    def committed_batch(
        self, user: str, identifier: int, step: StreamStep
    ) -> tuple[bool, Snapshot | None]:
        """Whether a batch of a stream is committed; see :mod:`tidelake.commit.stream_step`."""
        return committed_batch(self._context, user, identifier, step)

    def uncompacted_buckets(self, user: str, identifier: int) -> list[BucketId]:
        """Buckets where the user's newest commit added files to level 0 and did not compact them.

        Returns
        -------
        list of BucketId
            Empty where the newest commit is another, or was compacted. If its compaction was
            dropped in some buckets only, it counts as compacted.
        """
        context = self._context
        last = last_commit(context.log, user, context.env.executor)
        if last is None or last.commit_identifier != identifier:
            return []
        if last.commit_kind is CommitKind.COMPACT:
            return []
        delta = context.delta(last)
        new = (delta["kind"] == FileKind.ADD) & (delta["level"] == 0) & (delta["bucket"] >= 0)
        return sorted({e.bucket_id for e in delta.take(new).to_entries()})

    def _check(self, messages: Sequence[CommitMessage], user: str) -> None:
        validate_name(user, "user")
        check_messages(messages, table=self._context.table)

    def _publish(
        self,
        plan: CommitPlan,
        messages: Sequence[CommitMessage],
        *,
        user: str,
        identifier: int = BATCH_IDENTIFIER,
        base_snapshot_id: int | None = None,
        all_or_nothing: bool = False,
        step: StreamStep | None = None,
        expires_partitions: bool = True,
    ) -> Committed:
        """Publish a plan, then the compactions of its messages; let what is old expire."""
        context = self._context
        todo = compactions(messages)
        duplicates = DuplicateCheck(
            context,
            user=user,
            identifier=identifier,
            base_snapshot_id=base_snapshot_id,
            own_files=OwnFiles.of(messages, todo),
            step=step,
        )
        data = Publisher(context, duplicates).publish(plan)
        published, dropped = [data.snapshot], tuple[TidelakeError, ...]()
        if todo:
            compaction_plan = CompactionPlan(context, todo, all_or_nothing)
            try:
                compacted = Publisher(context, duplicates).publish(compaction_plan)
            except TidelakeError as error:
                if data.snapshot is None:
                    raise
                dropped = (error,)  # the rows are committed: only the compaction failed
            else:
                published.append(compacted.snapshot)
                dropped = compacted.planned.dropped_compactions
        snapshots = tuple(snapshot for snapshot in published if snapshot is not None)
        if snapshots and expires_partitions:
            is_batch = identifier == BATCH_IDENTIFIER and snapshots[0].commit_kind in _OF_WRITERS
            keep_tags(context, snapshots[-1], is_batch=is_batch)
        if snapshots and not context.options.get(declared.WRITE_ONLY):
            retained_count = context.options.get(declared.SNAPSHOT_NUM_RETAINED_MIN)
            dropped_in = None
            if expires_partitions:
                dropped_in = self.expire_partitions_if_due(identifier=identifier)
            sync_before_expiry(context, retained_count=retained_count)
            expire_quietly(context, dropped_in or snapshots[-1])
        if snapshots:
            show_partitions_quietly(context, snapshots)
            sync_quietly(context)
        return Committed(snapshots, dropped, data.planned.interleaved, data.replayed)
