"""Clustering on executors: whole partitions, and ranges of large ones."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from proving.fsck import check_table
from pyspark.sql import functions as F

import tidelake
from tidelake.errors import InvalidInputError
from tidelake.scan import split_to_bytes
from tidelake.spark.write.clustered_frame import _Sample
from tidelake.spark.write.clustered_ranges import SAMPLE_ROWS, SparkClusterRunner, _Sampler
from tidelake.store import KeyRanges
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


@pytest.mark.share(3)
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


FRAME = (
    "IF(id % 3 = 0, 'x', 'y') AS p",
    "IF(id % 97 = 0, NULL, CAST(id * 7919 % 500 AS INT)) AS a",
    "concat('name-', lpad(id * 104729 % 2000, 4, '0')) AS b",
    "CAST(id AS DECIMAL(12, 2)) AS d",
)


def frame_of(spark, count=6_000):
    """Rows whose order has nothing to do with `a` and `b`."""
    return spark.range(0, count, 1, 4).selectExpr(*FRAME)


@pytest.fixture
def own(lake):
    """A table of a lake, whose rows are clustered by `a` and `b`."""

    def make(partition_keys=("p",), **options):
        options = {"clustering.columns": "a,b", **options}
        return lake.create_table("db.t", COLUMNS, partition_keys=partition_keys, options=options)

    return make


def parts_of(table, *names):
    """The keys of each file's rows, in the order of the file."""
    return [
        [tuple((row[n] is not None, row[n]) for n in names) for row in found.to_pylist()]
        for split in table.plan().splits
        for file in split.files
        for found in [pq.read_table(table.paths.data_file(split.partition, split.bucket, file))]
    ]


def read_share(table, where):
    planned, whole = (
        sum(split.size_bytes for split in table.plan(**scan).splits)
        for scan in ({"where": where}, {})
    )
    return planned / whole


def test_a_write_makes_files_of_sorted_ranges(spark, lake, own):
    table = own(partition_keys=(), **{"clustering.strategy": "order"})
    frame = frame_of(spark)
    result = lake.write(frame, "db.t", tasks=4)
    assert (result.rows, result.files, len(result.snapshot_ids)) == (6_000, 4, 1)
    parts = parts_of(table, "a", "b")
    assert all(part == sorted(part) for part in parts)
    ends = sorted((part[0], part[-1]) for part in parts)
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(ends))
    assert max(map(len, parts)) < 2 * min(map(len, parts))
    assert sorted(frame.collect(), key=str) == sorted(lake.table("db.t").collect(), key=str)
    assert 0 < read_share(table, "a between 10 and 60") <= 0.6


@pytest.mark.parametrize("strategy", ["zorder", "hilbert"])
def test_a_write_along_a_curve_lets_filters_of_each_column_skip(spark, lake, own, strategy):
    table = own(partition_keys=(), **{"clustering.strategy": strategy})
    frame = frame_of(spark, 4_000).where("a is not null")
    lake.write(frame, "db.t", tasks=16)
    assert read_share(table, "a between 10 and 60") < 0.6
    assert read_share(table, "b between 'name-0100' and 'name-0300'") < 0.7
    assert lake.table("db.t").count() == frame.count()


def test_each_partition_is_sorted_and_has_few_files(spark, lake, own):
    table = own(**{"clustering.strategy": "order"})
    result = lake.write(frame_of(spark), "db.t", tasks=4)
    assert result.files == 5  # a range more than tasks: one holds the end of x and the begin of y
    assert all(part == sorted(part) for part in parts_of(table, "a", "b"))
    overwritten = lake.write(
        frame_of(spark, 50).where("p = 'x'"), "db.t", mode="overwrite", partition={"p": "x"}
    )
    assert overwritten.files == 1  # few rows are one range
    assert lake.table("db.t").where("p = 'x'").count() == 17
    assert all(part == sorted(part) for part in parts_of(table, "a", "b"))


def test_statements_cluster_and_an_option_leaves_the_order(spark, lake, own):
    table = own(partition_keys=(), **{"clustering.strategy": "order"})
    frame_of(spark, 600).createOrReplaceTempView("rows_to_cluster")
    lake.sql("INSERT INTO db.t SELECT * FROM rows_to_cluster")
    assert all(part == sorted(part) for part in parts_of(table, "a", "b"))
    lake.sql(
        "CREATE TABLE db.copied WITH ('clustering.columns' = 'b', 'clustering.strategy' = 'order')"
        " AS SELECT * FROM rows_to_cluster"
    )
    (part,) = parts_of(lake.catalog.table("db.copied"), "b")
    assert part == sorted(part)
    lake.write(frame_of(spark, 600), "db.t", mode="overwrite", options={"clustering.columns": ""})
    assert any(part != sorted(part) for part in parts_of(table, "a", "b"))


