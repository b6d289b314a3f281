"""Makes a snapshot visible by its file: put if absent, read back, check the table again.

1. Open the directory of the snapshots; only then check that the table is still the one that was
   opened, and that the base is still there. If a rollback removed it, the attempt is lost.
2. Put ``snapshot-(base + 1)`` if it is absent, into that open directory: if the table was dropped
   meanwhile the directory was removed, and a table that was created again has another one. Then
   read it back. It is ours if user, identifier, kind and the names of both lists are equal:

   ==============  ============================================================================
   put said        what is read back decides
   ==============  ============================================================================
   done            ours, or not readable: published. Another's: an engine that publishes by
                   renaming replaced it; the race is lost
   taken           ours: the storage's client sent the put twice; published. One that does not
                   follow the base that is there was published late: ours is put over it, on the
                   condition that it is still that one. Another's: lost
   refused         the storage says that it changed nothing: the commit ends
   error           ours: published. Another's: lost. Nothing there: seemingly not published; try
                   again. Not readable: the outcome is unknown
   ==============  ============================================================================

3. Unless the race is lost, check once more that the table is the one that was opened, before
   anything is reported as published. If it is not, there are three cases. Our snapshot lies under
   the table's path all the same (whoever dropped it left the directories, and the new table took
   them): it is removed again, by its name in the open directory. It is only in the open directory:
   the table was renamed, or is being dropped, and the outcome is unknown. That directory is gone:
   so is the commit. Other files that the commit wrote under the table's path have unique names that
   no snapshot of the new table names. Check once more that the base is there, too, the very same
   and not another of its number: if a rollback removed it right before the put, our snapshot is
   removed, and is lost. In a store it stays if others have filled the numbers below it: no reader
   takes it, and the next commit is put over it. In a store the base may also have been removed and
   have come back, so look from LATEST, too: do readers come to our snapshot? A snapshot on which
   another commit builds already is never removed.
4. If the base has expired, or LATEST is not below our snapshot although it was not written for it,
   EARLIEST is read: an expiry writes it before it removes anything. If it is above ours, others may
   have taken our number before, and their snapshot has expired: then ours is below theirs, and no
   reader comes to it. Or ours itself has expired since. The next snapshot tells which of the two,
   or our files in the newest one. If nothing does, the outcome is unknown. The first commit has no
   base: it is told by EARLIEST, which it makes.

An object store has no open directories, so a snapshot may land in a table that was created again
after step 1, and stay there until step 3. It carries a mark by which that table's readers and
writers know that it is not theirs (:mod:`tidelake.metadata.log.incarnation`): they look past it,
and a commit that wants its id loses its race until it is gone.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from tidelake.commit.context import CommitContext
from tidelake.commit.snapshot_commit import (
    Candidate,
    Outcome,
    is_same_snapshot,
    outcome_unknown,
)
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
from tidelake.metadata.at_once import at_once
from tidelake.metadata.data_file import FileKind
from tidelake.metadata.log.chain import follows, link_of, names_base
from tidelake.metadata.log.schema_log import SchemaLog, dropped
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.snapshot_entries import manifest_files, read_manifests

READ_BACK_TRIES = 3
"""Reads of the snapshot file after a put, before its outcome counts as unknown."""
READ_BACK_WAIT_MS = 10


@dataclass(slots=True)
class _AfterPut:
    """What was found after a put.

    Parameters
    ----------
    other_table : NotFoundError or None
        The error of a table that is not the one that was opened.
    is_rolled_back : bool
        Whether a rollback had removed the base.
    may_be_passed : bool
        Whether something says that others had the number before and went on.
    """

    outcome: Outcome = Outcome.IN_DOUBT
    other_table: NotFoundError | None = None
    is_rolled_back: bool = False
    may_be_passed: bool = False


class StoreSnapshotCommit:
    """The storage decides: of several puts of one file at most one succeeds."""

    def __init__(self, context: CommitContext) -> None:
        self._context = context
        self._fileio = context.fileio
        self._paths = context.paths
        self._env = context.env
        self._table = context.table
        self._log = context.log

    def latest(self) -> Snapshot | None:
        """The newest snapshot; None for a table without any."""
        return self._log.latest()

    def publish(self, candidate: Candidate) -> Outcome:
        """Steps 1 to 3, and the hints."""
        snapshot, base = candidate.snapshot, candidate.base
        with self._context.guard(), ExitStack() as held:
            # as late as possible: the ids of a table that was created again would fit, its columns
            # would not
            directory = self._open_as_read(base, held)
            if directory is None:
                return Outcome.LOST
            try:
                done = self._log.put(snapshot, within=directory)
                failure: StorageError | None = None
            except (StorageRefusedError, OutcomeUnknownError):
                raise  # of the latter a lock was lost: what is read back now may not stay
            except NotFoundError:
                self._check_same()  # raises if it was dropped, or created again
                return Outcome.LOST
            except StorageError as error:
                done, failure = False, error
            if not done and failure is None and not directory.has_late_put:
                try:
                    done = self._put_over_set_aside(candidate, directory)
                except StorageRefusedError:
                    raise
                except StorageError as error:
                    failure = error
            after = self._after_put(candidate, done=done, failure=failure)
            outcome = after.outcome
            if after.other_table is not None:
                self._settle(snapshot, directory, after.other_table)
                raise after.other_table
            if outcome is Outcome.LOST and directory.has_late_put:
                outcome = Outcome.IN_DOUBT  # a rollback frees the name, and ours takes it
            if outcome is Outcome.PUBLISHED and after.is_rolled_back:
                outcome = self._withdraw(snapshot, directory)
            is_taken_back = outcome is Outcome.TAKEN_BACK
            if not is_taken_back and self._may_be_passed(snapshot, after, directory):
                outcome = self._beside_expiry(candidate, directory, outcome)
            if outcome is Outcome.PUBLISHED:
                with suppress(TidelakeError):  # readers find the snapshot without hints
                    self._log.write_latest(snapshot.id, within=directory)
            return outcome

    def _put_over_set_aside(self, candidate: Candidate, directory: OpenDirectory) -> bool:
        """Put our snapshot over one that is set aside; False if there is none.

        The file was read before the base is: the one that it names is not the base that is there,
        so as long as its bytes stand under the name, no commit to the table is in it.

        Raises
        ------
        ConflictError
            Another engine built on the snapshot that is set aside.
        """
        snapshot, base = candidate.snapshot, candidate.base
        path = self._paths.snapshot(snapshot.id)
        try:
            data = self._fileio.read_bytes(path)
            found = Snapshot.from_json(data, path=path)
        except (NotFoundError, CorruptError, UnsupportedError):
            return False
        incarnation = self._context.incarnation
        if base is None or follows(found, base) or is_same_snapshot(snapshot, found):
            return False
        if incarnation is not None and not incarnation.has(found):
            return False  # a dropped table's, and its writer may be about to take it back
        if self._is_replaced(base):
            return False
        behind = self._read_back(snapshot.id + 1)
        if behind is not None and not names_base(behind):
            raise self._built_on_set_aside(base, snapshot.id)
        return self._log.put(snapshot, within=directory, over=data)

    def _is_replaced(self, base: Snapshot) -> bool:
        found = self._read_back(base.id)
        return found is None or not _is_same_base(base, found)

    def _built_on_set_aside(self, base: Snapshot, snapshot_id: int) -> ConflictError:
        message = (
            f"Snapshot {snapshot_id} of table '{self._table}' does not follow snapshot {base.id}:"
            " it was published late, after a rollback. Another engine has built snapshot"
            f" {snapshot_id + 1} on it, so two histories go on from there, and this commit would"
            f" end one of them. Read what the snapshots from {snapshot_id} on added, roll the"
            f" table back to snapshot {base.id}, and write those rows again."
        )
        return ConflictError(message, kind="two_histories", table=self._table)

    def _directory(self) -> OpenDirectory:
        try:
            return self._log.open_dir()
        except NotFoundError as error:
            raise dropped(self._table) from error

    def _open_as_read(self, base: Snapshot | None, held: ExitStack) -> OpenDirectory | None:
        """Step 1. None if the base is not there any more: a rollback removed it.

        Where a directory is held, it is opened before anything else: of a table that is created
        again after the checks, the directory would be another one. An object store is asked
        everything at once: its directories are only paths, so the order of the answers tells
        nothing.
        """
        opened: list[OpenDirectory] = []
        is_held = self._fileio.holds_directories

        def open_directory() -> bool:
            opened.append(held.enter_context(self._directory()))
            return True

        def has_base() -> bool:
            if base is None:
                return True
            path = self._paths.snapshot(base.id)
            if is_held:
                return self._fileio.exists(path, within=opened[0])
            return self._fileio.exists(path)

        steps = [[open_directory], [self._check_same, has_base]]
        if not is_held:
            steps = [[call for step in steps for call in step]]
        threads = self._env.reads.ranges
        found = [all(at_once(self._fileio, threads, calls)) for calls in steps]
        return opened[0] if all(found) else None

    def _after_put(
        self, candidate: Candidate, *, done: bool, failure: StorageError | None
    ) -> _AfterPut:
        """Steps 2 and 3: our snapshot as it is now, then our table, then our base.

        A put that was acknowledged took effect before, so all three questions come after it and
        their order does not matter: a remote storage is asked at once. One that was not may take
        effect at any moment up to the answer that shows it, and the table and the base must be
        looked at after that.
        """
        snapshot = candidate.snapshot
        after = _AfterPut()

        def read_back() -> None:
            after.outcome = self._outcome(snapshot, done=done, failure=failure)

        def look_at_table() -> None:
            after.other_table = self._other_table()

        def look_at_base() -> None:
            if self._has_base(candidate.base):
                return
            if self._is_rolled_back(snapshot):
                after.is_rolled_back = True
            else:
                after.may_be_passed = True

        def look_below_base() -> None:
            if self._is_set_aside(candidate.base):
                after.is_rolled_back = True

        if done and self._fileio.is_remote:
            calls = [read_back, look_at_table, look_at_base, look_below_base]
            calls.append(partial(self._look_from_hint, candidate, after))
            at_once(self._fileio, self._env.reads.ranges, calls)
            return after
        read_back()
        if done or after.outcome is not Outcome.LOST:
            look_at_table()
        if after.outcome is Outcome.PUBLISHED and after.other_table is None:
            look_at_base()
            look_below_base()
            self._look_from_hint(candidate, after)
        return after

    def _outcome(self, snapshot: Snapshot, *, done: bool, failure: StorageError | None) -> Outcome:
        try:
            found = self._read_back(snapshot.id)
        except (StorageError, CorruptError, UnsupportedError) as error:
            if done:
                return Outcome.PUBLISHED
            raise outcome_unknown(self._table, failure or error) from error
        if found is None:
            return Outcome.PUBLISHED if done else Outcome.IN_DOUBT
        return Outcome.PUBLISHED if is_same_snapshot(snapshot, found) else Outcome.LOST

    def _has_base(self, base: Snapshot | None) -> bool:
        """Whether the base is there as it was read, as far as the storage says."""
        if base is None:
            return True
        try:
            found = self._read_back(base.id)
        except TidelakeError:
            return True
        return found is not None and _is_same_base(base, found)

    def _is_rolled_back(self, snapshot: Snapshot) -> bool:
        """Whether a rollback had removed the base of a snapshot, and not an expiry.

        Others may have committed since the rollback and given another snapshot the base's number. A
        base that has expired leaves nothing older. The snapshot is there: no failure is raised.
        """
        try:
            oldest = self._log.earliest_id()
        except TidelakeError:
            return False
        return oldest is not None and oldest < snapshot.id

    def _may_be_passed(
        self, snapshot: Snapshot, after: _AfterPut, directory: OpenDirectory
    ) -> bool:
        """Whether something says so; of the first snapshot EARLIEST does, which it makes."""
        if after.outcome is not Outcome.PUBLISHED:
            return after.outcome is Outcome.IN_DOUBT
        if snapshot.id == 1 and not self._log.begin_earliest(within=directory):
            with suppress(TidelakeError):  # a storage that is away tells nothing
                return self._log.is_passed(snapshot.id)
        return after.may_be_passed

    def _beside_expiry(
        self, candidate: Candidate, directory: OpenDirectory, outcome: Outcome
    ) -> Outcome:
        """The outcome for a snapshot below the oldest one that is kept; as given, if it is not.

        It has expired since it was put, or others had taken its number and theirs has expired: then
        it is below snapshots that do not build on it, and no reader comes to it. An expiry goes
        from the oldest on. So as long as ours is there, so is the one that was built on it.

        Raises
        ------
        OutcomeUnknownError
            Nothing is left that tells the one from the other, or the storage cannot be asked.
        """
        snapshot = candidate.snapshot
        try:
            if not self._log.is_passed(snapshot.id):
                return outcome
            behind = self._log.find(snapshot.id + 1)
            is_told = behind is not None and names_base(behind)
            if behind is not None and is_told and follows(behind, snapshot):
                return Outcome.PUBLISHED
            if self._is_in_newest(candidate):
                return Outcome.PUBLISHED
            found = self._read_back(snapshot.id) if behind is None else None
        except TidelakeError as error:
            raise outcome_unknown(self._table, error) from error
        if is_told or (found is not None and is_same_snapshot(snapshot, found)):
            is_published = outcome is Outcome.PUBLISHED
            return self._withdraw(snapshot, directory) if is_published else outcome
        raise self._expired_unseen(snapshot)

    def _is_in_newest(self, candidate: Candidate) -> bool:
        """Whether the newest snapshot's manifests name a data file that the commit added."""
        newest, entries = self._log.latest(), candidate.entries
        if newest is None or newest.id <= candidate.snapshot.id:
            return False
        added = entries["kind"] == FileKind.ADD
        names = set(entries["file_name"].filter(pa.array(added)).to_pylist())
        names -= set(entries["file_name"].filter(pa.array(~added)).to_pylist())  # moved by it
        known, manifests = pa.array(sorted(names), pa.string()), self._context.manifests
        files = manifest_files(self._fileio, self._paths, newest, manifests)
        tables = read_manifests(self._fileio, self._paths, files, manifests)
        return any(pc.any(pc.is_in(table["file_name"], known)).as_py() for table in tables)

    def _expired_unseen(self, snapshot: Snapshot) -> OutcomeUnknownError:
        message = (
            f"Others committed to table '{self._table}' while a commit to it was being published as"
            f" snapshot {snapshot.id}. That snapshot and more than that has expired, so nothing"
            " tells whether they built on it. Nothing was deleted. Look for its rows in the table,"
            " and keep snapshots longer than a commit may stand still by"
            " 'snapshot.time-retained'."
        )
        return OutcomeUnknownError(message, table=self._table)

    def _is_set_aside(self, base: Snapshot | None) -> bool:
        """Whether the base itself came back after a rollback had removed it: in a store alone."""
        if base is None or self._fileio.holds_directories:
            return False
        try:
            return not self._log.is_on_chain(base)
        except TidelakeError:
            return False

    def _look_from_hint(self, candidate: Candidate, after: _AfterPut) -> None:
        """Whether the base came back with what it follows, or above a gap: in a store alone.

        A rollback moves LATEST to its target before it removes anything. So a hint below the base
        may be one, and then readers do not come to our snapshot. One that is not below ours is of
        others, who have built on it, or who had its number before.
        """
        snapshot_id = candidate.snapshot.id
        if candidate.base is None or self._fileio.holds_directories:
            return
        hint = self._log.announced_latest_id()
        if hint is not None and hint >= snapshot_id:
            after.may_be_passed = True
            return
        with suppress(TidelakeError):
            after.is_rolled_back |= not self._log.is_reached(snapshot_id, hint)

    def _withdraw(self, snapshot: Snapshot, directory: OpenDirectory) -> Outcome:
        """Remove a snapshot whose base was rolled back: it would bring back what that removed.

        In a store it stays where others have committed meanwhile up to its id: it is set aside, and
        the next commit, mostly our own, is put over it. A delete could take that commit.
        """
        try:
            if not self._fileio.holds_directories and not self._log.is_on_chain(snapshot):
                return Outcome.TAKEN_BACK
            if self._remove(snapshot, directory):
                return Outcome.TAKEN_BACK
            # another commit builds on it already, so it is part of the table's history
            found = self._read_back(snapshot.id)
        except (StorageError, NotFoundError, CorruptError, UnsupportedError) as error:
            raise outcome_unknown(self._table, error) from error
        if found is None or not is_same_snapshot(snapshot, found):
            raise self._built_on(snapshot, "a rollback removed what it is based on")
        return Outcome.PUBLISHED

    def _remove(
        self, snapshot: Snapshot, directory: OpenDirectory, *, beside_late: bool = False
    ) -> bool:
        """Remove our snapshot; False, and it stays, if another commit builds on it already.

        With `beside_late`, a commit to our dropped table that came late, too, does not count.
        """
        if self._is_built_on(snapshot, directory, beside_late=beside_late):
            return False
        path = self._paths.snapshot(snapshot.id)
        ours = snapshot.to_json().encode()  # by now another may have the name
        self._fileio.delete(path, within=directory, reused=True, expected=ours)
        if self._is_built_on(snapshot, directory, beside_late=beside_late):
            self._log.put_back(snapshot, within=directory)
            return False
        return True

    def _is_built_on(
        self, snapshot: Snapshot, directory: OpenDirectory, *, beside_late: bool
    ) -> bool:
        next_id, incarnation = snapshot.id + 1, self._context.incarnation
        if not self._fileio.exists(self._paths.snapshot(next_id), within=directory):
            return False
        found = self._read_back(next_id)
        if found is None:
            return self._fileio.holds_directories  # the directory may be another table's by now
        if not follows(found, snapshot):
            return False  # it came late, and names another base
        return not (beside_late and incarnation is not None and incarnation.is_mark_of(found))

    def _built_on(self, snapshot: Snapshot, why: str) -> OutcomeUnknownError:
        message = (
            f"Snapshot {snapshot.id} of table '{self._table}' should not be there: {why} while it"
            " was being published. Another commit builds on it already, so it may be part of the"
            " table now. Nothing of it was deleted. Look at the table's newest snapshots."
        )
        return OutcomeUnknownError(message, table=self._table)

    def _check_same(self) -> bool:
        """Refuse another table than the one that was opened."""
        schemas = SchemaLog(self._fileio, self._paths)
        schemas.check_same(self._context.schema, table=self._table)
        return True

    def _other_table(self) -> NotFoundError | None:
        """The error of another table, after a put; None if it is the one that was opened."""
        try:
            self._check_same()
        except NotFoundError as error:
            return error
        except (StorageError, CorruptError, UnsupportedError):
            return None  # the snapshot read back decides; the directory was this table's
        return None

    def _settle(self, snapshot: Snapshot, directory: OpenDirectory, error: NotFoundError) -> None:
        """Remove our snapshot from another table, or raise that the outcome is unknown."""
        try:
            found = self._read_back(snapshot.id)
            is_ours = found is not None and is_same_snapshot(snapshot, found)
            if is_ours and self._remove(snapshot, directory, beside_late=True):
                return
            is_elsewhere = self._fileio.exists(self._paths.snapshot(snapshot.id), within=directory)
        except (StorageError, CorruptError, UnsupportedError) as failure:
            raise outcome_unknown(self._table, failure) from error
        if is_ours:
            raise self._built_on(snapshot, "the table was dropped and created again") from error
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


def _is_same_base(base: Snapshot, found: Snapshot) -> bool:
    """Whether a base is there as it was read: with no mark of a rollback since."""
    return is_same_snapshot(base, found) and link_of(base) == link_of(found)
