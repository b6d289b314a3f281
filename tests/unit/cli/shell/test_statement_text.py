"""Where statements end."""

import pytest

from tidelake.cli.shell.statement_text import holds_statement, is_command, is_complete, split_texts
from tidelake.sql import parse


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1;",
        "SELECT ';' ;",
        "SELECT 1; -- one",
        "SELECT 1; /* ; */",
        "SELECT `a;b` FROM t;\n\n",
        "SHOW TABLES; SHOW VIEWS;",
        "SELECT 'it''s';",
        ";",
    ],
)
def test_complete(text):
    assert is_complete(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SELECT 1",
        "SELECT ';",
        "SELECT `a;",
        "SELECT 1 -- one;",
        "SELECT 1 /* ;",
        "SELECT 1 /* ; */",
        "SHOW TABLES; SHOW",
        "SELECT ';'",
    ],
)
def test_not_complete(text):
    assert not is_complete(text)


def test_sources_are_one_per_statement():
    text = """-- first
SHOW TABLES;;
  /* second; */ SELECT ';', "x;" FROM t /*+ OPTIONS('a'='b;') */ ;
-- nothing more
"""
    sources = split_texts(text)
    assert sources == [
        "-- first\nSHOW TABLES",
        "/* second; */ SELECT ';', \"x;\" FROM t /*+ OPTIONS('a'='b;') */",
    ]
    assert len(parse(text)) == len(sources)


@pytest.mark.parametrize("text", ["", " ; ;", "-- a;", "/* a */;"])
def test_nothing_to_run(text):
    assert not holds_statement(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\\q", True),
        (" QUIT ; ", True),
        ("help", True),
        ("help me;", False),
        ("SELECT '\\q';", False),
    ],
)
def test_commands_of_the_program(text, expected):
    assert is_command(text) is expected


def test_a_byte_order_mark_begins_no_statement():
    assert split_texts("\ufeffSHOW TABLES; SELECT 1") == ["SHOW TABLES", "SELECT 1"]
    assert is_complete("\ufeffSHOW TABLES;")
    assert not holds_statement("\ufeff-- nothing")
    assert is_command("\ufeff\\format json")
