"""Writes the postpone bucket (``bucket`` = -2): unmerged rows that get a bucket later.

1. Rows wait in memory until they fill a row group, then go into the open data file: not sorted, not
   merged, every row with its kind and the sequence number -1. Files are closed at the target size.
2. ``prepare_commit`` closes the file and returns it. Existing files of the bucket are not read:
   numbering does not continue, and nothing is compacted here.

The rows of one writer are replayed in the order of its files, so file names identify the writer:
``data--u-<commit user>-s-<writer number>-w-<uuid>-<i>``. The keys in a file's metadata are those of
its first and its last row and are no bounds; there are no statistics. The semantics are Paimon's
``PostponeBucketWriter`` and ``PostponeBucketFileStoreWrite`` (1.3.1).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.errors import ClosedError, InvalidInputError, UnsupportedError
from tidelake.format import check_file_formats
from tidelake.metadata.data_file import CommitMessage, DataFileMeta, FileSource
from tidelake.options import Options, declared, target_file_size_bytes
from tidelake.store.context import StoreContext
from tidelake.store.lsm.keyed_file import KeyedFile, row_fields
from tidelake.store.new_files import NewFiles
from tidelake.store.rolling import RollingWriter
from tidelake.store.write_buffer import RowBuffer
from tidelake.types import TableSchema
from tidelake.types.arrow import to_arrow_schema

BUFFER_BYTES = 32 << 20
"""Arrow bytes that wait before they go into the open file; several partitions' files are open."""
UNKNOWN_SEQUENCE = -1
"""The sequence number of a row that has none yet (on disk: never renumber)."""
USER_CHARS_MAX = 80
"""The name shows the beginning of a longer user: a file name has at most 255 bytes."""


def postpone_options(
    options: Options, schema: TableSchema, *, user: str, writer_number: int
) -> Options:
    """The options for writing files of the postpone bucket.

    They are Avro files, into which a few rows are written quickly; or files of the table's own
    format, if Avro lacks its column types or its compression.
    """
    # the number follows the first "-s-", so the user's name must not contain one
    shown = user.replace("-s-", "-")[:USER_CHARS_MAX]
    prefix = f"{options.get(declared.DATA_FILE_PREFIX)}-u-{shown}-s-{writer_number}-w-"
    named = {declared.DATA_FILE_PREFIX.key: prefix, declared.METADATA_STATS_MODE.key: "none"}
    avro = options.updated({**named, declared.FILE_FORMAT.key: "avro"})
    try:
        check_file_formats(avro, schema.fields, what="A waiting file")
    except (UnsupportedError, InvalidInputError):
        return options.updated(named)
    return avro


class PostponeBucketWriter:
    """Writes the postpone bucket of one partition; for one thread.

    Parameters
    ----------
    total_buckets : int
        The number of buckets in the manifests: also -2.
    """

    def __init__(
        self,
        context: StoreContext,
        partition: bytes,
        bucket: int,
        *,
        total_buckets: int,
    ) -> None:
        self._context = context
        self._bucket = bucket
        self._total_buckets = total_buckets
        self._row_schema = to_arrow_schema(row_fields(context.schema))
        self._files = NewFiles(context, partition, bucket)
        self._buffer_bytes = min(BUFFER_BYTES, context.env.memory.row_group_bytes // 2)
        self._buffer = RowBuffer(owns_rows=context.env.memory.is_limited)
        self._out = RollingWriter(
            self._open_file,
            target_size_bytes=target_file_size_bytes(context.options, has_primary_key=True),
        )
        self._draining = False  # stays set after a write failed half-way
        self._closed = False

    @property
    def buffered_bytes(self) -> int:
        """Bytes of rows held in memory."""
        return self._buffer.size_bytes + self._out.buffered_bytes

    def write(self, batch: pa.RecordBatch, kinds: npt.NDArray[np.int8] | None = None) -> None:
        """Take rows.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
            Requires: the table's columns in order, conformed to the schema, without rows that
            ``ignore-delete`` leaves out.
        kinds : int8 array [n], optional
            Row kinds; +I by default.
        """
        self._check_open()
        kinds = np.zeros(batch.num_rows, np.int8) if kinds is None else kinds.astype(np.int8)
        numbers = np.full(batch.num_rows, UNKNOWN_SEQUENCE, dtype=np.int64)
        columns = [pa.array(numbers), pa.array(kinds), *batch.columns]
        self._buffer.append(pa.RecordBatch.from_arrays(columns, schema=self._row_schema))
        if self._buffer.size_bytes >= self._buffer_bytes:
            self._drain()

    def spill(self, size_bytes: int | None = None) -> None:
        """Release memory: rows go into data files."""
        del size_bytes  # all rows, which are neither sorted nor merged
        self.flush()

    def flush(self) -> None:
        """Write all rows into data files and close them."""
        self._check_open()
        self._drain()
        self._draining = True
        self._files.add(self._out.close())
        self._draining = False

    def compaction_parts(self, *, full: bool) -> tuple[tuple[DataFileMeta, ...], ...]:
        """None: a separate job moves rows to real buckets."""
        del full
        return ()

    def compact(self, full: bool) -> None:  # noqa: FBT001 - the stores' one interface
        """Only flush: a separate job moves rows to real buckets."""
        del full
        self.flush()

    def prepare_commit(self) -> CommitMessage:
        """Flush, and return what was written since the last call.

        Returns
        -------
        CommitMessage
            Its files belong to the commit from now on.
        """
        self.flush()
        return self._files.hand_out(total_buckets=self._total_buckets)

    def close(self) -> None:
        """Release memory and files that no message names."""
        self._closed = True
        self._buffer.clear()
        self._out.abort()
        self._files.delete_unknown()

    def _drain(self) -> None:
        """Move all rows into the open data file, in order of arrival."""
        self._draining = True
        for rows in self._buffer.batches:
            self._out.write(rows)
        self._buffer.clear()
        self._draining = False

    def _check_open(self) -> None:
        if self._closed or self._draining:
            message = (
                f"The writer of bucket {self._bucket} is closed, or a write to it failed half-way:"
                " abort it and open a new one."
            )
            raise ClosedError(message, kind="writer")

    def _open_file(self, _rows_before: int) -> KeyedFile:
        name, path = self._files.next_file()
        return KeyedFile(
            self._context, name, path, level=0, source=FileSource.APPEND, with_stats=False
        )
