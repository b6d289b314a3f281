"""The procedures of ``CALL sys.<name>(...)``, with Paimon's names, parameters and answer columns.

:data:`PROCEDURES` has the supported ones, :data:`REFUSED` Paimon's others with the reason. Source:
``SparkProcedures`` of Java Paimon 1.3.1 and its page of procedures on Spark. Descriptions name
those of 2.1 and of Flink.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import tzinfo

import pyarrow as pa

from tidelake.engine.tables import Catalog
from tidelake.errors import NotFoundError, UnsupportedError, near_names
from tidelake.maintenance.branch import (
    ALTER_VIEW_DIALECT,
    CREATE_BRANCH,
    DELETE_BRANCH,
    FAST_FORWARD,
    RENAME_BRANCH,
)
from tidelake.maintenance.cdc import (
    CDC_DROP,
    CDC_EPOCHS,
    CDC_PLAN,
    CDC_REPLAY,
    CDC_RESNAPSHOT,
    CDC_RUN,
    CDC_STATUS,
)
from tidelake.maintenance.compact import (
    COMPACT,
    COMPACT_DATABASE,
    COMPACT_MANIFEST,
    MAINTAIN,
    RESCALE,
)
from tidelake.maintenance.consumer import CLEAR_CONSUMERS, RESET_CONSUMER
from tidelake.maintenance.copies.clone import CLONE, COPY
from tidelake.maintenance.copies.migrate import MIGRATE_TABLE
from tidelake.maintenance.copies.rewrite_file_index import REWRITE_FILE_INDEX
from tidelake.maintenance.expire import (
    EXPIRE_CHANGELOGS,
    EXPIRE_PARTITIONS,
    EXPIRE_SNAPSHOTS,
)
from tidelake.maintenance.orphans import REMOVE_ORPHAN_FILES, REMOVE_UNEXISTING_FILES
from tidelake.maintenance.other_engines import REPAIR, SYNC_ICEBERG
from tidelake.maintenance.partition import DROP_PARTITION, MARK_PARTITION_DONE
from tidelake.maintenance.procedure import Procedure, ProcedureCall, ProcedureRunner
from tidelake.maintenance.rollback import (
    PURGE_FILES,
    ROLLBACK,
    ROLLBACK_TO_TIMESTAMP,
    ROLLBACK_TO_WATERMARK,
)
from tidelake.maintenance.tag import (
    CREATE_TAG,
    CREATE_TAG_FROM_TIMESTAMP,
    DELETE_TAG,
    EXPIRE_TAGS,
    RENAME_TAG,
    REPLACE_TAG,
    TRIGGER_TAG_AUTOMATIC_CREATION,
)

PROCEDURES: Mapping[str, Procedure] = {
    procedure.name: procedure
    for procedure in (
        COMPACT,
        COMPACT_DATABASE,
        COMPACT_MANIFEST,
        RESCALE,
        CREATE_TAG,
        CREATE_TAG_FROM_TIMESTAMP,
        RENAME_TAG,
        REPLACE_TAG,
        DELETE_TAG,
        CREATE_BRANCH,
        RENAME_BRANCH,
        FAST_FORWARD,
        DELETE_BRANCH,
        EXPIRE_TAGS,
        TRIGGER_TAG_AUTOMATIC_CREATION,
        ROLLBACK,
        ROLLBACK_TO_TIMESTAMP,
        ROLLBACK_TO_WATERMARK,
        EXPIRE_SNAPSHOTS,
        EXPIRE_CHANGELOGS,
        EXPIRE_PARTITIONS,
        PURGE_FILES,
        REMOVE_ORPHAN_FILES,
        REMOVE_UNEXISTING_FILES,
        MAINTAIN,
        DROP_PARTITION,
        MARK_PARTITION_DONE,
        RESET_CONSUMER,
        CLEAR_CONSUMERS,
        SYNC_ICEBERG,
        COPY,
        CLONE,
        MIGRATE_TABLE,
        REWRITE_FILE_INDEX,
        REPAIR,
        ALTER_VIEW_DIALECT,
        CDC_PLAN,
        CDC_RUN,
        CDC_STATUS,
        CDC_RESNAPSHOT,
        CDC_REPLAY,
        CDC_EPOCHS,
        CDC_DROP,
    )
}
"""Supported procedures by name."""

_FUNCTIONS = "catalogs keep no functions here; use Spark's"
_PRIVILEGES = "a warehouse has no users; let the storage decide who reads and writes"
_GLOBAL_INDEXES = "there are no global indexes"
_ROW_IDS = "it is for tables with data evolution, which can be read here and not written"

REFUSED: Mapping[str, str] = {
    "repair_earliest_snapshot": "a wrong hint is ignored, so there is nothing to repair",
    "merge_branch": "a branch replaces the table: use fast_forward, or INSERT its rows",
    "migrate_database": "use migrate_table for each table, with its source_path",
    "create_function": _FUNCTIONS,
    "alter_function": _FUNCTIONS,
    "drop_function": _FUNCTIONS,
    "compact_chain_table": "chain tables are not supported",
    "copy_files": "use copy, or clone for many tables; with history => true it copies all files",
    "remove_unexisting_manifests": "what a lost manifest named is not known; roll back instead",
    "create_tag_from_watermark": "find the snapshot in `$snapshots`, and use create_tag",
    "rollback_to": "on Spark its name is rollback",
    "rollback_to_as_latest": "use rollback, or INSERT OVERWRITE from an older snapshot",
    "merge_into": "use the statement MERGE INTO",
    "data_evolution_merge_into": "use the statement MERGE INTO",
    "query_service": "use the command `tidelake serve`",
    "init_file_based_privilege": _PRIVILEGES,
    "create_privileged_user": _PRIVILEGES,
    "drop_privileged_user": _PRIVILEGES,
    "grant_privilege_to_user": _PRIVILEGES,
    "revoke_privilege_from_user": _PRIVILEGES,
    "vector_search": _GLOBAL_INDEXES,
    "full_text_search": _GLOBAL_INDEXES,
    "materialize_deletion_vectors": "a full compact rewrites files without the deleted rows",
    "create_global_index": _GLOBAL_INDEXES,
    "drop_global_index": _GLOBAL_INDEXES,
    "reassign_row_id": _ROW_IDS,
}
"""Reasons against Paimon's other procedures, by name."""


