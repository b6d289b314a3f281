"""A branch is published: what of the table stays, and what others do to it meanwhile."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest
from proving.fsck import walk

import tidelake
from tidelake import ConflictError, CorruptError, InvalidInputError, NotFoundError
from tidelake.fileio import LocalFileIO, MemoryFileIO
from tidelake.testing import FaultMode, FaultyFileIO, SimulatedCrash

KEYED = pa.schema({"k": pa.int64(), "v": pa.string()})


class Beside(FaultyFileIO):
    """Others act right after the file of a name was replaced or deleted, once."""

    acts: dict[tuple[str, str], object]

    def _act(self, call, path):
        act = self.acts.pop((call, path.rsplit("/", 1)[1]), None)
        if act is not None:
            act()

    def replace(self, path, data, **held):
        super().replace(path, data, **held)
        self._act("replace", path)

    def delete(self, path, **held):
        done = super().delete(path, **held)
        self._act("delete", path)
        return done


def created(catalog):
    options = {"bucket": 1, "write-only": True}
    return catalog.create_table("db.t", KEYED, primary_keys=["k"], options=options)


def with_branch(catalog):
    """Main: three commits of a key each. Branch ``b`` begins at tag ``two``, the second."""
    made = created(catalog)
    put(made, 1, 2, 3)
    made.tags.create("two", snapshot_id=2)
    made.branches.create("b", tag="two")
    return made


@pytest.fixture
def table(catalog):
    return with_branch(catalog)


def keys(table, **moment) -> list[int]:
    return sorted(table.to_arrow(**moment)["k"].to_pylist())


def put(table, *ks):
    for k in ks:
        table.write([{"k": k, "v": "x"}])


# ---- commits meanwhile


def beside(tmp_path, acts):
    """The table on a storage on which others act, and how they see it."""
    inner = LocalFileIO()
    others = tidelake.open(str(tmp_path), fileio=inner)
    table = with_branch(others)
    files = Beside(inner)
    files.acts = acts
    return tidelake.open(str(tmp_path), fileio=files).table("db.t"), others, table


def test_a_commit_over_a_snapshot_of_the_branch_does_not_undo_the_publish(tmp_path):
    """It takes 4: on the chain the newest is main's own 3 until the branch's 3 is there."""
    acts = {}
    ours, others, theirs = beside(tmp_path, acts)
    put(theirs.branch("b"), 8, 9)
    acts["replace", "snapshot-4"] = lambda: put(theirs, 66)
    done = ours.branches.fast_forward("b")
    now = others.table("db.t")
    assert (keys(now), now.latest_snapshot_id, done.snapshot_id) == ([1, 2, 8, 9], 4, 4)


def test_a_commit_behind_what_is_removed_goes_too(tmp_path):
    acts = {}
    ours, others, theirs = beside(tmp_path, acts)
    put(theirs.branch("b"), 8)
    put(theirs, 4)
    acts["delete", "LATEST"] = lambda: put(theirs, 66)
    done = ours.branches.fast_forward("b")
    now = others.table("db.t")
    assert (keys(now), now.handle.snapshots.ids()) == ([1, 2, 8], [1, 2, 3])
    assert done.removed_snapshot_ids == (3, 4, 5)


def test_a_commit_that_follows_the_branch_stays(tmp_path):
    acts = {}
    ours, others, theirs = beside(tmp_path, acts)
    put(theirs.branch("b"), 8)
    acts["replace", "snapshot-3"] = lambda: put(theirs, 66)
    done = ours.branches.fast_forward("b")
    now = others.table("db.t")
    assert (keys(now), done.removed_snapshot_ids) == ([1, 2, 8, 66], (3,))


def test_a_publish_that_others_undid_is_no_success(tmp_path):
    acts = {}
    ours, _, theirs = beside(tmp_path, acts)
    put(theirs.branch("b"), 8)
    path = theirs.paths.snapshot(3)
    acts["replace", "LATEST"] = lambda: theirs.fileio.replace(
        path, theirs.fileio.read_bytes(theirs.paths.snapshot(2))
    )
    with pytest.raises(ConflictError, match=r"beside .*call it again"):
        ours.branches.fast_forward("b")
    ours.branches.fast_forward("b")
    assert keys(ours) == [1, 2, 8]


def test_writers_that_are_faster_end_it(tmp_path):
    acts = {}
    ours, _, theirs = beside(tmp_path, acts)
    put(theirs.branch("b"), 8)

    def undo():
        path = theirs.paths.snapshot(3)
        theirs.fileio.replace(path, theirs.fileio.read_bytes(theirs.paths.snapshot(2)))
        acts["replace", "snapshot-3"] = undo

    acts["replace", "snapshot-3"] = undo
    with pytest.raises(ConflictError, match="faster"):
        ours.branches.fast_forward("b")


# ---- another table of the name


@pytest.mark.parametrize(
    "moment",
    [
        ("replace", "tag-new"),
        ("delete", "LATEST"),
        ("replace", "snapshot-4"),
        ("replace", "LATEST"),
    ],
)
@pytest.mark.parametrize("kind", ["memory", "local"])
def test_nothing_comes_into_another_table_of_that_name(tmp_path, kind, moment):
    inner = MemoryFileIO() if kind == "memory" else LocalFileIO()
    others = tidelake.open(str(tmp_path), fileio=inner)
    branch = with_branch(others).branch("b")
    put(branch, 8, 9)
    branch.tags.create("new")
    files = Beside(inner)
    ours = tidelake.open(str(tmp_path), fileio=files).table("db.t")

    def anew():
        others.drop_table("db.t")
        put(created(others), 70)

    files.acts = {moment: anew}
    with pytest.raises(NotFoundError, match="dropped and recreated"):
        ours.branches.fast_forward("b")
    now = others.table("db.t")
    assert (keys(now), now.handle.snapshots.ids(), list(now.tags)) == ([70], [1], [])
    names = [s.name for s in inner.list_dir(now.paths.snapshot_dir)]
    assert [n for n in names if n.startswith("snapshot-")] == ["snapshot-1"]
    put(now, 71)
    assert keys(others.table("db.t")) == [70, 71]


# ---- tags


def test_tags_from_before_the_branch_began_stay(table):
    table.tags.create("2026-11-28", snapshot_id=1)
    branch = table.branch("b")
    put(branch, 8)
    branch.tags.create("2026-11-28", snapshot_id=2)
    branch.tags.create("checked")
    assert table.branches.fast_forward("b").removed_tags == ()
    found = {tag.name: tag.snapshot_id for tag in table.tags}
    assert found == {"2026-11-28": 1, "checked": 3, "two": 2}


def test_another_tag_of_the_first_snapshot_stays(table):
    table.tags.create("release", snapshot_id=2)
    table.tags.create("lost", snapshot_id=3)
    put(table.branch("b"), 8)
    assert table.branches.fast_forward("b").removed_tags == ("lost",)
    assert keys(table, tag="release") == [1, 2]


# ---- files that are no snapshots, and late ones


def test_a_file_of_another_name_is_no_snapshot(table):
    put(table.branch("b"), 8)
    stray = f"{table.paths.snapshot_dir}/snapshot-x"
    table.fileio.write_once(stray, b"{}")
    assert table.branches.fast_forward("b").snapshot_id == 3
    assert (keys(table), table.fileio.exists(stray)) == ([1, 2, 8], True)


def test_a_snapshot_that_came_late_is_not_the_earliest(catalog, table):
    late = table.fileio.read_bytes(table.paths.snapshot(1))
    put(table, 4)
    table.branches.create("c", snapshot_id=4)
    put(table.branch("c"), 8)
    table.maintenance.expire_snapshots(retain_max=2, retain_min=1)
    table.fileio.write_once(table.paths.snapshot(1), late)
    assert table.handle.snapshots.ids() == [3, 4]
    table.branches.fast_forward("c")
    now = catalog.table("db.t")
    assert (now.handle.snapshots.ids(), now.handle.snapshots.earliest_id()) == ([3, 4, 5], 3)


# ---- schemas


def both_altered(catalog):
    """Schema 1 is another one in main than in the branch, with rows of each."""
    table = with_branch(catalog)
    branch = catalog.alter_table("db.t$branch_b", [tidelake.AddColumn("note", "STRING")])
    branch.write([{"k": 8, "v": "x", "note": "n"}])
    main = catalog.alter_table("db.t", [tidelake.AddColumn("lost", "INT")])
    main.write([{"k": 4, "v": "x", "lost": 7}])
    return table, branch


def test_rows_are_read_by_the_branchs_schemas_where_first_snapshots_expired(catalog):
    both_altered(catalog)
    branch = catalog.alter_table("db.t$branch_b", [tidelake.AddColumn("more", "INT")])
    branch.write([{"k": 9, "v": "x", "note": "n", "more": 1}])
    branch.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    shown = branch.to_arrow().sort_by("k")
    catalog.table("db.t").branches.fast_forward("b")
    assert catalog.table("db.t").to_arrow().sort_by("k") == shown


def test_no_row_is_read_by_the_schema_of_the_other_side_meanwhile(tmp_path):
    files = MemoryFileIO()
    catalog = tidelake.open(str(tmp_path), fileio=files)
    both_altered(catalog)
    of_branch = catalog.table("db.t$branch_b").to_arrow().sort_by("k")
    changes = Beside(files)
    seen, failed = [], []

    def look():
        try:
            seen.append(catalog.table("db.t").to_arrow().sort_by("k"))
        except CorruptError as error:
            failed.append(str(error))

    names = ("snapshot-3", "snapshot-4", "tag-two", "schema-1", "LATEST")
    changes.acts = {(call, name): look for call in ("replace", "delete") for name in names}
    tidelake.open(str(tmp_path), fileio=changes).table("db.t").branches.fast_forward("b")
    assert seen[-1] == of_branch
    assert all("written with schema 1, but the table has only [0]" in text for text in failed)
    for found in seen:
        assert found.schema.names == ["k", "v"] or found == of_branch


def test_a_branch_of_another_table_is_refused(table):
    put(table.branch("b"), 8)
    other = dataclasses.replace(table.handle.schemas.load(0), time_ms=7)
    table.fileio.replace(table.paths.of_branch("b").schema(0), other.to_json().encode())
    with pytest.raises(InvalidInputError, match="another table"):
        table.branches.fast_forward("b")
    assert keys(table) == [1, 2, 3]


# ---- a process that dies


@pytest.mark.parametrize("kind", ["plain", "both altered", "expired"])
def test_a_second_call_ends_what_a_killed_one_began(kind):
    made = MemoryFileIO()
    catalog = tidelake.open("/w", fileio=made)
    if kind == "both altered":
        both_altered(catalog)
    else:
        put(with_branch(catalog).branch("b"), 6, 7, 8)
    branch = catalog.table("db.t$branch_b")
    if kind == "expired":
        branch.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    shown = branch.to_arrow().sort_by("k")
    ids = branch.handle.snapshots.ids()
    ids = ids if kind == "expired" else [1, *ids]
    whole = FaultyFileIO(copied(made))
    tidelake.open("/w", fileio=whole).table("db.t").branches.fast_forward("b")
    calls = [entry.call for entry in whole.trace if entry.op in {"replace", "delete"}]
    assert len(calls) > 5
    for call in calls:
        files = copied(made)
        dying = FaultyFileIO(files, {call: FaultMode.CRASH_AFTER})
        with pytest.raises(SimulatedCrash):
            tidelake.open("/w", fileio=dying).table("db.t").branches.fast_forward("b")
        again = tidelake.open("/w", fileio=files)
        again.table("db.t").branches.fast_forward("b")
        now = again.table("db.t")
        assert now.to_arrow().sort_by("k") == shown, whole.trace[call - 1]
        assert [h["snapshot_id"] for h in now.history().to_pylist()] == ids


def copied(files):
    made = MemoryFileIO()
    for path, _ in walk(files, "/w"):
        made.write_once(path, files.read_bytes(path))
    return made
