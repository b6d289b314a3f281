"""A table that is made to take files of elsewhere, all of them or none.

1. The catalog creates it with its oldest schema. Of several that want the name one succeeds, so
   the place is this call's alone; a table that exists is refused.
2. The other schemas are put, then a job brings the files and publishes them.
3. If anything fails the table is dropped again, unless others have written to it by then: they
   have their rows, and the files of this call are deleted one by one.

A process that is killed leaves a table without snapshots, which reads as empty until it is dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress

from tidelake.catalog.identifier import Identifier
from tidelake.catalog.metastore import Metastore
from tidelake.errors import (
    AlreadyExistsError,
    ConflictError,
    OutcomeUnknownError,
    StorageError,
    TidelakeError,
)
from tidelake.metadata.log.schema_log import SchemaLog
from tidelake.metadata.paths import TablePaths
from tidelake.table.cloning.file_copies import FileCopies
from tidelake.table.handle.handle import TableHandle
from tidelake.table.job.plan import Runner
from tidelake.table.write.result import WriteResult
from tidelake.table.write.transaction import WriteTransaction
from tidelake.types import TableSchema

_LOG = logging.getLogger("tidelake")


def create(metastore: Metastore, name: Identifier, schemas: Sequence[TableSchema]) -> None:
    """Create a table with all of its schemas.

    Raises
    ------
    AlreadyExistsError
        There is one, or files of one.
    """
    if not metastore.create_table(name, schemas[0]):
        raise taken(name)
    if len(schemas) == 1:
        return
    try:
        entry = metastore.load_table(name)
        assert entry is not None, "it was created"
        log = SchemaLog(entry.fileio, TablePaths.of(entry.location, schemas[0]))
        for schema in schemas[1:]:
            if not log.create(schema):
                message = f"Others have altered table '{name}' while it was made. Nothing was done."
                raise ConflictError(message, kind="schema_changed", table=str(name))
    except BaseException:
        with suppress(TidelakeError):
            metastore.drop_table(name)
        raise


def taken(
    name: Identifier, why: str = "files are brought into a new table only"
) -> AlreadyExistsError:
    """The error for a name that a table has."""
    message = f"Table '{name}' exists, and {why}. Choose another name, or drop it first."
    return AlreadyExistsError(message, kind="table_exists", table=str(name))


def fill(
    metastore: Metastore, name: Identifier, handle: TableHandle, plan: FileCopies, runner: Runner
) -> WriteResult:
    """Bring the files into the new table and publish them, or drop it again.

    Raises
    ------
    OutcomeUnknownError
        The storage failed while they were published: the table stays.
    """
    try:
        return fill_existing(handle, plan, runner)
    except OutcomeUnknownError:
        raise
    except BaseException:
        with suppress(TidelakeError):  # the failure before is raised
            _take_back(metastore, name, handle, plan)
        raise


def fill_existing(handle: TableHandle, plan: FileCopies, runner: Runner) -> WriteResult:
    """Bring the files into a table and publish them.

    After a failure they stay as orphans: another copy of the same source may have published them.
    """
    if plan.tasks:
        return plan.carry_out(WriteTransaction(handle), runner)
    assert plan.publication is not None, "this is no executor"
    plan.publication.publish(handle)
    return WriteResult()


def _take_back(
    metastore: Metastore, name: Identifier, handle: TableHandle, plan: FileCopies
) -> None:
    handle.schemas.check_same(handle.schema, table=handle.identifier)
    newest = handle.snapshots.latest()
    if newest is None or (plan.publication is not None and plan.publication.is_own(newest)):
        metastore.drop_table(name)
        return
    if plan.publication is not None and plan.publication.is_visible(handle):
        _LOG.warning(
            "Table %s stays, copied in part: others have committed on what was there already.", name
        )
        return
    for task in plan.tasks:
        with suppress(StorageError):
            handle.fileio.delete(task.target)
