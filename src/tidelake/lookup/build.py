"""Makes a lookup file of a data file's rows.

1. Batch by batch the columns go to spools, and the keys' hashes are kept: 4 bytes a row.
2. The hash table is made at once (:func:`tidelake.lookup.layout.slots_of`).
3. The file is written under a temporary name, its header last, and renamed. A process that dies
   leaves a temporary file whose lock is free; the next one that opens the cache removes it.

Cost: 0.5 to 1 s of CPU per million rows, half of it for reading the data file. Memory: 8 bytes a
row for the table, and the spools' budget.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
from xxhash import xxh3_64

from tidelake.lookup.column_memory import ColumnSpool, SpoolBudget
from tidelake.lookup.layout import ByteRange, LookupHeader, aligned, slots_of
from tidelake.lookup.stored_columns import StoredColumns
from tidelake.types import DataField

TEMPORARY_SUFFIX = ".tmp"
SPOOL_BYTES = 64 << 20
"""Bytes of columns held in memory while a file is built."""
ZEROS = bytes(64)
SLOT_BYTES = 16
"""Two slots a row."""


class LookupBuild:
    """One lookup file that is being made. For one thread.

    Parameters
    ----------
    spool_bytes : int
        Bytes of columns held in memory.
    """

    def __init__(
        self,
        stored: StoredColumns,
        fields: tuple[DataField, ...],
        directory: str,
        *,
        spool_bytes: int = SPOOL_BYTES,
    ) -> None:
        self._stored = stored
        self._names = [field.name for field in fields]
        self._budget = SpoolBudget(spool_bytes, directory)
        kinds = stored.arrow_types(fields)
        self._columns = [ColumnSpool(kind, self._budget) for kind in kinds]
        self._hashes: list[np.ndarray] = []

    def add(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Take the rows of the data file, in its order; returns how many they were."""
        form, names = self._stored.form, self._stored.key_columns
        count = 0
        for batch in batches:
            images = form.images([batch.column(name) for name in names])
            self._hashes.append(form.hashes(images).astype(np.uint32))
            arrays = [batch.column(name) for name in self._names]
            if self._stored.has_images:
                is_array = isinstance(images, pa.Array)
                arrays.append(images if is_array else pa.array(images))
            for column, array in zip(self._columns, arrays, strict=True):
                column.append(array)
            count += batch.num_rows
        return count

    def write(self, path: Path, *, identity: bytes, unique: str) -> None:
        """Write the file, and give it its name when it is whole.

        Raises
        ------
        OSError
            The disk is full, or refuses.
        """
        temporary = path.with_name(f"{path.name}.{unique}{TEMPORARY_SUFFIX}")
        try:
            with temporary.open("xb") as out:
                fcntl.flock(out, fcntl.LOCK_EX)  # free again when this process ends
                self._write(out.fileno(), identity)
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise

    @property
    def size_bytes(self) -> int:
        """About as many bytes as the file will have."""
        return self._budget.size_bytes + SLOT_BYTES * sum(map(len, self._hashes))

    def close(self) -> None:
        """Release the spools."""
        self._budget.close()

    def _write(self, file: int, identity: bytes) -> None:
        hashes = np.concatenate(self._hashes) if self._hashes else np.empty(0, np.uint32)
        slots, homes_count = slots_of(hashes.astype(np.uint64))
        wide = any(column.needs_wide_offsets for column in self._columns)
        nodes = tuple(node for column in self._columns for node in column.nodes())
        buffers = [part for column in self._columns for part in column.buffers(wide=wide)]
        begin = LookupHeader.size_bytes(len(nodes), len(buffers), identity)
        end = aligned(begin)
        parts = []
        for size_bytes in (slots.nbytes, *(buffer.size_bytes for buffer in buffers)):
            parts.append(ByteRange(end, size_bytes))
            end = aligned(end + size_bytes)
        body = _Body(file, begin)
        body.add(b"", pad=begin)
        body.add(slots.view(np.uint8).data, pad=slots.nbytes)
        for buffer in buffers:
            for block in buffer.blocks():
                body.add(np.ascontiguousarray(block).data)
            body.add(b"", pad=buffer.size_bytes)
        header = LookupHeader(
            rows_count=len(hashes),
            homes_count=homes_count,
            slots=parts[0],
            has_wide_offsets=wide,
            nodes=nodes,
            buffers=tuple(parts[1:]),
            identity=identity,
            file_size_bytes=end,
            body_checksum=body.checksum.intdigest(),
        )
        os.pwrite(file, header.encode(), 0)


class _Body:
    """What lies behind the header, written in order."""

    def __init__(self, file: int, begin: int) -> None:
        self.checksum = xxh3_64()
        self._file = file
        os.lseek(file, begin, os.SEEK_SET)

    def add(self, data: memoryview | bytes, *, pad: int = 0) -> None:
        """Write bytes, and zeros up to the next part if a part of `pad` bytes ends here."""
        rest = memoryview(data)
        self.checksum.update(rest)
        while len(rest):
            rest = rest[os.write(self._file, rest) :]
        if pad:
            self.add(ZEROS[: aligned(pad) - pad])
