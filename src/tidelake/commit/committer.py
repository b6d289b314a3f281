"""Makes what writers wrote visible: the one place where a table's state changes.

1. The messages are taken apart: new files are one snapshot (APPEND), compactions a second one
   (COMPACT) of the same user and identifier.
2. New files are only added, so writers never conflict: two jobs on one bucket both succeed and all
   rows of both are there. The committer says where sequence numbers interleave.
3. Each bucket's compaction is checked against the newest snapshot
   (:mod:`tidelake.commit.conflict`). One that no longer fits is left out and reported; the data
   does not depend on it.
4. OVERWRITE deletes, at each attempt, what is live in the chosen partitions in the very snapshot it
   builds on, and adds the new files.
5. Buckets of a table with dynamic ones were chosen by an index; that it still holds is checked
   against each base (:mod:`tidelake.commit.index_plan`).
6. Publishing, races, and outcomes in doubt: :mod:`tidelake.commit.publish`.

Once the data is committed, no failure of the compaction after it is raised: an error from
:meth:`Committer.commit` means that no row became visible. Source: Paimon's ``FileStoreCommitImpl``
(1.3.1), with the duplicate check on every attempt and rule 4 of the conflict check added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tidelake.commit.changes import (
    Committed,
    Compaction,
    added_entries,
    check_messages,
    compactions,
)
from tidelake.commit.conflict import check_bucket_counts, check_compaction
from tidelake.commit.index_plan import IndexPlan, assignment_conflict
from tidelake.commit.new_metadata import NewMetadata
from tidelake.commit.own_commits import OwnCommits, last_identifier
from tidelake.commit.publish import IndexRule, Publisher, Request
from tidelake.errors import ConflictError, InvalidInputError, NotFoundError, TidelakeError
from tidelake.fileio import FileIO
from tidelake.fileio.name import validate_name
from tidelake.metadata.data_file import CommitMessage, FileKind, ManifestEntry
from tidelake.metadata.entry_table import EntryTable
from tidelake.metadata.hash_index import read_hash_index
from tidelake.metadata.index_entry import IndexEntry
from tidelake.metadata.index_manifest import index_entries
from tidelake.metadata.live_set import delta_entries, live_entries
from tidelake.metadata.manifest import ManifestCache, ManifestFile
from tidelake.metadata.paths import POSTPONE_BUCKET, TablePaths
from tidelake.metadata.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot, SnapshotLog
from tidelake.options import Options, declared
from tidelake.scan.prune import matching_partitions
from tidelake.telemetry import Env
from tidelake.types import TableSchema
from tidelake.types.predicate import Predicate

__all__ = ["Committer"]

INTERLEAVED_SNAPSHOTS_MAX = 100
"""Snapshots since the writer's base that are looked through for interleaved sequence numbers."""

DYNAMIC = "dynamic"

Place = tuple[bytes, int]


