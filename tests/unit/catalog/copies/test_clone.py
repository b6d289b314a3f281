"""Copies of tables: the same rows, files of their own, and nothing after a failure."""

from __future__ import annotations

import json
import os

import pytest
from proving.expiring import ALL, TABLES, Meanwhile, check, make, rows, states, work
from proving.fsck import check_table, walk
from sizes import FULL, SIZE

import tidelake
from tidelake import (
    AlreadyExistsError,
    ConflictError,
    CorruptError,
    InvalidInputError,
    NotFoundError,
    StorageError,
)
from tidelake.cli.main import main
from tidelake.fileio import LocalFileIO, MemoryFileIO
from tidelake.maintenance import call
from tidelake.sql import SqlSession, execute, parse
from tidelake.telemetry import Env
from tidelake.testing import FaultMode, FaultyFileIO, SimulatedCrash


def first_file(files, table):
    """The data file that is copied first: the largest."""
    found = [(-size, p) for p, size in walk(files, table.location) if p.endswith(".parquet")]
    live = {f.file_name for split in table.plan().splits for f in split.files}
    return min((size, p) for size, p in found if p.rpartition("/")[2] in live)[1]


KINDS = TABLES if SIZE is FULL else ["partitions", "append-dv", "dynamic", "lookup", "dv"]


