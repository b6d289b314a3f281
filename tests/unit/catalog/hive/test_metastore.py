"""What a table's entry says, whose tables are listed, and what is left of a broken-off change."""

from __future__ import annotations

import getpass
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

import pyarrow as pa
import pytest
from servers.fake_metastore import unknown_method
from servers.glue import glue
from servers.ports import free_port

import tidelake
from tidelake import (
    AddColumn,
    AlreadyExistsError,
    DropColumn,
    InvalidInputError,
    NotFoundError,
    OutcomeUnknownError,
    RemoveOption,
    SetOption,
    StorageError,
    UnsupportedError,
)
from tidelake.catalog.hive.connection import protocol
from tidelake.catalog.hive.metastore import TableListing
from tidelake.catalog.hive.register import TableEntry
from tidelake.catalog.staging import put_in_place, staged_table
from tidelake.catalog.warehouse import Warehouse
from tidelake.errors import StorageRefusedError
from tidelake.maintenance import call
from tidelake.metadata.log.schema_log import SchemaLog

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string()})


def entry(catalog, name):
    return catalog.metastore.register.table(*name.split("."))


def foreign(catalog, name, table_type="EXTERNAL_TABLE"):
    """An entry of another engine."""
    database, _, table = name.partition(".")
    made = TableEntry(
        database,
        table,
        "file:/elsewhere",
        (),
        table_type=table_type,
        input_format="org.apache.hadoop.mapred.TextInputFormat",
        output_format="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
        query="SELECT 1" if table_type == "VIRTUAL_VIEW" else None,
    )
    assert catalog.metastore.register.create_table(made)


def test_an_entry_says_what_java_writes(either, tmp_path):
    schema = pa.schema(
        [
            pa.field("k", pa.int64(), metadata={"comment": "the key"}),
            pa.field("day", pa.date32()),
            pa.field("price", pa.decimal128(10, 2)),
            pa.field("tags", pa.list_(pa.string())),
            pa.field("at", pa.struct({"x": pa.int32(), "t": pa.timestamp("us")})),
        ]
    )
    either.create_table(
        "db.t",
        schema,
        primary_keys=["k", "day"],
        partition_keys=["day"],
        options={"bucket": 2},
        comment="c",
    )
    found = entry(either, "db.t")
    assert [(c.name, c.type) for c in found.columns] == [
        ("k", "bigint"),
        ("day", "date"),
        ("price", "decimal(10,2)"),
        ("tags", "array<string>"),
        ("at", "struct<x:int,t:timestamp>"),
    ]
    assert found.partition_keys == ()
    assert dict(found.parameters) == {
        "bucket": "2",
        "bucket-key": "k",
        "comment": "c",
        "partition": "day",
        "primary-key": "k,day",
        "storage_handler": "org.apache.paimon.hive.PaimonStorageHandler",
        "table_type": "PAIMON",
    }
    assert found.table_type == "MANAGED_TABLE"
    assert found.input_format == "org.apache.paimon.hive.mapred.PaimonInputFormat"
    assert found.output_format == "org.apache.paimon.hive.mapred.PaimonOutputFormat"
    assert found.serde == "org.apache.paimon.hive.PaimonSerDe"
    assert found.location == f"file:{tmp_path}/w/db.db/t"


def test_a_change_of_columns_and_options_is_shown(either):
    table = either.create_table("db.t", SCHEMA, options={"bucket": -1, "file.format": "orc"})
    table.alter(AddColumn("w", "INT", comment="new"), SetOption("snapshot.num-retained.max", "99"))
    found = entry(either, "db.t")
    assert [(c.name, c.type, c.comment) for c in found.columns] == [
        ("k", "bigint", None),
        ("v", "string", None),
        ("w", "int", "new"),
    ]
    assert found.parameters["snapshot.num-retained.max"] == "99"
    either.table("db.t").alter(RemoveOption("snapshot.num-retained.max"), DropColumn("v"))
    found = entry(either, "db.t")
    assert [c.name for c in found.columns] == ["k", "w"]
    assert "snapshot.num-retained.max" not in found.parameters
    assert found.parameters["file.format"] == "orc"


def test_an_entry_shows_hives_options_alone_if_it_is_to(fake, tmp_path):
    catalog = tidelake.open(tmp_path / "w", catalog=fake.options(**{"sync-all-properties": False}))
    catalog.create_table("db.t", SCHEMA, options={"bucket": -1}, comment="c")
    assert set(entry(catalog, "db.t").parameters) == {"comment", "storage_handler", "table_type"}


def test_only_tables_of_paimon_are_listed_and_others_stay(either):
    either.create_table("db.t", SCHEMA)
    foreign(either, "db.h")
    foreign(either, "db.v", "VIRTUAL_VIEW")
    assert either.list_tables("db") == ["t"]
    assert either.views("db") == ["v"]
    with pytest.raises(NotFoundError, match="a table of Hive, not one of Paimon"):
        either.table("db.h")
    with pytest.raises(AlreadyExistsError, match="not Paimon's"):
        either.create_table("db.h", SCHEMA)
    with pytest.raises(AlreadyExistsError):
        either.rename_table("db.t", "db.h")
    with pytest.raises(NotFoundError):
        either.drop_table("db.h")
    with pytest.raises(InvalidInputError, match=r"not Paimon's \(h\)"):
        either.drop_database("db", cascade=True)
    assert either.list_tables("db") == ["t"]
    assert entry(either, "db.h") is not None


