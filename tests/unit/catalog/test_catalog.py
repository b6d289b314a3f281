"""Databases and tables by name: what is made, found, refused and dropped."""

from __future__ import annotations

import json
import pickle
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pytest
from servers.fake_metastore import fake_metastore
from servers.glue import glue

import tidelake
from tidelake import AlreadyExistsError, InvalidInputError, NotFoundError, UnsupportedError
from tidelake.fileio import MemoryFileIO
from tidelake.merge import SpillStack
from tidelake.scan import plan
from tidelake.telemetry import UNLIMITED, Memory

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string()})

HOSTILE = [
    "",
    ".",
    "..",
    "../evil",
    "a/b",
    "a\\b",
    "a\0b",
    "a\nb",
    ".hidden",
    "x" * 300,
    " a",
    "a$b",
    "e\u0301",
    "a\u202eb",
    "\ud800",
]


@pytest.fixture
def directories(tmp_path):
    """A catalog that is nothing but directories."""
    return tidelake.open(tmp_path / "warehouse")


@pytest.fixture(params=["filesystem", "jdbc", "hive", "glue"])
def catalog(request, tmp_path, tmp_path_factory):
    """Each kind of catalog: whoever uses one need not know which it is."""
    options = {"type": request.param}
    if request.param == "jdbc":
        options["uri"] = f"jdbc:sqlite:{tmp_path_factory.mktemp('catalog')}/c.db"
    with ExitStack() as servers:
        if request.param == "hive":
            options = servers.enter_context(fake_metastore()).options()
        if request.param == "glue":
            options = servers.enter_context(glue())
        yield tidelake.open(tmp_path / "warehouse", catalog=options)


def test_a_table_is_made_with_its_database_and_found_again(catalog, tmp_path):
    table = catalog.create_table(
        "db.t", SCHEMA, primary_keys=["k"], options={"bucket": 1}, comment="what it is"
    )
    assert catalog.list_databases() == ["db"]
    assert catalog.list_tables("db") == ["t"]
    document = json.loads((tmp_path / "warehouse/db.db/t/schema/schema-0").read_text())
    assert document["primaryKeys"] == ["k"]
    assert document["options"] == {"bucket": "1"}
    assert document["comment"] == "what it is"
    assert [f["type"] for f in document["fields"]] == ["BIGINT NOT NULL", "STRING"]
    assert table.schema == catalog.table("db.t").schema
    assert not table.schema.field("k").nullable


def test_an_existing_table_is_an_error_or_kept(catalog):
    catalog.create_table("db.t", SCHEMA).write([{"k": 1, "v": "a"}])
    with pytest.raises(AlreadyExistsError, match="if_exists='ignore'"):
        catalog.create_table("db.t", SCHEMA)
    assert catalog.create_table("db.t", SCHEMA, if_exists="ignore").count() == 1
    with pytest.raises(AlreadyExistsError, match="'db' exists"):
        catalog.create_database("db")
    catalog.create_database("db", if_exists="ignore")
    with pytest.raises(InvalidInputError, match="if_exists='replace'"):
        catalog.create_table("db.t", SCHEMA, if_exists="replace")


KEYED = {"primary_keys": ["k"], "options": {"bucket": 1}}


@pytest.mark.parametrize(
    ("columns", "changed", "says"),
    [
        ({"k": pa.int64()}, {}, "it has another column 'v'"),
        (
            {"k": pa.int32(), "v": pa.string(), "w": pa.int8()},
            {},
            "'k' is BIGINT NOT NULL, not INT NOT NULL; it has no column 'w'",
        ),
        (SCHEMA, {"primary_keys": ["k", "v"]}, r"primary key is \(k\), not \(k, v\)"),
        (SCHEMA, {"primary_keys": []}, r"primary key is \(k\), not none"),
        (SCHEMA, {"partition_keys": ["k"]}, r"partition key is none, not \(k\)"),
        (
            SCHEMA,
            {"options": {"bucket": 1, "sequence.field": "v"}},
            "option 'sequence.field' is None, not 'v'",
        ),
    ],
)
def test_a_table_that_differs_is_not_taken_for_the_one_asked_for(catalog, columns, changed, says):
    made = catalog.create_table("db.t", SCHEMA, **KEYED)
    with pytest.raises(
        InvalidInputError, match=rf"'db.t' exists with another definition.*{says}.*table\('db.t"
    ):
        catalog.create_table("db.t", columns, **(KEYED | changed), if_exists="ignore")
    assert catalog.table("db.t").table_schema == made.table_schema


