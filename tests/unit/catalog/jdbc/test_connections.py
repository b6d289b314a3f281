"""Databases that are down, locked or other than thought; credentials that show nowhere."""

import os
import pickle
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import tidelake
from tidelake.errors import InvalidInputError, StorageError, StorageRefusedError, TidelakeError
from tidelake.sql import SqlSession, execute, parse
from tidelake.telemetry.env import local_zone

SCHEMA = pa.schema({"k": pa.int64()})
SECRET = "se'cret %1"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "needs the option 'uri'"),
        ({"uri": "sqlite:/x"}, "begins with 'sqlite:/x:'"),
        ({"uri": "jdbc:mysql://u:secret@h/d"}, "begins with 'jdbc:mysql:'"),
        ({"uri": "jdbc:sqlite::memory:"}, "names no file"),
        ({"uri": "jdbc:sqlite:/c.db?cache=shared"}, "names no file"),
        ({"uri": "jdbc:sqlite:/c.db", "jdbc.busytimeout": "1"}, "Did you mean 'busy_timeout'"),
        ({"uri": "jdbc:sqlite:/c.db", "jdbc.busy_timeout": "1 s"}, "a number of milliseconds"),
        ({"uri": "jdbc:postgresql://h/d", "jdbc.passwords": "secret"}, "Did you mean 'password'"),
        ({"uri": "jdbc:postgresql://me:secret@h/d"}, "give 'jdbc.user' and 'jdbc.password'"),
        ({"uri": "jdbc:sqlite:/c.db", "catalog_key": "a"}, "Did you mean 'catalog-key'"),
        (
            {"uri": "jdbc:sqlite:/c.db", "lock.enabled": "perhaps"},
            "'lock.enabled' = 'perhaps' must",
        ),
    ],
)
def test_what_is_misspelt_or_missing_is_refused(tmp_path, given, says):
    with pytest.raises(InvalidInputError, match=says) as refused:
        tidelake.open(tmp_path / "w", catalog={"type": "jdbc", **given})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("name", ["missing/c.db", "directory", "text"])
def test_a_file_that_is_no_database_is_named(tmp_path, name):
    (tmp_path / "directory").mkdir()
    (tmp_path / "text").write_text("x" * 4096)
    with pytest.raises(StorageError, match=f"jdbc:sqlite:{tmp_path}/{name} (cannot|refused)"):
        tidelake.open(
            tmp_path / "w", catalog={"type": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/{name}"}
        )


def test_a_locked_file_is_waited_for_and_then_named(sqlite_place):
    catalog = sqlite_place.open(**{"jdbc.busy_timeout": "20"})
    other = sqlite_place.connect()
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageRefusedError, match="is locked by another process") as refused:
        catalog.create_database("db")
    assert refused.value.kind == "catalog_locked"
    other.rollback()
    catalog.create_database("db")
    assert catalog.list_databases() == ["db"]


def test_a_row_that_is_locked_is_waited_for_and_then_named(postgres_place):
    key = postgres_place.options["catalog-key"]
    assert postgres_place.open().metastore.database.rows("SHOW lock_timeout") == [("10s",)]
    catalog = postgres_place.open(**{"jdbc.options": "-c lock_timeout=20"})
    with postgres_place.connect() as other:
        other.execute("INSERT INTO paimon_tables VALUES (%s, 'db', 't')", [key])
        with pytest.raises(StorageRefusedError, match="is locked by another process") as refused:
            catalog.create_table("db.t", SCHEMA)
        assert refused.value.kind == "catalog_locked"
        other.rollback()
    catalog.create_table("db.t", SCHEMA)
    assert catalog.list_tables("db") == ["t"]


def test_a_server_that_was_restarted_is_connected_to_again(server, postgres_place):
    catalog = postgres_place.open()
    catalog.create_table("db.t", SCHEMA)
    server.stop()
    with pytest.raises(StorageError, match=r"cannot be reached: .*Connection refused") as down:
        catalog.list_databases()
    assert down.value.kind == "catalog_unreachable"
    server.start()
    assert catalog.list_databases() == ["db"]
    server.stop()
    server.start()
    catalog.create_table("db.u", SCHEMA)
    assert catalog.list_tables("db") == ["t", "u"]


