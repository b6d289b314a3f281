"""Branches: made, written and read beside main; their names; what they share stays."""

from __future__ import annotations

import pickle
import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import tidelake
from tidelake import AlreadyExistsError, InvalidInputError, NotFoundError, UnsupportedError

KEYED = pa.schema({"k": pa.int64(), "v": pa.string()})


@pytest.fixture
def table(catalog):
    """Three commits of a key each, and tag ``two`` at the second."""
    made = catalog.create_table("db.t", KEYED, primary_keys=["k"], options={"bucket": 1})
    for k in (1, 2, 3):
        made.write([{"k": k, "v": f"main {k}"}])
    made.tags.create("two", snapshot_id=2)
    return made


def keys(table, **moment) -> list[int]:
    return sorted(table.to_arrow(**moment)["k"].to_pylist())


def test_an_empty_branch_has_the_columns_and_no_rows(catalog, table):
    table.branches.create("b")
    branch = catalog.table("db.t$branch_b")
    assert (branch.schema, branch.count(), branch.latest_snapshot_id) == (table.schema, 0, None)
    branch.write([{"k": 9, "v": "branch"}])
    assert (keys(branch), branch.latest_snapshot_id) == ([9], 1)
    assert keys(table) == [1, 2, 3]


@pytest.mark.parametrize("start", [{"tag": "two"}, {"snapshot_id": 2}])
def test_a_branch_begins_where_it_is_told(catalog, table, start):
    table.branches.create("b", **start)
    branch = catalog.table("db.t$branch_b")
    assert keys(branch) == [1, 2]
    branch.write([{"k": 2, "v": "audited"}, {"k": 9, "v": "new"}])
    table.write([{"k": 4, "v": "main 4"}])
    assert branch.to_arrow().sort_by("k")["v"].to_pylist() == ["main 1", "audited", "new"]
    assert (keys(table), keys(branch, snapshot_id=2)) == ([1, 2, 3, 4], [1, 2])
    branch.delete("k = 1")
    branch.compact(full=True)
    assert (keys(branch), keys(table)) == ([2, 9], [1, 2, 3, 4])


def test_a_branch_has_files_where_paimon_has_them(table):
    table.branches.create("b", tag="two")
    place = f"{table.paths.location}/branch/branch-b"
    found = {
        f"{d}/{status.name}"
        for d in ("schema", "snapshot", "tag")
        for status in table.fileio.list_dir(f"{place}/{d}")
    }
    assert found == {"schema/schema-0", "snapshot/snapshot-2", "tag/tag-two"}
    for path in ("snapshot/snapshot-2", "tag/tag-two", "schema/schema-0"):
        read = table.fileio.read_bytes
        assert read(f"{place}/{path}") == read(f"{table.paths.location}/{path}")


def test_one_option_opens_a_branch(table):
    table.branches.create("b", tag="two")
    assert keys(table.with_options({"branch": "b"})) == [1, 2]
    table.write([{"k": 7, "v": "x"}], options={"branch": "b"})
    assert (keys(table.branch("b")), keys(table)) == ([1, 2, 7], [1, 2, 3])
    at_two = table.with_options({"scan.snapshot-id": 2}).with_options({"branch": "b"})
    assert keys(at_two) == [1, 2]
    assert keys(table.branch("b").branch("main")) == [1, 2, 3]
    with pytest.raises(UnsupportedError, match="stores no branch"):
        table.set_options({"branch": "b"})


def test_a_branch_has_columns_of_its_own(catalog, table):
    table.branches.create("b", tag="two")
    branch = catalog.alter_table("db.t$branch_b", [tidelake.AddColumn("note", "STRING")])
    branch.write([{"k": 1, "v": "v", "note": "new"}])
    assert branch.to_arrow().sort_by("k")["note"].to_pylist() == ["new", None]
    assert catalog.table("db.t").schema.names == ["k", "v"]
    table.add_column("other", "INT")
    assert catalog.table("db.t$branch_b").schema.names == ["k", "v", "note"]


