"""The pieces of a copy are written together."""

from __future__ import annotations

import pyarrow as pa
import pytest
from unit.cdc.job.log_source import name_of

from tidelake.cdc.job import table_copy
from tidelake.cdc.job.table_copy import ChunkNote, TableCopy
from tidelake.cdc.source.changes import Rejected
from tidelake.cdc.source.source import Chunk, CopiedRows
from tidelake.cdc.source.source_table import SourceTable

NAME = name_of("items")
SCHEMA = pa.schema([("id", pa.int64())])


class Reader:
    """Rows 0 to 9, one a piece; the third piece has a row that does not fit."""

    def read(self, chunk):
        for number in range(10):
            wrong = (Rejected(NAME, (1, 0), 0, "a reason", "{}"),) if number == 2 else ()
            yield CopiedRows(pa.record_batch([pa.array([number])], schema=SCHEMA), wrong)


class Maker:
    """Makes nothing of rows."""

    def copied(self, rows, order, now_ms):
        return pa.Table.from_batches([rows]), ()


@pytest.fixture
def copy():
    table = SourceTable(NAME, (), ("id",))
    chunk = Chunk(table, "", 10)
    return TableCopy("ods.items", (), Reader(), (chunk,), {NAME: Maker()}, (1, 0), 0)


def sizes(copy):
    note = ChunkNote()
    batches = list(copy.rows(0, note))
    assert [row["id"] for batch in batches for row in batch.to_pylist()] == list(range(10))
    assert (note.rows_count, len(note.rejected)) == (10, 1)
    return [batch.num_rows for batch in batches]


def test_small_pieces_are_joined(copy):
    assert sizes(copy) == [10]


def test_joined_pieces_have_a_bound(copy, monkeypatch):
    monkeypatch.setattr(table_copy, "JOINED_BYTES", 32)  # 8 bytes a row
    assert sizes(copy) == [4, 4, 2]
