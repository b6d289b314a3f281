"""IDENTIFIER(...): names as text or parameters, before the statement is parsed."""

import pytest

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.sql import parse
from tidelake.sql.parser.identifier_clause import with_plain_names


@pytest.mark.parametrize(
    ("text", "args", "plain"),
    [
        ("DROP TABLE IDENTIFIER('a.b')", None, "DROP TABLE `a`.`b`"),
        ("SELECT identifier ( 'a' || :p ) FROM t", {"p": "b", "q": 1}, "SELECT `ab` FROM t"),
        ("SELECT * FROM IDENTIFIER('`a b`.`c``d`')", None, "SELECT * FROM `a b`.`c``d`"),
        ("SELECT * FROM IDENTIFIER('t$files')", None, "SELECT * FROM `t$files`"),
        ("CREATE TABLE identifier (id INT)", None, None),
        ("INSERT INTO identifier (id) VALUES (1)", None, None),
        ("SELECT 'IDENTIFIER(''x'')', identifier FROM t -- IDENTIFIER('x')", None, None),
        ("SELECT `IDENTIFIER`('x') FROM t", None, None),
    ],
)
def test_a_name_replaces_the_clause(text, args, plain):
    assert with_plain_names(text, args)[0] == (text if plain is None else plain)


def test_other_question_marks_keep_their_values():
    text = "SELECT ? FROM IDENTIFIER(? || '.' || ?) WHERE a = ? AND IDENTIFIER(?) = ?"
    found = with_plain_names(text, [1, "db", "t", 2, "b", 3])
    assert found == ("SELECT ? FROM `db`.`t` WHERE a = ? AND `b` = ?", [1, 2, 3])


@pytest.mark.parametrize(
    ("text", "args", "error", "message"),
    [
        ("SELECT IDENTIFIER(upper('a'))", None, UnsupportedError, "takes a string, a parameter"),
        ("SELECT IDENTIFIER('a' ||)", None, UnsupportedError, "takes a string, a parameter"),
        ("SELECT IDENTIFIER()", None, UnsupportedError, "takes a string, a parameter"),
        ("SELECT IDENTIFIER('a'", None, InvalidInputError, "has no end"),
        ("SELECT IDENTIFIER('')", None, InvalidInputError, "'' is not a name"),
        ("SELECT IDENTIFIER('a; DROP TABLE b')", None, InvalidInputError, "is not a name"),
        ("SELECT IDENTIFIER(:nme)", {"name": "a"}, InvalidInputError, "Did you mean 'name'"),
        ("SELECT IDENTIFIER(?)", [], InvalidInputError, "has no value"),
        ("SELECT IDENTIFIER(:n)", {"n": 3}, InvalidInputError, "takes text, not 3"),
    ],
)
def test_what_is_no_name_is_refused(text, args, error, message):
    with pytest.raises(error, match=message):
        with_plain_names(text, args)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        (
            "WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a",
            "WITH a AS (SELECT 1)\nSELECT * FROM a",
        ),
        (
            "WITH a AS (SELECT 1), b (x) AS (SELECT 2) INSERT OVERWRITE t (c) WITH d AS (SELECT 3)"
            " TABLE d",
            "WITH a AS (SELECT 1), b (x) AS (SELECT 2),\nd AS (SELECT 3)\n TABLE d",
        ),
        (
            "WITH RECURSIVE a AS (SELECT 1) INSERT INTO t VALUES (1)",
            "WITH RECURSIVE a AS (SELECT 1)\nVALUES (1)",
        ),
        (
            "WITH a AS (SELECT 1) INSERT INTO t WITH RECURSIVE r AS (SELECT 1) TABLE r",
            "WITH RECURSIVE a AS (SELECT 1),\nr AS (SELECT 1) TABLE r",
        ),
    ],
)
def test_with_before_insert_is_a_part_of_its_query(text, query):
    (statement,) = parse(text)
    assert statement.query.sql.split() == query.split()
