"""``$file_indexes``: which data files have which indexes, where, and how large.

It has the columns of Paimon 2.1's system table of that name (1.3.1 has none). Only the heads of
containers are read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import CorruptError, NotFoundError, UnsupportedError
from tidelake.format.file_index import INDEX_SUFFIX, list_indexes
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.scan import live_files
from tidelake.table.handle.handle import TableHandle
from tidelake.table.system.file_tables import file_paths, partition_texts

FILE_INDEXES = pa.schema(
    [
        pa.field("partition", pa.string()),
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("file_path", pa.string(), nullable=False),
        pa.field("file_size_in_bytes", pa.int64(), nullable=False),
        pa.field("record_count", pa.int64(), nullable=False),
        pa.field("schema_id", pa.int64(), nullable=False),
        pa.field("column_name", pa.string(), nullable=False),
        pa.field("index_type", pa.string(), nullable=False),
        pa.field("storage_type", pa.string(), nullable=False),
        pa.field("index_file_path", pa.string()),
        pa.field("index_size_in_bytes", pa.int64(), nullable=False),
        pa.field("index_container_size_in_bytes", pa.int64(), nullable=False),
        pa.field("is_empty", pa.bool_(), nullable=False),
    ]
)

Row = dict[str, Any]


def file_indexes_table(handle: TableHandle, snapshot: Snapshot | None) -> pa.Table:
    """``$file_indexes``: a row per index of each live file.

    Raises
    ------
    CorruptError
        An index is damaged, missing or of a later version; the message names the data file.
    """
    if snapshot is None:
        return FILE_INDEXES.empty_table()
    entries = live_files(handle.read_context(), snapshot, manifests=handle.manifests)
    extra = pc.greater(pc.list_value_length(entries["extra_files"]), 0)
    has_index = pc.or_(pc.is_valid(entries["embedded_index"]), extra)
    entries = entries.take(np.flatnonzero(has_index.to_numpy(zero_copy_only=False)))
    partitions = partition_texts(handle, entries.partitions).to_pylist()
    rows: list[Row] = []
    for file, path, partition, bucket in zip(
        entries.files(),
        file_paths(handle, entries).to_pylist(),
        entries["partition_id"].tolist(),
        entries["bucket"].tolist(),
        strict=True,
    ):
        about = {
            "partition": partitions[partition],
            "bucket": bucket,
            "file_path": path,
            "file_size_in_bytes": file.file_size_bytes,
            "record_count": file.row_count,
            "schema_id": file.schema_id,
        }
        directory = handle.paths.bucket_dir(entries.partitions[partition], bucket)
        rows += [{**about, **row} for row in _rows_of(handle, file, directory)]
    return pa.Table.from_pylist(rows, schema=FILE_INDEXES)


def _rows_of(handle: TableHandle, file: DataFileMeta, directory: str) -> list[Row]:
    names = [name for name in file.extra_files if name.endswith(INDEX_SUFFIX)]
    if file.embedded_index is None and not names:
        return []
    path = None if file.embedded_index is not None else f"{directory}/{names[0]}"
    try:
        if file.embedded_index is not None:
            entries = list_indexes(file.embedded_index, handle.fileio)
            size = len(file.embedded_index)
        else:
            assert path is not None, "an index is in the manifest or in a file"
            entries, size = list_indexes(path, handle.fileio), handle.fileio.size(path)
    except (CorruptError, NotFoundError, UnsupportedError) as error:
        message = (
            f"The index of data file '{file.file_name}' cannot be read: {error.message} Reads go on"
            " without it; a full compaction makes a new one."
        )
        raise CorruptError(message, kind="file_index", file=file.file_name) from error
    return [
        {
            "column_name": entry.column,
            "index_type": entry.kind,
            "storage_type": "EMBEDDED" if path is None else "FILE",
            "index_file_path": path,
            "index_size_in_bytes": entry.length,
            "index_container_size_in_bytes": size,
            "is_empty": entry.start < 0,
        }
        for entry in entries
    ]
