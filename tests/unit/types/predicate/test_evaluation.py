import pyarrow as pa
import pytest
from hypothesis import given, settings
from sizes import examples
from unit.types.predicate.strategies import filtered_tables, holds

from tidelake.types import DataField, parse_type
from tidelake.types.predicate import And, Not, Or, col, evaluate, parse_filter
from tidelake.types.predicate import bind as bind_to
from tidelake.types.values import storage_to_arrow


def batch_of(fields, columns):
    arrays = [storage_to_arrow(columns[f.name], f.type) for f in fields]
    return pa.RecordBatch.from_arrays(arrays, names=[f.name for f in fields])


@settings(max_examples=examples(200), deadline=None)
@given(filtered_tables())
def test_kept_rows_are_those_of_sql(table):
    fields, columns, predicate = table
    batch = batch_of(fields, columns)
    rows = [
        {f.name: columns[f.name][i] for f in fields} for i in range(len(columns[fields[0].name]))
    ]
    expected = [holds(predicate, row) is True for row in rows]
    mask = evaluate(predicate, batch, fields)
    assert mask.to_pylist() == expected
    assert mask.null_count == 0
    inverse = evaluate(Not(predicate), batch, fields).to_pylist()
    assert inverse == [holds(predicate, row) is False for row in rows]
    cut = len(rows) // 2
    chunked = pa.Table.from_batches([batch.slice(0, cut), batch.slice(cut)])
    assert evaluate(predicate, chunked, fields).to_pylist() == expected
    assert evaluate(predicate, batch.slice(cut), fields).to_pylist() == expected[cut:]


FIELDS = [
    DataField(0, "x", parse_type("DOUBLE")),
    DataField(1, "f", parse_type("FLOAT")),
    DataField(2, "s", parse_type("STRING")),
]
NAN = float("nan")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("x > 1e300", [NAN]),
        ("x >= 0", [-0.0, 0.0, NAN]),
        ("x < 0", [-1.0]),
        ("x = 0", [-0.0, 0.0]),
        ("x IN (0.0, 7)", [-0.0, 0.0]),
        ("x <> 0", [-1.0, NAN]),
        ("NOT x <= 0", [NAN]),
    ],
)
def test_nan_is_largest_and_both_zeros_are_equal(text, kept):
    column = [-1.0, -0.0, 0.0, NAN, None]
    batch = batch_of(FIELDS[:1], {"x": column})
    predicate = bind_to(parse_filter(text), FIELDS)
    assert repr(batch.filter(evaluate(predicate, batch, FIELDS))["x"].to_pylist()) == repr(kept)


def test_a_float_literal_finds_the_float_that_was_written_so():
    batch = batch_of(FIELDS[1:2], {"f": [0.10000000149011612, 0.2]})
    assert evaluate(bind_to(col("f") == 0.1, FIELDS), batch, FIELDS).to_pylist() == [True, False]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", "b", None], pa.large_string()),
        pa.array(["a", "b", None]).dictionary_encode(),
        pa.array(["a", "b", None], pa.string_view()),
    ],
)
def test_other_layouts_of_strings_are_taken(column):
    batch = pa.record_batch({"s": column})
    for condition in (col("s") == "b", col("s").isin(["b", "c"]), col("s").startswith("b")):
        mask = evaluate(bind_to(condition, FIELDS), batch, FIELDS)
        assert mask.to_pylist() == [False, True, False]


def test_conditions_without_parts_are_constant():
    batch = pa.record_batch({"s": ["a", "b"]})
    assert evaluate(And(()), batch, FIELDS).to_pylist() == [True, True]
    assert evaluate(Or(()), batch, FIELDS).to_pylist() == [False, False]
