"""The ways to name versions of a table and to go back to them, as methods."""

from __future__ import annotations

import abc
from datetime import timedelta

from tidelake.errors import InvalidInputError, shortened
from tidelake.fileio.name import validate_name
from tidelake.metadata.snapshot import Snapshot
from tidelake.options import declared, parse_value
from tidelake.table.arguments import whole_number
from tidelake.table.handle import TableHandle
from tidelake.table.purge import PurgeResult, purge_files
from tidelake.table.rollback import RollbackResult, roll_back
from tidelake.table.tag_deletion import delete_tag
from tidelake.table.time_travel import Moment, Time

__all__ = ["Retention", "Versions"]

Retention = str | int | timedelta
"""How long a tag is kept: ``"1 d"``, milliseconds, or a timedelta."""


class Versions(abc.ABC):
    """Tags, rollback and purge."""

    @property
    @abc.abstractmethod
    def handle(self) -> TableHandle:
        """The table."""

    def create_tag(
        self,
        name: str,
        *,
        snapshot_id: int | None = None,
        timestamp: Time | None = None,
        time_retained: Retention | None = None,
    ) -> None:
        """Name a snapshot, by default the newest, so that it stays readable.

        Parameters
        ----------
        name : str
            The tag's name, with a letter in it.
        snapshot_id, timestamp
            At most one: which snapshot. One that has expired is taken from another tag of it.
        time_retained : str, int or timedelta, optional
            How long Paimon keeps the tag: ``"1 d"``, milliseconds or a timedelta; by default as
            ``tag.default-time-retained`` says, which is for ever.

        Raises
        ------
        AlreadyExistsError
            There is a tag of that name.
        NotFoundError
            There is no such snapshot.
        """
        validate_name(name, "tag")
        if name.isdecimal():
            message = f"'{name}' would look like a snapshot id: a tag's name needs a letter."
            raise InvalidInputError(message, kind="bad_name", name=name, what="tag")
        handle = self.handle
        retained_ms = _retained_ms(time_retained, handle.identifier)
        if retained_ms is None:
            retained_ms = handle.options.get(declared.TAG_DEFAULT_TIME_RETAINED)
        snapshot = self._to_tag(snapshot_id, timestamp)
        handle.tags.create(name, snapshot, time_retained_ms=retained_ms, clock=handle.env.clock)

    def replace_tag(
        self,
        name: str,
        *,
        snapshot_id: int | None = None,
        timestamp: Time | None = None,
        time_retained: Retention | None = None,
    ) -> None:
        """Let a tag name another snapshot; without `time_retained` it is kept for ever.

        Files that only the tag kept are orphans then, as in Java. Arguments as of
        :meth:`create_tag`.

        Raises
        ------
        NotFoundError
            There is no such tag or snapshot.
        """
        handle = self.handle
        handle.time_travel.by_tag(name)  # refuses an unknown tag with near names
        retained_ms = _retained_ms(time_retained, handle.identifier)
        snapshot = self._to_tag(snapshot_id, timestamp)
        handle.tags.replace(name, snapshot, time_retained_ms=retained_ms, clock=handle.env.clock)

    def rename_tag(self, name: str, new_name: str) -> None:
        """Give a tag another name.

        Raises
        ------
        NotFoundError
            There is no such tag.
        AlreadyExistsError
            There is a tag of the new name.
        """
        self.handle.time_travel.by_tag(name)  # refuses an unknown tag with near names
        self.handle.tags.rename(name, new_name)

    def delete_tag(self, name: str) -> None:
        """Remove a tag. Where its snapshot has expired, files that only it kept are deleted.

        Raises
        ------
        NotFoundError
            There is no such tag; near names are offered.
        """
        delete_tag(self.handle, name)

    def rollback_to(
        self,
        moment: Moment | None = None,
        *,
        snapshot_id: int | None = None,
        timestamp: Time | None = None,
        tag: str | None = None,
        dry_run: bool = False,
    ) -> RollbackResult:
        """Go back to an older snapshot; what came after it is gone. This cannot be undone.

        Later snapshots and the tags of later snapshots are removed; the data files of what they
        added become orphans. The schema stays as it is. Stop writers first: one that commits in
        the meantime either is rolled back too, or commits on top.

        Parameters
        ----------
        moment : int, str, datetime or date, optional
            A snapshot id, a tag, or a time.
        snapshot_id, timestamp, tag
            The same, said which; give one. A time means the newest snapshot at or before it.
        dry_run : bool
            Whether to say only what would go.

        Returns
        -------
        RollbackResult
            ``previous_snapshot_id``, ``snapshot_id``, ``removed_snapshot_ids``, ``removed_tags``.

        Raises
        ------
        NotFoundError
            There is no such snapshot or tag.
        InvalidInputError
            Not exactly one is said, or the target is of a history that was rolled back.
        """
        handle = self.handle
        travel = handle.time_travel
        given = [x for x in (moment, snapshot_id, timestamp, tag) if x is not None]
        if len(given) != 1:
            message = (
                f"Say where to roll table '{handle.identifier}' back to: one snapshot id, tag or"
                f" time, not {len(given)}."
            )
            raise InvalidInputError(message, kind="rollback_target", table=handle.identifier)
        if moment is not None:
            target = travel.at(moment)
        else:
            target = travel.resolve(snapshot_id=snapshot_id, timestamp=timestamp, tag=tag)
        if target is None:
            message = (
                f"Table '{handle.identifier}' cannot go back to before its first snapshot: use"
                " truncate()."
            )
            raise InvalidInputError(message, kind="rollback_target", table=handle.identifier)
        return roll_back(handle, target, dry_run=dry_run)

    def purge_files(self, *, dry_run: bool = False) -> PurgeResult:
        """Remove all rows and all history: snapshots, tags, changelogs. This cannot be undone.

        The schema and the newest snapshot, which is empty then, stay. Readers of older snapshots
        lose their files; a commit that comes meanwhile does not.

        Parameters
        ----------
        dry_run : bool
            Whether to say only what would go.

        Returns
        -------
        PurgeResult
            ``snapshot_id``, ``removed_snapshot_ids``, ``removed_tags``, ``removed_files``.

        Raises
        ------
        UnsupportedError
            The table has branches.
        """
        return purge_files(self.handle, dry_run=dry_run)

    def _to_tag(self, snapshot_id: int | None, timestamp: Time | None) -> Snapshot:
        handle = self.handle
        snapshot = handle.time_travel.resolve(snapshot_id=snapshot_id, timestamp=timestamp)
        if snapshot is None:
            message = f"Table '{handle.identifier}' has no snapshot to tag: write to it first."
            raise InvalidInputError(message, kind="nothing_to_tag", table=handle.identifier)
        return snapshot


def _retained_ms(given: object, table: str) -> int | None:
    if given is None:
        return None
    number = whole_number(given)
    if isinstance(given, timedelta):
        number = given // timedelta(milliseconds=1)
    if isinstance(given, str):
        try:
            number = whole_number(parse_value(declared.TAG_DEFAULT_TIME_RETAINED, given))
        except ValueError:
            number = None
    if number is None or number < 0:
        message = (
            f"time_retained is {shortened(repr(given))} but must be a duration such as '1 d' or"
            " '12 h', milliseconds, or a timedelta."
        )
        raise InvalidInputError(message, kind="time_retained", table=table)
    return number
