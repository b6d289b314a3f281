"""Views of a REST catalog by ``tl.sql``; a warehouse of directories keeps none."""

from __future__ import annotations

import pytest
from servers.rest_catalog import RestCatalogServer

import tidelake
import tidelake.spark
from tidelake.errors import AlreadyExistsError, InvalidInputError, NotFoundError, UnsupportedError


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    with RestCatalogServer(tmp_path_factory.mktemp("views")) as server:
        catalog = tidelake.open(catalog=server.options())
        lake = tidelake.spark.attach(spark, catalog, catalog="viewed")
        lake.sql("CREATE DATABASE db; CREATE DATABASE other; USE db")
        lake.sql(
            "CREATE TABLE t (k INT, s STRING); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')"
        )
        yield lake


def rows(lake, text):
    return sorted(map(tuple, lake.sql(text).collect()))


def test_a_view_is_created_read_shown_and_dropped(lake):
    lake.sql("CREATE VIEW big (number, name) COMMENT 'some' AS SELECT k, s FROM t WHERE k > 1")
    view = lake.catalog.view("db.big")
    assert view.query == "SELECT k, s FROM t WHERE k > 1"
    assert [(f.name, str(f.type)) for f in view.fields] == [("number", "INT"), ("name", "STRING")]
    assert view.comment == "some"
    assert rows(lake, "SELECT number + 1, name FROM big WHERE number < 3") == [(3, "b")]
    lake.sql("USE other")
    try:
        # names of its query are those of its own database
        assert rows(lake, "SELECT v.number, t.s FROM db.big v JOIN db.t t ON v.number = t.k") == [
            (2, "b"), (3, "c")
        ]  # fmt: skip
    finally:
        lake.sql("USE db")
    lake.sql("CREATE VIEW bigger AS SELECT * FROM big WHERE number > 2")
    assert rows(lake, "SELECT * FROM bigger") == [(3, "c")]
    assert rows(lake, "SHOW VIEWS") == [("db", "big", False), ("db", "bigger", False)]
    with pytest.raises(AlreadyExistsError):
        lake.sql("CREATE VIEW big AS SELECT 1 AS x")
    lake.sql("CREATE VIEW IF NOT EXISTS big AS SELECT 1 AS x")
    lake.sql("CREATE OR REPLACE VIEW bigger AS SELECT 1 AS x")
    assert rows(lake, "SELECT * FROM bigger") == [(1,)]
    lake.sql("CALL sys.alter_view_dialect('db.bigger', 'update', 'spark', 'SELECT 7 AS x')")
    assert rows(lake, "SELECT * FROM bigger") == [(7,)]
    lake.sql("DROP VIEW bigger; DROP VIEW db.big; DROP VIEW IF EXISTS db.big")
    assert rows(lake, "SHOW VIEWS") == []
    with pytest.raises(NotFoundError):
        lake.sql("SELECT * FROM big")


def test_a_view_that_its_query_refuses_is_not_kept(lake):
    for text in (
        "CREATE VIEW wrong AS SELECT nothing FROM t",
        "CREATE VIEW wrong (a, b, c) AS SELECT k FROM t",
    ):
        with pytest.raises(Exception, match=r"nothing|3 columns"):
            lake.sql(text)
    assert lake.catalog.find_view("db.wrong") is None
    lake.sql("CREATE VIEW v AS SELECT k FROM t")
    with pytest.raises((InvalidInputError, NotFoundError, UnsupportedError)):
        lake.sql("INSERT INTO v VALUES (1)")
    lake.sql("DROP VIEW v")


def test_a_warehouse_of_directories_refuses(spark, tmp_path):
    lake = tidelake.spark.attach(spark, tmp_path / "plain", catalog="plain")
    lake.sql("CREATE TABLE t (k INT)")
    with pytest.raises(UnsupportedError, match="CREATE TEMPORARY VIEW"):
        lake.sql("CREATE VIEW v AS SELECT k FROM t")
    assert rows(lake, "SHOW VIEWS") == []
