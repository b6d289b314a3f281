"""The procedure that writes a table's Iceberg metadata; Paimon has none."""

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
