"""Computed columns: Paimon's own test cases, their order, and what is refused."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from tidelake.cdc.columns.computed_columns import ComputedColumns, sorted_by_reference
from tidelake.cdc.columns.definition import FUNCTIONS
from tidelake.cdc.columns.expression import Moment
from tidelake.errors import InvalidInputError
from tidelake.types import DataField, parse_type
from tidelake.types.arrow import to_arrow_schema

NOON = Moment(1_704_585_662_123, "Europe/Berlin")


def columns(**types):
    return [DataField(i, name, parse_type(text)) for i, (name, text) in enumerate(types.items())]


def batch(fields, *rows):
    schema = to_arrow_schema(fields)
    return pa.RecordBatch.from_pydict(
        {f.name: list(v) for f, v in zip(fields, zip(*rows, strict=True), strict=True)}, schema
    )


def computed(definition, type_text, *values, moment=NOON):
    """Values and faults of one column that is computed from column `c`."""
    fields = columns(c=type_text)
    made = ComputedColumns.of([f"x={definition}"], fields)
    found = made.evaluate(batch(fields, *((v,) for v in values)), moment)
    return found.columns["x"].to_pylist(), dict(found.faults)


# MySqlSyncTableActionITCase.innerTestComputedColumn
DEFINITIONS = [
    *(f"_{fn}_{c}={fn}(_{c})" for fn in ("year", "month", "day", "hour", "minute", "second")
      for c in ("date", "datetime", "timestamp")),
    "_date_format_date=date_format(_date,yyyy)",
    "_date_format_datetime=date_format(_datetime,yyyy-MM-dd)",
    "_date_format_timestamp=date_format(_timestamp,yyyyMMdd)",
    "_substring_date1=substring(_date,2)",
    "_substring_date2=substring(_timestamp,5,10)",
    "_truncate_date=trUNcate(pk,2)",
    "_constant=cast(11,INT)",
    "_upper=upper(_value)",
    "_lower=lower(_value)",
    "_trim=trim(_value)",
]  # fmt: skip


def test_all_functions_of_paimons_own_case():
    fields = columns(
        pk="INT NOT NULL", _date="DATE", _datetime="TIMESTAMP(0)", _timestamp="TIMESTAMP(0)",
        _value="VARCHAR(10)",
    )  # fmt: skip
    day = dt.date(2023, 3, 23)
    rows = batch(
        fields,
        (1, day, dt.datetime(2022, 1, 1, 14, 30), dt.datetime(2021, 9, 15, 15, 0, 10), " vaLUE "),
        (2, day, None, None, None),
    )
    made = ComputedColumns.of(DEFINITIONS, fields)
    found = made.evaluate(rows, NOON)
    assert not found.faults
    first, second = ([column[i].as_py() for column in found.columns.values()] for i in (0, 1))
    assert first == [
        2023, 2022, 2021, 3, 1, 9, 23, 1, 15, 0, 14, 15, 0, 30, 0, 0, 0, 10, "2023", "2022-01-01",
        "20210915", "23-03-23", "09-15", 0, 11, " VALUE ", " value ", "vaLUE",
    ]  # fmt: skip
    assert second == [
        2023, None, None, 3, None, None, 23, None, None, 0, None, None, 0, None, None, 0, None,
        None, "2023", None, None, "23-03-23", None, 2, 11, None, None, None,
    ]  # fmt: skip
    assert [str(f.type) for f in made.fields] == ["INT"] * 18 + ["STRING"] * 5 + ["INT"] * 2 + [
        "STRING"
    ] * 3
    assert made.references == {"pk", "_date", "_datetime", "_timestamp", "_value"}


# MySqlSyncTableActionITCase.testTemporalToIntWithEpochTime: 2024-01-01T00:01:02.123456789Z
EPOCHS = {"": 1704067262, ",0": 1704067262, ",3": 1704067262123, ",6": 1704067262123456,
          ",9": 1704067262123456789}  # fmt: skip
EXPECTED = {"year": 2024, "month": 1, "day": 1, "hour": 0, "minute": 1, "second": 2}


@pytest.mark.parametrize("precision", EPOCHS)
@pytest.mark.parametrize("function", EXPECTED)
def test_a_number_is_a_count_since_1970(function, precision):
    count = EPOCHS[precision]
    for data_type in ("BIGINT", "STRING", "DECIMAL(20, 0)") if precision else ("BIGINT",):
        value = {"B": count, "S": str(count), "D": Decimal(count)}[data_type[0]]
        found, faults = computed(f"{function}(c{precision})", data_type, value, None)
        assert (found, faults) == ([EXPECTED[function], None], {})


# MySqlSyncTableActionITCase.testDateFormatWithEpochTime: 2024-01-07T00:01:02.123456789Z
@pytest.mark.parametrize(
    ("arguments", "count", "expected"),
    [
        ("yyyy-MM-dd HH:mm:ss", 1704585662, "2024-01-07 00:01:02"),
        ("yyyy-MM-dd HH:mm:ss, 0", 1704585662, "2024-01-07 00:01:02"),
        ("yyyy-MM-dd HH:mm:ss.SSS, 3", 1704585662123, "2024-01-07 00:01:02.123"),
        ("yyyy-MM-dd HH:mm:ss.SSSSSS, 6", 1704585662123456, "2024-01-07 00:01:02.123456"),
        ("yyyy-MM-dd HH:mm:ss.SSSSSSSSS, 9", 1704585662123456789, "2024-01-07 00:01:02.123456789"),
    ],
)
def test_a_count_has_a_format(arguments, count, expected):
    assert computed(f"date_format(c, {arguments})", "BIGINT", count) == ([expected], {})


# TruncateComputerTest
@pytest.mark.parametrize("data_type", ["TINYINT", "SMALLINT", "INT", "BIGINT"])
def test_whole_numbers_are_truncated_as_in_java(data_type):
    cases = {0: 0, 1: 0, 5: 0, 9: 0, 10: 10, 11: 10, 15: 10, -1: -10, -5: -10, -9: -10, -10: -10,
             -11: -20}  # fmt: skip
    found, faults = computed("truncate(c, 10)", data_type, *cases)
    assert (dict(zip(cases, found, strict=True)), faults) == (cases, {})


@pytest.mark.parametrize("data_type", ["DECIMAL(9, 2)", "DECIMAL(30, 2)"])
def test_decimals_are_truncated_as_in_java(data_type):
    cases = {"12.34": "12.30", "12.30": "12.30", "12.29": "12.20", "0.05": "0.00",
             "-0.05": "-0.10"}  # fmt: skip
    found, faults = computed("truncate(c,10)", data_type, *map(Decimal, cases), None)
    assert ([*map(str, found[:-1])], found[-1], faults) == ([*cases.values()], None, {})


@pytest.mark.parametrize(
    ("data_type", "text", "width", "expected"),
    [
        ("VARCHAR(5)", "abcde", 3, "abc"),
        ("VARCHAR(7)", "abcdefg", 3, "abc"),
        ("VARCHAR(7)", "abcdefg", 5, "abcde"),
        ("VARCHAR(7)", "abcdefg", 7, "abcdefg"),
        ("CHAR(5)", "abcde", 3, "abc"),
        ("CHAR(7)", "abcdefg", 7, "abcdefg"),
    ],
)
def test_texts_are_truncated(data_type, text, width, expected):
    assert computed(f"truncate(c, {width})", data_type, text) == ([expected], {})


def test_a_negative_width_is_javas_too():
    assert computed("truncate(c, -10)", "INT", 7, -7, 10)[0] == [10, 0, 10]
    assert computed("truncate(c, -10)", "DECIMAL(30, 0)", 7, -7, 10)[0] == [10, 0, 10]


@pytest.mark.parametrize(
    ("definition", "data_type", "good", "bad", "said"),
    [
        ("truncate(c, 7)", "CHAR(9)", "abcdefgh", "abcde", "'abcde' has less than 7 characters"),
        ("truncate(c, 10)", "TINYINT", 5, -128, "-128 truncated by 10 is no TINYINT"),
        ("truncate(c, 10)", "BIGINT", 5, -(2**63), "is no BIGINT"),
        ("truncate(c, 10)", "DECIMAL(3, 1)", Decimal("1.0"), Decimal("-99.9"), "no DECIMAL(3, 1)"),
        ("truncate(c, 10)", "DECIMAL(20, 0)", Decimal(1), -Decimal("9" * 20), "is no DECIMAL"),
        ("substring(c, 2)", "STRING", "abc", "a", "'a' has less than 2 characters"),
        ("substring(c, 1, 4)", "STRING", "abcd", "abc", "less than 4"),
        ("year(c)", "STRING", "2024-01-01", "soon", "'soon' is not a date"),
        ("year(c, 9)", "STRING", "+12", "9223372036854775808", "is not a count since 1970"),
        ("year(c, 3)", "STRING", "12", "1e3", "'1e3' is not a count since 1970"),
        ("date_format(c, yyyy)", "STRING", "2024-01-01", "2024", "is not a date"),
    ],
)
def test_a_value_that_cannot_be_computed_is_a_fault_of_its_row(
    definition, data_type, good, bad, said
):
    found, faults = computed(definition, data_type, good, bad, None, good)
    assert [value is None for value in found] == [False, True, True, False]
    assert [*faults] == [1]
    assert faults[1].startswith("computed column 'x': ")
    assert said in faults[1]


def test_text_functions_are_javas():
    assert computed("upper(c)", "STRING", "straße", "ŉ", "ﬁ", None)[0] == [
        "STRASSE",
        "ʼN",
        "FI",
        None,
    ]
    assert computed("lower(c)", "STRING", "ΑΣ ΟΔΟΣ", "İi")[0] == ["ας οδος", "i̇i"]
    trimmed = computed("trim(c)", "STRING", " a\t", "\u00a0a\u00a0", "\u2003a", "\x00a\x1f", "  ")[
        0
    ]
    assert trimmed == ["a", "\u00a0a\u00a0", "\u2003a", "a", ""]
    # characters beyond 16 bits count twice in Java; half of one is written as a question mark
    assert computed("substring(c, 2)", "STRING", "a😀b", "abc")[0] == ["?b", "c"]
    assert computed("substring(c, 1, 3)", "STRING", "a😀b", "äöü")[0] == ["😀", "öü"]
    assert computed("truncate(c, 3)", "STRING", "a😀")[0] == ["a😀"]


@pytest.mark.parametrize(
    ("literal", "data_type", "expected"),
    [
        ("11", "INT", 11),
        (" 11 ", " INT NOT NULL", 11),
        ("1.50", "DECIMAL(5", None),
        ("true", "BOOLEAN", True),
        ("2024-02-29", "DATE", dt.date(2024, 2, 29)),
        ("a b", "STRING", "a b"),
        ("YQ==", "BINARY(1)", b"a"),
    ],
)
def test_a_literal_is_cast(literal, data_type, expected):
    if expected is None:  # a type with two numbers has a comma, which separates arguments
        with pytest.raises(InvalidInputError, match="not 3 arguments"):
            ComputedColumns.of([f"x=cast({literal},{data_type}, 2))"], [])
        return
    made = ComputedColumns.of([f"x=cast({literal},{data_type})"], [])
    rows = batch(columns(a="INT"), (1,), (2,))
    assert made.evaluate(rows, NOON).columns["x"].to_pylist() == [expected] * 2


def test_a_literal_alone_is_a_text_as_it_stands():
    made = ComputedColumns.of(["x=cast( a )"], [])
    assert made.evaluate(batch(columns(a="INT"), (1,)), NOON).columns["x"].to_pylist() == [" a "]
    assert str(made.fields[0].type) == "STRING"


def test_now_is_the_local_time_of_the_job():
    made = ComputedColumns.of(["n=now()"], [])
    assert str(made.fields[0].type) == "TIMESTAMP(3)"
    found = made.evaluate(batch(columns(a="INT"), (1,), (2,)), NOON).columns["n"].to_pylist()
    assert found == [dt.datetime(2024, 1, 7, 1, 1, 2, 123_000)] * 2


# ComputedColumnUtilsTest
def test_columns_come_after_those_they_name():
    given = ["A=substring(B, 1)", "B=substring(ExistedColumn,1)", "C=now()", "D=substring(A, 1)",
             "E=substring(C,1)"]  # fmt: skip
    made = ComputedColumns.of(given, columns(ExistedColumn="STRING"))
    assert [c.name for c in made.columns] == ["B", "C", "E", "A", "D"]


def test_a_circle_is_refused_by_name():
    given = ["A=substring(B, 1)", "B=substring(C, 1)", "C=substring(A, 1)"]
    with pytest.raises(InvalidInputError, match=r"in a circle") as refused:
        ComputedColumns.of(given, [])
    assert all(f"'{name}'" in str(refused.value) for name in "ABC")
    with pytest.raises(InvalidInputError, match="in a circle"):
        ComputedColumns.of(["a=upper(a)"], [])


# DfsSortTestTest
def test_names_are_sorted_as_paimon_sorts_them():
    given = {"A": "B", "B": "O", "C": None, "D": "A", "E": "C", "F": ""}
    assert sorted_by_reference(given) == ["B", "C", "F", "E", "A", "D"]


# MySqlSyncTableActionITCase.testComputedColumnsCrossReference
def test_a_column_is_computed_from_a_computed_one():
    given = ["_lower_of_upper=lower(_upper)", "_upper=upper(_value)",
             "_trim_lower=trim(_lower_of_upper)", "_constant=cast(11,INT)"]  # fmt: skip
    fields = columns(_value="VARCHAR(10)")
    made = ComputedColumns.of(given, fields)
    assert [c.name for c in made.columns] == [
        "_upper",
        "_constant",
        "_lower_of_upper",
        "_trim_lower",
    ]
    assert made.sources == {
        "_upper": {"_value"},
        "_lower_of_upper": {"_value"},
        "_trim_lower": {"_value"},
        "_constant": set(),
    }
    found = made.evaluate(batch(fields, (" vaLUE ",), (None,)), NOON)
    assert {n: c.to_pylist() for n, c in found.columns.items()} == {
        "_upper": [" VALUE ", None], "_constant": [11, 11],
        "_lower_of_upper": [" value ", None], "_trim_lower": ["value", None],
    }  # fmt: skip


# MySqlSyncTableActionITCase.testComputedColumnWithCaseInsensitive
def test_names_without_case():
    fields = columns(uppercase_string="VARCHAR(10)")
    made = ComputedColumns.of(
        ["SUBSTRING=substring(UPPERCASE_STRING,2)"], fields, case_sensitive=False
    )
    found = made.evaluate(batch(fields, ("apache",), (None,)), NOON)
    assert {n: c.to_pylist() for n, c in found.columns.items()} == {"substring": ["ache", None]}


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ("x", "not of the form column=function"),
        ("=upper(c)", "not of the form"),
        ("x=upper", "'upper' has no '('"),
        ("x=upper(c", "not closed"),
        ("x=upper(c) + 1", "'+ 1' at character 12 is too much"),
        ("x=uppr(c)", "no function 'uppr'. Did you mean 'upper'"),
        ("x=md5(c)", "Known: cast, date_format"),
        ("x=upper(d)", "no column 'd'. The columns are: c, n, b, f, first."),
        ("x=upper(C)", "no column 'C'. Did you mean 'c'?"),
        ("x=year()", "names no column"),
        ("c=upper(c)", "'c' is a column of the source already"),
        ("x=upper(c, 1)", "takes 0 arguments after the column, not 1"),
        ("x=upper(n)", "takes only VARCHAR"),
        ("x=substring(c)", "takes 1 or 2 arguments"),
        ("x=substring(c, a)", "begin 'a' is no whole number"),
        ("x=substring(c, -1)", "begin -1 is below 0"),
        ("x=substring(c, 2, 2)", "end 2 is not above the begin 2"),
        ("x=substring(b, 2)", "has no text"),
        ("x=truncate(n, 0)", "no multiples of width 0"),
        ("x=truncate(c, -1)", "a text has no width -1"),
        ("x=truncate(f, 1)", "neither a whole number"),
        ("x=truncate(n, 3000000000)", "beyond 2147483647"),
        ("x=year(n, 2)", "precision 2 is none of 0 (seconds)"),
        ("x=year(f)", "has no dates: take another column"),
        ("x=date_format(n)", "takes 1 or 2 arguments"),
        ("x=date_format(n, yyyy-ww)", "of the pattern 'yyyy-ww': the letter 'w' depends"),
        ("x=now(c)", "now takes no argument"),
        ("x=cast(a, INT)", "cannot be cast"),
        ("x=cast(a, NUMBER)", "not a Paimon type"),
        ("x=cast(abc, CHAR(2))", "'abc' is no CHAR(2)"),
    ],
)
def test_a_wrong_definition_names_the_place(definition, said):
    fields = columns(c="STRING", n="BIGINT", b="BYTES", f="DOUBLE")
    with pytest.raises(InvalidInputError) as refused:
        ComputedColumns.of(["first=now()", definition], fields)
    assert f'Computed column 2 of 2, "{definition}": ' in str(refused.value)
    assert said in str(refused.value)
    assert refused.value.kind == "computed_column"


def test_an_empty_batch_has_empty_columns_of_the_types():
    fields = columns(c="STRING", d="DATE", n="DECIMAL(9, 2)")
    given = ["a=upper(c)", "b=date_format(d, yyyy)", "e=truncate(n, 3)", "f=cast(1, INT)",
             "g=now()", "h=substring(c, 2)", "i=year(c)", "j=year(c, 3)"]  # fmt: skip
    made = ComputedColumns.of(given, fields)
    schema = to_arrow_schema(fields)
    empty = pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
    found = made.evaluate(empty, NOON)
    assert {len(column) for column in found.columns.values()} == {0}


def test_a_slice_is_computed_from_its_own_rows():
    fields = columns(c="STRING", d="DATE", n="DECIMAL(9, 2)", t="TIMESTAMP(3)")
    when = dt.datetime(2024, 5, 6, 7, 8, 9)
    rows = batch(
        fields,
        ("zzz", dt.date(1, 1, 1), Decimal("9.99"), when),
        (None, None, None, None),
        ("abc", dt.date(2020, 2, 3), Decimal("1.23"), when),
    )
    given = ["a=upper(c)", "b=date_format(d, yyyy)", "e=truncate(n, 10)", "h=substring(c, 1)",
             "s=second(t)"]  # fmt: skip
    found = ComputedColumns.of(given, fields).evaluate(rows.slice(1), NOON)
    assert [[column[i].as_py() for column in found.columns.values()] for i in (0, 1)] == [
        [None] * 5, ["ABC", "2020", Decimal("1.20"), "bc", 9],
    ]  # fmt: skip


def test_all_of_paimons_functions_are_there():
    assert sorted(FUNCTIONS) == [
        "cast", "date_format", "day", "hour", "lower", "minute", "month", "now", "second",
        "substring", "trim", "truncate", "upper", "year",
    ]  # fmt: skip
