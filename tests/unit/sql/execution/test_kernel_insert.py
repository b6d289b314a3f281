"""INSERT of literals without Spark: what is written, what is refused, what is left to Spark."""

import dataclasses
from datetime import UTC, date, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

import tidelake
from tidelake.errors import InvalidInputError, NotFoundError, TidelakeError
from tidelake.metadata import SchemaLog
from tidelake.sql import SqlSession, execute, parse
from tidelake.sql.execution.kernel_insert import kernel_insert
from tidelake.sql.syntax.insert_columns import target_columns, with_defaults
from tidelake.sql.syntax.values_rows import parse_values
from tidelake.types import DataField, parse_type

ZONE = ZoneInfo("America/New_York")


@pytest.fixture
def session(tmp_path):
    """A table of plain types, one with NOT NULL and lengths, one of other types."""
    session = SqlSession(tidelake.open(tmp_path))
    for statement in parse(
        "CREATE TABLE t (id INT, s STRING, b BOOLEAN, n BIGINT, x DOUBLE, f FLOAT,"
        " d DECIMAL(6, 2), day DATE, at TIMESTAMP(3), moment TIMESTAMP_LTZ(6),"
        " PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1');"
        "CREATE TABLE strict (id INT NOT NULL, n TINYINT, short VARCHAR(3), m INT);"
        "CREATE TABLE nested (id INT, l ARRAY<INT>, raw BYTES);"
        "CREATE TABLE wide (id INT) WITH ('write.merge-schema' = 'true');"
        "CREATE TEMPORARY VIEW v AS SELECT id FROM t"
    ):
        execute(statement, session)
    return session


def insert(session, text, conf=None):
    (statement,) = parse(text)
    return kernel_insert(statement, session, conf=conf or {}, zone=ZONE)


def rows(session, name):
    return session.catalog.table(f"default.{name}").to_arrow().to_pylist()


def test_literals_of_all_plain_types_are_written(session):
    assert insert(
        session,
        "INSERT INTO t VALUES (1, 'it''s', TRUE, -9000000000, 1.5, 0.25, 12.5, DATE '2026-02-28',"
        " TIMESTAMP '2026-07-01 10:00:00.123', TIMESTAMP '2026-07-01 10:00:00.123456'),"
        " (2, \"two\", false, 2, 1e3, 3, -7, DATE '0001-01-01', TIMESTAMP_NTZ '2026-07-01',"
        " TIMESTAMP_LTZ '2026-01-01T00:00:00'), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL,"
        " NULL, NULL)",
    )
    first, second, third = sorted(rows(session, "t"), key=lambda row: row["id"])
    assert list(first.values()) == [
        1, "it's", True, -9000000000, 1.5, 0.25, Decimal("12.50"), date(2026, 2, 28),
        datetime(2026, 7, 1, 10, 0, 0, 123000),
        datetime(2026, 7, 1, 14, 0, 0, 123456, tzinfo=UTC),
    ]  # fmt: skip
    assert list(second.values()) == [
        2, "two", False, 2, 1000.0, 3.0, Decimal("-7.00"), date(1, 1, 1), datetime(2026, 7, 1),
        datetime(2026, 1, 1, 5, tzinfo=UTC),
    ]  # fmt: skip
    assert third == dict.fromkeys(first) | {"id": 3}
    assert len(session.catalog.table("default.t").history()) == 1


def test_casts_of_literals(session):
    assert insert(
        session,
        "INSERT INTO t (id, s, n, x, d, day, at) VALUES (CAST('7' AS INT), CAST(12 AS STRING),"
        " CAST(NULL AS BIGINT), CAST(2 AS DOUBLE), CAST('1.25' AS DECIMAL(4, 2)),"
        " CAST('2026-11-22' AS DATE), CAST('2026-11-22 01:02:03' AS TIMESTAMP))",
    )
    (row,) = rows(session, "t")
    assert (row["id"], row["s"], row["n"], row["x"]) == (7, "12", None, 2.0)
    assert (row["d"], row["day"]) == (Decimal("1.25"), date(2026, 11, 22))
    assert (row["at"], row["b"]) == (datetime(2026, 11, 22, 1, 2, 3), None)