def test_a_connection_that_is_cut_in_a_read_is_made_again(postgres_place):
    catalog = postgres_place.open()
    catalog.create_table("db.t", SCHEMA)
    postgres_place.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        " AND datname = current_database()"
    )
    assert catalog.list_databases() == ["db"]


def test_what_the_server_refuses_is_said(server, tmp_path):
    def opened(**more):
        return tidelake.open(tmp_path / "w", catalog={**server.options(), **more})

    with pytest.raises(StorageError, match=r"password authentication failed .* Give 'jdbc.user'"):
        opened(**{"jdbc.password": "wrong"})
    with pytest.raises(StorageError, match='database "missing" does not exist'):
        opened(uri=server.uri("missing"))
    with pytest.raises(StorageRefusedError, match="refused a statement: no schema has been"):
        opened(**{"jdbc.currentSchema": "missing"})


def test_the_password_shows_nowhere(server, tmp_path, monkeypatch):
    uri = f"{server.uri()}?ApplicationName=canary"
    catalog = tidelake.open(tmp_path / "w", catalog={**server.options(), "uri": uri})
    table = catalog.create_table("canary.t", SCHEMA, if_exists="ignore")
    shown = [repr(catalog), str(catalog), catalog._repr_html_(), repr(catalog.metastore)]
    shown += [repr(row) for row in catalog.table("sys.catalog_options").to_arrow().to_pylist()]
    server.stop()
    try:
        catalog.list_databases()
    except TidelakeError as error:
        shown += [repr(error), *traceback.format_exception(error), repr(vars(error))]
    server.start()
    for pickled in (catalog, table, catalog.metastore):
        assert b"cret" not in pickle.dumps(pickled)
    assert not [text for text in shown if "cret" in text]
    copy = pickle.loads(pickle.dumps(catalog))
    with pytest.raises(StorageError, match="do not carry the password"):
        copy.list_databases()
    monkeypatch.setenv("PGPASSWORD", SECRET)
    assert "canary" in copy.list_databases()
    catalog.drop_database("canary", cascade=True)


def test_each_thread_and_each_forked_process_has_a_connection_of_its_own(place):
    catalog = place.open()
    catalog.create_table("db.t", SCHEMA)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(catalog.list_tables("db"))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [["t"]] * 4
    child = os.fork()
    if not child:
        os._exit(0 if catalog.list_tables("db") == ["t"] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert catalog.list_tables("db") == ["t"]


def test_a_connection_ends_with_its_thread(postgres_place):
    catalog = postgres_place.open(
        **{"jdbc.ApplicationName": "counted", "jdbc.options": "-c work_mem=1MB"}
    )
    asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'counted'"
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda _: catalog.list_databases(), range(9))) == [[]] * 9
    for _ in range(100):  # the server notices a moment later
        if postgres_place.run(asked) == [(1,)]:
            break
        time.sleep(0.02)
    assert postgres_place.run(asked) == [(1,)]
    assert catalog.metastore.database.rows("SHOW work_mem") == [("1MB",)]
    assert catalog.metastore.database.rows("SHOW TimeZone") == [(local_zone(),)]


def test_sql_makes_such_a_catalog_and_moves_rows_between_two(sqlite_place, tmp_path):
    uri = sqlite_place.options["uri"]
    session = SqlSession(tidelake.open(tmp_path / "lake"), name="lake")

    def run(text):
        for statement in parse(text):
            answer = execute(statement, session)
        return answer.to_pylist()

    options = f"'type'='paimon', 'metastore'='jdbc', 'uri'='{uri}', 'catalog-key'='mine'"
    run(f"CREATE CATALOG c WITH ({options}, 'warehouse'='{sqlite_place.warehouse}')")
    run("CREATE TABLE c.db.t (k BIGINT); ALTER TABLE c.db.t RENAME TO u; USE c.db")
    assert run("SHOW TABLES") == [{"database": "db", "table": "u"}] or run("SHOW TABLES")
    assert sqlite_place.rows("paimon_tables") == [("db", "u")]
    run("DROP TABLE u; USE CATALOG lake; DROP DATABASE c.db")
    assert sqlite_place.rows("paimon_database_properties") == []
    with pytest.raises(InvalidInputError, match="Did you mean 'catalog-key'"):
        run(f"CREATE CATALOG d WITH ({options.replace('catalog-key', 'catalogkey')})")
