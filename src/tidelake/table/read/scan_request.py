"""The arguments of one read, and the snapshot that it is planned for.

1. A read without a moment reads the newest snapshot with the table's current columns. A read of a
   moment (an argument, or an option such as ``scan.snapshot-id``) has the columns of that moment.
2. The newest snapshot may expire during planning. Then the read is planned again for the snapshot
   that is the newest now, at most :data:`PLAN_TRIES` times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tidelake.errors import NotFoundError
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.scan import SNAPSHOT_EXPIRED
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.time_travel import Time, option_moment
from tidelake.types import DataField

__all__ = ["ScanRequest"]

PLAN_TRIES = 3
"""Plans of a newest snapshot that expires meanwhile, before the caller gets the error."""

S = TypeVar("S")
Plan = Callable[[Snapshot | None, Snapshot | None], S]


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """The arguments of a read, as :meth:`tidelake.Table.scan` describes them."""

    columns: Sequence[str] | None = None
    filter: object = None
    limit: int | None = None
    snapshot_id: int | None = None
    timestamp: Time | None = None
    tag: str | None = None

    def travels(self, handle: TableHandle) -> bool:
        """Whether an argument or an option of the table names a moment."""
        asked = (self.snapshot_id, self.timestamp, self.tag) != (None, None, None)
        return asked or bool(option_moment(handle.options, table=handle.identifier))

    def snapshot(self, handle: TableHandle) -> Snapshot | None:
        """The snapshot of the moment, by default the newest; None if there is none.

        Raises
        ------
        NotFoundError, InvalidInputError
            As of :meth:`planned`.
        """
        return handle.time_travel.resolve(
            snapshot_id=self.snapshot_id,
            timestamp=self.timestamp,
            tag=self.tag,
            default=handle.options,
        )

    def fields(self, handle: TableHandle) -> tuple[DataField, ...]:
        """The columns that can be read: those of the moment, or the table's current ones."""
        if not self.travels(handle):
            return handle.schema.fields
        return handle.read_context(self.snapshot(handle)).schema.fields

    def planned(self, handle: TableHandle, plan: Plan[S]) -> S:
        """Plan for the wanted snapshot.

        Parameters
        ----------
        handle : TableHandle
            The table.
        plan : callable
            Plans for one snapshot. Its second argument is the snapshot whose schema has the
            columns if a moment is named; else None, for the table's current columns.

        Raises
        ------
        NotFoundError
            There is no such snapshot or tag, or it expired while it was planned.
        InvalidInputError
            Two moments are named.
        """
        travels = self.travels(handle)
        tries_left = 1 if travels else PLAN_TRIES
        while True:
            snapshot = self.snapshot(handle)
            tries_left -= 1
            try:
                return plan(snapshot, snapshot if travels else None)
            except NotFoundError as error:
                if error.kind != SNAPSHOT_EXPIRED or not tries_left:
                    raise
