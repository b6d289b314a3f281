"""The copy of one target: chunks of its tables of the source, made into rows of the target.

A copy is done here, one chunk after another, or by a :class:`Copier` in other processes. Both read
chunks by :meth:`TableCopy.rows`, and keep what is left out in a :class:`ChunkNote` for each chunk.
A chunk that is read again has the same note again, so that notes are counted by chunk. Rows that
the target does not take are left out, and noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from tidelake.cdc.source.changes import Rejected
from tidelake.cdc.source.source import Chunk, ChunkReader, CopiedRows
from tidelake.cdc.source.source_table import SourceName
from tidelake.cdc.target.quarantine import payload_of
from tidelake.cdc.target.row_check import RowCheck
from tidelake.cdc.target.row_maker import RowMaker
from tidelake.cdc.target.target import whole_rows, with_all_columns
from tidelake.engine.write import WriteResult, WriteTransaction
from tidelake.types import DataField, RowKind

JOINED_BYTES = 32 << 20
"""Of Arrow: rows that are written together."""


@dataclass
class ChunkNote:
    """What was seen of one chunk besides its rows."""

    rows_count: int = 0
    rejected: list[Rejected] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TableCopy:
    """Makes the rows of a target. Picklable if its reader is; shows no secret.

    Parameters
    ----------
    check : RowCheck
        Says which rows the target takes.
    makers : mapping
        By the table of the source.
    order : tuple of int
        Of all copied rows.
    """

    target: str
    check: RowCheck
    reader: ChunkReader
    chunks: tuple[Chunk, ...]
    makers: Mapping[SourceName, RowMaker]
    order: tuple[int, int]
    now_ms: int

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The target's columns."""
        return self.check.fields

    @property
    def rows_count(self) -> int:
        """Rows of the source, as estimated."""
        return sum(chunk.rows_count for chunk in self.chunks)

    def read_by(self, reader: ChunkReader) -> TableCopy:
        """Give the same copy with another reader."""
        return replace(self, reader=reader)

    def rows(self, number: int, note: ChunkNote) -> Iterator[pa.RecordBatch]:
        """Read a chunk by its number; rows have all columns of the target, and fit them."""
        chunk = self.chunks[number]
        maker = self.makers[chunk.table.name]
        for copied in _joined(self.reader.read(chunk)):
            made, rejected = maker.copied(copied.rows, self.order, self.now_ms)
            note.rejected += [*copied.rejected, *rejected]
            fitting, left_out = self._fitting(made, chunk.table.name)
            note.rejected += left_out
            note.rows_count += fitting.num_rows
            yield from fitting.to_batches()

    def _fitting(self, made: pa.Table, source: SourceName) -> tuple[pa.Table, list[Rejected]]:
        """The rows that the target takes, and the others."""
        kinds = np.full(made.num_rows, int(RowKind.INSERT), np.int8)
        rows = with_all_columns(made, kinds, self.fields)
        misfits = self.check.misfits(rows, kinds)
        if not misfits:
            return rows, []
        rejected = [
            Rejected(
                source,
                self.order,
                int(RowKind.INSERT),
                reason,
                payload_of(made.slice(row, 1).to_pylist()[0]),
            )
            for row, reason in sorted(misfits.items())
        ]
        kept = np.ones(made.num_rows, np.bool_)
        kept[list(misfits)] = False
        return rows.filter(pa.array(kept)), rejected

    def whole_rows(self, number: int, note: ChunkNote) -> Iterator[pa.RecordBatch]:
        """Read a chunk by its number; rows have all columns of the target.

        Raises
        ------
        InvalidInputError
            A value does not fit its column.
        """
        return whole_rows(self.rows(number, note), self.fields, table=self.target)


def _joined(parts: Iterable[CopiedRows]) -> Iterator[CopiedRows]:
    """Join what is read in pieces that suit a parser.

    What comes after works by batch. The index of a table that makes its buckets on demand costs
    most there: it puts the keys of each batch among the latest ones of all batches before.
    """
    held: list[CopiedRows] = []
    size_bytes = 0
    for part in parts:
        held.append(part)
        size_bytes += part.rows.nbytes
        if size_bytes >= JOINED_BYTES:
            yield _one(held)
            held, size_bytes = [], 0
    if held:
        yield _one(held)


def _one(parts: Sequence[CopiedRows]) -> CopiedRows:
    if len(parts) == 1:
        return parts[0]
    rows = pa.concat_batches([part.rows for part in parts])
    return CopiedRows(rows, tuple(one for part in parts for one in part.rejected))


class Copier(Protocol):
    """Copies in other processes."""

    def takes(self, copy: TableCopy) -> bool:
        """Whether a copy is for them, such as a large one."""
        ...

    def write(
        self, copy: TableCopy, transaction: WriteTransaction
    ) -> tuple[WriteResult, Mapping[int, ChunkNote]]:
        """Read all chunks, write and commit, unless it is committed.

        Returns
        -------
        WriteResult
        mapping of int to ChunkNote
            By the number of the chunk; of a commit that was made before there may be none.
        """
        ...