def test_system_tables_of_a_branch(catalog, table):
    table.branches.create("b", tag="two")
    branch = catalog.table("db.t$branch_b")
    branch.write([{"k": 9, "v": "x"}])
    shown = catalog.table("db.t$branch_b$snapshots")
    assert shown.identifier == "db.t$branch_b$snapshots"
    assert shown.to_arrow()["snapshot_id"].to_pylist() == [2, 3]
    assert catalog.table("db.t$branch_b$tags").to_arrow()["tag_name"].to_pylist() == ["two"]
    assert table.system_table("branch_b$audit_log").count() == branch.count()
    assert catalog.table("db.t$branches").to_arrow()["branch_name"].to_pylist() == ["b"]
    with pytest.raises(InvalidInputError, match=r"is a branch.*catalog.table"):
        table.system_table("branch_b")
    with pytest.raises(UnsupportedError, match=r"open 'db.t\$branch_b'"):
        shown.write([])


def test_a_branch_is_a_table_like_any_other(table):
    table.branches.create("b", tag="two")
    branch = table.branch("b")
    branch.tags.create("mine")
    assert [tag.name for tag in branch.tags] == ["mine", "two"]
    assert [tag.name for tag in table.tags] == ["two"]
    branch.write([{"k": 5, "v": "x"}])
    branch.rollback_to(tag="mine")
    assert keys(branch) == [1, 2]
    copied = pickle.loads(pickle.dumps(branch))
    assert (copied.identifier, keys(copied)) == ("db.t$branch_b", [1, 2])
    branch.write([{"k": 6, "v": "y"}])
    assert [r["k"] for r in branch.changes(2).to_pylist()] == [6]


@pytest.mark.parametrize("name", ["main", "12", "", " b", "a/b", "..", "a$b", "x" * 300])
def test_a_name_that_means_something_else_is_refused(table, name):
    with pytest.raises(InvalidInputError, match="is not a valid branch name"):
        table.branches.create(name)
    assert table.branches.list() == []


def test_a_name_is_taken_once(table):
    table.branches.create("b", tag="two")
    with pytest.raises(AlreadyExistsError, match=r"Branch 'b' of table 'db\.t' exists"):
        table.branches.create("b")
    table.branches.create("b", if_exists="ignore")
    assert keys(table.branch("b")) == [1, 2]
    with pytest.raises(InvalidInputError, match="a tag or a snapshot, not both"):
        table.branches.create("c", tag="two", snapshot_id=1)
    with pytest.raises(NotFoundError, match="has no tag 'twos'"):
        table.branches.create("c", tag="twos")
    with pytest.raises(NotFoundError, match="no snapshot 77"):
        table.branches.create("c", snapshot_id=77)
    assert [b.name for b in table.branches] == ["b"]


def test_a_branch_that_is_not_there_is_said_with_near_names(catalog, table):
    table.branches.create("audit")
    for wrong in ("audti", "main2"):
        with pytest.raises(NotFoundError, match="has no branch"):
            catalog.table(f"db.t$branch_{wrong}")
    with pytest.raises(NotFoundError, match="Did you mean"):
        table.branches.delete("audti")
    with pytest.raises(InvalidInputError, match="main branch"):
        table.branches.delete("main")


def test_a_creation_that_died_is_no_branch_until_it_is_deleted(catalog, table):
    part = table.paths.of_branch("b").snapshot(2)
    table.fileio.write_once(part, table.fileio.read_bytes(table.paths.snapshot(2)))
    with pytest.raises(NotFoundError, match="interrupted"):
        catalog.table("db.t$branch_b")
    with pytest.raises(AlreadyExistsError, match="interrupted"):
        table.branches.create("b", if_exists="ignore")
    table.branches.delete("b")
    table.branches.create("b", tag="two")
    assert keys(table.branch("b")) == [1, 2]


