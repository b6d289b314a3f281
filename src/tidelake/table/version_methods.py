"""Methods of a table for its versions: tags, rollback, expiry and purge."""

from __future__ import annotations

import abc
import contextlib
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidelake.commit.expiry import Expired
from tidelake.commit.iceberg import Synced, sync, sync_quietly
from tidelake.errors import InvalidInputError, NotFoundError, shortened
from tidelake.fileio import OpenDirectory
from tidelake.fileio.name import validate_name
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.log.tag import Tag
from tidelake.options import declared, parse_value, warn_once
from tidelake.table.handle.arguments import whole_number
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.instant import Time, instant, instant_ms, timestamp_ms
from tidelake.table.handle.time_travel import Moment
from tidelake.table.jobs.expiry import expire_changelogs_now, expire_snapshots_now
from tidelake.table.jobs.purge import PurgeResult, purge_files
from tidelake.table.jobs.rollback import RollbackResult, roll_back
from tidelake.table.jobs.tag_deletion import delete_tag

Retention = str | int | timedelta
"""How long a tag is kept: ``"1 d"``, milliseconds, or a timedelta."""


@dataclass(frozen=True, slots=True)
class TagInfo:
    """A tag: the name of a snapshot that stays readable.

    Parameters
    ----------
    name : str
        Its name.
    snapshot_id : int
        The snapshot.
    commit_time : datetime
        When the snapshot was committed, in UTC.
    record_count : int or None
        Stored rows of the snapshot.
    create_time : datetime or None
        When the tag was made, in UTC. A tag stores its writer's wall clock; it is read as if the
        writer lived in this environment's zone, as Java does. Only tags with a time to live have
        it.
    time_retained : timedelta or None
        How long it is kept; None means for ever.
    """

    name: str
    snapshot_id: int
    commit_time: datetime
    record_count: int | None
    create_time: datetime | None
    time_retained: timedelta | None

    @classmethod
    def of(cls, tag: Tag, *, zone: str | None) -> TagInfo:
        """The facts about a stored tag; `zone` is that of its writer's clock."""
        made_ms, kept_ms = tag.create_time_ms, tag.time_retained_ms
        return cls(
            tag.name,
            tag.snapshot.id,
            instant(tag.snapshot.time_ms),
            tag.snapshot.total_record_count,
            None if made_ms is None else _made_at(made_ms, zone),
            None if kept_ms is None else timedelta(milliseconds=kept_ms),
        )


def _made_at(wall_clock_ms: int, zone: str | None) -> datetime:
    naive = instant(wall_clock_ms).replace(tzinfo=None)
    return instant(timestamp_ms(naive, zone=zone))


