import pyarrow as pa
import pytest
from unit.types.strategies import SCALARS

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.types import parse_type
from tidelake.types.arrow import fields_from_arrow, to_arrow_schema, to_arrow_type


@pytest.mark.parametrize("text", SCALARS)
def test_a_type_survives_the_way_through_arrow(text):
    arrow_type = to_arrow_type(parse_type(text))
    again = fields_from_arrow(pa.schema({"c": arrow_type}))[0].type
    assert to_arrow_type(again) == arrow_type


@pytest.mark.parametrize(
    ("arrow_type", "text"),
    [
        (pa.uint8(), "SMALLINT"),
        (pa.uint16(), "INT"),
        (pa.uint32(), "BIGINT"),
        (pa.uint64(), "DECIMAL(20, 0)"),
        (pa.float16(), "FLOAT"),
        (pa.large_string(), "STRING"),
        (pa.string_view(), "STRING"),
        (pa.dictionary(pa.int8(), pa.string()), "STRING"),
        (pa.dictionary(pa.int32(), pa.uint64()), "DECIMAL(20, 0)"),
        (pa.large_binary(), "BYTES"),
        (pa.binary(16), "BINARY(16)"),
        (pa.timestamp("s"), "TIMESTAMP(0)"),
        (pa.timestamp("ns", "Europe/Berlin"), "TIMESTAMP(9) WITH LOCAL TIME ZONE"),
        (pa.decimal256(38, 3), "DECIMAL(38, 3)"),
        (pa.date64(), "DATE"),
        (pa.time32("s"), "TIME(0)"),
        (pa.time64("ns"), "TIME(3)"),
        (pa.list_(pa.int32()), "ARRAY<INT>"),
        (pa.large_list(pa.field("x", pa.int8(), nullable=False)), "ARRAY<TINYINT NOT NULL>"),
        (pa.list_(pa.float32(), 3), "ARRAY<FLOAT>"),
        (pa.list_view(pa.string()), "ARRAY<STRING>"),
        (pa.map_(pa.string(), pa.uint8()), "MAP<STRING NOT NULL, SMALLINT>"),
        (pa.struct({"a": pa.int32(), "b": pa.binary(2)}), "ROW<`a` INT, `b` BINARY(2)>"),
    ],
)
def test_arrow_types_have_a_counterpart(arrow_type, text):
    assert str(fields_from_arrow(pa.schema({"c": arrow_type}))[0].type) == text


@pytest.mark.parametrize(
    "arrow_type",
    [
        pa.duration("s"),
        pa.list_(pa.duration("s")),
        pa.dense_union([pa.field("a", pa.int32())]),
        pa.decimal256(39, 3),
        pa.decimal128(3, -1),
    ],
)
def test_arrow_types_without_counterpart_are_refused(arrow_type):
    with pytest.raises(UnsupportedError, match=r"Column 'c(\.element)?'"):
        fields_from_arrow(pa.schema({"c": arrow_type}))


def test_the_null_type_is_refused():
    with pytest.raises(InvalidInputError, match="null type"):
        fields_from_arrow(pa.schema({"c": pa.null()}))


def test_not_null_comes_from_the_argument_and_from_arrow():
    schema = pa.schema([("a", pa.int32()), pa.field("b", pa.int32(), nullable=False)])
    fields = fields_from_arrow(schema, not_null=["a"])
    assert [str(f.type) for f in fields] == ["INT NOT NULL", "INT NOT NULL"]
    assert [f.id for f in fields] == [0, 1]
    assert not any(f.nullable for f in to_arrow_schema(fields))
    with pytest.raises(InvalidInputError, match="Did you mean 'a'"):
        fields_from_arrow(schema, not_null=["aa"])
    with pytest.raises(InvalidInputError, match="more than once"):
        fields_from_arrow(pa.schema([("a", pa.int32()), ("a", pa.int32())]))


def test_nested_columns_take_field_ids_as_in_java():
    # Java Paimon 1.3.1 counts a row inside a row before the field that holds it
    inner = pa.struct({"y": pa.int32()})
    schema = pa.schema(
        {
            "a": pa.list_(pa.struct({"p": pa.int32(), "q": pa.map_(pa.int32(), pa.string())})),
            "b": pa.int32(),
            "c": pa.struct({"x": inner, "z": pa.int32()}),
        }
    )
    a, b, c = fields_from_arrow(schema)
    assert (a.id, a.type.children[0].child_fields) == (0, ((1, "p"), (2, "q")))
    assert b.id == 3
    assert (c.id, c.type.child_fields) == (4, ((6, "x"), (7, "z")))
    assert c.type.children[0].child_fields == ((5, "y"),)


def test_a_comment_in_arrows_metadata_is_the_columns():
    schema = pa.schema([pa.field("a", pa.int32(), metadata={"comment": "how many"})])
    assert fields_from_arrow(schema)[0].description == "how many"


def required(name, arrow_type):
    return pa.field(name, arrow_type, nullable=False)


@pytest.mark.parametrize(
    ("form", "arrow_type"),
    [
        (
            {"type": "MULTISET", "element": "STRING"},
            pa.map_(pa.string(), pa.field("value", pa.int32(), nullable=False)),
        ),
        (
            "VARIANT",
            pa.struct(
                [
                    pa.field("value", pa.binary(), nullable=False),
                    pa.field("metadata", pa.binary(), nullable=False),
                ]
            ),
        ),
    ],
)
def test_types_that_arrow_has_not_are_built_of_others(form, arrow_type):
    assert to_arrow_type(parse_type(form)) == arrow_type
