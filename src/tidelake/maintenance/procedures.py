"""The procedures of ``CALL sys.<name>(...)``: Paimon's names, parameters and columns of answers.

What is here is declared in :data:`PROCEDURES`; Paimon's other procedures are in :data:`REFUSED`,
each with the reason. Source: ``SparkProcedures`` of Java Paimon 1.3.1 and its page of procedures on
Spark; those of 2.1 and of Flink that are here too say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from tidelake.catalog import Catalog
from tidelake.errors import NotFoundError, UnsupportedError, near_names
from tidelake.maintenance.compact import COMPACT, COMPACT_MANIFEST, RESCALE
from tidelake.maintenance.expire import EXPIRE_CHANGELOGS, EXPIRE_SNAPSHOTS
from tidelake.maintenance.partition import DROP_PARTITION, MARK_PARTITION_DONE
from tidelake.maintenance.procedure import Call, Procedure, Runner
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

__all__ = ["PROCEDURES", "REFUSED", "call"]

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
    )
}
"""The procedures that there are, by name."""

_ORPHANS = "files that nothing refers to are not looked for yet"
_BRANCHES = "branches cannot be written yet; $branches shows those that Paimon made"
_CONSUMERS = "consumers cannot be changed yet; $consumers shows those that Paimon made"
_HIVE = "there is no Hive metastore here; the warehouse's directories are the catalog"
_VIEWS = "a catalog of directories keeps no views and functions; use Spark's own"
_ROW_IDS = "tables with row tracking and global indexes are not covered"

REFUSED: Mapping[str, str] = {
    "expire_tags": "tags do not expire by themselves yet; delete_tag removes those that you name",
    "expire_partitions": "partitions do not expire by themselves yet; drop_partition drops those"
    " that you name",
    "trigger_tag_automatic_creation": "tags are not made by themselves here; use create_tag",
    "remove_orphan_files": _ORPHANS,
    "remove_unexisting_files": _ORPHANS,
    "repair_earliest_snapshot": "a hint that is wrong is not believed; there is nothing to repair",
    "create_branch": _BRANCHES,
    "delete_branch": _BRANCHES,
    "rename_branch": _BRANCHES,
    "merge_branch": _BRANCHES,
    "fast_forward": _BRANCHES,
    "reset_consumer": _CONSUMERS,
    "clear_consumers": _CONSUMERS,
    "migrate_database": _HIVE,
    "migrate_table": _HIVE,
    "repair": _HIVE,
    "alter_view_dialect": _VIEWS,
    "create_function": _VIEWS,
    "alter_function": _VIEWS,
    "drop_function": _VIEWS,
    "compact_database": "call compact for each table",
    "compact_chain_table": "chain tables are not covered",
    "copy_files": "a table is not cloned yet; copy its directory while nobody writes to it",
    "rewrite_file_index": "indexes of older files are not made yet; a full compact makes them",
    "materialize_deletion_vectors": "a full compact rewrites files without the rows that are gone",
    "create_global_index": _ROW_IDS,
    "drop_global_index": _ROW_IDS,
    "reassign_row_id": _ROW_IDS,
}
"""Why Paimon's other procedures are not here, by name."""


def call(
    catalog: Catalog,
    name: str,
    positional: Sequence[object] = (),
    named: Mapping[str, object] | None = None,
    *,
    runner: Runner | None = None,
) -> pa.Table:
    """Call a procedure.

    Parameters
    ----------
    catalog : Catalog
        Where its tables are.
    name : str
        ``"compact"`` or ``"sys.compact"``, in any case.
    positional, named
        The arguments; tables are named ``"database.table"``.
    runner : Runner, optional
        What runs compactions, such as a :class:`tidelake.spark.Lake`; this process by default.

    Returns
    -------
    pyarrow.Table
        The rows of the procedure's answer, with the columns that it has in Paimon.

    Raises
    ------
    NotFoundError
        There is no such procedure (near names are told), table, snapshot or tag.
    UnsupportedError
        Paimon has it and this version does not; the reason is told.
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
    arguments = procedure.bind(tuple(positional), dict(named or {}))
    rows = procedure.run(Call(procedure.name, catalog, arguments, runner))
    return _answer(procedure.output, rows)


def _procedure(name: str) -> Procedure:
    key = str(name).lower().removeprefix("sys.")
    if key in PROCEDURES:
        return PROCEDURES[key]
    if key in REFUSED:
        message = f"Procedure '{key}' of Paimon is not covered by this version: {REFUSED[key]}."
        raise UnsupportedError(message, kind="procedure", procedure=key)
    message = (
        f"There is no procedure '{name}'.{near_names(key, PROCEDURES)} There are:"
        f" {', '.join(PROCEDURES)}."
    )
    raise NotFoundError(message, kind="procedure_not_found", procedure=str(name))


def _answer(schema: pa.Schema, rows: Iterable[Sequence[object]]) -> pa.Table:
    listed = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(listed, schema=schema)