def test_a_list_of_columns_and_rows_without_parentheses(session):
    assert insert(session, "INSERT INTO t (S, id) VALUES ('a', 1), ('b', 2)")
    assert insert(session, "INSERT INTO t (id) VALUES 3, 4")
    assert insert(session, "INSERT INTO t (id, s) VALUES (1, 'first'), (1, 'last')")
    found = {row["id"]: row["s"] for row in rows(session, "t")}
    assert found == {1: "last", 2: "b", 3: None, 4: None}


def test_options_of_the_session_and_of_the_statement(session):
    conf = {"spark.tidelake.write-only": "true"}
    for number in range(8):
        assert insert(session, f"INSERT INTO t (id) VALUES ({number})", conf)
    kinds = session.catalog.table("default.t").history()["commit_kind"].to_pylist()
    assert kinds == ["APPEND"] * 8
    assert insert(session, "INSERT INTO t /*+ OPTIONS('write-only' = 'true') */ (id) VALUES (9)")


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("strict VALUES (1, 2)", "column_count", "but table 'strict' takes 4: id, n"),
        ("strict (id, x) VALUES (1, 2)", "column_not_found", "has no column 'x'"),
        ("strict (id, ID) VALUES (1, 2)", "column_twice", "gets two values"),
        ("strict VALUES (1, 'a', 'b', 2)", "column_type",
         "Column 'n' of table 'strict' is TINYINT, but the value is string: write CAST"
         "(... AS TINYINT)."),
        ("strict (id) VALUES (TRUE)", "column_type", "the value is boolean"),
        ("strict (id) VALUES (DATE '2026-01-01')", "column_type", "the value is date"),
        ("t (id, day) VALUES (1, '2026-01-01')", "column_type", "write CAST(... AS DATE)"),
        ("t (id, at) VALUES (1, 5)", "column_type", "write CAST(... AS TIMESTAMP_NTZ)"),
        ("t (id, d) VALUES (1, 'x')", "column_type", "write CAST(... AS DECIMAL(6,2))"),
        ("strict (id, n) VALUES (1, 300)", "value_range", "300 does not fit column 'n'"),
        ("strict (n) VALUES (1)", "null_value", "'id' of table 'default.strict' is NOT NULL"),
        ("strict (id) VALUES (1), (NULL)", "null_value", "1 of 2 rows are null"),
        ("t (s) VALUES ('no key')", "null_value", "'id'"),
        ("strict (id, short) VALUES (1, 'long')", None, "short"),
        ("t$files VALUES (1)", "system_table", "name the table itself"),
        ("v VALUES (1)", "view", "is a view"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_and_nothing_is_written(session, text, kind, words):
    with pytest.raises(InvalidInputError) as raised:
        insert(session, f"INSERT INTO {text}")
    assert words in str(raised.value)
    assert kind in {raised.value.kind, None}
    assert rows(session, "strict") == rows(session, "t") == []


def test_an_unknown_table_is_not_found(session):
    with pytest.raises(NotFoundError, match="strickt"):
        insert(session, "INSERT INTO strickt VALUES (1)")


@pytest.mark.parametrize(
    "text",
    [
        "INSERT OVERWRITE t (id) VALUES (1)",
        "INSERT INTO t (id) SELECT 1",
        "INSERT INTO t (id) VALUES (1 + 1)",
        "INSERT INTO t (id) VALUES (abs(1))",
        "INSERT INTO t (id, s) VALUES (1, 'a\\tb')",
        "INSERT INTO t (id, s) VALUES (1, 'a' 'b')",
        "INSERT INTO t (id, s) VALUES (1, r'a')",
        "INSERT INTO t (id, s) VALUES (1, 2)",
        "INSERT INTO t (id, s) VALUES (1, 'a'), (2, 2)",
        "INSERT INTO t (id) VALUES (1L)",
        "INSERT INTO t (id) VALUES (1.5e0)",
        "INSERT INTO t (id, d) VALUES (1, 1.255)",
        "INSERT INTO t (id, d) VALUES (1, 1e1)",
        "INSERT INTO t (id, s) VALUES (1, '${spark.app.name}')",
        "INSERT INTO t (id, x) VALUES (1, 0.12345678901234567)",
        "INSERT INTO t (id, f) VALUES (1, 0.12345678)",
        "INSERT INTO t (id, day) VALUES (1, DATE '2026-13-01')",
        "INSERT INTO t (id, at) VALUES (1, TIMESTAMP '2026-01-01 10:00:00Z')",
        "INSERT INTO t (id, at) VALUES (1, TIMESTAMP '2026-03-08 02:30:00')",  # no such time there
        "INSERT INTO t (id, moment) VALUES (1, TIMESTAMP_NTZ '2026-03-08 02:30:00')",
        "INSERT INTO t (id, moment) VALUES (1, TIMESTAMP '1850-01-01 00:00:00')",
        "INSERT INTO t (id) VALUES (CAST('x' AS INT))",
        "INSERT INTO t (id) VALUES (CAST(1.5 AS INT))",
        "INSERT INTO t (id) VALUES (TRY_CAST('1' AS INT))",
        "INSERT INTO t (id) VALUES (1) LIMIT 1",
        "INSERT INTO t (id) SELECT * FROM VALUES (1)",
        "INSERT INTO t (id, n) VALUES (1, 2), (3)",
        "INSERT INTO t (id) VALUES (9999999999999999999999)",
        "INSERT INTO t (id) VALUES (DEFAULT + 1)",
        "INSERT INTO t (id) VALUES (`DEFAULT`)",
        "INSERT INTO nested VALUES (1, array(1), NULL)",
        "INSERT INTO nested VALUES (1, NULL, X'00')",
        "INSERT INTO nested VALUES (1, NULL, 'a')",
        "INSERT INTO wide VALUES (1)",
    ],
)
def test_what_is_not_plain_is_left_to_spark_and_nothing_is_written(session, text):
    assert insert(session, text) is False
    assert rows(session, "t") == rows(session, "nested") == rows(session, "wide") == []


def test_settings_of_sparks_sql_leave_it_to_spark(session):
    text = "INSERT INTO t (id) VALUES (1)"
    assert not insert(session, text, {"spark.sql.timestampType": "TIMESTAMP_NTZ"})
    assert insert(session, text, {"spark.sql.session.timeZone": "America/New_York"})


def test_nulls_go_into_any_column(session):
    assert insert(session, "INSERT INTO nested VALUES (1, NULL, NULL)")
    assert rows(session, "nested") == [{"id": 1, "l": None, "raw": None}]


def test_thousands_of_rows_are_read_in_time(session):
    text = ", ".join(f"({n}, 'item {n}')" for n in range(5000))
    assert insert(session, f"INSERT INTO t (id, s) VALUES {text}")
    assert session.catalog.table("default.t").count() == 5000


def test_a_text_that_is_no_rows_is_none():
    assert parse_values("VALUES") is None
    assert parse_values("VALUES (1") is None
    assert parse_values("VALUES (1,)") is None


def test_a_refusal_is_an_error_of_ours(session):
    with pytest.raises(TidelakeError):
        insert(session, "INSERT INTO t VALUES (1)")


def test_a_table_of_another_engine_with_names_alike_is_read_written_and_mended(session):
    table = session.catalog.table("default.strict")
    fields = tuple(
        dataclasses.replace(f, name=name)
        for f, name in zip(table.table_schema.fields, ("a", "A", "b", "c"), strict=True)
    )
    schema = dataclasses.replace(table.table_schema, id=1, fields=fields)
    assert SchemaLog(table.fileio, table.paths).create(schema)
    assert insert(session, "INSERT INTO strict VALUES (1, 2, 'x', 3)")
    assert insert(session, "INSERT INTO strict (A, a) VALUES (5, 4)")
    assert sorted(rows(session, "strict"), key=lambda row: row["a"]) == [
        {"a": 1, "A": 2, "b": "x", "c": 3},
        {"a": 4, "A": 5, "b": None, "c": None},
    ]
    execute(parse("ALTER TABLE strict ADD COLUMN d INT")[0], session)  # other changes may be
    with pytest.raises(TidelakeError, match="only in case"):
        execute(parse("ALTER TABLE strict RENAME COLUMN b TO D")[0], session)
    execute(parse("ALTER TABLE strict RENAME COLUMN A TO other")[0], session)
    first = min(rows(session, "strict"), key=lambda row: row["a"])
    assert first == {"a": 1, "other": 2, "b": "x", "c": 3, "d": None}


def test_a_name_that_is_like_two_columns_is_refused():
    fields = [DataField(n, name, parse_type("INT")) for n, name in enumerate(["id", "iD", "v"])]
    assert [f.name for f in target_columns(["iD", "V", "id"], fields, [], table="t")] == [
        "iD",
        "v",
        "id",
    ]
    assert [f.name for f in target_columns([], fields, ["id"], table="t")] == ["iD", "v"]
    with pytest.raises(InvalidInputError, match="'ID' is ambiguous: columns id, iD") as raised:
        target_columns(["ID"], fields, [], table="t")
    assert raised.value.kind == "column_ambiguous"


def test_a_fraction_is_cut_off_and_what_is_beyond_the_range_is_refused_in_the_words_of_spark(
    session,
):
    assert insert(session, "INSERT INTO t (id, n) VALUES (1.9, -2.9), (2, 3)")
    assert sorted((row["id"], row["n"]) for row in rows(session, "t")) == [(1, -2), (2, 3)]
    with pytest.raises(InvalidInputError) as raised:
        insert(session, "INSERT INTO t (id) VALUES (3000000000.5)")
    assert raised.value.message.startswith(
        "The value 3000000000.5 does not fit column 'id' of table 't', which is INT NOT NULL"
    )
    assert raised.value.kind == "value_range"
    assert raised.value.context == {"table": "t", "column": "id"}


def test_default_stands_for_a_columns_own_default(session):
    text = (
        "CREATE TABLE d (id INT, n INT NOT NULL DEFAULT 7, s STRING DEFAULT 'its', day DATE"
        " DEFAULT DATE '2026-01-02', x DOUBLE)"
    )
    execute(parse(text)[0], session)
    assert insert(session, "INSERT INTO d VALUES (1, DEFAULT, default, DEFAULT, DEFAULT)")
    assert insert(session, "INSERT INTO d (s, n, id) VALUES ('DEFAULT', 8, DEFAULT), (NULL, 9, 3)")
    found = sorted(rows(session, "d"), key=lambda row: row["n"])
    assert [list(row.values()) for row in found] == [
        [1, 7, "its", date(2026, 1, 2), None],
        [None, 8, "DEFAULT", date(2026, 1, 2), None],
        [3, 9, "its", date(2026, 1, 2), None],
    ]
    with pytest.raises(InvalidInputError, match="gives 2 columns"):
        insert(session, "INSERT INTO d (id) VALUES (1, DEFAULT)")


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("VALUES (DEFAULT, DEFAULT)", "VALUES (NULL, 'x')"),
        ("VALUES (abs(DEFAULT), (1, DEFAULT))", "VALUES (abs(DEFAULT), (1, DEFAULT))"),
        ("VALUES (greatest(1, 2), DEFAULT), (?, :b)", "VALUES (greatest(1, 2), 'x'), (?, :b)"),
        ("SELECT 1, DEFAULT", "SELECT 1, 'x'"),
        ("SELECT 1, DEFAULT FROM u", "SELECT 1, DEFAULT FROM u"),
        ("VALUES (1, u.DEFAULT)", "VALUES (1, u.DEFAULT)"),
    ],
)
def test_default_is_a_whole_value_and_nothing_else(query, wanted):
    fields = [
        DataField(0, "a", parse_type("INT")),
        DataField(1, "b", parse_type("STRING"), None, "'x'"),
    ]
    (statement,) = parse(f"INSERT INTO t {query}")
    assert with_defaults(statement, fields, table="t", zone=None).query.sql == wanted
