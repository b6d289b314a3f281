"""Procedures that show tables to other engines: Iceberg's metadata, entries of a metastore."""

from __future__ import annotations

import pyarrow as pa

from tidelake.maintenance.parameters import TABLE
from tidelake.maintenance.procedure import (
    ParameterType,
    Procedure,
    ProcedureCall,
    Rows,
    optional,
)
from tidelake.maintenance.result_schemas import DONE

_OUTPUT = pa.schema(
    [
        pa.field("metadata_file", pa.string(), nullable=False),
        pa.field("snapshot_id", pa.int64(), nullable=False),
        pa.field("snapshots_count", pa.int32(), nullable=False),
    ]
)


def _sync(call: ProcedureCall) -> Rows:
    synced = call.table.maintenance.sync_iceberg(from_scratch=bool(call["from_scratch"]))
    return [(synced.metadata_file, synced.snapshot_id, synced.snapshots_count)]


def _repair(call: ProcedureCall) -> Rows:
    given = (call["database_or_table"] or "").strip()
    names = [name.strip() for name in given.split(",")] if given else [None]
    for name in dict.fromkeys(names):
        call.catalog.repair(name)
    return [(True,)]


SYNC_ICEBERG = Procedure(
    "sync_iceberg",
    (
        TABLE,
        optional("from_scratch", ParameterType.BOOLEAN, "Make all Iceberg manifests again."),
    ),
    _OUTPUT,
    "Writes the Iceberg metadata of the newest snapshot, as far as it is missing. Tidelake's own:"
    " Paimon has no such procedure.",
    _sync,
    "sync_iceberg(table => 'db.t')",
)
REPAIR = Procedure(
    "repair",
    (
        optional(
            "database_or_table",
            ParameterType.STRING,
            "`db` or `db.t`, several with commas between; by default the whole warehouse.",
        ),
    ),
    DONE,
    "Makes the entries of a Hive Metastore or AWS Glue say what the files say: tables that are not"
    " listed are listed, and entries get the columns, options and partitions of their tables.",
    _repair,
    "repair(database_or_table => 'db')",
)
