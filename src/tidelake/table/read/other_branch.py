"""Partitions that a batch read takes from another branch.

1. ``scan.fallback-branch`` names the branch that has the partitions that this one lacks;
   ``scan.primary-branch`` the branch whose partitions are read instead of this one's.
2. The branch that comes first is planned first, with all of the filter. The other one gives the
   partitions of which the first has no file that a read opens; the filter on partition columns
   alone decides which these are, so a row that the filter drops is not replaced by another one.
3. Both have the same columns and partition columns; their keys, buckets and options may differ.
4. A moment is one of this branch. The other one is read at the same time, or by its tag of the
   same name.

Source: ``FallbackReadFileStoreTable`` of Paimon (1.3.1, and 2.1 for the primary branch). Unlike it,
a branch that is missing is an error, as are failures of its files; and a branch that began after
the moment gives nothing, where Paimon reads its first snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidelake.errors import InvalidInputError, NotFoundError, UnsupportedError
from tidelake.options import Options, declared
from tidelake.scan import ReadContext
from tidelake.table.handle.branch import BRANCH_OPTION, on_branch, other_branch_name
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.instant import Time, instant
from tidelake.table.handle.time_travel import MOMENT_KEYS
from tidelake.table.read.scan_request import ScanRequest
from tidelake.types import DataField

_FALLBACK, _PRIMARY = declared.SCAN_FALLBACK_BRANCH, declared.SCAN_PRIMARY_BRANCH
_OWN_KEYS = frozenset({BRANCH_OPTION, _FALLBACK.key, _PRIMARY.key, declared.BUCKET.key})
"""Options of one use that are not for the other branch."""


@dataclass(frozen=True, slots=True)
class OtherBranch:
    """The other branch of a read.

    Parameters
    ----------
    handle : TableHandle
        The branch, with the options of this use.
    comes_first : bool
        Whether its partitions are read instead of the table's own.
    key : str
        The option that names it.
    """

    handle: TableHandle
    comes_first: bool
    key: str

    def request(self, own: TableHandle, request: ScanRequest) -> ScanRequest | None:
        """The same read of this branch; None if it had no snapshot at the moment.

        Raises
        ------
        NotFoundError
            It has no such tag; or its snapshots of that time have expired, or may have.
        """
        if not request.travels(own):
            return request
        asked = request.moment(own)
        if "tag" in asked:
            return replace(request, snapshot_id=None, timestamp=None, tag=str(asked["tag"]))
        timestamp: Time | None = asked.get("timestamp")
        if timestamp is None:
            snapshot = request.snapshot(own)
            if snapshot is None:
                return None
            timestamp = instant(snapshot.time_ms)
        try:
            self.handle.time_travel.by_time(timestamp)
        except NotFoundError:
            if self.handle.snapshots.earliest_id() in (None, 1):
                return None
            raise
        return replace(request, snapshot_id=None, timestamp=timestamp, tag=None)


def other_branch(handle: TableHandle) -> OtherBranch | None:
    """The branch that a read of a table takes partitions from; None without one.

    Raises
    ------
    NotFoundError
        There is no such branch; the message offers near names.
    """
    named = other_branch_name(handle.options, table=handle.identifier)
    if named is None or named[0] == handle.paths.branch:
        return None
    branch = on_branch(handle, named[0])
    stored = handle.schemas.load(handle.schema.id).options
    dropped = _OWN_KEYS | (MOMENT_KEYS if ScanRequest().travels(handle) else frozenset())
    used = {k: v for k, v in handle.options.raw.items() if stored.get(k) != v and k not in dropped}
    kept = {k: v for k, v in branch.options.raw.items() if k not in dropped - {declared.BUCKET.key}}
    options = Options.parse({**kept, **used}, table=branch.identifier)
    key = _PRIMARY.key if named[1] else _FALLBACK.key
    return OtherBranch(branch.with_options(options), named[1], key)


def check_no_other_branch(handle: TableHandle, what: str) -> None:
    """Refuse what reads this branch alone, of a table whose reads take rows of another one.

    Parameters
    ----------
    what : str
        Begins the message.

    Raises
    ------
    UnsupportedError
        The table's options name another branch.
    """
    named = other_branch_name(handle.options, table=handle.identifier)
    if named is None or named[0] == handle.paths.branch:
        return
    key = _PRIMARY.key if named[1] else _FALLBACK.key
    message = (
        f"{what} of table '{handle.identifier}' reads no branch beside it, but option '{key}' ="
        f" '{named[0]}' gives the table rows of one: set the option to '' for this use, or filter"
        " to_arrow()."
    )
    raise UnsupportedError(message, kind="fallback_branch", table=handle.identifier, option=key)


def check_alike(own: ReadContext, other: OtherBranch, context: ReadContext, *, table: str) -> None:
    """Refuse branches whose rows do not fit into one result.

    Raises
    ------
    InvalidInputError
        Their columns or partition columns differ.
    """
    ours, theirs = own.schema, context.schema
    if _shown(ours.fields) == _shown(theirs.fields):
        if ours.partition_keys == theirs.partition_keys:
            return
        what = "partition columns"
        shown = [", ".join(schema.partition_keys) or "none" for schema in (ours, theirs)]
    else:
        what = "columns"
        shown = [", ".join(_shown(schema.fields)) for schema in (ours, theirs)]
    branch = other.handle.paths.branch
    message = (
        f"Table '{table}' is read with branch '{branch}' by option '{other.key}', and their {what}"
        f" differ: {shown[0]}; in the branch {shown[1]}. Alter one of them, or unset the option."
    )
    raise InvalidInputError(message, kind="fallback_branch", table=table, branch=branch)


def _shown(fields: Sequence[DataField]) -> list[str]:
    return [f"{field.name} {field.type.as_nullable()}" for field in fields]


def both_fields(
    own: Sequence[DataField], other: Sequence[DataField] | None
) -> tuple[DataField, ...]:
    """The columns of rows of both branches: nullable where one of them has them so."""
    if other is None:
        return tuple(own)
    return tuple(
        replace(field, type=field.type.as_nullable()) if beside.type.nullable else field
        for field, beside in zip(own, other, strict=True)
    )
