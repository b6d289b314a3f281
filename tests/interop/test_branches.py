"""Branches beside Java 1.3.1: each reads, writes and publishes those of the other."""

from __future__ import annotations

import pytest

from interop.cells import difference, table_cells
from interop.test_versions import KINDS, check_goes_on, copied, files, hints, made, opened

pytestmark = pytest.mark.oracle


def forked(peer, path, kind):
    """A table with tag ``fork`` at its second snapshot."""
    made(peer, path, kind)
    peer.do("version", path, do="create_tag", name="fork", snapshot=2)
    return path


def check_branch(peer, path, name="b") -> None:
    """Java and we read one thing of a branch."""
    columns, rows = peer.read(path, {"branch": name})
    assert difference(rows, table_cells(opened(path).branch(name).to_arrow()), columns) is None


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_branch_has_the_files_of_javas_and_both_write_to_it(peer, tmp_path, kind):
    source = forked(peer, tmp_path / "made/db.db/t", kind)
    java, ours = copied(source, tmp_path / "java"), copied(source, tmp_path / "ours")
    peer.do("version", java, do="branch", name="b", tag="fork")
    opened(ours).branches.create("b", tag="fork")
    assert files(ours) == files(java)
    for path in (ours, java):
        check_branch(peer, path)
        opened(path).branch("b").write([{"k": 41, "v": "ours", "t": None}])
        check_branch(peer, path)
        peer.do("write", path, rows=[["+I", "42", "s:java", None]], options={"branch": "b"})
        check_branch(peer, path)
        assert {41, 42} <= set(opened(path).branch("b").to_arrow()["k"].to_pylist())
        assert not {41, 42} & set(opened(path).to_arrow()["k"].to_pylist())
        opened(path).maintenance.expire_snapshots(retain_max=1, retain_min=1)
        check_branch(peer, path)
        check_goes_on(peer, path)


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", ["keyed", "dynamic", "appended"])
def test_a_fast_forward_leaves_what_java_leaves(peer, tmp_path, kind):
    source = forked(peer, tmp_path / "made/db.db/t", kind)
    opened(source).branches.create("b", tag="fork")
    opened(source).branch("b").write([{"k": 41, "v": "ours", "t": None}])
    peer.do("write", source, rows=[["+I", "42", "s:java", None]], options={"branch": "b"})
    java, ours = copied(source, tmp_path / "java"), copied(source, tmp_path / "ours")
    peer.do("version", java, do="fast_forward", name="b")
    opened(ours).branches.fast_forward("b")
    assert files(ours) == files(java)
    # Java copies the branch's EARLIEST, and so forgets main's first snapshot
    assert (hints(ours)["LATEST"], hints(ours)["EARLIEST"]) == (hints(java)["LATEST"], "1")
    found = opened(ours).to_arrow()
    for place in (ours, java):
        columns, rows = peer.read(place)
        assert difference(rows, table_cells(found), columns) is None
    check_goes_on(peer, ours)


def test_a_branch_of_a_snapshot_outlives_javas_expiry(peer, tmp_path):
    path = tmp_path / "made/db.db/t"
    made(peer, path, "keyed")
    opened(path).branches.create("b", snapshot_id=2)
    then = peer.read(path, {"branch": "b"})
    peer.do("compact", path, full=True)
    peer.do("version", path, do="expire")
    assert opened(path).history().num_rows == 1
    assert peer.read(path, {"branch": "b"}) == then
    check_branch(peer, path)


def test_a_branch_whose_start_a_fast_forward_replaced_outlives_javas_expiry(peer, tmp_path):
    """What the other branch shares with the published one is kept by a tag, and by nothing else."""
    path = tmp_path / "made/db.db/t"
    made(peer, path, "keyed")
    table = opened(path)
    table.branches.create("b", snapshot_id=1)
    table.branches.create("c", snapshot_id=3)
    then = peer.read(path, {"branch": "c"})
    table.branch("b").write([{"k": 41, "v": "ours", "t": None}])
    table.branches.fast_forward("b")
    table = opened(path)
    table.branches.delete("b")
    peer.do("compact", path, full=True)
    peer.do("version", path, do="expire")
    assert table.history().num_rows == 1
    assert peer.read(path, {"branch": "c"}) == then
    check_branch(peer, path, "c")
    assert [tag.name for tag in table.tags] == ["tidelake-branch-c"]
    table.branches.delete("c")
    assert not [tag.name for tag in table.tags]
    check_goes_on(peer, path)
