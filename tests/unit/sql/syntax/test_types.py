import pytest

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.sql.execution.describe import type_text
from tidelake.sql.syntax.cursor import Cursor
from tidelake.sql.syntax.tokens import tokenize
from tidelake.sql.syntax.types import Spelling, read_type
from tidelake.types import parse_type

FLINK, SPARK = Spelling.FLINK, Spelling.SPARK


def read(text, spelling=FLINK):
    cursor = Cursor(text, tokenize(text))
    found = read_type(cursor, spelling)
    cursor.expect_end()
    return found


@pytest.mark.parametrize(
    ("text", "paimon"),
    [
        ("BOOLEAN", "BOOLEAN"),
        ("TINYINT", "TINYINT"),
        ("SMALLINT", "SMALLINT"),
        ("INT", "INT"),
        ("INTEGER", "INT"),
        ("int", "INT"),
        ("BIGINT", "BIGINT"),
        ("FLOAT", "FLOAT"),
        ("DOUBLE", "DOUBLE"),
        ("DOUBLE PRECISION", "DOUBLE"),
        ("DECIMAL", "DECIMAL(10, 0)"),
        ("DECIMAL(5)", "DECIMAL(5, 0)"),
        ("DECIMAL(38, 18)", "DECIMAL(38, 18)"),
        ("NUMERIC(4, 2)", "DECIMAL(4, 2)"),
        ("STRING", "STRING"),
        ("STRING NOT NULL", "STRING NOT NULL"),
        ("STRING NULL", "STRING"),
        ("VARCHAR(20)", "VARCHAR(20)"),
        ("CHAR(3)", "CHAR(3)"),
        ("BYTES", "BYTES"),
        ("VARBINARY(9)", "VARBINARY(9)"),
        ("BINARY(9)", "BINARY(9)"),
        ("DATE", "DATE"),
        ("TIMESTAMP(3)", "TIMESTAMP(3)"),
        ("TIMESTAMP(9) WITHOUT TIME ZONE", "TIMESTAMP(9)"),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        ("TIMESTAMP_LTZ", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        (
            "TIMESTAMP(0) WITH LOCAL TIME ZONE NOT NULL",
            "TIMESTAMP(0) WITH LOCAL TIME ZONE NOT NULL",
        ),
        ("TIMESTAMP_NTZ", "TIMESTAMP(6)"),
        ("VARIANT", "VARIANT"),
    ],
)
@pytest.mark.parametrize("spelling", [FLINK, SPARK])
def test_words_that_mean_the_same_in_both_forms(text, paimon, spelling):
    assert read(text, spelling) == parse_type(paimon)


@pytest.mark.parametrize(
    ("text", "flink", "spark"),
    [
        ("TIMESTAMP", "TIMESTAMP(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        ("TIME", "TIME(0)", "TIME(6)"),
        ("BINARY", "BINARY(1)", "BYTES"),
        ("VARBINARY", "VARBINARY(1)", "BYTES"),
    ],
)
def test_words_that_the_form_decides(text, flink, spark):
    assert read(text, FLINK) == parse_type(flink)
    assert read(text, SPARK) == parse_type(spark)


def test_a_char_without_a_length_is_flinks_alone():
    assert read("CHAR", FLINK) == parse_type("CHAR(1)")
    with pytest.raises(InvalidInputError, match="CHAR needs a length"):
        read("CHAR", SPARK)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ARRAY<INT NOT NULL>", "ARRAY<INT NOT NULL>"),
        ("ARRAY<ARRAY<ARRAY<INT>>>", "ARRAY<ARRAY<ARRAY<INT>>>"),
        ("MULTISET<STRING>", "MULTISET<STRING>"),
        ("MAP<STRING, MAP<INT, DATE>> NOT NULL", "MAP<STRING, MAP<INT, DATE>> NOT NULL"),
        ("ROW<a INT, `b c` STRING NOT NULL>", "ROW<`a` INT, `b c` STRING NOT NULL>"),
        ("ROW(a INT, b ROW<c DECIMAL(5, 2)>)", "ROW<`a` INT, `b` ROW<`c` DECIMAL(5, 2)>>"),
        ("STRUCT<a: INT, b: ARRAY<STRING>>", "ROW<`a` INT, `b` ARRAY<STRING>>"),
        ("ROW<a INT 'words', b INT>", "ROW<`a` INT 'words', `b` INT>"),
        ("STRUCT<a: INT COMMENT 'words'>", "ROW<`a` INT 'words'>"),
        ("ROW<t TIMESTAMP_LTZ(3)>", "ROW<`t` TIMESTAMP_LTZ(3)>"),
    ],
)
def test_nested_types_and_their_text_are_inverse(text, shown):
    found = read(text)
    assert type_text(found) == shown
    assert read(shown) == found


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("BIGNT", "no type 'BIGNT'. Did you mean 'BIGINT'", 1),
        ("ARRAY<INTT>", "no type 'INTT'", 7),
        ("ARRAY INT", "'<' is expected here after ARRAY, not 'INT'", 7),
        ("MAP<INT>", "',' is expected here between the types of a map", 8),
        ("DECIMAL(39, 2)", "precision must be 1 to 38", 1),
        ("DECIMAL(3, 4)", "scale must be 0 to its precision", 1),
        ("DECIMAL(3, 1, 1)", "takes 2 at most", 8),
        ("TIMESTAMP(10)", "precision must be 0 to 9", 1),
        ("VARCHAR(0)", "length must be", 1),
        ("ROW<a INT, a INT>", "'a' is listed twice", 12),
        ("INT INT", "should end here, but 'INT' follows", 5),
    ],
)
def test_what_is_no_type_is_shown_at_its_word(text, message, column):
    with pytest.raises(InvalidInputError) as raised:
        read(text)
    assert message in str(raised.value)
    assert f"line 1, column {column}:" in str(raised.value)


@pytest.mark.parametrize("text", ["INTERVAL DAY", "RAW", "NULL", "TIMESTAMP WITH TIME ZONE"])
def test_types_that_paimon_lacks_are_refused_with_what_to_take(text):
    with pytest.raises(UnsupportedError, match=r"(store|give|use) ") as raised:
        read(text)
    assert raised.value.kind == "sql_type"
