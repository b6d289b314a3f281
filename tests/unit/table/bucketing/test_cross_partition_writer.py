"""Tables whose keys may move between partitions: a key has one row, wherever it was before."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.metadata.made import UNHURRIED

import tidelake
from tidelake.errors import ConflictError, InvalidInputError, UnsupportedError
from tidelake.fileio import MemoryFileIO
from tidelake.scan import live_buckets
from tidelake.table.bucketing import cross_partition_assigner
from tidelake.telemetry import Env


def make(catalog, name="db.moving", **options):
    return catalog.create_table(
        name,
        {"p": "string", "k": "int64", "v": "int64"},
        primary_keys=["k"],
        partition_keys=["p"],
        options={key.replace("_", "-"): v for key, v in options.items()},
    )


def rows(*given):
    return [dict(zip(("p", "k", "v"), row, strict=True)) for row in given]


def content(table):
    return sorted((r["k"], r["p"], r["v"]) for r in table.to_arrow().to_pylist())


def test_a_key_moves_and_is_nowhere_twice(catalog):
    table = make(catalog)
    table.write(rows(("a", 1, 10), ("b", 2, 20), ("a", 3, 30)))
    table.write(rows(("b", 1, 11), ("b", 2, 21), ("c", 4, 40)))
    assert content(table) == [(1, "b", 11), (2, "b", 21), (3, "a", 30), (4, "c", 40)]
    table.compact(full=True)
    assert content(table) == [(1, "b", 11), (2, "b", 21), (3, "a", 30), (4, "c", 40)]
    assert content_of_snapshot(table, 1) == [(1, "a", 10), (2, "b", 20), (3, "a", 30)]


def content_of_snapshot(table, number):
    found = table.to_arrow(snapshot_id=number).to_pylist()
    return sorted((r["k"], r["p"], r["v"]) for r in found)


def test_no_rows_move_nothing(catalog):
    table = make(catalog)
    table.write(rows(("a", 1, 10)))
    table.delete([])
    table.write([])
    assert content(table) == [(1, "a", 10)]


def test_the_last_row_of_a_key_counts_wherever_it_goes(catalog):
    table = make(catalog)
    table.write(rows(("a", 1, 1), ("b", 1, 2), ("c", 1, 3), ("b", 1, 4)))
    assert content(table) == [(1, "b", 4)]
    table.write(rows(("c", 1, 5), ("b", 1, 6)))
    assert content(table) == [(1, "b", 6)]


def test_a_delete_finds_the_key_in_whatever_partition(catalog):
    table = make(catalog)
    table.write(rows(("a", 1, 1), ("a", 2, 2), ("b", 3, 3), (None, 4, 4)))
    table.write(rows(("x", 1, 0), ("b", 9, 0)), row_kinds=["-D", "-D"])
    table.delete([{"k": 2}, {"k": 77}])
    table.delete("v = 3")
    assert content(table) == [(4, None, 4)]
    table.delete("p IS NULL")
    assert content(table) == []


@settings(UNHURRIED, max_examples=25)
@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from("abc"), st.integers(0, 12), st.integers(), st.booleans()),
            max_size=12,
        ),
        max_size=6,
    )
)
def test_any_writes_equal_a_dict(writes):
    catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=Env.seeded(1))
    small = {"dynamic_bucket.target_row_num": "2", "num_sorted_run.compaction_trigger": "3"}
    table = make(catalog, **small)
    model = {}
    for write in writes:
        limited = [(p, k, v % 2**60, gone) for p, k, v, gone in write]
        kinds = ["-D" if gone else "+I" for *_, gone in limited]
        if limited:
            table.write(rows(*(r[:3] for r in limited)), row_kinds=kinds)
        for p, k, v, gone in limited:
            model.pop(k, None)
            if not gone:
                model[k] = (k, p, v)
        assert content(table) == sorted(model.values())


def test_rows_beyond_the_budget_wait_on_disk(catalog, monkeypatch):
    monkeypatch.setattr(cross_partition_assigner, "JOIN_ROWS", 1_000)
    table = make(catalog, write_buffer_size="20 kb")
    count = 4_000
    keys = np.arange(count)
    old = pa.table({"p": pa.array([f"p{k % 3}" for k in keys]), "k": keys, "v": keys})
    table.write(old)
    new = pa.table({"p": pa.array([f"p{k % 2}" for k in keys]), "k": keys, "v": -keys})
    with table.writer() as out:
        for batch in new.to_batches(max_chunksize=3_000):
            out.write(batch)
    assert content(table) == [(k, f"p{k % 2}", -k) for k in range(count)]


def test_new_keys_fill_one_bucket_after_the_other(catalog):
    table = make(catalog, "db.small", **{"dynamic_bucket.target_row_num": "3"})
    table.write(rows(*(("a", k, 0) for k in range(7))))
    table.write(rows(*(("b", k, 0) for k in range(5)), ("a", 8, 0)))
    handle = table.handle
    snapshot = handle.snapshots.latest()
    found = live_buckets(handle.read_context(), snapshot, manifests=handle.manifests)
    by_partition = {}
    for bucket in found:
        by_partition.setdefault(bucket.partition, set()).add(bucket.bucket)
    assert sorted(map(sorted, by_partition.values())) == [[0, 1], [0, 1, 2]]
    assert snapshot.index_manifest is None


def test_keys_of_several_columns_and_types(catalog):
    table = catalog.create_table(
        "db.wide",
        pa.schema({"d": pa.date32(), "p": pa.int32(), "a": pa.decimal128(20, 2),
                   "b": pa.binary(), "t": pa.timestamp("us"), "v": pa.string()}),
        primary_keys=["p", "a", "b", "t"],
        partition_keys=["p", "d"],
    )  # fmt: skip
    import datetime as dt

    def row(day, p, a, v):
        moment = dt.datetime(2024, 1, a + 1)
        key = {"p": p, "a": Decimal(a) / 4, "b": b"\0" * a, "t": moment}
        return {"d": dt.date(2024, 1, day), **key, "v": v}

    table.write([row(1, p, a, "old") for p in (1, 2) for a in range(5)])
    table.write([row(2, 1, a, "new") for a in range(3)])
    found = [(r["d"].day, r["p"], r["v"]) for r in table.to_arrow().to_pylist()]
    assert sorted(found) == sorted([(2, 1, "new")] * 3 + [(1, 1, "old")] * 2 + [(1, 2, "old")] * 5)


def test_writers_at_once_are_told_of_each_other(catalog, tmp_path):
    table = make(catalog)
    table.write(rows(("a", 1, 1)))
    other = tidelake.open(tmp_path / "warehouse").table("db.moving")
    out = table.writer()
    out.write(rows(("b", 1, 2)))
    other.write(rows(("c", 1, 3)))
    with pytest.raises(ConflictError, match="moved its keys"):  # it looked before the other came
        commit_late(out, other)
    assert content(table) == [(1, "d", 4)]
    with table.writer() as out:
        out.write(rows(("e", 1, 5)))
    assert content(table) == [(1, "e", 5)]


def commit_late(out, other):
    """Commit after another commit came between the look-up and the publishing."""
    moves = out._transaction._source._cross_partition
    placed = moves.assigned

    def then_another():
        yield from placed()
        other.write(rows(("d", 1, 4)))

    moves.assigned = then_another
    out.commit()


def test_an_overwrite_replaces_the_whole_table_or_is_refused(catalog):
    table = make(catalog)
    table.write(rows(("a", 1, 1), ("b", 2, 2)))
    with pytest.raises(UnsupportedError, match="whole table"):
        table.write(rows(("a", 2, 3)), mode="overwrite")
    with pytest.raises(UnsupportedError, match="whole table"):
        table.write(rows(("a", 2, 3)), mode="overwrite", partition={"p": "a"})
    assert content(table) == [(1, "a", 1), (2, "b", 2)]
    whole = table.copy({"dynamic-partition-overwrite": "false"})
    whole.write(rows(("c", 2, 3), ("d", 2, 4)), mode="overwrite")
    assert content(table) == [(2, "d", 4)]


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"bucket": "2"}, InvalidInputError, "needs 'bucket' = '-1'"),
        ({"sequence_field": "v"}, UnsupportedError, "sequence.field"),
        ({"ignore_delete": "true"}, UnsupportedError, "ignore-delete"),
        ({"cross_partition_upsert.index_ttl": "1 d"}, UnsupportedError, "two partitions at once"),
    ],
)
def test_what_does_not_go_with_moving_keys_is_refused(catalog, options, error, says):
    options = {key.replace("sequence_field", "sequence.field"): v for key, v in options.items()}
    with pytest.raises(error, match=says):
        make(catalog, **options).write(rows(("a", 1, 1)))


def test_a_key_that_cannot_be_compared_is_refused(catalog):
    with pytest.raises(UnsupportedError, match="column 'k' of type DOUBLE"):
        catalog.create_table(
            "db.t", {"p": "string", "k": "double"}, primary_keys=["k"], partition_keys=["p"]
        )
