"""Leases: a run of a reader holds snapshots, so that expiry keeps what it still reads.

A lease belongs to a consumer (:mod:`tidelake.metadata.log.consumer`). The expiry of Java Paimon
honours the consumer's file, too. The order of steps is the fence between a reader and our expiry:

- the reader writes its lease and its consumer, then reads EARLIEST, then reads data;
- an expiry writes EARLIEST, then lists leases and consumers, then removes.

So either the expiry sees the lease, or the reader sees the new EARLIEST and is refused. A reader
whose consumer already holds the snapshot does not read EARLIEST: where an expiry finds a new lease
it keeps the snapshots but does not turn EARLIEST back. Java Paimon's expiry writes EARLIEST last. A
reader that begins at a snapshot which Java removes at that moment may still lose it; it fails with
an error that says so.

Of two runs of one consumer the second is refused while the first is live. A run that was silent for
:data:`LEASE_TIMEOUT_MS`, or whose process has ended, is taken over; if it goes on later, its next
call is refused. Its next call is refused, too, if the consumer was reset or removed meanwhile. No
thread renews a lease: its holder does so when it reads on.

A table that may not be written takes no lease. A reader whose progress nobody asked for goes on
without one, with a warning. If an expiry overtakes it, its next snapshot or file is missing, and it
stops.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tidelake.errors import (
    ClosedError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    StorageError,
)
from tidelake.fileio import OpenDirectory, validate_name
from tidelake.metadata.log.consumer import (
    LEASE_TIMEOUT_MS,
    READ_RETAINED_MS,
    ConsumerLog,
    ConsumerState,
    Lease,
)
from tidelake.metadata.log.long_lived_changelog import KeptChangelogs
from tidelake.options import declared
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.read_hold import is_forbidden
from tidelake.telemetry import ProcessMark, process_name

TAKE_TRIES = 3
"""An expiry, or a reset of the consumer, may end the lease while it is taken."""
_ENDED_ELSEWHERE: set[str] = set()
"""Runs of this process that ended while their lease was not where they had written it."""
_LOG = logging.getLogger("tidelake")


class StreamLease:
    """A consumer that this run uses. For one thread and one process; not picklable.

    Made by :meth:`open` or :meth:`open_if_writable`. Ends with :meth:`close`, or a ``with`` block.

    Parameters
    ----------
    place : OpenDirectory, optional
        Where it stands; without it nothing is held.
    """

    def __init__(self, handle: TableHandle, lease: Lease, place: OpenDirectory | None) -> None:
        self._handle = handle
        self._lease = lease
        self._place = place
        self._log = ConsumerLog(handle.fileio, handle.paths)
        self._mark = ProcessMark()
        self._is_closed = False

    @classmethod
    def open(  # noqa: PLR0913 - each is one property of the lease
        cls,
        handle: TableHandle,
        consumer_id: str,
        next_snapshot: int,
        *,
        run_id: str,
        of_state: bool = False,
        timeout_ms: int = LEASE_TIMEOUT_MS,
        retained_ms: int | None = None,
        before: str | None = None,
        begins: bool = False,
    ) -> StreamLease:
        """Take a consumer and hold the snapshots from `next_snapshot` on.

        Parameters
        ----------
        consumer_id : str
            The consumer. Its progress becomes `next_snapshot`, which may be less than before.
        next_snapshot : int
            The oldest snapshot that will be read; it need not exist yet.
        run_id : str
            Name of this run; the same run may open its lease again.
        of_state : bool
            Whether the run reads the rows of that snapshot, and not only its changes. A long-lived
            changelog is not enough then.
        timeout_ms : int
            How long this run may be silent before another may take over.
        retained_ms : int, optional
            Silence after which the consumer is forgotten; by default ``consumer.expiration-time``,
            which is never.
        before : str, optional
            Identity of the snapshot before `next_snapshot`, for a later run to compare.
        begins : bool
            Whether the run reads the consumer's first full state: the consumer gets no progress,
            and its closed lease says that the state was not read to its end.

        Raises
        ------
        ConflictError
            Another live run uses the consumer.
        NotFoundError
            The snapshot has expired (the message names the range that is kept), or the table was
            dropped.
        InvalidInputError
            The name or a number is not allowed.
        """
        validate_name(consumer_id, "consumer")
        _check_next(handle, next_snapshot)
        log = ConsumerLog(handle.fileio, handle.paths)
        place = log.open_dir()
        try:
            # open the directory before the check: a new table at this path gets no lease
            handle.schemas.check_same(handle.schema, table=handle.identifier)
            now_ms = handle.env.clock.now_ms()
            asked = Lease(
                consumer_id,
                1,
                run_id,
                next_snapshot,
                now_ms,
                timeout_ms,
                retained_ms,
                process_name(),
                before=before,
                of_state=begins,
            )
            before_id = _held_before(handle, log.state(consumer_id), now_ms)
            lease = _taken(handle, log, asked, place, now_ms)
            if not begins:
                log.record(consumer_id, next_snapshot, within=place)
            opened = cls(handle, lease, place)
            opened._check_fence(before_id, of_state=of_state)
        except BaseException:
            place.close()
            raise
        return opened

    @classmethod
    def open_if_writable(
        cls,
        handle: TableHandle,
        consumer_id: str,
        next_snapshot: int,
        *,
        run_id: str,
        of_state: bool = False,
        retained_ms: int | None = None,
        before: str | None = None,
    ) -> StreamLease:
        """As :meth:`open`; of a table that may not be written nothing is held, with a warning.

        For consumers whose progress nobody asked for.
        """
        try:
            return cls.open(
                handle,
                consumer_id,
                next_snapshot,
                run_id=run_id,
                of_state=of_state,
                retained_ms=retained_ms,
                before=before,
            )
        except StorageError as error:
            if not is_forbidden(error):
                raise
            reason = error.message
        _LOG.warning(
            "A read of table '%s' goes on without a hold, since the table may not be written: an"
            " expiry may take what it has not read yet, and then it stops. %s",
            handle.identifier,
            reason,
        )
        now_ms = handle.env.clock.now_ms()
        none = Lease(consumer_id, 0, run_id, next_snapshot, now_ms, LEASE_TIMEOUT_MS)
        return cls(handle, none, None)

    @property
    def consumer_id(self) -> str:
        """The consumer."""
        return self._lease.consumer_id

    @property
    def next_snapshot(self) -> int:
        """The oldest snapshot that is held."""
        return self._lease.next_snapshot_id

    def advance(self, next_snapshot: int, *, before: str | None = None) -> None:
        """Record that all before a snapshot has been read, and stop holding it.

        Parameters
        ----------
        before : str, optional
            Identity of the one before it.

        Raises
        ------
        ConflictError
            Another run took the consumer over. Its record stays.
        InvalidInputError
            The snapshot is older than the recorded one. Only a new run or ``reset_consumer`` can
            set a consumer back.
        ClosedError
            The lease was closed, or this is a forked child.
        """
        _check_next(self._handle, next_snapshot)
        if next_snapshot < self.next_snapshot:
            message = (
                f"Consumer '{self.consumer_id}' of table '{self._handle.identifier}' is at snapshot"
                f" {self.next_snapshot} and cannot go back to {next_snapshot}: stop it and call"
                " reset_consumer."
            )
            raise InvalidInputError(message, kind="consumer_backwards", consumer=self.consumer_id)
        self._write(next_snapshot, before)

    def renew(self) -> None:
        """Record that this run is alive; raises as :meth:`advance` does."""
        self._write(self.next_snapshot, self._lease.before)

    def renew_if_due(self) -> None:
        """Renew the lease if a third of its time has passed; else do nothing."""
        waited_ms = self._handle.env.clock.now_ms() - self._lease.renewed_ms
        if 3 * waited_ms >= self._lease.timeout_ms:
            self.renew()

    def close(self, *, forget: bool = False) -> None:
        """Release the consumer; may be called more than once.

        Parameters
        ----------
        forget : bool
            Whether to remove the consumer, too, so that it holds nothing. By default it stays and
            holds the unread snapshots.

        Raises
        ------
        StorageError
            The storage failed. The lease then ends with this process, or when its time is over.
        """
        if self._is_closed or not self._mark.is_here:
            return
        self._is_closed = True
        if self._place is None:
            return
        with self._place, contextlib.suppress(NotFoundError):  # the table was dropped
            newest_term = self._log.newest_term(self.consumer_id)
            if not newest_term and not self._handle.schemas.ids():
                # the table was renamed, and the lease went with it
                _ENDED_ELSEWHERE.add(self._lease.run_id)
            if newest_term != self._lease.term or not self._is_own():
                return  # it belongs to another run
            if forget and self._lease.of_state:  # the consumer may have older progress
                self._log.delete_lease(self._lease, within=self._place)
                return
            if forget:
                self._log.delete(self.consumer_id)
                return
            self._lease = replace(self._lease, is_closed=True)
            self._log.write_lease(self._lease, within=self._place)

    def __enter__(self) -> StreamLease:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, next_snapshot: int, before: str | None) -> None:
        self._mark.check(f"The lease of consumer '{self.consumer_id}'")
        if self._is_closed:
            message = f"The lease of consumer '{self.consumer_id}' is closed: open a new one."
            raise ClosedError(message, consumer=self.consumer_id)
        now_ms = self._handle.env.clock.now_ms()
        renewed = replace(
            self._lease, next_snapshot_id=next_snapshot, renewed_ms=now_ms, before=before
        )
        if self._place is None:
            self._lease = renewed
            return
        if not self._is_own():  # forgotten, and then taken by another
            raise self._lost()
        self._log.write_lease(renewed, within=self._place)
        newest_term = self._log.newest_term(self.consumer_id)
        if not newest_term:  # perhaps the table was renamed, and the lease went with it
            handle = self._handle
            handle.schemas.check_same(handle.schema, table=handle.identifier)
        if newest_term != self._lease.term:
            self._log.delete_lease(self._lease, within=self._place)
            raise self._lost()
        self._lease = renewed
        if not renewed.of_state:
            self._log.record(self.consumer_id, next_snapshot, within=self._place)

    def _is_own(self) -> bool:
        """Whether the file of this term is this run's; a missing or torn file may be."""
        found = self._log.lease_of(self.consumer_id, self._lease.term)
        return found is None or found.run_id in {"", self._lease.run_id}

    def _lost(self) -> ConflictError:
        self._is_closed = True
        assert self._place is not None
        self._place.close()
        return _taken_over(self._handle, self.consumer_id)

    def _check_fence(self, before: int | None, *, of_state: bool) -> None:
        """Read EARLIEST after the lease was written; if it is ahead, undo the lease and refuse.

        Every expiry knows what the consumer has held since a reader of it was let in.
        """
        is_held = before is not None and before <= self.next_snapshot
        if is_held and self._handle.snapshots.find(self.next_snapshot) is not None:
            return
        earliest = _earliest(self._handle, of_state=of_state)
        if earliest is None or self.next_snapshot >= earliest:
            return
        consumer_id, asked = self.consumer_id, self.next_snapshot
        latest = self._handle.snapshots.latest_id()
        if before is None:
            self._log.delete(consumer_id)
        else:
            self._log.record(consumer_id, before, within=self._place)
        self.close()
        message = (
            f"Table '{self._handle.identifier}' no longer has snapshot {asked}, from which consumer"
            f" '{consumer_id}' would read: it has expired. Snapshots {earliest} to {latest} are"
            " there: begin at one of these, and read what was missed as a full table."
        )
        raise NotFoundError(
            message, kind="snapshot_expired", table=self._handle.identifier, snapshot=asked
        )


