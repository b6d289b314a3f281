"""Rows that expire: after a full compaction by Java 1.3.1 and by us the same rows are left."""

from __future__ import annotations

import shutil

import pytest

import tidelake
from interop.case import row_cells
from interop.cells import difference, table_cells
from interop.make import rows_to_arrow

pytestmark = pytest.mark.oracle

LATE_S = 4_000_000_000
DAY_NS = 86_400 * 10**9
TIMES = {
    "INT": (1, 2_100_000_000),
    "BIGINT": (1, LATE_S),
    "TIMESTAMP(3)": (DAY_NS, LATE_S * 10**9),
    "TIMESTAMP_LTZ(6)": (-DAY_NS, LATE_S * 10**9),
}
ENGINES = {
    "deduplicate": {},
    "partial-update": {},
    "aggregation": {"fields.v.aggregate-function": "sum"},
    "first-row": {},
    "lookup": {"changelog-producer": "lookup"},
    "full-compaction": {"changelog-producer": "full-compaction"},
}


# the type does not depend on the engine: two of them take all types
PAIRS = [
    (engine, time_type)
    for engine in ENGINES
    for time_type in TIMES
    if time_type == "INT" or engine in ("deduplicate", "aggregation")
]


@pytest.mark.share(2)
@pytest.mark.parametrize(("engine", "time_type"), PAIRS)
def test_the_same_rows_are_left(peer, tmp_path, engine, time_type):
    old, new = TIMES[time_type]
    millis = [new * 1000] if time_type == "BIGINT" else []
    columns = {"k": "INT NOT NULL", "v": "BIGINT", "t": time_type}
    times = [old, new, None, *millis, old]
    options = {
        "bucket": "1",
        "merge-engine": "deduplicate" if engine in ("lookup", "full-compaction") else engine,
        "record-level.expire-time": "1 d",
        "record-level.time-field": "t",
        **ENGINES[engine],
    }  # fmt: skip
    ours, javas = tmp_path / "ours/db.db/t", tmp_path / "java/db.db/t"
    peer.do("create", ours, columns=[list(c) for c in columns.items()], primary_keys=["k"],
            partition_keys=[], options=options)  # fmt: skip
    table = tidelake.open(ours.parents[1]).table("db.t")
    for version in range(3):
        rows = [(k, version * 100 + k, times[(k + version) % len(times)])
                for k in range(version * 3, 20 + version)]  # fmt: skip
        if version % 2:
            cells = row_cells(columns, rows)
            peer.do("write", ours, rows=[["+I", *own] for own in cells])
        else:
            table.write(rows_to_arrow(table.schema, rows))
        shutil.rmtree(javas, ignore_errors=True)
        shutil.copytree(ours, javas)
        _, before = peer.read(javas)
        found = table.to_arrow()
        assert difference(before, table_cells(found), found.column_names) is None  # as stored
        peer.do("compact", javas, full=True)
        table.compact(full=True)
        _, left = peer.read(javas)
        found = table.to_arrow()
        assert difference(left, table_cells(found), found.column_names) is None
        assert found.num_rows > 0
        _, ours_by_java = peer.read(ours)
        assert difference(left, ours_by_java, found.column_names) is None