def test_a_renamed_table_has_its_files_and_says_where(either, tmp_path):
    either.create_table("db.t", SCHEMA).write([{"k": 1, "v": "a"}])
    either.rename_table("db.t", "other.u")
    assert either.table("other.u").to_arrow().to_pylist() == [{"k": 1, "v": "a"}]
    assert entry(either, "other.u").location == f"file:{tmp_path}/w/other.db/u"
    assert not (tmp_path / "w/db.db/t").exists()
    assert either.list_tables("db") == []


def test_files_of_an_external_table_stay(fake, tmp_path):
    catalog = tidelake.open(tmp_path / "w", catalog=fake.options(**{"table.type": "external"}))
    catalog.create_table("db.t", SCHEMA).write([{"k": 1, "v": "a"}])
    assert entry(catalog, "db.t").table_type == "EXTERNAL_TABLE"
    assert entry(catalog, "db.t").parameters["EXTERNAL"] == "TRUE"
    catalog.rename_table("db.t", "db.u")
    assert catalog.table("db.u").to_arrow().num_rows == 1
    catalog.drop_table("db.u")
    assert catalog.list_tables("db") == []
    assert (tmp_path / "w/db.db/t/schema/schema-0").exists()


def external(fake, tmp_path):
    return tidelake.open(tmp_path / "w", catalog=fake.options(**{"table.type": "external"}))


def test_files_of_an_external_table_stay_when_its_database_is_dropped(fake, catalog, tmp_path):
    external(fake, tmp_path).create_table("db.t", SCHEMA).write([{"k": 1, "v": "a"}])
    catalog.create_table("db.m", SCHEMA)
    catalog.drop_database("db", cascade=True)
    assert catalog.list_databases() == []
    assert (tmp_path / "w/db.db/t/snapshot/snapshot-1").exists()
    assert not (tmp_path / "w/db.db/m").exists()


def test_files_that_a_table_of_another_database_took_along_stay(fake, catalog, tmp_path):
    external(fake, tmp_path).create_table("db.t", SCHEMA).write([{"k": 1, "v": "a"}])
    catalog.rename_table("db.t", "other.u")
    catalog.create_table("db.m", SCHEMA)
    catalog.drop_database("db", cascade=True)
    assert not (tmp_path / "w/db.db/m").exists()
    assert catalog.table("other.u").to_arrow().num_rows == 1


def test_a_database_of_managed_tables_takes_its_directory_along(catalog, tmp_path):
    catalog.create_table("db.t", SCHEMA).write([{"k": 1, "v": "a"}])
    (tmp_path / "w/db.db/late").mkdir()
    catalog.drop_database("db", cascade=True)
    assert not (tmp_path / "w/db.db").exists()


@pytest.mark.parametrize("new", ["db.u", "other.u"])
def test_an_old_name_does_not_reach_the_files_of_a_renamed_table(fake, catalog, tmp_path, new):
    external(fake, tmp_path).create_table("db.t", SCHEMA).write([{"k": 1, "v": "a"}])
    catalog.rename_table("db.t", new)
    owner = f"those of table '{new}'"
    with pytest.raises(NotFoundError, match=owner):
        catalog.drop_table("db.t")
    with pytest.raises(NotFoundError, match=owner) as caught:
        catalog.table("db.t")
    assert "drop_table" not in str(caught.value)
    with pytest.raises(AlreadyExistsError, match=owner) as refused:
        catalog.create_table("db.t", SCHEMA)
    assert "drop_table" not in str(refused.value)
    staged = staged_table(catalog, "db.t", SCHEMA)
    with pytest.raises(AlreadyExistsError, match=owner):
        put_in_place(catalog, staged)
    assert catalog.table(new).to_arrow().num_rows == 1


def test_files_of_a_renamed_table_are_not_taken_up_while_they_are_empty(fake, catalog, tmp_path):
    external(fake, tmp_path).create_table("db.t", SCHEMA)
    catalog.rename_table("db.t", "db.u")
    with pytest.raises(AlreadyExistsError, match=r"those of table 'db\.u'"):
        catalog.create_table("db.t", SCHEMA)
    assert catalog.list_tables("db") == ["u"]


def test_dropping_an_external_table_twice_leaves_its_files(fake, catalog, tmp_path):
    made = external(fake, tmp_path)
    made.create_table("db.t", SCHEMA).write([{"k": 1, "v": "a"}])
    catalog.create_table("db.e", SCHEMA, options={"external": "true"})
    for of, name in ((made, "db.t"), (catalog, "db.e")):
        of.drop_table(name)
        with pytest.raises(NotFoundError, match="an external table's"):
            of.drop_table(name)
        assert (tmp_path / f"w/db.db/{name[3:]}/schema/schema-0").exists()


