import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.types.strategies import SCALARS, cells

from tidelake.errors import InvalidInputError
from tidelake.types import DataField, parse_type
from tidelake.types.arrow import to_arrow_schema
from tidelake.types.conform import conform
from tidelake.types.data_type import parse_type_text
from tidelake.types.values import storage_to_arrow


def fields_of(**types):
    return tuple(DataField(i, n, type_of(t)) for i, (n, t) in enumerate(types.items()))


def type_of(form):
    return parse_type_text(form) if isinstance(form, str) else parse_type(form)


@pytest.mark.parametrize("make", [pa.table, pa.record_batch])
def test_rows_are_put_in_order_and_cast(make):
    fields = fields_of(k="BIGINT NOT NULL", s="STRING", t="TIMESTAMP(6)", d="DECIMAL(10, 2)")
    given_rows = make(
        {
            "d": pa.array([Decimal("1.5"), None], pa.decimal128(5, 1)),
            "s": pa.array(["x", None]).dictionary_encode(),
            "t": pa.array([dt.datetime(2024, 1, 1), None], pa.timestamp("s")),
            "k": pa.array([1, 2], pa.uint8()),
        }
    )
    rows = conform(given_rows, fields, table="t")
    assert isinstance(rows, type(given_rows))
    assert rows.schema == to_arrow_schema(fields)
    assert rows.to_pylist() == [
        {"k": 1, "s": "x", "t": dt.datetime(2024, 1, 1), "d": Decimal("1.50")},
        {"k": 2, "s": None, "t": None, "d": None},
    ]


def bits_of(batch):
    """A batch with floats as their bits: NaN equals NaN there, and -0.0 does not equal 0.0."""
    as_bits = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}
    columns = [c.view(as_bits.get(c.type, c.type)) for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


@given(st.data())
def test_rows_of_the_right_types_pass_unchanged(data):
    types = data.draw(st.lists(st.sampled_from(SCALARS), min_size=1, max_size=4))
    fields = fields_of(**{f"c{i}": t for i, t in enumerate(types)})
    columns = [
        storage_to_arrow(data.draw(st.lists(cells(f.type), min_size=3, max_size=3)), f.type)
        for f in fields
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(fields))
    rows = conform(batch, fields, table="t")
    assert rows.schema == batch.schema
    assert bits_of(rows).equals(bits_of(batch))
    sliced = batch.slice(1)
    turned = sliced.select([f.name for f in reversed(fields)])
    rows = conform(turned, fields, table="t")
    assert rows.schema == batch.schema
    assert bits_of(rows).equals(bits_of(sliced))


def test_floats_pass_with_all_their_bits():
    fields = fields_of(f="FLOAT", d="DOUBLE")
    numbers = [float("nan"), -0.0, None, float("-inf")]
    columns = [pa.array(numbers, pa.float32()), pa.array(numbers, pa.float64())]
    batch = pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(fields))
    assert bits_of(conform(batch, fields, table="t")).equals(bits_of(batch))


