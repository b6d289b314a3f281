"""Branches of tables whose snapshots a catalog's server decides."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from servers.rest_catalog import RestCatalogServer

import tidelake
from tidelake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    OutcomeUnknownError,
    StorageRefusedError,
    UnsupportedError,
)
from tidelake.maintenance import call
from tidelake.telemetry import Env

COLUMNS = pa.schema({"k": pa.int64(), "v": pa.string()})
BRANCHES = "/tables/t/branches"


@pytest.fixture
def server(tmp_path):
    with RestCatalogServer(tmp_path) as started:
        yield started


@pytest.fixture
def catalog(server):
    return tidelake.open(catalog=server.options(), env=Env.seeded(1))


@pytest.fixture
def table(catalog):
    made = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options={"bucket": "1"})
    made.write([{"k": 1, "v": "a"}, {"k": 2, "v": "a"}])
    return made


def rows_of(table, **moment):
    return sorted(tuple(row.values()) for row in table.to_arrow(**moment).to_pylist())


def test_rows_are_written_to_a_branch_audited_and_published(server, catalog, table):
    table.branches.create("audit", snapshot_id=1)
    branch = catalog.table("db.t$branch_audit")
    branch.write([{"k": 2, "v": "b"}, {"k": 3, "v": "b"}])
    branch.compact(full=True)
    assert rows_of(table) == [(1, "a"), (2, "a")]
    assert rows_of(catalog.table("db.t$branch_audit")) == [(1, "a"), (2, "b"), (3, "b")]
    assert server.count("POST /v1/tide+lake/databases/db/tables/t%24branch_audit/commit") == 2
    assert [(b.name, b.snapshot_id) for b in table.branches] == [("audit", 3)]
    done = table.branches.fast_forward("audit")
    assert (done.snapshot_id, done.removed_snapshot_ids, done.removed_tags) == (3, (), ())
    published = catalog.table("db.t")
    assert rows_of(published) == [(1, "a"), (2, "b"), (3, "b")]
    published.write([{"k": 4, "v": "c"}])
    assert published.count() == 4
    assert server.log("db.t").latest_id() == 4
    assert rows_of(published, snapshot_id=1) == [(1, "a"), (2, "a")]
    published.branches.delete("audit")
    assert published.branches.list() == []
    assert published.tags.list() == []  # the one that was made for the branch
    with pytest.raises(NotFoundError, match=r"has no branch 'audit'\. It has none"):
        catalog.table("db.t$branch_audit")
    assert published.count() == 4


def test_what_a_publish_replaces_is_told(table):
    table.tags.create("start")
    table.branches.create("b", tag="start")
    table.write([{"k": 9, "v": "lost"}])
    table.tags.create("late")
    table.branch("b").write([{"k": 3, "v": "b"}])
    done = table.branches.fast_forward("b")
    assert (done.snapshot_id, done.removed_snapshot_ids) == (2, (2,))
    assert done.removed_tags == ("late",)
    assert rows_of(table.branch("b")) == [(1, "a"), (2, "a"), (3, "b")]


def test_an_empty_branch_has_the_schema_of_its_own(catalog, table):
    table.branches.create("empty")
    branch = table.branch("empty")
    assert branch.to_arrow().num_rows == 0
    with pytest.raises(InvalidInputError, match="has no snapshot: write to it first"):
        table.branches.fast_forward("empty")
    branch.alter(tidelake.AddColumn("n", pa.int32()))
    catalog.table("db.t$branch_empty").write([{"k": 7, "v": "x", "n": 1}])
    assert rows_of(table.branch("empty")) == [(7, "x", 1)]
    assert table.schema.names == catalog.table("db.t").schema.names == ["k", "v"]
    assert rows_of(catalog.table("db.t$branch_empty").branch("main")) == [(1, "a"), (2, "a")]


def test_a_branch_is_rolled_back_and_fills_what_main_lacks(server, catalog):
    parts = catalog.create_table(
        "db.p", pa.schema({"d": pa.string(), "v": pa.int64()}), partition_keys=["d"]
    )
    parts.write([{"d": "1", "v": 1}])
    parts.branches.create("b", snapshot_id=1)
    branch = parts.branch("b")
    branch.write([{"d": "2", "v": 2}])
    branch.write([{"d": "3", "v": 3}])
    branch.rollback_to(snapshot_id=2)
    assert server.tables["db", "p"].branches["b"].newest.id == 2
    parts.alter(tidelake.SetOption("scan.fallback-branch", "b"))
    assert rows_of(catalog.table("db.p")) == [("1", 1), ("2", 2)]
    with pytest.raises(InvalidInputError, match=r"it is the table's 'scan\.fallback-branch'"):
        catalog.table("db.p").branches.delete("b")


def test_what_a_server_does_not_do_is_refused(table):
    table.branches.create("b", snapshot_id=1)
    with pytest.raises(UnsupportedError, match="Paimon's REST API has no call for it"):
        table.branches.rename("b", "c")
    with pytest.raises(UnsupportedError, match="leave out the dry run"):
        table.branches.fast_forward("b", dry_run=True)
    with pytest.raises(AlreadyExistsError, match=r"Branch 'b' of table 'db\.t' exists"):
        table.branches.create("b")
    table.branches.create("b", if_exists="ignore")
    with pytest.raises(NotFoundError, match=r"has no branch 'bb'. Did you mean 'b'\?"):
        table.branch("bb")
    with pytest.raises(NotFoundError, match="has no tag 'no'"):
        table.branches.create("c", tag="no")


def test_procedures_and_copies_use_branches(catalog, table):
    call(catalog, "create_branch", (), {"table": "db.t", "branch": "b", "snapshot": 1})
    pickle.loads(pickle.dumps(table.branch("b"))).write([{"k": 3, "v": "b"}])
    call(catalog, "fast_forward", ("db.t", "b"))
    assert rows_of(catalog.table("db.t")) == [(1, "a"), (2, "a"), (3, "b")]
    call(catalog, "delete_branch", ("db.t", "b"))
    assert catalog.table("db.t").branches.list() == []


@pytest.mark.parametrize("mode", ["lost", "status_after", "html_after"])
@pytest.mark.parametrize("change", ["create", "forward", "delete"])
def test_a_change_whose_answer_is_lost_is_looked_up(server, table, change, mode):
    if change != "create":
        table.branches.create("b", snapshot_id=1)
        table.branch("b").write([{"k": 3, "v": "b"}])
    method, path = ("DELETE", BRANCHES) if change == "delete" else ("POST", BRANCHES)
    server.fault(mode, method, path)
    if change == "create":
        table.branches.create("b", snapshot_id=1)
        assert [b.name for b in table.branches] == ["b"]
    elif change == "forward":
        table.branches.fast_forward("b")
        assert table.count() == 3
    else:
        table.branches.delete("b")
        assert (table.branches.list(), table.tags.list()) == ([], [])


@pytest.mark.parametrize("change", ["create", "forward", "delete"])
def test_a_change_that_was_not_made_and_not_answered_is_unknown(server, table, change):
    if change != "create":
        table.branches.create("b", snapshot_id=1)
        table.branch("b").write([{"k": 3, "v": "b"}])
    method = "DELETE" if change == "delete" else "POST"
    server.fault("drop", method, BRANCHES)
    done = {
        "create": lambda: table.branches.create("b", snapshot_id=1),
        "forward": lambda: table.branches.fast_forward("b"),
        "delete": lambda: table.branches.delete("b"),
    }
    with pytest.raises(OutcomeUnknownError, match="It is unknown whether"):
        done[change]()
    done[change]()  # again: the tag that the first try made serves the second
    assert [t.name for t in table.tags] == ([] if change == "delete" else ["tidelake-branch-b"])


def test_a_refused_branch_leaves_no_tag(server, table):
    server.fault("status", "POST", BRANCHES, status=403)
    with pytest.raises(StorageRefusedError, match="403"):
        table.branches.create("b", snapshot_id=1)
    assert table.tags.list() == []


def test_a_commit_to_a_deleted_branch_is_refused(table):
    table.branches.create("b", snapshot_id=1)
    branch = table.branch("b")
    table.branches.delete("b")
    with pytest.raises(NotFoundError, match=r"db\.t\$branch_b"):
        branch.write([{"k": 3, "v": "b"}])
    assert table.count() == 2
