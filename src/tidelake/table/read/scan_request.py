"""The arguments of one read, and the snapshot that it is planned for.

1. A read without a moment reads the newest snapshot with the table's current columns. A read of a
   moment (an argument, or an option such as ``scan.snapshot-id``) has the columns of that moment.
   ``compacted-full`` and ``from-file-creation-time`` of ``scan.mode`` name no moment: current
   columns.
2. The newest snapshot may expire during planning. Then the read is planned again for the snapshot
   that is the newest now, at most :data:`PLAN_TRIES` times.
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
