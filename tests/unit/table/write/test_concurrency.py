"""Several writers on one table at once: every acknowledged row is there, once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import tidelake

WRITERS, WRITES = 4, 6


def test_writers_of_one_append_table_lose_nothing(appended, tmp_path):
    def work(writer):
        table = tidelake.open(tmp_path / "warehouse").table("db.appended")
        for i in range(WRITES):
            table.write([{"k": writer * 100 + i, "v": "x", "n": i}])

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(work, range(WRITERS)))
    got = appended.to_arrow().column("k").to_pylist()
    assert sorted(got) == [w * 100 + i for w in range(WRITERS) for i in range(WRITES)]
    assert appended.history().num_rows == WRITERS * WRITES


def test_writers_of_one_bucket_lose_nothing_though_they_compact(catalog, tmp_path):
    table = catalog.create_table(
        "db.one",
        {"k": "int64", "v": "int64"},
        primary_keys=["k"],
        options={"bucket": 1, "num-sorted-run.compaction-trigger": 2},
    )

    def work(writer):
        own = tidelake.open(tmp_path / "warehouse").table("db.one")
        dropped = 0
        for i in range(WRITES):
            rows = [{"k": writer * 100 + i, "v": i}, {"k": -1 - writer, "v": i}]
            dropped += own.write(rows).compactions_dropped
        return dropped

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(work, range(WRITERS)))
    got = {r["k"]: r["v"] for r in table.to_arrow().to_pylist()}
    want = {w * 100 + i: i for w in range(WRITERS) for i in range(WRITES)}
    want |= {-1 - w: WRITES - 1 for w in range(WRITERS)}  # each writer's own key, its last value
    assert got == want
    table.compact(full=True)
    assert {r["k"]: r["v"] for r in table.to_arrow().to_pylist()} == got


def test_a_reader_sees_one_state_while_writers_go_on(keyed):
    keyed.write([{"k": k, "v": "a", "n": 0} for k in range(100)])
    reader = keyed.to_batches()
    keyed.write([{"k": k, "v": "b", "n": 1} for k in range(100)], mode="overwrite")
    keyed.compact(full=True)
    assert {r["v"] for r in reader.read_all().to_pylist()} == {"a"}


def test_a_write_that_another_one_overtook_says_so(catalog):
    import pyarrow as pa

    table = catalog.create_table(
        "db.t", {"k": "int64", "v": "string"}, primary_keys=["k"], options={"bucket": 1}
    )
    table.write([{"k": 0, "v": "old"}])

    def rows():
        yield pa.record_batch({"k": [1, 2, 3], "v": ["mine"] * 3})
        theirs = table.write([{"k": 1, "v": "theirs"}])  # after ours began, before ours ends
        assert theirs.buckets_interleaved == 0

    mine = table.write(rows())
    assert mine.buckets_interleaved == 1
    assert mine.snapshot_ids[0] == 3
    assert {r["k"] for r in table.to_arrow().to_pylist()} == {0, 1, 2, 3}
    assert table.write([{"k": 1, "v": "last"}]).buckets_interleaved == 0
    assert table.to_arrow(where="k = 1").to_pylist() == [{"k": 1, "v": "last"}]
