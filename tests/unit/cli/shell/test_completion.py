"""What Tab offers."""

import pytest

import tidelake
from tidelake.cli.shell.completion import completions
from tidelake.sql import SqlSession, execute, parse


@pytest.fixture
def session(tmp_path):
    session = SqlSession(tidelake.open(tmp_path / "lake"), name="lake")
    for statement in parse(
        "CREATE TABLE orders (id INT, item STRING, `odd name` INT);"
        "CREATE TABLE shop.items (item STRING, kind STRING);"
        f"CREATE CATALOG old WITH ('type' = 'paimon', 'warehouse' = '{tmp_path}/old');"
        "CREATE TABLE old.y2025.sales (amount INT)"
    ):
        execute(statement, session)
    return session


def words(session, text, whole=None):
    return [word for word, _, _ in completions(text, whole or text, session)]


def test_keywords_in_the_case_that_is_typed(session):
    assert words(session, "SEL") == ["SELECT"]
    assert words(session, "SELECT 1 fro") == ["from"]


def test_columns_of_the_statement_s_tables_come_first(session):
    found = words(session, "SELECT i", "SELECT i FROM orders")
    assert found[:2] == ["id", "item"]
    assert "in" in found
    assert words(session, "SELECT o", "SELECT o FROM orders")[:2] == ["`odd name`", "orders"]


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("SELECT * FROM ord", ["orders"]),
        ("SELECT * FROM shop.", ["items"]),
        ("SELECT * FROM old.", ["y2025"]),
        ("SELECT * FROM old.y2025.s", ["sales"]),
        ("SELECT * FROM lake.shop.i", ["items"]),
        ("SELECT * FROM orders$sna", ["orders$snapshots"]),
        ("SELECT * FROM shop.items$tag", ["items$tags"]),
        ("SELECT * FROM orders o WHERE o.it", ["item"]),
        ("SELECT * FROM orders WHERE orders.`od", ["`odd name`"]),
        ("SELECT * FROM shop.items AS x JOIN orders ON x.k", ["kind"]),
        ("CALL sys.compact_m", ["compact_manifest"]),
        ("SELECT * FROM nowhere.x", []),
        ("SELECT nothing.x", []),
    ],
)
def test_names(session, text, offered):
    found = words(session, text)
    assert [w for w in found if w in offered] == offered
    assert offered or not found


def test_behind_from_names_come_and_no_keywords_like_them(session):
    assert words(session, "SELECT * FROM ord") == ["orders"]
    assert words(session, "SELECT * FROM orders ord") == ["orders", "order"]
    assert words(session, "DROP TABLE if") == ["if"]


def test_what_is_replaced_is_the_last_part(session):
    assert ("items", 2, "table") in completions("SELECT * FROM shop.it", "", session)


def test_a_table_that_cannot_be_read_offers_nothing(session):
    assert "id" not in words(session, "SELECT i", "SELECT i FROM nowhere.nothing")
    assert words(session, "SELECT 'uns", "SELECT 'uns FROM a.b.c.d.e") == []
