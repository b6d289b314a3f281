"""Holds the snapshot of a batch read, so that no expiry removes what is still to be read.

1. A read has a consumer and a lease of its own (:mod:`tidelake.metadata.log.consumer`), under a new
   unique name: nobody else takes it over. It writes the lease, then the consumer, then reads
   EARLIEST: the fence of :mod:`tidelake.table.stream.lease`. If EARLIEST is ahead, the snapshot is
   about to go; nothing is held, and a read of the newest snapshot is planned again.
2. ``read.hold`` says when. ``late``, the default: once the read has lasted a quarter of the time
   for which the table still keeps the snapshot, so that most reads write nothing; after
   :data:`WAIT_MS` where the table also limits the number of snapshots; at once on a local disk
   where its retention could expire the snapshot within minutes. ``auto``: at once where that is
   cheap or the snapshot threatened so; else once the read has lasted :data:`WAIT_MS`.
   ``always``: at once, or the read fails. ``never``.
3. The keeper of the process (:mod:`tidelake.telemetry.keeper`) renews a hold, begins one that
   waited, and ends one whose read was collected by the garbage collector. In an environment without
   a running one only ``always`` holds.
4. A hold ends with :meth:`ReadHold.release`, when the last object that reads by it is collected, or
   in order with the process. What a killed process held lapses: at once on the same machine, else
   after :data:`~tidelake.metadata.log.consumer.READ_RETAINED_MS`.

A table that may not be written is read without a hold. That is tried once per catalog and table,
and logged once. A forked child does not end what its parent holds, and a copy by pickle holds
nothing: who made the read keeps it.

Cost on a local disk: 0.2 ms (``bench/run.py``). On an object store two puts and a read at the
begin, two deletes at the end, a read and two puts every 20 s.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import weakref
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Self

from tidelake.errors import NotFoundError, StorageError, StorageRefusedError
from tidelake.metadata.log.consumer import (
    LEASE_TIMEOUT_MS,
    READ_RETAINED_MS,
    ConsumerLog,
    Lease,
)
from tidelake.metadata.log.schema_log import SchemaLog
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.table_state import TableState
from tidelake.options import Options, declared
from tidelake.telemetry import Keeper, ProcessMark, process_name

WAIT_MS = 3_000
"""How long a read on a remote storage lasts before it is held, if nothing threatens it."""
SOON_COMMITS = 5
SOON_MS = 300_000
"""A retention of so few commits, or of so short a time, threatens a read at once."""
LATE_PARTS = 4
"""``late`` waits for this part of the time for which the table still keeps the snapshot."""
TABLES_MAX = 10_000
"""Tables that may not be written which a catalog remembers."""
_MAY_NOT = frozenset({"not_writable", "no_permission"})
_LOG = logging.getLogger("tidelake")


def is_forbidden(error: StorageError) -> bool:
    """Whether a storage says that the table may not be written, by these credentials or at all."""
    return error.kind in _MAY_NOT or isinstance(error, StorageRefusedError)


@dataclass(frozen=True, slots=True)
class HoldPolicy:
    """When a read holds its snapshot. Pure.

    Parameters
    ----------
    is_old : bool
        Whether an older snapshot than the newest is read.
    age_ms : int
        The age of the snapshot.
    """

    options: Options
    is_remote: bool
    is_old: bool = False
    age_ms: int = 0

    @property
    def mode(self) -> str:
        """The value of ``read.hold``."""
        return str(self.options.get(declared.READ_HOLD))

    @property
    def wait_ms(self) -> int:
        """How long the read lasts before it is held; 0: it is held before it is planned."""
        mode = self.mode
        if mode == "always" or (mode == "auto" and (not self.is_remote or self.is_old)):
            return 0
        options = self.options
        keeps_ms = options.get(declared.SNAPSHOT_TIME_RETAINED)
        keeps_count = options.get(declared.SNAPSHOT_NUM_RETAINED_MAX)
        if keeps_count <= SOON_COMMITS or keeps_ms <= SOON_MS:
            return WAIT_MS if mode == "late" and self.is_remote else 0
        # with a limit to their number, commits say how long snapshots stay: no time is known
        if mode == "late" and keeps_count == declared.SNAPSHOT_NUM_RETAINED_MAX.default:
            return max(WAIT_MS, (keeps_ms - self.age_ms) // LATE_PARTS)
        return WAIT_MS


class ReadHold:
    """Holds a snapshot for one read. Threads may share it; a copy by pickle holds nothing.

    Made by :meth:`ReadHolds.hold`. It ends with :meth:`release`, a ``with`` block, or when it is
    collected.
    """

    __slots__ = ("__weakref__", "_ending", "_held")

    def __init__(self, held: _HeldRead | None = None) -> None:
        self._held = held
        self._ending = None
        if held is not None:
            self._ending = weakref.finalize(self, held.let_go)
            self._ending.atexit = False  # the keeper does it

    @property
    def age_ms(self) -> int:
        """How long ago the read began; 0 if nothing is held."""
        return 0 if self._held is None else self._held.age_ms

    @property
    def waits_ms(self) -> int:
        """How long a hold that has not begun still waits; not more than 0 if it is due."""
        return 0 if self._held is None else self._held.waits_ms

    @property
    def subject(self) -> tuple[str, int] | None:
        """The snapshot that it holds or will hold: its branch's directory, its id; None if none."""
        held = self._held
        return None if held is None or held.is_over else held.subject

    @property
    def consumer_id(self) -> str | None:
        """The consumer that holds the snapshot now; None if none does."""
        held = self._held
        return None if held is None or not held.is_held else held.consumer_id

    def begin(self) -> bool:
        """Hold it now, if the options say at once; False if the snapshot is about to expire.

        Raises
        ------
        StorageError
            It could not be held, and ``read.hold`` is ``always``.
        """
        return self._held is None or self._held.begin()

    def release(self) -> None:
        """Let the snapshot go; may be called more than once."""
        if self._ending is not None:
            self._ending.detach()
        if self._held is not None:
            self._held.release()

    def outlive(self) -> None:
        """Let what is held outlive this process: nobody renews it, and after an hour it lapses."""
        if self._ending is not None:
            self._ending.detach()
        if self._held is not None:
            self._held.outlive()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __reduce__(self) -> tuple[object, ...]:
        return (ReadHold, ())