def test_a_branch_is_renamed_and_deleted(table):
    table.branches.create("b", snapshot_id=2)
    table.branches.create("taken")
    table.branches.rename("b", "c")
    assert [b.name for b in table.branches] == ["c", "taken"]
    assert keys(table.branch("c")) == [1, 2]
    with pytest.raises(AlreadyExistsError, match="'taken'"):
        table.branches.rename("c", "taken")
    table.branches.delete("c")
    with pytest.raises(NotFoundError, match="has no branch 'c'"):
        table.branch("c")
    assert [tag.name for tag in table.tags] == ["two"]


def test_a_snapshot_without_a_tag_gets_one_that_goes_with_the_branch(table):
    table.branches.create("b", snapshot_id=3)
    assert [t.name for t in table.tags] == ["tidelake-branch-b", "two"]
    table.branches.delete("b")
    assert [t.name for t in table.tags] == ["two"]


def test_the_last_tag_of_a_branchs_start_stays(table):
    table.branches.create("b", tag="two")
    with pytest.raises(InvalidInputError, match="branch 'b' began at its snapshot"):
        table.tags.delete("two")
    with pytest.raises(InvalidInputError, match="branch 'b' began at its snapshot"):
        table.tags.replace("two", snapshot_id=3)
    table.tags.create("also", snapshot_id=2)
    table.tags.delete("two")
    table.branches.delete("b")
    table.tags.delete("also")


def test_a_branch_of_a_branch(table):
    table.branches.create("b", tag="two")
    branch = table.branch("b")
    branch.write([{"k": 8, "v": "x"}])
    branch.branches.create("c", snapshot_id=3)
    assert keys(branch.branch("c")) == [1, 2, 8]
    assert [b.name for b in table.branches] == ["b", "c"]


def test_iceberg_metadata_shows_main_alone(catalog):
    made = catalog.create_table(
        "db.i", KEYED, options={"metadata.iceberg.storage": "table-location"}
    )
    made.write([{"k": 1, "v": "x"}])
    made.branches.create("b", snapshot_id=1)
    before = sorted(s.name for s in made.fileio.list_dir(f"{made.paths.location}/metadata"))
    made.branch("b").write([{"k": 2, "v": "y"}])
    after = sorted(s.name for s in made.fileio.list_dir(f"{made.paths.location}/metadata"))
    assert before == after


def test_a_fast_forward_makes_the_table_what_the_branch_is(catalog, table):
    table.branches.create("b", tag="two")
    branch = catalog.table("db.t$branch_b")
    branch.add_column("note", "STRING")
    branch.write([{"k": 9, "v": "audited", "note": "n"}])
    branch.tags.create("checked")
    table.write([{"k": 4, "v": "lost"}])
    table.tags.create("lost")
    table.add_column("lost", "INT")
    table.add_column("more", "INT")
    foreseen = table.branches.fast_forward("b", dry_run=True)
    assert keys(table) == [1, 2, 3, 4]
    done = table.branches.fast_forward("b")
    assert done == foreseen
    assert (done.snapshot_id, done.removed_snapshot_ids) == (3, (3, 4))
    assert done.removed_tags == ("lost",)
    now = catalog.table("db.t")
    assert now.schema.names == ["k", "v", "note"]
    assert (keys(now), [t.name for t in now.tags]) == ([1, 2, 9], ["checked", "two"])
    assert [h["snapshot_id"] for h in now.history().to_pylist()] == [1, 2, 3]
    assert now.handle.schemas.ids() == [0, 1]
    now.write([{"k": 10, "v": "goes on", "note": None}])
    assert (keys(now), keys(branch)) == ([1, 2, 9, 10], [1, 2, 9])
    assert now.branches.fast_forward("b").removed_snapshot_ids == (4,)
    assert keys(catalog.table("db.t")) == [1, 2, 9]


