"""The procedure that gives data files the indexes of the table's options."""

from __future__ import annotations

import pyarrow as pa

from tidelake.maintenance.parameters import DRY_RUN, TABLE
from tidelake.maintenance.procedure import (
    ParameterType,
    Procedure,
    ProcedureCall,
    Rows,
    optional,
)

_ANSWER = pa.schema(
    [
        pa.field("written_partitions", pa.int32(), nullable=False),
        pa.field("written_indexes", pa.int32(), nullable=False),
    ]
)


def _rewrite(call: ProcedureCall) -> Rows:
    done = call.table.maintenance.rewrite_file_index(
        where=call["where"] or None, dry_run=bool(call["dry_run"]), runner=call.plan_runner
    )
    return [(done.partitions_count, done.files_count)]


REWRITE_FILE_INDEX = Procedure(
    "rewrite_file_index",
    (
        TABLE,
        optional(
            "where",
            ParameterType.STRING,
            "A condition on partition columns: `dt > '2024-01-01'`.",
        ),
        DRY_RUN,
    ),
    _ANSWER,
    "Gives data files the file indexes that the table's options name now, and takes others away;"
    " data files stay as they are. (2.1.)",
    _rewrite,
    "rewrite_file_index(table => 'db.t', where => \"dt = '2024-01-01'\")",
)
