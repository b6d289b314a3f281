"""Clustering on executors: whole partitions, and ranges of large ones."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from proving.fsck import check_table

import tidelake
from tidelake.scan import split_to_bytes
from tidelake.spark.write.clustered_ranges import SAMPLE_ROWS, SparkClusterRunner, _Sampler
from tidelake.table.jobs.clustering import order_of
from tidelake.table.jobs.compaction import Chosen
from tidelake.table.jobs.table_compaction import compact_table

COLUMNS = {"p": "STRING", "a": "INT", "b": "STRING", "d": "DECIMAL(12, 2)"}


def rows(count, seed, partition):
    rng = np.random.default_rng(seed)
    a = pa.array(rng.integers(0, 500, count), pa.int32(), mask=rng.random(count) < 0.05)
    b = pa.array([f"name-{n:04}" for n in rng.integers(0, 2000, count)])
    d = pa.array(rng.integers(0, 999, count), pa.int32()).cast(pa.decimal128(12, 2))
    return pa.table({"p": [partition] * count, "a": a, "b": b, "d": d})


def state(table):
    found = table.to_arrow().to_pylist()
    return sorted(found, key=lambda row: tuple((v is not None, v) for v in row.values()))


@pytest.fixture
def table(spark, tmp_path):
    options = {"deletion-vectors.enabled": "true"}
    made = tidelake.open(tmp_path / "w").create_table(
        "db.t", COLUMNS, partition_keys=["p"], options=options
    )
    for seed in range(4):
        made.write(rows(3_000, seed, "large"))
    made.write(rows(20, 9, "small"))
    made.delete("a = 77")
    return made


@pytest.mark.parametrize("order", ["order", "zorder", "hilbert"])
def test_ranges_are_sorted_and_do_not_overlap(spark, table, order):
    before = state(table)
    runner = SparkClusterRunner(spark, 3, range_bytes=20_000)
    by = order_of(table.handle, order, ["a", "b"])
    result = compact_table(table.handle, Chosen(), full=False, order=by, runner=runner)
    assert len(result.snapshot_ids) == 1
    assert result.files == 4
    assert table.history()["commit_kind"].to_pylist()[-1] == "COMPACT"
    assert state(table) == before
    assert not table.system_table("table_indexes").to_arrow().num_rows
    check_table(table.fileio, table.location)
    if order != "order":
        return
    parts = [
        [(row["a"] is not None, row["a"], row["b"]) for row in file_rows.to_pylist()]
        for split in table.plan(where="p = 'large'").splits
        for file in split.files
        for file_rows in [pq.read_table(table.paths.data_file(split.partition, 0, file))]
    ]
    assert all(part == sorted(part) for part in parts)
    ends = sorted((part[0], part[-1]) for part in parts)
    assert all(one[1] < other[0] for one, other in itertools.pairwise(ends))


def test_rows_that_are_tracked_keep_their_ids(spark, tmp_path):
    options = {"row-tracking.enabled": "true"}
    made = tidelake.open(tmp_path / "w").create_table("db.t", COLUMNS, options=options)
    for seed in range(2):
        made.write(rows(300, seed, "x"))
    before = state(made.system_table("row_tracking"))
    runner = SparkClusterRunner(spark, 3, range_bytes=1_000)
    by = order_of(made.handle, "order", ["a", "b"])
    compact_table(made.handle, Chosen(), full=False, order=by, runner=runner)
    assert state(made.system_table("row_tracking")) == before


def test_a_partition_whose_rows_are_all_deleted_loses_its_files(spark, table):
    table.delete("p = 'large'")
    runner = SparkClusterRunner(spark, 2, range_bytes=10)
    by = order_of(table.handle, "order", ["a"])
    for chosen in (Chosen.of(table.handle, "p = 'large'", None), Chosen()):
        compact_table(table.handle, chosen, full=False, order=by, runner=runner)
    assert table.count() == len(state(table)) == 20
    assert {f["partition"] for f in table.system_table("files").to_arrow().to_pylist()} == {
        "{small}"
    }


def test_of_files_smaller_than_a_step_some_give_a_row(table):
    order = order_of(table.handle, "order", ["a"])
    (split,) = table.plan(where="p = 'small'").splits
    found = 0
    for step in range(21, 421):  # of 20 rows
        sampler = _Sampler(table.handle.read_context(), order, (SAMPLE_ROWS * step,))
        (answer,) = sampler.answers((0, split_to_bytes(split)))
        _, sample = pickle.loads(answer.column(1)[0].as_py())
        found += pa.ipc.open_stream(sample).read_all().num_rows
    assert 20 < found < 120  # 60 on average
