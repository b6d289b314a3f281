"""One data file of an append table: the table's columns, rows in order of arrival.

With row tracking the ids of rows may follow the columns (:mod:`tidelake.metadata.row_ids`).
"""

from __future__ import annotations

import pyarrow as pa

from tidelake.format import TRACKING_FIELDS, format_options, open_writer
from tidelake.metadata.data_file import EMPTY_ROW, EMPTY_STATS, DataFileMeta, FileSource
from tidelake.options.declared import METADATA_STATS_DENSE_STORE
from tidelake.store.context import StoreContext
from tidelake.store.data_file_index import DataFileIndex
from tidelake.store.file_meta import creation_time_ms, value_stats

ROW_GROUP_BYTES = 32 << 20
"""Arrow bytes of a row group. Files of many buckets are open at once, so each holds less."""


def row_group_bytes(context: StoreContext) -> int:
    """Arrow bytes of a row group of an append table: at most half a buffer, or it would spill."""
    return min(ROW_GROUP_BYTES, context.env.memory.row_group_bytes // 2)


class AppendFile:
    """A data file being written.

    Parameters
    ----------
    first_sequence : int
        Sequence number of its first row.
    source : FileSource
        Whether rows were added or compacted.
    level : int
        Above 0 for clustered rows of a table with ``clustering.incremental``.
    write_cols : tuple of str, optional
        The columns of the file, if a manifest names them.
    """

    def __init__(
        self,
        context: StoreContext,
        name: str,
        path: str,
        *,
        first_sequence: int,
        source: FileSource,
        level: int = 0,
        write_cols: tuple[str, ...] | None = None,
    ) -> None:
        self._context = context
        self._name = name
        self._first_sequence = first_sequence
        self._source = source
        self._level = level
        self._index = DataFileIndex(context, name, path)
        fields = context.schema.fields
        self._fields = tuple(field for field in fields if field not in TRACKING_FIELDS)
        self._write_cols = write_cols
        options = format_options(context.options)
        self._file = open_writer(
            context.fileio,
            path,
            fields,
            options.within(row_group_bytes(context)),
            stats_columns=frozenset(field.name for field in self._fields),
        )

    @property
    def bytes_written_estimate(self) -> int:
        """The approximate length of the file if it were closed now."""
        return self._file.bytes_written_estimate

    @property
    def buffered_bytes(self) -> int:
        """Bytes of rows held in memory."""
        return self._file.buffered_bytes + self._index.buffered_bytes

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows."""
        self._file.write(rows)
        self._index.add(rows)

    def close(self) -> DataFileMeta:
        """Finish the file.

        Returns
        -------
        DataFileMeta
            Without key; sequence numbers count the rows.
        """
        index = self._index.finish()
        footer = self._file.close()
        values, covered = value_stats(
            self._fields,
            footer.stats[: len(self._fields)],
            dense=self._context.options.get(METADATA_STATS_DENSE_STORE),
        )
        return DataFileMeta(
            file_name=self._name,
            file_size_bytes=footer.size_bytes,
            row_count=footer.row_count,
            min_key=EMPTY_ROW,
            max_key=EMPTY_ROW,
            key_stats=EMPTY_STATS,
            value_stats=values,
            min_sequence_number=self._first_sequence,
            max_sequence_number=self._first_sequence + footer.row_count - 1,
            schema_id=self._context.schema.id,
            level=self._level,
            creation_time_ms=creation_time_ms(self._context),
            delete_row_count=0,
            file_source=int(self._source),
            value_stats_cols=covered,
            write_cols=self._write_cols,
            **index,
        )

    def abort(self) -> None:
        """Delete the unfinished file."""
        self._file.abort()
