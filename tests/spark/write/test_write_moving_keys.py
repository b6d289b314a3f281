"""Keys that move between partitions, upserted from Spark: nowhere twice, whoever writes."""

from __future__ import annotations

import datetime as dt
import random
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import tidelake
from tidelake.errors import CorruptError, InvalidInputError, UnsupportedError
from tidelake.spark.write import write_frame as spark_write
from tidelake.table.write.new_writer import new_writer

COLUMNS = "p string, k bigint, v bigint"


def make(lake, name="db.moving", **options):
    return lake.catalog.create_table(
        name,
        {"p": "string", "k": "int64", "v": "int64"},
        primary_keys=["k"],
        partition_keys=["p"],
        options={key.replace("_", "-"): v for key, v in options.items()},
    )


def content(table):
    return sorted((r["k"], str(r["p"]), r["v"]) for r in table.to_arrow().to_pylist())


def test_writes_equal_those_of_python_and_a_dict(spark, lake):
    rng = random.Random(11)
    small = {"dynamic_bucket.target_row_num": "20", "num_sorted_run.compaction_trigger": "3"}
    ours, theirs = make(lake, **small), make(lake, "db.python", **small)
    model = {}
    for write in range(3):
        keys = rng.sample(range(150), 70)
        rows = [(rng.choice(["a", "b", "c", None]), k, write * 1000 + k) for k in keys]
        kinds = [rng.choice(["+I", "+U", "+I", "-D", "-U"]) for _ in rows]
        frame = spark.createDataFrame(
            [(*row, kind) for row, kind in zip(rows, kinds, strict=True)],
            f"{COLUMNS}, _row_kind string",
        )
        assert lake.write(frame, "db.moving", tasks=2).rows == 70
        theirs.write([dict(zip("pkv", row, strict=True)) for row in rows], row_kinds=kinds)
        for (p, k, v), kind in zip(rows, kinds, strict=True):
            model.pop(k, None)
            if kind in {"+I", "+U"}:
                model[k] = (k, str(p), v)
        assert content(ours) == content(theirs) == sorted(model.values())
    ours.compact(full=True)
    assert content(ours) == sorted(model.values())
    ours.write([{"p": "z", "k": k, "v": 0} for k in range(150)])  # Python goes on
    assert content(ours) == [(k, "z", 0) for k in range(150)]


ENGINES = {
    "partial-update": {"partial-update.remove-record-on-delete": "true"},
    "aggregation": {"fields.v.aggregate-function": "sum", "ignore-update-before": "true"},
    "first-row": {"ignore-delete": "true", "changelog-producer": "lookup"},
}


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_that_keep_a_key_where_it_is_equal_those_of_python(spark, lake, engine):
    rng = random.Random(engine)
    tables = [
        lake.catalog.create_table(
            name,
            {"p": "string", "k": "int64", "v": "int64", "kind": "string"},
            primary_keys=["k"],
            partition_keys=["p"],
            options={
                "merge-engine": engine,
                "rowkind.field": "kind",
                "dynamic-bucket.target-row-num": "20",
                **ENGINES[engine],
            },
        )
        for name in ("db.moving", "db.python")
    ]
    kinds = ["+I", "+U", "-D"] if engine != "aggregation" else ["+I", "+U", "-U"]
    for write in range(3):
        rows = [
            (
                rng.choice(["a", "b", None]),
                k,
                rng.choice([None, write * 100 + k]),
                rng.choice(kinds),
            )
            for k in rng.sample(range(90), 50)
        ]
        frame = spark.createDataFrame(rows, f"{COLUMNS}, kind string")
        assert lake.write(frame, "db.moving", tasks=2).rows == 50
        tables[1].write([dict(zip(("p", "k", "v", "kind"), r, strict=True)) for r in rows])
        ours, theirs = (t.to_arrow(columns=["p", "k", "v"]).sort_by("k") for t in tables)
        assert ours.to_pylist() == theirs.to_pylist()
        assert ours.num_rows == len(set(ours["k"].to_pylist())) > 20
    changed = [(None, k, 9, "+I") for k in range(90, 93)] + [("a", 91, 9, "+I")]
    lake.write(spark.createDataFrame(changed, f"{COLUMNS}, kind string"), "db.moving", tasks=2)
    wanted = {"partial-update": 9, "aggregation": 18, "first-row": 9}[engine]
    (row,) = tables[0].to_arrow(where="k = 91").to_pylist()
    assert row["v"] == wanted