def test_a_table_that_is_only_kept_otherwise_is_taken(catalog):
    catalog.create_table("db.t", SCHEMA, **KEYED)
    turned = pa.schema([SCHEMA.field("v"), SCHEMA.field("k")])
    for options in ({"bucket": 7}, {"bucket": 1, "write-only": True}, None):
        again = catalog.create_table(
            "db.t", turned, primary_keys="k", options=options, comment="c", if_exists="ignore"
        )
        assert dict(again.table_schema.options) == {"bucket": "1"}
        assert again.schema.names == ["k", "v"]


def test_missing_names_are_told_with_near_ones(catalog):
    catalog.create_table("shop.orders", SCHEMA)
    with pytest.raises(NotFoundError, match=r"Database 'shpo' does not exist.*Did you mean 'shop'"):
        catalog.table("shpo.orders")
    with pytest.raises(NotFoundError, match=r"'order' does not exist.*Did you mean 'orders'"):
        catalog.table("shop.order")
    with pytest.raises(NotFoundError, match=r"Did you mean 'snapshots'"):
        catalog.table("shop.orders$snapshot")
    with pytest.raises(InvalidInputError, match=r"write it as 'database.table'"):
        catalog.table("orders")
    with pytest.raises(KeyError):
        catalog.list_tables("none")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_refused_everywhere_and_nothing_is_made(catalog, tmp_path, name):
    calls = [
        lambda: catalog.create_database(name),
        lambda: catalog.create_table(f"{name}.t", SCHEMA),
        lambda: catalog.create_table(f"db.{name}", SCHEMA),
        lambda: catalog.drop_table(f"db.{name}"),
        lambda: catalog.drop_database(name),
        lambda: catalog.list_tables(name),
    ]
    for call in calls:
        with pytest.raises((InvalidInputError, NotFoundError)):
            call()
    assert not (tmp_path / "warehouse").exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [n for n in HOSTILE if n not in {" a"}])
def test_hostile_tags_and_users_are_refused(catalog, name):
    table = catalog.create_table("db.t", SCHEMA)
    table.write([{"k": 1, "v": "a"}])
    if name != "a$b":
        with pytest.raises(InvalidInputError):
            table.tags.create(name)
        with pytest.raises(InvalidInputError):
            table.write([{"k": 1, "v": "a"}], commit_user=name, commit_identifier=1)
        with pytest.raises((InvalidInputError, NotFoundError)):
            table.to_arrow(tag=name)
    assert table.count() == 1


def test_drop_removes_and_says_what_is_missing(catalog, tmp_path):
    catalog.create_table("db.t", SCHEMA).write([{"k": 1, "v": "a"}])
    with pytest.raises(InvalidInputError, match="cascade=True"):
        catalog.drop_database("db")
    catalog.drop_table("db.t")
    assert catalog.list_tables("db") == []
    with pytest.raises(NotFoundError):
        catalog.drop_table("db.t")
    catalog.drop_table("db.t", if_missing="ignore")
    catalog.create_table("db.t", SCHEMA)
    catalog.drop_database("db", cascade=True)
    assert catalog.list_databases() == []
    with pytest.raises(NotFoundError):
        catalog.drop_database("db")
    catalog.drop_database("db", if_missing="ignore")


def test_what_a_broken_off_drop_left_does_not_come_back(directories, tmp_path):
    catalog = directories
    catalog.create_table("db.t", SCHEMA).write([{"k": 1, "v": "a"}])
    for file in (tmp_path / "warehouse/db.db/t/schema").iterdir():
        file.unlink()
    assert catalog.list_tables("db") == []
    with pytest.raises(AlreadyExistsError, match="drop was interrupted"):
        catalog.create_table("db.t", SCHEMA)
    catalog.drop_table("db.t")
    assert catalog.create_table("db.t", SCHEMA).count() == 0