class Committer:
    """Commits to one table. Runs on the driver; not thread-safe.

    Parameters
    ----------
    fileio : FileIO
        The storage.
    paths : TablePaths
        The table's paths.
    schema : TableSchema
        The schema that the table was opened with: a commit to another table that has its place now
        is refused.
    options : Options
        The table's options.
    env : Env
        Clock, randomness, ids.
    manifests : ManifestCache
        Decoded manifests.
    table : str
        The table's name, for messages.
    """

    def __init__(
        self,
        fileio: FileIO,
        paths: TablePaths,
        *,
        schema: TableSchema,
        options: Options,
        env: Env,
        manifests: ManifestCache,
        table: str,
    ) -> None:
        self._fileio = fileio
        self._paths = paths
        self._options = options
        self._env = env
        self._manifests = manifests
        self._table = table
        self._log = SnapshotLog(fileio, paths)
        self._schema = schema

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

        Returns
        -------
        Committed
            The snapshots, and the compactions that gave way.

        Raises
        ------
        InvalidInputError
            The messages cannot be one commit.
        ConflictError
            All attempts lost their race, a partition has another number of buckets now, or one of
            compactions that hang together does not fit; nothing became visible.
        NotFoundError
            The table was dropped, and perhaps created anew; nothing became visible.
        StorageError
            The storage failed; nothing became visible.
        OutcomeUnknownError
            The storage failed while publishing: no data file may be deleted.
        """
        new_files = added_entries(messages)
        if kind not in {None, CommitKind.APPEND, CommitKind.COMPACT} or (
            kind is CommitKind.COMPACT and new_files.num_rows
        ):
            message = (
                f"Commit to table '{self._table}': kind {kind} does not go with these files. Leave"
                " kind= out, and it follows from them."
            )
            raise InvalidInputError(message, kind="commit_kind", table=self._table)
        interleaved: tuple[Place, ...] = ()

        def plan(base: Snapshot | None) -> EntryTable:
            nonlocal interleaved
            if base is not None:
                self._check_bucket_counts(new_files, base, base_snapshot_id)
            interleaved = self._interleaved(new_files, base, base_snapshot_id)
            return new_files

        run = self._run(
            messages,
            user,
            identifier,
            properties,
            base_snapshot_id,
            all_or_nothing=all_or_nothing,
        )
        done = run(CommitKind.APPEND, plan, self._index_rule(messages))
        return Committed(done.snapshots, done.gave_way, interleaved, done.replayed)

    def overwrite(
        self,
        messages: Sequence[CommitMessage],
        *,
        user: str,
        identifier: int = BATCH_IDENTIFIER,
        partitions: Predicate | str | None = None,
        properties: Mapping[str, str] | None = None,
        base_snapshot_id: int | None = None,
        made_from: Snapshot | None = None,
    ) -> Committed:
        """Replace what is in some partitions by the messages' files.

        Parameters
        ----------
        partitions : Predicate, 'dynamic' or None
            A bound predicate on partition columns; the partitions that there are new files for; or
            the whole table.
        messages, user, identifier, properties, base_snapshot_id
            As in :meth:`commit`.
        made_from : Snapshot, optional
            The new files were made from these partitions' rows in this snapshot: what others wrote
            there since would be lost.

        Raises
        ------
        InvalidInputError
            A new file lies in a partition that is not overwritten.
        ConflictError
            The partitions hold other files than in `made_from`; nothing became visible.

        Notes
        -----
        The postpone bucket is part of a partition only where the table writes to it (``bucket`` is
        -2): rows that wait there outlive a partition's change to another number of buckets.
        """
        new_files = added_entries(messages)
        chosen = self._chosen(partitions, new_files)
        if partitions == DYNAMIC and chosen is not None and not new_files.num_rows:
            return Committed()
        seen = None if made_from is None else _names(self._replaced(made_from, chosen))

        def plan(base: Snapshot | None) -> EntryTable:
            if base is None:
                return new_files
            live = self._replaced(base, chosen)
            if seen is not None and _names(live) != seen:
                raise self._changed_meanwhile()
            if not live.num_rows:
                return new_files
            return EntryTable.concat([live.with_kind(FileKind.DELETE), new_files])

        def is_dropped(partition: bytes) -> bool:
            return chosen is None or bool(chosen([partition])[0])

        index = self._index_plan(messages)
        run = self._run(messages, user, identifier, properties, base_snapshot_id)
        return run(
            CommitKind.OVERWRITE,
            plan,
            lambda _, before, __: index.replaced(before, is_dropped),
        )

    def _replaced(
        self, snapshot: Snapshot, chosen: Callable[[Sequence[bytes]], np.ndarray] | None
    ) -> EntryTable:
        """The live files that an overwrite of the chosen partitions deletes."""
        live = self.live_files(snapshot)
        if self._options.get(declared.BUCKET) != POSTPONE_BUCKET:
            live = live.take(live["bucket"] >= 0)
        if chosen is None:
            return live
        return live.take(chosen(live.partitions)[live["partition_id"]])

    def _changed_meanwhile(self) -> ConflictError:
        message = (
            f"Table '{self._table}' was changed in the partitions that were being rewritten:"
            " nothing was committed, so nothing is lost. Do it again."
        )
        return ConflictError(message, kind="rewritten_changed", table=self._table)

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
        buckets = None if bucket is None else frozenset([bucket])
        partitions = None if partition is None else frozenset([partition])
        return live_entries(
            self._fileio,
            self._paths,
            snapshot,
            self._manifests,
            keep=_may_hold(buckets),
            rows=_rows_in(partitions, buckets) if partitions or buckets else None,
        )

    def filter_committed(self, user: str, identifiers: Sequence[int]) -> list[int]:
        """Those of a user's identifiers that are not committed yet, for a restart.

        A user's identifiers rise, so all up to that of the user's newest snapshot are done.
        """
        last = last_identifier(self._log, user, self._env.executor)
        return [i for i in identifiers if last is None or i > last]

    def _run(
        self,
        messages: Sequence[CommitMessage],
        user: str,
        identifier: int,
        properties: Mapping[str, str] | None,
        base_snapshot_id: int | None,
        *,
        all_or_nothing: bool = False,
    ) -> Callable[[CommitKind, Callable[[Snapshot | None], EntryTable], IndexRule], Committed]:
        """What commits the data as one kind, then the compactions."""
        validate_name(user, "user")
        check_messages(messages, table=self._table)
        todo = compactions(messages)
        list_names: set[str] = set()
        own = OwnCommits(
            self._log,
            user=user,
            identifier=identifier,
            base_snapshot_id=base_snapshot_id,
            executor=self._env.executor,
            names_ours=lambda s: (
                s.delta_manifest_list in list_names or self._names_any(s, messages, todo)
            ),
        )

        def run(
            kind: CommitKind, plan: Callable[[Snapshot | None], EntryTable], index: IndexRule
        ) -> Committed:
            data, replayed = self._publisher(own, list_names).publish(
                Request(user, identifier, kind, plan, properties, index)
            )
            if not todo:
                return Committed(() if data is None else (data,), replayed=replayed)
            gave_way: list[TidelakeError] = []
            request = Request(
                user,
                identifier,
                CommitKind.COMPACT,
                lambda base: self._compacted(todo, base, gave_way, all_or_nothing=all_or_nothing),
                properties,
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
        def entries_of(snapshot_id: int) -> Sequence[IndexEntry]:
            snapshot = self._log.load(snapshot_id)
            return index_entries(self._fileio, self._paths, snapshot, self._manifests)

        return IndexPlan(
            messages,
            entries_of=entries_of,
            read=lambda entry: read_hash_index(self._fileio, self._paths, entry),
            table=self._table,
        )

    def _index_rule(self, messages: Sequence[CommitMessage]) -> IndexRule:
        """What adding rows does to the index files."""
        index = self._index_plan(messages)

        def rule(
            base: Snapshot | None, before: Sequence[IndexEntry], out: NewMetadata
        ) -> Sequence[IndexEntry] | None:
            base_id = base.id if base else 0
            if self._schema.keys_may_move:
                self._check_unmoved(index.base_ids, base_id)
                return None
            return index.added_to(before, base_id, out.write_index_file)

        return rule

    def _check_unmoved(self, base_ids: frozenset[int], base_id: int) -> None:
        """See that nobody added or removed rows since keys that may move were looked for."""
        for seen_id in base_ids:
            for snapshot_id in range(min(seen_id, base_id) + 1, max(seen_id, base_id) + 1):
                try:
                    moved = self._log.load(snapshot_id).commit_kind is not CommitKind.COMPACT
                except NotFoundError:
                    moved = True
                if moved:
                    why = f"snapshot {snapshot_id} may have moved its keys to another partition"
                    raise assignment_conflict(self._table, why)

    def _publisher(self, own: OwnCommits, list_names: set[str]) -> Publisher:
        files = NewMetadata(
            self._fileio,
            self._paths,
            options=self._options,
            manifests=self._manifests,
            uuid=self._env.ids.uuid(),
            list_names=list_names,
        )
        return Publisher(
            self._fileio,
            self._paths,
            schema=self._schema,
            options=self._options,
            env=self._env,
            manifests=self._manifests,
            own=own,
            files=files,
            table=self._table,
        )

    def _names_any(
        self, snapshot: Snapshot, messages: Sequence[CommitMessage], todo: Sequence[Compaction]
    ) -> bool:
        """Whether a snapshot adds a new file of the messages or removes one that they compacted.

        A file is added once and removed from its level once, so that one of them tells.
        """
        if snapshot.commit_kind is CommitKind.COMPACT:
            wanted, names = FileKind.DELETE, {f.file_name for c in todo for f in c.before}
        else:
            wanted, names = FileKind.ADD, {f.file_name for m in messages for f in m.new_files}
        delta = delta_entries(self._fileio, self._paths, snapshot, self._manifests)
        found = delta.take(delta["kind"] == wanted)["file_name"].to_pylist()
        return not names.isdisjoint(found)

    def _compacted(
        self,
        todo: Sequence[Compaction],
        base: Snapshot | None,
        gave_way: list[TidelakeError],
        *,
        all_or_nothing: bool,
    ) -> EntryTable:
        """Entries of the compactions that fit the base; the errors of the others in `gave_way`."""
        gave_way.clear()
        live = self._live_by_place(todo, base)
        schema = self._schema
        types = [schema.field(k).type for k in schema.trimmed_primary_keys]
        entries: list[ManifestEntry] = []
        for compaction in todo:
            own = live.get(compaction.place, [])
            try:
                check_compaction(compaction, own, key_types=types, table=self._table)
            except ConflictError as error:
                if all_or_nothing:
                    raise
                gave_way.append(error)
            else:
                entries += compaction.removed_entries()
                entries += compaction.added_entries()
        return EntryTable.of(entries)

    def _live_by_place(
        self, todo: Sequence[Compaction], base: Snapshot | None
    ) -> dict[Place, list[ManifestEntry]]:
        if base is None:
            return {}
        partitions = frozenset(c.partition for c in todo)
        buckets = frozenset(c.bucket for c in todo)
        live = live_entries(
            self._fileio,
            self._paths,
            base,
            self._manifests,
            keep=_may_hold(buckets),
            rows=_rows_in(partitions, buckets),
        )
        by_place: dict[Place, list[ManifestEntry]] = {}
        for entry in live.to_entries():
            by_place.setdefault((entry.partition, entry.bucket), []).append(entry)
        return by_place

    def _check_bucket_counts(
        self, new_files: EntryTable, base: Snapshot, base_snapshot_id: int | None
    ) -> None:
        """Refuse files of fixed buckets in a partition that has another number of them by now.

        What the writer's own base held was checked when it was opened, so that what came since
        tells it; where that is not known or gone, the partitions' live files do.
        """
        fixed = new_files.take(new_files["total_buckets"] > 0)
        if not fixed.num_rows or base_snapshot_id == base.id:
            return
        since = range((base_snapshot_id or 0) + 1, base.id + 1)
        if base_snapshot_id is None or len(since) > INTERLEAVED_SNAPSHOTS_MAX:
            check_bucket_counts(fixed, self._live_in(fixed.partitions, base), table=self._table)
            return
        for snapshot_id in since:
            try:
                snapshot = self._log.load(snapshot_id)
                there = delta_entries(self._fileio, self._paths, snapshot, self._manifests)
            except NotFoundError:  # it has expired
                there = self._live_in(fixed.partitions, base)
            check_bucket_counts(fixed, there, table=self._table)

    def _live_in(self, partitions: Sequence[bytes], snapshot: Snapshot) -> EntryTable:
        return live_entries(
            self._fileio,
            self._paths,
            snapshot,
            self._manifests,
            rows=_rows_in(frozenset(partitions), None),
        )

    def _interleaved(
        self, new_files: EntryTable, base: Snapshot | None, base_snapshot_id: int | None
    ) -> tuple[Place, ...]:
        """Buckets to which others added rows, no older than ours, since the writer's base."""
        if base is None or base_snapshot_id is None or base.id <= base_snapshot_id:
            return ()
        if not self._schema.primary_keys:
            return ()
        first = max(base_snapshot_id, base.id - INTERLEAVED_SNAPSHOTS_MAX) + 1
        theirs: dict[Place, int] = {}
        for snapshot_id in range(first, base.id + 1):
            try:
                snapshot = self._log.load(snapshot_id)
                delta = delta_entries(self._fileio, self._paths, snapshot, self._manifests)
            except NotFoundError:
                continue  # it has expired
            if snapshot.commit_kind is not CommitKind.COMPACT:
                for place, (_, high) in _sequences(delta).items():
                    theirs[place] = max(high, theirs.get(place, high))
        ours = _sequences(new_files)
        return tuple(p for p, (low, _) in ours.items() if theirs.get(p, low - 1) >= low)

    def _chosen(
        self, partitions: Predicate | str | None, new_files: EntryTable
    ) -> Callable[[Sequence[bytes]], np.ndarray] | None:
        """Which of some partitions are overwritten, as a mask; None for the whole table."""
        if isinstance(partitions, str) and partitions != DYNAMIC:
            message = (
                f"Overwrite of table '{self._table}': partitions='{partitions}' is not known. Give"
                " a predicate, 'dynamic', or None for the whole table."
            )
            raise InvalidInputError(message, kind="overwrite_partition", table=self._table)
        keys = self._paths.partition_keys
        if partitions is None or (partitions == DYNAMIC and not keys):
            return None
        if isinstance(partitions, str):
            used = frozenset(new_files.partitions)
            return lambda found: np.array([p in used for p in found], dtype=bool)
        if not keys:
            message = f"Table '{self._table}' has no partitions: overwrite it whole."
            raise InvalidInputError(message, kind="overwrite_partition", table=self._table)
        schema, predicate = self._schema, partitions
        fields = [schema.field(k) for k in keys]

        def chosen(found: Sequence[bytes]) -> np.ndarray:
            values = [self._paths.partition_values(p) for p in found]
            return matching_partitions(values, fields, predicate)

        for partition, inside in zip(
            new_files.partitions, chosen(new_files.partitions), strict=True
        ):
            if not inside:
                place = self._paths.partition_path(partition)
                message = (
                    f"Overwrite of table '{self._table}': the rows hold partition {place}, which is"
                    " not one of those to be overwritten. Leave these rows out, or overwrite it"
                    " too."
                )
                raise InvalidInputError(message, kind="overwrite_partition", table=self._table)
        return chosen


