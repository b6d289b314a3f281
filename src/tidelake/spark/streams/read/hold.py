"""Holds the snapshots that a source of a query still needs: one lease for each source.

1. The lease has the query's id and the source's number in the checkpoint, which all runs of the
   query share, or the ``consumer-id`` (:mod:`tidelake.table.stream.lease`). The source takes it
   before it reads the first snapshot, from the offset in the checkpoint.
2. It moves when Spark reports that a batch is done (``commit``, one batch late), never before. So a
   batch that Spark repeats after a crash can be read, and a consumer records only what was read.
3. While the query runs a thread renews the lease, since a batch may take longer than the lease's
   time. The thread ends with the query, or with Spark.
4. A query that stops leaves its consumer, which holds the next snapshots for
   :data:`SOURCE_RETAINED_MS`, or for ``consumer.expiration-time`` with a ``consumer-id``. A query
   with a temporary checkpoint cannot go on, so it leaves no consumer.

A table that may not be written is read without a hold, with a warning; with a ``consumer-id`` it is
refused.

"Next is N" in a consumer means the changes of N, not its rows. So a ``consumer-id`` has no progress
until the first full state was read whole; until then a lease in the query's name holds it, and a
lease of the consumer without progress keeps other runs and resets away.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from tidelake.engine.streams import READ_RETAINED_MS, StreamLease, StreamOffset, StreamPlan
from tidelake.engine.tables import TableHandle
from tidelake.errors import ConflictError, NotFoundError, TidelakeError
from tidelake.options import declared

SOURCE_RETAINED_MS = 7 * 24 * 3_600_000
"""How long the next snapshots of a stopped query are held."""
OPEN_TRIES_MAX = 6
OPEN_WAIT_MS = 500
"""A run that was just stopped in another process releases its lease within a second."""
LOOK_S = 5.0
"""Time between two looks whether the query runs; a lease may be silent for a minute."""
_TEMPORARY = re.compile(r"temporary-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Prefix of a checkpoint that Spark makes itself and removes with the query."""
_HOLDS: dict[str, SourceHold] = {}
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class HoldName:
    """The name by which a source holds its snapshots.

    Parameters
    ----------
    key : str
        The source: the query's id, and the source's number in it.
    is_lasting : bool
        Whether the next run of the query can go on from it.
    """

    key: str
    is_lasting: bool

    @property
    def retained_ms(self) -> int:
        """How long its snapshots stay held after the process died or the query stopped, ms."""
        return SOURCE_RETAINED_MS if self.is_lasting else READ_RETAINED_MS

    @classmethod
    def of(cls, query_id: str | None, folder: str | None, *, otherwise: str) -> HoldName:
        """The name of a source.

        Parameters
        ----------
        folder : str or None
            The source's folder in the checkpoint, ``<checkpoint>/sources/<number>``.
        otherwise : str
            A unique name for a source without either.

        Examples
        --------
        >>> HoldName.of("6f1c", "file:/c/sources/1", otherwise="x")
        HoldName(key='6f1c-1', is_lasting=True)
        """
        if query_id is None or not folder:
            return cls(otherwise, is_lasting=False)
        path = PurePosixPath(folder)
        is_temporary = _TEMPORARY.fullmatch(path.parent.parent.name) is not None
        return cls(f"{query_id}-{path.name}", is_lasting=not is_temporary)