def test_a_catalog_works_on_any_file_io():
    catalog = tidelake.open("/memory", fileio=MemoryFileIO())
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options={"bucket": 1})
    table.write([{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
    assert table.count() == 2
    assert catalog.list_tables("db") == ["t"]


@pytest.mark.parametrize("given", ["256MB", "256 mb", 256 << 20, "262144 kb"])
def test_memory_is_shared_out(tmp_path, given):
    catalog = tidelake.open(tmp_path, memory=given)
    assert catalog.env.memory == Memory.of(256 << 20)
    assert pickle.loads(pickle.dumps(catalog)).env.memory == Memory.of(256 << 20)
    assert tidelake.open(tmp_path).env.memory == UNLIMITED


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("much", "must be a size such as"),
        (-1, "must be bytes, or a size"),
        (True, "must be bytes, or a size"),
        (2.5, "must be bytes, or a size"),
        ("63 mb", "too small .* give 64 mb or more"),
        (0, "too small"),
    ],
)
def test_memory_that_is_none_or_too_little_is_refused(tmp_path, given, said):
    with pytest.raises(InvalidInputError, match=said) as caught:
        tidelake.open(tmp_path, memory=given)
    assert caught.value.kind == "memory"


def spilled_rows(catalog, monkeypatch, **options):
    """How many runs a write of 40 MB of rows puts aside."""
    pushed = []
    push = SpillStack.push
    monkeypatch.setattr(
        SpillStack, "push", lambda self, batches: (pushed.append(1), push(self, batches))
    )
    table = catalog.create_table(
        "db.t", SCHEMA, primary_keys=["k"], options={"bucket": 1, **options}
    )
    rows = pa.table({"k": np.arange(400_000), "v": pa.array(["x" * 80] * 400_000)})
    table.write(rows)
    assert table.count() == 400_000
    return len(pushed)


def test_a_writer_holds_its_share_unless_the_table_says_otherwise(tmp_path, monkeypatch):
    catalog = tidelake.open(tmp_path / "a", memory="64 mb")
    assert spilled_rows(catalog, monkeypatch) >= 4
    given = tidelake.open(tmp_path / "b", memory="64 mb")
    assert spilled_rows(given, monkeypatch, **{"write-buffer-size": "100 mb"}) == 0
    assert spilled_rows(tidelake.open(tmp_path / "c"), monkeypatch) == 0


def test_a_plan_that_does_not_fit_the_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "ENTRY_BYTES", 20 << 20)
    limited = tidelake.open(tmp_path, memory="64 mb")
    table = limited.create_table(
        "db.t", pa.schema({"p": pa.int32(), "k": pa.int32()}), partition_keys=["p"]
    )
    for part in range(4):
        table.write([{"p": part, "k": 1}])
    with pytest.raises(InvalidInputError, match=r"4 manifest entries, .* there are 64 mb"):
        table.count()
    assert table.count(where="p = 1") == 1  # the manifests of other partitions stay closed
    assert tidelake.open(tmp_path).table("db.t").count() == 4


def test_a_storage_that_is_not_covered_is_refused():
    with pytest.raises(InvalidInputError, match="unknown storage"):
        tidelake.open("ftp://host/warehouse")
    with pytest.raises(InvalidInputError, match="empty"):
        tidelake.open("")


def test_a_table_without_schema_files_says_that_they_are_gone(directories):
    catalog = directories
    table = catalog.create_table("db.t", pa.schema({"k": pa.int64()}))
    table.write([{"k": 1}])
    catalog.fileio.delete_dir(table.paths.schema_dir)
    with pytest.raises(NotFoundError, match=r"has snapshots, but no schema: .*/t/schema/ is empty"):
        catalog.table("db.t")


@pytest.mark.parametrize("name", ["x" * 5000, "db." + "x" * 5000, "db.\x00" * 2000, ("x",) * 2000])
def test_names_are_shortened_in_messages(catalog, name):
    with pytest.raises(InvalidInputError) as caught:
        catalog.table(name)
    assert len(str(caught.value)) < 400


def test_a_table_has_a_location_before_it_is_there(tmp_path):
    catalog = tidelake.open(tmp_path)
    location = catalog.location("db.t")
    assert location == f"{tmp_path}/db.db/t"
    made = catalog.create_table("db.t", pa.schema({"a": pa.int64()}))
    assert made.paths.location == location
    with pytest.raises(InvalidInputError):
        catalog.location("db.a/b")


# ---- new names


def test_a_renamed_table_has_its_rows_history_and_tags(catalog):
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options={"bucket": 1})
    table.write([{"k": 1, "v": "a"}])
    table.tags.create("first")
    table.write([{"k": 1, "v": "b"}])
    renamed = catalog.rename_table("db.t", "db.u")
    assert renamed.identifier == "db.u"
    assert catalog.list_tables("db") == ["u"]
    found = catalog.table("db.u")
    assert found.to_arrow().to_pylist() == [{"k": 1, "v": "b"}]
    assert found.to_arrow(tag="first").to_pylist() == [{"k": 1, "v": "a"}]
    found.write([{"k": 2, "v": "c"}])
    assert found.count() == 2
    with pytest.raises(NotFoundError, match=r"Table 't' does not exist in database 'db'\."):
        catalog.table("db.t")