def call(
    catalog: Catalog,
    name: str,
    positional: Sequence[object] = (),
    named: Mapping[str, object] | None = None,
    *,
    runner: ProcedureRunner | None = None,
    zone: tzinfo | None = None,
    catalogs: Mapping[str, Catalog] | None = None,
) -> pa.Table:
    """Call a procedure.

    Parameters
    ----------
    catalog : Catalog
        Holds the tables.
    name : str
        ``"compact"`` or ``"sys.compact"``, in any case.
    positional, named
        The arguments; a table is ``"database.table"``.
    runner : ProcedureRunner, optional
        Runs compactions and jobs, such as a :class:`tidelake.spark.Lake`; by default this process
        compacts, and procedures of jobs are refused.
    zone : tzinfo, optional
        The session's time zone, of times that name none; without it these are refused.
    catalogs : mapping of str to Catalog, optional
        Others by name, for the procedures that take tables of two.

    Returns
    -------
    pyarrow.Table
        The answer, with Paimon's columns.

    Raises
    ------
    NotFoundError
        There is no such procedure, table, snapshot or tag.
    UnsupportedError
        Paimon's procedure is not supported; the message has the reason.
    InvalidInputError
        An argument is unknown, missing, given twice, or of the wrong type.

    Examples
    --------
    >>> import tempfile, tidelake
    >>> catalog = tidelake.open(tempfile.mkdtemp())
    >>> table = catalog.create_table("db.t", pa.schema({"k": pa.int64()}))
    >>> for k in (1, 2):
    ...     _ = table.write([{"k": k}])
    >>> call(catalog, "sys.rollback", named={"table": "db.t", "snapshot": 1}).to_pylist()
    [{'previous_snapshot_id': 2, 'current_snapshot_id': 1}]
    """
    procedure = _procedure(name)
    arguments = procedure.bind(tuple(positional), dict(named or {}), zone=zone)
    rows = procedure.run(ProcedureCall(procedure.name, catalog, arguments, runner, catalogs or {}))
    return _answer(procedure.output, rows)


def _procedure(name: str) -> Procedure:
    key = str(name).lower().removeprefix("sys.")
    if key in PROCEDURES:
        return PROCEDURES[key]
    if key in REFUSED:
        message = f"Procedure '{key}' of Paimon is not supported by this version: {REFUSED[key]}."
        raise UnsupportedError(message, kind="procedure", procedure=key)
    message = (
        f"There is no procedure '{name}'.{near_names(key, PROCEDURES)} Procedures are:"
        f" {', '.join(PROCEDURES)}."
    )
    raise NotFoundError(message, kind="procedure_not_found", procedure=str(name))


def _answer(schema: pa.Schema, rows: Iterable[Sequence[object]]) -> pa.Table:
    listed = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(listed, schema=schema)
