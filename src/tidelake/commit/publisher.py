"""Makes one snapshot: builds it on the newest one, publishes it, tries again after a lost race.

One attempt:

1. Take the newest snapshot as base. If this commit is in its history already, that is the answer
   (:mod:`tidelake.commit.idempotence`).
2. Ask the plan what it changes in this base (:mod:`tidelake.commit.plans`). Conflicts are found
   here.
3. Write the index files, and the delta manifests unless an earlier attempt wrote the same. Merge
   the base's manifests if there are many. Write the base list. Open the directory of the snapshots;
   only then check that the table is still the one that was opened, and that the base is still
   there. If a rollback removed it, the attempt is lost.
4. Put ``snapshot-(base + 1)`` if it is absent, into that open directory: if the table was dropped
   meanwhile the directory was removed, and a table that was created again has another one. Then
   read it back. It is ours if user, identifier, kind and the names of both lists are equal:

   ==============  ============================================================================
   put said        what is read back decides
   ==============  ============================================================================
   done            ours, or not readable: published. Another's: an engine that publishes by
                   renaming replaced it; the race is lost
   taken           ours: the storage's client sent the put twice; published. Another's: lost
   refused         the storage says that it changed nothing: the commit ends
   error           ours: published. Another's: lost. Nothing there: seemingly not published; try
                   again. Not readable: the outcome is unknown
   ==============  ============================================================================

5. Unless the race is lost, check once more that the table is the one that was opened, before
   anything is reported as published. If it is not, there are three cases. Our snapshot lies under
   the table's path all the same (whoever dropped it left the directories, and the new table took
   them): it is removed again, by its name in the open directory. It is only in the open directory:
   the table was renamed, or is being dropped, and the outcome is unknown. That directory is gone:
   so is the commit. Other files that the commit wrote under the table's path have unique names that
   no snapshot of the new table names. Check once more that the base is there, too, the very same
   and not another of its number: if a rollback removed it right before the put, our snapshot is
   removed, and is lost.
6. Lost: remove this attempt's files, wait (longer each time, with a random part), begin again.

Before step 3, once per commit, it waits for a statement that asked others to wait, if there is one,
and begins again (:mod:`tidelake.commit.fairness`).

Once an outcome is in doubt no file is removed. The commit then ends with an
:class:`OutcomeUnknownError`: the caller must not remove its data files.

Shown by ``tests/unit/commit/test_commit_faults.py``: each storage call of one commit fails in each
mode while a rival commits right before each put; and by ``tests/proving/interleave.py``: two
writers that compact, and a job and its twin of one identity, meet at the put. These are chosen
moments, not all orders of all calls.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tidelake.commit.context import CommitContext
from tidelake.commit.delta import Delta
from tidelake.commit.fairness import Turns
from tidelake.commit.idempotence import DuplicateCheck
from tidelake.commit.manifest_merge import MergeRule, merge_manifests
from tidelake.commit.metadata_writer import MetadataWriter
from tidelake.commit.plans import NOTHING, Base, CommitPlan, Planned
from tidelake.errors import (
    ConflictError,
    CorruptError,
    NotFoundError,
    OutcomeUnknownError,
    StorageError,
    StorageRefusedError,
    TidelakeError,
    UnsupportedError,
)
from tidelake.fileio import OpenDirectory
from tidelake.metadata.data_file import FileKind
from tidelake.metadata.log.schema_log import SchemaLog, dropped
from tidelake.metadata.log.snapshot import CommitKind, Snapshot
from tidelake.metadata.manifest.manifest_list import ManifestFile
from tidelake.metadata.manifest.snapshot_entries import live_entries, manifest_files
from tidelake.options import declared

__all__ = ["Published", "Publisher"]

READ_BACK_TRIES = 3
"""Reads of the snapshot file after a put, before its outcome counts as unknown."""
READ_BACK_WAIT_MS = 10
WAIT_JITTER = 0.2
"""Waits are randomly longer by up to this share, so that losers do not meet again."""
WAIT_DOUBLINGS_MAX = 30


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


class _Outcome(enum.Enum):
    PUBLISHED = enum.auto()
    LOST = enum.auto()
    IN_DOUBT = enum.auto()


class Publisher:
    """Makes one snapshot. Not thread-safe.

    Parameters
    ----------
    context : CommitContext
        The table as it was opened.
    duplicates : DuplicateCheck
        Finds snapshots of this commit that were published before.
    """

    def __init__(self, context: CommitContext, duplicates: DuplicateCheck) -> None:
        self._context = context
        self._fileio = context.fileio
        self._paths = context.paths
        self._env = context.env
        self._table = context.table
        self._log = context.log
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
        try:
            return self._attempts(plan)
        except OutcomeUnknownError:
            raise
        except TidelakeError as error:
            if self._in_doubt:
                raise self._unknown(error) from error
            self._files.discard_attempt()
            self._files.discard_delta()
            raise

    def _attempts(self, plan: CommitPlan) -> Published:
        options, clock = self._context.options, self._env.clock
        retries_max = options.get(declared.COMMIT_MAX_RETRIES)
        timeout_ms = options.get(declared.COMMIT_TIMEOUT)
        started_ms = clock.now_ms()
        earlier: tuple[Snapshot | None, ...] = ()
        planned = NOTHING
        written: _Written | None = None
        attempt = 0
        while attempt <= retries_max:
            base = Base(self._log.latest(), earlier)
            own = self._duplicates.find(plan.kind, base.snapshot)
            if own is not None:
                if not self._in_doubt:
                    self._files.discard_delta()
                return Published(own, planned, replayed=not self._in_doubt)
            planned = plan.against(base)
            earlier = (*earlier, base.snapshot)
            if planned.is_empty:
                if self._in_doubt:
                    raise self._lost(attempt)
                self._files.discard_delta()
                return Published(None, planned)
            schema_id, names = self._schema_id()
            if not self._in_doubt and self._waits_for_turn(names, plan):
                self._files.discard_attempt()
                self._files.discard_delta()
                attempt, written, started_ms = 0, None, clock.now_ms()
                continue
            if written is None or written.delta is not planned.delta:
                if written is not None and not self._in_doubt:
                    self._files.discard_delta()
                written = self._write_delta(planned.delta, schema_id)
            snapshot = self._build(plan.kind, base.snapshot, planned, written, schema_id)
            outcome = self._put_once(snapshot, base.snapshot)
            if outcome is _Outcome.PUBLISHED:
                return Published(snapshot, planned)
            if outcome is _Outcome.LOST:
                self._files.discard_attempt()
            else:
                self._files.keep_attempt()
                self._in_doubt = True
            waited_ms = clock.now_ms() - started_ms
            if timeout_ms is not None and waited_ms > timeout_ms:
                raise self._lost(attempt + 1)
            if attempt < retries_max:
                self._wait(attempt)
            attempt += 1
        raise self._lost(attempt)

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
            next_row_id=0 if base is None else base.next_row_id or 0,
        )

    def _is_there(self, base: Snapshot | None, directory: OpenDirectory) -> bool:
        """Whether the base is still there; a rollback may have removed it."""
        if base is None:
            return True
        return self._fileio.exists(self._paths.snapshot(base.id), within=directory)

    def _is_rolled_back(self, snapshot: Snapshot, base: Snapshot | None) -> bool:
        """Whether a rollback had removed the base of a snapshot before it was put.

        Others may have committed since the rollback and given another snapshot the base's number. A
        base that has expired leaves nothing older. The snapshot is there: no failure is raised.
        """
        if base is None:
            return False
        try:
            found = self._read_back(base.id)
            if found is not None and _is_same(base, found):
                return False
            oldest = self._log.earliest_id()
        except TidelakeError:
            return False
        return oldest is not None and oldest < snapshot.id

    def _withdraw(self, snapshot: Snapshot, directory: OpenDirectory) -> _Outcome:
        """Remove a snapshot whose base was rolled back: it would bring back what that removed."""
        try:
            self._fileio.delete(self._paths.snapshot(snapshot.id), within=directory)
            if self._fileio.exists(self._paths.snapshot(snapshot.id + 1), within=directory):
                # another commit builds on it already, so it is part of the table's history
                self._log.put(snapshot, within=directory)
                return _Outcome.PUBLISHED
        except (StorageError, NotFoundError) as error:
            raise self._unknown(error) from error
        return _Outcome.LOST

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

    def _put_once(self, snapshot: Snapshot, base: Snapshot | None) -> _Outcome:
        """Steps 4 and 5, and the hints."""
        try:
            directory = self._log.open_dir()
        except NotFoundError as error:
            raise dropped(self._table) from error
        with directory:
            # as late as possible: the ids of a table that was created again would fit, its columns
            # would not
            self._check_same()
            if not self._is_there(base, directory):
                return _Outcome.LOST
            try:
                done = self._log.put(snapshot, within=directory)
                failure: StorageError | None = None
            except StorageRefusedError:
                raise
            except NotFoundError:
                self._check_same()  # raises if it was dropped, or created again
                return _Outcome.LOST
            except StorageError as error:
                done, failure = False, error
            outcome = self._outcome(snapshot, done=done, failure=failure)
            if done or outcome is not _Outcome.LOST:
                self._check_still_same(snapshot, directory)
            if outcome is _Outcome.PUBLISHED and self._is_rolled_back(snapshot, base):
                outcome = self._withdraw(snapshot, directory)
            if outcome is _Outcome.PUBLISHED:
                self._files.keep_all()
                self._log.write_hints(snapshot.id, within=directory)
            return outcome

    def _outcome(self, snapshot: Snapshot, *, done: bool, failure: StorageError | None) -> _Outcome:
        try:
            found = self._read_back(snapshot.id)
        except (StorageError, CorruptError, UnsupportedError) as error:
            if done:
                return _Outcome.PUBLISHED
            raise self._unknown(failure or error) from error
        if found is None:
            return _Outcome.PUBLISHED if done else _Outcome.IN_DOUBT
        return _Outcome.PUBLISHED if _is_same(snapshot, found) else _Outcome.LOST

    def _check_same(self) -> None:
        schemas = SchemaLog(self._fileio, self._paths)
        schemas.check_same(self._context.schema, table=self._table)

    def _check_still_same(self, snapshot: Snapshot, directory: OpenDirectory) -> None:
        """Check, after a put, that the table is the one that was opened; else settle the put."""
        try:
            self._check_same()
        except NotFoundError as error:
            self._settle(snapshot, directory, error)
            raise
        except (StorageError, CorruptError, UnsupportedError):
            return  # the snapshot read back decides; the directory was this table's

    def _settle(self, snapshot: Snapshot, directory: OpenDirectory, error: NotFoundError) -> None:
        """Remove our snapshot from another table, or raise that the outcome is unknown."""
        path = self._paths.snapshot(snapshot.id)
        try:
            found = self._read_back(snapshot.id)
            if found is not None and _is_same(snapshot, found):
                self._fileio.delete(path, within=directory)
                return
            is_elsewhere = self._fileio.exists(path, within=directory)
        except (StorageError, CorruptError, UnsupportedError) as failure:
            raise self._unknown(failure) from error
        if is_elsewhere:
            message = (
                f"Table '{self._table}' was renamed or dropped while a commit to it was being"
                " published. If it was renamed, the commit may be in it; it is not in the table"
                " that has this name now. Nothing was deleted. Open the table by its new name and"
                " look at its newest snapshots."
            )
            raise OutcomeUnknownError(message, table=self._table) from error

    def _read_back(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot of this id that is there now; None if there is none."""
        path = self._paths.snapshot(snapshot_id)
        for tries in range(READ_BACK_TRIES):
            try:
                return Snapshot.from_json(self._fileio.read_bytes(path), path=path)
            except NotFoundError:
                return None
            except StorageError:
                if tries == READ_BACK_TRIES - 1:
                    raise
                self._env.clock.sleep_ms(READ_BACK_WAIT_MS)
        raise AssertionError("unreachable")

    def _wait(self, attempt: int) -> None:
        first = self._context.options.get(declared.COMMIT_MIN_RETRY_WAIT)
        longest = self._context.options.get(declared.COMMIT_MAX_RETRY_WAIT)
        wait_ms = min(first * 2 ** min(attempt, WAIT_DOUBLINGS_MAX), longest)
        self._env.clock.sleep_ms(wait_ms * (1 + self._env.rng.uniform(0, WAIT_JITTER)))

    def _lost(self, attempts: int) -> ConflictError:
        message = (
            f"A commit to table '{self._table}' lost the race for the next snapshot {attempts}"
            " times and gave up; nothing was committed. Commit again, or raise"
            " 'commit.max-retries'."
        )
        return ConflictError(message, kind="commit_race_lost", table=self._table)

    def _unknown(self, cause: TidelakeError) -> OutcomeUnknownError:
        message = (
            f"The storage failed while a commit to table '{self._table}' was being published, and"
            f" it is unknown whether the commit is visible ({cause}). Nothing was deleted. Look at"
            " the newest snapshots, or write again with the same commit user and identifier."
        )
        return OutcomeUnknownError(message, table=self._table)


def _is_same(ours: Snapshot, found: Snapshot) -> bool:
    return _marks(ours) == _marks(found)


def _marks(snapshot: Snapshot) -> tuple[object, ...]:
    return (
        snapshot.commit_user,
        snapshot.commit_identifier,
        snapshot.commit_kind,
        snapshot.base_manifest_list,
        snapshot.delta_manifest_list,
    )


def _risen_watermark(base: Snapshot | None, given: int | None) -> int | None:
    """A table's watermark never decreases, as in Java: readers may rely on it."""
    before = None if base is None else base.watermark
    known = [watermark for watermark in (before, given) if watermark is not None]
    return max(known, default=None)


def _inherited_statistics(base: Snapshot | None, schema_id: int) -> str | None:
    """Statistics stay true of older rows until the schema changes."""
    return base.statistics if base is not None and base.schema_id == schema_id else None