ONE_BUCKET = {"bucket": "1"}
SUMS = ONE_BUCKET | {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
PARTS = ONE_BUCKET | {"merge-engine": "partial-update"}
ORDERED = ONE_BUCKET | {
    "pk-clustering-override": "true",
    "clustering.columns": "v",
    "deletion-vectors.enabled": "true",
}


def opened(files, where="/w", seed=11):
    return tidelake.open(where, fileio=files, env=Env.seeded(seed))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("history", [False, True])
def test_a_copy_lives_by_itself(kind, history):
    files = MemoryFileIO()
    table = make(files, **TABLES[kind])
    work(table, 9 if SIZE is FULL else 4)
    shown = rows(table)
    catalog = opened(files)
    done = catalog.clone_table("db.t", "db.c", history=history)
    copy = catalog.table("db.c")
    assert (rows(copy), done.linked_count) == (shown, done.files_count)
    if history:
        assert states(copy) == states(table)
    check(copy)
    check_table(files, copy.paths.location)
    # the source goes, bit by bit
    table.write([{"k": 1, "v": -1, "p": "a"}])
    table.compact(full=True)
    table.maintenance.expire_snapshots(**ALL)
    check(copy)
    catalog.drop_table("db.t")
    assert rows(copy) == shown
    # and the copy is a table as any other
    copy.write([{"k": 77, "v": 7, "p": "a"}])
    copy.delete("k = 77")
    copy.compact(full=True)
    copy.maintenance.expire_snapshots(**ALL)
    copy.maintenance.remove_orphan_files()
    assert rows(opened(files, seed=12).table("db.c")) == shown
    check(copy)


def test_bytes_are_shared_on_a_file_system_and_go_with_the_last_name(tmp_path):
    catalog = tidelake.open(tmp_path)
    table = catalog.create_table("db.t", {"k": "INT"})
    table.write([{"k": 1}, {"k": 2}])
    catalog.clone_table("db.t", "db.c")
    (path,) = [p for p, _ in walk(LocalFileIO(), table.location) if p.endswith(".parquet")]
    assert os.stat(path).st_nlink == 2
    table.delete("k = 1")
    table.maintenance.expire_snapshots(**ALL)
    assert not os.path.exists(path)
    assert catalog.table("db.c").count() == 2


def test_between_storages_bytes_are_copied(tmp_path):
    files = MemoryFileIO()
    table = make(files, **TABLES["lookup"])
    work(table, 4)
    table.tags.create("x", snapshot_id=3)
    there = tidelake.open(tmp_path)
    done = there.clone_table(table, "a.b", history=True)
    assert (done.linked_count, done.tags, done.snapshots_count) == (0, ("x",), len(states(table)))
    assert states(there.table("a.b")) == states(table)
    assert rows(there.table("a.b"), tag="x") == rows(table, tag="x")
    assert there.table("a.b").branches.list() == []
    check(there.table("a.b"))


def test_a_moment_has_its_columns_and_rows():
    files = MemoryFileIO()
    table = make(files, **TABLES["partitions"])
    table.write([{"k": 1, "v": 1, "p": "a"}, {"k": 2, "v": 1, "p": "b"}])
    table.tags.create("x")
    table.alter(tidelake.RenameColumn("v", "w"), tidelake.AddColumn("z", "INT"))
    table.write([{"k": 3, "w": 3, "p": "b", "z": 3}])
    table.tags.create("y")
    table.maintenance.expire_snapshots(**ALL)
    catalog = opened(files)
    catalog.clone_table("db.t", "db.x", tag="x")
    catalog.clone_table("db.t", "db.y", snapshot=2)
    catalog.clone_table("db.t", "db.w", where="p = 'b'")
    assert catalog.table("db.x").schema.names == ["k", "v", "p"]
    assert rows(catalog.table("db.x")) == rows(table, tag="x")
    assert rows(catalog.table("db.y")) == rows(table)
    assert catalog.table("db.w").to_arrow().sort_by("k").to_pylist() == [
        {"k": 2, "w": 1, "p": "b", "z": None},
        {"k": 3, "w": 3, "p": "b", "z": 3},
    ]
    branch = table.branches.create("b", tag="x")
    del branch
    table.branch("b").write([{"k": 9, "v": 9, "p": "a"}])
    catalog.clone_table("db.t$branch_b", "db.b")
    assert rows(catalog.table("db.b")) == rows(table.branch("b"))


def test_ids_of_rows_stay():
    catalog = opened(MemoryFileIO())
    table = catalog.create_table("db.t", {"k": "INT"}, options={"row-tracking.enabled": "true"})
    for k in range(3):
        table.write([{"k": k}])
    catalog.clone_table("db.t", "db.c")
    copy = catalog.table("db.c")
    tracked = [t.system_table("row_tracking").to_arrow() for t in (table, copy)]
    assert tracked[0].sort_by("k") == tracked[1].sort_by("k")
    copy.write([{"k": 9}])
    ids = copy.system_table("row_tracking").to_arrow()["_ROW_ID"].to_pylist()
    assert sorted(ids) == [0, 1, 2, 3]


def test_what_cannot_be_is_refused_before_the_first_byte(tmp_path):
    catalog = tidelake.open(tmp_path)
    table = catalog.create_table("db.t", {"k": "INT", "p": "INT"}, partition_keys=["p"])
    table.write([{"k": 1, "p": 1}])
    catalog.create_table("db.c", {"k": "INT"})
    before = sorted(walk(LocalFileIO(), str(tmp_path)))
    for error, given in (
        (AlreadyExistsError, {"target": "db.c"}),
        (NotFoundError, {"snapshot": 9}),
        (NotFoundError, {"tag": "none"}),
        (InvalidInputError, {"tag": "none", "snapshot": 1}),
        (InvalidInputError, {"where": "k = 1"}),
        (InvalidInputError, {"history": True, "where": "p = 1"}),
        (InvalidInputError, {"source": "db.t$files"}),
    ):
        with pytest.raises(error):
            catalog.clone_table(**{"source": "db.t", "target": "db.new", **given})
    shown = catalog.clone_table("db.t", "db.new", dry_run=True)
    assert (shown.files_count, shown.dry_run) == (1, True)
    assert "would be copied" in str(shown)
    for path, _ in before:
        if path.endswith(".parquet"):
            os.rename(path, f"{path}.away")
            with pytest.raises(CorruptError, match="nothing was copied"):
                catalog.clone_table("db.t", "db.new")
            os.rename(f"{path}.away", path)
    assert sorted(walk(LocalFileIO(), str(tmp_path))) == before


@pytest.mark.parametrize("history", [False, True])
@pytest.mark.parametrize("mode", [FaultMode.EIO_BEFORE, FaultMode.EIO_AFTER])
def test_after_a_failure_there_is_no_table_or_a_whole_one(history, mode):
    made = MemoryFileIO()
    table = make(made, **TABLES["partitions"])
    work(table, 3)
    shown = rows(table)
    whole = FaultyFileIO(made)
    opened(whole).clone_table("db.t", "db.c", history=history)
    opened(made).drop_table("db.c")
    before = sorted(walk(made, "/w"))
    for number in range(1, len(whole.trace) + 1, 1 if SIZE is FULL else 3):
        faulty = FaultyFileIO(made, {number: mode})
        try:
            opened(faulty).clone_table("db.t", "db.c", history=history)
        except (StorageError, tidelake.TidelakeError):
            if not opened(made).table_exists("db.c"):
                left = [p for p, _ in walk(made, "/w/db.db/c")]
                assert left == [], whole.trace[number - 1]
            else:  # in doubt, or the drop failed
                assert opened(made).table("db.c").count() in {0, len(shown)}
        if opened(made).table_exists("db.c"):
            assert rows(opened(made).table("db.c")) in ([], shown)
            opened(made).drop_table("db.c")
        assert sorted(walk(made, "/w")) == before


@pytest.mark.parametrize("history", [False, True])
def test_a_killed_copy_reads_as_empty_or_whole(history):
    made = MemoryFileIO()
    table = make(made, **TABLES["dynamic"])
    work(table, 2)
    shown = rows(table)
    number = 0
    while True:
        number += 1 if SIZE is FULL else 4
        faulty = FaultyFileIO(made, {number: FaultMode.CRASH_AFTER})
        try:
            opened(faulty).clone_table("db.t", "db.c", history=history)
        except SimulatedCrash:
            catalog = opened(made)
            if catalog.table_exists("db.c"):
                assert rows(catalog.table("db.c")) in ([], shown)
                catalog.drop_table("db.c")
            else:
                made.delete_dir("/w/db.db/c")
            continue
        break
    assert rows(opened(made).table("db.c")) == shown


def test_who_writes_to_the_copy_meanwhile_keeps_his_rows():
    made = MemoryFileIO()
    table = make(made, **TABLES["append"])
    work(table, 2)
    others = opened(made, seed=3)

    def write():
        others.table("db.c").write([{"k": 5, "v": 5, "p": "a"}])

    beside = Meanwhile(made, "copy_within", first_file(made, table), write)
    with pytest.raises(ConflictError, match="Others have written"):
        opened(beside).clone_table("db.t", "db.c")
    copy = opened(made).table("db.c")
    assert copy.to_arrow().to_pylist() == [{"k": 5, "v": 5, "p": "a"}]
    check(copy)


def test_an_expiry_beside_it_takes_nothing_of_the_copy(tmp_path):
    source = tidelake.open(tmp_path)
    table = source.create_table("db.t", {"k": "INT"})
    table.write([{"k": 1}])
    shown = table.to_arrow()

    def expire():
        own = tidelake.open(tmp_path).table("db.t")
        own.write([{"k": 2}], mode="overwrite")
        own.maintenance.expire_snapshots(**ALL)

    files = LocalFileIO()
    path = first_file(files, table)
    beside = Meanwhile(files, "copy_within", path, expire)
    tidelake.open(tmp_path, fileio=beside).clone_table("db.t", "db.c")
    assert source.table("db.c").to_arrow() == shown
    assert source.table("db.t").count() == 1
    assert table.to_arrow().to_pylist() == [{"k": 2}]
    assert source.table("db.t$consumers").count() == 0
    table.maintenance.expire_snapshots(**ALL)
    assert not files.exists(path)


@pytest.mark.parametrize("history", [False, True])
def test_a_table_that_was_opened_before_others_altered_it_is_copied_whole(history):
    files = MemoryFileIO()
    old = make(files, **TABLES["append"])
    table = opened(files).table("db.t")
    table.alter(tidelake.AddColumn("z", "INT"))
    table.write([{"k": 1, "v": 1, "p": "a", "z": 1}])
    catalog = opened(files)
    catalog.clone_table(old, "db.c", history=history)
    assert rows(catalog.table("db.c")) == rows(table)


def test_who_commits_on_a_history_that_fails_keeps_all_files():
    made = MemoryFileIO()
    table = make(made, **TABLES["append"])
    for k in range(4):
        table.write([{"k": k, "v": k, "p": "a"}])
    path = "/w/db.db/c/snapshot/snapshot-3"

    def write():
        opened(made, seed=3).table("db.c").write([{"k": 5, "v": 5, "p": "a"}])

    whole = FaultyFileIO(made)
    opened(whole).clone_table("db.t", "db.c", history=True)
    opened(made).drop_table("db.c")
    number = next(e.call for e in whole.trace if e.path == path and e.op == "put_if_absent")
    beside = Meanwhile(made, "put_if_absent", path, write)
    faulty = FaultyFileIO(beside, {number: FaultMode.EIO_AFTER})
    with pytest.raises(StorageError):
        opened(faulty).clone_table("db.t", "db.c", history=True)
    copy = opened(made).table("db.c")
    assert sorted(copy.to_arrow()["k"].to_pylist()) == [0, 1, 2, 3, 5]
    copy.compact(full=True)
    assert copy.count() == 5


def test_a_history_gives_way_to_a_writer_that_came_first():
    made = MemoryFileIO()
    table = make(made, **TABLES["append"])
    for k in range(3):
        table.write([{"k": k, "v": k, "p": "a"}])

    def write():
        opened(made, seed=3).table("db.c").write([{"k": 5, "v": 5, "p": "a"}])

    for act, where in (
        ("copy_within", first_file(made, table)),
        ("put_if_absent", "/w/db.db/c/snapshot/snapshot-3"),
    ):
        beside = Meanwhile(made, act, where, write)
        with pytest.raises(ConflictError, match="Others have written"):
            opened(beside).clone_table("db.t", "db.c", history=True)
        names = {s.name for s in made.list_dir("/w/db.db/c/snapshot")}
        assert names == {"snapshot-1", "LATEST", "EARLIEST"}
        copy = opened(made).table("db.c")
        assert copy.to_arrow()["k"].to_pylist() == [5]
        check(copy)
        opened(made).drop_table("db.c")


KEYED = {"primary_keys": ["k"], "options": {"bucket": "2", "deletion-vectors.enabled": "true"}}


def test_an_empty_table_that_is_alike_takes_the_files():
    files = MemoryFileIO()
    catalog = opened(files)
    columns = {"k": "INT NOT NULL", "v": "STRING"}
    table = catalog.create_table("db.t", columns, **KEYED)
    for number in range(3):
        table.write([{"k": number, "v": "old"}, {"k": 7, "v": str(number)}])
    own = {"snapshot.num-retained.min": "1", **KEYED["options"]}
    made = catalog.create_table("db.c", columns, primary_keys=["k"], options=own)
    shown = rows(table)
    dry = catalog.clone_table("db.t", "db.c", dry_run=True)
    assert made.latest_snapshot_id is None
    done = catalog.clone_table("db.t", "db.c")
    assert (done.snapshot_id, done.files_count) == (1, dry.files_count)
    assert rows(made) == shown
    check(made)
    check_table(files, made.paths.location)
    catalog.drop_table("db.t")
    copy = opened(files, seed=12).table("db.c")
    copy.write([{"k": 0, "v": "new"}])
    copy.compact(full=True)
    assert sorted(tuple(row.values()) for row in copy.to_arrow().to_pylist()) == [
        (0, "new"),
        (1, "old"),
        (2, "old"),
        (7, "2"),
    ]
    check(copy)


@pytest.mark.parametrize(
    ("what", "columns", "more"),
    [
        ("columns, or ids of columns", {"k": "INT NOT NULL", "w": "STRING"}, {}),
        ("columns, or ids of columns", {"k": "BIGINT NOT NULL", "v": "STRING NOT NULL"}, {}),
        ("primary key", {"k": "INT NOT NULL", "v": "STRING NOT NULL"}, {"primary_keys": []}),
        (
            "partition columns",
            {"k": "INT NOT NULL", "v": "STRING NOT NULL"},
            {"primary_keys": ["k", "v"], "partition_keys": ["v"]},
        ),
        ("'bucket'", {"k": "INT NOT NULL", "v": "STRING NOT NULL"}, {"bucket": "3"}),
        (
            "'merge-engine'",
            {"k": "INT NOT NULL", "v": "STRING NOT NULL"},
            {"merge-engine": "first-row"},
        ),
        (
            "'constraint.few'",
            {"k": "INT NOT NULL", "v": "STRING NOT NULL"},
            {"constraint.few": "k < 9"},
        ),
    ],
)
def test_a_table_that_is_not_alike_takes_no_files(what, columns, more):
    files = MemoryFileIO()
    catalog = opened(files)
    source = {"k": "INT NOT NULL", "v": "STRING NOT NULL"}
    options = {"bucket": "2"}
    table = catalog.create_table("db.t", source, primary_keys=["k"], options=options)
    table.write([{"k": 1, "v": "a"}])
    keys = {name: more.pop(name) for name in ("primary_keys", "partition_keys") if name in more}
    given = {"primary_keys": ["k"], **keys}
    if not given["primary_keys"]:
        options = {**options, "bucket-key": "k"}
    catalog.create_table("db.c", columns, **given, options={**options, **more})
    before = sorted(walk(files, "/w"))
    with pytest.raises(AlreadyExistsError, match=f"Table 'db.c' exists, and has other .*{what}"):
        catalog.clone_table("db.t", "db.c")
    assert sorted(walk(files, "/w")) == before


@pytest.mark.parametrize(
    ("source", "target", "what"),
    [
        (SUMS | {"changelog-producer": "lookup"}, SUMS, "changelog-producer"),
        (SUMS, SUMS | {"changelog-producer": "lookup"}, "changelog-producer"),
        (PARTS | {"changelog-producer": "lookup"}, PARTS, "changelog-producer"),
        (ORDERED, ORDERED | {"clustering.columns": "w"}, "clustering.columns"),
    ],
)
def test_a_table_whose_files_mean_something_else_takes_none(source, target, what):
    files = MemoryFileIO()
    catalog = opened(files)
    columns = {"k": "INT", "v": "INT", "w": "STRING"}
    made = {}
    for name, options in (("db.t", source), ("db.c", target)):
        made[name] = catalog.create_table(name, columns, primary_keys=["k"], options=options)
    made["db.t"].write([{"k": 1, "v": 1, "w": "a"}])
    before = sorted(walk(files, "/w"))
    with pytest.raises(AlreadyExistsError, match=f"other values than the source of '{what}'"):
        catalog.clone_table("db.t", "db.c")
    assert sorted(walk(files, "/w")) == before


def test_a_table_with_snapshots_takes_no_files_and_no_history():
    catalog = opened(MemoryFileIO())
    for name in ("db.t", "db.c"):
        catalog.create_table(name, {"k": "INT"}).write([{"k": 1}])
    catalog.create_table("db.e", {"k": "INT"})
    with pytest.raises(AlreadyExistsError, match="has snapshots, while files are brought only"):
        catalog.clone_table("db.t", "db.c")
    with pytest.raises(AlreadyExistsError, match="a copy with its history is a new table"):
        catalog.clone_table("db.t", "db.e", history=True)
    assert catalog.table("db.c").count() == 1


def test_schemas_of_an_existing_table_are_its_own():
    catalog = opened(MemoryFileIO())
    table = catalog.create_table("db.t", {"k": "INT", "v": "INT"})
    table.write([{"k": 1, "v": 1}])
    table = table.alter(tidelake.AddColumn("w", "INT"))
    made = catalog.create_table("db.c", {"k": "INT", "v": "INT"}).alter(
        tidelake.SetOption("a.b", "1"), tidelake.AddColumn("w", "INT")
    )
    with pytest.raises(tidelake.UnsupportedError, match="files of older columns"):
        catalog.clone_table("db.t", "db.c")
    table.delete("k = 1")
    table.write([{"k": 2, "v": 2, "w": 2}])
    table.compact(full=True)
    catalog.clone_table("db.t", "db.c")
    assert made.to_arrow().to_pylist() == [{"k": 2, "v": 2, "w": 2}]
    check(catalog.table("db.c"))


def test_who_writes_to_an_existing_target_meanwhile_keeps_his_rows():
    made = MemoryFileIO()
    table = make(made, **TABLES["append"])
    work(table, 2)
    opened(made).create_table("db.c", table.schema, options=dict(table.table_schema.options))
    others = opened(made, seed=3)

    def write():
        others.table("db.c").write([{"k": 5, "v": 5, "p": "a"}])

    beside = Meanwhile(made, "copy_within", first_file(made, table), write)
    with pytest.raises(ConflictError, match="Others have written"):
        opened(beside).clone_table("db.t", "db.c")
    copy = opened(made).table("db.c")
    assert copy.to_arrow().to_pylist() == [{"k": 5, "v": 5, "p": "a"}]


@pytest.mark.parametrize("mode", [FaultMode.EIO_AFTER, FaultMode.CRASH_AFTER])
def test_an_existing_target_reads_as_empty_or_whole_after_a_failure(mode):
    made = MemoryFileIO()
    table = make(made, **TABLES["append"])
    work(table, 2)
    shown = rows(table)
    opened(made).create_table("db.c", table.schema, options=dict(table.table_schema.options))
    number = 0
    while rows(opened(made).table("db.c")) != shown:
        number += 1 if SIZE is FULL else 5
        faulty = FaultyFileIO(made, {number: mode})
        try:
            opened(faulty).clone_table("db.t", "db.c")
        except (tidelake.TidelakeError, SimulatedCrash):
            assert rows(opened(made).table("db.c")) in ([], shown)
    check(opened(made).table("db.c"))


@pytest.mark.parametrize(
    "option",
    ["scan.primary-branch=b", "scan.tag-name=x", "scan.snapshot-id=1", "consumer-id=c"],
)
def test_options_that_name_what_is_not_carried_stay_behind(tmp_path, option):
    catalog = tidelake.open(tmp_path)
    table = catalog.create_table("db.t", {"k": "INT"})
    table.write([{"k": 1}])
    table.tags.create("x")
    table.branches.create("b", tag="x")
    key, _, value = option.partition("=")
    table.alter(tidelake.SetOption(key, value))
    catalog.clone_table("db.t", "db.c")
    assert key not in catalog.table("db.c").table_schema.options
    assert catalog.table("db.c").count() == 1
    if key == "scan.tag-name":
        catalog.clone_table("db.t", "db.h", history=True)
        assert catalog.table("db.h").table_schema.options[key] == "x"
        assert catalog.table("db.h").count() == 1


def test_options_of_the_source_s_place_stay_behind(tmp_path):
    catalog = tidelake.open(tmp_path)
    table = catalog.create_table("db.t", {"k": "INT"}, options={"target-file-size": "1 mb"})
    table.write([{"k": 1}])
    table.branches.create("b")
    table.alter(tidelake.SetOption("scan.fallback-branch", "b"))
    catalog.clone_table("db.t", "db.c")
    options = catalog.table("db.c").table_schema.options
    assert "scan.fallback-branch" not in options
    assert options["target-file-size"] == "1 mb"
    assert catalog.table("db.c").count() == 1


def test_procedures_copy_tables_and_databases(tmp_path):
    catalog = tidelake.open(tmp_path / "a")
    for name in ("t", "u", "v"):
        catalog.create_table(f"db.{name}", {"k": "INT"}).write([{"k": 1}])
    (dry,) = call(catalog, "copy", ("db.t", "db.c"), {"dry_run": True}).to_pylist()
    assert (dry["result"], dry["filesCount"]) == (False, 1)
    (done,) = call(catalog, "copy", ("db.t", "db.c")).to_pylist()
    assert done == {**dry, "result": True}
    with pytest.raises(AlreadyExistsError):
        call(catalog, "copy", ("db.t", "db.c"))
    conf = f"warehouse={tmp_path / 'b'}"
    given = {"database": "db", "target_catalog_conf": conf, "excluded_tables": "u,db.v"}
    (dry,) = call(catalog, "clone", named={**given, "dry_run": True}).to_pylist()
    assert dry["result"].startswith("Would copy: 2 (2 files, ")
    (answer,) = call(catalog, "clone", named=given).to_pylist()
    assert answer["result"].startswith("Success: 2 (2 files, ")
    there = tidelake.open(tmp_path / "b")
    assert there.list_tables("db") == ["c", "t"]
    given = {"database": "db", "target_catalog_conf": conf, "clone_if_exists": False}
    (answer,) = call(catalog, "clone", named=given).to_pylist()
    assert answer["result"].endswith("Skipped: 2, Failed: 0")
    (answer,) = call(catalog, "clone", named={**given, "clone_if_exists": None}).to_pylist()
    assert "Success: 0" in answer["result"]
    assert "Failed: 4; db.c: Table 'db.c' exists" in answer["result"]
    for wrong in (
        {"database": "db", "clone_from": "hive"},
        {"database": "db", "meta_only": True},
        {"table": "t"},
        {"database": "db", "target_table": "x"},
        {"database": "db", "table": "t", "excluded_tables": "t", "target_table": "z"},
        {"database": "db", "table": "t", "parallelism": 0, "target_table": "z"},
    ):
        with pytest.raises(InvalidInputError):
            call(catalog, "clone", named=wrong)
    with pytest.raises(NotFoundError, match=r"no table 'db\.x'"):
        call(catalog, "clone", named={"database": "db", "included_tables": "x"})


def test_sql_copies_from_another_catalog(tmp_path):
    tidelake.open(tmp_path / "a").create_table("db.t", {"k": "INT"}).write([{"k": 1}])
    session = SqlSession(tidelake.open(tmp_path / "b"))

    def run(text):
        (statement,) = parse(text)
        return execute(statement, session)

    run(f"CREATE CATALOG a WITH ('type' = 'paimon', 'warehouse' = '{tmp_path / 'a'}')")
    run("CALL sys.copy(source_table => 'a.db.t', target_table => 't')")
    assert tidelake.open(tmp_path / "b").table("default.t").count() == 1
    with pytest.raises(NotFoundError, match="no catalog 'x'"):
        run("CALL sys.copy('x.db.t', 'u')")


def test_the_command_copies_to_another_warehouse(tmp_path, capsys):
    tidelake.open(tmp_path / "a").create_table("db.t", {"k": "INT"}).write([{"k": 1}])
    words = ["clone", "-w", str(tmp_path / "a"), "t", "u", "-d", "db"]
    assert main([*words, "--to", str(tmp_path / "b"), "--history", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["snapshots_count"] == 1
    assert tidelake.open(tmp_path / "b").table("db.u").count() == 1
    assert main([*words, "--dry-run"]) == 0
    assert "db.t would be copied to db.u: 1 file " in capsys.readouterr().out
    assert main([*words, "--snapshot", "x"]) == 2
    assert main([*words, "--to-option", "a=b"]) == 2
    assert main([*words, "--to", str(tmp_path / "c"), "--to-option", "table-default.bucket=4"]) == 0
    assert main([*words, "--snapshot", "7"]) == 1