class VersionMethods(abc.ABC):
    """Tags, rollback, expiry and purge."""

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
            At most one: which snapshot. An expired one is taken from another tag of it. A time
            needs a zone.
        time_retained : str, int or timedelta, optional
            How long Java Paimon keeps the tag: ``"1 d"``, milliseconds or a timedelta. The default
            is ``tag.default-time-retained``: for ever. Tidelake deletes no tag by itself, and warns
            of it.

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
        with handle.fileio.open_dir(handle.paths.tag_dir, make=True) as tag_dir:
            # the directory is held before the check: a new table at this path gets no tag
            handle.schemas.check_same(handle.schema, table=handle.identifier)
            tag = handle.tags.create(
                name,
                snapshot,
                time_retained_ms=retained_ms,
                clock=handle.env.clock,
                within=tag_dir,
            )
            self._check_landed(tag, tag_dir)
        self._warn_of_retention(retained_ms)
        if not self._is_kept(snapshot, name):
            handle.tags.delete(name)
            raise _expired(handle, snapshot, name)
        sync_quietly(handle.commit_context())

    def replace_tag(
        self,
        name: str,
        *,
        snapshot_id: int | None = None,
        timestamp: Time | None = None,
        time_retained: Retention | None = None,
    ) -> None:
        """Point a tag to another snapshot; without `time_retained` it is kept for ever.

        Files that only the tag kept become orphans, as in Java. Arguments as of
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
        before = handle.fileio.read_bytes(handle.paths.tag(name))
        handle.tags.replace(name, snapshot, time_retained_ms=retained_ms, clock=handle.env.clock)
        self._warn_of_retention(retained_ms)
        if not self._is_kept(snapshot, name):
            handle.fileio.replace(handle.paths.tag(name), before)
            raise _expired(handle, snapshot, name)
        sync_quietly(handle.commit_context())

    def list_tags(self) -> list[TagInfo]:
        """The table's tags by name, each with its snapshot and times; reads a small file per tag.

        Examples
        --------
        >>> import tempfile, tidelake, pyarrow as pa
        >>> catalog = tidelake.open(tempfile.mkdtemp())
        >>> table = catalog.create_table("db.t", pa.schema({"k": pa.int64()}))
        >>> _ = table.write([{"k": 1}])
        >>> table.create_tag("v1")
        >>> [(tag.name, tag.snapshot_id) for tag in table.list_tags()]
        [('v1', 1)]
        """
        found: list[TagInfo] = []
        zone = self.handle.env.zone
        for name in self.handle.tags.names():
            with contextlib.suppress(NotFoundError):  # deleted meanwhile
                found.append(TagInfo.of(self.handle.tags.load(name), zone=zone))
        return found

    def rename_tag(self, name: str, new_name: str) -> None:
        """Rename a tag.

        Raises
        ------
        NotFoundError
            There is no such tag.
        AlreadyExistsError
            There is a tag of the new name.
        """
        self.handle.time_travel.by_tag(name)  # refuses an unknown tag with near names
        self.handle.tags.rename(name, new_name)
        sync_quietly(self.handle.commit_context())

    def delete_tag(self, name: str) -> None:
        """Remove a tag. If its snapshot has expired, files that only it kept are deleted.

        Raises
        ------
        NotFoundError
            There is no such tag; the message offers near names.
        """
        delete_tag(self.handle, name)
        sync_quietly(self.handle.commit_context())

    def sync_iceberg(self, *, from_scratch: bool = False) -> Synced:
        """Write the Iceberg metadata of the newest snapshot, as far as it is missing.

        Each commit does so. This makes up for one that could not, and for files that were lost.

        Parameters
        ----------
        from_scratch : bool
            Whether to make all Iceberg manifests again; Iceberg's readers then find the newest
            snapshot only.

        Returns
        -------
        Synced
            ``metadata_file``, ``snapshot_id``, ``snapshots_count``.

        Raises
        ------
        InvalidInputError
            The table has no Iceberg metadata by its options, or no snapshot yet.
        UnsupportedError
            It has, in older files, types that Iceberg's readers cannot read.
        """
        handle = self.handle
        synced = sync(handle.commit_context(), from_scratch=from_scratch)
        if synced is None:
            message = (
                f"Table '{handle.identifier}' has no Iceberg metadata: set"
                " 'metadata.iceberg.storage' = 'table-location' or 'hadoop-catalog', and write to"
                " it."
            )
            raise InvalidInputError(message, kind="iceberg_disabled", table=handle.identifier)
        return synced

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

    def expire_snapshots(
        self,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: Time | None = None,
        max_deletes: int | None = None,
        dry_run: bool = False,
    ) -> Expired:
        """Remove the oldest snapshots, with the files that only they need.

        Every commit does this by the options, unless the table is ``write-only``; call it for other
        limits, or to expire now. Tags, branches and consumers keep what they need. A reader of a
        removed snapshot loses its files.

        Parameters
        ----------
        retain_max : int, optional
            Keep at most so many, whatever their age; by default ``snapshot.num-retained.max``.
        retain_min : int, optional
            Keep at least so many; by default ``snapshot.num-retained.min``, which is 10.
        older_than : int, str, datetime or date, optional
            A snapshot may be removed if its successor is older than this time, which needs a zone;
            by default an hour ago, by ``snapshot.time-retained``.
        max_deletes : int, optional
            Remove at most so many, the oldest first; by default ``snapshot.expire.limit``, 50.
        dry_run : bool
            Whether to report only what would be removed.

        Returns
        -------
        Expired
            ``ids`` of the snapshots, and the number of ``removed_files``.

        Raises
        ------
        InvalidInputError
            The maximum to keep is below the minimum, or is zero; or `older_than` has no zone.
        CorruptError
            A file needed to decide cannot be read; the message names it. Snapshots before it are
            already removed.

        Examples
        --------
        >>> import tempfile, tidelake, pyarrow as pa
        >>> catalog = tidelake.open(tempfile.mkdtemp())
        >>> table = catalog.create_table("db.t", pa.schema({"k": pa.int64()}))
        >>> for k in range(5):
        ...     _ = table.write([{"k": k}])
        >>> table.expire_snapshots(retain_max=2, retain_min=1).ids
        (1, 2, 3)
        """
        return expire_snapshots_now(
            self.handle,
            retain_max=retain_max,
            retain_min=retain_min,
            older_than_ms=self._instant(older_than, "older_than of expire_snapshots"),
            max_deletes=max_deletes,
            dry_run=dry_run,
        )

    def expire_changelogs(
        self,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: Time | None = None,
        max_deletes: int | None = None,
        delete_all: bool = False,
        dry_run: bool = False,
    ) -> Expired:
        """Remove the oldest of the changelogs that outlived their snapshots, with their files.

        Every commit does this by ``changelog.*``, unless the table is ``write-only``. Changelogs of
        existing snapshots are removed with those snapshots.

        Parameters
        ----------
        retain_max, retain_min : int, optional
            Keep at most and at least so many, existing snapshots included; by default
            ``changelog.num-retained.max`` and ``.min``.
        older_than : int, str, datetime or date, optional
            A changelog may be removed if its successor is older than this time, which needs a
            zone; by default by ``changelog.time-retained``.
        max_deletes : int, optional
            As in :meth:`expire_snapshots`.
        delete_all : bool
            Whether to remove all of them, whatever the other arguments say.
        dry_run : bool
            Whether to report only what would be removed.

        Returns
        -------
        Expired
            ``ids`` of the snapshots whose changelogs are removed, and the number of
            ``removed_files``.

        Raises
        ------
        InvalidInputError, CorruptError
            As of :meth:`expire_snapshots`.
        """
        return expire_changelogs_now(
            self.handle,
            retain_max=retain_max,
            retain_min=retain_min,
            older_than_ms=self._instant(older_than, "older_than of expire_changelogs"),
            max_deletes=max_deletes,
            delete_all=delete_all,
            dry_run=dry_run,
        )

    def purge_files(self, *, dry_run: bool = False) -> PurgeResult:
        """Remove all rows and all history: snapshots, tags, changelogs. This cannot be undone.

        The schema and the newest snapshot, which is then empty, stay. Readers of older snapshots
        lose their files; concurrent commits do not.

        Parameters
        ----------
        dry_run : bool
            Whether to report only what would be removed.

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

    def _check_landed(self, tag: Tag, tag_dir: OpenDirectory) -> None:
        """Where a directory is only a path, take a tag back that came into another table."""
        handle = self.handle
        if handle.fileio.holds_directories:
            return
        try:
            handle.schemas.check_same(handle.schema, table=handle.identifier)
        except NotFoundError:
            path, ours = handle.paths.tag(tag.name), tag.to_json().encode()
            handle.fileio.delete(path, within=tag_dir, reused=True, expected=ours)
            raise

    def _is_kept(self, snapshot: Snapshot, name: str) -> bool:
        """Whether a snapshot still exists after a tag of it was made, or another tag names it.

        An expiry removes the snapshot's file first, then looks for tags, then removes the other
        files. So if the snapshot's file still exists, the expiry will see the tag.
        """
        handle = self.handle
        if handle.snapshots.has(snapshot.id):
            return True
        others = [handle.tags.load(other) for other in handle.tags.names() if other != name]
        return any(other.snapshot.id == snapshot.id for other in others)

    def _warn_of_retention(self, retained_ms: int | None) -> None:
        if retained_ms is not None:
            text = (
                "a tag's time_retained is written into it, but Tidelake deletes no tag by itself:"
                " Java Paimon's commits do, or delete_tag()."
            )
            warn_once(self.handle.identifier, text)

    def _instant(self, given: Time | None, what: str) -> int | None:
        """Milliseconds of a time with a zone."""
        if given is None:
            return None
        return instant_ms(given, what=what, table=self.handle.identifier)

    def _to_tag(self, snapshot_id: int | None, timestamp: Time | None) -> Snapshot:
        handle = self.handle
        at = self._instant(timestamp, "the timestamp of a tag")
        snapshot = handle.time_travel.resolve(snapshot_id=snapshot_id, timestamp=at)
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


def _expired(handle: TableHandle, snapshot: Snapshot, name: str) -> NotFoundError:
    message = (
        f"Snapshot {snapshot.id} of table '{handle.identifier}' expired while tag '{name}' was"
        " created: tag a newer one."
    )
    return NotFoundError(message, kind="snapshot_not_found", table=handle.identifier)
