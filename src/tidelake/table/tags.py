"""The tags of a table: names of snapshots, which so stay readable."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidelake.commit.iceberg import sync_quietly
from tidelake.commit.tags import (
    create_due_tags,
    delete_tag_and_files,
    expire_tags,
    tell_created,
    tell_deleted,
)
from tidelake.errors import InvalidInputError, NotFoundError, shortened
from tidelake.fileio import OpenDirectory
from tidelake.fileio.name import validate_name
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.log.tag import Tag
from tidelake.options import declared, parse_value
from tidelake.table.handle.arguments import whole_number
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.instant import Time, instant, instant_ms, timestamp_ms
from tidelake.table.jobs.branching import check_tag_may_go

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


class Tags:
    """The tags of one table: :attr:`tidelake.Table.tags`.

    Examples
    --------
    >>> import tempfile, tidelake, pyarrow as pa
    >>> catalog = tidelake.open(tempfile.mkdtemp())
    >>> table = catalog.create_table("db.t", pa.schema({"k": pa.int64()}))
    >>> _ = table.write([{"k": 1}])
    >>> table.tags.create("v1")
    >>> [(tag.name, tag.snapshot_id) for tag in table.tags.list()]
    [('v1', 1)]
    >>> table.tags.delete("v1")
    """

    def __init__(self, handle: TableHandle) -> None:
        self._handle = handle

    def __iter__(self) -> Iterator[TagInfo]:
        """The tags by name."""
        return iter(self.list())

    def __repr__(self) -> str:
        return f"<Tags of {self._handle.identifier}: {', '.join(self._handle.tags.names())}>"

    def create(
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
            How long the tag is kept: ``"1 d"``, milliseconds or a timedelta. The default is
            ``tag.default-time-retained``: for ever. See :meth:`expire`.

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
        handle = self._handle
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
        if not self._is_kept(snapshot, name):
            handle.tags.delete(name)
            raise _expired(handle, snapshot, name)
        tell_created(handle, name)
        sync_quietly(handle.commit_context())

    def replace(
        self,
        name: str,
        *,
        snapshot_id: int | None = None,
        timestamp: Time | None = None,
        time_retained: Retention | None = None,
    ) -> None:
        """Point a tag to another snapshot; without `time_retained` it is kept for ever.

        Files that only the tag kept become orphans, as in Java. Arguments as of
        :meth:`create`.

        Raises
        ------
        NotFoundError
            There is no such tag or snapshot.
        InvalidInputError
            A branch began at its snapshot, which no other tag names.
        """
        handle = self._handle
        handle.time_travel.by_tag(name)  # refuses an unknown tag with near names
        check_tag_may_go(handle, name)
        retained_ms = _retained_ms(time_retained, handle.identifier)
        snapshot = self._to_tag(snapshot_id, timestamp)
        before = handle.fileio.read_bytes(handle.paths.tag(name))
        handle.tags.replace(name, snapshot, time_retained_ms=retained_ms, clock=handle.env.clock)
        if not self._is_kept(snapshot, name):
            handle.fileio.replace(handle.paths.tag(name), before)
            raise _expired(handle, snapshot, name)
        tell_created(handle, name)
        sync_quietly(handle.commit_context())

    def rename(self, name: str, new_name: str) -> None:
        """Rename a tag.

        Raises
        ------
        NotFoundError
            There is no such tag.
        AlreadyExistsError
            There is a tag of the new name.
        """
        self._handle.time_travel.by_tag(name)  # refuses an unknown tag with near names
        self._handle.tags.rename(name, new_name)
        tell_created(self._handle, new_name)
        tell_deleted(self._handle, name)
        sync_quietly(self._handle.commit_context())

    def delete(self, name: str) -> None:
        """Remove a tag. If its snapshot has expired, files that only it kept are deleted.

        Raises
        ------
        NotFoundError
            There is no such tag; the message offers near names.
        InvalidInputError
            A branch began at its snapshot, which no other tag names.
        """
        self._handle.time_travel.by_tag(name)  # refuses an unknown tag with near names
        check_tag_may_go(self._handle, name)
        _delete_tag(self._handle, name)
        sync_quietly(self._handle.commit_context())

    def expire(self, *, older_than: Time | None = None, dry_run: bool = False) -> Sequence[str]:
        """Remove the tags whose time is over, with files that only they kept.

        Commits of a table with ``tag.automatic-creation`` or ``tag.default-time-retained`` do this.
        So do, in any table, jobs of compaction, and each process that has written for ten minutes.

        Parameters
        ----------
        older_than : int, str, datetime or date, optional
            Remove every tag that was made before this time too, which needs a zone.
        dry_run : bool
            Whether to report only which would be removed.

        Returns
        -------
        sequence of str
            The names.

        Raises
        ------
        InvalidInputError
            `older_than` has no zone.
        """
        handle = self._handle
        older_than_ms = None
        if older_than is not None:
            what = "older_than of tags.expire"
            older_than_ms = instant_ms(older_than, what=what, table=handle.identifier)
        context = handle.commit_context()
        expired = expire_tags(context, older_than_ms=older_than_ms, dry_run=dry_run)
        if expired and not dry_run:
            sync_quietly(context)
        return expired

    def create_due(self) -> Sequence[str]:
        """Make the tags that are due by ``tag.automatic-creation``, and remove those that expired.

        Commits do this. It is for a table that is written by others, or with ``write-only``.

        Returns
        -------
        sequence of str
            The new tags.
        """
        handle = self._handle
        context, newest = handle.commit_context(), handle.snapshots.latest()
        if newest is None:
            return []
        made = create_due_tags(context, newest, is_batch=False)
        expire_tags(context)
        sync_quietly(context)
        return made

    def list(self) -> list[TagInfo]:
        """The tags by name, with snapshots and times; reads a small file per tag."""
        found: list[TagInfo] = []
        zone = self._handle.env.zone
        for name in self._handle.tags.names():
            with contextlib.suppress(NotFoundError):  # deleted meanwhile
                found.append(TagInfo.of(self._handle.tags.load(name), zone=zone))
        return found

    def _check_landed(self, tag: Tag, tag_dir: OpenDirectory) -> None:
        """Where a directory is only a path, take a tag back that came into another table."""
        handle = self._handle
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
        handle = self._handle
        if handle.snapshots.has(snapshot.id):
            return True
        others = [handle.tags.load(other) for other in handle.tags.names() if other != name]
        return any(other.snapshot.id == snapshot.id for other in others)

    def _to_tag(self, snapshot_id: int | None, timestamp: Time | None) -> Snapshot:
        handle = self._handle
        what, table = "the timestamp of a tag", handle.identifier
        at = None if timestamp is None else instant_ms(timestamp, what=what, table=table)
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


def _delete_tag(handle: TableHandle, name: str) -> None:
    """Remove a tag, and files that it alone kept.

    Raises
    ------
    NotFoundError
        There is no such tag; the message offers near names.
    CorruptError
        The tag's snapshot, or one beside it, cannot be read; nothing was deleted.
    """
    handle.time_travel.by_tag(name)  # refuses an unknown tag with near names
    delete_tag_and_files(handle.commit_context(), name)
