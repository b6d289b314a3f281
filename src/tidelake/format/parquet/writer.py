"""Writes one Parquet data file that Paimon's readers can read.

1. The writer collects batches until they fill a row group (:class:`FormatOptions`). Memory: one row
   group in Arrow form, and its encoded columns.
2. The first row group decides which columns get a dictionary, and which are worth compressing.
3. Statistics are collected for each row group. The file gets page checksums, a page index and a
   checksum of the footer (:mod:`tidelake.format.parquet.footer`). Its own statistics leave FLOAT
   and DOUBLE columns out (:func:`footer_columns`).
4. ``close`` returns the exact size: Java finds the footer by the size in the manifest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from tidelake.fileio import FileIO
from tidelake.format.field_schema import (
    delta_columns,
    dictionary_columns,
    footer_columns,
    leaves,
    parquet_arrow_schema,
    uses_int96,
)
from tidelake.format.file_writer import DataFileFooter, check_open, check_rows
from tidelake.format.format_options import FormatOptions
from tidelake.format.parquet.column_codec import column_codecs
from tidelake.format.parquet.footer import CHECKSUM_BLANK, CHECKSUM_KEY, FooterSeal
from tidelake.format.stats import StatsCollector
from tidelake.types import DataField, TypeRoot
from tidelake.types.nested import settled

_FIRST_RATIO = 0.4
"""Ratio of encoded to Arrow size, until the first row group gives the file's own."""

_ENCODE_ROWS = 65_536
"""Rows that Arrow encodes at once; with its default of 1,024 strings cost a fifth more."""
_ENCODE_BYTES = 2 << 20
"""The rows for wide values: Arrow ends a page only between two such steps, and every reader holds a
page."""


class ParquetFileWriter:
    """A Parquet file being written; see :class:`tidelake.format.file_writer.DataFileWriter`."""

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
        self._options = options
        self._codec = options.codec
        self._schema = parquet_arrow_schema(self._fields)
        self._int96 = uses_int96(self._fields, path=path)
        modes = options.stats_modes(self._fields, stats_columns)
        self._stats = StatsCollector(self._fields, modes, footer=True)
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._encoded_arrow_bytes = 0
        self._row_count = 0
        self._parquet: pq.ParquetWriter | None = None
        self._footers: list[pq.FileMetaData] = []
        self._closed = False
        self._output = fileio.open_output(path)
        self._seal = FooterSeal(self._output)
        self._sink = pa.PythonFile(self._seal, mode="w")

    @property
    def row_count(self) -> int:
        """Rows taken so far."""
        return self._row_count + self._pending_rows

    @property
    def buffered_bytes(self) -> int:
        """Arrow bytes in the current row group."""
        return self._pending_bytes

    @property
    def bytes_written_estimate(self) -> int:
        """The approximate length of the file if it were closed now."""
        written = self._output.tell()
        ratio = written / self._encoded_arrow_bytes if self._encoded_arrow_bytes else _FIRST_RATIO
        return written + int(self._pending_bytes * ratio)

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Append rows."""
        check_open(self._path, closed=self._closed)
        check_rows(self._path, self._fields, self._schema, rows)
        batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
        for batch in batches:
            for part in self._parts(batch):
                self._pending.append(part)
                self._pending_rows += part.num_rows
                self._pending_bytes += part.nbytes
                if (
                    self._pending_rows >= self._options.row_group_rows
                    or self._pending_bytes >= self._options.row_group_bytes
                ):
                    self._write_row_group()

    def close(self) -> DataFileFooter:
        """Finish the file; it is whole and durable when this returns."""
        check_open(self._path, closed=self._closed)
        if self._pending_rows or self._parquet is None:
            self._write_row_group()
        assert self._parquet is not None
        self._parquet.add_key_value_metadata({CHECKSUM_KEY: CHECKSUM_BLANK})
        self._seal.hold()
        self._parquet.close()
        self._seal.seal()
        self._output.close()
        self._closed = True
        (footer,) = self._footers
        assert footer.num_rows == self._row_count, (self._path, footer.num_rows, self._row_count)
        return DataFileFooter(self._output.tell(), self._row_count, self._stats.result(footer))

    def abort(self) -> None:
        """Abort and remove the file; does nothing after a close."""
        if self._closed:
            return
        self._closed = True
        self._pending.clear()
        if self._parquet is not None:
            self._parquet.is_open = False  # otherwise its finalizer would write a footer
        self._output.abort()

    def _parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Cut a batch at the ends of row groups, so that a huge batch makes no huge group."""
        start = 0
        while start < batch.num_rows:
            row_bytes = max(1, batch.nbytes // batch.num_rows)
            rows = min(
                self._options.row_group_rows - self._pending_rows,
                1 + (self._options.row_group_bytes - self._pending_bytes) // row_bytes,
            )
            yield batch.slice(start, rows)
            start += rows

    def _write_row_group(self) -> None:
        # Arrow types are checked when rows come in; field ids and NOT NULL come from our schema
        parts = [
            pa.RecordBatch.from_arrays([settled(c) for c in b.columns], schema=self._schema)
            for b in self._pending
        ]
        table = pa.Table.from_batches(parts, schema=self._schema)
        self._pending.clear()
        if self._parquet is None:
            self._parquet = self._open_parquet(table)
        if table.num_rows:
            self._stats.add(table)
            self._parquet.write_table(table, row_group_size=table.num_rows)
        self._row_count += table.num_rows
        self._encoded_arrow_bytes += self._pending_bytes
        self._pending_rows = self._pending_bytes = 0

    def _open_parquet(self, first: pa.Table) -> pq.ParquetWriter:
        delta = delta_columns(self._fields, self._options.sorted_columns)
        others = [f for f in self._fields if f.name not in delta]
        dictionary = dictionary_columns(first, others)
        plain = [f.name for f in others if f.name not in dictionary and not _is_group(f)]
        codecs = column_codecs(first, plain, self._codec)
        for field in filter(_is_group, self._fields):
            codec = codecs.pop(field.name)
            codecs.update((path, codec) for path, _ in leaves(field))
        zstd = [name for name, codec in codecs.items() if codec == "zstd"]
        return pq.ParquetWriter(
            self._sink,
            self._schema,
            compression=codecs or self._codec,
            compression_level=dict.fromkeys(zstd, self._options.zstd_level) or None,
            write_batch_size=_encode_rows(first),
            use_dictionary=dictionary,
            column_encoding=dict.fromkeys(delta, "DELTA_BINARY_PACKED") or None,
            use_deprecated_int96_timestamps=self._int96,
            store_decimal_as_integer=True,
            store_schema=False,
            write_time_adjusted_to_utc=True,
            write_statistics=footer_columns(self._fields),
            write_page_index=True,
            write_page_checksum=True,
            metadata_collector=self._footers,
        )


def _encode_rows(first: pa.Table) -> int:
    """Choose the rows to encode at once, by the widest column of the first row group."""
    widest = max((column.nbytes for column in first.columns), default=0) // max(1, first.num_rows)
    return max(1, min(_ENCODE_ROWS, _ENCODE_BYTES // max(1, widest)))


def _is_group(field: DataField) -> bool:
    """Whether the column is a group of columns in the file."""
    return field.type.is_nested or field.type.root is TypeRoot.VARIANT