class SourceHold:
    """Holds the snapshots that one source of a running query still reads. Safe for threads.

    Parameters
    ----------
    has_ended : callable
        Whether Spark has ended, so that it will not call :meth:`close`. A thread calls it
        regularly.
    """

    def __init__(self, plan: StreamPlan, name: HoldName, has_ended: Callable[[], bool]) -> None:
        self._plan = plan
        self._name = name
        self._has_ended = has_ended
        self._consumer_id = plan.handle.options.get(declared.CONSUMER_ID)
        self._run_id = plan.handle.env.ids.uuid()
        self._lease: StreamLease | None = None
        self._claim: StreamLease | None = None
        """Claims the consumer while its first full state is read."""
        self._guard = threading.Lock()  # a lease is for one thread at a time
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, at: StreamOffset) -> None:
        """Hold the snapshots from an offset on, before they are read.

        Parameters
        ----------
        at : StreamOffset
            In the first call: where the query goes on. Later calls keep what is held.

        Raises
        ------
        ConflictError
            Another live run reads with this checkpoint, or this consumer.
        NotFoundError
            The snapshot has expired; the message names the range that is kept.
        """
        with self._guard:
            if self._lease is not None:
                self._renew()
                return
            self._end_before()
            self._lease = self._opened(at)
        self._thread = threading.Thread(
            target=self._watch, name=f"tidelake-source-{self._name.key}", daemon=True
        )
        self._thread.start()

    def done_before(self, end: StreamOffset) -> None:
        """Release the snapshots before an offset: they were read and are not needed again.

        Raises
        ------
        ConflictError
            Another run took over during this one's silence.
        """
        with self._guard:
            lease = self._lease
            if lease is None or end.phase == "full":
                return
            if self._consumer_id is not None and lease.consumer_id != self._consumer_id:
                self._lease = self._opened(end)
                self._claim = None  # it has become the lease
                lease.close(forget=True)
            elif end.snapshot > lease.next_snapshot:
                lease.advance(end.snapshot, before=end.before)

    def close(self) -> None:
        """Release everything at the end of the query; may be called more than once."""
        self._ended.set()
        with self._guard:
            if self._lease is not None:
                is_own = self._lease.consumer_id == self._consumer_id
                # a lease that cannot be closed ends when its time is over
                with contextlib.suppress(TidelakeError):
                    self._lease.close(forget=not (is_own or self._name.is_lasting))
            self._release_claim()
        with _LOCK:
            if _HOLDS.get(self._name.key) is self:
                del _HOLDS[self._name.key]

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the thread; False after the timeout."""
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _end_before(self) -> None:
        """End the previous run of the query in this process: Spark runs a query only once."""
        with _LOCK:
            before = _HOLDS.get(self._name.key)
            _HOLDS[self._name.key] = self
        if before is not None:
            before.close()

    def _opened(self, at: StreamOffset) -> StreamLease:
        handle, first, of_state = self._plan.handle, at.snapshot, at.phase == "full"
        name = f"source-{self._name.key}"
        if self._consumer_id is not None and not of_state:
            name = self._consumer_id
        opens = StreamLease.open if self._consumer_id else StreamLease.open_if_writable
        if of_state and handle.snapshots.find(first) is None:
            first, of_state = first + 1, False  # a tag holds the state
        for left in reversed(range(OPEN_TRIES_MAX)):
            try:
                if self._consumer_id is not None and name != self._consumer_id:
                    self._take_claim(self._consumer_id, first)
                return opens(
                    handle,
                    name,
                    first,
                    run_id=self._run_id,
                    of_state=of_state,
                    retained_ms=None if name == self._consumer_id else self._name.retained_ms,
                    before=None if of_state else at.before,
                )
            except NotFoundError:
                self._release_claim()
                self._plan.next(at)  # its message fits a checkpoint
                raise
            except ConflictError as error:
                is_claimed = name == self._consumer_id or self._claim is None
                if not left and self._consumer_id is not None and is_claimed:
                    raise
                if not left:
                    self._release_claim()
                    raise _runs_already(handle, self._name.key) from error
                handle.env.clock.sleep_ms(OPEN_WAIT_MS)
        raise AssertionError

    def _take_claim(self, consumer_id: str, first: int) -> None:
        """Claim the consumer during its first full state: no other run or reset takes it."""
        if self._claim is None:
            handle = self._plan.handle
            self._claim = StreamLease.open(
                handle, consumer_id, first, run_id=self._run_id, begins=True
            )

    def _release_claim(self) -> None:
        if self._claim is not None:
            with contextlib.suppress(TidelakeError):  # it ends when its time is over
                self._claim.close(forget=not self._name.is_lasting)
            self._claim = None

    def _renew(self) -> None:
        for lease in (self._claim, self._lease):
            if lease is not None:
                lease.renew_if_due()

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_S):
            if self._has_ended():
                self.close()
                return
            # the next batch raises it
            with self._guard, contextlib.suppress(TidelakeError):
                if not self._ended.is_set():
                    self._renew()


def _runs_already(handle: TableHandle, key: str) -> ConflictError:
    message = (
        f"A stream of table '{handle.identifier}' with this checkpoint ({key}) already runs,"
        " perhaps with a copy of the checkpoint: stop that stream, or give this one a checkpoint"
        " of its own. If it was killed on another machine, try again in a minute."
    )
    return ConflictError(message, kind="stream_runs_already", table=handle.identifier)