class ReadHolds:
    """What the reads of a catalog hold. Picklable; a copy remembers nothing."""

    def __init__(self) -> None:
        self._unwritable: set[str] = set()

    def hold(self, table: TableState, snapshot: Snapshot | None, policy: HoldPolicy) -> ReadHold:
        """Hold a snapshot, or wait for the time when it is to be held.

        Returns
        -------
        ReadHold
            Holds nothing if there is no snapshot, the options say so, or nobody would tend it.
            :meth:`ReadHold.begin` begins one that is to begin at once.
        """
        if snapshot is None or not self.wants(table, policy):
            return ReadHold()
        if policy.mode == "late":
            age_ms = max(0, table.env.clock.now_ms() - snapshot.time_ms)  # a clock may be ahead
            policy = replace(policy, age_ms=age_ms)
        held = _HeldRead(table, snapshot.id, policy, self)
        table.env.keeper.keep(held)
        return ReadHold(held)

    def wants(self, table: TableState, policy: HoldPolicy) -> bool:
        """Whether reads of a table are to be held: the options say so, and somebody tends."""
        if policy.mode in {"never", "always"}:
            return policy.mode == "always"
        return table.env.keeper.is_running and self.may_hold(table.uri)

    def may_hold(self, uri: str) -> bool:
        """Whether the table of this location may be written, as far as is known."""
        return uri not in self._unwritable

    def note_unwritable(self, uri: str, error: StorageError) -> None:
        """Remember that a table may not be written; the first time is logged."""
        if uri in self._unwritable or len(self._unwritable) >= TABLES_MAX:
            return
        self._unwritable.add(uri)
        _LOG.info(
            "Reads of table %s go on without a hold, since the table may not be written: an expiry"
            " may take what they have not read yet. %s",
            uri,
            error.message,
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (ReadHolds, ())


class _HeldRead:
    """The files of a hold. The reader's threads and the keeper's use it."""

    def __init__(
        self, table: TableState, snapshot_id: int, policy: HoldPolicy, holds: ReadHolds
    ) -> None:
        self._table = table
        self._snapshot_id = snapshot_id
        self._policy = policy
        self._holds = holds
        self._log = ConsumerLog(table.fileio, table.paths)
        self._mark = ProcessMark()
        self._guard = threading.Lock()
        self._made_ms = table.env.clock.now_ms()
        self._lease: Lease | None = None
        self._is_wanted = True
        self._is_waiting = True
        self.is_over = False

    @property
    def consumer_id(self) -> str:
        """The name of its consumer; empty before it is held."""
        return "" if self._lease is None else self._lease.consumer_id

    @property
    def age_ms(self) -> int:
        """How long ago it was made."""
        return self._table.env.clock.now_ms() - self._made_ms

    @property
    def waits_ms(self) -> int:
        """How long it still waits, if it has not begun."""
        return self._policy.wait_ms - self.age_ms

    @property
    def subject(self) -> tuple[str, int]:
        """The directory of the table's branch, and the snapshot's id."""
        return self._table.branch_uri, self._snapshot_id

    @property
    def is_held(self) -> bool:
        """Whether its files were written."""
        return self._lease is not None and not self.is_over

    def begin(self) -> bool:
        """Hold it now, unless it is to wait; False if the snapshot is about to expire."""
        if self._policy.wait_ms or not self._mark.is_here:
            return True
        with self._guard:
            return self._ensure()

    def _ensure(self) -> bool:
        if self.is_over or self._lease is not None:
            return True
        self._is_waiting = False
        try:
            is_free = self._begin()
        except StorageError as error:
            self._end()
            if self._policy.mode == "always":
                raise
            if is_forbidden(error):
                self._holds.note_unwritable(self._table.uri, error)
            else:
                _LOG.info("A read of table %s is not held. %s", self._table.uri, error.message)
            return True
        except NotFoundError:  # the table was dropped; the read will say so
            self._end()
            return True
        if not is_free or not self._is_wanted:
            self._end()
        if not is_free and self._policy.mode == "always":
            raise self._expired()
        return is_free

    def tend(self) -> None:
        """Hold it if it has waited enough; renew it if that is due."""
        if not self._mark.is_here:
            self.is_over = True
            return
        with self._guard:
            if self.is_over:
                return
            if not self._is_wanted:
                self._end()
                return
            now_ms = self._table.env.clock.now_ms()
            if self._lease is None:
                if self.age_ms >= self._policy.wait_ms:
                    self._ensure()
            elif 3 * (now_ms - self._lease.renewed_ms) >= self._lease.timeout_ms:
                self._renew(self._lease, now_ms)

    def let_go(self) -> None:
        """Its read was collected. For a finalizer: no wait, no lock, no call to a storage."""
        self._is_wanted = False
        if not self._is_waiting:
            self._keeper.end(self)

    def release(self) -> None:
        """Remove its files; in the background if the keeper is at work on it."""
        if self.is_over or not self._mark.is_here:
            return
        self._is_wanted = False
        if self._guard.acquire(blocking=False):
            try:
                with contextlib.suppress(StorageError):  # then it lapses
                    self._end()
            finally:
                self._guard.release()
        else:
            self._keeper.end(self)

    def outlive(self) -> None:
        """Leave its files to their time, with no process; no later than now it ends here."""
        if not self._mark.is_here:
            return
        with self._guard:
            lease, self._lease = self._lease, None
            self.is_over = True
            if lease is not None:
                with contextlib.suppress(StorageError, NotFoundError):  # then it ends sooner
                    now_ms = self._table.env.clock.now_ms()
                    self._write(replace(lease, process="", renewed_ms=now_ms))

    def end(self) -> None:
        """Remove its files, for the keeper."""
        if self._mark.is_here:
            with self._guard:
                self._end()

    @property
    def _keeper(self) -> Keeper:
        return self._table.env.keeper

    def _begin(self) -> bool:
        """Write lease and consumer, then look at EARLIEST; False if it is ahead."""
        table = self._table
        # a table that was created anew at this path gets no file of a read of the old one
        SchemaLog(table.fileio, table.paths).check_same(table.schema, table=table.uri)
        name = f"read-{table.env.ids.uuid()}"
        now_ms = table.env.clock.now_ms()
        lease = Lease(
            name,
            1,
            name,
            self._snapshot_id,
            now_ms,
            LEASE_TIMEOUT_MS,
            READ_RETAINED_MS,
            process_name(),
            began_ms=now_ms,
        )
        self._lease = lease
        self._write(lease)
        announced = table.snapshots.announced_earliest_id()
        if announced is None or announced <= self._snapshot_id:
            return True
        earliest = table.snapshots.earliest_id()  # after a rollback EARLIEST may be ahead
        return earliest is None or earliest <= self._snapshot_id

    def _renew(self, lease: Lease, now_ms: int) -> None:
        if self._log.lease_of(lease.consumer_id, lease.term) is None:
            # forgotten while this process was stopped, or the table was renamed or dropped
            self._lease = None
            self._ensure()
            return
        renewed = replace(lease, renewed_ms=now_ms)
        self._write(renewed)
        self._lease = renewed

    def _write(self, lease: Lease) -> None:
        """Write both files, the lease first: a consumer alone would hold for ever."""
        with ExitStack() as stack:
            place = None
            if self._table.fileio.holds_directories:  # else a check of the path, and no more
                place = stack.enter_context(self._log.open_dir())
            self._log.write_lease(lease, within=place)
            self._log.record(lease.consumer_id, self._snapshot_id, within=place)

    def _expired(self) -> NotFoundError:
        table = self._table
        message = (
            f"Snapshot {self._snapshot_id} of table {table.uri} is about to expire, so it cannot be"
            " held as 'read.hold' = 'always' asks: read a newer one."
        )
        return NotFoundError(message, kind="snapshot_expired", snapshot=self._snapshot_id)

    def _end(self) -> None:
        self.is_over = True
        lease, self._lease = self._lease, None
        if lease is not None:
            self._log.delete_own(lease)
