"""The stream of given rows and live keys, as the executors see it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import tidelake
from tidelake.errors import UnsupportedError
from tidelake.spark.write import cross_partition_assigner
from tidelake.spark.write.cross_partition_assigner import KeyStream


@pytest.fixture
def handle(tmp_path):
    table = tidelake.open(tmp_path).create_table(
        "db.t",
        {"p": "string", "k": "int64", "v": "int64"},
        primary_keys=["k"],
        partition_keys=["p"],
    )
    return table.handle


def sorted_batch(*entries):
    """Of (hash, k, v) a given row, of (hash, k) a live key."""
    given = [None if len(e) == 2 else {"p": "a", "k": e[1], "v": e[2]} for e in entries]
    live = [
        {"k": e[1], cross_partition_assigner.BUCKET_NUMBER_COLUMN: 3} if len(e) == 2 else None
        for e in entries
    ]
    row_type = pa.struct({"p": pa.string(), "k": pa.int64(), "v": pa.int64()})
    live_type = pa.struct(
        {"k": pa.int64(), cross_partition_assigner.BUCKET_NUMBER_COLUMN: pa.int32()}
    )
    return pa.record_batch(
        {
            cross_partition_assigner.HASH_COLUMN: pa.array([e[0] for e in entries], pa.int32()),
            cross_partition_assigner.ROW_COLUMN: pa.array(given, row_type),
            cross_partition_assigner.LIVE_COLUMN: pa.array(live, live_type),
        }
    )


def stretches(handle, *batches):
    out = []
    for stretch in KeyStream(handle, takes_rows=True).stretches(iter(batches)):
        rows = [tuple(r.values())[1:3] for b in stretch.rows for r in b.to_pylist()]
        keys = [k for b, _ in stretch.live for k in b["k"].to_pylist()]
        if rows or keys:
            out.append((rows, keys, stretch.taken))
    return out


def test_all_rows_of_a_hash_come_together_however_batches_are_cut(handle):
    entries = [(-5, 1, 10), (-5, 1), (-5, 2, 20), (0, 3), (7, 4, 40), (7, 4, 41), (7, 4), (9, 5, 0)]
    whole = stretches(handle, sorted_batch(*entries))
    assert whole == [
        ([(1, 10), (2, 20), (4, 40), (4, 41)], [1, 3, 4], 4),
        ([(5, 0)], [], 1),
    ]
    for size in range(1, len(entries)):
        cut = [entries[i : i + size] for i in range(0, len(entries), size)]
        found = stretches(handle, *(sorted_batch(*part) for part in cut), sorted_batch())
        of_key = {}
        for number, (rows, keys, _) in enumerate(found):
            for k in {*keys, *(k for k, _ in rows)}:
                assert of_key.setdefault(k, number) == number
        rows = [row for rows, _, _ in found for row in rows]
        last = {1: 10, 2: 20, 4: 41, 5: 0}
        assert dict(rows) == last  # of a hash that fills batches no others need be there
        assert set(rows) - set(last.items()) <= {(4, 40)}
        assert sum(taken for *_, taken in found) == 5


def test_of_one_key_many_rows_are_not_held(handle):
    batches = [sorted_batch(*((1, 7, n * 8 + i) for i in range(8))) for n in range(20)]
    stream = KeyStream(handle, takes_rows=True)
    (found,) = [s for s in stream.stretches(iter(batches)) if s.rows]
    assert found.taken == 160
    rows = [r for b in found.rows for r in b.to_pylist()]
    assert [row["v"] for row in rows] == [159]


def test_rows_are_refused_where_single_partitions_are_replaced(handle):
    stream = KeyStream(handle, takes_rows=False)
    assert not [s for s in stream.stretches(iter([sorted_batch((1, 7))])) if s.rows]
    with pytest.raises(UnsupportedError, match="whole table"):
        list(stream.stretches(iter([sorted_batch((1, 7, 0))])))


def test_kinds_and_places_go_with_their_rows(handle):
    given = pa.array([{"p": None, "k": 1, "v": None, "_row_kind": 3}, None])
    given = given.cast(
        pa.struct({"p": pa.string(), "k": pa.int64(), "v": pa.int64(), "_row_kind": pa.int8()})
    )
    batch = sorted_batch((1, 0), (2, 5)).set_column(1, cross_partition_assigner.ROW_COLUMN, given)
    live = pa.array(
        [None, {"k": 5, cross_partition_assigner.BUCKET_NUMBER_COLUMN: 9}], batch.column(2).type
    )
    batch = batch.set_column(2, cross_partition_assigner.LIVE_COLUMN, live)
    first, second = [
        s for s in KeyStream(handle, takes_rows=True).stretches(iter([batch])) if s.rows or s.live
    ]
    assert first.rows[0].to_pylist() == [{"p": None, "k": 1, "v": None, "_tidelake_kind": 3}]
    ((keys, numbers),) = second.live
    assert (keys.to_pylist(), numbers.tolist()) == ([{"k": 5}], [9])
    assert numbers.dtype == np.int64
