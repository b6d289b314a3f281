"""Reads a table as a stream without an engine: batches of Arrow rows, as commits come.

1. The plan says where the stream begins and what comes next
   (:class:`~tidelake.table.stream.plan.StreamPlan`).
2. A lease holds the snapshots that are still to be read (:mod:`tidelake.table.stream.lease`). With
   a consumer id the stream records progress after each snapshot, when the caller asks for the next
   batch. A restart gives the last batch again if the caller had not asked for more. A second lease
   holds the first full state: "next is N" in a consumer means the changes of N, not its rows.
   The consumer's own lease is taken then, too, so that no other run or reset takes it meanwhile.
3. Where there is no new snapshot it waits (:mod:`tidelake.fileio.waiter`).

The stream reads nothing ahead of the caller. Memory: the entries of one snapshot, and a batch of
rows.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime as dt
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidelake.errors import InvalidInputError, NotFoundError, TidelakeError, shortened
from tidelake.fileio.waiter import Waiter, waiter_of
from tidelake.metadata.log.consumer import state_holder
from tidelake.options import declared
from tidelake.table.changelog.change_filter import change_filter
from tidelake.table.handle.arguments import known_columns, whole_number
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.instant import timestamp_ms
from tidelake.table.stream.consumer_reset import forget_state
from tidelake.table.stream.lease import READ_RETAINED_MS, StreamLease
from tidelake.table.stream.offset import StreamOffset
from tidelake.table.stream.plan import StreamPlan
from tidelake.table.stream.start import START_OPTIONS
from tidelake.telemetry import ProcessMark
from tidelake.types.predicate import Predicate, bind, parse_filter

_OPEN: weakref.WeakSet[Generator[StreamBatch, None, None]] = weakref.WeakSet()
"""Streams that the caller still has. Python ends those of its globals so late that no file can be
opened any more, so they are closed before."""
Start = int | str | dt.datetime | None
"""A snapshot's id, a scan mode, a time; see :meth:`tidelake.Table.stream`."""


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """A batch of rows of a stream.

    Parameters
    ----------
    data : pyarrow.RecordBatch
        ``_row_kind``, then the columns.
    watermark : int, optional
        That snapshot's watermark, ms since the epoch.
    """

    data: pa.RecordBatch
    snapshot_id: int
    watermark: int | None


def stream_batches(
    handle: TableHandle,
    *,
    start: Start = None,
    consumer_id: str | None = None,
    columns: Sequence[str] | None = None,
    where: object = None,
    options: Mapping[str, object] | None = None,
    timeout: float | None = None,
) -> Generator[StreamBatch, None, None]:
    """Read a table as a stream; see :meth:`tidelake.Table.stream`. Checks arguments at once."""
    is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if timeout is not None and not (is_number and timeout >= 0):
        shown = shortened(repr(timeout))
        message = f"timeout is {shown} but must be a number of seconds from 0 on, or None."
        raise InvalidInputError(message, kind="stream_timeout", table=handle.identifier)
    asked = {**_start_options(handle, start), **(options or {})}
    _check_one_start(handle, start, options or {})
    if consumer_id is not None:
        asked[declared.CONSUMER_ID.key] = consumer_id
    plan = StreamPlan.of(handle, asked)
    parsed = parse_filter(where)
    names = known_columns(columns, handle.schema.field_names, table=handle.identifier)
    predicate = None if parsed is None else bind(parsed, handle.schema.fields)
    timeout_ms = None if timeout is None else timeout * 1000
    batches = _Stream(plan, names, predicate, timeout_ms).batches()
    _OPEN.add(batches)
    return batches


@atexit.register
def _close_open() -> None:
    """Close the streams that are open at the interpreter's end, so that they hold nothing."""
    for batches in tuple(_OPEN):
        # a stream that another thread waits in ends with the process
        with contextlib.suppress(ValueError, TidelakeError):
            batches.close()