def test_keys_of_many_types_and_a_partition_by_default(spark, lake):
    frame = spark.range(0, 40, 1, 2).selectExpr(
        "DATE'2024-01-01' + int(id % 3) AS d",
        "int(id % 2) AS p",
        "CAST(id / 4 AS decimal(20, 2)) AS a",
        "CAST(concat('key', id) AS binary) AS b",
        "TIMESTAMP_NTZ'2024-01-01 00:00:00' + make_dt_interval(int(id)) AS t",
        "array(string(id)) AS tags",
        "'old' AS v",
    )
    keys = ["p", "a", "b", "t"]
    lake.create_table("db.wide", frame, primary_keys=keys, partition_keys=["p", "d"])
    lake.write(frame, "db.wide")
    lake.alter_table("db.wide", [tidelake.UpdateColumnDefaultValue("d", "2024-02-02")])
    moved = frame.where("v = 'old' AND a < 5").withColumn("v", F.lit("new")).drop("d")
    lake.write(moved, "db.wide")
    found = lake.catalog.table("db.wide").to_arrow().to_pylist()
    assert len(found) == 40
    for row in found:
        number = int(row["b"][3:])
        assert row["a"] == Decimal(number) / 4
        assert row["tags"] == [str(number)]
        old = dt.date(2024, 1, 1 + number % 3)
        wanted = (dt.date(2024, 2, 2), "new") if number < 20 else (old, "old")
        assert (row["d"], row["v"]) == wanted


def test_writers_at_once_never_leave_a_key_twice(spark, lake, tmp_path):
    table = make(lake)
    table.write([{"p": "a", "k": k, "v": 0} for k in range(50)])

    def upsert(number):
        frame = spark.range(number * 10, number * 10 + 50, 1, 2).selectExpr(
            f"'w{number}' AS p", "id AS k", f"{number}L AS v"
        )
        return lake.write(frame, "db.moving", tasks=2)

    def upsert_in_python(number):
        other = tidelake.open(tmp_path / "warehouse").table("db.moving")
        keys = range(number * 10, number * 10 + 50)
        return other.write([{"p": f"w{number}", "k": k, "v": number} for k in keys])

    with ThreadPoolExecutor(3) as pool:
        done = [pool.submit(upsert, 1), pool.submit(upsert, 2), pool.submit(upsert_in_python, 3)]
        order = sorted((f.result().snapshot_ids[0], n) for n, f in enumerate(done, start=1))
    model = {k: (k, "a", 0) for k in range(50)}
    for _, number in order:
        model |= {k: (k, f"w{number}", number) for k in range(number * 10, number * 10 + 50)}
    assert content(table) == sorted(model.values())


def test_a_commit_in_between_is_seen_and_the_rows_are_placed_anew(spark, lake, monkeypatch):
    table = make(lake)
    table.write([{"p": "a", "k": k, "v": 0} for k in range(20)])
    publish = spark_write.add_answer
    tries = []

    def after_another(*arguments, **named):
        tries.append(1)
        if len(tries) == 1:
            table.write([{"p": "other", "k": k, "v": 1} for k in range(10)])
        return publish(*arguments, **named)

    monkeypatch.setattr(spark_write, "add_answer", after_another)
    frame = spark.range(5, 30).selectExpr("'mine' AS p", "id AS k", "2L AS v")
    for _ in range(2):  # the second time nothing is done
        lake.write(frame, "db.moving", commit_user="job", commit_identifier=7)
    others = [(k, "other", 1) for k in range(5)]
    assert content(table) == others + [(k, "mine", 2) for k in range(5, 30)]
    assert (len(tries), table.latest_snapshot_id) == (2, 3)


def test_an_overwrite_replaces_the_whole_table_or_is_refused(spark, lake):
    table = make(lake)
    table.write([{"p": "a", "k": 1, "v": 1}, {"p": "b", "k": 2, "v": 2}])
    frame = spark.createDataFrame([("c", 2, 3), ("d", 2, 4)], COLUMNS)
    for partition in (None, {"p": "a"}):
        with pytest.raises(UnsupportedError, match="whole table"):
            lake.write(frame, "db.moving", mode="overwrite", partition=partition)
    assert len(content(table)) == 2
    lake.write(
        frame, "db.moving", mode="overwrite", options={"dynamic-partition-overwrite": "false"}
    )
    assert content(table) in ([(2, "c", 3)], [(2, "d", 4)])
    lake.write(frame.limit(0), "db.moving", mode="overwrite", partition={"p": "a"})
    assert len(content(table)) == 1


def test_what_is_wrong_with_rows_or_table_is_told_once(spark, lake):
    table = make(lake)
    frame = spark.createDataFrame([("a", None, 1)], COLUMNS)
    with pytest.raises(InvalidInputError, match="'k'"):
        lake.write(frame, "db.moving")
    table.write([{"p": "a", "k": 1, "v": 1}])
    out = new_writer(table.handle)  # one that does not look where the key is
    out.write(pa.record_batch({"p": ["b"], "k": [1], "v": [2]}), buckets=np.zeros(1, np.int32))
    table.handle.committer().commit(out.prepare_commit(), user="other")
    with pytest.raises(CorruptError, match="two buckets"):
        lake.write(spark.createDataFrame([("c", 1, 3)], COLUMNS), "db.moving")
    assert len(content(table)) == 2
