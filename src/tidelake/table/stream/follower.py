"""Loads the snapshots of a table for a stream, and finds out which ones are lost.

For each snapshot it answers three questions: may the stream go past it, what does it give, and what
does an offset inside it mean? Offsets hold all state. The fields here are caches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidelake.errors import InvalidInputError, NotFoundError, UnsupportedError
from tidelake.metadata.log.snapshot import CommitKind, Snapshot
from tidelake.options import declared
from tidelake.scan import ReadContext
from tidelake.table.handle.handle import TableHandle
from tidelake.table.stream.offset import (
    Phase,
    StreamOffset,
    snapshot_identity,
    table_identity,
)
from tidelake.table.stream.schema_fit import check_restart, check_running
from tidelake.table.stream.snapshot_units import ChangeSource, SnapshotChanges
from tidelake.table.stream.units import SnapshotUnits


class Follower:
    """Loads the snapshots of one table; for one thread at a time.

    Parameters
    ----------
    end_id : callable
        Gives the last snapshot of a bounded stream; None for an unbounded one.

    Raises
    ------
    UnsupportedError
        The table has no changes to stream.
    InvalidInputError
        Options contradict each other.
    """

    def __init__(self, handle: TableHandle, end_id: Callable[[], int | None]) -> None:
        self.handle = handle
        self.table = handle.identifier
        self._end_id = end_id
        self._changes = SnapshotChanges.of(handle)
        self._delay_ms = handle.options.get(declared.STREAMING_READ_SNAPSHOT_DELAY) or 0
        self._bound = handle.options.get(declared.SCAN_BOUNDED_WATERMARK)
        self._context: ReadContext | None = None
        self._identity: str | None = None
        self._units: tuple[tuple[object, ...], SnapshotUnits] | None = None
        self._followed: tuple[str, str] | None = None
        """Identities of the snapshot that was compared last, and of the one before it."""

    @property
    def identity(self) -> str:
        """Identity of the table, which a later table of its name does not have; read once."""
        if self._identity is None:
            self._identity = table_identity(self.handle.fileio, self.handle.paths, self.table)
        return self._identity

    # ---- offsets

    def at(
        self, snapshot_id: int, *, phase: Phase = "delta", created_ms: int | None = None
    ) -> StreamOffset:
        """An offset before a snapshot."""
        return StreamOffset(
            self.identity, self.handle.schema.id, snapshot_id, phase=phase, created_ms=created_ms
        )

    def behind(self, snapshot: Snapshot) -> StreamOffset:
        """The offset behind a snapshot that was read."""
        before = snapshot_identity(snapshot)
        return StreamOffset(self.identity, self.handle.schema.id, snapshot.id + 1, before=before)

    def identified(self, offset: StreamOffset) -> StreamOffset:
        """Add the identity of the previous snapshot to an offset, if that snapshot exists."""
        before = self.kept(offset.snapshot - 1) if offset.snapshot > 1 else None
        return offset if before is None else replace(offset, before=snapshot_identity(before))

    def check(self, offset: StreamOffset) -> None:
        """Refuse an offset of another table, or with columns that the table no longer has.

        Raises
        ------
        NotFoundError
            The offset belongs to another table, perhaps one that was dropped and created again.
        UnsupportedError
            A column was renamed, dropped or given another type.
        """
        if offset.table != self.identity:
            self._check_same_table()
            message = (
                f"Stream of table '{self.table}': the checkpoint is of another table, or this one"
                " was dropped and recreated. Begin with a new checkpoint."
            )
            raise NotFoundError(message, kind="stream_table_recreated", table=self.table)
        own = self.handle.schema
        if offset.schema < own.id:
            old = self.read_context().schemas.get(offset.schema)
            if old is not None:
                check_restart(old, own, snapshot_id=offset.snapshot, table=self.table)

    def inside(self, offset: StreamOffset, units: SnapshotUnits) -> int:
        """Count the units of a snapshot that an offset has passed.

        Raises
        ------
        InvalidInputError
            The snapshot is now cut into other units.
        """
        if not offset.index:
            return 0
        if offset.index > units.count or offset.mark != units.mark:
            message = (
                f"Stream of table '{self.table}': the checkpoint has {offset.index} parts of"
                f" snapshot {offset.snapshot}, which is read in other parts now. Read it with the"
                " options that the checkpoint was written with ('scan.plan-sort-partition',"
                " 'changelog-producer', 'streaming-read-overwrite'), or begin with a new"
                " checkpoint."
            )
            raise InvalidInputError(
                message, kind="stream_offset", table=self.table, snapshot=offset.snapshot
            )
        return offset.index

    # ---- snapshots

    def kept(self, snapshot_id: int, *, phase: Phase = "delta") -> Snapshot | None:
        """Load a snapshot from its file; else a tag for its state, a changelog for its changes."""
        try:
            if phase == "full":
                return self.handle.time_travel.by_id(snapshot_id)
            return self.handle.snapshots.load_or_changelog(snapshot_id)
        except NotFoundError:
            return None

    def load(self, at: StreamOffset, *, is_begin: bool) -> Snapshot | None:
        """Load the snapshot that a stream gives next; None if it does not exist yet.

        Parameters
        ----------
        is_begin : bool
            Whether an earlier call made the offset: then its last snapshot is compared.

        Raises
        ------
        NotFoundError
            The snapshot has expired, the table was rolled back, or the table was created again.
        """
        log, number, full = self.handle.snapshots, at.snapshot, at.phase == "full"
        found, base = self._found(number)
        if found is None and not full and number > 1:
            before = log.find(number - 1)
            if before is not None:  # the common case: a stream that waits
                self._check_before(at, before)
                return None
        if found is None:
            found = self._kept_or_lost(at)
        if found is not None and is_begin:
            self._check_history(at, found, base)
        return found

    def _found(self, number: int) -> tuple[Snapshot | None, Snapshot | None]:
        """Read a snapshot on the chain, and the one before it unless both are known to fit."""
        found = self.handle.snapshots.find(number)
        if found is None or (self._followed and self._followed[0] == snapshot_identity(found)):
            return found, None
        is_on_chain, base = self.handle.snapshots.with_base(found)
        return (found if is_on_chain else None), base

    def _kept_or_lost(self, at: StreamOffset) -> Snapshot | None:
        """Load a snapshot without its file, by tag or changelog; None if it does not exist yet."""
        log, number, full = self.handle.snapshots, at.snapshot, at.phase == "full"
        latest_id, earliest_id = log.latest_id(), log.earliest_id()
        if not full and number == (latest_id or 0) + 1:
            self._check_same_table()
            return None
        found = self.kept(number, phase=at.phase)
        if found is not None:
            return found
        self._check_same_table()
        if latest_id is None or earliest_id is None:
            what = "the table has no snapshots"
        elif number < earliest_id:
            what = f"it has expired; snapshots {earliest_id} to {latest_id} can be read"
        else:
            raise self.rolled_back(number)
        raise self._lost(number, what)

    def _check_history(self, at: StreamOffset, snapshot: Snapshot, base: Snapshot | None) -> None:
        """Refuse an offset whose last snapshot is not the one before `snapshot`.

        The one before is read after `snapshot`: in the other order a rollback could come between
        the two reads. The result never changes, so the parts of a batch need no second check.
        """
        if at.before is None or self._followed == (snapshot_identity(snapshot), at.before):
            return
        before = base or self.kept(at.snapshot - 1)
        if before is not None:
            self._check_before(at, before)
        else:
            earliest_id = self.handle.snapshots.earliest_id()
            if earliest_id is not None and earliest_id < at.snapshot:
                raise self.rolled_back(at.snapshot)  # the file was removed, and older ones exist
        self._followed = (snapshot_identity(snapshot), at.before)

    def _check_before(self, at: StreamOffset, before: Snapshot) -> None:
        if at.before not in (None, snapshot_identity(before)):
            self._check_same_table()
            raise self.replaced(before.id)

    def replaced(self, snapshot_id: int) -> NotFoundError:
        """Make the error for a snapshot that was rolled back and whose id was used again."""
        message = (
            f"Stream of table '{self.table}' cannot go on: the table was rolled back, and snapshot"
            f" {snapshot_id} is not the one that the stream has read. The target still holds rows"
            " of the removed snapshots. Begin with a new checkpoint and 'scan.mode' ="
            " 'latest-full' into an empty target, or undo these rows there and begin with"
            " 'from-snapshot' behind the snapshot that the table was rolled back to."
        )
        return NotFoundError(message, kind="stream_expired", table=self.table, snapshot=snapshot_id)

    def rolled_back(self, snapshot_id: int) -> NotFoundError:
        """Make the error for a snapshot that was removed."""
        log = self.handle.snapshots
        there = f"snapshots {log.earliest_id()} to {log.latest_id()} are there"
        return self._lost(snapshot_id, f"the table was rolled back; {there}")

    def _lost(self, snapshot_id: int, what: str) -> NotFoundError:
        message = (
            f"Stream of table '{self.table}' cannot go on at snapshot {snapshot_id}: {what}. Begin"
            " with a new checkpoint (scan.mode 'latest-full' reads all rows again, 'from-snapshot'"
            " goes on without what is lost), and keep snapshots for it by 'consumer-id' or"
            " 'snapshot.time-retained'."
        )
        return NotFoundError(message, kind="stream_expired", table=self.table, snapshot=snapshot_id)

    def source(self, snapshot: Snapshot) -> ChangeSource:
        """Find the source of a snapshot's changes.

        Raises
        ------
        UnsupportedError
            The stream must stop before it: it is an overwrite, or has other columns.
        """
        own = self.handle.schema
        if snapshot.schema_id > own.id:
            newer = self.read_context(snapshot).schemas.get(snapshot.schema_id)
            if newer is not None:
                check_running(
                    own,
                    newer,
                    snapshot_id=snapshot.id,
                    policy=self.handle.options.get(declared.READ_STREAM_SCHEMA_CHANGE),
                    table=self.table,
                )
        return self._changes.source(snapshot)

    def is_due(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot is old enough to be given: ``streaming.read.snapshot.delay``."""
        return not self._delay_ms or self.waited_ms(snapshot) >= self._delay_ms

    def waited_ms(self, snapshot: Snapshot) -> int:
        """Time since a snapshot was committed, ms."""
        return self.handle.env.clock.now_ms() - snapshot.time_ms

    def ends_before(self, snapshot: Snapshot) -> bool:
        """Whether the stream ends before a snapshot's changes."""
        end_id = self._end_id()
        return (end_id is not None and snapshot.id > end_id) or self._is_beyond(snapshot)

    def is_ended(self, offset: StreamOffset) -> bool:
        """Whether the stream has ended at an offset."""
        end_id = self._end_id()
        if end_id is not None and offset.snapshot > end_id:
            return True
        if self._bound is None or offset.index or offset.phase == "full":
            return False
        # the one before counts too: after a full phase no later snapshot may be given
        around = [self.kept(n) for n in (offset.snapshot - 1, offset.snapshot) if n]
        return any(snapshot is not None and self._is_beyond(snapshot) for snapshot in around)

    def _is_beyond(self, snapshot: Snapshot) -> bool:
        bound, watermark = self._bound, snapshot.watermark
        return bound is not None and watermark is not None and watermark > bound

    def _check_same_table(self) -> None:
        """Refuse a table that was recreated since it was opened."""
        self.handle.schemas.check_same(self.handle.schema, table=self.table)

    # ---- what they give

    def read_context(self, snapshot: Snapshot | None = None) -> ReadContext:
        """Give the context for reading; open it again for a snapshot with an unknown schema."""
        context = self._context
        if context is None or (snapshot and snapshot.schema_id not in context.schemas):
            context = self._context = self.handle.read_context()
        return context

    def units(
        self, snapshot: Snapshot, *, phase: Phase, created_ms: int | None = None
    ) -> SnapshotUnits:
        """Give the units of a snapshot; the last result is cached."""
        key = (snapshot.id, snapshot.base_manifest_list, phase, created_ms)
        if self._units is None or self._units[0] != key:
            context = self.read_context(snapshot)
            if phase == "full":
                units = self._changes.state(context, snapshot, created_ms)
            else:
                source = self._changes.source(snapshot)
                units = self._changes.changes(context, snapshot, source)
            self._units = key, units
        return self._units[1]

    def is_replaced(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot replaced rows, and may have assigned their buckets anew."""
        if snapshot.commit_kind is CommitKind.OVERWRITE:
            return True
        return self._changes.source(snapshot) in {ChangeSource.REPLACED, ChangeSource.DIFF}

    def sizes(self, snapshot: Snapshot, offset: StreamOffset) -> tuple[int, int]:
        """Count the rows and bytes of a snapshot behind an offset."""
        phase: Phase = offset.phase if snapshot.id == offset.snapshot else "delta"
        try:
            units = self.units(snapshot, phase=phase, created_ms=offset.created_ms)
        except UnsupportedError:  # the stream will stop there
            return 0, 0
        given = offset.index if snapshot.id == offset.snapshot else 0
        return int(units.rows[given:].sum()), int(units.bytes[given:].sum())
