"""Makes the tags of periods that are over.

1. The newest automatic tag says which period is next, and from which snapshot on to look.
2. The next tag names the first snapshot whose time lies behind that period and the delay. The time
   is that of its commit (process-time), or its watermark. Both never fall, so it is found by
   halving.
3. The tag has the name of the newest period that is over; with ``tag.automatic-completion`` that of
   the next one, so that every period gets a tag.
4. More automatic tags than ``tag.num-retained-max`` go, the oldest first.

The first tag of a table names its oldest snapshot. A branch makes none of that period: main has it,
and a fast-forward would put the branch's in its place. Its first tag is that of the period in which
it began. A tag that a branch needs is neither removed nor moved.

Source: Paimon's ``TagAutoCreation`` and ``TagBatchCreation`` (2.1), where a branch is like a table.
There a batch counts all tags against the maximum; here only the tags of batches, because the option
says that it is about automatic tags.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from tidelake.commit.context import CommitContext
from tidelake.commit.tags.branch_starts import unneeded_by_branches
from tidelake.commit.tags.deletion import delete_tag_and_files, tags_of
from tidelake.commit.tags.periods import DAY_MS, TagPeriod
from tidelake.commit.tags.reading import read_tags
from tidelake.commit.tags.success_file import tell_created
from tidelake.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.options import Option, Options, declared
from tidelake.telemetry.zone import zone_of

NONE, PROCESS_TIME, WATERMARK, BATCH = "none", "process-time", "watermark", "batch"
BATCH_PREFIX = "batch-write-"
WATERMARK_MIN = -(2**63)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOG = logging.getLogger("tidelake")


def check_automatic_tags(options: Options, *, table: str, before: Options | None = None) -> None:
    """Refuse a delay that is no shorter than the period, and a zone that nobody knows.

    Parameters
    ----------
    before : Options, optional
        The table's until now: what it had already is not refused.

    Raises
    ------
    InvalidInputError
        See above.
    """
    zones: tuple[Option[Any], ...] = (
        declared.SINK_PROCESS_TIME_ZONE,
        declared.SINK_WATERMARK_TIME_ZONE,
    )
    for option in zones:
        name = options.get(option)
        is_new = before is None or before.get(option) != name
        if name is not None and is_new and zone_of(name) is None:
            message = f"Table {table}: option '{option.key}' is '{name}', which is no time zone."
            raise InvalidInputError(message, kind="option_value", option=option.key, table=table)
    if options.get(declared.TAG_AUTOMATIC_CREATION) not in {PROCESS_TIME, WATERMARK}:
        return
    delay_ms, period = options.get(declared.TAG_CREATION_DELAY), TagPeriod.of(options)
    was = (
        None if before is None else (before.get(declared.TAG_CREATION_DELAY), TagPeriod.of(before))
    )
    if delay_ms >= period.length_ms and was != (delay_ms, period):
        message = (
            f"Table {table}: option 'tag.creation-delay' is {delay_ms} ms but must be shorter than"
            f" the period of tags, which is {period.length_ms} ms."
        )
        key = "tag.creation-delay"
        raise InvalidInputError(message, kind="option_value", option=key, table=table)


def create_due_tags(context: CommitContext, newest: Snapshot, *, is_batch: bool) -> list[str]:
    """Make the tags that are due after a commit, by ``tag.automatic-creation``.

    Parameters
    ----------
    newest : Snapshot
        The newest one.
    is_batch : bool
        Whether the commit ends a batch.

    Returns
    -------
    list of str
        The new tags.
    """
    mode = context.options.get(declared.TAG_AUTOMATIC_CREATION)
    if mode == BATCH:
        return _tag_batch(context, newest) if is_batch else []
    if mode == NONE:
        return []
    return _tag_periods(context, newest, by_watermark=mode == WATERMARK)


def _tag_periods(context: CommitContext, newest: Snapshot, *, by_watermark: bool) -> list[str]:
    options, tags = context.options, tags_of(context)
    period = TagPeriod.of(options)
    delay_ms = options.get(declared.TAG_CREATION_DELAY)
    completes = options.get(declared.TAG_AUTOMATIC_COMPLETION)
    made: list[str] = []
    known = {name: at for name in tags.names() if (at := period.time(name)) is not None}
    next_id, next_ms = 1, None
    if known:
        last = max(known, key=lambda name: known[name])
        next_id = tags.load(last).snapshot.id + 1
        next_ms = known[last] + period.length_ms
    elif not context.paths.is_main:
        first = _first_from(context, newest, 1, None, by_watermark=by_watermark)
        if first is None:
            return []
        first_ms = local_ms_of(context, first, by_watermark=by_watermark)
        assert first_ms is not None, "it was found by its time"
        next_id, next_ms = first.id + 1, period.before(first_ms - delay_ms) + period.length_ms
    while True:
        due_ms = None if next_ms is None else next_ms + period.length_ms + delay_ms
        snapshot = _first_from(context, newest, next_id, due_ms, by_watermark=by_watermark)
        if snapshot is None:
            break
        time_ms = local_ms_of(context, snapshot, by_watermark=by_watermark)
        assert time_ms is not None, "it was found by its time"
        this_ms = next_ms if completes and next_ms is not None else period.before(time_ms)
        name = period.name(this_ms)
        if _create(context, name, snapshot):
            made.append(name)
        known[name] = this_ms
        next_id, next_ms = snapshot.id + 1, this_ms + period.length_ms
    if made:
        _LOG.info("Table %s: made tags %s", context.table, ", ".join(made))
        _retain(context, list(known))
    return made


def _first_from(
    context: CommitContext,
    newest: Snapshot,
    first_id: int,
    due_ms: int | None,
    *,
    by_watermark: bool,
) -> Snapshot | None:
    """The first snapshot from an id on with a time, which is not before `due_ms`."""

    def is_due(snapshot: Snapshot) -> bool:
        time_ms = local_ms_of(context, snapshot, by_watermark=by_watermark)
        return time_ms is not None and (due_ms is None or time_ms >= due_ms)

    if newest.id < first_id or not is_due(newest):
        return None
    earliest_id = context.log.earliest_id()
    low, high, found = max(first_id, earliest_id or first_id), newest.id - 1, newest
    while low <= high:
        middle = (low + high) // 2
        snapshot = context.log.find(middle)
        if snapshot is not None and is_due(snapshot):
            found, high = snapshot, middle - 1
        else:  # not due, or expired meanwhile
            low = middle + 1
    return found


def local_ms_of(context: CommitContext, snapshot: Snapshot, *, by_watermark: bool) -> int | None:
    """The wall clock at a snapshot's commit, or of its watermark; None without one."""
    time_ms: int | None = snapshot.time_ms
    name = context.options.get(declared.SINK_PROCESS_TIME_ZONE) or context.env.zone
    if by_watermark:
        time_ms = snapshot.watermark
        name = context.options.get(declared.SINK_WATERMARK_TIME_ZONE)
    if time_ms is None or time_ms == WATERMARK_MIN:
        return None
    zone = None if name is None else zone_of(name)
    if zone is None:
        return time_ms + context.env.clock.local_offset_ms()
    return time_ms + _offset_ms(time_ms, zone)