def test_incremental_clustering_sorts_writes_only_if_asked(spark, lake, own):
    table = own(partition_keys=(), **{"clustering.incremental": "true"})
    lake.write(frame_of(spark, 600), "db.t")
    unsorted_files = len(parts_of(table, "a"))
    option = {"clustering.incremental.optimize-write": "true", "clustering.strategy": "order"}
    lake.write(frame_of(spark, 600), "db.t", mode="overwrite", options=option)
    (part,) = parts_of(table, "a", "b")
    assert part == sorted(part)
    assert unsorted_files == 4


def test_rows_that_the_table_refuses_are_told_as_without_clustering(spark, lake, own):
    own(partition_keys=())
    late = frame_of(spark, 100).withColumn("a", F.expr("CAST(4000000000 AS BIGINT)"))
    with pytest.raises(InvalidInputError, match=r"'a' of table 'db\.t'.*4000000000"):
        lake.write(late, "db.t")
    kinds = frame_of(spark, 100).withColumn("_row_kind", F.lit("-D"))
    with pytest.raises(InvalidInputError, match="takes only inserts"):
        lake.write(kinds, "db.t")
    nothing = lake.write(frame_of(spark, 100).where("a > 9999"), "db.t")
    assert nothing.rows == 0
    assert lake.table("db.t").count() == 0


def test_a_sample_gives_each_row_the_same_chance():
    tasks = []
    for count in (300, 50_000):
        sample = _Sample()
        for begin in range(0, count, 7_000):
            numbers = np.arange(begin, min(count, begin + 7_000))
            batch = pa.record_batch({"a": pa.array(numbers, pa.int64())})
            sample = sample.with_batch(KeyRanges((None,)), batch)
        tasks.append(sample)
    assert len(tasks[0].hashes) == 300
    assert 2_000 <= len(tasks[1].hashes) <= 4_000
    whole = _Sample.of_all(tasks)
    assert whole.rows_count == 50_300
    values = np.concatenate([rows.column("a").to_numpy() for rows in whole.rows])
    assert len(values) == len(whole.hashes)
    assert (np.histogram(values, 5, (0, 50_000))[0] > len(values) // 7).all()


def test_samples_of_any_number_of_tasks_stay_within_a_bound():
    def of_task(number, count=300, text=""):
        columns = {"a": pa.array([number] * count), "b": [text] * count}
        return _Sample().with_batch(KeyRanges((None,)), pa.record_batch(columns))

    tasks = [of_task(number) for number in range(200)]
    for rows_max, bytes_max in ((10_000, 64 << 20), (1_000_000, 100_000)):
        halves = [
            _Sample.of_all(part, rows_max=rows_max, bytes_max=bytes_max)
            for part in (tasks[:70], reversed(tasks[70:]))
        ]
        for joined in (
            _Sample.of_all(iter(tasks), rows_max=rows_max, bytes_max=bytes_max),
            *halves,
        ):
            assert rows_max // 4 < len(joined.hashes) <= rows_max or joined.nbytes > bytes_max // 4
            assert joined.nbytes <= bytes_max
        whole = _Sample.of_all(halves, rows_max=rows_max, bytes_max=bytes_max)
        assert whole.rows_count == 60_000
        found = np.concatenate([rows.column("a").to_numpy() for rows in whole.rows])
        counts = np.bincount(found, minlength=200)
        assert counts.min() > 0
        assert counts.max() - counts.min() <= 1
    wide = of_task(0, 300, "x" * 10_000)
    assert 20 < len(wide.hashes) <= 104
    assert wide.nbytes <= 1 << 20


def test_buckets_are_sorted_whole(spark, tmp_path):
    options = {"bucket": 2, "bucket-key": "b", "bucket-append-ordered": "false"}
    made = tidelake.open(tmp_path / "w").create_table("db.t", COLUMNS, options=options)
    for seed in range(3):
        made.write(rows(1_000, seed, "x"))
    before, last = state(made), max(f.max_sequence_number for f in files_of(made))
    runner = SparkClusterRunner(spark, 3, range_bytes=1_000)
    by = order_of(made.handle, "order", ["a", "b"])
    assert compact_table(made.handle, Chosen(), full=False, order=by, runner=runner).files == 2
    assert all(part == sorted(part) for part in parts_of(made, "a", "b"))
    assert state(made) == before
    assert {f.min_sequence_number for f in files_of(made)} == {0}
    assert max(f.max_sequence_number for f in files_of(made)) == last


def files_of(table):
    return [file for split in table.plan().splits for file in split.files]