def test_a_location_may_stand_among_the_properties(fake, tmp_path):
    options = fake.options(**{"location-in-properties": True})
    catalog = tidelake.open(tmp_path / "w", catalog=options)
    catalog.create_table("db.t", SCHEMA).write([{"k": 1, "v": "a"}])
    found = entry(catalog, "db.t")
    assert found.location is None
    assert found.parameters["paimon_location"] == f"file:{tmp_path}/w/db.db/t"
    database = fake.databases["db"]
    assert database.locationUri is None
    assert database.parameters == {"paimon_location": f"file:{tmp_path}/w/db.db"}
    catalog.rename_table("db.t", "db.u")
    assert catalog.table("db.u").to_arrow().num_rows == 1
    catalog.drop_table("db.u")
    assert not (tmp_path / "w/db.db/u").exists()
    catalog.create_table("db.t", SCHEMA)
    without = tidelake.open(tmp_path / "w", catalog=fake.options())
    with pytest.raises(NotFoundError, match="location-in-properties"):
        without.table("db.t")


def test_a_table_lies_where_its_database_does(catalog, fake, tmp_path):
    structs = protocol()
    place = f"file:{tmp_path}/elsewhere"
    fake.databases["far"] = structs.Database(name="far", locationUri=place, parameters={})
    catalog.create_table("far.t", SCHEMA).write([{"k": 1, "v": "a"}])
    assert catalog.location("far.t") == f"{tmp_path}/elsewhere/t"
    assert catalog.table("far.t").to_arrow().num_rows == 1
    catalog.drop_table("far.t")
    assert not (tmp_path / "elsewhere/t").exists()


def test_a_table_on_another_storage_is_reached_by_its_own_uri(catalog, fake):
    catalog.create_table("db.t", SCHEMA)
    fake.tables["db", "t"].sd.location = "nfs://x/t"
    with pytest.raises(InvalidInputError, match="unknown storage 'nfs'"):
        catalog.table("db.t")


@pytest.mark.parametrize("name", ["db.T", "Db.t"])
def test_names_with_capitals_are_refused(either, name):
    with pytest.raises(InvalidInputError, match="has capitals"):
        either.create_table(name, SCHEMA)
    either.create_table("db.t", SCHEMA)
    with pytest.raises(NotFoundError):
        either.table(name)


def test_of_many_creators_one_wins(either):
    def create(number):
        try:
            either.create_table("db.t", SCHEMA, options={"bucket": -1, "my.number": number})
        except AlreadyExistsError:
            return 0
        return 1

    either.create_database("db")
    with ThreadPoolExecutor(6) as threads:
        assert sum(threads.map(create, range(6))) == 1
    table = either.table("db.t")
    assert entry(either, "db.t").parameters["my.number"] == table.table_schema.options["my.number"]


def test_a_copy_of_a_catalog_asks_for_itself(either):
    either.create_table("db.t", SCHEMA).write([{"k": 1, "v": "a"}])
    pickled = pickle.dumps(either)
    assert b"the-secret" not in pickled
    copy = pickle.loads(pickled)
    assert copy.table("db.t").to_arrow().num_rows == 1
    assert "the-secret" not in repr(copy)
    assert copy.for_reading().table("db.t").to_arrow().num_rows == 1


# ---- what a crash or a refusal leaves


def test_a_table_whose_entry_is_refused_is_not_there(catalog, fake, tmp_path):
    def refuse(method):
        if method == "create_table":
            raise protocol().MetaException(message="no room")

    catalog.create_database("db")
    fake.before = refuse
    with pytest.raises(StorageRefusedError, match=r"refused to create table 'db.t': no room"):
        catalog.create_table("db.t", SCHEMA)
    assert not (tmp_path / "w/db.db/t").exists()
    fake.before = None
    catalog.create_table("db.t", SCHEMA)


def test_a_lost_answer_to_a_create_is_looked_up(catalog, fake):
    def hang_up(method):
        if method == "create_table":
            raise ConnectionError

    catalog.create_database("db")
    fake.after = hang_up
    assert catalog.create_table("db.t", SCHEMA).schema == SCHEMA
    fake.after, fake.before = None, hang_up
    with pytest.raises(OutcomeUnknownError, match=r"unknown whether table 'db.u' was created"):
        catalog.create_table("db.u", SCHEMA)
    fake.before = None
    with pytest.raises(NotFoundError, match=r"does not list table 'db.u'"):
        catalog.table("db.u")
    catalog.create_table("db.u", SCHEMA)  # takes the files up


def test_files_of_another_definition_are_not_taken_up(catalog, fake, tmp_path):
    catalog.create_table("db.t", SCHEMA)
    del fake.tables["db", "t"]
    with pytest.raises(AlreadyExistsError, match="does not list"):
        catalog.create_table("db.t", pa.schema({"other": pa.int64()}))
    assert catalog.create_table("db.t", SCHEMA).schema == SCHEMA


