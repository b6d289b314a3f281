"""Views that a catalog in a database keeps, as Paimon 2.1 does."""

from __future__ import annotations

import json

import pytest

from tidelake.errors import (
    AlreadyExistsError,
    ConflictError,
    CorruptError,
    InvalidInputError,
    NotFoundError,
)
from tidelake.sql import SqlSession, execute, parse
from tidelake.types import DataField, parse_type

FIELDS = (DataField(0, "k", parse_type("INT")), DataField(1, "s", parse_type("STRING")))
QUERY = "SELECT k, s FROM t WHERE k > 1 AND s <> 'ä'"


@pytest.fixture
def catalog(place):
    catalog = place.open()
    catalog.create_database("db")
    return catalog


def test_a_view_is_a_row_as_paimon_makes_it(place, catalog):
    assert catalog.views("db") == []
    assert catalog.find_view("db.v") is None
    assert not catalog.metastore.database.tables("paimon_views") or place.kind == "postgresql"
    made = catalog.create_view("db.v", QUERY, FIELDS, comment="some", options={"a": "b"})
    ((database, name, text),) = place.rows("paimon_views")
    assert (database, name) == ("db", "v")
    assert json.loads(text) == {
        "fields": [
            {"id": 0, "name": "k", "type": "INT"},
            {"id": 1, "name": "s", "type": "STRING"},
        ],
        "query": QUERY,
        "dialects": {"spark": QUERY},
        "options": {"a": "b"},
        "comment": "some",
    }
    again = place.open()
    assert (again.view("db.v"), again.views("db")) == (made, ["v"])
    again.drop_view("db.v")
    assert catalog.views("db") == []
    with pytest.raises(NotFoundError, match=r"no view 'db\.v'"):
        catalog.drop_view("db.v")


def test_a_name_is_a_view_or_a_table_or_a_database_s_content(place, catalog):
    catalog.create_view("db.v", QUERY, FIELDS)
    with pytest.raises(AlreadyExistsError, match="OR REPLACE"):
        catalog.create_view("db.v", "SELECT 1", ())
    assert catalog.create_view("db.v", "SELECT 1", (), if_exists="ignore").query == QUERY
    catalog.create_view("db.v", "SELECT 1", (), if_exists="replace")
    assert catalog.view("db.v").query == "SELECT 1"
    with pytest.raises(AlreadyExistsError, match="is a view"):
        catalog.create_table("db.v", {"k": "INT"})
    catalog.create_table("db.t", {"k": "INT"})
    with pytest.raises(AlreadyExistsError, match="is a table"):
        catalog.create_view("db.t", QUERY, FIELDS)
    with pytest.raises(AlreadyExistsError, match=r"'db\.v' exists"):
        catalog.rename_table("db.t", "db.v")
    catalog.drop_table("db.t")
    with pytest.raises(InvalidInputError, match="v"):
        catalog.drop_database("db")
    catalog.drop_database("db", cascade=True)
    assert place.rows("paimon_views") == []


def test_dialects_are_changed_where_the_view_is_as_it_was(place, catalog, monkeypatch):
    catalog.create_view("db.v", QUERY, FIELDS)
    catalog.alter_view_dialect("db.v", "add", dialect="flink", query="SELECT 2")
    catalog.alter_view_dialect("db.v", "update", query="SELECT 3")
    assert dict(catalog.view("db.v").dialects) == {"flink": "SELECT 2", "spark": "SELECT 3"}
    catalog.alter_view_dialect("db.v", "drop", dialect="flink")
    ((_, _, text),) = place.rows("paimon_views")
    assert json.loads(text)["dialects"] == {"spark": "SELECT 3"}
    store = catalog.metastore.view_store
    monkeypatch.setattr(type(store), "_text", lambda *_: text.replace("SELECT 3", "SELECT 4"))
    with pytest.raises(ConflictError, match="was changed or dropped meanwhile"):
        catalog.alter_view_dialect("db.v", "drop")
    monkeypatch.setattr(type(store), "_text", lambda *_: "[]")
    with pytest.raises(CorruptError, match="holds no view"):
        catalog.view("db.v")


def test_a_change_to_the_same_text_writes_nothing(place, catalog, monkeypatch):
    catalog.create_view("db.v", QUERY, FIELDS)
    before = place.rows("paimon_views")
    database = catalog.metastore.database
    written = []
    monkeypatch.setattr(type(database), "change", lambda _, text, *given: written.append(text) or 0)
    catalog.alter_view_dialect("db.v", "update", query=QUERY)
    assert not any("paimon_views" in text for text in written)
    monkeypatch.undo()
    assert place.rows("paimon_views") == before


def test_sql_drops_and_shows_them(catalog):
    catalog.create_view("db.v", QUERY, FIELDS)
    session = SqlSession(catalog)

    def answer(text):
        (statement,) = parse(text)
        return execute(statement, session)

    assert "v" in str(answer("SHOW VIEWS IN db"))
    answer("DROP VIEW db.v")
    assert catalog.views("db") == []
