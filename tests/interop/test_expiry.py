"""Expiry: of one table Java 1.3.1 and we leave the same files; each goes on with the other's."""

from __future__ import annotations

import json

import pytest

import tidelake
from interop.cells import difference, table_cells
from interop.test_versions import KINDS, check_goes_on, check_same, copied, files, made, opened
from tidelake import InvalidInputError
from tidelake.maintenance import call

pytestmark = pytest.mark.oracle

LONGER = {"changelog.num-retained.min": "100", "changelog.num-retained.max": "100"}


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", KINDS)
def test_an_expiry_leaves_what_java_leaves(peer, tmp_path, kind):
    source = tmp_path / "made/db.db/t"
    last = made(peer, source, kind, commits=6)
    for snapshot in (2, last - 2):
        peer.do("version", source, do="create_tag", name=f"s{snapshot}", snapshot=snapshot)
    peer.do("version", source, do="analyze")
    peer.do("compact", source, full=True)
    newest = opened(source).latest_snapshot_id
    java, ours = copied(source, tmp_path / "java"), copied(source, tmp_path / "ours")
    for keeps in (newest - 1, 3, 1):
        peer.do("version", java, do="expire", keeps=keeps)
        expired = opened(ours).maintenance.expire_snapshots(retain_max=keeps, retain_min=1)
        assert len(expired.ids) > 0
        assert opened(ours).history().num_rows == keeps
        check_same(peer, ours, java)
    for snapshot in (2, last - 2):
        for place in (ours, java):
            columns, rows = peer.read(place, {"scan.tag-name": f"s{snapshot}"})
            found = opened(ours).to_arrow(tag=f"s{snapshot}")
            assert difference(rows, table_cells(found), columns) is None
    assert len(files(source)) > len(files(ours))
    check_goes_on(peer, ours)


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", ["keyed", "logged", "appended"])
def test_changelogs_that_outlive_their_snapshots_are_those_of_java(peer, tmp_path, kind):
    source = tmp_path / "made/db.db/t"
    last = made(peer, source, kind)
    told = [opened(source).changes(start, mode="auto").to_pylist() for start in range(last)]
    java, ours = copied(source, tmp_path / "java"), copied(source, tmp_path / "ours")
    peer.do("version", java, do="expire", keepsChangelogs=True)
    opened(ours).with_options(LONGER).maintenance.expire_snapshots(retain_max=1, retain_min=1)
    check_same(peer, ours, java)
    java_log, our_log = java / "changelog", ours / "changelog"
    assert (our_log / "LATEST").read_text() == (java_log / "LATEST").read_text() == str(last - 1)
    assert [opened(ours).changes(start, mode="auto").to_pylist() for start in range(last)] == told
    for number in range(1, last):  # java's batch reads want snapshots; its streams read these
        name = f"changelog/changelog-{number}"
        assert _said(ours / name) == _said(java / name)
    peer.do("version", java, do="expire_changelogs", keeps=3)
    call(_catalog(ours), "expire_changelogs", ("db.t", 3, 1))
    java_left, left = files(java), files(ours)
    # java looks at a changelog's own age, and keeps the newest of them whatever happens
    assert left <= java_left
    assert {p for p in java_left - left if not p.startswith("changelog/EARLIEST")} == set()
    check_goes_on(peer, ours)
    opened(ours).maintenance.expire_changelogs(delete_all=True)
    assert not [p for p in files(ours) if p.startswith("changelog/")]
    check_goes_on(peer, ours)


def _said(path):
    """What a file of JSON says; Java 2.1 leaves out what is empty."""
    document = json.loads(path.read_text())
    document.pop("tidelake.checksum", None)
    return {key: value for key, value in document.items() if value not in (None, {})}


def _catalog(path):
    return tidelake.open(path.parents[1])


def test_java_expires_what_we_left_and_we_what_java_left(peer, tmp_path):
    path = tmp_path / "made/db.db/t"
    made(peer, path, "logged", commits=6)
    before = opened(path).to_arrow()
    for turn in range(3):
        opened(path).with_options(LONGER).maintenance.expire_snapshots(
            retain_max=5 - turn, retain_min=1
        )
        peer.do("version", path, do="expire", keeps=4 - turn, keepsChangelogs=True)
        assert opened(path).history().num_rows == 4 - turn
    columns, rows = peer.read(path)
    assert difference(rows, table_cells(before), columns) is None
    peer.do("version", path, do="expire_changelogs", keeps=2)
    opened(path).maintenance.expire_changelogs(delete_all=True)
    check_goes_on(peer, path)


def test_a_consumer_of_java_holds_ours_back(peer, tmp_path):
    path = tmp_path / "made/db.db/t"
    last = made(peer, path, "logged")
    peer.do("version", path, do="consumer", name="c", snapshot=3)
    assert opened(path).maintenance.expire_snapshots(retain_max=1, retain_min=1).ids == (1, 2)
    java = copied(path, tmp_path / "java")
    peer.do("version", java, do="expire", keeps=1)
    assert opened(java).history().num_rows == last - 2
    assert files(java) == files(path)


def test_a_branch_of_java_keeps_its_files(peer, tmp_path):
    path = tmp_path / "made/db.db/t"
    made(peer, path, "keyed")
    peer.do("version", path, do="create_tag", name="fork", snapshot=2)
    peer.do("version", path, do="branch", name="b", tag="fork")
    columns, then = peer.read(path, {"branch": "b"})
    peer.do("compact", path, full=True)
    with pytest.raises(InvalidInputError, match="branch 'b' began"):
        opened(path).tags.delete("fork")
    peer.do("version", path, do="delete_tag", name="fork")
    opened(path).maintenance.expire_snapshots(retain_max=1, retain_min=1)
    assert then
    assert peer.read(path, {"branch": "b"}) == (columns, then)
    check_goes_on(peer, path)
