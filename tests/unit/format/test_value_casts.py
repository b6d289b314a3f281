"""Files older than a column's type are read in the type of today."""

from __future__ import annotations

import decimal

import pyarrow as pa
import pytest

from tidelake import InvalidInputError, UnsupportedError
from tidelake.fileio import MemoryFileIO
from tidelake.format import FormatOptions, open_writer, read_batches
from tidelake.types import DataField, parse_type
from tidelake.types.arrow import to_arrow_schema
from tidelake.types.predicate import bind, col

PATH = "/t/data-1.parquet"


def field(field_id, name, form):
    return DataField(field_id, name, parse_type(form))


def written(fields, rows):
    fileio = MemoryFileIO()
    writer = open_writer(fileio, PATH, fields, FormatOptions(), stats_columns=frozenset())
    writer.write(pa.RecordBatch.from_pylist(rows, to_arrow_schema(fields)))
    writer.close()
    return fileio


def read(fileio, wanted, fields, **more):
    batches = read_batches(fileio, PATH, wanted, file_fields=fields, **more)
    return [row for batch in batches for row in batch.to_pylist()]


OLD = (field(0, "a", "INT"), field(1, "b", "STRING"), field(2, "c", "DECIMAL(10, 5)"))
ROWS = [{"a": 383, "b": "7.9", "c": decimal.Decimal("999.99499")}, {"a": None, "b": "-1", "c": 1}]


def test_columns_are_cast_by_id_whatever_their_names():
    now = (field(1, "a", "BIGINT"), field(0, "b", "TINYINT"), field(2, "d", "DECIMAL(5, 2)"))
    rows = read(written(OLD, ROWS), now, OLD)
    assert rows == [
        {"a": 7, "b": 127, "d": decimal.Decimal("999.99")},
        {"a": -1, "b": None, "d": decimal.Decimal("1.00")},
    ]


def test_a_condition_counts_after_the_cast():
    fileio = written(OLD, ROWS)
    now = (field(0, "a", "TINYINT"), field(1, "b", "INT"))
    for where, count in ((col("a") == 127, 1), (col("a") == 383 - 256, 1), (col("b") < 0, 1)):
        assert len(read(fileio, now, OLD, predicate=bind(where, now))) == count
    assert read(fileio, now[:1], OLD, predicate=bind(col("b") == 7, now), predicate_fields=now) == [
        {"a": 127}
    ]


def test_a_decimal_made_null_is_found_as_null():
    fileio = written(OLD, [{"a": 1, "b": "x", "c": decimal.Decimal("99999.9")}])
    now = (field(2, "c", "DECIMAL(4, 1)"),)
    assert read(fileio, now, OLD, predicate=bind(col("c").is_null(), now)) == [{"c": None}]


def test_a_value_that_cannot_be_cast_names_the_file_and_the_column():
    fileio = written(OLD, [{"a": 1, "b": "seven", "c": 1}])
    now = (field(1, "n", "INT"),)
    with pytest.raises(InvalidInputError, match=r"'n' of file /t/data-1.parquet: .*seven"):
        read(fileio, now, OLD)


def test_a_null_in_a_column_that_became_not_null_is_refused():
    fileio = written(OLD, ROWS)
    with pytest.raises(InvalidInputError, match="'a' is NOT NULL"):
        read(fileio, (field(0, "a", "INT NOT NULL"),), OLD)
    assert read(fileio, (field(1, "b", "STRING NOT NULL"),), OLD) == [{"b": "7.9"}, {"b": "-1"}]
    with pytest.raises(InvalidInputError, match="'z' is NOT NULL"):
        read(fileio, (field(9, "z", "INT NOT NULL"),), OLD)


def test_a_type_that_nothing_is_cast_to_is_refused():
    with pytest.raises(UnsupportedError, match=r"'a' is INT .*cannot be read as DATE"):
        read(written(OLD, ROWS), (field(0, "a", "DATE"),), OLD)


def test_leaves_of_nested_types_are_cast():
    row = {"type": "ROW", "fields": [{"id": 2, "name": "x", "type": "INT"}]}
    old = (field(0, "k", "INT"), field(1, "r", {"type": "ARRAY", "element": row}),
           field(3, "m", {"type": "MAP", "key": "STRING", "value": "BIGINT"}))  # fmt: skip
    fileio = written(old, [
        {"k": 1, "r": [{"x": 5}, None, {"x": None}], "m": [("a", 2**40)]},
        {"k": 2, "r": None, "m": None},
    ])  # fmt: skip
    fields = [{"id": 4, "name": "y", "type": "INT"}, {"id": 2, "name": "z", "type": "STRING"}]
    now = (field(1, "r", {"type": "ARRAY", "element": {"type": "ROW", "fields": fields}}),
           field(3, "m", {"type": "MAP", "key": "STRING", "value": "INT"}))  # fmt: skip
    assert read(fileio, now, old) == [
        {"r": [{"y": None, "z": "5"}, None, {"y": None, "z": None}], "m": [("a", 0)]},
        {"r": None, "m": None},
    ]


def test_issue_36_a_null_over_not_null_names_the_table_and_what_to_do():
    fileio = written(OLD, ROWS)
    with pytest.raises(InvalidInputError) as refused:
        read(fileio, (field(0, "a", "INT NOT NULL"),), OLD, table="/t")
    assert refused.value.context["table"] == "/t"
    assert str(refused.value) == (
        "Column 'a' of table /t is NOT NULL, but its older file data-1.parquet holds nulls: let it"
        " have them again by ALTER TABLE ... ALTER COLUMN a DROP NOT NULL, and replace them by"
        " UPDATE before you set NOT NULL."
    )
