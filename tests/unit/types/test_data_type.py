import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.types.strategies import SCALARS

from tidelake.errors import CorruptError, UnsupportedError
from tidelake.types import TypeRoot, parse_type, type_to_json
from tidelake.types.data_type import NESTED_DEPTH_MAX, parse_type_text


@pytest.mark.parametrize("text", [*SCALARS, "VARIANT", "CHAR(1)", "VARCHAR(10)", "VARBINARY(7)"])
@pytest.mark.parametrize("ending", ["", " NOT NULL"])
def test_a_type_is_written_as_it_was_read(text, ending):
    data_type = parse_type(text + ending)
    assert type_to_json(data_type) == text + ending
    assert data_type.nullable == (ending == "")
    assert data_type.not_null().as_nullable() == data_type.as_nullable()


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("integer", "INT"),
        ("Numeric(5)", "DECIMAL(5, 0)"),
        ("DECIMAL", "DECIMAL(10, 0)"),
        ("TIMESTAMP", "TIMESTAMP(6)"),
        ("TIMESTAMP(3) WITHOUT TIME ZONE", "TIMESTAMP(3)"),
        ("TIMESTAMP_LTZ(3) NOT NULL", "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL"),
        ("VARCHAR(2147483647)", "STRING"),
        ("VARBINARY(2147483647)", "BYTES"),
        ("CHAR", "CHAR(1)"),
        ("TIME", "TIME(0)"),
        ("  INT   NOT  NULL ", "INT NOT NULL"),
    ],
)
def test_other_spellings_are_read(text, written):
    assert str(parse_type(text)) == written


ROW = {
    "type": "ROW NOT NULL",
    "fields": [
        {"id": 4, "name": "a", "type": "INT", "description": "what a is"},
        {"id": 5, "name": "b", "type": {"type": "ARRAY", "element": "STRING NOT NULL"}},
        {"id": 6, "name": "c", "type": "INT", "defaultValue": "7"},
    ],
}


@pytest.mark.parametrize(
    "form",
    [
        ROW,
        {"type": "MAP", "key": "STRING NOT NULL", "value": ROW},
        {"type": "ARRAY NOT NULL", "element": {"type": "MULTISET", "element": "INT"}},
        {"type": "ROW", "fields": []},
    ],
)
def test_nested_types_are_written_as_they_were_read(form):
    assert type_to_json(parse_type(form)) == form
    assert parse_type(form).is_nested


def test_nested_types_have_a_text():
    assert str(parse_type(ROW)) == "ROW<`a` INT, `b` ARRAY<STRING NOT NULL>, `c` INT> NOT NULL"


@pytest.mark.parametrize(
    "form",
    [
        "",
        "INTT",
        "INT(",
        "INT NULL NOT",
        {"type": "ARRAY"},
        {"type": "MAP", "key": "INT"},
        {"type": "ROW", "fields": [5]},
        {"type": "ROW", "fields": [{"id": "x", "name": "a", "type": "INT"}]},
        {"type": "LIST", "element": "INT"},
        {},
    ],
)
def test_what_is_no_type_is_refused(form):
    with pytest.raises(CorruptError):
        parse_type(form)


@pytest.mark.parametrize("form", ["BLOB", {"type": "VECTOR", "element": "FLOAT", "length": 3}])
def test_types_of_a_later_paimon_are_refused(form):
    with pytest.raises(UnsupportedError):
        parse_type(form)


def test_nesting_is_bounded():
    form = "INT"
    for _ in range(NESTED_DEPTH_MAX + 1):
        form = {"type": "ARRAY", "element": form}
    with pytest.raises(CorruptError, match="nested more than"):
        parse_type(form)


@given(st.text(max_size=30))
def test_any_text_is_a_type_or_refused(text):
    try:
        assert isinstance(parse_type(text).root, TypeRoot)
    except (CorruptError, UnsupportedError):
        return


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("map<string,int>", "MAP<STRING, INT>"),
        ("MAP < STRING NOT NULL , INT >", "MAP<STRING NOT NULL, INT>"),
        ("ARRAY<DECIMAL(10,2)>NOT NULL", "ARRAY<DECIMAL(10, 2)> NOT NULL"),
        ("multiset<varchar(3)> null", "MULTISET<VARCHAR(3)>"),
        ("ROW<a INT, `b c` STRING>", "ROW<`a` INT, `b c` STRING>"),
        (
            "row(a int not null,b:array<row<x date>>)",
            "ROW<`a` INT NOT NULL, `b` ARRAY<ROW<`x` DATE>>>",
        ),
        (
            "Struct<a: Timestamp_Ltz(3), b:BIGINT>",
            "ROW<`a` TIMESTAMP(3) WITH LOCAL TIME ZONE, `b` BIGINT>",
        ),
        ("ARRAY<TIMESTAMP(3) WITH LOCAL TIME ZONE>", "ARRAY<TIMESTAMP(3) WITH LOCAL TIME ZONE>"),
        ("MAP<STRING, MAP<STRING, ARRAY<VARIANT>>>", "MAP<STRING, MAP<STRING, ARRAY<VARIANT>>>"),
        ("decimal( 5 , 2 )", "DECIMAL(5, 2)"),
        ("ROW<map INT, array INT>", "ROW<`map` INT, `array` INT>"),
    ],
)
def test_types_may_be_written_in_other_spellings(text, means):
    parsed = parse_type_text(text)
    assert str(parsed) == means
    assert parse_type_text(str(parsed)) == parsed


def test_fields_of_rows_may_have_comments():
    parsed = parse_type_text("ROW<a INT 'it''s', b INT COMMENT 'two', c INT>")
    assert parsed.child_details == (("it's", None), ("two", None), (None, None))


@pytest.mark.parametrize(
    "text",
    [
        "MAP<STRING>",
        "MAP<STRING, INT, INT>",
        "ARRAY<INT, INT>",
        "ARRAY(INT)",
        "ARRAY<INT",
        "ARRAY<INT>>",
        "ARRAY<INT)",
        "ARRAY<>",
        "ROW<INT>",
        "ROW<>",
        "ROW<a INT, a STRING>",
        "ARRAY<ROW>",
        "INT NOT NULLABLE",
        "ARRAY<INTEGRAL>",
        "ARRAY<DECIMAL(50, 2)>",
        "<INT>",
        "",
    ],
)
def test_texts_that_are_no_type_are_refused(text):
    with pytest.raises(CorruptError):
        parse_type_text(text)


def test_types_nested_too_deep_are_refused_as_text():
    with pytest.raises(CorruptError, match="64 levels"):
        parse_type_text("ARRAY<" * 100 + "INT" + ">" * 100)


def test_a_schema_file_holds_no_constructed_type_as_text():
    with pytest.raises(CorruptError):
        parse_type("ARRAY<INT>")