def _offset_ms(time_ms: int, zone: tzinfo) -> int:
    try:
        offset = (_EPOCH + timedelta(milliseconds=time_ms)).astimezone(zone).utcoffset()
    except OverflowError:  # a watermark beyond all years: of a bounded stream that ended
        return 0
    return 0 if offset is None else offset // timedelta(milliseconds=1)


def _create(context: CommitContext, name: str, snapshot: Snapshot) -> bool:
    """Make a tag; False if there is one, or its snapshot expired meanwhile."""
    tags = tags_of(context)
    retained_ms = context.options.get(declared.TAG_DEFAULT_TIME_RETAINED)
    try:
        tags.create(
            name, snapshot, time_retained_ms=retained_ms, clock=context.env.clock, is_automatic=True
        )
    except AlreadyExistsError:
        return False
    if not context.log.has(snapshot.id):
        with suppress(NotFoundError):
            tags.delete(name)
        return False
    tell_created(context, name)
    return True


def _retain(context: CommitContext, names: list[str]) -> None:
    """Delete the oldest of some tags beyond ``tag.num-retained-max``."""
    most = context.options.get(declared.TAG_NUM_RETAINED_MAX)
    if most is None or len(names) <= most:
        return
    read = read_tags(context.fileio, context.paths, context.manifests, table=context.table)
    aged = sorted((read[name].snapshot.id, name) for name in names if name in read)
    over = [name for _, name in aged[: max(0, len(aged) - most)]]
    for name in unneeded_by_branches(context, over):
        with suppress(NotFoundError):  # deleted meanwhile
            delete_tag_and_files(context, name)


def _tag_batch(context: CommitContext, newest: Snapshot) -> list[str]:
    """Name the newest snapshot after the day, or as ``tag.batch.customized-name`` says."""
    tags = tags_of(context)
    time_ms = local_ms_of(context, newest, by_watermark=False)
    assert time_ms is not None, "a commit has a time"
    name = context.options.get(declared.TAG_BATCH_CUSTOMIZED_NAME)
    if name is None:
        name = BATCH_PREFIX + TagPeriod(DAY_MS, "uuuu-MM-dd").name(time_ms)
    if not unneeded_by_branches(context, [name]):
        _LOG.warning("Table %s: tag '%s' is not moved: a branch began at it", context.table, name)
        return []
    with suppress(NotFoundError):
        delete_tag_and_files(context, name)
    made = _create(context, name, newest)
    _retain(context, [n for n in tags.names() if n.startswith(BATCH_PREFIX) or n == name])
    return [name] if made else []