def test_a_drop_that_is_refused_leaves_the_table(catalog, fake):
    catalog.create_table("db.t", SCHEMA).write([{"k": 1, "v": "a"}])

    def refuse(method):
        if method == "drop_table":
            raise protocol().MetaException(message="not yours")

    fake.before = refuse
    with pytest.raises(StorageRefusedError, match="not yours"):
        catalog.drop_table("db.t")
    assert catalog.table("db.t").to_arrow().num_rows == 1


def test_a_drop_that_broke_off_is_named_and_finished(catalog, fake, tmp_path):
    catalog.create_table("db.t", SCHEMA)
    (tmp_path / "w/db.db/t").rename(tmp_path / "gone")
    with pytest.raises(NotFoundError, match="has no schema: a drop or a rename"):
        catalog.table("db.t")
    catalog.drop_table("db.t")
    assert fake.tables == {}


def test_a_rename_that_is_refused_leaves_the_table(catalog, fake, tmp_path):
    catalog.create_table("db.t", SCHEMA).write([{"k": 1, "v": "a"}])

    def refuse(method):
        if method == "alter_table_with_environment_context":
            raise protocol().MetaException(message="read only")

    fake.before = refuse
    with pytest.raises(StorageRefusedError, match="read only"):
        catalog.rename_table("db.t", "db.u")
    fake.before = None
    assert catalog.table("db.t").to_arrow().num_rows == 1
    assert not (tmp_path / "w/db.db/u").exists()


@pytest.mark.parametrize(
    ("method", "change"),
    [
        ("alter_table_with_environment_context", lambda c: c.rename_table("db.t", "db.u")),
        ("drop_table", lambda c: c.drop_table("db.t")),
    ],
)
def test_a_table_is_moved_back_or_named_if_the_metastore_goes_away(
    catalog, fake, monkeypatch, method, change
):
    catalog.create_table("db.t", SCHEMA).write([{"k": 1, "v": "a"}])
    connection, connect = (
        catalog.metastore.register.connection,
        type(catalog.metastore.register.connection).change,
    )

    def refuse(self, what, called, *arguments):
        if called == method:
            fake.before = hang_up
            raise StorageRefusedError("does not answer", kind="catalog_unreachable")
        return connect(self, what, called, *arguments)

    def hang_up(called):
        if called != "set_ugi":
            raise ConnectionError

    def lose(called):
        if called == method:
            fake.before = hang_up
            raise ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr(type(connection), "change", refuse)
        with pytest.raises(StorageRefusedError, match="does not answer"):
            change(catalog)
    fake.before = None
    assert catalog.table("db.t").to_arrow().num_rows == 1
    fake.before = lose
    with pytest.raises(OutcomeUnknownError, match=r"The files were moved: .*move its directory"):
        change(catalog)


def test_a_drop_whose_answer_is_lost_is_finished(catalog, fake, tmp_path):
    catalog.create_table("db.t", SCHEMA).write([{"k": 1, "v": "a"}])

    def hang_up(method):
        if method == "drop_table":
            raise ConnectionError

    fake.after = hang_up
    catalog.drop_table("db.t")
    assert list((tmp_path / "w/.tidelake-staging").iterdir()) == []


def test_a_schema_that_loses_the_race_is_not_shown(catalog, monkeypatch):
    ours, theirs = catalog.create_table("db.t", SCHEMA), catalog.table("db.t")
    show = TableListing.show

    def show_second(listing, old, new):
        monkeypatch.setattr(TableListing, "show", show)
        theirs.alter(AddColumn("w", "STRING"))
        show(listing, old, new)

    monkeypatch.setattr(TableListing, "show", show_second)
    with pytest.raises(AlreadyExistsError):
        ours.alter(AddColumn("x", "INT"), AddColumn("w", "INT"))
    assert [(c.name, c.type) for c in entry(catalog, "db.t").columns] == [
        ("k", "bigint"),
        ("v", "string"),
        ("w", "string"),
    ]


def test_columns_that_the_metastore_refuses_are_not_put(catalog, fake, tmp_path):
    table = catalog.create_table("db.t", SCHEMA)

    def refuse(method):
        if method == "alter_table_with_environment_context":
            said = "The following columns have types incompatible with the existing columns"
            raise protocol().InvalidOperationException(message=said)

    fake.before = refuse
    with pytest.raises(StorageRefusedError, match=r"disallow.incompatible.col.type.changes"):
        table.alter(DropColumn("k"))
    assert not (tmp_path / "w/db.db/t/schema/schema-1").exists()
    assert catalog.table("db.t").schema == SCHEMA


OTHER = pa.schema({"w": pa.string(), "x": pa.string()})


def test_a_replacement_that_the_metastore_refuses_leaves_the_old_table(catalog, fake):
    catalog.create_table("db.t", SCHEMA).write([{"k": 1, "v": "a"}])
    fake.is_strict = True
    number = pa.schema({"w": pa.bool_()})
    staged = staged_table(catalog, "db.t", number)
    with pytest.raises(StorageRefusedError, match=r"disallow.incompatible.col.type.changes"):
        put_in_place(catalog, staged)
    assert catalog.table("db.t").to_arrow().to_pylist() == [{"k": 1, "v": "a"}]
    fake.is_strict = False
    put_in_place(catalog, staged)
    assert catalog.table("db.t").schema == number
    assert [c.name for c in entry(catalog, "db.t").columns] == ["w"]


