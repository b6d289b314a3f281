"""Row tracking beside Java 1.3.1: each reads the ids of the other's rows, and keeps them."""

from __future__ import annotations

import pytest

from interop.cells import difference, table_cells
from interop.test_versions import opened
from tidelake.errors import UnsupportedError

pytestmark = pytest.mark.oracle

COLUMNS = [["id", "INT"], ["data", "STRING"], ["n", "BIGINT"]]
TRACKED = {"row-tracking.enabled": "true"}


def made(peer, path, **options):
    peer.do("create", path, columns=COLUMNS, primary_keys=[], partition_keys=[],
            options={**TRACKED, **options})  # fmt: skip
    return path


def opened_view(path):
    return opened(path).system_table("row_tracking")


def agreed(peer, path):
    """By id: data, row id, sequence number, as both read them."""
    rows = opened_view(path).to_arrow()
    columns, java = peer.read(path, system="row_tracking")
    assert columns == rows.column_names
    assert difference(java, table_cells(rows), columns) is None
    columns, java = peer.read(path)
    assert difference(java, table_cells(opened(path).to_arrow()), columns) is None
    return {r["id"]: (r["data"], r["_ROW_ID"], r["_SEQUENCE_NUMBER"]) for r in rows.to_pylist()}


def row(number, data):
    return {"id": number, "data": data, "n": None}


@pytest.mark.parametrize("marks", ["false", "true"])
def test_java_and_we_write_in_turns(peer, tmp_path, marks):
    path = made(peer, tmp_path / "w/db.db/t", **{"deletion-vectors.enabled": marks})
    opened(path).write([row(1, "ours"), row(2, "ours")])
    peer.do("write", path, rows=[["+I", "3", "s:java", "7"], ["+I", "4", "s:java", None]])
    assert agreed(peer, path) == {
        1: ("ours", 0, 1), 2: ("ours", 1, 1), 3: ("java", 2, 2), 4: ("java", 3, 2)
    }  # fmt: skip
    opened(path).update({"data": "new"}, "id IN (2, 3)")
    opened(path).delete("id = 4")
    found = agreed(peer, path)
    assert found == {1: ("ours", 0, 1), 2: ("new", 1, 3), 3: ("new", 2, 3)}
    peer.do("write", path, rows=[["+I", "5", "s:java", "7"]])
    found = agreed(peer, path)
    assert found[5][1] == opened(path).handle.snapshots.latest().next_row_id - 1
    opened(path).compact(full=True)
    assert agreed(peer, path) == found
    opened(path).write([row(6, "ours")])
    found = agreed(peer, path)
    assert len({row_id for _, row_id, _ in found.values()}) == len(found)


def test_we_read_what_java_compacts_and_moves(peer, tmp_path):
    path = made(peer, tmp_path / "w/db.db/t", **{"compaction.min.file-num": "2"})
    for number in range(4):
        peer.do("write", path, rows=[["+I", str(number), f"s:w{number}", None]])
    before = agreed(peer, path)
    assert [found[1:] for found in before.values()] == [(n, n + 1) for n in range(4)]
    peer.do("compact", path, full=True)
    assert opened(path).handle.snapshots.latest().next_row_id == 4
    assert agreed(peer, path) == before
    opened(path).update({"data": "ours"}, "id = 2")
    assert agreed(peer, path) == {**before, 2: ("ours", 2, 6)}
    columns = [*(name for name, _ in COLUMNS), "_ROW_ID", "_SEQUENCE_NUMBER"]
    rows = [["9", "s:moved", None, "77", "1"], ["8", "s:changed", None, "78", None]]
    peer.do("columns", path, columns=columns, first=None, rows=rows)
    found = agreed(peer, path)
    assert found[9] == ("moved", 77, 1)
    assert found[8] == ("changed", 78, 7)
    assert opened(path).to_arrow(where="id = 9")["data"].to_pylist() == ["moved"]
    shown = opened(path).system_table("files").to_arrow()["min_value_stats"].to_pylist()
    assert any("id=8" in text for text in shown)


def test_we_read_rows_whose_columns_java_wrote_into_several_files(peer, tmp_path):
    path = made(peer, tmp_path / "w/db.db/t", **{"data-evolution.enabled": "true"})
    first = [["+I", str(n), f"s:old{n}", str(n)] for n in range(4)]
    peer.do("write", path, rows=first)
    peer.do("columns", path, columns=["data"], first=0, rows=[[f"s:new{n}"] for n in range(4)])
    assert agreed(peer, path) == {n: (f"new{n}", n, 2) for n in range(4)}
    peer.do("write", path, rows=[["+I", "4", "s:other", None]])
    peer.do("columns", path, columns=["n"], first=0, rows=[["70"], [None], ["72"], ["73"]])
    added = {"change": "add", "name": ["x"], "type": "INT"}
    peer.do("alter", path, changes=[added])
    peer.do("columns", path, columns=["x", "data"], first=4, rows=[["9", "s:newest"]])
    found = agreed(peer, path)
    assert found[1] == ("new1", 1, 4)
    assert found[4] == ("newest", 4, 5)
    table = opened(path)
    assert table.count() == 5
    assert table.count(where="data = 'new2' AND n = 72") == 1
    assert table.count(where="data = 'old2'") == 0
    assert table.to_arrow(columns=["x"], where="id >= 3").sort_by("x")["x"].to_pylist() == [9, None]
    assert table.to_arrow(columns=["x"], limit=2).num_rows == 2
    with pytest.raises(UnsupportedError, match="does not write"):
        table.write([row(1, "ours")])
    with pytest.raises(UnsupportedError, match="data evolution"):
        table.changes(1)
