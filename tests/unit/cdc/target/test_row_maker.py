"""A row maker adds what the source alone knows of a row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidelake.cdc.columns.metadata_columns import MetadataColumns
from tidelake.cdc.source.changes import SourceRows
from tidelake.cdc.source.source_table import SourceColumn, SourceName, SourceTable
from tidelake.cdc.target.row_maker import AddedColumns
from tidelake.types import RowKind, parse_type

TABLE = SourceTable(
    SourceName("shop", "", "items"), (SourceColumn("id", "int", parse_type("INT")),), ("id",)
)


def test_metadata_of_the_source_become_columns():
    part = SourceRows(
        TABLE,
        pa.record_batch({"id": pa.array([1, 2], pa.int32())}),
        np.full(2, int(RowKind.UPDATE_AFTER), np.int8),
        np.array([[5, 0], [6, 0]], np.int64),
        np.array([1_000, 2_000], np.int64),
        metadata={"topic": pa.array(["a", "b"]), "offset": pa.array([5, 6], pa.int64())},
    )
    metadata = MetadataColumns.of("kafka", ["topic", "offset"], prefix="_")
    made = AddedColumns(metadata=metadata, has_order=False).maker(TABLE).changes(part, ["id"], 0)
    assert made.rows.rows.to_pylist() == [
        {"id": 1, "_topic": "a", "_offset": 5},
        {"id": 2, "_topic": "b", "_offset": 6},
    ]
