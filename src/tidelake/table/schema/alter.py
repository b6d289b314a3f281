"""Alters a table: publishes the next schema exactly once, even with concurrent changes.

1. The newest schema is read and the changes are applied to it
   (:mod:`tidelake.table.schema.evolution`); a forbidden change is refused, and nothing is written.
2. The new schema is put under the next number if that number is free. The loser of a race reads the
   winner's schema and applies its changes to it: both take effect, or the second fails with the
   reason. The put goes to the directory that existed before the table was found to be the opened
   one: so a dropped table does not reappear, and a recreated one does not get the schema.
3. If the storage does not confirm the put, the same put is repeated: one of the two wins, and the
   file shows whose it is. If that stays unknown, the error is an
   :class:`~tidelake.errors.OutcomeUnknownError`: nothing was lost, and the schema may exist.
4. A catalog that shows the columns beside the files is told before the put, so that it can refuse
   them; a schema that is not put then is taken back there, for the newest one.
5. If a catalog's server decides the schema, the changes are checked as in step 1, and sent to it.
   If its answer is lost, the newest schema shows whether they took effect.

Snapshots and data files stay as they are. A writer with an older schema goes on, and its files name
that schema. Source: Paimon's ``SchemaManager.commitChanges`` (1.3.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import MappingProxyType

from tidelake.errors import (
    ConflictError,
    NotFoundError,
    OutcomeUnknownError,
    StorageError,
    StorageRefusedError,
    TidelakeError,
)
from tidelake.fileio import OpenDirectory
from tidelake.metadata.log.schema_log import dropped
from tidelake.options import Options, check_write_mode, declared
from tidelake.table.handle.arguments import check_location
from tidelake.table.handle.branch import check_other_branch
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.managed_table import ManagedTable
from tidelake.table.schema.evolution import evolved_schema
from tidelake.types import TableSchema
from tidelake.types.schema_change import AddColumn, DropColumn, SchemaChange

TRIES_MAX = 100
"""Schemas that others may publish while this one is made."""
PUT_TRIES = 3
"""Puts of one schema if the storage fails; at most one of them takes effect."""
RETRY_WAIT_MS = 10


def alter_table(handle: TableHandle, changes: Sequence[SchemaChange]) -> TableHandle:
    """Change a table's schema.

    Parameters
    ----------
    handle : TableHandle
        The table, perhaps opened with an older schema.
    changes : sequence of SchemaChange
        In order; all of them or none.

    Returns
    -------
    TableHandle
        The table with the new schema; options of this use are kept.

    Raises
    ------
    NotFoundError, AlreadyExistsError, InvalidInputError, UnsupportedError
        A change is not allowed; nothing was written.
    ConflictError
        Others altered the table again and again.
    StorageError
        The storage refused; nothing was written.
    OutcomeUnknownError
        The storage failed while the schema was published.
    """
    try:
        place = handle.fileio.open_dir(handle.paths.schema_dir)
    except NotFoundError as error:
        raise dropped(handle.identifier) from error
    with place:
        return _altered(handle, place, changes)


def _altered(
    handle: TableHandle, place: OpenDirectory, changes: Sequence[SchemaChange]
) -> TableHandle:
    log = handle.schemas
    opened = log.check_same(handle.schema, table=handle.identifier)
    for _ in range(TRIES_MAX):
        latest = log.latest()
        if latest is None:
            raise dropped(handle.identifier)
        new = _evolved(handle, latest, changes)
        if all(map(_may_do_nothing, changes)) and _is_equal(new, latest):
            return with_newest_schema(handle)
        parsed = Options.parse(new.options, table=handle.identifier)
        if not _names_same_branch(latest, new):
            check_other_branch(handle, parsed)
        check_location(parsed, handle.paths.location, table=handle.identifier)
        if new.options.get(declared.WRITE_MODE.key) != latest.options.get(declared.WRITE_MODE.key):
            check_write_mode(
                parsed, table=handle.identifier, has_primary_key=bool(new.primary_keys)
            )
        if handle.served is not None:
            _alter_by_server(handle, handle.served, latest, changes)
            return with_newest_schema(handle)
        with _listed(handle, latest, new):
            if _published(handle, place, new):
                return _with_schema(handle, opened, new)
        _show_winner(handle, new)
    message = (
        f"Others altered table '{handle.identifier}' {TRIES_MAX} times while this change was made:"
        " try again."
    )
    raise ConflictError(message, kind="alter_lost", table=handle.identifier)


@contextmanager
def _listed(handle: TableHandle, old: TableSchema, new: TableSchema) -> Iterator[None]:
    """Show a schema in the catalog before it is put, and the old one again if it is not put."""
    if handle.listing is None or not handle.paths.is_main:
        yield
        return
    handle.listing.show(old, new)
    try:
        yield
    except OutcomeUnknownError:
        raise
    except BaseException:  # an interrupt too
        with suppress(TidelakeError):  # readers go by the files; report the failure before
            handle.listing.show(new, old)
        raise


def _show_winner(handle: TableHandle, lost: TableSchema) -> None:
    """Show the newest schema instead of one that lost the race: the next try may be refused."""
    newest = handle.schemas.latest()
    if handle.listing is not None and handle.paths.is_main and newest is not None:
        with suppress(TidelakeError):  # readers go by the files
            handle.listing.show(lost, newest)


def _names_same_branch(old: TableSchema, new: TableSchema) -> bool:
    keys = (declared.SCAN_FALLBACK_BRANCH.key, declared.SCAN_PRIMARY_BRANCH.key)
    return all(old.options.get(key) == new.options.get(key) for key in keys)


def _evolved(
    handle: TableHandle, latest: TableSchema, changes: Sequence[SchemaChange]
) -> TableSchema:
    return evolved_schema(
        latest,
        changes,
        table=handle.identifier,
        has_snapshots=handle.snapshots.latest_id() is not None,
        time_ms=handle.env.clock.now_ms(),
    )


def _is_equal(new: TableSchema, old: TableSchema) -> bool:
    """Whether two schemas differ in their number and time at most."""
    return replace(new, id=old.id, time_ms=old.time_ms) == old


def _alter_by_server(
    handle: TableHandle, served: ManagedTable, latest: TableSchema, changes: Sequence[SchemaChange]
) -> None:
    """Send the changes that have an effect, and find out about a lost answer."""
    effective: list[SchemaChange] = []
    new = latest
    for change in changes:
        before, new = new, _evolved(handle, new, [change])
        if not (_may_do_nothing(change) and _is_equal(new, before)):
            effective.append(change)
    try:
        served.alter(effective)
    except StorageRefusedError:
        raise
    except StorageError as error:
        found = handle.schemas.latest()
        if found is not None and found.id > latest.id and _is_equal(new, found):
            return
        message = (
            f"It is unknown whether table '{handle.identifier}' was altered ({error}): open it"
            " again, look at its columns, and alter it again if they are the old ones."
        )
        raise OutcomeUnknownError(message, kind="alter_unknown", table=handle.identifier) from error


def _may_do_nothing(change: SchemaChange) -> bool:
    """Whether a change allows that the table already has its result."""
    if isinstance(change, AddColumn):
        return change.if_exists == "ignore"
    return isinstance(change, DropColumn) and change.if_missing == "ignore"


def with_newest_schema(handle: TableHandle) -> TableHandle:
    """The table with its newest schema; options of this use are kept.

    Raises
    ------
    NotFoundError
        It was dropped.
    """
    opened = handle.schemas.check_same(handle.schema, table=handle.identifier)
    latest = handle.schemas.latest()
    if latest is None:
        raise dropped(handle.identifier)
    return handle if latest.id == handle.schema.id else _with_schema(handle, opened, latest)


def _published(handle: TableHandle, place: OpenDirectory, new: TableSchema) -> bool:
    """Put the schema; False if another schema has its number."""
    failure: StorageError | None = None
    for _ in range(PUT_TRIES):
        try:
            with handle.guard():
                done = handle.schemas.create(new, within=place)
            if done:
                return True
            # taken, perhaps by us: an earlier try took effect and only its answer was lost
            return failure is not None and handle.schemas.load(new.id) == new
        except NotFoundError as error:
            raise dropped(handle.identifier) from error
        except StorageRefusedError:
            if failure is None:
                raise
        except OutcomeUnknownError as error:  # the lock is left, so another try would wait for it
            failure = error
            break
        except StorageError as error:
            failure = error
            handle.env.clock.sleep_ms(RETRY_WAIT_MS)
    message = (
        f"It is unknown whether schema {new.id} of table '{handle.identifier}' was published: open"
        " the table again, look at its columns, and alter it again if they are the old"
        " ones."
    )
    raise OutcomeUnknownError(
        message, kind="alter_unknown", table=handle.identifier, schema=new.id
    ) from failure


def _with_schema(handle: TableHandle, opened: TableSchema, new: TableSchema) -> TableHandle:
    """The table with another schema; options set or unset for this use are kept."""
    given = handle.options.raw
    options = {k: v for k, v in new.options.items() if k in given or k not in opened.options}
    options |= {k: v for k, v in given.items() if opened.options.get(k) != v}
    parsed = Options.parse(options, table=handle.identifier)
    schema = replace(new, options=MappingProxyType(options))
    return replace(handle, schema=schema, options=parsed)