def test_a_fast_forward_of_a_branch_that_began_empty_replaces_all(catalog, table):
    table.branches.create("b")
    branch = catalog.table("db.t$branch_b")
    with pytest.raises(InvalidInputError, match="has no snapshot"):
        table.branches.fast_forward("b")
    for k in range(5):
        branch.write([{"k": k, "v": "new"}])
    assert table.branches.fast_forward("b").removed_snapshot_ids == (1, 2, 3)
    assert keys(catalog.table("db.t")) == [0, 1, 2, 3, 4]
    assert [t.name for t in table.tags] == []


def test_a_fast_forward_where_first_snapshots_have_expired(catalog, table):
    table.branches.create("b", tag="two")
    branch = catalog.table("db.t$branch_b")
    for k in (6, 7):
        branch.write([{"k": k, "v": "new"}])
    branch.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    done = table.branches.fast_forward("b")
    assert done.removed_snapshot_ids == (1, 2, 3)
    now = catalog.table("db.t")
    assert (keys(now), now.handle.snapshots.ids(), keys(now, tag="two")) == (
        [1, 2, 6, 7],
        [4],
        [1, 2],
    )
    table.branches.delete("b")
    now.write([{"k": 1, "v": "x"}])
    now.compact(full=True)
    now.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    assert keys(now, tag="two") == [1, 2]


def test_where_no_tag_tells_the_start_a_fast_forward_is_refused(catalog, table):
    table.branches.create("b", tag="two")
    branch = catalog.table("db.t$branch_b")
    branch.write([{"k": 6, "v": "new"}])
    branch.write([{"k": 7, "v": "new"}])
    branch.tags.delete("two")
    branch.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    with pytest.raises(UnsupportedError, match="cannot be told which snapshots of main stay"):
        table.branches.fast_forward("b")
    assert keys(table) == [1, 2, 3]


@pytest.mark.parametrize("name", ["main", "gone"])
def test_what_is_no_other_branch_is_not_fast_forwarded(table, name):
    with pytest.raises((InvalidInputError, NotFoundError), match=name):
        table.branches.fast_forward(name)


def test_a_search_for_orphans_on_a_branch_is_one_of_the_table(table):
    table.branches.create("b", tag="two")
    branch = table.branch("b")
    branch.write([{"k": 9, "v": "x"}])
    table.fileio.write_once(f"{table.paths.location}/bucket-0/data-lost-0.parquet", b"x")
    time.sleep(0.02)
    found = branch.maintenance.remove_orphan_files(
        older_than=datetime.now(UTC) - timedelta(milliseconds=5), dry_run=True
    )
    assert [path.rsplit("/", 1)[1] for path in found.files["path"].to_pylist()] == [
        "data-lost-0.parquet"
    ]


def test_a_fast_forward_leaves_a_tag_that_keeps_another_branch(catalog, table):
    """Java's expiry keeps the files that branch ``c`` has of main by a tag alone."""
    table.branches.create("b", tag="two")
    table.branches.create("c", snapshot_id=3)
    table.branch("b").write([{"k": 9, "v": "b"}])
    for name in ("other", "again"):
        table.tags.create(name, snapshot_id=3)
    done = table.branches.fast_forward("b")
    kept = {t.name for t in catalog.table("db.t").tags}
    assert done.removed_tags == ("again", "other", "tidelake-branch-c")
    assert kept == {"tidelake-branch-c", "two"}
    now = catalog.table("db.t")
    assert (keys(now), keys(now.branch("c"))) == ([1, 2, 9], [1, 2, 3])
    now.compact(full=True)
    now.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    assert (keys(now, tag="tidelake-branch-c"), keys(now.branch("c"))) == ([1, 2], [1, 2, 3])
    now.branches.delete("c")
    assert ([t.name for t in now.tags], keys(now)) == (["two"], [1, 2, 9])


def test_whether_a_branch_exists_is_answered(catalog, table):
    table.branches.create("b")
    names = ["db.t$branch_b", "db.t$branch_b$files", "db.t$branch_x", "db.t$files", "db.t$x"]
    assert [catalog.table_exists(name) for name in names] == [True, True, False, True, False]
    assert not catalog.table_exists("db.none$branch_b")
