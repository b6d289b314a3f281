"""A version of a table as a user names it: a snapshot, a tag, a time, or a branch.

``branch:audit`` is the newest snapshot of a branch, ``branch:audit@7`` and ``branch:audit@v1`` are
a snapshot and a tag of it. A tag that has such a name comes first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.scan import ReadContext
from tidelake.table.handle.branch import on_branch, table_name
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.time_travel import Moment

BRANCH = "branch:"


@dataclass(frozen=True, slots=True)
class Version:
    """One version.

    Parameters
    ----------
    handle : TableHandle
        The table, at the version's branch.
    snapshot : Snapshot or None
        None is the empty table before the first snapshot.
    """

    handle: TableHandle
    snapshot: Snapshot | None

    @property
    def snapshot_id(self) -> int:
        """The snapshot's id; 0 for the empty table."""
        return 0 if self.snapshot is None else self.snapshot.id

    @property
    def branch(self) -> str:
        """The branch; ``main`` for the table itself."""
        return self.handle.paths.branch

    def __str__(self) -> str:
        return f"{self.handle.identifier}@{self.snapshot_id}"


def find_version(handle: TableHandle, moment: Moment | None) -> Version:
    """Find a version.

    Parameters
    ----------
    moment : int, str, datetime, date or None
        None is the newest snapshot; 0 is the empty table before the first one.

    Raises
    ------
    NotFoundError
        There is no such snapshot, tag or branch, or it has expired.
    InvalidInputError
        It is no moment.
    """
    if isinstance(moment, str) and moment.startswith(BRANCH) and moment not in handle.tags.names():
        name, _, rest = moment.removeprefix(BRANCH).partition("@")
        handle = on_branch(handle, name)
        number = rest.isascii() and rest.isdecimal() and rest not in handle.tags.names()
        moment = (int(rest) if number else rest) if rest else None
    if moment is None:
        return Version(handle, handle.snapshots.latest())
    return Version(handle, handle.time_travel.at(moment))


def common_context(before: Version, after: Version) -> ReadContext:
    """The context that reads the rows of both: with the columns of `after`.

    Raises
    ------
    UnsupportedError
        Both branches changed their columns since they parted.
    InvalidInputError
        One has another primary key or other partitions.
    """
    context = after.handle.read_context(after.snapshot or before.snapshot)
    if before.branch == after.branch:
        return context
    other = before.handle.read_context(before.snapshot)
    for number in context.schemas.keys() & other.schemas.keys():
        if context.schemas[number].fields != other.schemas[number].fields:
            message = (
                f"{before} and {after} both changed their columns since they parted, so it is not"
                " known which of them are the same: compare each with a version from before, or"
                " fast-forward one of the branches first."
            )
            raise UnsupportedError(
                message, kind="branches_parted", table=table_name(after.handle), schema=number
            )
    ours, theirs = context.schema, other.schema
    if (ours.primary_keys, ours.partition_keys) != (theirs.primary_keys, theirs.partition_keys):
        message = f"{before} and {after} have other primary keys or partitions: no row is the same."
        raise InvalidInputError(message, kind="keys_differ", table=table_name(after.handle))
    return replace(context, schemas={**other.schemas, **context.schemas})