@pytest.mark.parametrize(
    ("type_text", "column", "words"),
    [
        ("INT", pa.array(["1"]), "Arrow type string"),
        ("STRING", pa.array([1]), "Arrow type int64"),
        ("STRING", pa.array([b"a"]), "Arrow type binary"),
        ("BOOLEAN", pa.array([1]), "Arrow type int64"),
        ("INT", pa.array([1.0]), "Arrow type double"),
        ("DATE", pa.array([1]), "Arrow type int64"),
        ("TIMESTAMP(6)", pa.array([0], pa.timestamp("us", "UTC")), "tz=UTC"),
        ("TIMESTAMP_LTZ(6)", pa.array([0], pa.timestamp("us")), "Arrow type timestamp"),
        ("TINYINT", pa.array([300]), "does not fit"),
        ("DOUBLE", pa.array([(1 << 53) + 1]), "does not fit"),
        ("TIMESTAMP(3)", pa.array([1], pa.timestamp("us")), "does not fit"),
        ("DECIMAL(4, 1)", pa.array([Decimal("1.25")]), "does not fit"),
        ("DECIMAL(4, 1)", pa.array([Decimal("12345.0")]), "does not fit"),
        ("TIME(3)", pa.array([1], pa.time64("ns")), "does not fit"),
        ("FLOAT", pa.array([0.1, 0.5, float("nan")]), "1 rows of the data"),
        ("VARCHAR(2)", pa.array(["abc", "é€", None]), "1 rows are longer than 2 characters"),
        ("BINARY(2)", pa.array([b"abc"]), "1 rows are longer than 2 bytes"),
        ("TIME(3)", pa.array([86_400_000], pa.int32()).cast(pa.time32("ms")), "outside one day"),
        ("INT NOT NULL", pa.array([1, None, None], pa.int32()), "2 of 3 rows are null"),
    ],
)
def test_values_that_would_change_are_refused(type_text, column, words):
    with pytest.raises(InvalidInputError) as caught:
        conform(pa.table({"c": column}), fields_of(c=type_text), table="db.t")
    assert words in caught.value.message
    assert "'c' of table 'db.t'" in caught.value.message
    assert caught.value.context == {"table": "db.t", "column": "c"}


def test_floats_that_fit_are_narrowed():
    rows = conform(pa.table({"c": [0.5, None, float("inf")]}), fields_of(c="FLOAT"), table="t")
    assert rows["c"].to_pylist() == [0.5, None, float("inf")]


def test_an_untyped_column_of_nulls_takes_the_columns_type():
    rows = conform(pa.table({"c": pa.nulls(2)}), fields_of(c="DECIMAL(5, 1)"), table="t")
    assert rows.schema.field("c").type == pa.decimal128(5, 1)


def test_columns_must_be_those_of_the_table():
    fields = fields_of(name="STRING", age="INT")
    with pytest.raises(
        InvalidInputError, match=r"'names', which is not in table 't'\. Did you mean"
    ):
        conform(pa.table({"names": ["a"], "age": [1]}), fields, table="t")
    with pytest.raises(InvalidInputError, match="lacks the column 'age'"):
        conform(pa.table({"name": ["a"]}), fields, table="t")
    twice = pa.Table.from_arrays([pa.array(["a"])] * 2, names=["name", "name"])
    with pytest.raises(InvalidInputError, match="more than once"):
        conform(twice, fields, table="t")


@pytest.mark.parametrize(
    ("type_text", "arrow_type"),
    [
        ("DECIMAL(5, 2)", pa.int64()),
        ("DECIMAL(5, 2)", pa.uint64()),
        ("DECIMAL(3, 0)", pa.int32()),
        ("DECIMAL(38, 35)", pa.int64()),
    ],
)
def test_integers_that_fit_a_decimal_are_taken(type_text, arrow_type):
    fields = [DataField(0, "d", type_of(type_text))]
    column = pa.array([1, 999, None]).cast(arrow_type)
    assert conform(pa.table({"d": column}), fields, table="db.t")["d"].to_pylist() == [1, 999, None]
    with pytest.raises(InvalidInputError, match=r"'d' .* does not fit"):
        conform(pa.table({"d": pa.array([1000])}), fields, table="db.t")


ROW = {
    "type": "ROW",
    "fields": [
        {"id": 1, "name": "a", "type": "INT NOT NULL"},
        {"id": 2, "name": "b", "type": {"type": "ARRAY", "element": "VARCHAR(3)"}},
    ],
}


def test_nested_columns_are_cast_inside():
    given_rows = pa.table(
        {
            "c": pa.array(
                [{"b": ["x", None], "a": 1}, None, {"b": None, "a": 2}],
                pa.struct({"b": pa.large_list(pa.large_string()), "a": pa.uint8()}),
            )
        }
    )
    fields = fields_of(c=ROW)
    rows = conform(given_rows, fields, table="t")
    assert rows.schema == to_arrow_schema(fields)
    assert rows["c"].to_pylist() == [{"a": 1, "b": ["x", None]}, None, {"a": 2, "b": None}]


