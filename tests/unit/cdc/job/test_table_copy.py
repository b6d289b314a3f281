"""The pieces of a copy are written together."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pyarrow as pa
import pytest
from unit.cdc.job.log_source import name_of

from tidelake.cdc.job import table_copy
from tidelake.cdc.job.table_copy import ChunkNote, TableCopy
from tidelake.cdc.source.changes import Rejected
from tidelake.cdc.source.source import Chunk, CopiedRows
from tidelake.cdc.source.source_table import SourceTable
from tidelake.cdc.target.row_check import RowCheck
from tidelake.engine.schemas import Constraints
from tidelake.options import Options
from tidelake.types import TableSchema
from tidelake.types.arrow import fields_from_arrow

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
    fields = fields_from_arrow(SCHEMA)
    check = RowCheck("ods.items", fields, Constraints("ods.items", fields), None)
    return TableCopy("ods.items", check, Reader(), (chunk,), {NAME: Maker()}, (1, 0), 0)


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


def test_rows_that_the_target_does_not_take_are_noted(copy):
    fields = fields_from_arrow(pa.schema([("id", pa.int8()), ("v", pa.string())]))
    options = Options.parse({"constraint.small": "id < 8"})
    schema = TableSchema(0, fields, 1)
    constraints = Constraints.of(schema, options, table="ods.items")
    note = ChunkNote()
    copy = replace(copy, check=RowCheck("ods.items", fields, constraints, None))
    batches = list(pickle.loads(pickle.dumps(copy)).whole_rows(0, note))
    assert [row["id"] for batch in batches for row in batch.to_pylist()] == list(range(8))
    assert note.rows_count == 8
    assert [one.reason for one in note.rejected[1:]] == [
        f"it violates the constraint 'small' (id < 8): id = {number}" for number in (8, 9)
    ]
    assert note.rejected[1].payload == '{"id": 8}'
