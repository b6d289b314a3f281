from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.utils import PythonException

import tidelake
from tidelake.errors import InvalidInputError, NotFoundError, UnsupportedError
from tidelake.spark.write import write_frame as spark_write
from tidelake.spark.write.write_task import write_task
from tidelake.table.write.table_writer import TableWriter


def rows_of(frame, *order):
    return [tuple(row) for row in frame.orderBy(*order).collect()]


@pytest.fixture
def keyed(spark, lake):
    """100 rows of a table with a composite key in 3 buckets."""
    frame = spark.range(100).selectExpr("id % 10 AS a", "concat('k', id DIV 10) AS b", "id AS v")
    lake.create_table("db.keyed", frame, primary_keys=["a", "b"], options={"bucket": 3})
    result = lake.write(frame, "db.keyed")
    assert (result.rows, len(result.snapshot_ids)) == (100, 1)
    return frame


def test_rows_come_back(lake, keyed):
    assert rows_of(lake.table("db.keyed"), "a", "b") == rows_of(keyed, "a", "b")


def test_the_kernel_reads_what_spark_wrote(lake, keyed):
    found = lake.catalog.table("db.keyed").to_arrow().to_pylist()
    assert sorted(tuple(r.values()) for r in found) == rows_of(keyed, "a", "b")


def test_each_row_lies_in_the_bucket_of_its_key(lake, keyed):
    """Else a filter on the whole key, which reads one bucket, would miss it."""
    for row in keyed.collect():
        found = lake.catalog.table("db.keyed").to_arrow(where=f"a = {row.a} AND b = '{row.b}'")
        assert found.to_pylist() == [row.asDict()]


def test_upserts_replace_and_deletes_remove(lake, keyed, spark):
    changes = keyed.where("v < 30").selectExpr(
        "a",
        "b",
        "-v AS v",
        "CASE WHEN v < 10 THEN '-D' WHEN v < 20 THEN '+U' ELSE '+I' END AS _row_kind",
    )
    lake.write(changes, "db.keyed")
    expected = set(range(30, 100)) | {-v for v in range(10, 30)}
    assert {row.v for row in lake.table("db.keyed").collect()} == expected
    assert lake.table("db.keyed").count() == 90


def test_one_of_two_rows_of_a_key_survives(lake, keyed, spark):
    frame = spark.createDataFrame(
        [(1, "k1", v) for v in range(500, 600)], "a bigint, b string, v bigint"
    )
    lake.write(frame, "db.keyed")
    found = lake.table("db.keyed", where="a = 1 AND b = 'k1'").collect()
    assert len(found) == 1
    assert 500 <= found[0].v < 600


def test_sequence_field_decides_between_rows_of_one_frame(spark, lake):
    frame = spark.createDataFrame(
        [(k, s, f"{k}-{s}") for s in (3, 9, 1) for k in range(50)], "k int, s int, v string"
    ).repartition(4)
    lake.create_table(
        "db.t", frame, primary_keys=["k"], options={"bucket": 2, "sequence.field": "s"}
    )
    lake.write(frame, "db.t")
    assert {row.v for row in lake.table("db.t").collect()} == {f"{k}-9" for k in range(50)}


@pytest.mark.parametrize("tasks", [None, 1, 5])
def test_partitions_and_buckets_are_each_written_by_one_task(spark, lake, tasks):
    frame = spark.range(1000).selectExpr(
        "id AS k", "id % 7 AS p", "date_add(DATE '2026-01-01', int(id % 3)) AS d"
    )
    lake.create_table(
        "db.t",
        frame,
        primary_keys=["k", "p", "d"],
        partition_keys=["p", "d"],
        options={"bucket": 2},
    )
    lake.write(frame, "db.t", tasks=tasks)
    lake.write(frame.where("k % 2 = 0"), "db.t", tasks=tasks)
    files = lake.catalog.table("db.t$files").to_arrow().to_pylist()
    assert Counter((f["partition"], f["bucket"]) for f in files).most_common(1)[0][1] == 2
    assert lake.table("db.t").count() == 1000
    day = dt.date(2026, 1, 2)
    found = lake.table("db.t", columns=["k"], where=f"p = 3 AND d = DATE '{day}'").collect()
    assert {row.k for row in found} == {k for k in range(1000) if k % 7 == 3 and k % 3 == 1}


def test_append_tables_keep_every_row(spark, lake):
    frame = spark.range(500, numPartitions=3).selectExpr("id % 5 AS p", "id AS v")
    lake.create_table("db.t", frame, partition_keys=["p"])
    for _ in range(2):
        lake.write(frame, "db.t")
    assert lake.table("db.t").count() == 1000
    assert lake.table("db.t", where="p = 4").count() == 200