def _sequences(table: EntryTable) -> dict[Place, tuple[int, int]]:
    """Smallest and largest sequence number of the added rows of each bucket."""
    table = table.take(table["kind"] == FileKind.ADD)
    ranges: dict[Place, tuple[int, int]] = {}
    for partition, bucket, low, high in zip(
        table["partition_id"].tolist(),
        table["bucket"].tolist(),
        table["min_sequence_number"].tolist(),
        table["max_sequence_number"].tolist(),
        strict=True,
    ):
        place = (table.partitions[partition], bucket)
        known = ranges.get(place, (low, high))
        ranges[place] = (min(low, known[0]), max(high, known[1]))
    return ranges


def _names(table: EntryTable) -> frozenset[str]:
    """File names: a compaction that only lifts a file to another level changes no rows."""
    return frozenset(table["file_name"].to_pylist())


def _may_hold(buckets: frozenset[int] | None) -> Callable[[ManifestFile], bool] | None:
    """Whether a manifest may hold entries of some buckets, by its range of buckets."""
    if buckets is None:
        return None
    low, high = min(buckets), max(buckets)

    def keep(manifest: ManifestFile) -> bool:
        if manifest.min_bucket is None or manifest.max_bucket is None:
            return True
        return manifest.min_bucket <= high and low <= manifest.max_bucket

    return keep


def _rows_in(
    partitions: frozenset[bytes] | None, buckets: frozenset[int] | None
) -> Callable[[EntryTable], np.ndarray]:
    """Positions of the entries of some partitions (None: all) and some buckets (None: all)."""

    def rows(table: EntryTable) -> np.ndarray:
        mask = np.ones(table.num_rows, dtype=bool)
        if partitions is not None:
            known = np.array([p in partitions for p in table.partitions], dtype=bool)
            mask &= known[table["partition_id"]]
        if buckets is not None:
            mask &= np.isin(table["bucket"], list(buckets))
        return np.flatnonzero(mask)

    return rows