def map_of(*rows):
    return pa.array(rows, pa.map_(pa.string(), pa.int64()))


@pytest.mark.parametrize(
    ("form", "column", "words"),
    [
        (ROW, pa.array([{"a": None, "b": ["x"]}]), "'c.a' of table 't' is NOT NULL"),
        (ROW, pa.array([{"a": 1, "b": ["long"]}]), "'c.b.element'.*longer than 3"),
        (ROW, pa.array([{"a": 1}]), "lacks the field 'c.b'"),
        (ROW, pa.array([{"a": 1, "b": ["x"], "d": 1}]), "has the field 'c.d'"),
        (ROW, pa.array([{"a": 1.5, "b": ["x"]}]), "'c.a' of table 't' is INT"),
        ({"type": "ARRAY", "element": "TINYINT"}, pa.array([[128]]), "'c.element'.*does not fit"),
        ({"type": "ARRAY", "element": "INT"}, pa.array([1]), "'c' .* has the Arrow type int64"),
        ({"type": "MAP", "key": "STRING", "value": "TINYINT"}, map_of([("k", 128)]), "'c.value'"),
        ({"type": "MULTISET", "element": "VARCHAR(1)"}, map_of([("long", 1)]), "'c.key'.*longer"),
        ({"type": "MULTISET", "element": "STRING"}, map_of([("k", None)]), "'c.value'.*NOT NULL"),
        (
            "VARIANT",
            pa.array([{"value": b"", "metadata": b"\x02"}]),
            "not hold a variant of version 1",
        ),
        ("VARIANT NOT NULL", pa.nulls(1), "NOT NULL"),
        ("VARIANT", pa.array(["{}"]), "has the Arrow type string"),
        (
            "TIMESTAMP(6)",
            pa.array([0], pa.timestamp("us", "UTC")),
            r"Cast it to .* \(timestamp_ntz in Spark\), or make the column TIMESTAMP_LTZ",
        ),
        (
            "TIMESTAMP(6) WITH LOCAL TIME ZONE",
            pa.array([0], pa.timestamp("us")),
            r"\(timestamp in Spark\), or make the column TIMESTAMP, for times without a zone",
        ),
    ],
)
def test_what_does_not_fit_inside_is_refused(form, column, words):
    with pytest.raises(InvalidInputError, match=words):
        conform(pa.table({"c": column}), fields_of(c=form), table="t")


def test_values_that_are_not_there_are_not_looked_at():
    whole = pa.array([["too long"], ["x"], ["y"]], pa.list_(pa.string()))
    fields = fields_of(c={"type": "ARRAY", "element": "VARCHAR(1)"})
    rows = conform(pa.table({"c": whole.slice(1)}), fields, table="t")
    assert rows["c"].to_pylist() == [["x"], ["y"]]
    under_null = pa.ListArray.from_arrays(
        [0, 1, 2], ["too long", "x"], mask=pa.array([True, False])
    )
    rows = conform(pa.table({"c": under_null}), fields, table="t")
    assert rows["c"].to_pylist() == [None, ["x"]]
    keys, counts = pa.array(["too long", "x"]), pa.array([1, 2], pa.int32())
    under_null = pa.MapArray.from_arrays([0, 1, 2], keys, counts, mask=pa.array([True, False]))
    fields = fields_of(c={"type": "MULTISET", "element": "VARCHAR(1)"})
    rows = conform(pa.table({"c": under_null}), fields, table="t")
    assert rows["c"].to_pylist() == [None, [("x", 2)]]


def list_view(values, kind=pa.list_view):
    return pa.array(values, kind(pa.int32()))


