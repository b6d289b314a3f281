"""Rows and files of a JDBC catalog: what each step writes, and what a crash between two leaves."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa
import pytest

import tidelake
from tidelake.catalog.identifier import Identifier
from tidelake.catalog.jdbc import JdbcMetastore
from tidelake.catalog.staging import put_in_place, staged_table
from tidelake.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    TidelakeError,
    UnsupportedError,
)
from tidelake.fileio import LocalFileIO, MemoryFileIO
from tidelake.telemetry import Env

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string()})
TABLES, PROPERTIES = "paimon_tables", "paimon_database_properties"
ROW = {"k": 1, "v": "a"}


class Storage(LocalFileIO):
    """Local files whose moves can be made to fail, or to be followed by something."""

    def __init__(self):
        super().__init__(Env.system().ids)
        self.before_move = self.after_move = lambda: None

    def move_dir(self, source, target):
        self.before_move()
        super().move_dir(source, target)
        self.after_move()


def fail():
    message = "no move"
    raise UnsupportedError(message, kind="move_dir")


def test_a_table_has_the_rows_and_files_that_java_gives_it(place, tmp_path):
    catalog = place.open()
    table = catalog.create_table("db.t", SCHEMA)
    table.write([ROW])
    assert place.rows(TABLES) == [("db", "t")]
    assert place.rows(PROPERTIES) == [
        ("db", "exists", "true"),
        ("db", "location", f"{tmp_path}/w/db.db"),
    ]
    assert (tmp_path / "w/db.db/t/schema/schema-0").exists()
    again = pickle.loads(pickle.dumps(place.open())) if place.kind == "sqlite" else place.open()
    assert again.table("db.t").to_arrow().to_pylist() == [ROW]
    assert (again.list_databases(), again.list_tables("db")) == (["db"], ["t"])
    assert place.open(**{"catalog-key": "another"}).list_databases() == []
    catalog.rename_table("db.t", "new.u")
    assert place.rows(TABLES) == [("new", "u")]
    assert again.table("new.u").count() == 1
    assert not again.table_exists("db.t")
    with pytest.raises(InvalidInputError, match=r"'new' holds 1 tables \(u\)"):
        again.drop_database("new")
    again.drop_table("new.u")
    again.drop_database("new")
    again.drop_database("db")
    assert place.rows(TABLES) == place.rows(PROPERTIES) == []
    assert not list((tmp_path / "w").glob("*.db"))


def test_what_the_catalog_is_can_be_read(place):
    rows = place.open().table("sys.catalog_options").to_arrow().to_pylist()
    told = {row["key"]: row["value"] for row in rows}
    assert told["metastore"] == "jdbc"
    assert told["uri"] == place.options["uri"]
    assert told["catalog-key"] == place.options["catalog-key"]


def test_a_database_without_properties_exists_by_its_table(place):
    catalog = place.open()
    key = place.options["catalog-key"]
    place.run(f"INSERT INTO {TABLES} VALUES (?, ?, ?)", key, "theirs", "t")
    assert catalog.list_databases() == ["theirs"]
    with pytest.raises(AlreadyExistsError):
        catalog.create_database("theirs")


def test_files_without_a_row_are_taken_up_by_the_same_definition(place, tmp_path):
    catalog = place.open()
    schema = catalog.first_schema("db.t", SCHEMA)
    catalog.create_database("db")
    catalog.metastore.directories.put_first_schema(f"{tmp_path}/w/db.db/t", schema)
    with pytest.raises(NotFoundError, match=r"does not list table 'db.t', but .* has files"):
        catalog.table("db.t")
    with pytest.raises(AlreadyExistsError, match=r"drop_table\('db.t'\)") as refused:
        catalog.create_table("db.t", pa.schema({"k": pa.int32()}))
    assert refused.value.kind == "table_remains"
    assert place.rows(TABLES) == []
    catalog.create_table("db.t", SCHEMA).write([ROW])
    assert place.rows(TABLES) == [("db", "t")]


def test_rows_of_an_unlisted_table_are_never_taken_up(place):
    catalog = place.open()
    catalog.create_table("db.t", SCHEMA).write([ROW])
    place.run(f"DELETE FROM {TABLES}")  # as a drop of Java's does, before it deletes the files
    with pytest.raises(AlreadyExistsError, match="that the catalog does not list"):
        catalog.create_table("db.t", SCHEMA)
    with pytest.raises(InvalidInputError, match="holds 1 tables"):
        catalog.drop_database("db")
    catalog.drop_table("db.t")
    catalog.create_table("db.t", SCHEMA)
    assert catalog.table("db.t").count() == 0


def test_if_exists_drops_no_table_that_a_killed_rename_left_unlisted(sqlite_place, tmp_path):
    catalog = sqlite_place.open()
    catalog.create_table("db.t", SCHEMA).write([ROW])
    old, new = tmp_path / "w/db.db/t", tmp_path / "w/db.db/u"
    old.rename(new)  # as a rename does that is killed before it commits
    with pytest.raises(
        NotFoundError, match=r"list table 'db.u', .* Move the directory back"
    ) as left:
        catalog.drop_table("db.u", if_missing="ignore")
    assert left.value.kind == "table_unlisted"
    new.rename(old)
    assert catalog.table("db.t").count() == 1
    catalog.drop_table("db.u", if_missing="ignore")  # nothing is there
    old.rename(new)
    catalog.drop_table("db.u")
    assert not new.exists()


def test_a_row_without_files_is_named_and_dropped(sqlite_place):
    files = Storage()
    catalog = sqlite_place.open(fileio=files)
    catalog.create_table("db.t", SCHEMA)

    def die():
        raise KeyboardInterrupt

    files.after_move = die  # the directory is moved away, the row is not deleted
    with pytest.raises(KeyboardInterrupt):
        catalog.drop_table("db.t")
    files.after_move = lambda: None
    assert catalog.list_tables("db") == ["t"]
    with pytest.raises(NotFoundError, match=r"lists table 'db.t', but .* has no schema"):
        catalog.table("db.t")
    catalog.drop_table("db.t")
    assert catalog.list_tables("db") == []
    with pytest.raises(NotFoundError):
        catalog.drop_table("db.t")


@pytest.mark.parametrize("what", ["table", "database"])
def test_a_drop_that_the_database_refuses_leaves_the_files(sqlite_place, what):
    files = Storage()
    catalog = sqlite_place.open(fileio=files, **{"jdbc.busy_timeout": "1"})
    catalog.create_table("db.t", SCHEMA).write([ROW])
    other = sqlite_place.connect()

    other.isolation_level = None

    def read():  # a reader's shared lock keeps SQLite from committing
        files.after_move = lambda: None
        other.execute("BEGIN")
        other.execute(f"SELECT * FROM {TABLES}").fetchall()

    files.after_move = read
    drop_database = partial(catalog.drop_database, "db", cascade=True)
    drop = partial(catalog.drop_table, "db.t") if what == "table" else drop_database
    with pytest.raises(StorageError, match="is locked by another process"):
        drop()
    assert catalog.table("db.t").count() == 1
    other.execute("COMMIT")
    other.close()
    catalog.drop_table("db.t")
    assert catalog.list_tables("db") == []


def test_a_drop_takes_the_lock_of_the_database_before_it_moves_files(sqlite_place):
    files, moves = Storage(), []
    catalog = sqlite_place.open(fileio=files, **{"jdbc.busy_timeout": "1"})
    catalog.create_table("db.t", SCHEMA)
    other = sqlite_place.connect()
    other.execute("BEGIN IMMEDIATE")
    files.before_move = partial(moves.append, 1)
    with pytest.raises(StorageError, match="is locked by another process"):
        catalog.drop_table("db.t")
    with pytest.raises(StorageError, match="is locked by another process"):
        catalog.drop_database("db", cascade=True)
    assert moves == []
    other.rollback()
    other.close()


def test_a_drop_deletes_all_rows_of_a_table_or_none(sqlite_place):
    catalog = sqlite_place.open(fileio=Storage(), **{"jdbc.busy_timeout": "1"})
    sqlite_place.run("CREATE TABLE paimon_table_properties(catalog_key, database_name, table_name)")
    catalog.create_table("db.t", SCHEMA).write([ROW])
    key = sqlite_place.options["catalog-key"]
    sqlite_place.run("INSERT INTO paimon_table_properties VALUES (?, ?, ?)", key, "db", "t")
    sqlite_place.run(
        "CREATE TRIGGER keep BEFORE DELETE ON paimon_table_properties"
        " BEGIN SELECT raise(ABORT, 'kept'); END"
    )
    with pytest.raises(TidelakeError, match="kept"):
        catalog.drop_table("db.t")
    assert sqlite_place.rows(TABLES) == [("db", "t")]
    assert catalog.table("db.t").count() == 1


def test_a_rename_whose_files_cannot_be_moved_changes_nothing(place):
    files = Storage()
    catalog = place.open(fileio=files)
    catalog.create_table("db.t", SCHEMA).write([ROW])
    files.before_move = fail
    with pytest.raises(UnsupportedError, match="no move"):
        catalog.rename_table("db.t", "db.u")
    assert place.rows(TABLES) == [("db", "t")]
    assert catalog.table("db.t").count() == 1


def test_a_rename_that_dies_before_its_end_is_named(sqlite_place, tmp_path):
    files = Storage()
    catalog = sqlite_place.open(fileio=files)
    catalog.create_table("db.t", SCHEMA).write([ROW])

    def die():
        raise KeyboardInterrupt

    files.after_move = die
    with pytest.raises(KeyboardInterrupt):
        catalog.rename_table("db.t", "db.u")
    files.after_move = lambda: None
    with pytest.raises(NotFoundError, match="Move its directory back to"):
        catalog.table("db.t")
    (tmp_path / "w/db.db/u").rename(tmp_path / "w/db.db/t")
    assert catalog.table("db.t").count() == 1


def test_a_rename_that_cannot_be_committed_moves_the_files_back(sqlite_place):
    files = Storage()
    catalog = sqlite_place.open(fileio=files, **{"jdbc.busy_timeout": "1"})
    catalog.create_table("db.t", SCHEMA).write([ROW])
    reader = sqlite_place.connect()
    reader.isolation_level = None

    def read():  # a reader's shared lock keeps SQLite from committing
        files.after_move = lambda: None
        reader.execute("BEGIN")
        reader.execute(f"SELECT * FROM {TABLES}").fetchall()

    files.after_move = read
    with pytest.raises(StorageError, match="is locked by another process") as refused:
        catalog.rename_table("db.t", "db.u")
    assert refused.value.kind == "catalog_locked"
    reader.execute("COMMIT")
    reader.close()
    assert sqlite_place.rows(TABLES) == [("db", "t")]
    assert catalog.table("db.t").count() == 1


def test_a_taken_name_is_no_new_name(place, tmp_path):
    catalog = place.open()
    catalog.create_table("db.t", SCHEMA)
    catalog.create_table("db.u", SCHEMA)
    with pytest.raises(AlreadyExistsError):
        catalog.rename_table("db.t", "db.u")
    key = place.options["catalog-key"]
    place.run(f"INSERT INTO {TABLES} VALUES (?, ?, ?)", key, "db", "listed")
    with pytest.raises(AlreadyExistsError):  # the row decides, and the files stay
        catalog.rename_table("db.t", "db.listed")
    assert catalog.table("db.t").count() == 0
    with pytest.raises(NotFoundError, match="Did you mean 't'"):
        catalog.rename_table("db.tt", "db.v")


def test_of_many_that_create_one_table_one_does(place):
    makers = 6
    ready, catalogs = threading.Barrier(makers), [place.open() for _ in range(makers)]

    def create(catalog):
        ready.wait()
        try:
            return catalog.create_table("db.t", SCHEMA)
        except AlreadyExistsError:
            return None

    with ThreadPoolExecutor(makers) as pool:
        made = [table for table in pool.map(create, catalogs) if table is not None]
    assert len(made) == 1
    made[0].write([ROW])
    assert place.rows(TABLES) == [("db", "t")]
    assert catalogs[-1].table("db.t").count() == 1


def test_a_creator_whose_files_are_dropped_lists_no_table(sqlite_place, monkeypatch):
    catalog, other = sqlite_place.open(), sqlite_place.open()
    catalog.create_database("db")
    directories = type(catalog.metastore.directories)
    put = directories.put_first_schema

    def put_and_lose(self, path, schema):
        done = put(self, path, schema)
        other.drop_table("db.t")
        return done

    monkeypatch.setattr(directories, "put_first_schema", put_and_lose)
    with pytest.raises(ConflictError, match="was dropped while it was created"):
        catalog.create_table("db.t", SCHEMA)
    assert sqlite_place.rows(TABLES) == []


def test_tables_of_paimon_2_are_kept_in_step(place):
    catalog = place.open()
    key = place.options["catalog-key"]
    place.run(
        "CREATE TABLE IF NOT EXISTS paimon_table_properties(catalog_key VARCHAR(255),"
        " database_name VARCHAR(255), table_name VARCHAR(255), property_key VARCHAR(255),"
        " property_value VARCHAR(1000))"
    )
    place.run(
        "CREATE TABLE IF NOT EXISTS paimon_views(catalog_key VARCHAR(255), database_name"
        " VARCHAR(255), view_name VARCHAR(255), view_schema TEXT,"
        " PRIMARY KEY (catalog_key, database_name, view_name))"
    )
    place.run("INSERT INTO paimon_views VALUES (?, ?, ?, ?)", key, "v", "seen", "{}")
    assert catalog.list_databases() == ["v"]
    with pytest.raises(AlreadyExistsError, match=r"'v.seen' is a view"):
        catalog.create_table("v.seen", SCHEMA)
    with pytest.raises(InvalidInputError, match="holds 1 tables"):
        catalog.drop_database("v")
    catalog.drop_database("v", cascade=True)
    assert place.rows("paimon_views") == []
    catalog.create_table("db.t", SCHEMA)
    place.run(
        "INSERT INTO paimon_table_properties VALUES (?, ?, ?, ?, ?)", key, "db", "t", "bucket", "1"
    )
    catalog.rename_table("db.t", "db.u")
    assert place.rows("paimon_table_properties") == [("db", "u", "bucket", "1")]
    catalog.drop_table("db.u")
    assert place.rows("paimon_table_properties") == []


def test_a_staged_table_is_listed_when_it_takes_its_place(place):
    catalog = place.open()
    staged = staged_table(catalog, "db.t", SCHEMA)
    staged.write([ROW])
    assert place.rows(TABLES) == []
    put_in_place(catalog, staged)
    assert place.rows(TABLES) == [("db", "t")]
    assert catalog.table("db.t").count() == 1


def test_a_location_is_where_java_looks_for_it(sqlite_place, tmp_path):
    metastore = sqlite_place.open().metastore
    assert metastore.location(Identifier("db", "t")) == f"{tmp_path}/w/db.db/t"


class Store(MemoryFileIO):
    """Files that are shown by a URI, as those of an object store are."""

    def uri_of(self, path):
        return f"s3://bucket{path}"


def test_the_location_of_a_database_is_the_uri_that_java_writes(sqlite_place):
    catalog = sqlite_place.open(fileio=Store())
    catalog.create_database("db")
    uri = f"s3://bucket{sqlite_place.warehouse}"
    assert sqlite_place.rows(PROPERTIES)[1] == ("db", "location", f"{uri}/db.db")
    assert catalog.metastore.options()["warehouse"] == uri
    assert catalog.metastore.shown.startswith(f"{uri} by jdbc:sqlite:")
    catalog.create_table("db.t", SCHEMA).write([ROW])
    assert catalog.table("db.t").count() == 1


def test_a_warehouse_within_a_database_of_another_is_refused(place):
    catalog = place.open()
    catalog.create_database("db")
    inner = tidelake.open(
        f"{place.warehouse}/db.db/inner", catalog=place.options | {"catalog-key": "inner"}
    )
    for create in (
        lambda: inner.create_database("d"),
        lambda: inner.create_table("d.t", SCHEMA),
    ):
        with pytest.raises(InvalidInputError, match="a database of another warehouse") as refused:
            create()
        assert refused.value.kind == "warehouse_inside"
    assert inner.list_databases() == []
    catalog.fileio.make_dirs(f"{place.warehouse}/db.db/other.db/t")
    for cascade in (False, True):
        with pytest.raises(InvalidInputError, match=r"holds other\.db, a database of another"):
            catalog.drop_database("db", cascade=cascade)
    assert catalog.list_databases() == ["db"]


@pytest.mark.parametrize("cascade", [False, True])
def test_a_table_that_is_made_while_its_database_is_dropped_stays(postgres_place, cascade):
    """SQLite lets nobody write meanwhile."""
    storage, other = Storage(), postgres_place.open()
    catalog = postgres_place.open(fileio=storage)
    catalog.create_database("db")
    if cascade:
        catalog.create_table("db.old", SCHEMA)
    else:
        catalog.fileio.make_dirs(f"{postgres_place.warehouse}/db.db")

    def make():
        storage.after_move = lambda: None
        other.create_table("db.late", SCHEMA).write([{"k": 1, "v": "a"}])

    storage.after_move = make
    if cascade:
        catalog.drop_database("db", cascade=True)
    else:
        with pytest.raises(InvalidInputError, match="holds 1 tables"):
            catalog.drop_database("db")
    assert other.list_tables("db") == ["late"]
    assert other.table("db.late").to_arrow().to_pylist() == [{"k": 1, "v": "a"}]


@pytest.mark.parametrize("has_directory", [False, True])
def test_a_row_that_is_inserted_just_before_a_database_goes_stays(
    postgres_place, monkeypatch, has_directory
):
    """Its creator has put no file yet when the dropper looks for the last time."""
    catalog, other = postgres_place.open(), postgres_place.open()
    catalog.create_database("db")
    if has_directory:
        catalog.fileio.make_dirs(f"{postgres_place.warehouse}/db.db")
    looked = []

    def check(self, *given):
        CHECK(self, *given)
        looked.append(given)
        if len(looked) == 2:
            other.create_table("db.late", SCHEMA)

    monkeypatch.setattr(JdbcMetastore, "_check_empty", check)
    if has_directory:
        catalog.drop_database("db")
    else:
        with pytest.raises(InvalidInputError, match="holds 1 tables"):
            catalog.drop_database("db")
    assert (len(looked), other.list_tables("db")) == (2, ["late"])
    assert other.table("db.late").count() == 0


CHECK = JdbcMetastore._check_empty


def test_what_other_processes_read_needs_no_database(sqlite_place, tmp_path):
    """As executors of a service and lookups on Spark do."""
    catalog = sqlite_place.open()
    catalog.create_table("db.t", SCHEMA).write([ROW])
    sent = pickle.dumps(catalog.for_reading())
    (tmp_path / "c.db").unlink()
    copied = pickle.loads(sent)
    assert copied.table("db.t").to_arrow().to_pylist() == [ROW]
    assert copied.uri == catalog.uri == sqlite_place.warehouse
    assert list(tmp_path.glob("c.db*")) == []


def test_an_interrupted_drop_of_a_database_comes_back_whatever_else_is_dropped(
    sqlite_place, monkeypatch
):
    """A catalog of the same directory, without the database, drops a table meanwhile."""
    catalog, beside = sqlite_place.open(), tidelake.open(sqlite_place.warehouse)
    beside.create_table("other.t", SCHEMA)
    catalog.create_database("db")
    catalog.fileio.make_dirs(f"{sqlite_place.warehouse}/db.db/kept")
    looked = []

    def check(self, *given):
        CHECK(self, *given)
        looked.append(given)
        if len(looked) == 2:
            beside.drop_table("other.t")
            raise KeyboardInterrupt

    monkeypatch.setattr(JdbcMetastore, "_check_empty", check)
    with pytest.raises(KeyboardInterrupt):
        catalog.drop_database("db")
    assert catalog.list_databases() == ["db"]
    assert catalog.fileio.exists(f"{sqlite_place.warehouse}/db.db/kept")
