"""What a user asks of one read, and the snapshot that it is planned for.

1. A read without a moment is of the newest snapshot, with the table's columns of today. A read of a
   moment (an argument, or an option such as ``scan.snapshot-id``) has the columns of that moment.
2. The newest snapshot may expire while it is planned. Another snapshot is the newest then, and the
   read is planned again for that one, at most :data:`PLAN_TRIES` times.
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

__all__ = ["ScanRequest"]

PLAN_TRIES = 3
"""Plans of a newest snapshot that expires meanwhile, before the error is the caller's."""

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

    def planned(self, handle: TableHandle, plan: Plan[S]) -> S:
        """Plan for the snapshot that is asked for.

        Parameters
        ----------
        handle : TableHandle
            The table.
        plan : callable
            Plans for one snapshot. Its second argument is the snapshot whose schema has the
            columns, if a moment was asked for; else None, for the table's columns of today.

        Raises
        ------
        NotFoundError
            There is no such snapshot or tag, or it expired while it was planned.
        InvalidInputError
            Two moments are asked for.
        """
        asked = (self.snapshot_id, self.timestamp, self.tag) != (None, None, None)
        travels = asked or bool(option_moment(handle.options, table=handle.identifier))
        tries_left = 1 if travels else PLAN_TRIES
        while True:
            snapshot = handle.time_travel.resolve(
                snapshot_id=self.snapshot_id,
                timestamp=self.timestamp,
                tag=self.tag,
                default=handle.options,
            )
            tries_left -= 1
            try:
                return plan(snapshot, snapshot if travels else None)
            except NotFoundError as error:
                if error.kind != SNAPSHOT_EXPIRED or not tries_left:
                    raise
