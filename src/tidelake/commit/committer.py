"""Makes what writers wrote visible: the one place where a table's state changes.

1. The messages are taken apart: new files are one snapshot (APPEND), compactions a second one
   (COMPACT) of the same user and identifier.
2. New files are only added, so writers never conflict: two jobs on one bucket both succeed and all
   rows of both are there. The committer says where sequence numbers interleave.
3. Each bucket's compaction is checked against the newest snapshot
   (:mod:`tidelake.commit.conflicts.file_conflicts`). One that no longer fits is left out and
   reported; the data does not depend on it.
4. OVERWRITE deletes, at each attempt, what is live in the chosen partitions in the very snapshot it
   builds on, and adds the new files.
5. Rows of an append table that are deleted or updated are a snapshot OVERWRITE: deletion vectors
   mark the old ones, or the files that held them go; new files hold what takes their place. That
   files and vectors are those of then is checked against each base
   (:mod:`tidelake.commit.conflicts.deletion_plan`). Rows of a primary-key table that were made from
   older ones ask that nobody wrote to their keys since
   (:mod:`tidelake.commit.conflicts.concurrent_changes`).
6. Buckets of a table with dynamic ones were chosen by an index; that it still holds is checked
   against each base (:mod:`tidelake.commit.conflicts.index_plan`).
7. Publishing, races, and outcomes in doubt: :mod:`tidelake.commit.publisher`.
8. After a commit old snapshots expire (:mod:`tidelake.commit.expiry`), unless the table is
   ``write-only``.

Once the data is committed, no failure of compaction or expiry after it is raised: an error from
:meth:`Committer.commit` means that no row became visible. Source: Paimon's ``FileStoreCommitImpl``
(1.3.1), with the duplicate check on every attempt and rule 4 of the conflict check added.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from tidelake.commit.conflicts.compaction_fit import Fitting, fitting_compactions, is_of_messages
from tidelake.commit.conflicts.concurrent_changes import (
    EmptyTable,
    KeptHistory,
    KeptRows,
    check_counts_kept,
    check_unmoved,
    interleaved_places,
)
from tidelake.commit.conflicts.deletion_plan import PlacedDeletions, check_deletions, with_deletions
from tidelake.commit.conflicts.index_plan import IndexPlan
from tidelake.commit.conflicts.live_buckets import live_in
from tidelake.commit.conflicts.overwrite import (
    DYNAMIC,
    chosen_partitions,
    replaced_files,
    rewritten_conflict,
    rows_in,
)
from tidelake.commit.context import CommitContext
from tidelake.commit.delta import (
    NO_DELETIONS,
    Committed,
    Delta,
    added_entries,
    check_messages,
    compactions,
    new_delta,
)
from tidelake.commit.expiry import expire_quietly
from tidelake.commit.idempotence import OwnCommits, last_commit
from tidelake.commit.metadata_writer import NewMetadata
from tidelake.commit.publisher import IndexRule, Publisher, Request
from tidelake.commit.turns import Turns, in_turns
from tidelake.errors import InvalidInputError, TidelakeError
from tidelake.fileio.name import validate_name
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.data_file import CommitMessage, FileKind
from tidelake.metadata.index.hash_index import read_hash_index
from tidelake.metadata.index.index_manifest import index_entries
from tidelake.metadata.index_entry import IndexEntry
from tidelake.metadata.log.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.options import declared
from tidelake.types.predicate import Predicate

__all__ = ["Committer"]

T = TypeVar("T")


class Committer:
    """Commits to one table. Runs on the driver; not thread-safe.

    Parameters
    ----------
    context : CommitContext
        The table.
    """

    def __init__(self, context: CommitContext) -> None:
        self._context = context

    def commit(
        self,
        messages: Sequence[CommitMessage],
        *,
        user: str,
        identifier: int = BATCH_IDENTIFIER,
        kind: CommitKind | None = None,
        properties: Mapping[str, str] | None = None,
        base_snapshot_id: int | None = None,
        all_or_nothing: bool = False,
        read_snapshot: Snapshot | EmptyTable | None = None,
    ) -> Committed:
        """Make the messages' files visible.

        Parameters
        ----------
        messages : sequence of CommitMessage
            What the writers did, each once.
        user, identifier
            With an identifier, the commit takes effect at most once however often it is tried; a
            user's identifiers rise. Without one, only attempts of this call are told apart, and
            calls with the same messages and a `base_snapshot_id`.
        kind : CommitKind, optional
            COMPACT says that there are no new files.
        properties : mapping, optional
            Free texts for the snapshots.
        base_snapshot_id : int, optional
            The snapshot that the writers began from; 0 for the empty table.
        all_or_nothing : bool
            Whether the compactions hang together, so that no one may give way alone.
        read_snapshot : Snapshot or EmptyTable, optional
            Of a primary-key table: the new rows were made from those of their keys in this
            snapshot, so that what others wrote to these keys since would be lost.

        Returns
        -------
        Committed
            The snapshots, and the compactions that gave way.

        Raises
        ------
        InvalidInputError
            The messages cannot be one commit.
        ConflictError
            All attempts lost their race, the table was rolled back to before what the writers
            began from, a partition has another number of buckets now, files, deletion vectors or
            rows that the writers went by were changed, or one of compactions that hang together
            does not fit; nothing became visible.
        NotFoundError
            The table was dropped, and perhaps created anew; nothing became visible.
        StorageError
            The storage failed; nothing became visible.
        OutcomeUnknownError
            The storage failed while publishing: no data file may be deleted.
        """
        context = self._context
        delta = new_delta(messages)
        new_files = added_entries(messages)
        if kind not in {None, CommitKind.APPEND, CommitKind.COMPACT} or (
            kind is CommitKind.COMPACT and delta.entries.num_rows
        ):
            message = (
                f"Commit to table '{context.table}': kind {kind} does not go with these files."
                " Leave kind= out, and it follows from them."
            )
            raise InvalidInputError(message, kind="commit_kind", table=context.table)
        interleaved: tuple[BucketId, ...] = ()
        history = KeptHistory(context, new_files, seen_id=base_snapshot_id)
        old_rows = None if read_snapshot is None else KeptRows(context, new_files, read_snapshot)

        def plan(base: Snapshot | None) -> Delta:
            nonlocal interleaved
            history.check(base)
            check_counts_kept(context, new_files, base, seen_id=base_snapshot_id)
            if old_rows is not None:
                old_rows.check(base)
            interleaved = interleaved_places(context, new_files, base, seen_id=base_snapshot_id)
            return delta

        run = self._run(
            messages,
            user,
            identifier,
            properties,
            base_snapshot_id,
            all_or_nothing=all_or_nothing,
        )
        changes_rows = any(m.changes_rows for m in messages)
        data_kind = CommitKind.OVERWRITE if changes_rows else CommitKind.APPEND
        done = run(data_kind, plan, self._index_rule(messages))
        self._expire(done.snapshots)
        return Committed(done.snapshots, done.dropped_compactions, interleaved, done.replayed)

    def overwrite(
        self,
        messages: Sequence[CommitMessage],
        *,
        user: str,
        identifier: int = BATCH_IDENTIFIER,
        partitions: Predicate | str | None = None,
        properties: Mapping[str, str] | None = None,
        base_snapshot_id: int | None = None,
        read_snapshot: Snapshot | None = None,
    ) -> Committed:
        """Replace what is in some partitions by the messages' files.

        Parameters
        ----------
        partitions : Predicate, 'dynamic' or None
            A bound predicate on partition columns; the partitions that there are new files for; or
            the whole table.
        messages, user, identifier, properties, base_snapshot_id
            As in :meth:`commit`.
        read_snapshot : Snapshot, optional
            The new files were made from these partitions' rows in this snapshot: what others wrote
            there since would be lost.

        Raises
        ------
        InvalidInputError
            A new file lies in a partition that is not overwritten.
        ConflictError
            The partitions hold other files, or other rows of them, than in `read_snapshot`; nothing
            became visible.

        Notes
        -----
        An overwrite has no changelog, as in Java: whoever follows changes sees nothing of it.

        The postpone bucket is part of a partition only where the table writes to it (``bucket`` is
        -2): rows that wait there outlive a partition's change to another number of buckets.
        """
        context = self._context
        new_files = added_entries(messages)
        delta = Delta(new_files)
        chosen = chosen_partitions(context, partitions, new_files)
        if partitions == DYNAMIC and chosen is not None and not new_files.num_rows:
            return Committed()
        seen = None
        if read_snapshot is not None:
            seen = rows_in(context, read_snapshot, replaced_files(context, read_snapshot, chosen))

        def plan(base: Snapshot | None) -> Delta:
            if base is None:
                return delta
            live = replaced_files(context, base, chosen)
            if seen is not None and rows_in(context, base, live) != seen:
                raise rewritten_conflict(context.table)
            if not live.num_rows:
                return delta
            return Delta(EntryTable.concat([live.with_kind(FileKind.DELETE), new_files]))

        def is_dropped(partition: bytes) -> bool:
            return chosen is None or bool(chosen([partition])[0])

        index = self._index_plan(messages)
        run = self._run(messages, user, identifier, properties, base_snapshot_id)
        done = run(
            CommitKind.OVERWRITE,
            plan,
            lambda _, before, __: index.replaced(before, is_dropped),
        )
        self._expire(done.snapshots)
        return done

    def compact_manifests(self, *, user: str) -> Snapshot | None:
        """Merge the newest snapshot's manifests, without what cancels out, in a COMPACT snapshot.

        Returns
        -------
        Snapshot or None
            None where there is one manifest, or large ones without DELETEs only.

        Raises
        ------
        ConflictError, NotFoundError, StorageError, OutcomeUnknownError
            As of :meth:`commit`.
        """
        return self._publish_alone(user, CommitKind.COMPACT, merges_manifests=True)

    def analyze(self, statistics: str, *, user: str) -> Snapshot:
        """Let the table have a file of statistics, in an ANALYZE snapshot.

        Parameters
        ----------
        statistics : str
            The file's name; it is written already.
        user : str
            The commit user, unique.

        Raises
        ------
        ConflictError, NotFoundError, StorageError, OutcomeUnknownError
            As of :meth:`commit`.
        """
        snapshot = self._publish_alone(user, CommitKind.ANALYZE, statistics=statistics)
        assert snapshot is not None, "statistics are something to commit"
        return snapshot

    def _publish_alone(
        self,
        user: str,
        kind: CommitKind,
        *,
        statistics: str | None = None,
        merges_manifests: bool = False,
    ) -> Snapshot | None:
        """Make a snapshot that changes no file of the table."""
        context = self._context
        list_names: set[str] = set()
        own = OwnCommits(
            context.log,
            user=user,
            identifier=BATCH_IDENTIFIER,
            base_snapshot_id=None,
            executor=context.env.executor,
            names_ours=lambda s: s.delta_manifest_list in list_names,
        )
        request = Request(
            user,
            BATCH_IDENTIFIER,
            kind,
            lambda _: new_delta([]),
            statistics=statistics,
            merges_manifests=merges_manifests,
        )
        snapshot, _ = self._publisher(own, list_names).publish(request)
        self._expire(() if snapshot is None else (snapshot,))
        return snapshot

    def _expire(self, snapshots: Sequence[Snapshot]) -> None:
        """Let what has expired go, after a commit that made snapshots."""
        if snapshots and not self._context.options.get(declared.WRITE_ONLY):
            expire_quietly(self._context, snapshots[-1])

    def live_files(
        self, snapshot: Snapshot, partition: bytes | None = None, bucket: int | None = None
    ) -> EntryTable:
        """The live files of a snapshot, or of one of its partitions or buckets.

        Parameters
        ----------
        snapshot : Snapshot
            The version.
        partition : bytes, optional
            Serialized BinaryRow of the partition.
        bucket : int, optional
            The bucket.

        Returns
        -------
        EntryTable
            One ADD entry per file.
        """
        return live_in(
            self._context,
            snapshot,
            partitions=None if partition is None else frozenset([partition]),
            buckets=None if bucket is None else frozenset([bucket]),
        )

    def in_turns(
        self, user: str, work: Callable[[], T], *, kinds: Collection[str], tries: int
    ) -> T:
        """Do work until no other commit was faster; see :func:`tidelake.commit.turns.in_turns`."""
        return in_turns(self._context, user, work, kinds=kinds, tries=tries)

    def filter_committed(self, user: str, identifiers: Sequence[int]) -> list[int]:
        """Those of a user's identifiers that are not committed yet, for a restart.

        A user's identifiers rise, so all up to that of the user's newest snapshot are done.
        """
        last = last_commit(self._context.log, user, self._context.env.executor)
        return [i for i in identifiers if last is None or i > last.commit_identifier]

    def uncompacted_buckets(self, user: str, identifier: int) -> list[BucketId]:
        """Where the user's newest commit added files to level 0 that it did not compact.

        Returns
        -------
        list of (bytes, int)
            Partitions and buckets. None where the newest commit is another, or was compacted; where
            its compaction gave way in some buckets and not in others, it counts as compacted.
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

    def _run(
        self,
        messages: Sequence[CommitMessage],
        user: str,
        identifier: int,
        properties: Mapping[str, str] | None,
        base_snapshot_id: int | None,
        *,
        all_or_nothing: bool = False,
    ) -> Callable[[CommitKind, Callable[[Snapshot | None], Delta], IndexRule], Committed]:
        """What commits the data as one kind, then the compactions."""
        context = self._context
        validate_name(user, "user")
        check_messages(messages, table=context.table)
        todo = compactions(messages)
        list_names: set[str] = set()
        own = OwnCommits(
            context.log,
            user=user,
            identifier=identifier,
            base_snapshot_id=base_snapshot_id,
            executor=context.env.executor,
            names_ours=lambda s: (
                s.delta_manifest_list in list_names or is_of_messages(context, s, messages, todo)
            ),
        )

        def run(
            kind: CommitKind, plan: Callable[[Snapshot | None], Delta], index: IndexRule
        ) -> Committed:
            changes_rows = any(m.changes_rows for m in messages)
            request = Request(
                user, identifier, kind, plan, properties, index, with_index_alone=changes_rows
            )
            data, replayed = self._publisher(own, list_names).publish(request)
            if not todo:
                return Committed(() if data is None else (data,), replayed=replayed)
            gave_way: list[TidelakeError] = []
            fitting: Fitting | None = None

            def plan_compaction(base: Snapshot | None) -> Delta:
                nonlocal fitting
                fitting = fitting_compactions(
                    context, todo, base, gave_way, all_or_nothing=all_or_nothing
                )
                return fitting.delta

            request = Request(
                user,
                identifier,
                CommitKind.COMPACT,
                plan_compaction,
                properties,
                lambda _, before, __: with_deletions(before, fitting.deletions if fitting else ()),
            )
            compacted = None
            try:
                compacted, _ = self._publisher(own, list_names).publish(request)
            except TidelakeError as error:
                if data is None:
                    raise
                gave_way[:] = [error]  # the data is committed: only the compaction failed
            snapshots = tuple(s for s in (data, compacted) if s is not None)
            return Committed(snapshots, tuple(gave_way), replayed=replayed)

        return run

    def _index_plan(self, messages: Sequence[CommitMessage]) -> IndexPlan:
        context = self._context

        def entries_of(snapshot_id: int) -> Sequence[IndexEntry]:
            snapshot = context.log.load(snapshot_id)
            return index_entries(context.fileio, context.paths, snapshot, context.manifests)

        return IndexPlan(
            messages,
            entries_of=entries_of,
            read=lambda entry: read_hash_index(context.fileio, context.paths, entry),
            table=context.table,
        )

    def _index_rule(self, messages: Sequence[CommitMessage]) -> IndexRule:
        """What adding rows does to the index files."""
        context = self._context
        new_files = added_entries(messages)
        index = self._index_plan(messages)
        deletions = [
            PlacedDeletions(
                m.partition,
                m.bucket,
                m.deletions or NO_DELETIONS,
                frozenset(f.file_name for f in m.removed_files),
            )
            for m in messages
            if m.changes_rows
        ]

        def rule(
            base: Snapshot | None, before: Sequence[IndexEntry], out: NewMetadata
        ) -> Sequence[IndexEntry] | None:
            self._check_deletions(deletions, base, before)
            after = hashes(base, before, out)
            marked = with_deletions(before if after is None else after, deletions)
            return after if marked is None else marked

        def hashes(
            base: Snapshot | None, before: Sequence[IndexEntry], out: NewMetadata
        ) -> Sequence[IndexEntry] | None:
            if context.schema.keys_may_move:
                check_unmoved(context, new_files, base, seen_ids=index.base_ids)
                return None
            return index.added_to(before, base.id if base else 0, out.write_index_file)

        return rule

    def _check_deletions(
        self,
        deletions: Sequence[PlacedDeletions],
        base: Snapshot | None,
        before: Sequence[IndexEntry],
    ) -> None:
        context = self._context
        if not deletions:
            return
        live: dict[BucketId, set[str]] = {}
        if base is not None:
            partitions = frozenset(p.partition for p in deletions)
            buckets = frozenset(p.bucket for p in deletions)
            files = live_in(context, base, partitions=partitions, buckets=buckets)
            for partition_id, bucket, name in zip(
                files["partition_id"].tolist(),
                files["bucket"].tolist(),
                files["file_name"].to_pylist(),
                strict=True,
            ):
                place = BucketId(files.partitions[partition_id], bucket)
                live.setdefault(place, set()).add(name)
        for placed in deletions:
            names = live.get(placed.bucket_id, set())
            check_deletions(placed, before, names, table=context.table)

    def _publisher(self, own: OwnCommits, list_names: set[str]) -> Publisher:
        context = self._context
        files = NewMetadata(
            context.fileio,
            context.paths,
            options=context.options,
            manifests=context.manifests,
            uuid=context.env.ids.uuid(),
            list_names=list_names,
        )
        return Publisher(
            context.fileio,
            context.paths,
            schema=context.schema,
            options=context.options,
            env=context.env,
            manifests=context.manifests,
            own=own,
            files=files,
            turns=Turns(context),
            table=context.table,
        )
