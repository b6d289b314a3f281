"""Makes one snapshot: builds it on the newest one, publishes it, tries again if it lost the race.

One attempt:

1. Take the newest snapshot as base. Is this commit in its history already? Then that is the answer.
2. Ask for the entries against this very base; conflicts are found here.
3. Write the delta manifests (the first attempt) or take those again; merge the base's manifests if
   they have become many; write the base list. Open the directory of the snapshots, and only then
   see that the table is still the one that was opened, and that the base is still there: after a
   rollback of others the attempt has lost.
4. Put ``snapshot-(base + 1)`` if it is absent, into that very directory: where the table was
   dropped in between, there is none, and a table that was created anew has another. Then read it
   back. It is ours if user, identifier, kind and both lists' names are equal:

   ==============  ============================================================================
   put said        what is read back decides
   ==============  ============================================================================
   done            ours, or not readable: published. Another's: an engine that publishes by
                   renaming replaced it; the race is lost
   taken           ours: the storage's client sent the put twice; published. Another's: lost
   refused         the storage says that it changed nothing: the commit ends
   error           ours: published. Another's: lost. Nothing there: not published, as far as one
                   can see; try again. Not readable: the outcome is unknown
   ==============  ============================================================================

5. Unless the race is lost, look once more whether the table is the one that was opened, before
   anything is said to be published. If it is not: where our snapshot lies under the table's path
   all the same (whoever dropped it left the directories, and the new table took them), it is taken
   out again, by the name in the directory that we hold; where it is still in the directory that we
   hold, the table was renamed, or is being dropped, and the outcome is unknown; where that
   directory is gone, so is the commit. What the commit wrote under the table's path meanwhile has
   unique names that no snapshot of the new table names. Look once more whether the base is there,
   too, the very same and not another of its number: if a rollback removed it right before the put,
   our snapshot is taken out, and has lost.
6. Lost: remove this attempt's files, wait (longer each time, with chance), begin anew.

Before step 3, once per commit, it waits for a statement whose turn it is, if there is one, and
begins anew (:mod:`tidelake.commit.turns`).

From the moment an outcome is in doubt nothing is removed any more, and whatever ends the commit
then is an :class:`OutcomeUnknownError`: the caller must not remove its data files.

Shown by ``tests/unit/commit/test_commit_faults.py``: each storage call of one commit fails in each
mode while a rival commits right before each put; and by ``tests/proving/interleave.py``: two
writers that compact, and a job and its twin of one identity, meet at the put. These are chosen
moments, not all orders of all calls.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tidelake.commit.delta import Delta
from tidelake.commit.idempotence import OwnCommits
from tidelake.commit.manifest_merge import MergeRule, merge_manifests, wants_full
from tidelake.commit.metadata_writer import NewMetadata
from tidelake.commit.turns import Turns
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
from tidelake.fileio import FileIO, OpenDirectory
from tidelake.metadata.data_file import FileKind
from tidelake.metadata.index.index_manifest import index_entries
from tidelake.metadata.index_entry import DELETION_VECTORS, HASH, IndexEntry
from tidelake.metadata.log.schema_log import SchemaLog, dropped
from tidelake.metadata.log.snapshot import CommitKind, Snapshot
from tidelake.metadata.log.snapshot_log import SnapshotLog
from tidelake.metadata.manifest.live_set import live_entries, manifest_files
from tidelake.metadata.manifest.manifest_cache import ManifestCache
from tidelake.metadata.manifest.manifest_list import ManifestFile
from tidelake.metadata.paths import TablePaths
from tidelake.options import Options, declared
from tidelake.telemetry import Env
from tidelake.types import TableSchema

__all__ = ["IndexRule", "Publisher", "Request"]

READ_BACK_TRIES = 3
"""Reads of the snapshot file after a put, before its outcome counts as unknown."""
READ_BACK_WAIT_MS = 10
WAIT_JITTER = 0.2
"""Waits are longer by up to this share, by chance, so that losers do not meet again."""
WAIT_DOUBLINGS_MAX = 30


IndexRule = Callable[
    [Snapshot | None, Sequence[IndexEntry], NewMetadata], Sequence[IndexEntry] | None
]


@dataclass(frozen=True, slots=True)
class Request:
    """One snapshot to be made.

    Parameters
    ----------
    user, identifier, kind
        The commit's identity.
    plan : callable
        Gives what the snapshot changes, against a base (None: the empty table). May raise
        ConflictError.
    properties : mapping, optional
        Free texts for the snapshot.
    index : callable, optional
        Gives the index files after the commit from the base and its index files, None where they
        stay; writes those it needs by the last argument. May raise ConflictError.
    with_index_alone : bool
        Whether other index files are something to commit where there are no entries.
    statistics : str, optional
        Name of a file of statistics, which is something to commit without entries too.
    merges_manifests : bool
        Whether all manifests are merged, which is something to commit where it changes them.
    """

    user: str
    identifier: int
    kind: CommitKind
    plan: Callable[[Snapshot | None], Delta]
    properties: Mapping[str, str] | None = None
    index: IndexRule | None = None
    with_index_alone: bool = False
    statistics: str | None = None
    merges_manifests: bool = False


@dataclass(frozen=True, slots=True)
class _Lists:
    """Name and size of the manifest lists that every attempt uses again."""

    entries: tuple[str, int]
    changelog: tuple[str, int] | None = None


class _Outcome(enum.Enum):
    PUBLISHED = enum.auto()
    LOST = enum.auto()
    IN_DOUBT = enum.auto()


class Publisher:
    """Publishes the snapshots of one commit.

    Parameters
    ----------
    fileio, paths, schema, options, env, manifests
        The table as it was opened and what it needs.
    own : OwnCommits
        Finds snapshots of this commit.
    files : NewMetadata
        Writes the metadata files.
    turns : Turns
        Tells whether another statement is to go first.
    table : str
        For messages.
    """

    def __init__(  # noqa: PLR0913 - the table as it was opened, and one commit
        self,
        fileio: FileIO,
        paths: TablePaths,
        *,
        schema: TableSchema,
        options: Options,
        env: Env,
        manifests: ManifestCache,
        own: OwnCommits,
        files: NewMetadata,
        turns: Turns,
        table: str,
    ) -> None:
        self._fileio = fileio
        self._paths = paths
        self._schema = schema
        self._options = options
        self._env = env
        self._manifests = manifests
        self._own = own
        self._files = files
        self._turns = turns
        self._table = table
        self._log = SnapshotLog(fileio, paths)
        self._in_doubt = False

    def publish(self, request: Request) -> tuple[Snapshot | None, bool]:
        """Make the snapshot.

        Returns
        -------
        snapshot : Snapshot or None
            What was published; None where there was nothing to commit.
        replayed : bool
            Whether it had been published before this call.

        Raises
        ------
        ConflictError
            The request's plan conflicts with the newest snapshot, or all attempts lost their race.
            Nothing was committed.
        NotFoundError
            The table was dropped, and perhaps created anew. Nothing was committed.
        StorageError
            The storage failed before publishing. Nothing was committed.
        OutcomeUnknownError
            The storage failed while publishing. Nothing was removed.
        """
        try:
            return self._attempts(request)
        except OutcomeUnknownError:
            raise
        except TidelakeError as error:
            if self._in_doubt:
                raise self._unknown(error) from error
            self._files.discard_attempt()
            self._files.discard_delta()
            raise

    def _attempts(self, request: Request) -> tuple[Snapshot | None, bool]:
        retries_max = self._options.get(declared.COMMIT_MAX_RETRIES)
        timeout_ms = self._options.get(declared.COMMIT_TIMEOUT)
        started_ms = self._env.clock.now_ms()
        delta: Delta | None = None
        lists: _Lists | None = None
        for attempt in range(retries_max + 1):
            base = self._log.latest()
            own = self._own.find(request.kind, base)
            if own is not None:
                if self._in_doubt:
                    return own, False
                self._files.discard_delta()
                return own, True
            planned = request.plan(base)
            index_manifest = None if base is None else base.index_manifest
            index_before = index_manifest
            if not planned.is_empty or request.with_index_alone:
                index_manifest = self._index_manifest(request, base)
            has_more = request.statistics is not None or self._merges(request, base)
            if planned.is_empty and index_manifest == index_before and not has_more:
                if self._in_doubt:
                    raise self._lost(attempt)
                self._files.discard_delta()
                return None, False
            schema_id, beside = self._schema_id()
            if not self._in_doubt and self._gives_way(beside, request):
                self._files.discard_attempt()
                self._files.discard_delta()
                return self._attempts(request)
            if lists is None or delta is not planned:
                if delta is not None and not self._in_doubt:
                    self._files.discard_delta()
                delta, lists = planned, self._write_delta(planned, schema_id)
            snapshot = replace(
                self._build(request, base, planned, lists, schema_id),
                index_manifest=index_manifest,
            )
            outcome = self._put_once(snapshot, base)
            if outcome is _Outcome.PUBLISHED:
                return snapshot, False
            if outcome is _Outcome.LOST:
                self._files.discard_attempt()
            else:
                self._files.keep_attempt()
                self._in_doubt = True
            waited_ms = self._env.clock.now_ms() - started_ms
            if timeout_ms is not None and waited_ms > timeout_ms:
                break
            if attempt < retries_max:
                self._wait(attempt)
        raise self._lost(attempt + 1)

    def _write_delta(self, planned: Delta, schema_id: int) -> _Lists:
        entries = self._files.write_delta(planned.entries, schema_id=schema_id)
        if not planned.changelog.num_rows:
            return _Lists(entries)
        return _Lists(entries, self._files.write_delta(planned.changelog, schema_id=schema_id))

    def _build(
        self,
        request: Request,
        base: Snapshot | None,
        planned: Delta,
        lists: _Lists,
        schema_id: int,
    ) -> Snapshot:
        entries = planned.entries
        changelog_name, changelog_size = lists.changelog or (None, None)
        manifests = self._base_manifests(base, self._rule(request), schema_id)
        base_name, base_size = self._files.write_base(manifests)
        rows = entries["row_count"]
        added = entries["kind"] == FileKind.ADD
        delta_rows = int(rows[added].sum()) - int(rows[~added].sum())
        now_ms = self._env.clock.now_ms()
        return Snapshot(
            id=1 if base is None else base.id + 1,
            schema_id=schema_id,
            base_manifest_list=base_name,
            base_manifest_list_size_bytes=base_size,
            delta_manifest_list=lists.entries[0],
            delta_manifest_list_size_bytes=lists.entries[1],
            changelog_manifest_list=changelog_name,
            changelog_manifest_list_size_bytes=changelog_size,
            commit_user=request.user,
            commit_identifier=request.identifier,
            commit_kind=request.kind,
            # a clock that runs behind must not make the log's times fall: time travel searches them
            time_ms=now_ms if base is None else max(now_ms, base.time_ms),
            total_record_count=self._total_rows(base) + delta_rows,
            delta_record_count=delta_rows,
            changelog_record_count=int(planned.changelog["row_count"].sum()),
            watermark=None if base is None else base.watermark,
            statistics=request.statistics or _inherited_statistics(base, schema_id),
            properties=dict(request.properties) if request.properties else None,
            next_row_id=0 if base is None else base.next_row_id or 0,
        )

    def _index_manifest(self, request: Request, base: Snapshot | None) -> str | None:
        """The name of the index manifest after the commit; None where no index file is left."""
        before = index_entries(self._fileio, self._paths, base, self._manifests)
        _check_covered(before, self._table, self._options)
        after = None if request.index is None else request.index(base, before, self._files)
        if after is None:
            return None if base is None else base.index_manifest
        return self._files.write_index_manifest(after) if after else None

    def _rule(self, request: Request) -> MergeRule:
        rule = MergeRule.of(self._options)
        return replace(rule, full_bytes=0) if request.merges_manifests else rule

    def _merges(self, request: Request, base: Snapshot | None) -> bool:
        """Whether merging the manifests is asked for and changes them."""
        if base is None or not request.merges_manifests:
            return False
        files = manifest_files(self._fileio, self._paths, base, self._manifests)
        return wants_full(files, self._rule(request))

    def _stands(self, base: Snapshot | None, place: OpenDirectory) -> bool:
        """Whether the base is still there; a rollback may have removed it."""
        if base is None:
            return True
        return self._fileio.exists(self._paths.snapshot(base.id), within=place)

    def _is_rolled_back(self, snapshot: Snapshot, base: Snapshot | None) -> bool:
        """Whether the base of a snapshot that was put had been taken back by then.

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

    def _withdraw(self, snapshot: Snapshot, place: OpenDirectory) -> _Outcome:
        """Take a snapshot out whose base was rolled back: it would bring back what that took."""
        try:
            self._fileio.delete(self._paths.snapshot(snapshot.id), within=place)
            if self._fileio.exists(self._paths.snapshot(snapshot.id + 1), within=place):
                # somebody stands on it already, so it is the table's history
                self._log.put(snapshot, within=place)
                return _Outcome.PUBLISHED
        except (StorageError, NotFoundError) as error:
            raise self._unknown(error) from error
        return _Outcome.LOST

    def _base_manifests(
        self, base: Snapshot | None, rule: MergeRule, schema_id: int
    ) -> tuple[ManifestFile, ...]:
        if base is None:
            return ()
        return merge_manifests(
            manifest_files(self._fileio, self._paths, base, self._manifests),
            rule,
            read=lambda m: self._manifests.entries(
                self._fileio, self._paths.manifest(m.file_name), expected=m
            ),
            write=lambda table: self._files.write_merged(table, schema_id=schema_id),
            where=f"snapshot {base.id} of table '{self._table}'",
        )

    def _total_rows(self, base: Snapshot | None) -> int:
        if base is None:
            return 0
        if base.total_record_count is not None:
            return base.total_record_count
        live = live_entries(self._fileio, self._paths, base, self._manifests)
        return int(np.sum(live["row_count"]))

    def _schema_id(self) -> tuple[int, Sequence[str]]:
        """The newest schema, and the names of the files beside it."""
        log = SchemaLog(self._fileio, self._paths)
        names = log.names()
        schema_id = log.latest_id(names)
        if schema_id is None:
            raise dropped(self._table)
        return schema_id, names

    def _gives_way(self, names: Sequence[str], request: Request) -> bool:
        """Wait for a statement whose turn it is; a compaction changes no row, so it does not."""
        if request.kind is CommitKind.COMPACT:
            return False
        return self._turns.give_way(names, request.user)

    def _put_once(self, snapshot: Snapshot, base: Snapshot | None) -> _Outcome:
        """Steps 4 and 5, and the hints."""
        try:
            place = self._log.open_dir()
        except NotFoundError as error:
            raise dropped(self._table) from error
        with place:
            # as late as can be: ids of a table created anew would fit, its columns would not
            self._check_same()
            if not self._stands(base, place):
                return _Outcome.LOST
            try:
                done = self._log.put(snapshot, within=place)
                failure: StorageError | None = None
            except StorageRefusedError:
                raise
            except NotFoundError:
                self._check_same()  # says that it was dropped, or created anew
                return _Outcome.LOST
            except StorageError as error:
                done, failure = False, error
            outcome = self._outcome(snapshot, done=done, failure=failure)
            if done or outcome is not _Outcome.LOST:
                self._check_still_same(snapshot, place)
            if outcome is _Outcome.PUBLISHED and self._is_rolled_back(snapshot, base):
                outcome = self._withdraw(snapshot, place)
            if outcome is _Outcome.PUBLISHED:
                self._files.keep_all()
                self._log.write_hints(snapshot.id, within=place)
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
        SchemaLog(self._fileio, self._paths).check_same(self._schema, table=self._table)

    def _check_still_same(self, snapshot: Snapshot, place: OpenDirectory) -> None:
        """See, after a put, that the table is the one that was opened, or settle what was put."""
        try:
            self._check_same()
        except NotFoundError as error:
            self._settle(snapshot, place, error)
            raise
        except (StorageError, CorruptError, UnsupportedError):
            return  # what was read back decides; the directory was this table's

    def _settle(self, snapshot: Snapshot, place: OpenDirectory, error: NotFoundError) -> None:
        """Let nothing of ours be in another table, or say that the outcome is unknown."""
        path = self._paths.snapshot(snapshot.id)
        try:
            found = self._read_back(snapshot.id)
            if found is not None and _is_same(snapshot, found):
                self._fileio.delete(path, within=place)
                return
            is_elsewhere = self._fileio.exists(path, within=place)
        except (StorageError, CorruptError, UnsupportedError) as failure:
            raise self._unknown(failure) from error
        if is_elsewhere:
            message = (
                f"Table '{self._table}' was renamed or dropped while a commit to it was being"
                " published. If it was renamed, the commit may be in it; in the table that has this"
                " name now it is not. Nothing was deleted. Open the table by its new name and look"
                " at its newest snapshots."
            )
            raise OutcomeUnknownError(message, table=self._table) from error

    def _read_back(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot that is there now; None if there is none."""
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
        first = self._options.get(declared.COMMIT_MIN_RETRY_WAIT)
        longest = self._options.get(declared.COMMIT_MAX_RETRY_WAIT)
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
            f" whether it is visible could not be found out ({cause}). Nothing was deleted. Look at"
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


def _check_covered(entries: Sequence[IndexEntry], table: str, options: Options) -> None:
    covered = {HASH}
    if options.get(declared.DELETION_VECTORS_ENABLED):
        covered.add(DELETION_VECTORS)
    types = sorted({entry.file.index_type for entry in entries} - covered)
    if types:
        message = (
            f"Table '{table}' has index files of type {', '.join(types)}, which this version cannot"
            " keep up to date: write it with the engine that made them."
        )
        raise UnsupportedError(message, kind="index_manifest", table=table)


def _inherited_statistics(base: Snapshot | None, schema_id: int) -> str | None:
    """Statistics stay true of older rows until the schema changes."""
    return base.statistics if base is not None and base.schema_id == schema_id else None
