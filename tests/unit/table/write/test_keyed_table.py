"""Primary-key tables end to end: upserts, deletes, sequence fields, overwrite, exactly once."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest

import tidelake
from tidelake import InvalidInputError, UnsupportedError, col
from tidelake.metadata import SchemaLog


def rows(table, **scan):
    return sorted(table.to_arrow(**scan).to_pylist(), key=repr)


def test_the_later_row_of_a_key_wins(keyed):
    keyed.write([{"k": 1, "v": "a", "n": 1}, {"k": 2, "v": "b", "n": 2}])
    keyed.write([{"k": 1, "v": "c", "n": 3}])
    assert rows(keyed) == [{"k": 1, "v": "c", "n": 3}, {"k": 2, "v": "b", "n": 2}]


def test_the_later_row_wins_inside_one_write(keyed):
    keyed.write([{"k": 1, "v": str(i), "n": i} for i in range(100)])
    assert rows(keyed) == [{"k": 1, "v": "99", "n": 99}]


def test_a_row_kind_column_deletes(keyed):
    keyed.write([{"k": k, "v": "x", "n": k} for k in range(4)])
    keyed.write(
        pa.table(
            {
                "_row_kind": ["-D", "+U", "-U"],
                "k": [0, 1, 2],
                "v": ["gone", "new", "gone"],
                "n": pa.array([0, 7, 0], pa.int32()),
            }
        )
    )
    assert rows(keyed) == [{"k": 1, "v": "new", "n": 7}, {"k": 3, "v": "x", "n": 3}]


@pytest.mark.parametrize("kinds", [["+I", "-D"], [0, 3], pa.array(["+I", "-D"])])
def test_row_kinds_are_taken_in_several_forms(keyed, kinds):
    keyed.write([{"k": 2, "v": "old", "n": 0}])
    keyed.write([{"k": 1, "v": "a", "n": 1}, {"k": 2, "v": "", "n": 0}], row_kinds=kinds)
    assert rows(keyed) == [{"k": 1, "v": "a", "n": 1}]


def test_unknown_row_kind_is_refused_and_nothing_is_written(keyed):
    with pytest.raises(InvalidInputError, match="'\\+X' is not a row kind"):
        keyed.write([{"k": 1, "v": "a", "n": 1}], row_kinds=["+X"])
    with pytest.raises(InvalidInputError, match="not the number of rows"):
        keyed.write([{"k": 1, "v": "a", "n": 1}], row_kinds=["+I", "+I"])
    assert keyed.count() == 0
    assert keyed.history().num_rows == 0


def test_delete_by_keys(keyed):
    keyed.write([{"k": k, "v": "x", "n": k} for k in range(10)])
    result = keyed.delete(pa.table({"k": [1, 3, 77]}))
    assert result.rows == 3
    assert [r["k"] for r in rows(keyed)] == [0, 2, 4, 5, 6, 7, 8, 9]
    keyed.delete([{"k": 0}])
    assert keyed.count() == 7


@pytest.mark.parametrize("where", ["n >= 5", col("n") >= 5, [("n", ">=", 5)]])
def test_delete_by_predicate(keyed, where):
    keyed.write([{"k": k, "v": "x", "n": k} for k in range(10)])
    assert keyed.delete(where).rows == 5
    assert [r["k"] for r in rows(keyed)] == [0, 1, 2, 3, 4]


def test_delete_by_keys_where_other_columns_are_not_null(catalog):
    schema = pa.schema([pa.field("k", pa.int64()), pa.field("v", pa.string(), nullable=False)])
    table = catalog.create_table("db.t", schema, primary_keys=["k"], options={"bucket": 1})
    table.write([{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
    table.delete([{"k": 1}, {"k": 9}])
    assert rows(table) == [{"k": 2, "v": "b"}]


def test_delete_by_keys_counts_against_a_sequence_field(catalog):
    schema = pa.schema({"k": pa.int64(), "v": pa.string(), "ts": pa.int64()})
    table = catalog.create_table(
        "db.t", schema, primary_keys=["k"], options={"bucket": 1, "sequence.field": "ts"}
    )
    table.write([{"k": 1, "v": "a", "ts": 10}, {"k": 2, "v": "b", "ts": 10}])
    table.delete([{"k": 1}])
    assert rows(table) == [{"k": 2, "v": "b", "ts": 10}]


@pytest.mark.parametrize(
    "keys",
    [
        [{"k": 1, "v": "a", "ts": 5}],
        [{"k": 1, "ts": None}],
        [{"k": 1, "v": None}],
        pa.table({"ts": [0], "k": [1]}),
        pa.table({"k": [1], "v": ["a"], "ts": ["no number: only the key counts"]}),
    ],
)
def test_delete_of_whole_rows_takes_their_keys(catalog, keys):
    """An older sequence.field in them let the delete lose against the row, without a word."""
    schema = pa.schema({"k": pa.int64(), "v": pa.string(), "ts": pa.int64()})
    table = catalog.create_table(
        "db.t", schema, primary_keys=["k"], options={"bucket": 1, "sequence.field": "ts"}
    )
    table.write([{"k": 1, "v": "a", "ts": 10}, {"k": 2, "v": "b", "ts": 10}])
    assert table.delete(keys).rows == 1
    assert rows(table) == [{"k": 2, "v": "b", "ts": 10}]


def test_delete_of_rows_with_an_unknown_or_without_a_key_column_is_refused(keyed):
    keyed.write([{"k": 1, "v": "x", "n": 1}])
    with pytest.raises(InvalidInputError, match="'kk'"):
        keyed.delete([{"k": 1, "kk": 1}])
    with pytest.raises(InvalidInputError, match="'k'"):
        keyed.delete([{"v": "x"}])
    with pytest.raises(InvalidInputError, match="'k'"):
        keyed.delete([{"k": None, "v": "x"}])
    assert keyed.count() == 1


def test_the_larger_sequence_field_wins(catalog):
    schema = pa.schema({"k": pa.int64(), "v": pa.string(), "ts": pa.int64()})
    table = catalog.create_table(
        "db.t", schema, primary_keys=["k"], options={"bucket": 1, "sequence.field": "ts"}
    )
    table.write([{"k": 1, "v": "new", "ts": 10}])
    table.write([{"k": 1, "v": "late", "ts": 5}, {"k": 2, "v": "x", "ts": None}])
    table.write([{"k": 2, "v": "y", "ts": 1}])
    assert rows(table) == [
        {"k": 1, "v": "new", "ts": 10},
        {"k": 2, "v": "y", "ts": 1},
    ]
    table.write([{"k": 1, "v": "", "ts": 9}], row_kinds=["-D"])
    assert table.count() == 2
    table.write([{"k": 1, "v": "", "ts": 11}], row_kinds=["-D"])
    assert table.count() == 1


def test_delete_is_refused_where_it_would_be_ignored(catalog):
    table = catalog.create_table(
        "db.t",
        pa.schema({"k": pa.int64(), "v": pa.string()}),
        primary_keys=["k"],
        options={"bucket": 1, "ignore-delete": True},
    )
    table.write([{"k": 1, "v": "a"}])
    with pytest.raises(InvalidInputError, match="ignore-delete"):
        table.delete([{"k": 1}])
    assert table.count() == 1


def test_overwrite_replaces_an_unpartitioned_table(keyed):
    keyed.write([{"k": k, "v": "x", "n": k} for k in range(10)])
    keyed.write([{"k": 3, "v": "only", "n": 0}], mode="overwrite")
    assert rows(keyed) == [{"k": 3, "v": "only", "n": 0}]
    assert keyed.history().column("commit_kind").to_pylist()[-1] == "OVERWRITE"
    assert keyed.count(snapshot_id=1) == 10


def test_overwrite_with_no_rows_empties_an_unpartitioned_table(keyed):
    keyed.write([{"k": 1, "v": "x", "n": 1}])
    keyed.write(keyed.schema.empty_table(), mode="overwrite")
    assert keyed.count() == 0


@pytest.fixture
def partitioned(catalog):
    schema = pa.schema({"dt": pa.string(), "k": pa.int64(), "v": pa.string()})
    table = catalog.create_table(
        "db.parts", schema, primary_keys=["dt", "k"], partition_keys=["dt"], options={"bucket": 2}
    )
    table.write([{"dt": d, "k": k, "v": "old"} for d in ("a", "b", "c") for k in range(3)])
    return table


def test_keys_live_in_their_partition(partitioned):
    partitioned.write([{"dt": "a", "k": 0, "v": "new"}])
    assert {(r["dt"], r["v"]) for r in rows(partitioned, where="k = 0")} == {
        ("a", "new"),
        ("b", "old"),
        ("c", "old"),
    }


def test_dynamic_overwrite_replaces_the_partitions_of_the_rows(partitioned):
    partitioned.write([{"dt": "b", "k": 7, "v": "new"}], mode="overwrite")
    assert partitioned.count() == 7
    assert rows(partitioned, where="dt = 'b'") == [{"dt": "b", "k": 7, "v": "new"}]


def test_dynamic_overwrite_with_no_rows_changes_nothing(partitioned):
    result = partitioned.write(partitioned.schema.empty_table(), mode="overwrite")
    assert result.snapshot_ids == ()
    assert partitioned.count() == 9


def test_overwrite_of_all_partitions_by_option(partitioned):
    table = partitioned.copy({"dynamic-partition-overwrite": False})
    table.write([{"dt": "z", "k": 1, "v": "new"}], mode="overwrite")
    assert rows(partitioned) == [{"dt": "z", "k": 1, "v": "new"}]


def test_static_overwrite_fills_in_the_partition_and_refuses_others(partitioned):
    partitioned.write([{"k": 1, "v": "new"}], mode="overwrite", partition={"dt": "a"})
    assert rows(partitioned, where="dt = 'a'") == [{"dt": "a", "k": 1, "v": "new"}]
    with pytest.raises(InvalidInputError, match="overwriting another partition"):
        partitioned.write([{"dt": "b", "k": 1, "v": "no"}], mode="overwrite", partition={"dt": "a"})
    assert partitioned.count() == 7
    partitioned.write(partitioned.schema.empty_table(), mode="overwrite", partition={"dt": "a"})
    assert partitioned.count() == 6


@pytest.mark.parametrize(
    ("partition", "says"),
    [({"day": "a"}, "not a partition column"), ({}, "empty"), ({"k": 1}, "not a partition")],
)
def test_a_wrong_static_partition_is_refused(partitioned, partition, says):
    with pytest.raises(InvalidInputError, match=says):
        partitioned.write([{"k": 1, "v": "x"}], mode="overwrite", partition=partition)


def test_delete_of_whole_partitions_goes_by_metadata(partitioned):
    result = partitioned.delete("dt IN ('a', 'c')")
    assert (result.rows, result.files) == (0, 0)
    assert {r["dt"] for r in rows(partitioned)} == {"b"}


def test_a_repeated_commit_identity_is_committed_once(keyed):
    first = keyed.write([{"k": 1, "v": "a", "n": 1}], commit_user="job", commit_identifier=7)
    again = keyed.write([{"k": 2, "v": "b", "n": 2}], commit_user="job", commit_identifier=7)
    assert first.snapshot_ids == (1,)
    assert again.already_committed
    assert again.snapshot_ids == ()
    assert rows(keyed) == [{"k": 1, "v": "a", "n": 1}]
    keyed.write([{"k": 2, "v": "b", "n": 2}], commit_user="job", commit_identifier=8)
    assert keyed.count() == 2


@pytest.mark.parametrize(
    "identity",
    [{"commit_user": "job"}, {"commit_identifier": 1}],
)
def test_half_a_commit_identity_is_refused(keyed, identity):
    with pytest.raises(InvalidInputError, match="together"):
        keyed.write([{"k": 1, "v": "a", "n": 1}], **identity)


def test_runs_stay_bounded_by_compaction(keyed):
    for i in range(20):
        keyed.write([{"k": k, "v": str(i), "n": i} for k in range(50)])
    assert keyed.count() == 50
    assert {r["n"] for r in rows(keyed)} == {19}
    assert "COMPACT" in keyed.history().column("commit_kind").to_pylist()
    files = keyed.system_table("files").to_arrow()
    assert files.num_rows <= 2 * 8


def test_full_compaction_leaves_raw_files(keyed):
    for i in range(3):
        keyed.write([{"k": k, "v": str(i), "n": i} for k in range(50)])
    keyed.delete("k < 10")
    before = rows(keyed)
    result = keyed.compact(full=True)
    assert len(result.snapshot_ids) == 1
    assert rows(keyed) == before
    plan = keyed.plan()
    assert all(s.raw for s in plan.splits)
    assert plan.rows_read == 40
    assert keyed.compact(full=True).snapshot_ids == ()


def test_a_write_that_fails_midway_leaves_nothing(keyed, tmp_path):
    def batches():
        yield pa.record_batch({"k": [1], "v": ["a"], "n": pa.array([1], pa.int32())})
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        keyed.write(batches())
    assert keyed.history().num_rows == 0
    assert not list((tmp_path / "warehouse").rglob("*.parquet"))


def test_a_write_with_a_small_buffer_spills_and_is_right(catalog, tmp_path):
    table = catalog.create_table(
        "db.small",
        pa.schema({"p": pa.int32(), "k": pa.int64(), "v": pa.string()}),
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": 4, "write-buffer-size": "256 kb"},
    )
    count = 60_000
    keys = pa.array([(i * 7919) % count for i in range(count)], pa.int64())
    for value in ("a", "b"):
        table.write(
            pa.table(
                {
                    "p": pa.array([i % 25 for i in keys.to_pylist()], pa.int32()),
                    "k": keys,
                    "v": [f"{value}{k}" for k in keys.to_pylist()],
                }
            )
        )
    assert table.count() == count
    got = table.to_arrow(columns=["k", "v"]).sort_by("k")
    assert got.column("k").to_pylist() == list(range(count))
    assert got.column("v").to_pylist() == [f"b{k}" for k in range(count)]


def with_options(table, **options):
    """The table after an ALTER TABLE SET by another engine: a new schema file."""
    schema = table.table_schema
    text = {**schema.options, **options}
    log = SchemaLog(table.fileio, table.paths)
    assert log.create(dataclasses.replace(schema, id=schema.id + 1, options=text))


def test_a_changed_number_of_buckets_is_refused_until_overwritten(catalog, keyed):
    keyed.write([{"k": k, "v": "x", "n": k} for k in range(10)])
    with_options(keyed, bucket="5")
    more = catalog.table("db.keyed")
    with pytest.raises(InvalidInputError, match="written with 2 buckets"):
        more.write([{"k": 1, "v": "y", "n": 1}])
    assert rows(more, where="k = 3") == [{"k": 3, "v": "x", "n": 3}]
    more.write(more.to_arrow(), mode="overwrite")
    assert more.count() == 10
    assert rows(more, where="k = 3") == [{"k": 3, "v": "x", "n": 3}]
    assert {s.total_buckets for s in more.plan().splits} == {5}


@pytest.mark.parametrize("option", ["bucket", "merge-engine", "bucket-key"])
def test_options_of_the_layout_cannot_be_set_for_one_use(keyed, option):
    value = {"bucket": 5, "merge-engine": "aggregation", "bucket-key": "k"}[option]
    with pytest.raises(InvalidInputError, match="cannot be set for one use"):
        keyed.copy({option: value})


def test_upsert_needs_a_primary_key(appended, keyed):
    keyed.upsert([{"k": 1, "v": "a", "n": 1}])
    with pytest.raises(UnsupportedError, match="no primary key"):
        appended.upsert([{"k": 1, "v": "a", "n": 1}])


def test_two_handles_see_each_others_commits(catalog, keyed, tmp_path):
    other = tidelake.open(tmp_path / "warehouse").table("db.keyed")
    keyed.write([{"k": 1, "v": "a", "n": 1}])
    other.write([{"k": 1, "v": "b", "n": 2}])
    assert rows(keyed) == rows(other) == [{"k": 1, "v": "b", "n": 2}]


@pytest.mark.parametrize("compacted", [False, True])
def test_the_smaller_sequence_field_wins_where_it_descends(catalog, compacted):
    schema = pa.schema({"k": pa.int64(), "v": pa.string(), "rank": pa.int32()})
    options = {
        "bucket": 1,
        "sequence.field": "rank",
        "sequence.field.sort-order": "descending",
        "num-sorted-run.compaction-trigger": 100,
    }
    table = catalog.create_table("db.t", schema, primary_keys=["k"], options=options)

    def settle():
        if compacted:
            table.compact(full=True)
        return {r["k"]: r["v"] for r in table.to_arrow().to_pylist()}

    table.write([{"k": k, "v": "five", "rank": 5} for k in range(4)])
    table.write([{"k": 0, "v": "nine", "rank": 9}, {"k": 0, "v": "eight", "rank": 8}])
    assert settle() == dict.fromkeys(range(4), "five")  # larger ranks came later and are older
    table.write([{"k": 1, "v": "three", "rank": 3}, {"k": 1, "v": "four", "rank": 4}])
    table.write([{"k": 2, "v": "five again", "rank": 5}])  # a tie: the later one
    assert settle() == {0: "five", 1: "three", 2: "five again", 3: "five"}
    table.write([{"k": 3, "v": None, "rank": 6}], row_kinds=["-D"])
    assert settle()[3] == "five"
    table.write([{"k": 3, "v": None, "rank": 2}], row_kinds=["-D"])
    assert settle() == {0: "five", 1: "three", 2: "five again"}
    table.compact(full=True)
    assert settle() == {0: "five", 1: "three", 2: "five again"}
    assert rows(table, where="v = 'four' OR v = 'nine' OR k = 3") == []
    last = table.latest_snapshot_id
    changed = table.changes(1, last, columns=["k", "v"]).to_pylist()
    assert {(r["_row_kind"], r["k"]) for r in changed} == {
        ("-U", 1), ("+U", 1), ("-U", 2), ("+U", 2), ("-D", 3),
    }  # fmt: skip
