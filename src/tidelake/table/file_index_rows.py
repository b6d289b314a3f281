"""``$file_indexes``: which data files have which indexes, where, and how large.

Columns are those of Paimon 2.1's system table of that name (1.3.1 has none). Only the heads of
containers are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tidelake.errors import CorruptError, NotFoundError, UnsupportedError
from tidelake.format.file_index import INDEX_SUFFIX, list_indexes
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.snapshot import Snapshot
from tidelake.scan import live_buckets
from tidelake.table.handle import TableHandle

__all__ = ["FILE_INDEXES", "file_index_rows"]

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


def file_index_rows(
    handle: TableHandle,
    snapshot: Snapshot | None,
    partition_text: Callable[[TableHandle, bytes], str],
) -> list[Row]:
    """Give a row per index of each live file.

    Raises
    ------
    CorruptError
        An index is damaged, missing or of a later version; the data file is named.
    """
    if snapshot is None:
        return []
    rows: list[Row] = []
    for bucket in live_buckets(handle.read_context(), snapshot, manifests=handle.manifests):
        partition = partition_text(handle, bucket.partition)
        for file in bucket.files:
            path = handle.paths.data_file(bucket.partition, bucket.bucket, file)
            about = {
                "partition": partition,
                "bucket": bucket.bucket,
                "file_path": path,
                "file_size_in_bytes": file.file_size_bytes,
                "record_count": file.row_count,
                "schema_id": file.schema_id,
            }
            directory = handle.paths.bucket_dir(bucket.partition, bucket.bucket)
            rows += [{**about, **row} for row in _rows_of(handle, file, directory)]
    return rows


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
            assert path is not None, "an index lies in the manifest or in a file"
            entries, size = list_indexes(path, handle.fileio), handle.fileio.size(path)
    except (CorruptError, NotFoundError, UnsupportedError) as error:
        message = (
            f"The index of data file '{file.file_name}' cannot be read: {error.message} Reads do"
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
