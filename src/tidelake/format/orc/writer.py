"""Writes one ORC data file that Paimon's readers can read.

1. Rows are encoded as they come. Arrow's writer keeps a stripe in memory and passes it to the
   storage when it is full. Stripes are smaller than Java's 64 MiB, so that a merge of many files
   holds little.
2. Statistics for the manifest are gathered batch by batch.
3. An aborted file is never finished: the output of Arrow's writer, when it is released, is
   discarded (:class:`_Sink`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from tidelake.errors import UnsupportedError
from tidelake.fileio import FileIO
from tidelake.fileio.file_io import OutputFile
from tidelake.format.file_writer import DataFileFooter, check_open, check_rows
from tidelake.format.format_options import FormatOptions
from tidelake.format.orc.schema import orc_arrow_schema
from tidelake.format.stats import StatsCollector
from tidelake.types import DataField
from tidelake.types.arrow import to_arrow_schema
from tidelake.types.nested import (
    ListParts,
    leaf_arrays,
    list_of,
    list_parts,
    map_of,
    struct_children,
    struct_of,
)

_ENCODE_ROWS = 16_384
_TICKS_PER_MILLISECOND = {"ms": 1, "us": 1_000, "ns": 1_000_000}

_FIRST_RATIO = 0.4
"""Encoded size by Arrow size, until the first stripe gives the file's own."""