def test_bucketed_append_tables_take_null_bucket_keys(spark, lake):
    frame = spark.createDataFrame(
        [(None, dt.datetime(2026, 1, 1), 1), ("x" * 20, None, 2), (None, None, 3), ("y", None, 4)],
        "a string, t timestamp_ntz, v int",
    )
    lake.create_table("db.t", frame, options={"bucket": 4, "bucket-key": "a,t"})
    lake.write(frame, "db.t")
    assert {row.v for row in lake.table("db.t").collect()} == {1, 2, 3, 4}
    assert [r.v for r in lake.table("db.t", where="a = 'y' AND t IS NULL").collect()] == [4]


@pytest.mark.parametrize("key_type", ["double", "float", "decimal(30,5)"])
def test_keys_without_an_expression_are_hashed_in_python(spark, lake, key_type):
    frame = spark.range(60).selectExpr(f"CAST(id / 8 AS {key_type}) AS k", "id AS v")
    lake.create_table("db.t", frame, primary_keys=["k"], options={"bucket": 3})
    lake.write(frame, "db.t")
    lake.write(frame, "db.t")
    assert lake.table("db.t").count() == 60


def test_overwrite_replaces_the_partitions_that_rows_come_for(spark, lake):
    frame = spark.range(30).selectExpr("id % 3 AS p", "id AS v")
    lake.create_table("db.t", frame, partition_keys=["p"])
    lake.write(frame, "db.t")
    lake.write(spark.createDataFrame([(1, -1)], frame.schema), "db.t", mode="overwrite")
    found = Counter(row.p for row in lake.table("db.t").collect())
    assert found == {0: 10, 1: 1, 2: 10}


def test_overwrite_of_a_named_partition_fills_in_its_column(spark, lake):
    frame = spark.range(30).selectExpr("id % 3 AS p", "id AS v")
    lake.create_table(
        "db.t", frame, primary_keys=["p", "v"], partition_keys=["p"], options={"bucket": 2}
    )
    lake.write(frame, "db.t")
    lake.write(
        spark.range(2).selectExpr("id + 100 AS v"), "db.t", mode="overwrite", partition={"p": 2}
    )
    assert {row.v for row in lake.table("db.t", where="p = 2").collect()} == {100, 101}
    with pytest.raises(InvalidInputError, match="p=0"):
        lake.write(frame, "db.t", mode="overwrite", partition={"p": 2})
    assert lake.table("db.t").count() == 22


def test_overwrite_of_an_unpartitioned_table_replaces_it(lake, keyed):
    lake.write(keyed.where("v < 3"), "db.keyed", mode="overwrite")
    assert lake.table("db.keyed").count() == 3
    lake.write(keyed.where("v < 5"), "db.keyed")
    assert lake.table("db.keyed").count() == 5


def test_a_repeated_identity_is_written_once(lake, keyed):
    table = lake.catalog.table("db.keyed")
    first = lake.write(keyed.where("v < 5"), "db.keyed", commit_user="job", commit_identifier=7)
    again = lake.write(keyed.where("v < 50"), "db.keyed", commit_user="job", commit_identifier=7)
    assert (first.already_committed, again.already_committed) == (False, True)
    assert again.snapshot_ids == ()
    later = lake.write(keyed.where("v < 9"), "db.keyed", commit_user="job", commit_identifier=8)
    assert later.rows == 9
    assert len(table.history()) == 3


def test_an_empty_frame_changes_nothing(lake, keyed):
    result = lake.write(keyed.where("v < 0"), "db.keyed")
    assert (result.rows, result.files) == (0, 0)
    assert lake.table("db.keyed").count() == 100


def test_an_input_that_runs_out_of_order_of_columns_is_matched_by_name(lake, keyed):
    lake.write(keyed.selectExpr("v + 1000 AS v", "b", "a"), "db.keyed")
    assert min(row.v for row in lake.table("db.keyed").collect()) == 1000


def test_decimals_of_any_width_arrive_as_they_are(spark, lake):
    frame = spark.sql(
        """
        SELECT * FROM VALUES
          (1BD, CAST(1.25 AS DECIMAL(5, 2)), CAST(-999999999999999999 AS DECIMAL(18, 0)),
           CAST('-9999999999999999999999999999.9999999999' AS DECIMAL(38, 10)),
           named_struct('d', CAST(7.5 AS DECIMAL(9, 1)))),
          (2BD, CAST(-0.01 AS DECIMAL(5, 2)), CAST(999999999999999999 AS DECIMAL(18, 0)),
           CAST(0.5 AS DECIMAL(38, 10)), named_struct('d', CAST(NULL AS DECIMAL(9, 1)))),
          (3BD, NULL, NULL, NULL, NULL)
        AS t(`a key`, `sm.all`, whole, wide, nested)
        """
    )
    lake.create_table("db.d", frame, primary_keys=["a key"], options={"bucket": 2})
    lake.write(frame, "db.d")
    table = lake.catalog.table("db.d")
    rows = sorted(table.to_arrow().to_pylist(), key=lambda row: row["a key"])
    assert [tuple(row.values()) for row in rows] == [
        (*row[:-1], None if row.nested is None else {"d": row.nested.d})
        for row in frame.orderBy("`a key`").collect()
    ]
    assert table.to_arrow(where="`a key` = 2").num_rows == 1  # in the bucket of its key


