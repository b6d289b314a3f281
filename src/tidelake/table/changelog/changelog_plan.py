"""Plans the changes between two moments in a mode."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from tidelake.errors import InvalidInputError, NotFoundError, shortened
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.options import declared
from tidelake.scan import check_not_evolved
from tidelake.table.changelog.change_filter import change_filter
from tidelake.table.changelog.changelog_files import (
    ChangesMode,
    LoggedChanges,
    LoggedRows,
    changes_mode,
    snapshots_with_changes,
)
from tidelake.table.changelog.changelog_protocols import PlannedChanges
from tidelake.table.changelog.net_changes import NetRows, TableChanges
from tidelake.table.handle.arguments import column_names, whole_number
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.time_travel import Moment
from tidelake.types.predicate import Predicate, bind, parse_filter

ENDS_COUNT = 2


def planned_changes(
    handle: TableHandle,
    start: Moment,
    end: Moment | None,
    *,
    columns: Sequence[str] | None,
    where: object,
    mode: ChangesMode,
    zone: tzinfo | None = None,
    retracts: bool = False,
) -> PlannedChanges:
    """Plan what changed, from arguments as users give them.

    See :meth:`tidelake.Table.changes_batches`. `zone` is that of a session, for times that name
    none.
    """
    if zone is not None:
        localized = handle.time_travel.localized
        start, end = localized(start, zone), None if end is None else localized(end, zone)
    schema = handle.schema
    parsed = parse_filter(where)
    return changes_between(
        handle,
        start,
        end,
        columns=column_names(columns, schema.field_names, table=handle.identifier),
        predicate=None if parsed is None else bind(parsed, schema.fields),
        mode=mode,
        retracts=retracts,
    )


def moments_between(handle: TableHandle, text: str) -> tuple[Moment, Moment]:
    """The two ends that ``incremental-between`` names: ids of snapshots, or tags.

    A tag whose name is a number (Java allows it) comes before the snapshot of that id, as there.

    Raises
    ------
    InvalidInputError
        The text is not two names with a comma between.
    """
    ends = [end.strip() for end in text.split(",")]
    if len(ends) != ENDS_COUNT or not all(ends):
        message = (
            f"Option '{declared.INCREMENTAL_BETWEEN.key}' is '{shortened(text)}': it names two"
            " snapshots or tags with a comma between, such as '3,7'."
        )
        raise InvalidInputError(message, kind="changes_between", table=handle.identifier)
    tags = handle.tags.names()
    is_id = [end.isascii() and end.isdecimal() and end not in tags for end in ends]
    start, end = (int(e) if number else e for e, number in zip(ends, is_id, strict=True))
    return start, end


def changes_between(
    handle: TableHandle,
    start: Moment,
    end: Moment | None,
    *,
    columns: tuple[str, ...],
    predicate: Predicate | None,
    mode: ChangesMode,
    retracts: bool = False,
) -> PlannedChanges:
    """Plan the changes after `start`, `end` included; see :meth:`tidelake.Table.changes_batches`.

    The snapshots are held, as those of any read, until the changes are read or collected.

    Parameters
    ----------
    retracts : bool
        Whether a row that leaves the predicate comes as ``-D``
        (:mod:`tidelake.table.changelog.change_filter`); not for a caller that tests rows itself.

    Raises
    ------
    InvalidInputError
        The range runs backwards, or there is no such mode.
    """
    check_not_evolved(handle.options)
    source = changes_mode(mode, handle)
    for name in columns:
        handle.schema.field(name)
    context = handle.read_context()
    if source == "diff":
        before = _before(handle, start)
        after = handle.snapshots.latest() if end is None else handle.time_travel.at(end)
        _check_forward(handle, _id_of(before), _id_of(after), start, end)
        hold = handle.hold_all((before, after))
        return TableChanges(handle, before, after, NetRows(context, columns, predicate), hold)
    start_id = _id_with_changes(handle, start, is_start=True)
    end_id = _id_of(handle.snapshots.latest()) if end is None else _id_with_changes(handle, end)
    _check_forward(handle, start_id, end_id, start, end)
    of_changelog = source == "changelog"
    snapshots = snapshots_with_changes(handle, start_id, end_id, of_changelog=of_changelog)
    leaving = None
    if retracts:
        leaving = change_filter(handle, predicate, columns, of_changelog=of_changelog)
    rows = LoggedRows(context, columns, predicate, leaving)
    return LoggedChanges(handle, snapshots, of_changelog, rows, handle.hold_all(snapshots))


def _check_forward(
    handle: TableHandle, start_id: int, end_id: int, start: Moment, end: Moment | None
) -> None:
    if start_id > end_id:
        message = (
            f"Changes of table '{handle.identifier}' run from an older to a newer moment, and"
            f" {start!r} is newer than {end!r}: swap them."
        )
        raise InvalidInputError(message, kind="changes_backwards", table=handle.identifier)


def _id_of(snapshot: Snapshot | None) -> int:
    return 0 if snapshot is None else snapshot.id


def _id_with_changes(handle: TableHandle, moment: Moment, *, is_start: bool = False) -> int:
    """The id of a moment whose changes are read snapshot by snapshot; its state is not needed.

    It may be an expired snapshot with a long-lived changelog. A start may be the id right before
    the first of these.
    """
    number = whole_number(moment)
    if number is not None and number > 0:
        is_kept = handle.snapshots.is_kept
        if is_kept(number) or (is_start and is_kept(number + 1)):
            return number
    return _id_of(_before(handle, moment) if is_start else handle.time_travel.at(moment))


def _before(handle: TableHandle, start: Moment) -> Snapshot | None:
    """The state at the start. A time before the table's first snapshot means the empty table."""
    try:
        return handle.time_travel.at(start)
    except NotFoundError as error:
        if error.kind != "before_first_snapshot" or handle.snapshots.earliest_id() != 1:
            raise  # the older snapshots have expired
        return None
