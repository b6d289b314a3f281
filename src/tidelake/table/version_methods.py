"""Methods of a table for its versions: tags, branches, upkeep, rollback."""

from __future__ import annotations

import abc

from tidelake.commit.iceberg import sync_quietly
from tidelake.errors import InvalidInputError
from tidelake.table.branches import Branches
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.instant import Time, instant_ms
from tidelake.table.handle.time_travel import Moment
from tidelake.table.jobs.rollback import RollbackResult, roll_back
from tidelake.table.maintenance import Maintenance
from tidelake.table.tags import Tags


class VersionMethods(abc.ABC):
    """Tags, branches, upkeep and rollback."""

    @property
    @abc.abstractmethod
    def handle(self) -> TableHandle:
        """The table."""

    @property
    def tags(self) -> Tags:
        """The table's tags: create, replace, rename, delete, list."""
        return Tags(self.handle)

    @property
    def branches(self) -> Branches:
        """The table's branches: create, rename, delete, list."""
        return Branches(self.handle)

    @property
    def maintenance(self) -> Maintenance:
        """Upkeep: expiry, purge, manifests, statistics, Iceberg metadata."""
        return Maintenance(self.handle)

    def rollback_to(
        self,
        moment: Moment | None = None,
        *,
        snapshot_id: int | None = None,
        timestamp: Time | None = None,
        tag: str | None = None,
        dry_run: bool = False,
    ) -> RollbackResult:
        """Go back to an older snapshot and remove the newer ones. This cannot be undone.

        Later snapshots and their tags are removed; the data files that they added become orphans.
        The schema stays as it is. Stop writers first: a commit meanwhile is either rolled back too,
        or goes on top.

        Parameters
        ----------
        moment : int, str, datetime or date, optional
            A snapshot id, a tag, or a time with its zone.
        snapshot_id, timestamp, tag
            The same by kind; give one. A time means the newest snapshot at or before it.
        dry_run : bool
            Whether to report only what would be removed.

        Returns
        -------
        RollbackResult
            ``previous_snapshot_id``, ``snapshot_id``, ``removed_snapshot_ids``, ``removed_tags``.

        Raises
        ------
        NotFoundError
            There is no such snapshot or tag.
        InvalidInputError
            Not exactly one is given, a time has no zone, or the target belongs to a history that
            was rolled back.
        """
        handle = self.handle
        travel = handle.time_travel
        given = [x for x in (moment, snapshot_id, timestamp, tag) if x is not None]
        if len(given) != 1:
            message = (
                f"Say where to roll table '{handle.identifier}' back to: exactly one snapshot id,"
                f" tag or time, not {len(given)}."
            )
            raise InvalidInputError(message, kind="rollback_target", table=handle.identifier)
        if moment is not None:
            target = travel.at(travel.changing(moment, what="the moment of rollback_to"))
        else:
            at = self._instant(timestamp, "the timestamp of rollback_to")
            target = travel.resolve(snapshot_id=snapshot_id, timestamp=at, tag=tag)
        if target is None:
            message = (
                f"Table '{handle.identifier}' cannot go back to before its first snapshot: use"
                " truncate()."
            )
            raise InvalidInputError(message, kind="rollback_target", table=handle.identifier)
        result = roll_back(handle, target, dry_run=dry_run)
        if not dry_run:
            sync_quietly(handle.commit_context())
        return result

    def _instant(self, given: Time | None, what: str) -> int | None:
        """Milliseconds of a time with a zone."""
        if given is None:
            return None
        return instant_ms(given, what=what, table=self.handle.identifier)
