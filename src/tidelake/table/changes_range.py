"""From two moments and a mode to the changes between them."""

from __future__ import annotations

from tidelake.errors import InvalidInputError
from tidelake.table.changes import TableChanges
from tidelake.table.handle import TableHandle
from tidelake.table.logged_changes import ChangesMode, LoggedChanges, changes_mode
from tidelake.table.time_travel import Moment
from tidelake.types.predicate import Predicate

__all__ = ["changes_between"]


def changes_between(
    handle: TableHandle,
    start: Moment,
    end: Moment | None,
    *,
    columns: tuple[str, ...],
    predicate: Predicate | None,
    mode: ChangesMode,
) -> TableChanges | LoggedChanges:
    """What changed after `start`, up to and with `end`; see :meth:`tidelake.Table.changes_batches`.

    Parameters
    ----------
    columns : tuple of str
        The columns wanted.
    predicate : Predicate, optional
        Bound.

    Raises
    ------
    InvalidInputError
        The range runs backwards, or there is no such mode.
    """
    source = changes_mode(mode, handle)
    before = handle.time_travel.at(start)
    after = handle.snapshots.latest() if end is None else handle.time_travel.at(end)
    start_id = 0 if before is None else before.id
    end_id = 0 if after is None else after.id
    if start_id > end_id:
        message = (
            f"Changes of table '{handle.identifier}' run from an older to a newer moment, and"
            f" {start!r} is newer than {end!r}: swap them."
        )
        raise InvalidInputError(message, kind="changes_backwards", table=handle.identifier)
    for name in columns:
        handle.schema.field(name)
    if source == "diff":
        return TableChanges(handle, before, after, columns, predicate)
    return LoggedChanges(
        handle, start_id, end_id, columns, predicate, of_changelog=source == "changelog"
    )
