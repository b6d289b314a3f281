"""What users of Delta, pyiceberg and pypaimon type works, or the error names the call to make."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from typing import Any

import pyarrow as pa
import pytest

import tidelake
from tidelake import InvalidInputError, UnsupportedError
from tidelake.foreign_names import OF_CATALOG, OF_PACKAGE, OF_SCAN, OF_TABLE, AnswersForeignNames
from tidelake.table import TableScan

COLUMNS = {"dt": "STRING", "k": "INT", "v": "STRING"}
ROWS = [{"dt": "mon", "k": 1, "v": "a"}, {"dt": "tue", "k": 2, "v": "b"}]
NAMES = {
    "table": (tidelake.Table, OF_TABLE),
    "catalog": (tidelake.Catalog, OF_CATALOG),
    "scan": (TableScan, OF_SCAN),
    "tidelake": (tidelake, OF_PACKAGE),
}


@pytest.fixture
def world(tmp_path):
    """The names that a guess may use."""
    catalog = tidelake.open(tmp_path / "warehouse")
    table = catalog.create_table("db.t", COLUMNS, partition_keys=["dt"])
    table.write(ROWS)
    keyed = catalog.create_table("db.keyed", COLUMNS, primary_keys=["k"], options={"bucket": 1})
    keyed.write(ROWS)
    return {
        "tidelake": tidelake,
        "catalog": catalog,
        "table": table,
        "keyed": keyed,
        "scan": table.scan(),
        "rows": ROWS,
    }


WORKS = [
    ("deltalake", "table.to_pandas().shape", (2, 3)),
    ("deltalake", "table.history().num_rows", 1),
    ("deltalake", "table.count()", 2),
    ("deltalake", "table.delete(\"v = 'a'\").rows", 1),
    ("deltalake", "table.update({'v': 'c'}, 'k = 2').rows", 1),
    ("pyiceberg", "catalog.load_table('db.t').identifier", "db.t"),
    ("pyiceberg", "table.name", "t"),
    ("pyiceberg", "table.location.endswith('/warehouse/db.db/t')", True),
    ("pyiceberg", "table.append(rows).rows", 2),
    ("pyiceberg", "table.overwrite(rows).rows", 2),
    ("pyiceberg", "keyed.upsert(rows).rows", 2),
    ("pyiceberg", "table.scan().to_arrow().num_rows", 2),
    ("pyiceberg", "table.scan(where='k > 1', columns=['v']).to_pandas()['v'].tolist()", ["b"]),
    ("pyiceberg", "table.scan(limit=1).to_polars().shape", (1, 3)),
    ("pyiceberg", "table.scan().to_duckdb().fetchall().__len__()", 2),
    ("pyiceberg", "table.scan(snapshot_id=1).count()", 2),
    ("pyiceberg", "len(table.scan())", 2),
    ("pyiceberg", "catalog.table_exists('db.t')", True),
    ("pyiceberg", "table.head(1).num_rows", 1),
    ("pypaimon", "table.copy({'scan.snapshot-id': 1}).to_arrow().num_rows", 2),
    ("pypaimon", "catalog.list_databases()", ["db"]),
    ("pypaimon", "table.primary_keys + table.partition_keys", ("dt",)),
]

SAYS = [
    ("deltalake", "tidelake.DeltaTable", "tidelake.open(warehouse).table('db.t')"),
    ("deltalake", "tidelake.write_deltalake", "table.append(rows), table.overwrite(rows)"),
    ("deltalake", "tidelake.Table('/data/t')", "tidelake.open(warehouse).table('db.t')"),
    ("deltalake", "table.vacuum()", "table.maintenance.expire_snapshots()"),
    ("deltalake", "table.optimize.compact()", "table.compact()"),
    ("deltalake", "table.restore(1)", "table.rollback_to(snapshot_id)"),
    ("deltalake", "table.version()", "table.latest_snapshot_id"),
    ("deltalake", "table.to_pyarrow_table()", "table.to_arrow()"),
    ("deltalake", "table.to_pyarrow_dataset()", "table.to_batches()"),
    ("deltalake", "table.load_cdf()", "table.changes(start, end)"),
    ("deltalake", "table.load_as_version(1)", "table.scan(snapshot_id=)"),
    ("deltalake", "table.files()", "table.system_table('files').to_arrow()"),
    ("deltalake", "table.merge(rows)", "table.upsert(rows)"),
    ("deltalake", "table.table_uri", "table.location"),
    ("pyiceberg", "tidelake.load_catalog('local')", "tidelake.open(warehouse, catalog={...})"),
    ("pyiceberg", "catalog.create_namespace('db')", "catalog.create_database(name)"),
    ("pyiceberg", "catalog.list_namespaces()", "catalog.list_databases()"),
    (
        "pyiceberg",
        "catalog.create_table_if_not_exists('db.t')",
        "catalog.create_table(name, schema, if_exists='ignore')",
    ),
    ("pyiceberg", "table.snapshots()", "table.history()"),
    ("pyiceberg", "table.current_snapshot()", "table.latest_snapshot_id"),
    ("pyiceberg", "table.inspect.files()", "table.system_table('files').to_arrow()"),
    ("pyiceberg", "table.update_schema()", "table.add_column(name, type)"),
    ("pyiceberg", "table.refresh()", "every call reads the newest snapshot"),
    ("pyiceberg", "table.properties", "table.options"),
    ("pyiceberg", "table.transaction()", "table.writer()"),
    ("pyiceberg", "table.scan().to_arrow_batch_reader()", "scan.reader()"),
    ("pyiceberg", "table.scan().plan_files()", "scan.plan.splits"),
    ("pyiceberg", "keyed.append(rows)", "use upsert(), or write()"),
    ("pyiceberg", "table.upsert(rows)", "use append(), or create it with primary_keys=[...]"),
    ("pypaimon", "tidelake.CatalogFactory", "tidelake.open(warehouse, catalog={...})"),
    ("pypaimon", "tidelake.Schema", "catalog.create_table(name, schema)"),
    ("pypaimon", "catalog.get_table('db.t')", "catalog.table(name)"),
    ("pypaimon", "table.new_read_builder()", "table.scan(columns=, where=, limit=).to_arrow()"),
    ("pypaimon", "table.new_batch_write_builder()", "table.write(rows), table.writer()"),
    ("pypaimon", "table.snapshot_manager()", "table.history()"),
    ("pypaimon", "table.table_path", "table.location"),
    ("others", "table.read()", "table.to_arrow()"),
    ("others", "table.delete_where('k = 1')", "table.delete('k > 1')"),
    ("others", "table.to_table()", "table.to_arrow()"),
]


def test_there_are_enough_guesses_of_each_origin():
    assert len(WORKS) + len(SAYS) >= 35
    origins = [origin for origin, *_ in (*WORKS, *SAYS)]
    assert {name: origins.count(name) >= 8 for name in ("deltalake", "pyiceberg", "pypaimon")} == {
        "deltalake": True,
        "pyiceberg": True,
        "pypaimon": True,
    }


@pytest.mark.parametrize(("guess", "answer"), [line[1:] for line in WORKS])
def test_a_guess_works(world, guess, answer):
    assert eval(guess, world) == answer


@pytest.mark.parametrize(("guess", "said"), [line[1:] for line in SAYS])
def test_a_guess_is_told_what_to_write(world, guess, said):
    with pytest.raises((AttributeError, InvalidInputError, UnsupportedError)) as caught:
        eval(guess, world)
    assert said in str(caught.value)


@pytest.mark.parametrize("owner", NAMES)
def test_no_name_is_answered_that_exists(owner):
    holder, names = NAMES[owner]
    known = set(dir(holder))
    if holder is TableScan:
        known |= set(TableScan.__dataclass_fields__)
    assert not known & names.keys()


@pytest.mark.parametrize("owner", NAMES)
def test_every_call_that_an_answer_names_exists(owner):
    wrong = [
        (found.name, code)
        for found in NAMES[owner][1].values()
        for code in re.findall(r"`((?:table|catalog|scan|tidelake)\.[^`]*)`", found.instead)
        if not names_what_is_there(code)
    ]
    assert not wrong


def names_what_is_there(code):
    owner, _, rest = code.partition(".")
    name, parameters = re.match(r"(\w+)(?:\(([^()]*)\))?", rest).groups()
    holder = NAMES[owner][0]
    if not hasattr(holder, name):
        return name in getattr(holder, "__dataclass_fields__", ()) or code == "tidelake.spark"
    named = re.findall(r"(\w+)=", parameters or "")
    return set(named) <= inspect.signature(getattr(holder, name)).parameters.keys() if named else 1


@pytest.mark.parametrize("owner", NAMES)
def test_a_name_that_nobody_has_gets_pythons_own_error(world, owner):
    for name in ("no_such_thing", "_no_such_thing_", "__no_such_thing__", "_repr_svg_"):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'") as caught:
            getattr(world[owner], name)
        assert caught.value.name == name
        assert not hasattr(world[owner], name)
    assert not any(hasattr(world[owner], name) for name in NAMES[owner][1])


def test_copies_and_pickles_are_made_as_before(world):
    for name in ("table", "catalog", "scan"):
        for made in (copy.copy(world[name]), pickle.loads(pickle.dumps(world[name]))):
            assert type(made) is type(world[name])
            assert repr(made) == repr(world[name])
    assert copy.deepcopy(world["table"]).to_arrow() == world["table"].to_arrow()


def test_an_object_without_its_state_has_no_endless_search():
    kinds: list[Any] = [tidelake.Table, tidelake.Catalog, TableScan]
    for kind in kinds:
        with pytest.raises(AttributeError, match="_handle"):
            _ = object.__new__(kind)._handle


def test_a_property_that_fails_keeps_its_own_error():
    class Broken(AnswersForeignNames):
        @property
        def size(self):
            raise AttributeError("the body failed")

    with pytest.raises(AttributeError, match="the body failed"):
        _ = Broken().size


# ---- the meanings behind the words


def test_an_append_keeps_equal_rows_and_an_upsert_does_not(world):
    world["table"].append(ROWS)
    world["keyed"].upsert(ROWS)
    assert (world["table"].count(), world["keyed"].count()) == (4, 2)


def test_a_refused_append_or_upsert_writes_nothing(world):
    for name, verb, kind in (
        ("keyed", "append", "append_keyed"),
        ("table", "upsert", "upsert_append"),
    ):
        with pytest.raises(UnsupportedError) as caught:
            getattr(world[name], verb)(ROWS)
        assert caught.value.kind == kind
        assert world[name].latest_snapshot_id == 1


@pytest.mark.parametrize(
    ("overwrite", "left"),
    [
        ({}, ["a", "c"]),
        ({"partition": {"dt": "tue"}}, ["a", "c"]),
        ({"options": {"dynamic-partition-overwrite": False}}, ["c"]),
    ],
)
def test_an_overwrite_replaces_partitions_or_the_whole_table(world, overwrite, left):
    world["table"].overwrite([{"dt": "tue", "k": 3, "v": "c"}], **overwrite)
    assert sorted(world["table"].to_arrow()["v"].to_pylist()) == left


def test_an_overwrite_of_a_table_without_partitions_replaces_all_of_it(world):
    world["keyed"].overwrite([{"dt": "wed", "k": 9, "v": "z"}])
    assert world["keyed"].to_arrow()["k"].to_pylist() == [9]


def test_an_append_is_done_once_with_its_identity(world):
    for _ in range(2):
        world["table"].append(ROWS, commit_user="job", commit_identifier=7)
    assert world["table"].count() == 4


# ---- a scan's rows in other libraries


def test_a_scan_gives_one_set_of_rows_to_every_library(world):
    scan = world["table"].scan(columns=["k", "v"], where="k >= 1")
    expected = {"k": [1, 2], "v": ["a", "b"]}
    assert scan.to_arrow().sort_by("k").to_pydict() == expected
    assert scan.to_pandas().sort_values("k").to_dict("list") == expected
    assert scan.to_polars().sort("k").to_dict(as_series=False) == expected
    assert scan.to_duckdb().order("k").to_arrow_table().to_pydict() == expected
    assert scan.to_pandas(types_mapper=lambda _: None).shape == (2, 2)


@pytest.mark.parametrize("name", ["table", "keyed"])
@pytest.mark.parametrize(
    ("wanted", "rows"), [({}, 2), ({"limit": 1}, 1), ({"limit": 0}, 0), ({"where": "k > 1"}, 1)]
)
def test_the_length_of_a_scan_is_the_number_of_its_rows(world, name, wanted, rows):
    scan = world[name].scan(**wanted)
    assert len(scan) == scan.count() == scan.to_arrow().num_rows == rows


def test_the_length_of_a_merge_is_that_of_its_result(world):
    world["keyed"].write([{"dt": "mon", "k": 1, "v": "new"}])
    assert len(world["keyed"].scan()) == 2


def test_the_length_reads_no_file_where_metadata_has_it(world, monkeypatch):
    def read(*_args, **_more):
        raise AssertionError("a file was read")

    monkeypatch.setattr("tidelake.table.read.table_scan.read_split", read)
    assert len(world["table"].scan(limit=1)) == 1
    assert len(world["table"].scan()) == 2


def test_the_scan_of_a_view_gives_the_same(world):
    view = world["catalog"].table("db.keyed$audit_log")
    scan = view.scan(columns=["rowkind", "k"], limit=1)
    assert (len(scan), scan.to_arrow().num_rows, scan.to_pandas().shape) == (1, 1, (1, 2))
    assert view.to_polars().shape == (2, 4)


def test_system_tables_still_convert(world):
    files = world["catalog"].load_table("db.t$files")
    assert isinstance(files.to_arrow(), pa.Table)
    assert len(files.to_pandas()) == files.to_polars().height == files.count() == 2
    with pytest.raises(UnsupportedError, match="system table"):
        files.append(ROWS)


def test_completion_offers_what_users_need(world):
    table, catalog = world["table"], world["catalog"]
    assert {"handle", "paths", "fileio", "__getattr__"}.isdisjoint(_public(table))
    assert {"metastore", "first_schema", "for_reading"}.isdisjoint(_public(catalog))
    assert {"context", "masks"}.isdisjoint(_public(table.scan()))
    assert {"tags", "maintenance", "scan", "write", "compact"} <= _public(table)
    # of a table itself: comparing versions, and its health, have a method each
    of_versions, of_health = {"diff", "blame", "bisect"}, {"doctor", "fsck", "repair_plan"}
    assert of_versions | of_health <= _public(table)
    assert len(_public(table) - of_versions - of_health) <= 56
    of_tags = {"create", "create_due", "delete", "expire", "list", "rename", "replace"}
    assert _public(table.tags) == of_tags


def _public(value):
    return {name for name in dir(value) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("argument", "here"),
    [("filter", "where"), ("row_filter", "where"), ("selected_fields", "columns"),
     ("version", "snapshot_id")],
)  # fmt: skip
@pytest.mark.parametrize("method", ["scan", "to_arrow", "count", "explain"])
def test_arguments_of_others_say_what_they_are_called_here(world, method, argument, here):
    with pytest.raises(TypeError, match=rf"{argument}': use {here}="):
        getattr(world["table"], method)(**{argument: "k > 1"})


@pytest.mark.parametrize("method", ["stream", "changes"])
def test_only_arguments_that_there_are_are_named(world, method):
    start = () if method == "stream" else (0,)
    with pytest.raises(TypeError, match="row_filter': use where="):
        getattr(world["table"], method)(*start, row_filter="k > 1")
    with pytest.raises(TypeError, match="unexpected keyword argument 'version'"):
        getattr(world["table"], method)(*start, version=1)


def test_to_look_for_a_namespace_of_a_system_table_is_no_error(world):
    files = world["catalog"].table("db.t$files")
    assert hasattr(files, "tags")
    assert inspect.getmembers(files)
    with pytest.raises(UnsupportedError, match="is a system table"):
        files.maintenance.expire_snapshots()


def test_an_argument_that_nobody_has_is_python_s_own_error(world):
    with pytest.raises(TypeError, match="unexpected keyword argument 'no_such'"):
        world["table"].scan(no_such="k > 1")