def test_a_replacement_whose_directories_are_not_swapped_is_not_shown(either, monkeypatch):
    either.create_table("db.t", SCHEMA).write([{"k": 1, "v": "a"}])
    staged = staged_table(either, "db.t", OTHER)
    new = staged_table(either, "db.new", OTHER)

    def fail(*_args):
        raise StorageError("no move")

    with monkeypatch.context() as patched:
        patched.setattr(Warehouse, "swap", fail)
        for table in (staged, new):
            with pytest.raises(StorageError, match="no move"):
                put_in_place(either, table)
    assert [c.name for c in entry(either, "db.t").columns] == ["k", "v"]
    assert either.table("db.t").to_arrow().num_rows == 1
    assert either.list_tables("db") == ["t"]
    put_in_place(either, staged)
    assert [c.name for c in entry(either, "db.t").columns] == ["w", "x"]


def test_a_staged_table_does_not_replace_one_that_was_created_meanwhile(catalog, fake):
    staged = staged_table(catalog, "db.t", OTHER)

    def create_first(method):
        if method == "create_table":
            fake.before = None
            catalog.create_table("db.t", SCHEMA).write([{"k": 1, "v": "a"}])

    fake.before = create_first
    with pytest.raises(AlreadyExistsError, match=r"Another created table 'db\.t' meanwhile"):
        put_in_place(catalog, staged)
    assert catalog.table("db.t").to_arrow().num_rows == 1


def test_a_schema_that_is_not_put_is_not_shown(catalog, monkeypatch):
    table = catalog.create_table("db.t", SCHEMA)

    def fail(*_args, **_more):
        raise StorageRefusedError("disk full", kind="storage")

    monkeypatch.setattr(SchemaLog, "create", fail)
    with pytest.raises(StorageError):
        table.alter(AddColumn("w", "INT"))
    assert [c.name for c in entry(catalog, "db.t").columns] == ["k", "v"]


# ---- the connection


def test_a_metastore_that_is_gone_is_named(fake, tmp_path):
    catalog = tidelake.open(tmp_path / "w", catalog=fake.options())
    table = catalog.create_table("db.t", SCHEMA)

    def hang_up(_method):
        raise ConnectionError

    fake.before = hang_up
    with pytest.raises(StorageRefusedError, match=f"{fake.uri} does not answer") as caught:
        catalog.list_databases()
    assert caught.value.kind == "catalog_unreachable"
    table.write([{"k": 1, "v": "a"}])  # files decide
    fake.before = None
    assert catalog.table("db.t").to_arrow().num_rows == 1


def test_a_connection_that_was_lost_while_idle_is_opened_again(catalog, fake):
    catalog.create_database("db")
    lost = iter([True])

    def hang_up_once(_method):
        if next(lost, False):
            raise ConnectionError

    fake.before = hang_up_once
    assert catalog.list_databases() == ["db"]


def test_a_slow_metastore_is_given_up_in_time(fake, tmp_path):
    done = Event()
    options = fake.options(**{"hive.metastore.client.socket.timeout": "2 s"})
    catalog = tidelake.open(tmp_path / "w", catalog=options)
    fake.before = lambda _method: done.wait(30)
    try:
        with pytest.raises(StorageRefusedError, match="does not answer"):
            catalog.list_databases()
    finally:
        done.set()


def test_the_next_address_is_tried(fake, tmp_path):
    uri = f"thrift://127.0.0.1:{free_port()},{fake.uri}"
    catalog = tidelake.open(tmp_path / "w", catalog=fake.options(uri=uri))
    assert catalog.list_databases() == []