def test_a_name_that_was_given_up_may_be_taken_again(catalog):
    first = catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options={"bucket": 1})
    first.write([{"k": 1, "v": "old"}])
    assert first.count() == 1
    catalog.rename_table("db.t", "db.u")
    second = catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options={"bucket": 1})
    second.write([{"k": 2, "v": "new"}])
    assert second.to_arrow().to_pylist() == [{"k": 2, "v": "new"}]
    assert catalog.table("db.u").to_arrow().to_pylist() == [{"k": 1, "v": "old"}]


def test_a_table_moves_to_another_database_which_is_made(catalog):
    catalog.create_table("db.t", SCHEMA)
    catalog.rename_table("db.t", "other.t")
    assert (catalog.list_tables("db"), catalog.list_tables("other")) == ([], ["t"])


def test_a_taken_name_is_no_new_name(catalog):
    catalog.create_table("db.t", SCHEMA).write([{"k": 1, "v": "a"}])
    catalog.create_table("db.u", SCHEMA).write([{"k": 2, "v": "b"}])
    for taken in ("db.u", "db.t"):
        with pytest.raises(AlreadyExistsError, match=f"Table '{taken}' exists"):
            catalog.rename_table("db.t", taken)
    assert catalog.table("db.u").to_arrow().to_pylist() == [{"k": 2, "v": "b"}]
    assert catalog.table("db.t").to_arrow().to_pylist() == [{"k": 1, "v": "a"}]


def test_only_what_is_there_can_be_renamed(catalog):
    catalog.create_table("db.near", SCHEMA)
    with pytest.raises(NotFoundError, match="near"):
        catalog.rename_table("db.neer", "db.x")
    assert catalog.rename_table("db.neer", "db.x", if_missing="ignore") is None
    for name in ("db.x$files", "x", "sys.x", "db.a/b"):
        with pytest.raises(InvalidInputError):
            catalog.rename_table("db.near", name)
    with pytest.raises(InvalidInputError):
        catalog.rename_table("db.near$files", "db.x")
    assert catalog.list_tables("db") == ["near"]


def test_what_was_opened_under_the_old_name_writes_nothing(catalog):
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options={"bucket": 1})
    table.write([{"k": 1, "v": "a"}])
    with table.writer() as writer:
        writer.write([{"k": 2, "v": "b"}])
        catalog.rename_table("db.t", "db.u")
        with pytest.raises(NotFoundError, match="dropped or renamed"):
            writer.commit()
    with pytest.raises(NotFoundError, match="dropped or renamed"):
        table.write([{"k": 3, "v": "c"}])
    assert catalog.list_tables("db") == ["u"]
    assert catalog.table("db.u").to_arrow().to_pylist() == [{"k": 1, "v": "a"}]


def test_a_table_that_says_where_it_is_stays_there(tmp_path):
    catalog = tidelake.open(tmp_path / "w")
    place = tmp_path / "w/db.db/t"
    catalog.create_table("db.t", SCHEMA, options={"path": str(place)})
    with pytest.raises(UnsupportedError, match="option 'path'"):
        catalog.rename_table("db.t", "db.u")
    assert catalog.list_tables("db") == ["t"]


def test_of_two_that_rename_one_table_one_is_told_so():
    class Late(MemoryFileIO):
        """Another renames just before."""

        def move_dir(self, source, target):
            super().move_dir(source, "/w/db.db/other")
            super().move_dir(source, target)

    catalog = tidelake.open("/w", fileio=Late())
    catalog.create_table("db.t", SCHEMA)
    with pytest.raises(NotFoundError, match="There are: other"):
        catalog.rename_table("db.t", "db.u")


def test_whether_a_table_or_database_is_there_can_be_asked(catalog, tmp_path):
    assert not catalog.database_exists("db")
    assert not catalog.table_exists("db.t")
    catalog.create_table("db.t", SCHEMA)
    catalog.create_database("empty")
    assert catalog.database_exists("db")
    assert catalog.database_exists("empty")
    assert catalog.table_exists("db.t")
    assert not catalog.table_exists("db.T")
    assert not catalog.table_exists("empty.t")
    assert catalog.database_exists("sys")
    assert catalog.table_exists("sys.catalog_options")
    assert not catalog.table_exists("sys.other")
    catalog.drop_table("db.t")
    assert not catalog.table_exists("db.t")
    (tmp_path / "warehouse/db.db/left").mkdir()
    assert not catalog.table_exists("db.left")


@pytest.mark.parametrize("name", ["t", "a.b.c", "../db.t", 5, "$files"])
def test_only_of_a_name_can_be_asked_whether_it_is_there(catalog, name):
    with pytest.raises(InvalidInputError):
        catalog.table_exists(name)