class OrcFileWriter:
    """An ORC file being written; see :class:`tidelake.format.file_writer.DataFileWriter`."""

    def __init__(
        self,
        fileio: FileIO,
        path: str,
        fields: Sequence[DataField],
        options: FormatOptions,
        *,
        stats_columns: frozenset[str],
    ) -> None:
        self._path = path
        self._fields = tuple(fields)
        self._schema = to_arrow_schema(self._fields)
        self._orc_schema = orc_arrow_schema(self._fields)
        modes = options.stats_modes(self._fields, stats_columns)
        self._stats = StatsCollector(self._fields, modes, footer=False)
        self._row_count = 0
        self._arrow_bytes = 0
        self._flushed_bytes = 0  # in the file when the last stripe was written
        self._flushed_arrow_bytes = 0
        self._closed = False
        self._output = fileio.open_output(path)
        self._sink = _Sink(self._output)
        self._orc = orc.ORCWriter(
            pa.PythonFile(self._sink, mode="w"),
            compression=options.codec,
            compression_strategy="speed" if options.zstd_level <= 1 else "compression",
            compression_block_size=options.orc.compression_block_bytes,
            stripe_size=options.orc.stripe_bytes,
            row_index_stride=options.orc.index_rows,
            dictionary_key_size_threshold=options.orc.dictionary_share_max,
            batch_size=_ENCODE_ROWS,
        )

    @property
    def row_count(self) -> int:
        """Rows taken so far."""
        return self._row_count

    @property
    def buffered_bytes(self) -> int:
        """Arrow bytes of the stripe that is being filled."""
        return self._arrow_bytes - self._flushed_arrow_bytes

    @property
    def bytes_written_estimate(self) -> int:
        """The approximate length of the file if it were closed now."""
        known = self._flushed_arrow_bytes
        ratio = self._flushed_bytes / known if known else _FIRST_RATIO
        return self._flushed_bytes + int(self.buffered_bytes * ratio)

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Append rows."""
        check_open(self._path, closed=self._closed)
        check_rows(self._path, self._fields, self._schema, rows)
        if rows.num_rows == 0:
            return
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        for field, column in zip(self._fields, table.columns, strict=True):
            for leaf in _timestamp_leaves(column):
                _check_old_times(field, leaf, self._path)
        self._stats.add(table)
        columns = [
            _stored_column(column, field.type)
            for column, field in zip(table.columns, self._orc_schema, strict=True)
        ]
        self._orc.write(pa.Table.from_arrays(columns, schema=self._orc_schema))
        self._row_count += table.num_rows
        self._arrow_bytes += table.nbytes
        if self._sink.size_bytes > self._flushed_bytes + len(b"ORC"):
            self._flushed_bytes = self._sink.size_bytes
            self._flushed_arrow_bytes = self._arrow_bytes

    def close(self) -> DataFileFooter:
        """Finish the file; it is whole and durable when this returns."""
        check_open(self._path, closed=self._closed)
        if self._row_count == 0:
            self._orc.write(self._orc_schema.empty_table())
        self._orc.close()
        self._sink.let_go()
        self._output.close()
        self._closed = True
        return DataFileFooter(self._output.tell(), self._row_count, self._stats.result())

    def abort(self) -> None:
        """Abort and remove the file; does nothing after a close."""
        if self._closed:
            return
        self._closed = True
        self._sink.let_go()
        self._orc.is_open = False  # otherwise its finalizer would finish the file
        self._output.abort()


def _timestamp_leaves(column: pa.ChunkedArray) -> Iterator[pa.Array | pa.ChunkedArray]:
    if pa.types.is_timestamp(column.type):
        yield column
    elif pa.types.is_nested(column.type):
        leaves = (leaf for chunk in column.chunks for leaf in leaf_arrays(chunk))
        yield from (leaf for leaf in leaves if pa.types.is_timestamp(leaf.type))


def _stored_column(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    if not pa.types.is_nested(target):
        return column.cast(target) if pa.types.is_time(column.type) else column
    return pa.chunked_array([_stored(chunk, target) for chunk in column.chunks], target)


def _stored(values: pa.Array, target: pa.DataType) -> pa.Array:
    """A column in the types of the file; its children begin with those of its first row."""
    if pa.types.is_struct(target):
        inside = zip(struct_children(values), target, strict=True)
        return struct_of([_stored(child, f.type) for child, f in inside], target, values)
    if pa.types.is_map(target):
        parts = list_parts(values)
        keys, items = parts.children
        flat = (_stored(keys, target.key_type), _stored(items, target.item_type))
        return map_of(ListParts(parts.offsets, parts.nulls, flat), target)
    if pa.types.is_list(target):
        parts = list_parts(values)
        elements = _stored(parts.children[0], target.value_type)
        return list_of(ListParts(parts.offsets, parts.nulls, (elements,)), target)
    if pa.types.is_time(values.type):
        values = values.cast(target)
    # Arrow's ORC writer treats children of a slice as null where their parent elsewhere is
    return pa.concat_arrays([values]) if values.offset else values


def _check_old_times(field: DataField, column: pa.Array | pa.ChunkedArray, path: str) -> None:
    """Refuse times that Java reads differently or not at all.

    For times before 1970 with parts of a millisecond Arrow stores the nanoseconds as negative
    numbers, at which Java's reader fails. Those inside the last second before 1970 it reads a
    second later, in its own files too.
    """
    ticks = _TICKS_PER_MILLISECOND[column.type.unit]
    numbers = column.cast(pa.int64())
    lowest = pc.min(numbers).as_py()
    if lowest is None or lowest >= 0:
        return
    old = pc.filter(numbers, pc.less(numbers, 0))
    parts = pc.subtract(old, pc.multiply(pc.divide(old, ticks), ticks))
    is_misread = pc.or_(pc.not_equal(parts, 0), pc.greater(old, -1000 * ticks))
    if pc.any(is_misread).as_py():
        message = (
            f"Column '{field.name}' for file {path} holds times before 1970 with parts of a"
            " millisecond, or inside the last second before 1970. Java cannot read them from an ORC"
            " file: round them to seconds, or set 'file.format' to 'parquet'."
        )
        raise UnsupportedError(message, kind="value_range", path=path, column=field.name)


class _Sink:
    """The output of Arrow's writer: it neither closes the file nor writes after an abort."""

    closed = False

    def __init__(self, output: OutputFile) -> None:
        self._output: OutputFile | None = output
        self.size_bytes = 0

    def write(self, data: bytes) -> int:
        """Take bytes."""
        self.size_bytes += len(data)
        if self._output is not None:
            self._output.write(data)
        return len(data)

    def let_go(self) -> None:
        """Discard all further output."""
        self._output = None

    def tell(self) -> int:
        """Bytes taken so far."""
        return self.size_bytes

    def flush(self) -> None:
        """Do nothing: the output is made durable by its own close."""

    def close(self) -> None:
        """Do nothing: whether the file counts is the writer's decision."""