@contextmanager
def held_snapshot(handle: TableHandle, snapshot_id: int) -> Iterator[StreamLease]:
    """Hold a snapshot during a long read, such as that of a service.

    Parameters
    ----------
    snapshot_id : int
        The snapshot whose rows are read. This snapshot and later ones stay until the block ends.

    Raises
    ------
    NotFoundError
        It has expired.

    Notes
    -----
    To hold it longer than :data:`LEASE_TIMEOUT_MS`, call :meth:`StreamLease.renew_if_due`
    regularly. After a process was killed, our expiry forgets its lease after
    :data:`READ_RETAINED_MS`, Java's after ``consumer.expiration-time``.
    """
    name = f"read-{handle.env.ids.uuid()}"
    lease = StreamLease.open_if_writable(
        handle, name, snapshot_id, run_id=name, of_state=True, retained_ms=READ_RETAINED_MS
    )
    try:
        yield lease
    finally:
        lease.close(forget=True)


def _taken(
    handle: TableHandle, log: ConsumerLog, asked: Lease, place: OpenDirectory, now_ms: int
) -> Lease:
    """Take or renew the lease."""
    for _ in range(TAKE_TRIES):
        held = log.lease(asked.consumer_id)
        if held is not None and held.run_id == asked.run_id and not held.is_closed:
            lease = replace(asked, term=held.term)
            log.write_lease(lease, within=place)
            return lease
        if held is not None and held.is_live(now_ms) and held.run_id not in _ENDED_ELSEWHERE:
            raise _in_use(handle, held, now_ms)
        lease = replace(asked, term=(0 if held is None else held.term) + 1)
        if log.take(lease, within=place):
            return lease
        rival = log.lease(asked.consumer_id)
        if rival is not None and rival.run_id == asked.run_id:
            return lease  # an earlier call of this run made it
        if rival is None or not rival.is_end:
            raise _in_use(handle, rival or lease, now_ms)
    raise _in_use(handle, lease, now_ms)


