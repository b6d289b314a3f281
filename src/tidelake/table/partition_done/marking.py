"""Finds partitions that are done, and marks them.

By time: a partition is done when no rows came for ``partition.idle-time-to-done`` and as much time
has passed since its own end, which is the time that its values say and ``partition.time-interval``.
Rows that come late make it pending again, and it is marked once more; one that was dropped is not.
Streams on Spark and maintenance jobs look (:class:`IdleMarks`), and share what is pending
(:mod:`tidelake.table.partition_done.pending`).

At the end of input: a batch marks the partitions that it wrote.

Only the main branch marks: the rows of another one are in no read of the table.

Source: Paimon's ``PartitionMarkDoneTrigger`` (2.1).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tidelake.commit.partition_expiry import partition_time_text
from tidelake.errors import StorageRefusedError, TidelakeError
from tidelake.metadata.data_file import CommitMessage
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.paths import POSTPONE_BUCKET
from tidelake.options import declared, warn_once
from tidelake.table.handle.handle import TableHandle
from tidelake.table.partition_done.actions import DonePartition, Marks, mark_done
from tidelake.table.partition_done.pending import (
    PendingPartitions,
    is_readable_later,
    keep,
    kept,
    live_partitions,
    pending_at,
)
from tidelake.table.schema.partition_done_options import DoneRule
from tidelake.telemetry import Backoff
from tidelake.types.java_time import NS_PER_MS

NAMED_MAX = 5
"""How many partitions a text names."""
SILENT_MAX = 3
"""After so many marks in a row without an answer, a look asks for no further one."""
WAITS = Backoff(30_000, 300_000, longer=0.5)
"""How long a stream makes no marks after a look with a failure."""
_LOG = logging.getLogger("tidelake")


@dataclass(frozen=True, slots=True)
class _Look:
    """What one look found.

    Parameters
    ----------
    before : PendingPartitions, optional
        As it was kept.
    pending : PendingPartitions
        As it is now.
    done : tuple of bytes
        Those of them that are done.
    """

    before: PendingPartitions | None
    pending: PendingPartitions
    done: tuple[bytes, ...]


class IdleMarks:
    """The marks of partitions that are done by time, look after look. For one thread at a time.

    A mark that fails hinders no other: it comes last at the next look.

    Parameters
    ----------
    within_s : float, optional
        The time of a look, after which no further mark is begun: the next look goes on.
    """

    def __init__(self, handle: TableHandle, *, within_s: float | None = None) -> None:
        self._handle = handle
        self._within_s = within_s
        self._failed: set[bytes] = set()
        self._failures_count = 0
        self._waits_until_s = 0.0

    def mark(self) -> tuple[DonePartition, ...]:
        """Mark what is done; as :func:`mark_idle`."""
        handle, look = self._handle, _look(self._handle)
        if look is None:
            return ()
        if look.pending != look.before:
            keep(handle, look.pending)  # before the marks: snapshots may expire in the meantime
        if not look.done:
            return ()
        marks = Marks(handle)
        marked: dict[bytes, DonePartition] = {}
        try:
            self._mark_all(marks, look.done, marked)
        finally:
            if marked:
                keep(handle, look.pending.without(marked))
        return tuple(marked.values())

    def look(self) -> None:
        """Mark what is done, beside a stream; a failure is logged, and later looks do nothing."""
        clock = self._handle.env.clock
        if clock.monotonic_seconds() < self._waits_until_s:
            return
        try:
            self.mark()
        except TidelakeError as error:
            text = "Table %s: partitions are not marked as done: %s"
            _LOG.warning(text, self._handle.identifier, error)
            wait_ms = WAITS.wait_ms(self._failures_count, self._handle.env.rng)
            self._failures_count += 1
            self._waits_until_s = clock.monotonic_seconds() + wait_ms / 1_000
        else:
            self._failures_count = 0

    def _mark_all(
        self, marks: Marks, partitions: Sequence[bytes], marked: dict[bytes, DonePartition]
    ) -> None:
        """Mark partitions and note them; raises the first failure after the last of them."""
        clock = self._handle.env.clock
        began_s = clock.monotonic_seconds()
        first_error: TidelakeError | None = None
        silent_count = 0
        for partition in sorted(partitions, key=self._failed.__contains__):
            if self._within_s is not None and clock.monotonic_seconds() - began_s > self._within_s:
                break
            self._failed.discard(partition)
            try:
                marked[partition] = marks.mark(partition)
                silent_count = 0
            except TidelakeError as error:
                self._failed.add(partition)
                first_error = first_error or error
                silent_count += not isinstance(error, StorageRefusedError)
            if silent_count == SILENT_MAX:
                break
        if first_error is not None:
            raise first_error


def mark_idle(handle: TableHandle) -> tuple[DonePartition, ...]:
    """Mark the partitions that are done by time.

    Returns
    -------
    tuple of DonePartition
        Empty where the table's options ask for no such marks.

    Raises
    ------
    InvalidInputError, UnsupportedError
        An action is not possible here; nothing was marked.
    StorageRefusedError, StorageError
        Some marks failed; this is the first failure. The next look makes these again, and no
        others.
    """
    return IdleMarks(handle).mark()


def idle_partitions(handle: TableHandle) -> tuple[DonePartition, ...]:
    """The partitions that :func:`mark_idle` would mark now."""
    look = _look(handle)
    return () if look is None else tuple(DonePartition.of(handle, p) for p in look.done)


def has_news(handle: TableHandle) -> bool:
    """Whether a partition is to be marked, or a commit to be counted."""
    look = _look(handle)
    return look is not None and (bool(look.done) or look.pending != look.before)


def mark_at_end(handle: TableHandle, messages: Sequence[CommitMessage]) -> None:
    """Mark the partitions of a batch that is committed; a failure is logged.

    Where its rows are readable only after a compaction by a job, the job's commit marks them.

    Parameters
    ----------
    messages : sequence of CommitMessage
        What the batch wrote.
    """
    if not _wants_end(handle):
        return
    is_later = _waits_for_job(handle)
    mark_written(
        handle, {m.partition for m in messages if (m.compact_after if is_later else m.new_files)}
    )


def marks_at_end_of_stream(handle: TableHandle) -> bool:
    """Whether the end of a stream marks the partitions that it wrote."""
    return _wants_end(handle) and not _waits_for_job(handle)


def mark_written(handle: TableHandle, partitions: Collection[bytes]) -> bool:
    """Mark partitions whose rows are committed; False if that failed, which is logged."""
    if not partitions:
        return True
    try:
        mark_done(handle, sorted(partitions))
    except TidelakeError as error:
        text = "Table %s: its rows are committed, and partitions are not marked as done: %s"
        _LOG.warning(text, handle.identifier, error)
        return False
    return True


def _wants_end(handle: TableHandle) -> bool:
    has_partitions = bool(handle.schema.partition_keys) and handle.paths.is_main
    return has_partitions and handle.options.get(declared.PARTITION_END_INPUT_TO_DONE)


def _waits_for_job(handle: TableHandle) -> bool:
    """Whether new rows are readable only after a compaction that their writer does not do."""
    options = handle.options
    of_job = options.get(declared.WRITE_ONLY) or options.get(declared.BUCKET) == POSTPONE_BUCKET
    return of_job and is_readable_later(handle)


def _look(handle: TableHandle) -> _Look | None:
    rule = DoneRule.of(handle.options, table=handle.identifier)
    if rule is None or not handle.schema.partition_keys or not handle.paths.is_main:
        return None
    newest, before = handle.snapshots.latest(), kept(handle)
    if newest is None:  # what comes from now on is pending
        empty = PendingPartitions(0, handle.env.clock.now_ms(), {})
        return _Look(before, before or empty, ())
    pending = pending_at(handle, rule, newest, before)
    times = _start_times_ms(handle, rule, pending.updated_ms)
    timeless = [p for p, time_ms in times.items() if time_ms is None]
    if timeless:
        _warn_of_timeless(handle, timeless)
    done = _done(handle, rule, newest, pending, times)
    dropped = set(done) - live_partitions(handle, newest) if done else set()
    left = pending.without([*timeless, *dropped])
    return _Look(before, left, tuple(one for one in done if one not in dropped))


def _done(
    handle: TableHandle,
    rule: DoneRule,
    newest: Snapshot,
    pending: PendingPartitions,
    times: dict[bytes, int | None],
) -> tuple[bytes, ...]:
    """The partitions that are done, in the order of their times."""
    clock = handle.env.clock
    now_ms: int | None = newest.watermark
    offset_ms = 0
    if not rule.by_watermark:
        offset_ms = clock.local_offset_ms()
        now_ms = clock.now_ms() + offset_ms
    if now_ms is None:
        return ()
    found: list[tuple[int, bytes]] = []
    for partition, start_ms in times.items():
        if start_ms is None:
            continue
        updated_ms = pending.updated_ms[partition] + offset_ms
        if now_ms - max(updated_ms, start_ms + rule.interval_ms) > rule.idle_ms:
            found.append((start_ms, partition))
    return tuple(partition for _, partition in sorted(found))


def _start_times_ms(
    handle: TableHandle, rule: DoneRule, partitions: Collection[bytes]
) -> dict[bytes, int | None]:
    """The time that each partition's values say, ms of its own clock; None where they say none."""
    texts = {
        p: partition_time_text(handle.paths.partition_texts(p), rule.pattern) for p in partitions
    }
    read = rule.formatter.parse_all(text or "" for text in texts.values())
    return {p: None if ns is None else ns // NS_PER_MS for p, ns in zip(texts, read, strict=True)}


def _warn_of_timeless(handle: TableHandle, partitions: Sequence[bytes]) -> None:
    named = sorted(handle.paths.partition_path(p) for p in partitions[:NAMED_MAX])
    more = len(partitions) - len(named)
    text = (
        f"{', '.join(named)}{f' and {more} more' if more else ''} will not be marked as done: the"
        " values say no time by 'partition.timestamp-pattern' and 'partition.timestamp-formatter'."
    )
    warn_once(handle.identifier, text)
