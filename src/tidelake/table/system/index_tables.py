"""``$table_indexes`` and ``$statistics``: index files and statistics of one snapshot.

Names and columns are those of Paimon (1.3.1).
"""

from __future__ import annotations

import pyarrow as pa

from tidelake.metadata.index.index_manifest import index_entries
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.log.statistics import java_json, read_statistics
from tidelake.table.handle.handle import TableHandle
from tidelake.table.system.file_tables import partition_texts

_TEXT = pa.string()
_INT = pa.int32()
_LONG = pa.int64()

_RANGE = pa.struct(
    [
        pa.field("f0", _TEXT, nullable=False),
        pa.field("f1", _INT, nullable=False),
        pa.field("f2", _INT, nullable=False),
        pa.field("_CARDINALITY", _LONG),
    ]
)
"""A deletion vector: data file, offset, length, number of rows."""

TABLE_INDEXES = pa.schema(
    [
        pa.field("partition", _TEXT),
        pa.field("bucket", _INT, nullable=False),
        pa.field("index_type", _TEXT, nullable=False),
        pa.field("file_name", _TEXT, nullable=False),
        pa.field("file_size", _LONG, nullable=False),
        pa.field("row_count", _LONG, nullable=False),
        pa.field("dv_ranges", pa.list_(_RANGE)),
    ]
)
STATISTICS = pa.schema(
    [
        pa.field("snapshot_id", _LONG, nullable=False),
        pa.field("schema_id", _LONG, nullable=False),
        pa.field("mergedRecordCount", _LONG),
        pa.field("mergedRecordSize", _LONG),
        pa.field("colstat", _TEXT),
    ]
)


def table_indexes_table(handle: TableHandle, snapshot: Snapshot | None) -> pa.Table:
    """``$table_indexes``: one row per index file."""
    if snapshot is None:
        return TABLE_INDEXES.empty_table()
    entries = index_entries(handle.fileio, handle.paths, snapshot, handle.manifests)
    partitions = partition_texts(handle, [entry.partition for entry in entries]).to_pylist()
    names = [field.name for field in _RANGE]
    rows = [
        {
            "partition": partition,
            "bucket": entry.bucket,
            "index_type": entry.file.index_type,
            "file_name": entry.file.file_name,
            "file_size": entry.file.file_size_bytes,
            "row_count": entry.file.row_count,
            "dv_ranges": None
            if entry.file.ranges is None
            else [dict(zip(names, span, strict=True)) for span in entry.file.ranges],
        }
        for partition, entry in zip(partitions, entries, strict=True)
    ]
    return pa.Table.from_pylist(rows, schema=TABLE_INDEXES)


def statistics_table(handle: TableHandle, snapshot: Snapshot | None) -> pa.Table:
    """``$statistics``: the row of the last ANALYZE; none without one."""
    if snapshot is None or snapshot.statistics is None:
        return STATISTICS.empty_table()
    found = read_statistics(handle.fileio, handle.paths, snapshot.statistics)
    row = {
        "snapshot_id": found.snapshot_id,
        "schema_id": found.schema_id,
        "mergedRecordCount": found.record_count,
        "mergedRecordSize": found.size_bytes,
        "colstat": java_json({name: c.to_document() for name, c in found.columns.items()}),
    }
    return pa.Table.from_pylist([row], schema=STATISTICS)
