"""One data file of a primary-key table: rows sorted by key, each key once.

Inside the store a row is ``_SEQUENCE_NUMBER``, ``_VALUE_KIND`` and the table's columns. Paimon's
files begin with a copy of the key (``_KEY_k``). It is added here, from the same arrays, so no sort,
merge or spill carries keys twice. With ``data-file.thin-mode`` it is not added at all.

With ``pk-clustering-override`` (Paimon 2) the rows of a file above level 0 are sorted by the
clustering columns, whose first and last values are then its bounds in the manifest.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from tidelake.codec.binary_row import serialize_row
from tidelake.format import (
    KIND_FIELD,
    SEQUENCE_FIELD,
    FormatOptions,
    format_options,
    key_field,
    kv_fields,
    open_writer,
)
from tidelake.metadata.data_file import DataFileMeta, FileSource
from tidelake.options import file_order_columns
from tidelake.options.declared import DATA_FILE_THIN_MODE, METADATA_STATS_DENSE_STORE
from tidelake.store.context import StoreContext
from tidelake.store.data_file_index import DataFileIndex
from tidelake.store.file_meta import creation_time_ms, simple_stats, value_stats
from tidelake.types import DataField, TableSchema
from tidelake.types.arrow import to_arrow_schema
from tidelake.types.values import arrow_to_storage


def row_fields(schema: TableSchema) -> tuple[DataField, ...]:
    """Give the columns of a row inside the store."""
    return (SEQUENCE_FIELD, KIND_FIELD, *schema.fields)


class KeyedFile:
    """A data file being written.

    Parameters
    ----------
    source : FileSource
        Whether rows were added or compacted.
    with_stats : bool
        Whether the manifest gets nulls and bounds of columns.
    changelog : bool
        Whether the rows are changes: then a key may occur several times in a row.
    files_open : int
        Number of files written in parallel, which share the memory of a row group.
    """

    def __init__(
        self,
        context: StoreContext,
        name: str,
        path: str,
        *,
        level: int,
        source: FileSource,
        with_stats: bool = True,
        changelog: bool = False,
        files_open: int = 1,
    ) -> None:
        self._context = context
        self._name = name
        self._level = level
        self._source = source
        self._index = DataFileIndex(context, name, path)
        schema = context.schema
        self._key_fields = tuple(schema.field(key) for key in schema.trimmed_primary_keys)
        ordering = () if changelog or not level else file_order_columns(context.options)
        self._bound_fields = tuple(map(schema.field, ordering)) or self._key_fields
        self._bound_types = [field.type for field in self._bound_fields]
        self._thin = context.options.get(DATA_FILE_THIN_MODE)
        self._fields = kv_fields(schema, thin=self._thin)
        self._arrow_schema = to_arrow_schema(self._fields)
        self._file = open_writer(
            context.fileio,
            path,
            self._fields,
            self._format_options(level, changelog=changelog, files_open=files_open),
            stats_columns=frozenset(f.name for f in self._fields if with_stats)
            - {SEQUENCE_FIELD.name, KIND_FIELD.name},
        )
        self._min_key: list[object] | None = None
        self._last: pa.RecordBatch | None = None
        self._delete_count = 0
        self._sequence_bounds: tuple[int, int] | None = None

    @property
    def bytes_written_estimate(self) -> int:
        """The approximate length of the file if it were closed now."""
        return self._file.bytes_written_estimate

    @property
    def buffered_bytes(self) -> int:
        """Bytes of rows held in memory."""
        return self._file.buffered_bytes + self._index.buffered_bytes

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows.

        Requires: the rows' keys ascend across calls, or in a changelog never fall; of a clustered
        file, its columns never fall.
        """
        if rows.num_rows == 0:
            return
        keys = [] if self._thin else [rows.column(field.name) for field in self._key_fields]
        columns = [*keys, *(rows.column(f.name) for f in self._fields[len(keys) :])]
        self._file.write(pa.RecordBatch.from_arrays(columns, schema=self._arrow_schema))
        self._index.add(rows)
        if self._min_key is None:
            self._min_key = self._bounds_at(rows, 0)
        self._last = rows.slice(rows.num_rows - 1)
        numbers = rows.column(SEQUENCE_FIELD.name).to_numpy()
        low, high = int(numbers.min()), int(numbers.max())
        if self._sequence_bounds is not None:
            low, high = min(low, self._sequence_bounds[0]), max(high, self._sequence_bounds[1])
        self._sequence_bounds = (low, high)
        self._delete_count += int(np.count_nonzero(rows.column(KIND_FIELD.name).to_numpy() & 1))

    def close(self) -> DataFileMeta:
        """Finish the file.

        Returns
        -------
        DataFileMeta
            Size, bounds and statistics as Paimon's manifests hold them.
        """
        assert self._min_key is not None, "a data file has rows"
        assert self._last is not None, "a data file has rows"
        assert self._sequence_bounds is not None, "a data file has rows"
        index = self._index.finish()
        footer = self._file.close()
        by_name = dict(zip((f.name for f in self._fields), footer.stats, strict=True))
        key_stats = [
            by_name[field.name if self._thin else key_field(field).name]
            for field in self._key_fields
        ]
        values, covered = value_stats(
            self._context.schema.fields,
            [by_name[field.name] for field in self._context.schema.fields],
            dense=self._context.options.get(METADATA_STATS_DENSE_STORE),
        )
        return DataFileMeta(
            file_name=self._name,
            file_size_bytes=footer.size_bytes,
            row_count=footer.row_count,
            min_key=serialize_row(self._min_key, self._bound_types),
            max_key=serialize_row(self._bounds_at(self._last, 0), self._bound_types),
            key_stats=simple_stats(self._key_fields, key_stats),
            value_stats=values,
            min_sequence_number=self._sequence_bounds[0],
            max_sequence_number=self._sequence_bounds[1],
            schema_id=self._context.schema.id,
            level=self._level,
            creation_time_ms=creation_time_ms(self._context),
            delete_row_count=self._delete_count,
            file_source=int(self._source),
            value_stats_cols=covered,
            **index,
        )

    def abort(self) -> None:
        """Delete the unfinished file."""
        self._file.abort()

    def _format_options(self, level: int, *, changelog: bool, files_open: int) -> FormatOptions:
        memory = self._context.env.memory
        chosen = format_options(self._context.options, level=level, changelog=changelog)
        chosen = chosen.within(memory.row_group_bytes_of(files_open))
        if not self._thin:
            return chosen
        keys = frozenset(field.name for field in self._key_fields)
        return replace(chosen, key_columns=keys, sorted_columns=keys)

    def _bounds_at(self, rows: pa.RecordBatch, position: int) -> list[object]:
        return [
            arrow_to_storage(rows.column(field.name).slice(position, 1), field.type)[0]
            for field in self._bound_fields
        ]
