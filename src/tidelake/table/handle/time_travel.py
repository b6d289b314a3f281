"""Finds the snapshot of a moment that a user names: an id, a tag, a time.

Source: ``docs/format/reading.md``; Paimon's ``TimeTravelUtil`` (1.3.1). A time means the newest
snapshot that was committed at or before it.
"""

from __future__ import annotations

from datetime import date, tzinfo
from typing import Any

import numpy as np

from tidelake.errors import InvalidInputError, NotFoundError, near_names, shortened
from tidelake.metadata.log.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from tidelake.metadata.log.snapshot_log import SnapshotLog
from tidelake.metadata.log.tag import TagLog
from tidelake.options import Option, Options, declared
from tidelake.table.handle.arguments import whole_number
from tidelake.table.handle.instant import (
    Time,
    instant,
    instant_ms,
    is_time,
    shown_instant,
    timestamp_ms,
)

Moment = int | str | date | np.datetime64
"""A snapshot's id, a tag's name, or a time (text that no tag has as its name: ISO 8601)."""

COMPACTED_EVERY = "compacted_every"
"""Of :func:`option_moment`: the newest snapshot of a compaction with such an identifier."""
CREATED_SINCE = "created_since"
"""Of :func:`option_moment`: the newest snapshot's files created at this time or later."""

_OPTION_ARGUMENTS: dict[Option[Any], str] = {
    declared.SCAN_SNAPSHOT_ID: "snapshot_id",
    declared.SCAN_TAG_NAME: "tag",
    declared.SCAN_TIMESTAMP_MILLIS: "timestamp",
    declared.SCAN_TIMESTAMP: "timestamp",
    declared.SCAN_WATERMARK: "watermark",
    declared.SCAN_FILE_CREATION_TIME_MILLIS: CREATED_SINCE,
}
"""Options that name a moment, with the argument that each sets."""

MOMENT_KEYS = frozenset(
    key for o in (*_OPTION_ARGUMENTS, declared.SCAN_MODE) for key in (o.key, *o.fallback_keys)
)
"""Keys of the options that say which snapshot is read."""

_MODE_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "from-snapshot": ("snapshot_id", "tag", "watermark"),
    "from-snapshot-full": ("snapshot_id",),
    "from-timestamp": ("timestamp",),
    "from-file-creation-time": (CREATED_SINCE,),
    "compacted-full": (),
    "latest-full": (),
    "full": (),
    "latest": (),
}
"""The arguments of each ``scan.mode``; without any it reads the newest snapshot."""


def option_moment(options: Options, *, table: str) -> dict[str, object]:
    """The moment that a table's options name, as an argument of a read; empty for the newest.

    Parameters
    ----------
    options : Options
        ``scan.snapshot-id``, ``scan.tag-name``, ``scan.timestamp-millis``, ``scan.timestamp``,
        ``scan.watermark``, ``scan.file-creation-time-millis`` and ``scan.mode`` count.

    Returns
    -------
    dict
        An argument of a read, or :data:`COMPACTED_EVERY` or :data:`CREATED_SINCE`, with its value.

    Raises
    ------
    InvalidInputError
        Two options name a moment, or ``scan.mode`` needs one that none names.

    Examples
    --------
    >>> option_moment(Options.parse({"scan.snapshot-id": "3"}), table="db.t")
    {'snapshot_id': 3}
    """
    named = [option for option in _OPTION_ARGUMENTS if options.is_set(option)]
    if len(named) > 1:
        raise _two_moments(f"the options {', '.join(option.key for option in named)}", table)
    given: dict[str, object] = {_OPTION_ARGUMENTS[o]: options.get(o) for o in named}
    mode = options.get(declared.SCAN_MODE)
    wanted = _MODE_ARGUMENTS.get(mode)
    if mode == "compacted-full" and not given:
        return {COMPACTED_EVERY: compacted_every(options)}
    if wanted is None or (not wanted and not given) or set(given) & set(wanted):
        return given
    keys = [o.key for o, argument in _OPTION_ARGUMENTS.items() if argument in wanted]
    if given:
        contradiction = f"but '{named[0].key}' names another moment: unset one of them."
    else:
        contradiction = "but no option names the moment."
    need = f" It goes with {' or '.join(keys)}." if keys else ""
    message = f"Table '{table}': option 'scan.mode' is '{mode}' {contradiction}{need}"
    raise InvalidInputError(message, kind="scan_mode", table=table, option="scan.mode")


