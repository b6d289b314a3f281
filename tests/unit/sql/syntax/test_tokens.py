import traceback

import pytest

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.sql import parse
from tidelake.sql.syntax.hint import check_hints
from tidelake.sql.syntax.tokens import (
    TokenKind,
    error_at,
    plain_text,
    show_position,
    split_statements,
    tokenize,
    without_secrets,
)


def texts(text):
    return [word.text for word in tokenize(text)]


@pytest.mark.parametrize(
    "hint",
    [
        "/*+ OPTIONS('a'='b') */",
        "/*+OPTIONS('a'='b')*/",
        "/*+  options ( 'a' = 'b' )  */",
        "/*+\n OPTIONS('a'='b')\n*/",
        "/*+ OPTIONS('a'='b)*/') */",
    ],
)
def test_a_hint_becomes_a_clause_and_nothing_moves(hint):
    text = f"SELECT * FROM t {hint} x\nWHERE y"
    plain = plain_text(text)
    assert len(plain) == len(text)
    assert plain.index("WHERE") == text.index("WHERE")
    assert [i for i, c in enumerate(plain) if c == "\n"] == [
        i for i, c in enumerate(text) if c == "\n"
    ]
    assert texts(text)[4:6] == ["WITH", "("]
    assert tokenize(text)[-2].text == "WHERE"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT '/*+ OPTIONS(1) */' FROM t",
        'SELECT "/*+ OPTIONS(1) */" FROM t',
        "SELECT `/*+ OPTIONS(1) */` FROM t",
        "SELECT 1 -- /*+ OPTIONS(1) */\nFROM t",
        "SELECT /*+ BROADCAST(t) */ 1 FROM t",
    ],
)
def test_what_only_looks_like_a_hint_stays(text):
    assert plain_text(text) == text


def test_a_system_tables_name_is_one_word():
    assert texts("SELECT * FROM db.t$files") == ["SELECT", "*", "FROM", "db", ".", "t$files"]
    assert texts("t $ files") == ["t", "$", "files"]


def test_a_doubled_quote_stands_for_itself():
    words = tokenize("'it''s' 'a' 'b' \"x\"\"y\"")
    assert [w.text for w in words] == ["it's", "a", "b", 'x"y']
    assert all(w.kind is TokenKind.STRING for w in words)


def test_words_that_sqlglot_takes_for_one_are_apart():
    assert texts("PRIMARY  KEY (a) NOT ENFORCED") == [
        "PRIMARY",
        "KEY",
        "(",
        "a",
        ")",
        "NOT",
        "ENFORCED",
    ]
    assert texts("CALL sys.compact('t')") == ["CALL", "sys", ".", "compact", "(", "t", ")"]


def test_each_word_knows_its_place():
    text = "CREATE TABLE `a b` (\n  x INT\n)"
    for word in tokenize(text):
        written = text[word.start : word.end]
        assert written.strip("`") == word.text


def test_statements_are_cut_at_semicolons_outside_strings():
    statements = split_statements(tokenize("USE a; SELECT ';'; ; -- nothing;\n USE b;"))
    assert [[w.text for w in s] for s in statements] == [
        ["USE", "a"],
        ["SELECT", ";"],
        ["USE", "b"],
    ]


@pytest.mark.parametrize(
    ("text", "what", "column"),
    [
        ("SELECT 'abc", "This string has no end", 8),
        ("SELECT 'a', 'it''s", "This string has no end", 13),
        ("SELECT `abc", "This name has no end", 8),
        ("SELECT /* abc", "This comment has no end", 8),
    ],
)
def test_what_has_no_end_is_shown(text, what, column):
    with pytest.raises(InvalidInputError, match=f"{what}.*line 1, column {column}:") as raised:
        tokenize(text)
    assert raised.value.kind == "sql_syntax"


def test_the_caret_stands_under_the_word_in_a_long_line():
    text = "x" * 300 + " HERE " + "y" * 300
    shown = show_position(text, text.index("HERE")).split("\n")
    assert shown[0] == "line 1, column 302:"
    assert shown[1][shown[2].index("^") :].startswith("HERE")
    assert len(shown[1]) <= 122


def test_a_fault_has_kind_and_context():
    error = error_at("SELECT x", 7, "No.", kind="some_kind", column="x")
    assert (error.kind, error.context) == ("some_kind", {"column": "x"})
    assert str(error) == "No. At line 1, column 8:\n  SELECT x\n         ^"


@pytest.mark.parametrize(
    ("hint", "error", "message"),
    [
        ("OPTION('a' = 'b')", InvalidInputError, r"no hint 'OPTION'\. Did you mean 'OPTIONS'"),
        ("BROADCASTT(t)", InvalidInputError, r"no hint 'BROADCASTT'\. Did you mean 'BROADCAST'"),
        ("COALESCE(1), OPTION('a'='b')", InvalidInputError, r"no hint 'OPTION'"),
        ("OPTIONS('a' = 'b'), COALESCE(1)", InvalidInputError, r"after a table, alone"),
        ("STATE_TTL('x' = '1d')", UnsupportedError, r"hint of Flink"),
    ],
)
def test_a_hint_that_nobody_knows_is_refused_where_it_stands(hint, error, message):
    text = f"SELECT * FROM t /*+ {hint} */ WHERE '/*+ OPTION() */' = a -- /*+ OPTION() */"
    with pytest.raises(error, match=message) as raised:
        check_hints(text)
    assert "line 1, column 2" in str(raised.value) or "line 1, column 3" in str(raised.value)


@pytest.mark.parametrize(
    "hint",
    [
        "BROADCAST(a, b)",
        "repartition(3, k), Coalesce(2)",
        "REBALANCE MERGE(t)",
        "REPARTITION_BY_RANGE(2, f(date(x), '(OPTION'))",
    ],
)
def test_hints_of_spark_pass(hint):
    check_hints(f"SELECT /*+ {hint} */ * FROM t /*+ OPTIONS('a' = 'OPTION(') */")


@pytest.mark.parametrize(
    "text",
    [
        "CREATE CATALOG c WITH ('jdbc.password' = 'canary' 'x' = 'y')",
        "CREATE CATALOG c WITH (\n  'jdbc.user' = 'me',\n  'jdbc.password'='canary' wrong)",
        "CREATE CATALOG c WITH ('s3.secret-key' = 'canary'",
        "CREATE CATALOG c WITH ('s3.access.key' = \"canary\", 'token' = 'canary",
        "CREATE TABLE t (a INT) WITH ('properties.sasl.jaas.config' = 'a=\\'canary\\';' x)",
        "CREATE CATALOG c WITH ('header.X-Caller' = 'canary', 'token.provider' = 'bear' wrong)",
        "CREATE CATALOG c WITH ('HEADER.Authorization'='canary",
    ],
)
def test_an_error_shows_no_secret(text):
    with pytest.raises(InvalidInputError) as caught:
        parse(text)
    assert "canary" not in "".join(traceback.format_exception(caught.value))
    assert len(without_secrets(text)) == len(text)


def test_the_value_of_a_secret_shows_in_no_statement():
    (statement,) = parse("CREATE CATALOG c WITH ('type' = 'paimon', 'jdbc.password' = 'canary')")
    assert statement.options["jdbc.password"] == "canary"
    assert "canary" not in repr(statement)
    assert without_secrets("SELECT 'password' = name, 'x' FROM t") == (
        "SELECT 'password' = name, 'x' FROM t"
    )
    shown = "CREATE TABLE t (a INT) WITH ('csv.header' = 'true', 'no-header.x' = '1')"
    assert without_secrets(shown) == shown
