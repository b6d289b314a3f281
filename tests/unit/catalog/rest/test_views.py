"""Views that a REST catalog keeps; other catalogs keep none."""

from __future__ import annotations

import pytest
from servers.rest_catalog import RestCatalogServer

import tidelake
from tidelake.errors import AlreadyExistsError, InvalidInputError, NotFoundError, UnsupportedError
from tidelake.maintenance import call
from tidelake.types import DataField, parse_type

FIELDS = (DataField(0, "k", parse_type("INT")), DataField(1, "s", parse_type("STRING")))
QUERY = "SELECT k, s FROM t WHERE k > 1"


@pytest.fixture
def server(tmp_path):
    with RestCatalogServer(tmp_path / "house") as started:
        yield started


@pytest.fixture
def catalog(server):
    catalog = tidelake.open(catalog=server.options())
    catalog.create_database("db")
    return catalog


def test_a_view_is_kept_as_paimon_does(server, catalog):
    made = catalog.create_view("db.v", QUERY, FIELDS, comment="some", options={"a": "b"})
    assert server.views["db", "v"] == {
        "fields": [
            {"id": 0, "name": "k", "type": "INT"},
            {"id": 1, "name": "s", "type": "STRING"},
        ],
        "query": QUERY,
        "dialects": {"spark": QUERY},
        "options": {"a": "b"},
        "comment": "some",
    }
    again = tidelake.open(catalog=server.options())
    assert again.view("db.v") == made
    assert again.views("db") == ["v"]
    again.drop_view("db.v")
    assert catalog.views("db") == []
    assert catalog.find_view("db.v") is None


def test_names_are_taken_once(server, catalog):
    catalog.create_view("db.v", QUERY, FIELDS)
    with pytest.raises(AlreadyExistsError, match="OR REPLACE"):
        catalog.create_view("db.v", "SELECT 1", ())
    assert catalog.create_view("db.v", "SELECT 1", (), if_exists="ignore").query == QUERY
    catalog.create_view("db.v", "SELECT 1", (), if_exists="replace")
    assert catalog.view("db.v").query == "SELECT 1"
    catalog.create_table("db.t", {"k": "INT"})
    with pytest.raises(AlreadyExistsError, match="is a table"):
        catalog.create_view("db.t", QUERY, FIELDS)
    with pytest.raises(InvalidInputError, match="no query"):
        catalog.create_view("db.w", " ", FIELDS)
    with pytest.raises(NotFoundError, match=r"no view 'db\.x'"):
        catalog.drop_view("db.x")
    catalog.drop_view("db.x", if_missing="ignore")
    with pytest.raises(NotFoundError, match="Database 'none'"):
        catalog.views("none")


def test_dialects_are_added_updated_and_dropped(server, catalog):
    catalog.create_view("db.v", QUERY, FIELDS)
    alter = {"view": "db.v", "action": "add", "engine": "flink", "query": "SELECT 2"}
    assert call(catalog, "sys.alter_view_dialect", named=alter).to_pylist() == [{"result": True}]
    assert catalog.view("db.v").query_in("flink") == "SELECT 2"
    with pytest.raises(InvalidInputError, match="already"):
        call(catalog, "sys.alter_view_dialect", named=alter)
    call(catalog, "alter_view_dialect", ("db.v", "update", "spark", "SELECT 3"))
    assert catalog.view("db.v").query_in() == "SELECT 3"
    call(catalog, "alter_view_dialect", ("db.v", "drop"))
    assert catalog.view("db.v").query_in() == QUERY  # the general one
    for arguments, says in (
        (("db.v", "drop"), "no query in the dialect 'spark'"),
        (("db.v", "add"), "needs the query"),
        (("db.v", "paint"), "no action"),
    ):
        with pytest.raises(InvalidInputError, match=says):
            call(catalog, "alter_view_dialect", arguments)
    with pytest.raises(NotFoundError):
        call(catalog, "alter_view_dialect", ("db.none", "drop"))


def test_a_catalog_of_directories_keeps_none(tmp_path):
    catalog = tidelake.open(str(tmp_path))
    catalog.create_database("db")
    assert catalog.views("db") == []
    assert catalog.find_view("db.v") is None
    with pytest.raises(UnsupportedError, match="CREATE TEMPORARY VIEW"):
        catalog.create_view("db.v", QUERY, FIELDS)
    with pytest.raises(NotFoundError, match="no view"):
        catalog.view("db.v")
    with pytest.raises(NotFoundError):
        catalog.drop_view("db.v")
