"""Sequence numbers and kinds are left unread only where the manifest decides the merge."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake
from tidelake.codec.binary_row import serialize_row
from tidelake.format import KIND_FIELD, SEQUENCE_FIELD
from tidelake.metadata.data_file import EMPTY_STATS, DataFileMeta
from tidelake.scan.system_columns import KnownColumns, known_system_columns
from tidelake.types import parse_type

KEY = serialize_row((1,), [parse_type("INT NOT NULL")])
BOTH = {SEQUENCE_FIELD, KIND_FIELD}


def file_of(low, high, *, deletes=0):
    return DataFileMeta(
        file_name=f"data-{low}.parquet",
        file_size_bytes=100,
        row_count=10,
        min_key=KEY,
        max_key=KEY,
        key_stats=EMPTY_STATS,
        value_stats=EMPTY_STATS,
        min_sequence_number=low,
        max_sequence_number=high,
        schema_id=0,
        level=0,
        delete_row_count=deletes,
    )


def known(*runs, keep_kinds=False):
    return known_system_columns(tuple(tuple(run) for run in runs), keep_kinds=keep_kinds)


def test_both_are_known_of_runs_that_follow_each_other():
    assert known([file_of(0, 9), file_of(10, 12)], [file_of(13, 20)], [file_of(30, 31)]) == BOTH


@pytest.mark.parametrize("low", [5, 9])
def test_numbers_are_read_where_two_runs_share_some(low):
    assert known([file_of(0, 9)], [file_of(low, 20)]) == {KIND_FIELD}


def test_numbers_are_read_where_one_file_of_a_later_run_is_older():
    assert known([file_of(10, 19)], [file_of(30, 39), file_of(0, 5)]) == {KIND_FIELD}


@pytest.mark.parametrize("deletes", [1, None])
def test_kinds_are_read_where_a_file_may_retract(deletes):
    assert known([file_of(0, 9)], [file_of(10, 19, deletes=deletes)]) == {SEQUENCE_FIELD}


def test_kinds_are_read_for_a_reader_that_hands_them_on():
    assert known([file_of(0, 9)], [file_of(10, 19)], keep_kinds=True) == {SEQUENCE_FIELD}


def test_known_columns_have_their_types_and_a_number_of_the_file():
    columns = KnownColumns(frozenset(BOTH), file_of(13, 20))
    for count in (2, 1, 3):
        full = columns.added_to(pa.record_batch({"k": list(range(count))}))
        assert full.schema.names == ["k", SEQUENCE_FIELD.name, KIND_FIELD.name]
        assert full.schema.field(1).type == pa.int64()
        assert full.schema.field(2).type == pa.int8()
        assert len(full.column(1)) == count
        assert set(full.column(1).to_pylist()) <= set(range(13, 21))
        assert full.column(2).to_pylist() == [0] * count


def test_nothing_is_added_where_nothing_is_known():
    rows = pa.record_batch({"k": [1, 2]})
    assert KnownColumns(frozenset(), file_of(13, 20)).added_to(rows) is rows


def test_rows_are_those_of_the_newest_write(tmp_path):
    catalog = tidelake.open(str(tmp_path))
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
    table = catalog.create_table("db.t", schema, primary_keys=["k"], options={"bucket": "1"})
    for value in ("a", "b", "c"):
        table.write(pa.table({"k": [1, 2, 3], "v": [value] * 3}, schema=schema))
    table.delete([{"k": 2}])
    assert table.to_arrow().sort_by("k").to_pydict() == {"k": [1, 3], "v": ["c", "c"]}
    assert table.to_arrow(columns=["v"]).to_pydict() == {"v": ["c", "c"]}
