"""The arguments of one read, and the snapshot that it is planned for.

1. A read without a moment reads the newest snapshot with the table's current columns. A read of a
   moment (an argument, or an option such as ``scan.snapshot-id``) has the columns of that moment.
   ``compacted-full`` and ``from-file-creation-time`` of ``scan.mode`` name no moment: current
   columns.
2. The newest snapshot may expire during planning. Then the read is planned again for the snapshot
   that is the newest now, at most :data:`PLAN_TRIES` times.
3. A read of rows holds its snapshot (:mod:`tidelake.table.handle.read_hold`) before it is planned.
   What a tag names needs no hold: the tag keeps it, and who deletes the tag ends its reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tidelake.errors import NotFoundError, UnsupportedError
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.options import declared
from tidelake.scan import SNAPSHOT_EXPIRED, ReadContext
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.read_hold import HoldPolicy, ReadHold
from tidelake.table.handle.time_travel import (
    COMPACTED_EVERY,
    CREATED_SINCE,
    Time,
    option_moment,
)
from tidelake.types import DataField

PLAN_TRIES = 3
"""Plans of a newest snapshot that expires meanwhile, before the caller gets the error."""

S = TypeVar("S")
Plan = Callable[[Snapshot | None, Snapshot | None], S]
PlanHeld = Callable[[Snapshot | None, Snapshot | None, ReadHold], S]


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """The arguments of a read, as :meth:`tidelake.Table.scan` describes them."""

    columns: Sequence[str] | None = None
    where: object = None
    limit: int | None = None
    snapshot_id: int | None = None
    timestamp: Time | None = None
    tag: str | None = None

    def travels(self, handle: TableHandle) -> bool:
        """Whether an argument or an option of the table names a moment."""
        return self._is_asked or bool(self._moment_keys(handle))

    def moment(self, handle: TableHandle) -> dict[str, Any]:
        """The moment that is named, as arguments of a read."""
        if not self._is_asked:
            return option_moment(handle.options, table=handle.identifier)
        given = {"snapshot_id": self.snapshot_id, "timestamp": self.timestamp, "tag": self.tag}
        return {name: value for name, value in given.items() if value is not None}

    @staticmethod
    def _moment_keys(handle: TableHandle) -> set[str]:
        asked = option_moment(handle.options, table=handle.identifier)
        return asked.keys() - {COMPACTED_EVERY, CREATED_SINCE}

    @property
    def _is_asked(self) -> bool:
        return (self.snapshot_id, self.timestamp, self.tag) != (None, None, None)

    def created_since(self, handle: TableHandle) -> int | None:
        """Only files created at this time or later are wanted, in ms; None for all files."""
        if self._is_asked:
            return None
        asked: dict[str, Any] = option_moment(handle.options, table=handle.identifier)
        return asked.get(CREATED_SINCE)

    def context(self, handle: TableHandle, schema_of: Snapshot | None) -> ReadContext:
        """The context of a read of all rows, with the columns of a snapshot or the current ones."""
        context = handle.read_context(schema_of)
        since = self.created_since(handle)
        return context if since is None else replace(context, created_since=since)

    def check_all_files(self, handle: TableHandle) -> None:
        """Refuse a lookup of keys among a part of the files.

        Raises
        ------
        UnsupportedError
            The table's options ask for files of a certain age.
        """
        if self.created_since(handle) is not None:
            key = declared.SCAN_FILE_CREATION_TIME_MILLIS.key
            message = (
                f"Table '{handle.identifier}': option '{key}' is for reads of all rows, keys are"
                " looked up in files of every age: unset it, or filter to_arrow() by the key."
            )
            raise UnsupportedError(message, kind="scan_mode", table=handle.identifier, option=key)

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
        return self._planned(handle, lambda snapshot, schema_of, _: plan(snapshot, schema_of))

    def planned_held(self, handle: TableHandle, plan: PlanHeld[S], *, begins: bool = True) -> S:
        """Plan for the wanted snapshot, and hold it for the read of its rows.

        Parameters
        ----------
        plan : callable
            As of :meth:`planned`; its third argument holds the snapshot. What reads the rows keeps
            it.
        begins : bool
            Whether to hold it before the plan; False where metadata may be all that is read.

        Raises
        ------
        NotFoundError, InvalidInputError
            As of :meth:`planned`.
        StorageError
            ``read.hold`` is ``always``, and the snapshot cannot be held.
        """

        def held(snapshot: Snapshot | None, schema_of: Snapshot | None, tries_left: int) -> S:
            hold = self._hold(handle, snapshot, travels=schema_of is not None)
            try:
                if begins and not hold.begin() and tries_left:
                    raise _about_to_expire(handle, snapshot)
                return plan(snapshot, schema_of, hold)
            except BaseException:
                hold.release()
                raise

        return self._planned(handle, held)

    def _hold(self, handle: TableHandle, snapshot: Snapshot | None, *, travels: bool) -> ReadHold:
        if travels and self._names_tag(handle):
            return ReadHold()
        policy = HoldPolicy(handle.options, handle.fileio.is_remote, is_old=travels)
        return handle.holds.hold(handle, snapshot, policy)

    def _names_tag(self, handle: TableHandle) -> bool:
        return self.tag is not None or (not self._is_asked and "tag" in self._moment_keys(handle))

    def _planned(self, handle: TableHandle, plan: Callable[..., S]) -> S:
        travels = self.travels(handle)
        tries_left = 1 if travels else PLAN_TRIES
        while True:
            snapshot = self.snapshot(handle)
            tries_left -= 1
            try:
                return plan(snapshot, snapshot if travels else None, tries_left)
            except NotFoundError as error:
                if error.kind != SNAPSHOT_EXPIRED or not tries_left:
                    raise


def _about_to_expire(handle: TableHandle, snapshot: Snapshot | None) -> NotFoundError:
    """The error for which a read of the newest snapshot is planned again."""
    number = None if snapshot is None else snapshot.id
    message = f"Snapshot {number} of table '{handle.identifier}' is about to expire: read again."
    return NotFoundError(message, kind="snapshot_expired", table=handle.identifier, snapshot=number)