LAYOUTS = {
    "string_view": (
        "STRING",
        lambda: pa.array(["a", None, "b"], pa.string_view()),
        ["a", None, "b"],
    ),
    "binary_view": ("BYTES", lambda: pa.array([b"a", None], pa.binary_view()), [b"a", None]),
    "dictionary of views": (
        "STRING",
        lambda: pa.DictionaryArray.from_arrays(
            pa.array([1, None, 0], pa.uint32()), pa.array(["a", "b"], pa.string_view())
        ),
        ["b", None, "a"],
    ),
    "dictionary of large strings": (
        "STRING",
        lambda: pa.array(["a", None, "a"], pa.large_string()).dictionary_encode(),
        ["a", None, "a"],
    ),
    "dictionary of numbers": (
        "INT",
        lambda: pa.array([5, 5, None]).dictionary_encode(),
        [5, 5, None],
    ),
    "run ends": ("BIGINT", lambda: pc.run_end_encode(pa.array([1, 1, None, 2])), [1, 1, None, 2]),
    "run ends of views": (
        "STRING",
        lambda: pa.RunEndEncodedArray.from_arrays([2, 3], pa.array(["a", "b"], pa.string_view())),
        ["a", "a", "b"],
    ),
    "list view": (
        "ARRAY<INT>",
        lambda: list_view([[9], [1, 2], None, [3]]),
        [[9], [1, 2], None, [3]],
    ),
    "large list view": (
        "ARRAY<INT>",
        lambda: list_view([[9], None, [3, 4]], pa.large_list_view),
        [[9], None, [3, 4]],
    ),
    "list view out of order": (
        "ARRAY<INT>",
        lambda: pa.ListViewArray.from_arrays([2, 0], [1, 2], pa.array([1, 2, 3], pa.int32())),
        [[3], [1, 2]],
    ),
    "list of dictionaries": (
        "ARRAY<STRING>",
        lambda: pa.ListArray.from_arrays(
            [0, 1, 3],
            pa.DictionaryArray.from_arrays(
                pa.array([0, 1, 0], pa.int32()), pa.array(["a", "b"], pa.string_view())
            ),
        ),
        [["a"], ["b", "a"]],
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_other_layouts_of_a_type_are_taken(name):
    type_text, make, values = LAYOUTS[name]
    column = make()
    (field,) = fields_of(c=type_text)
    for start in (0, 1):
        for given_rows in (
            pa.record_batch({"c": column.slice(start)}),
            pa.table({"c": pa.chunked_array([column.slice(start), column])}),
        ):
            rows = conform(given_rows, (field,), table="t")
            more = values if isinstance(given_rows, pa.Table) else []
            assert rows.schema == to_arrow_schema((field,))
            assert rows.column("c").to_pylist() == [*values[start:], *more]


@pytest.mark.parametrize(
    ("type_text", "column", "says"),
    [
        ("INT", pa.array([1, 2, 2**40]), "row 12 holds 1099511627776"),
        ("FLOAT", pa.array([0.5, 0.1]), "row 11 holds 0.1"),
        ("BIGINT NOT NULL", pa.array([1, None, None], pa.int64()), "the first is row 11"),
        ("VARCHAR(2)", pa.array(["ab", "abc"]), "row 11 holds 'abc'"),
        ("DECIMAL(3, 1)", pa.array([Decimal("1.11")]), "row 10 holds 1.11"),
        ("TIMESTAMP(3)", pa.array([1, 1000], pa.timestamp("us")), "row 10 holds 1970-01-01"),
        ("DATE", pa.array([0, 5], pa.date64()).cast(pa.int64()).cast(pa.timestamp("ms")), "'c'"),
    ],
)
def test_the_first_value_that_does_not_fit_is_named_with_its_row(type_text, column, says):
    for given_rows in (pa.record_batch({"c": column}), pa.table({"c": column})):
        with pytest.raises(InvalidInputError, match=r"'db\.t'") as caught:
            conform(given_rows, fields_of(c=type_text), table="db.t", first_row=10)
        assert "'c'" in caught.value.message
        assert says in caught.value.message


def test_without_a_place_of_the_rows_the_value_alone_is_named():
    with pytest.raises(InvalidInputError, match="a row holds 1099511627776"):
        conform(pa.record_batch({"c": pa.array([2**40])}), fields_of(c="INT"), table="t")