def test_narrower_numbers_widen(lake, keyed, spark):
    lake.write(spark.sql("SELECT tinyint(1) AS a, 'k1' AS b, 5 AS v"), "db.keyed")
    assert [r.v for r in lake.table("db.keyed", where="a = 1 AND b = 'k1'").collect()] == [5]


@pytest.mark.parametrize(
    ("expressions", "word"),
    [
        (["a", "b"], "'v'"),
        (["a", "b", "v", "v AS w"], "'w'"),
        (["a", "b", "string(v) AS v"], "'v'"),
        (["a", "b", "timestamp_micros(v) AS v"], "'v'"),
        (["a", "b", "v", "1.5 AS _row_kind"], "_row_kind"),
    ],
)
def test_wrong_columns_are_refused_before_anything_runs(lake, keyed, expressions, word):
    poison = F.udf(lambda x: 1 / 0)
    frame = keyed.selectExpr(*expressions).where(poison("a").isNotNull())
    with pytest.raises(InvalidInputError, match=word):
        lake.write(frame, "db.keyed")


@pytest.mark.parametrize(
    ("expressions", "word"),
    [
        (["a", "nullif(b, 'k3') AS b", "v"], "'b'"),
        (["nullif(a, 3) AS a", "b", "v"], "'a'"),
        (["CAST(a + 99999999999999999999 AS DECIMAL(30, 0)) AS a", "b", "v"], "'a'"),
        (["a", "b", "v", "'+X' AS _row_kind"], "kind"),
        (["a", "b", "v", "CAST(NULL AS STRING) AS _row_kind"], "kind"),
    ],
)
def test_wrong_values_are_refused_and_leave_no_file(lake, keyed, expressions, word, tmp_path):
    before = sorted(tmp_path.rglob("data-*"))
    with pytest.raises(InvalidInputError, match=word):
        lake.write(keyed.selectExpr(*expressions), "db.keyed")
    assert lake.table("db.keyed").count() == 100
    assert sorted(tmp_path.rglob("data-*")) == before


def test_deletes_in_an_append_table_are_refused(spark, lake):
    frame = spark.range(3).selectExpr("id", "'-D' AS _row_kind")
    lake.create_table("db.t", frame.drop("_row_kind"))
    with pytest.raises(InvalidInputError, match="primary key"):
        lake.write(frame, "db.t")


