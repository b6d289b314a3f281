"""The procedure that makes tables of other formats tables of the catalog."""

from __future__ import annotations

import pyarrow as pa

from tidelake.errors import UnsupportedError
from tidelake.maintenance.parameters import DRY_RUN
from tidelake.maintenance.partition_text import options_of, pairs_of
from tidelake.maintenance.procedure import (
    ParameterType,
    Procedure,
    ProcedureCall,
    Rows,
    optional,
    required,
)

_ANSWER = pa.schema(
    [
        pa.field("result", pa.bool_()),
        pa.field("rowsCount", pa.int64()),
        pa.field("filesCount", pa.int64()),
        pa.field("totalBytes", pa.int64()),
        pa.field("notCarried", pa.string()),
    ]
)
"""Of a dry run the first is false. The last four columns are ours."""


def _migrate(call: ProcedureCall) -> Rows:
    path = call["source_path"]
    if not path:
        message = (
            "Procedure 'migrate_table' of Paimon asks a Hive metastore where the table is, and"
            " there is no Hive metastore here: give source_path => '/its/directory'."
        )
        raise UnsupportedError(message, kind="procedure", procedure="migrate_table")
    options = {**(options_of(call["options"]) or {}), **(options_of(call["options_map"]) or {})}
    types = call["partition_types"]
    if call["parallelism"] is not None and call["parallelism"] < 1:
        raise call.invalid("parallelism", "it is a number from 1 on.")
    done = call.catalog.migrate_table(
        call["source_type"].lower(),
        path,
        call["target_table"] or call["table"],
        options=options,
        partition_types=pairs_of(types, "partition_types", example="hh=INT") if types else None,
        delete_origin=bool(call["delete_origin"]),
        dry_run=bool(call["dry_run"]),
        runner=call.plan_runner,
    )
    not_carried = "; ".join(done.not_carried) or None
    return [(not done.dry_run, done.rows_count, done.files_count, done.size_bytes, not_carried)]


MIGRATE_TABLE = Procedure(
    "migrate_table",
    (
        required(
            "source_type",
            ParameterType.STRING,
            "`parquet`, `hive` (directories such as `day=2024-01-01`), `delta` or `iceberg`.",
        ),
        required("table", ParameterType.TABLE, "The new table, unless `target_table` names it."),
        optional("options", ParameterType.STRING, "Options of the new table: `a=1,b=2`."),
        optional(
            "delete_origin",
            ParameterType.BOOLEAN,
            "Delete the source's directory at the end; false by default, and true in Paimon.",
        ),
        optional("target_table", ParameterType.TABLE, "The name of the new table."),
        optional("options_map", ParameterType.STRING, "As `options`, and before it."),
        optional("parallelism", ParameterType.INTEGER, "No effect."),
        optional(
            "source_path",
            ParameterType.STRING,
            "The source's directory; must be given.",
            is_ours=True,
        ),
        optional(
            "partition_types",
            ParameterType.STRING,
            "Types of partition columns of a Hive-style table: `hh=STRING`.",
            is_ours=True,
        ),
        DRY_RUN,
    ),
    _ANSWER,
    "Makes a directory of Parquet files, or a Hive-style, Delta or Iceberg table, a new append"
    " table: its files are linked where possible, and no row is read.",
    _migrate,
    "migrate_table(source_type => 'delta', table => 'db.t', source_path => '/data/t')",
)
