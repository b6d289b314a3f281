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
from tidelake.maintenance.cdc import (
    CDC_DROP,
    CDC_PLAN,
    CDC_RESNAPSHOT,
    CDC_RUN,
    CDC_STATUS,
)
from tidelake.maintenance.compact import COMPACT, COMPACT_MANIFEST, RESCALE
from tidelake.maintenance.consumer import CLEAR_CONSUMERS, RESET_CONSUMER
from tidelake.maintenance.expire import EXPIRE_CHANGELOGS, EXPIRE_SNAPSHOTS
from tidelake.maintenance.iceberg import SYNC_ICEBERG
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
    RENAME_TAG,
    REPLACE_TAG,
)

PROCEDURES: Mapping[str, Procedure] = {
    procedure.name: procedure
    for procedure in (
        COMPACT,
        COMPACT_MANIFEST,
        RESCALE,
        CREATE_TAG,
        CREATE_TAG_FROM_TIMESTAMP,
        RENAME_TAG,
        REPLACE_TAG,
        DELETE_TAG,
        ROLLBACK,
        ROLLBACK_TO_TIMESTAMP,
        ROLLBACK_TO_WATERMARK,
        EXPIRE_SNAPSHOTS,
        EXPIRE_CHANGELOGS,
        PURGE_FILES,
        DROP_PARTITION,
        MARK_PARTITION_DONE,
        RESET_CONSUMER,
        CLEAR_CONSUMERS,
        SYNC_ICEBERG,
        CDC_PLAN,
        CDC_RUN,
        CDC_STATUS,
        CDC_RESNAPSHOT,
        CDC_DROP,
    )
}
"""Supported procedures by name."""

_ORPHANS = "the search for orphan files is not supported yet"
_BRANCHES = "branches are read-only here; $branches lists those of Paimon"
_HIVE = "there is no Hive metastore; the warehouse's directories are the catalog"
_VIEWS = "the filesystem catalog has no views and functions; use Spark's"
_ROW_IDS = "tables with row tracking and global indexes are not supported"

REFUSED: Mapping[str, str] = {
    "expire_tags": "tags do not expire automatically yet; use delete_tag",
    "expire_partitions": "partitions do not expire automatically yet; use drop_partition",
    "trigger_tag_automatic_creation": "tags are not created automatically; use create_tag",
    "remove_orphan_files": _ORPHANS,
    "remove_unexisting_files": _ORPHANS,
    "repair_earliest_snapshot": "a wrong hint is ignored, so there is nothing to repair",
    "create_branch": _BRANCHES,
    "delete_branch": _BRANCHES,
    "rename_branch": _BRANCHES,
    "merge_branch": _BRANCHES,
    "fast_forward": _BRANCHES,
    "migrate_database": _HIVE,
    "migrate_table": _HIVE,
    "repair": _HIVE,
    "alter_view_dialect": _VIEWS,
    "create_function": _VIEWS,
    "alter_function": _VIEWS,
    "drop_function": _VIEWS,
    "compact_database": "call compact for each table",
    "compact_chain_table": "chain tables are not supported",
    "copy_files": "tables cannot be cloned yet; copy the directory while nobody writes to it",
    "rewrite_file_index": "a full compact makes the indexes of older files",
    "materialize_deletion_vectors": "a full compact rewrites files without the deleted rows",
    "create_global_index": _ROW_IDS,
    "drop_global_index": _ROW_IDS,
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
    rows = procedure.run(ProcedureCall(procedure.name, catalog, arguments, runner))
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
