"""Makes one snapshot: builds it on the newest one, publishes it, tries again after a lost race.

One attempt:

1. Take the newest snapshot as base. If this commit is in its history already, that is the answer
   (:mod:`tidelake.commit.idempotence`).
2. Ask the plan what it changes in this base (:mod:`tidelake.commit.plans`). Conflicts are found
   here.
3. Write the index files, and the delta manifests unless an earlier attempt wrote the same. Merge
   the base's manifests if there are many. Write the base list.
4. Publish (:mod:`tidelake.commit.snapshot_commit`): the storage decides by the snapshot's file
   (:mod:`tidelake.commit.store_snapshot_commit`), or the server of the catalog does.
5. Lost: remove this attempt's files, wait (longer each time, with a random part), begin again. In
   doubt, or taken back after others could read it: keep them, and begin again.

Before step 3, once per commit, it waits for a statement that asked others to wait, if there is one,
and begins again (:mod:`tidelake.commit.fairness`).

Once an outcome is in doubt no file is removed. The commit then ends with an
:class:`OutcomeUnknownError`: the caller must not remove its data files.

Shown by ``tests/unit/commit/test_commit_faults.py``: each storage call of one commit fails in each
mode while a rival commits right before each put; and by ``tests/proving/interleave.py``: two
writers that compact, and a job and its twin of one identity, meet at the put. These are chosen
moments, not all orders of all calls. ``tests/unit/catalog/rest/test_commit_by_server.py`` does the
same to a server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tidelake.commit.context import CommitContext
from tidelake.commit.delta import Delta
from tidelake.commit.fairness import Turns
from tidelake.commit.idempotence import DuplicateCheck
from tidelake.commit.manifest_merge import MergeRule, merge_manifests
from tidelake.commit.metadata_writer import MetadataWriter
from tidelake.commit.plans import NOTHING, Base, CommitPlan, Planned
from tidelake.commit.snapshot_commit import Candidate, Outcome, outcome_unknown
from tidelake.commit.store_snapshot_commit import StoreSnapshotCommit
from tidelake.errors import ConflictError, NotFoundError, OutcomeUnknownError, TidelakeError
from tidelake.metadata.at_once import at_once
from tidelake.metadata.data_file import FileKind
from tidelake.metadata.log.chain import BASE, link_of
from tidelake.metadata.log.newest import has_moved_on
from tidelake.metadata.log.schema_log import SchemaLog, dropped, names_drop
from tidelake.metadata.log.snapshot import CommitKind, Snapshot
from tidelake.metadata.manifest.manifest_list import ManifestFile
from tidelake.metadata.manifest.snapshot_entries import live_entries, manifest_files
from tidelake.metadata.row_ids import numbered, tracks_rows
from tidelake.options import declared
from tidelake.telemetry import Backoff, TimedCommit

WAIT_LONGER = 0.2
"""Waits are randomly longer by up to this share, so that losers do not meet again."""


@dataclass(frozen=True, slots=True)
class Published:
    """The result of publishing a plan.

    Parameters
    ----------
    snapshot : Snapshot or None
        The published snapshot; None if there was nothing to commit.
    planned : Planned
        The plan's changes in the last base.
    replayed : bool
        Whether the snapshot had been published before.
    """

    snapshot: Snapshot | None
    planned: Planned
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class _Written:
    """A delta, and name and size of its manifest lists; attempts use it again."""

    delta: Delta
    entries: tuple[str, int]
    changelog: tuple[str, int] | None = None


class _StaleBaseError(Exception):
    """Another commit came while the base was read, and the base has expired."""


class Publisher:
    """Makes one snapshot. Not thread-safe.

    Parameters
    ----------
    duplicates : DuplicateCheck
        Finds snapshots of this commit that were published before.
    """

    def __init__(self, context: CommitContext, duplicates: DuplicateCheck) -> None:
        self._context = context
        self._fileio = context.fileio
        self._paths = context.paths
        self._env = context.env
        self._table = context.table
        self._snapshots = context.snapshot_commit or StoreSnapshotCommit(context)
        self._duplicates = duplicates
        self._files = MetadataWriter(context, list_names=duplicates.list_names)
        self._turns = Turns(context)
        self._in_doubt = False

    def publish(self, plan: CommitPlan) -> Published:
        """Make the snapshot of a plan. Call it once.

        Raises
        ------
        ConflictError
            The plan conflicts with the newest snapshot, or all attempts lost their race. Nothing
            was committed.
        NotFoundError
            The table was dropped, and perhaps created again. Nothing was committed.
        StorageError
            The storage failed before publishing. Nothing was committed.
        OutcomeUnknownError
            The storage failed while publishing. Nothing was removed.
        """
        with self._env.commits.timed(self._table, plan.kind.value) as timed:
            done = self._published(plan, timed)
            timed.is_made = done.snapshot is not None and not done.replayed
        return done

    def _published(self, plan: CommitPlan, timed: TimedCommit) -> Published:
        """The snapshot of a plan; of a failure, no file is left that nobody may need."""
        try:
            with names_drop(self._fileio, self._paths, table=self._table):
                return self._attempts(plan, timed)
        except OutcomeUnknownError:
            raise
        except TidelakeError as error:
            if self._in_doubt:
                raise outcome_unknown(self._table, error) from error
            self._files.discard_attempt()
            self._files.discard_delta()
            raise

    def _attempts(self, plan: CommitPlan, timed: TimedCommit) -> Published:
        options, clock = self._context.options, self._env.clock
        retries_max = options.get(declared.COMMIT_MAX_RETRIES)
        timeout_ms = options.get(declared.COMMIT_TIMEOUT)
        started_ms = clock.now_ms()
        earlier: tuple[Snapshot | None, ...] = ()
        planned = NOTHING
        written: _Written | None = None
        attempt = 0
        while attempt <= retries_max:
            newest, known_schema = self._newest()
            base = Base(newest, earlier)
            own = self._duplicates.find(plan.kind, base.snapshot)
            if own is not None:
                if not self._in_doubt:
                    self._files.discard_delta()
                return Published(own, planned, replayed=not self._in_doubt)
            try:
                with self._stale_or_damaged(newest):
                    planned = plan.against(base)
                earlier = (*earlier, base.snapshot)
                if planned.is_empty:
                    if self._in_doubt:
                        raise self._lost(attempt, earlier)
                    self._files.discard_delta()
                    return Published(None, planned)
                schema_id, names = known_schema or self._schema_id()
                if not self._in_doubt and self._waits_for_turn(names, plan):
                    self._files.discard_attempt()
                    self._files.discard_delta()
                    attempt, written, started_ms = 0, None, clock.now_ms()
                    continue
                planned, next_row_id = self._with_row_ids(planned, base.snapshot)
                if written is None or written.delta is not planned.delta:
                    if written is not None and not self._in_doubt:
                        self._files.discard_delta()
                    written = self._write_delta(planned.delta, schema_id)
                with self._stale_or_damaged(newest):
                    snapshot = self._build(
                        plan.kind, base.snapshot, planned, written, schema_id, next_row_id
                    )
                self._files.finish()
                candidate = Candidate(snapshot, base.snapshot, planned.delta.entries)
                outcome = self._snapshots.publish(candidate)
            except _StaleBaseError:
                outcome = Outcome.LOST
            self._keep_or_discard(outcome)
            if outcome is Outcome.PUBLISHED:
                return Published(snapshot, planned)
            timed.lost_races += outcome is Outcome.LOST
            if timeout_ms is not None and clock.now_ms() - started_ms > timeout_ms:
                raise self._lost(attempt + 1, earlier)
            if attempt < retries_max:
                self._wait(attempt)
            attempt += 1
        raise self._lost(attempt, earlier)

    @contextmanager
    def _stale_or_damaged(self, base: Snapshot | None) -> Iterator[None]:
        """Tell a base that expired while it was read, which is a race that was lost, from damage.

        Raises
        ------
        _StaleBaseError
            A file of the base is missing, and another snapshot is the newest.
        """
        try:
            yield
        except NotFoundError as error:
            if not has_moved_on(base, self._snapshots.latest()):
                raise
            raise _StaleBaseError from error

    def _with_row_ids(self, planned: Planned, base: Snapshot | None) -> tuple[Planned, int]:
        """The changes with the row ids that follow from this base, and the next free id."""
        if planned.next_row_id is not None:
            return planned, planned.next_row_id
        next_row_id = 0 if base is None else base.next_row_id or 0
        entries = planned.delta.entries
        if not (tracks_rows(self._context.options) and entries.num_rows):
            return planned, next_row_id
        snapshot_id = 1 if base is None else base.id + 1
        entries, next_row_id = numbered(entries, snapshot_id=snapshot_id, next_row_id=next_row_id)
        return replace(planned, delta=replace(planned.delta, entries=entries)), next_row_id

    def _keep_or_discard(self, outcome: Outcome) -> None:
        """What becomes of the files of an attempt."""
        if outcome is Outcome.LOST:
            self._files.discard_attempt()
        elif outcome is Outcome.IN_DOUBT:
            self._files.keep_attempt()
            self._in_doubt = True
        else:
            self._files.keep_all()

    def _newest(self) -> tuple[Snapshot | None, tuple[int, Sequence[str]] | None]:
        """The newest snapshot; of a remote storage, the newest schema too, asked for meanwhile."""
        if not self._fileio.is_remote:
            return self._snapshots.latest(), None
        snapshots: list[Snapshot | None] = []
        schemas: list[tuple[int, Sequence[str]]] = []
        at_once(
            self._fileio,
            self._env.reads.files,
            [
                lambda: snapshots.append(self._snapshots.latest()),
                lambda: schemas.append(self._schema_id()),
            ],
        )
        [newest], [(schema_id, names)] = snapshots, schemas
        if newest is not None and schema_id < newest.schema_id:
            return newest, None  # the schema changed in between
        return newest, (schema_id, names)

    def _write_delta(self, delta: Delta, schema_id: int) -> _Written:
        entries = self._files.write_delta(delta.entries, schema_id=schema_id)
        if not delta.changelog.num_rows:
            return _Written(delta, entries)
        changelog = self._files.write_delta(delta.changelog, schema_id=schema_id)
        return _Written(delta, entries, changelog)

    def _build(
        self,
        kind: CommitKind,
        base: Snapshot | None,
        planned: Planned,
        written: _Written,
        schema_id: int,
        next_row_id: int,
    ) -> Snapshot:
        """Write the files of this attempt, and make the snapshot."""
        index_manifest = None if base is None else base.index_manifest
        if planned.index is not None:
            index_manifest = self._files.write_index(planned.index)
        manifests = self._base_manifests(base, schema_id, all_of=planned.merges_manifests)
        base_name, base_size = self._files.write_base(manifests)
        changelog_name, changelog_size = written.changelog or (None, None)
        entries = planned.delta.entries
        rows = entries["row_count"]
        added = entries["kind"] == FileKind.ADD
        delta_rows = int(rows[added].sum()) - int(rows[~added].sum())
        now_ms = self._env.clock.now_ms()
        return Snapshot(
            id=1 if base is None else base.id + 1,
            schema_id=schema_id,
            base_manifest_list=base_name,
            base_manifest_list_size_bytes=base_size,
            delta_manifest_list=written.entries[0],
            delta_manifest_list_size_bytes=written.entries[1],
            changelog_manifest_list=changelog_name,
            changelog_manifest_list_size_bytes=changelog_size,
            index_manifest=index_manifest,
            commit_user=self._duplicates.user,
            commit_identifier=self._duplicates.identifier,
            commit_kind=kind,
            # a slow clock must not make the log's times decrease: time travel searches them
            time_ms=now_ms if base is None else max(now_ms, base.time_ms),
            total_record_count=self._total_rows(base) + delta_rows,
            delta_record_count=delta_rows,
            changelog_record_count=int(planned.delta.changelog["row_count"].sum()),
            watermark=_risen_watermark(base, planned.stream.watermark),
            statistics=planned.statistics or _inherited_statistics(base, schema_id),
            properties=self._properties(base),
            next_row_id=next_row_id,
        )

    def _properties(self, base: Snapshot | None) -> Mapping[str, str] | None:
        """What a batch of a stream covers, and what tells where a snapshot belongs.

        A snapshot names its base; on a store without directories it also tells of which table it
        is. A server knows both of its tables.
        """
        context, step = self._context, self._duplicates.step
        found: dict[str, str] = {} if step is None else step.covered.properties
        if context.snapshot_commit is None:
            named = {} if base is None else {BASE: link_of(base)}
            marks = {} if context.incarnation is None else context.incarnation.properties
            found = {**found, **marks, **named}
        return found or None

    def _base_manifests(
        self, base: Snapshot | None, schema_id: int, *, all_of: bool
    ) -> tuple[ManifestFile, ...]:
        """The base's manifests, merged where they are many, or where all are to be merged."""
        if base is None:
            return ()
        context, rule = self._context, MergeRule.of(self._context.options)
        return merge_manifests(
            manifest_files(self._fileio, self._paths, base, context.manifests),
            rule.of_all() if all_of else rule,
            read=context.manifest_entries,
            write=partial(self._files.write_merged, schema_id=schema_id),
            where=f"snapshot {base.id} of table '{self._table}'",
        )

    def _total_rows(self, base: Snapshot | None) -> int:
        if base is None:
            return 0
        if base.total_record_count is not None:
            return base.total_record_count
        live = live_entries(self._fileio, self._paths, base, self._context.manifests)
        return int(np.sum(live["row_count"]))

    def _schema_id(self) -> tuple[int, Sequence[str]]:
        """The newest schema, and the names of the files beside it."""
        log = SchemaLog(self._fileio, self._paths)
        names = log.names()
        schema_id = log.latest_id(names)
        if schema_id is None:
            raise dropped(self._table)
        return schema_id, names

    def _waits_for_turn(self, names: Sequence[str], plan: CommitPlan) -> bool:
        """Wait for a statement whose turn it is; a compaction changes no row, so it does not."""
        if plan.kind is CommitKind.COMPACT:
            return False
        return self._turns.wait(names, self._duplicates.user)

    def _wait(self, attempt: int) -> None:
        first = self._context.options.get(declared.COMMIT_MIN_RETRY_WAIT)
        longest = self._context.options.get(declared.COMMIT_MAX_RETRY_WAIT)
        waits = Backoff(first, longest, longer=WAIT_LONGER)
        waits.sleep(attempt, self._env.clock, self._env.rng)

    def _lost(self, attempts: int, bases: Sequence[Snapshot | None]) -> ConflictError:
        newest = bases[-1] if bases else None
        wanted_id = 1 if newest is None else newest.id + 1
        with suppress(TidelakeError):  # it only explains
            if self._context.log.is_of_dropped_table(wanted_id):
                return self._blocked(wanted_id)
        message = (
            f"A commit to table '{self._table}' lost the race for the next snapshot {attempts}"
            " times and gave up; nothing was committed. Commit again, or raise"
            " 'commit.max-retries'."
        )
        return ConflictError(message, kind="commit_race_lost", table=self._table)

    def _blocked(self, snapshot_id: int) -> ConflictError:
        """A snapshot that its writer should have taken back by now has the id that we want."""
        path = self._fileio.uri_of(self._paths.snapshot(snapshot_id))
        removal = f"delete the file {path}"
        if snapshot_id > 1:
            removal = f"roll the table back to snapshot {snapshot_id - 1}"
        message = (
            f"Snapshot {snapshot_id} of table '{self._table}' is a late commit to a dropped table"
            " of that name: readers do not see it, and nothing is built on it. Nothing was"
            " committed. Its writer removes it: commit again. If no process lives that had the"
            f" dropped table open, {removal}. A table that was copied needs its schema files, too."
        )
        return ConflictError(
            message, kind="snapshot_of_dropped_table", table=self._table, snapshot=snapshot_id
        )


def _risen_watermark(base: Snapshot | None, given: int | None) -> int | None:
    """A table's watermark never decreases, as in Java: readers may rely on it."""
    before = None if base is None else base.watermark
    known = [watermark for watermark in (before, given) if watermark is not None]
    return max(known, default=None)


def _inherited_statistics(base: Snapshot | None, schema_id: int) -> str | None:
    """Statistics stay true of older rows until the schema changes."""
    return base.statistics if base is not None and base.schema_id == schema_id else None
