"""Orphan files beside Java Paimon 1.3.1: each removes those of a table, and the other goes on."""

from __future__ import annotations

import os

import pytest

from interop.cells import difference, table_cells
from interop.test_versions import KINDS, check_goes_on, made, opened

pytestmark = pytest.mark.oracle

LEFT = (
    "manifest/manifest-of-a-killed-writer-0",
    "snapshot/.snapshot-9.0b62f3d4-6d2e-44b2-a5d3-5c1f5a8a2c11.tmp",
)


def aged(place) -> None:
    for directory, _, names in os.walk(place):
        for name in names:
            path = f"{directory}/{name}"
            then = os.stat(path).st_mtime - 3 * 86_400
            os.utime(path, (then, then))


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", KINDS)
def test_java_reads_and_writes_on_where_our_search_removed_files(peer, tmp_path, kind):
    place = tmp_path / "made/db.db/t"
    made(peer, place, kind, commits=5)
    peer.do("version", place, do="create_tag", name="s2", snapshot=2)
    peer.do("version", place, do="analyze")
    peer.do("compact", place, full=True)
    peer.do("version", place, do="expire", keeps=1)
    for path in LEFT:
        (place / path).write_bytes(b"half a file")
    aged(place)
    opened(place).maintenance.remove_orphan_files()
    aged(place / "quarantine")
    found = opened(place).maintenance.remove_orphan_files()
    assert set(LEFT) <= set(found.files["path"].to_pylist())
    assert found.removed_count == found.files.num_rows
    columns, rows = peer.read(place, {"scan.tag-name": "s2"})
    assert difference(rows, table_cells(opened(place).to_arrow(tag="s2")), columns) is None
    check_goes_on(peer, place)


@pytest.mark.parametrize("kind", ["keyed", "appended"])
def test_we_go_on_where_javas_search_removed_files(peer, tmp_path, kind):
    place = tmp_path / "made/db.db/t"
    made(peer, place, kind, commits=5)
    table = opened(place)
    table.tags.create("s2", snapshot_id=2)
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    table.maintenance.analyze()
    for path in LEFT:
        (place / path).write_bytes(b"half a file")
    aged(place)
    waiting = table.maintenance.remove_orphan_files().files["path"].to_pylist()
    aged(place / "quarantine")
    rows, tagged = table.to_arrow(), table.to_arrow(tag="s2")
    peer.do("version", place, do="remove_orphans")
    assert not any((place / path).exists() for path in waiting)
    assert opened(place).to_arrow().equals(rows)
    assert opened(place).to_arrow(tag="s2").equals(tagged)
    assert opened(place).maintenance.remove_orphan_files().removed_count == 0
    check_goes_on(peer, place)