def _held_before(handle: TableHandle, state: ConsumerState, now_ms: int) -> int | None:
    """Give the snapshot that a consumer holds; None if the next expiry forgets the consumer."""
    retained_ms = handle.options.get(declared.CONSUMER_EXPIRATION_TIME)
    return None if state.is_forgotten(now_ms, retained_ms) else state.next_snapshot_id


def _earliest(handle: TableHandle, *, of_state: bool) -> int | None:
    earliest = handle.snapshots.earliest_id()
    if of_state or earliest is None:
        return earliest
    changelog_id = KeptChangelogs(handle.fileio, handle.paths).earliest_id()
    return earliest if changelog_id is None else min(earliest, changelog_id)


def _check_next(handle: TableHandle, next_snapshot: object) -> None:
    if not isinstance(next_snapshot, int) or isinstance(next_snapshot, bool) or next_snapshot < 1:
        message = f"The next snapshot of a consumer must be an id from 1 on, not {next_snapshot!r}."
        raise InvalidInputError(message, kind="consumer_next", table=handle.identifier)


def _in_use(handle: TableHandle, held: Lease, now_ms: int) -> ConflictError:
    left_ms = max(0, held.timeout_ms - (now_ms - held.renewed_ms))
    message = (
        f"Consumer '{held.consumer_id}' of table '{handle.identifier}' is in use by run"
        f" '{held.run_id}': stop that run, or use another consumer. If it was killed on another"
        f" machine, try again in {left_ms // 1000 + 1} s."
    )
    return ConflictError(
        message, kind="consumer_in_use", table=handle.identifier, consumer=held.consumer_id
    )


def _taken_over(handle: TableHandle, consumer_id: str) -> ConflictError:
    message = (
        f"Consumer '{consumer_id}' of table '{handle.identifier}' was taken over by another run,"
        " or was reset, while this one was silent: stop this one, or take another consumer."
    )
    return ConflictError(
        message, kind="consumer_taken_over", table=handle.identifier, consumer=consumer_id
    )