def test_a_metastore_of_hive_4_is_asked_in_its_own_form(catalog, fake):
    catalog.create_table("db.t", SCHEMA)

    def left_out(method):
        if method in {"get_table", "get_table_objects_by_name"}:
            raise unknown_method(method)

    fake.before = left_out
    assert catalog.table("db.t").schema == SCHEMA
    assert catalog.list_tables("db") == ["t"]
    with pytest.raises(NotFoundError):
        catalog.table("db.u")


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({}, InvalidInputError, "needs the option 'uri'"),
        ({"uri": "http://x:9083"}, InvalidInputError, "'thrift://host:9083'"),
        ({"uri": "thrift://x:0"}, InvalidInputError, "'thrift://host:9083'"),
        ({"hive.metastore.sasl.enabled": "true"}, UnsupportedError, "Kerberos"),
        ({"hive.metastore.use.SSL": "true"}, UnsupportedError, "TLS"),
        ({"hive-conf-dir": "/nowhere"}, InvalidInputError, "hive-site.xml cannot be read"),
        ({"location-in-propertys": "true"}, InvalidInputError, "mean 'location-in-properties'"),
        ({"metastore.client.class": "com.amazonaws.glue.X"}, UnsupportedError, "kind 'glue'"),
        ({"hive.metastore.client.socket.timeout": "soon"}, InvalidInputError, "socket.timeout"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_sent(
    tmp_path, monkeypatch, options, error, says
):
    monkeypatch.delenv("HIVE_CONF_DIR", raising=False)
    given = {"type": "hive", **options}
    if "uri" not in given and given.keys() != {"type"} and "hive-conf-dir" not in given:
        given["uri"] = "thrift://127.0.0.1:1"
    with pytest.raises(error, match=says):
        tidelake.open(tmp_path, catalog=given)


@pytest.mark.parametrize("key", ["format-table.enabled", "case-sensitive"])
def test_what_is_not_covered_is_refused_by_name(fake, tmp_path, key):
    with pytest.raises(UnsupportedError, match=f"'{key}' = 'true' is not supported"):
        tidelake.open(tmp_path, catalog=fake.options(**{key: True}))


def test_hive_site_says_the_address_and_the_warehouse(fake, tmp_path, monkeypatch):
    site = (
        "<configuration>"
        f"<property><name>hive.metastore.uris</name><value>{fake.uri}</value></property>"
        "<property><name>hive.metastore.warehouse.dir</name>"
        f"<value>file:{tmp_path}/of-hive</value></property></configuration>"
    )
    (tmp_path / "hive-site.xml").write_text(site)
    named = tidelake.open(catalog={"type": "hive", "hive-conf-dir": str(tmp_path)})
    assert named.warehouse == f"{tmp_path}/of-hive"
    monkeypatch.setenv("HIVE_CONF_DIR", str(tmp_path))
    assert tidelake.open(catalog={"type": "hive"}).uri == f"{tmp_path}/of-hive"
    (tmp_path / "hive-site.xml").write_text(site.replace("</conf", "<property><name>"
        "hive.metastore.sasl.enabled</name><value>true</value></property></conf"))  # fmt: skip
    with pytest.raises(UnsupportedError, match="Kerberos"):
        tidelake.open(catalog={"type": "hive"})


def test_a_warehouse_of_hive_site_without_a_scheme_is_not_taken_for_local(fake, tmp_path):
    (tmp_path / "hive-site.xml").write_text(
        f"<c><property><name>hive.metastore.uris</name><value>{fake.uri}</value></property>"
        "<property><name>hive.metastore.warehouse.dir</name><value>/user/hive</value></property>"
        "</c>"
    )
    options = {"type": "hive", "hive-conf-dir": str(tmp_path)}
    with pytest.raises(InvalidInputError, match=r"'fs.defaultFS' of Hadoop: give 'warehouse'"):
        tidelake.open(catalog=options)
    assert tidelake.open(tmp_path / "w", catalog=options).list_databases() == []


def test_a_user_without_a_name_is_told_what_to_set(fake, tmp_path, monkeypatch):
    def fail():
        raise KeyError("getpwuid(): uid not found: 4242")

    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    monkeypatch.setattr(getpass, "getuser", fail)
    with pytest.raises(InvalidInputError, match="set HADOOP_USER_NAME"):
        tidelake.open(tmp_path / "w", catalog=fake.options())
    with glue() as options:
        catalog = tidelake.open(tmp_path / "w", catalog=options)
        catalog.create_table("db.t", SCHEMA)
        assert not entry(catalog, "db.t").owner


# ---- partitions


def partitioned(catalog, name="db.t"):
    return catalog.create_table(
        name,
        pa.schema({"k": pa.int64(), "day": pa.string(), "hour": pa.int32()}),
        primary_keys=["k", "day", "hour"],
        partition_keys=["day", "hour"],
        options={"bucket": 1, "metastore.partitioned-table": True},
    )


def shown_partitions(catalog, name="db.t"):
    found = catalog.metastore.register.partitions(entry(catalog, name))
    return {p.values: p.location for p in found}


def test_partitions_are_shown_as_they_are_written(either, tmp_path):
    table = partitioned(either)
    assert [c.name for c in entry(either, "db.t").columns] == ["k"]
    assert [(c.name, c.type) for c in entry(either, "db.t").partition_keys] == [
        ("day", "string"),
        ("hour", "int"),
    ]
    table.write([{"k": 1, "day": "a/b", "hour": 1}, {"k": 1, "day": "c", "hour": 2}])
    table.write([{"k": 2, "day": "c", "hour": 2}, {"k": 2, "day": "c", "hour": 3}])
    place = f"file:{tmp_path}/w/db.db/t"
    assert shown_partitions(either) == {
        ("a/b", "1"): f"{place}/day=a%2Fb/hour=1",
        ("c", "2"): f"{place}/day=c/hour=2",
        ("c", "3"): f"{place}/day=c/hour=3",
    }
    table.drop_partitions([{"day": "c", "hour": 2}])
    assert set(shown_partitions(either)) == {("a/b", "1"), ("c", "3")}
    table.write([{"k": 5, "day": "c", "hour": 3}], mode="overwrite")
    assert set(shown_partitions(either)) == {("a/b", "1"), ("c", "3")}
    either.rename_table("db.t", "db.u")
    moved = {
        v.removeprefix(f"file:{tmp_path}/w/db.db/u")
        for v in shown_partitions(either, "db.u").values()
    }
    assert moved == {"/day=a%2Fb/hour=1", "/day=c/hour=3"}
    either.table("db.u").truncate()
    assert shown_partitions(either, "db.u") == {}


def test_a_partition_that_is_done_has_another_that_says_so(either, tmp_path):
    table = partitioned(either)
    rows = [{"k": 1, "day": "a/b", "hour": 1}, {"k": 1, "day": "c", "hour": 2}]
    table.write(rows)
    table.set_options({"partition.mark-done-action": "done-partition,success-file"})
    for _ in range(2):  # a mark may be made again
        call(either, "mark_partition_done", ("db.t", "day=a/b,hour=1"), {})
    place = f"file:{tmp_path}/w/db.db/t/day=a%2Fb"
    assert shown_partitions(either)["a/b", "1.done"] == f"{place}/hour=1.done"
    assert set(shown_partitions(either)) == {("a/b", "1"), ("a/b", "1.done"), ("c", "2")}
    assert sorted(table.to_arrow()["day"].to_pylist()) == ["a/b", "c"]
    table.write(rows[:1], mode="overwrite")
    assert ("a/b", "1.done") in shown_partitions(either)
    table.drop_partitions([{"day": "a/b"}])
    assert set(shown_partitions(either)) == {("c", "2")}


def check_needs_shown_partitions(catalog, action):
    done = {"partition.mark-done-action": action}
    table = catalog.create_table("db.t", SCHEMA, partition_keys=["v"], options=done)
    table.write([{"k": 1, "v": "a"}])
    with pytest.raises(UnsupportedError, match=r"needs 'metastore\.partitioned-table' = 'true'"):
        call(catalog, "mark_partition_done", ("db.t", "v=a"), {})


def test_a_partition_that_the_catalog_does_not_know_has_none(either):
    check_needs_shown_partitions(either, "done-partition")


def test_a_partition_that_the_catalog_does_not_know_is_not_marked(catalog):
    check_needs_shown_partitions(catalog, "mark-event")


def test_the_metastore_is_told_that_a_partition_is_done(fake, catalog):
    table = partitioned(catalog)
    table.write([{"k": 1, "day": "a/b", "hour": 1}, {"k": 1, "day": "c", "hour": 2}])
    table.set_options({"partition.mark-done-action": "mark-event"})
    call(catalog, "mark_partition_done", ("db.t", "day=a/b,hour=1"), {})
    assert fake.marks == [("db", "t", {"day": "a/b", "hour": "1"})]
    assert set(shown_partitions(catalog)) == {("a/b", "1"), ("c", "2")}


def test_a_mark_that_the_metastore_refuses_says_so(fake, catalog):
    table = partitioned(catalog)
    table.write([{"k": 1, "day": "a", "hour": 1}])
    table.set_options({"partition.mark-done-action": "mark-event"})

    def refuse(method):
        if method == "markPartitionForEvent":
            raise protocol().MetaException(message="no events here")

    fake.before = refuse
    said = "refused to mark a partition of 'db.t' as done: no events here"
    with pytest.raises(StorageRefusedError, match=said):
        call(catalog, "mark_partition_done", ("db.t", "day=a,hour=1"), {})
    assert fake.marks == []


def test_glue_keeps_no_marks_of_partitions(tmp_path):
    with glue() as options:
        catalog = tidelake.open(tmp_path / "w", catalog=options)
        table = partitioned(catalog)
        table.write([{"k": 1, "day": "a", "hour": 1}])
        table.set_options({"partition.mark-done-action": "success-file,mark-event"})
        with pytest.raises(UnsupportedError, match="needs a REST catalog or a Hive Metastore"):
            call(catalog, "mark_partition_done", ("db.t", "day=a,hour=1"), {})
        assert not list(tmp_path.rglob("_SUCCESS"))


def test_partitions_of_a_replacement_are_shown_for_the_old_ones(either):
    partitioned(either).write([{"k": 1, "day": "a", "hour": 1}])
    staged = staged_table(
        either,
        "db.t",
        pa.schema({"k": pa.int64(), "day": pa.string(), "hour": pa.int32()}),
        primary_keys=["k", "day", "hour"],
        partition_keys=["day", "hour"],
        options={"bucket": 1, "metastore.partitioned-table": True},
    )
    staged.write([{"k": 2, "day": "b", "hour": 2}])
    put_in_place(either, staged)
    assert set(shown_partitions(either)) == {("b", "2")}


def test_without_the_option_no_partition_is_shown(catalog, fake):
    table = catalog.create_table("db.t", SCHEMA, partition_keys=["v"])
    fake.calls.clear()
    table.write([{"k": 1, "v": "a"}])
    assert fake.calls == []


def test_partitions_that_cannot_be_shown_are_told_and_shown_later(catalog, fake, caplog):
    table = partitioned(catalog)

    def refuse(method):
        if method == "add_partitions_req":
            raise protocol().MetaException(message="full")

    fake.before = refuse
    table.write([{"k": 1, "day": "a", "hour": 1}])
    assert "could not be told of its partitions" in caplog.text
    fake.before = None
    table.write([{"k": 2, "day": "a", "hour": 1}])
    assert set(shown_partitions(catalog)) == {("a", "1")}
    assert table.to_arrow().num_rows == 2


def test_partitions_that_another_adds_at_the_same_time_are_shown(catalog, fake, caplog):
    table = partitioned(catalog)
    calls = []

    def refuse_first(method):
        if method == "add_partitions_req":
            calls.append(method)
            if len(calls) <= 2:
                raise protocol().AlreadyExistsException(message="Partition already exists")

    fake.before = refuse_first
    table.write([{"k": 1, "day": day, "hour": 1} for day in "ab"])
    assert "could not be told" not in caplog.text
    assert set(shown_partitions(catalog)) == {("b", "1")}  # the other's is taken for there
    assert table.to_arrow().num_rows == 2


def test_partitions_elsewhere_stay_where_they_are_when_a_table_is_renamed(catalog, fake, tmp_path):
    partitioned(catalog).write([{"k": 1, "day": day, "hour": 1} for day in "ab"])
    fake.partitions["db", "t"]["a", "1"].sd.location = "file:/elsewhere/a"
    catalog.rename_table("db.t", "db.u")
    assert shown_partitions(catalog, "db.u") == {
        ("a", "1"): "file:/elsewhere/a",
        ("b", "1"): f"file:{tmp_path}/w/db.db/u/day=b/hour=1",
    }
    assert fake.partitions_max == -1


# ---- locks


def test_a_table_is_locked_while_it_is_changed(fake, tmp_path):
    catalog = tidelake.open(tmp_path / "w", catalog=fake.options(**{"lock.enabled": True}))
    table = catalog.create_table("db.t", SCHEMA)
    fake.calls.clear()
    table.write([{"k": 1, "v": "a"}])
    assert [c for c in fake.calls if "lock" in c] == ["lock", "unlock"]
    table.alter(AddColumn("w", "INT"))
    assert fake.locks == {}


def test_without_the_option_local_tables_take_no_lock(catalog, fake):
    catalog.create_table("db.t", SCHEMA).write([{"k": 1, "v": "a"}])
    assert not [c for c in fake.calls if "lock" in c]


def test_a_lock_that_another_holds_is_waited_for_and_given_up(fake, tmp_path):
    options = {"lock.enabled": True, "lock-acquire-timeout": "0 ms", "lock-check-max-sleep": "1 ms"}
    catalog = tidelake.open(tmp_path / "w", catalog=fake.options(**options))
    catalog.create_database("db")
    fake.locks[0] = ("db", "t")
    with pytest.raises(StorageRefusedError, match=r"'db.t' could not be locked") as caught:
        catalog.create_table("db.t", SCHEMA)
    assert caught.value.kind == "catalog_lock"
    assert fake.locks == {0: ("db", "t")}
    del fake.locks[0]
    catalog.create_table("db.t", SCHEMA)


# ---- views


def test_a_view_is_kept_and_read_again(either):
    either.create_table("db.t", SCHEMA)
    fields = either.table("db.t").table_schema.fields
    made = either.create_view("db.v", "SELECT * FROM t", fields, comment="c", options={"a": "b"})
    found = either.view("db.v")
    assert (found.query, found.comment) == ("SELECT * FROM t", "c")
    assert found.options["a"] == "b"
    assert [(f.name, f.type.as_nullable()) for f in found.fields] == [
        (f.name, f.type.as_nullable()) for f in made.fields
    ]
    assert either.views("db") == ["v"]
    assert either.list_tables("db") == ["t"]
    with pytest.raises(AlreadyExistsError):
        either.create_view("db.t", "SELECT 1", fields)
    with pytest.raises(UnsupportedError, match="no dialects"):
        either.alter_view_dialect("db.v", "add", dialect="flink", query="SELECT 2")
    either.create_view("db.v", "SELECT 2", fields, if_exists="replace")
    assert either.view("db.v").query == "SELECT 2"
    either.drop_view("db.v")
    assert either.views("db") == []


def test_what_is_unknown_of_an_entry_stays_when_it_is_changed(catalog, fake):
    table = catalog.create_table("db.t", SCHEMA)
    kept = fake.tables["db", "t"]
    kept.sd.parameters, kept.parameters = {"of": "others"}, {**kept.parameters, "more": "1"}
    kept.sd.bucketCols = ["k"]
    table.alter(AddColumn("w", "INT"))
    found = fake.tables["db", "t"]
    assert (found.sd.parameters, found.sd.bucketCols) == ({"of": "others"}, ["k"])
    assert found.parameters["more"] == "1"
    assert replace(entry(catalog, "db.t"), columns=()).owner == kept.owner
