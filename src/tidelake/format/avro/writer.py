"""Writes one Avro data file that Paimon's readers can read.

1. Rows are encoded column by column (:mod:`tidelake.format.avro.encoding`), cut into blocks of
   about :data:`BLOCK_BYTES` and compressed; a block is written as soon as it is full.
2. Statistics for the manifest are gathered batch by batch: the file itself has none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tidelake.codec.avro_block import avro_long, compressor
from tidelake.fileio import FileIO
from tidelake.format.avro.encoding import encode_rows
from tidelake.format.avro.schema import avro_schema, check_avro
from tidelake.format.file_writer import DataFileFooter, check_open, check_rows
from tidelake.format.format_options import FormatOptions
from tidelake.format.stats import StatsCollector
from tidelake.types import DataField
from tidelake.types.arrow import to_arrow_schema

BLOCK_BYTES = 128 << 10
"""Bytes of a block before it is compressed; Java's are 64,000."""
ENCODE_BYTES = 16 << 20
"""Arrow bytes encoded at once."""
_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16


class AvroFileWriter:
    """An Avro file being written; see :class:`tidelake.format.file_writer.DataFileWriter`."""

    def __init__(
        self,
        fileio: FileIO,
        path: str,
        fields: Sequence[DataField],
        options: FormatOptions,
        *,
        stats_columns: frozenset[str],
    ) -> None:
        check_avro(fields)
        self._path = path
        self._fields = tuple(fields)
        self._schema = to_arrow_schema(self._fields)
        modes = options.stats_modes(self._fields, stats_columns)
        self._stats = StatsCollector(self._fields, modes, footer=False)
        self._compress = compressor(options.codec, level=options.zstd_level)
        self._waiting = bytearray()
        self._waiting_rows = 0
        self._row_count = 0
        self._closed = False
        self._sync = hashlib.blake2b(path.encode(), digest_size=_SYNC_BYTES).digest()
        self._output = fileio.open_output(path)
        self._output.write(self._header(options.codec))

    @property
    def row_count(self) -> int:
        """Rows taken so far."""
        return self._row_count

    @property
    def buffered_bytes(self) -> int:
        """Bytes that wait for their block to fill."""
        return len(self._waiting)

    @property
    def bytes_written_estimate(self) -> int:
        """The approximate length of the file if it were closed now."""
        return self._output.tell() + len(self._waiting) // 2

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Append rows."""
        check_open(self._path, closed=self._closed)
        check_rows(self._path, self._fields, self._schema, rows)
        if rows.num_rows == 0:
            return
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        self._stats.add(table)
        for batch in table.to_batches():
            for part in _parts(batch):
                self._add(encode_rows(part, self._fields))
        self._row_count += table.num_rows

    def close(self) -> DataFileFooter:
        """Finish the file; it is whole and durable when this returns."""
        check_open(self._path, closed=self._closed)
        self._end_block()
        self._output.close()
        self._closed = True
        return DataFileFooter(self._output.tell(), self._row_count, self._stats.result())

    def abort(self) -> None:
        """Abort and remove the file; does nothing after a close."""
        if self._closed:
            return
        self._closed = True
        self._waiting.clear()
        self._output.abort()

    def _header(self, codec: str) -> bytes:
        text = json.dumps(avro_schema(self._fields), separators=(",", ":")).encode()
        out = bytearray(_MAGIC)
        out += avro_long(2)
        for key, value in ((b"avro.schema", text), (b"avro.codec", codec.encode())):
            out += avro_long(len(key)) + key + avro_long(len(value)) + value
        return bytes(out + avro_long(0) + self._sync)

    def _add(self, encoded: pa.Array) -> None:
        """Put rows into blocks; a block ends after the row that fills it."""
        _, offsets_memory, memory = encoded.buffers()
        offsets = np.frombuffer(offsets_memory, np.int32)[: len(encoded) + 1].astype(np.int64)
        data = memoryview(memory)
        row = 0
        while row < len(encoded):
            room = max(1, BLOCK_BYTES - len(self._waiting))
            end = int(np.searchsorted(offsets, offsets[row] + room, side="left"))
            end = min(max(end, row + 1), len(encoded))
            self._waiting += data[offsets[row] : offsets[end]]
            self._waiting_rows += end - row
            row = end
            if len(self._waiting) >= BLOCK_BYTES:
                self._end_block()

    def _end_block(self) -> None:
        if not self._waiting_rows:
            return
        payload = self._compress(bytes(self._waiting))
        head = avro_long(self._waiting_rows) + avro_long(len(payload))
        self._output.write(head + payload + self._sync)
        self._waiting.clear()
        self._waiting_rows = 0


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = max(1, batch.num_rows * ENCODE_BYTES // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
