"""Finds partitions that are done, and marks them.

By time: a partition is done when no rows came for ``partition.idle-time-to-done`` and as much time
has passed since its own end, which is the time that its values say and ``partition.time-interval``.
Rows that come late make it pending again, and it is marked once more. Streams on Spark and
maintenance jobs look (:func:`mark_idle`), and share what is pending
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
from tidelake.errors import TidelakeError
from tidelake.metadata.data_file import CommitMessage
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.paths import POSTPONE_BUCKET
from tidelake.options import declared, warn_once
from tidelake.table.handle.handle import TableHandle
from tidelake.table.partition_done.actions import DonePartition, mark_done
from tidelake.table.partition_done.pending import (
    PendingPartitions,
    is_readable_later,
    keep,
    kept,
    pending_at,
)
from tidelake.table.schema.partition_done_options import DoneRule
from tidelake.types.java_time import NS_PER_MS

NAMED_MAX = 5
"""How many partitions a text names."""
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


def mark_idle(handle: TableHandle) -> tuple[DonePartition, ...]:
    """Mark the partitions that are done by time.

    Returns
    -------
    tuple of DonePartition
        Empty where the table's options ask for no such marks.

    Raises
    ------
    InvalidInputError, UnsupportedError, StorageRefusedError, StorageError
        As :func:`mark_done`. The next look marks them all again.
    """
    look = _look(handle)
    if look is None:
        return ()
    if look.pending != look.before:
        keep(handle, look.pending)  # before the marks: snapshots may expire while a server is away
    if not look.done:
        return ()
    marked = mark_done(handle, look.done)
    keep(handle, look.pending.without(look.done))
    return marked


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


def mark_idle_quietly(handle: TableHandle) -> None:
    """The same as :func:`mark_idle`, beside a stream; a failure is logged."""
    try:
        mark_idle(handle)
    except TidelakeError as error:
        _LOG.warning("Table %s: partitions are not marked as done: %s", handle.identifier, error)


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
    return _Look(before, pending.without(timeless), done)


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