class _Stream:
    """One running stream."""

    def __init__(
        self,
        plan: StreamPlan,
        columns: tuple[str, ...],
        predicate: Predicate | None,
        timeout_ms: float | None,
    ) -> None:
        self._plan = plan
        self._handle = plan.handle
        self._columns = columns
        self._predicate = predicate
        self._leaving = change_filter(plan.handle, predicate, columns)
        self._timeout_ms = timeout_ms
        self._consumer_id = plan.handle.options.get(declared.CONSUMER_ID)
        self._run_id = plan.handle.env.ids.uuid()
        self._lease: StreamLease | None = None
        self._claim: StreamLease | None = None
        """Claims the consumer while its first full state is read."""
        self._mark = ProcessMark()

    def batches(self) -> Generator[StreamBatch, None, None]:
        """All batches."""
        handle = self._handle
        cap_ms = handle.options.get(declared.CONTINUOUS_DISCOVERY_INTERVAL)
        waiter = waiter_of(
            handle.fileio, handle.env.clock, handle.paths.snapshot_dir, poll_ms_max=cap_ms
        )
        with contextlib.closing(waiter), contextlib.ExitStack() as ends:
            ends.callback(self._close)
            at = self._began(waiter)
            if at is None:
                return
            self._hold(at.snapshot, at.before, of_state=at.phase == "full")
            while not self._plan.is_ended(at):
                end = self._after(at, waiter)
                if end is None:
                    return
                yield from self._between(at, end)
                at = end
                self._done_before(at.snapshot, at.before, of_state=at.phase == "full")

    def _began(self, waiter: Waiter) -> StreamOffset | None:
        return self._awaited(self._plan.initial, waiter)

    def _after(self, at: StreamOffset, waiter: Waiter) -> StreamOffset | None:
        def look() -> StreamOffset | None:
            end = self._plan.next(at, self._plan.limits)
            return None if end == at else end

        return self._awaited(look, waiter)

    def _awaited(
        self, look: Callable[[], StreamOffset | None], waiter: Waiter
    ) -> StreamOffset | None:
        """Repeat a look until it finds something; None when the time is over."""
        clock = self._handle.env.clock
        began_ms = clock.now_ms()
        while True:
            self._mark.check(f"The stream of table '{self._handle.identifier}'")
            found = look()
            if found is not None:
                waiter.reset()
                return found
            waited_ms = clock.now_ms() - began_ms
            if self._timeout_ms is not None and waited_ms >= self._timeout_ms:
                return None
            self._renew()
            left_ms = float("inf") if self._timeout_ms is None else self._timeout_ms - waited_ms
            waiter.wait(left_ms)

    def _between(self, at: StreamOffset, end: StreamOffset) -> Iterator[StreamBatch]:
        parts = self._plan.parts(
            at, end, columns=self._columns, predicate=self._predicate, leaving=self._leaving
        )
        snapshot_id, watermark = 0, None
        for part in parts:
            if part.snapshot_id != snapshot_id:
                if snapshot_id:
                    self._done_before(part.snapshot_id, part.before, of_state=False)
                snapshot_id = part.snapshot_id
                watermark = self._watermark(snapshot_id)
            for batch in parts.rows.read(part.splits):
                if batch.num_rows:
                    yield StreamBatch(batch, snapshot_id, watermark)
                    self._mark.check(f"The stream of table '{self._handle.identifier}'")
                self._renew()  # a filter may drop all rows for a long time

    def _watermark(self, snapshot_id: int) -> int | None:
        try:
            return self._handle.snapshots.load_or_changelog(snapshot_id).watermark
        except NotFoundError:
            return None

    def _hold(self, snapshot_id: int, identity: str | None, *, of_state: bool) -> None:
        """Take the lease of the next snapshots, then close the previous one."""
        before, consumer_id = self._lease, self._consumer_id
        is_kept = consumer_id is not None and not of_state
        name = f"stream-{self._run_id}" if consumer_id is None else consumer_id
        by_tag = of_state and self._handle.snapshots.find(snapshot_id) is None
        first = snapshot_id + by_tag  # a tag holds the state, the lease the changes behind it
        if consumer_id is not None and of_state:
            self._claim = StreamLease.open(
                self._handle, consumer_id, first, run_id=self._run_id, begins=True
            )
        opens = StreamLease.open_if_writable if consumer_id is None else StreamLease.open
        self._lease = opens(
            self._handle,
            name if is_kept or consumer_id is None else state_holder(consumer_id),
            first,
            run_id=self._run_id,
            of_state=of_state and not by_tag,
            retained_ms=None if is_kept else READ_RETAINED_MS,
            before=identity,
        )
        if before is not None and before.consumer_id != self._lease.consumer_id:
            before.close(forget=True)
        if is_kept:
            self._claim = None  # it has become the lease
            if before is None and consumer_id is not None:
                forget_state(self._handle, consumer_id)

    def _renew(self) -> None:
        for lease in (self._claim, self._lease):
            if lease is not None:
                lease.renew_if_due()

    def _done_before(self, snapshot_id: int, identity: str | None, *, of_state: bool) -> None:
        """Record progress: the caller has all before this snapshot and asks for more.

        The identity is that of the snapshot before it.
        """
        lease = self._lease
        assert lease is not None
        if of_state:
            return
        if self._consumer_id is not None and lease.consumer_id != self._consumer_id:
            self._hold(snapshot_id, identity, of_state=False)
        elif snapshot_id > lease.next_snapshot:
            lease.advance(snapshot_id, before=identity)

    def _close(self) -> None:
        if self._claim is not None:
            self._claim.close()
        if self._lease is not None:
            self._lease.close(forget=self._lease.consumer_id != self._consumer_id)


def _check_one_start(handle: TableHandle, start: Start, options: Mapping[str, object]) -> None:
    """Refuse an argument and an option that both say where the stream begins."""
    keys = [key for option in START_OPTIONS for key in (option.key, *option.fallback_keys)]
    given = [key for key in keys if options.get(key) is not None]
    if start is not None and given:
        message = (
            f"start={start!r} and the option '{given[0]}' both say where the stream of table"
            f" '{handle.identifier}' begins: give one."
        )
        raise InvalidInputError(message, kind="two_moments", table=handle.identifier)


def _start_options(handle: TableHandle, start: Start) -> dict[str, object]:
    """Make the options for the start of a stream."""
    mode, number = declared.SCAN_MODE.key, whole_number(start)
    if start is None:
        return {}
    if number is not None:
        return {mode: "from-snapshot", declared.SCAN_SNAPSHOT_ID.key: number}
    if isinstance(start, dt.date):
        at_ms = timestamp_ms(start, zone=handle.env.zone)
        return {mode: "from-timestamp", declared.SCAN_TIMESTAMP_MILLIS.key: at_ms}
    if isinstance(start, str):
        return {mode: start}
    message = (
        f"start is {shortened(repr(start))} but must be the id of a snapshot, a time, or a mode of"
        " 'scan.mode' such as 'latest' or 'latest-full'."
    )
    raise InvalidInputError(message, kind="stream_start", table=handle.identifier)