def test_an_error_of_the_users_frame_is_raised_as_it_is(lake, keyed):
    poison = F.udf(lambda x: 1 // 0, "long")
    with pytest.raises(PythonException, match="ZeroDivision"):
        lake.write(keyed.withColumn("v", poison("v")), "db.keyed")
    assert lake.table("db.keyed").count() == 100


def test_unknown_modes_tables_and_arguments_are_refused(lake, keyed):
    with pytest.raises(InvalidInputError, match="upsert"):
        lake.write(keyed, "db.keyed", mode="upsert")
    with pytest.raises(NotFoundError, match="keyed"):
        lake.write(keyed, "db.keyde")
    with pytest.raises(InvalidInputError, match="system table"):
        lake.write(keyed, "db.keyed$files")
    with pytest.raises(InvalidInputError, match="tasks"):
        lake.write(keyed, "db.keyed", tasks=0)
    with pytest.raises(InvalidInputError, match="overwrite"):
        lake.write(keyed, "db.keyed", partition={"a": 1})
    with pytest.raises(InvalidInputError, match="commit_identifier"):
        lake.write(keyed, "db.keyed", commit_user="me")


def test_types_without_a_counterpart_are_refused(spark, lake):
    with pytest.raises(UnsupportedError, match=r"'n\.element'"):
        lake.create_table("db.t", spark.sql("SELECT 1 AS k, array(INTERVAL 1 DAY) AS n"))


def test_many_buckets_stay_inside_the_buffer_budget(spark, lake):
    """Each task holds several partitions; small buffers are flushed or spilled, nothing is lost."""
    frame = spark.range(20_000).selectExpr("id AS k", "id % 20 AS p", "repeat(string(id), 10) AS v")
    lake.create_table(
        "db.t",
        frame,
        primary_keys=["k", "p"],
        partition_keys=["p"],
        options={"bucket": 2, "write-buffer-size": "256 kb", "page-size": "16 kb"},
    )
    lake.write(frame, "db.t")
    found = lake.table("db.t").agg(F.count("*"), F.sum("k"), F.count_distinct("v")).first()
    assert tuple(found) == (20_000, sum(range(20_000)), 20_000)


def test_buckets_that_another_writer_wrote_to_meanwhile_are_counted(spark, lake, monkeypatch):
    frame = spark.range(40).selectExpr("id AS k", "id AS v")
    table = lake.create_table("db.meanwhile", frame, primary_keys=["k"], options={"bucket": 4})
    assert lake.write(frame, "db.meanwhile").buckets_interleaved == 0
    publish = spark_write.add_answer

    def after_another(*arguments, **named):
        table.write([{"k": 7, "v": -7}])
        return publish(*arguments, **named)

    monkeypatch.setattr(spark_write, "add_answer", after_another)
    assert lake.write(frame, "db.meanwhile").buckets_interleaved == 1


def test_rows_of_this_process_are_written_by_it(lake, keyed):
    rows = pd.DataFrame({"a": [1, 77], "b": ["k0", "new"], "v": [-5, -6]})
    jobs = len(lake.spark.sparkContext.statusTracker().getJobIdsForGroup())
    result = lake.write(rows, "db.keyed")
    assert (result.rows, len(result.snapshot_ids)) == (2, 1)
    assert len(lake.spark.sparkContext.statusTracker().getJobIdsForGroup()) == jobs
    assert lake.table("db.keyed").where("v < 0").count() == 2


def test_a_cast_that_fails_in_a_task_is_one_sentence(lake, keyed, spark):
    text = spark.createDataFrame([("1",), ("x",)], "t string")
    frame = text.selectExpr("cast(t as bigint) a", "'b' b", "1L v")
    with pytest.raises(InvalidInputError, match=r"db\.keyed.*'x'") as written:
        lake.write(frame, "db.keyed")
    with pytest.raises(InvalidInputError, match=r"db\.keyed.*'k0'") as updated:
        lake.update("db.keyed", {"v": "cast(b as bigint)"}, "v = 0")
    with pytest.raises(InvalidInputError, match=r"db\.keyed.*'k") as deleted:
        lake.delete("db.keyed", F.expr("cast(b as bigint) = 1"))
    for caught in (written, updated, deleted):
        assert caught.value.kind == "value"
        assert len(str(caught.value)) < 400
        assert "Traceback" not in str(caught.value)


def _others_replace_its_inputs(warehouse):
    """Make the first task find its compaction's inputs replaced and expired, on an executor."""

    def meddled(task, *, through=None):
        write = write_task(task, through=through)

        def run(batches):
            marker = Path(warehouse) / "acted"
            prepare = TableWriter.prepare_commit

            def after_others(writer):
                if not marker.exists():
                    marker.touch()
                    table = tidelake.open(warehouse).table("db.meddled")
                    table.write([{"k": 50, "v": 1}])
                    table.compact(full=True)
                    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
                return prepare(writer)

            TableWriter.prepare_commit = after_others
            try:
                yield from write(batches)
            finally:
                TableWriter.prepare_commit = prepare

        return run

    return meddled


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_write_whose_inputs_were_replaced_and_expired_begins_again(
    spark, lake, tmp_path, monkeypatch, is_stream
):
    """A write does; of a stream they do not expire, as its lease holds what it writes on."""
    options = {"bucket": 1, "num-sorted-run.compaction-trigger": 2, "sink.local-rows": 0}
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    lake.create_table("db.meddled", schema, primary_keys=["k"], options=options)
    lake.write(spark.range(2).selectExpr("id AS k", "id AS v"), "db.meddled")
    frame = spark.range(20, 22).selectExpr("id AS k", "id AS v")
    lake.create_table("db.rows", frame)
    lake.write(frame, "db.rows")
    meddled = _others_replace_its_inputs(str(tmp_path / "warehouse"))
    monkeypatch.setattr(spark_write, "write_task", meddled)
    if is_stream:
        given = {"checkpoint": str(tmp_path / "checkpoint"), "trigger": "availableNow"}
        query = lake.write_stream(lake.read_stream("db.rows"), "db.meddled", **given)
        query.awaitTermination()
    else:
        lake.write(frame, "db.meddled")
    consumers = lake.catalog.table("db.meddled").system_table("consumers").to_arrow().num_rows
    assert consumers == is_stream
    assert (tmp_path / "warehouse" / "acted").exists()
    assert [row.k for row in lake.table("db.meddled").orderBy("k").collect()] == [0, 1, 20, 21, 50]