def compacted_every(options: Options) -> int:
    """Of ``compacted-full``: a compaction counts whose identifier is a multiple of this.

    With ``full-compaction.delta-commits`` those between may have compacted a part of the table.
    """
    return options.get(declared.FULL_COMPACTION_DELTA_COMMITS) or 1


def _two_moments(what: str, table: str) -> InvalidInputError:
    message = f"Give one of {what}: each names a moment of table '{table}'."
    return InvalidInputError(message, kind="two_moments", table=table)


class TimeTravel:
    """Finds snapshots of one table.

    Parameters
    ----------
    zone : str, optional
        The zone of times that name none; the machine's by default:
        :mod:`tidelake.table.handle.instant`.
    """

    def __init__(
        self, snapshots: SnapshotLog, tags: TagLog, *, table: str, zone: str | None = None
    ) -> None:
        self._snapshots = snapshots
        self._tags = tags
        self._table = table
        self._zone = zone

    def resolve(
        self,
        *,
        snapshot_id: int | None = None,
        timestamp: Time | None = None,
        tag: str | None = None,
        watermark: int | None = None,
        default: Options | None = None,
    ) -> Snapshot | None:
        """The snapshot to read: the newest if no moment is given; None if there is none.

        Parameters
        ----------
        snapshot_id, timestamp, tag, watermark
            At most one of them.
        default : Options, optional
            The table's options, which count where no argument is given: :func:`option_moment`.

        Raises
        ------
        InvalidInputError
            More than one is given, or the options contradict each other.
        NotFoundError
            There is no such snapshot or tag (the message offers near names), it has expired (the
            message names the readable range), or the time lies before the first snapshot.
        """
        given = {
            "snapshot_id": snapshot_id,
            "timestamp": timestamp,
            "tag": tag,
            "watermark": watermark,
        }
        named = [name for name, value in given.items() if value is not None]
        if len(named) > 1:
            raise _two_moments(", ".join(named), self._table)
        if not named and default is not None:
            asked: dict[str, Any] = option_moment(default, table=self._table)
            asked.pop(CREATED_SINCE, None)  # of the newest
            if COMPACTED_EVERY in asked:
                return self.compacted(asked[COMPACTED_EVERY])
            if "tag" in asked:
                return self.by_tag(asked["tag"], option=declared.SCAN_TAG_NAME.key)
            return self.resolve(**asked)
        if snapshot_id is not None:
            return self.by_id(snapshot_id)
        if tag is not None:
            return self.by_tag(tag)
        if timestamp is not None:
            return self.by_time(timestamp)
        if watermark is not None:
            return self.by_watermark(watermark)
        return self._snapshots.latest()

    def at(self, moment: Moment) -> Snapshot | None:
        """The snapshot of a moment; None for id 0, the empty table before the first snapshot."""
        if self._is_time(moment):
            return self.by_time(moment)
        if isinstance(moment, str):
            return self.by_tag(moment)
        number = whole_number(moment)
        if number is None:
            message = (
                f"{shortened(repr(moment))} is not a moment: give a snapshot id, a tag's name or a"
                " time."
            )
            raise InvalidInputError(message, kind="bad_moment", table=self._table)
        return None if number == 0 else self.by_id(number)

    def changing(self, moment: Moment, *, what: str) -> Moment:
        """A moment by which the table is to change: a time must have a zone.

        Parameters
        ----------
        what : str
            What takes it, for the message.

        Raises
        ------
        InvalidInputError
            It is a time without a zone.
        """
        if self._is_time(moment):
            return instant(instant_ms(moment, what=what, table=self._table))
        return moment

    def localized(self, moment: Moment, zone: tzinfo) -> Moment:
        """The moment; a time that names no zone gets that of a session."""
        if self._is_time(moment):
            return instant(timestamp_ms(moment, zone=zone))
        return moment

    def _is_time(self, moment: Moment) -> bool:
        if isinstance(moment, str):
            return is_time(moment) and moment not in self._tags.names()
        return isinstance(moment, (date, np.datetime64))

    def by_id(self, snapshot_id: int) -> Snapshot:
        """The snapshot of that id; an expired one from a tag's copy."""
        number = whole_number(snapshot_id)
        if number is None:
            shown = shortened(repr(snapshot_id))
            message = f"snapshot_id must be a whole number, not {shown}."
            raise InvalidInputError(message, kind="bad_moment", table=self._table)
        try:
            return self._snapshots.load_on_chain(number)
        except NotFoundError as error:
            for name in self._tags.names():
                tagged = self._tags.load(name).snapshot
                if tagged.id == number:
                    return tagged
            raise self._no_snapshot(number) from error

    def by_tag(self, name: str, *, option: str = "") -> Snapshot:
        """The snapshot that a tag holds, which an option may have named."""
        names = self._tags.names()
        if name not in names:
            listed = shortened(", ".join(names))
            known = f" The tags are: {listed}." if names else " It has no tags."
            near = near_names(str(name), names)
            time = " To name a time, pass it as timestamp=." if is_time(str(name)) else ""
            shown = shortened(str(name))
            named = f", which the option '{option}' names" if option else ""
            message = f"Table '{self._table}' has no tag '{shown}'{named}.{near}{known}{time}"
            raise NotFoundError(message, kind="tag_not_found", table=self._table, tag=name)
        return self._tags.load(name).snapshot

    def by_time(self, moment: Time) -> Snapshot:
        """The newest snapshot committed at or before a time."""
        at_ms = timestamp_ms(moment, zone=self._zone)
        earliest_id = self._snapshots.earliest_id()
        if earliest_id is None:
            message = f"Table '{self._table}' has no snapshot yet: nothing was written to it."
            raise NotFoundError(message, kind="snapshot_not_found", table=self._table)
        earliest = self._snapshots.load(earliest_id)
        if at_ms < earliest.time_ms:
            message = (
                f"{shown_instant(at_ms)} lies before snapshot {earliest_id} of table"
                f" '{self._table}', the earliest there is, of {shown_instant(earliest.time_ms)}."
                " Give a later time."
            )
            raise NotFoundError(
                message, kind="before_first_snapshot", table=self._table, snapshot=earliest_id
            )
        return self._snapshots.at_or_before(at_ms)

    def by_watermark(self, watermark: int) -> Snapshot:
        """The first snapshot whose watermark is at least this, in ms since the epoch."""
        found = self._snapshots.first_with_watermark(watermark)
        if found is None:
            newest = self._snapshots.latest()
            reached = None if newest is None else newest.watermark
            what = "none has one" if reached is None else f"the newest is at {reached}"
            message = (
                f"Table '{self._table}' has no snapshot whose watermark is {watermark} or later:"
                f" {what}. Set 'scan.watermark' to less, or pass snapshot_id= or timestamp=."
            )
            raise NotFoundError(message, kind="watermark_not_reached", table=self._table)
        return found

    def compacted(self, every: int) -> Snapshot | None:
        """The newest snapshot of a compaction; the newest of all if none was kept.

        Parameters
        ----------
        every : int
            Of :func:`compacted_every`. The identifier of a batch counts as a multiple.

        Notes
        -----
        Reads snapshots from the newest one back: a request each.
        """
        latest = self._snapshots.latest()
        earliest_id = self._snapshots.earliest_id()
        if latest is None or earliest_id is None:
            return latest
        for number in range(latest.id, earliest_id - 1, -1):
            found = latest if number == latest.id else self._snapshots.find(number)
            if found is None or found.commit_kind is not CommitKind.COMPACT:
                continue  # None: it expired meanwhile
            identifier = found.commit_identifier
            if identifier == BATCH_IDENTIFIER or identifier % every == 0:
                return found
        return latest

    def _no_snapshot(self, snapshot_id: int) -> NotFoundError:
        earliest, latest = self._snapshots.earliest_id(), self._snapshots.latest_id()
        if earliest is None or latest is None:
            what = "has no snapshots yet: nothing was written to it."
        elif snapshot_id < earliest:
            what = (
                f"no longer has snapshot {snapshot_id}: it has expired or never was. Snapshots"
                f" {earliest} to {latest} can be read."
            )
        else:
            what = f"has no snapshot {snapshot_id}. Snapshots {earliest} to {latest} can be read."
        kind = "snapshot_expired" if earliest and snapshot_id < earliest else "snapshot_not_found"
        return NotFoundError(
            f"Table '{self._table}' {what}", kind=kind, table=self._table, snapshot=snapshot_id
        )
