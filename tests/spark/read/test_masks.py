"""Runs scanned by Spark under masks: the rows must be those of the kernel's merge."""

from __future__ import annotations

import dataclasses
import math
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pytest
from proving.mask_tables import run_seed
from py4j.protocol import Py4JError
from sizes import SIZE

from tidelake import AddColumn
from tidelake.errors import UnsupportedError
from tidelake.spark.jvm import slower
from tidelake.spark.read import mask_job, masked_scan
from tidelake.store.lsm import keyed_file
from tidelake.types import DataField, parse_type

# of what Spark makes of plans, as users have them
pytestmark = pytest.mark.usefixtures("production_conf")

ROWS = 1_000
WRITE_ONLY = {"write-only": "true"}  # runs stay as they were written


def fields_of(**types):
    return [DataField(i, name, parse_type(text)) for i, (name, text) in enumerate(types.items())]


def plan_of(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


def in_order(rows):
    """As text: a NaN is equal to none."""
    return sorted(map(repr, rows))


def check(lake, table, *, masked=True, merged=False, **scan):
    """Spark's rows are the kernel's, and came the way they should."""
    frame = lake.table("db.t", **scan)
    plan = plan_of(frame)
    assert ("row_index" in plan) == masked
    assert ("rows of keys that several files have" in plan) == merged
    assert "MapInArrow" not in plan or not masked or merged
    expected = [tuple(row.values()) for row in table.to_arrow(**scan).to_pylist()]
    found = [tuple(row) for row in frame.collect()]
    assert in_order(found) == in_order(expected)
    return frame


@pytest.fixture
def numbers(lake):
    """A large run of even keys with holes in its values, then updates, inserts and deletes."""
    table = lake.catalog.create_table(
        "db.t",
        fields_of(k="BIGINT NOT NULL", v="STRING", x="DOUBLE"),
        primary_keys=["k"],
        options={"bucket": 3, **WRITE_ONLY},
    )
    keys = np.arange(ROWS) * 2
    values = pa.array([None if k % 10 == 0 else f"v{k}" for k in keys])
    x = pa.array([math.nan if k % 6 == 0 else float(k) for k in keys])
    table.write(pa.table({"k": keys, "v": values, "x": x}))
    for number in range(2):
        changed = pa.array([0, 2, 500 + number, 502, 700, 1998, 2001])
        kinds = ["+I", "+U", "+I", "+I", "-D", "-D" if number else "+I", "+I"]
        rows = {"k": changed, "v": [f"n{number}"] * 7, "x": [math.nan, None, 1.0, 2, 3, 4, 5]}
        table.write(pa.table(rows), row_kinds=kinds)
    return table


def test_rows_are_the_kernels(lake, numbers):
    frame = check(lake, numbers)
    assert frame.count() == numbers.to_arrow().num_rows
    check(lake, numbers, columns=["x"])
    check(lake, numbers, columns=["v", "k"])


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "condition",
    [
        "x > 100",
        "NOT (x > 100)",
        "v = 'n0'",
        "v = 'v2'",
        "v IS NULL",
        "k >= 400 AND k < 504",
        "k = 700",
    ],
)
def test_a_filter_brings_no_replaced_row_to_light(lake, numbers, condition):
    for columns in (None, ["v"]):
        found = lake.table("db.t", columns=columns, where=condition)
        expected = numbers.to_arrow(columns=columns, where=condition).to_pylist()
        rows = [tuple(row) for row in found.collect()]
        assert in_order(rows) == in_order(tuple(r.values()) for r in expected)


def test_comparisons_come_before_the_mask_and_what_may_fail_behind_it(spark, lake, numbers):
    """The deleted row of key 700 would divide by zero; most rows cost no look into the mask."""
    text = "SELECT k FROM {} WHERE 100 / (x - 700) > 0 AND x > 690"
    rows = numbers.to_arrow().to_pylist()
    # a NaN is larger than any number
    expected = [r["k"] for r in rows if r["x"] is not None and not r["x"] <= 700]
    spark_names = spark.sql(text.format("tidelake.db.t"))
    for frame in (lake.sql(text.format("db.t")), spark_names):
        (condition,) = (line for line in plan_of(frame).splitlines() if "Filter (" in line)
        places = [condition.index(part) for part in ("> 690", "row_index", "- 700")]
        assert places == sorted(places)
        assert sorted(row[0] for row in frame.collect()) == sorted(expected)


def test_every_moment_can_be_read(lake, numbers):
    check(lake, numbers, snapshot_id=1, masked=False)
    check(lake, numbers, snapshot_id=2)
    check(lake, numbers, snapshot_id=3)


def test_sparks_row_reader_counts_rows_alike(spark, lake, numbers):
    for name in ("enableVectorizedReader", "filterPushdown"):
        key = f"spark.sql.parquet.{name}"
        before = spark.conf.get(key)
        spark.conf.set(key, "false")
        try:
            check(lake, numbers, where="k > 300 AND x < 1500")
        finally:
            spark.conf.set(key, before)


def test_frames_can_be_joined_and_used_again(lake, numbers):
    frame = lake.table("db.t", columns=["k"])
    count = numbers.to_arrow().num_rows
    assert frame.join(lake.table("db.t"), "k").count() == count
    assert frame.unionAll(frame).count() == 2 * count
    assert frame.where("k < 10").count() == sum(k < 10 for k in numbers.to_arrow()["k"].to_pylist())


def test_many_files_with_many_row_groups(lake, monkeypatch):
    """Files of one run, some of one size: one scan takes all that have masks."""
    small = keyed_file.format_options
    monkeypatch.setattr(
        keyed_file,
        "format_options",
        lambda options, **how: dataclasses.replace(small(options, **how), row_group_rows=70),
    )
    table = lake.catalog.create_table(
        "db.t",
        fields_of(p="INT NOT NULL", k="BIGINT NOT NULL", v="BIGINT"),
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": 2, **WRITE_ONLY},
    )
    for p in range(4):
        n = ROWS if p else 0
        keys = np.arange(n)
        table.write(pa.table({"p": pa.array([p] * n, pa.int32()), "k": keys, "v": keys * 10}))
        keys = np.arange(0, ROWS, 37)
        p_column = pa.array([p] * len(keys), pa.int32())
        table.write(
            pa.table({"p": p_column, "k": keys, "v": -keys}),
            row_kinds=["-D" if k % 2 else "+I" for k in keys],
        )
    check(lake, table)
    # the run of the first partition is alone: its deletes are left out by their kind
    assert plan_of(lake.table("db.t")).count("FileScan parquet") == 2
    check(lake, table, where="k >= 500 AND k < 600")
    check(lake, table, where="p = 2 AND v < 3000")


def test_composite_keys_of_any_length(lake):
    table = lake.catalog.create_table(
        "db.t",
        fields_of(a="STRING NOT NULL", d="DOUBLE NOT NULL", v="INT"),
        primary_keys=["a", "d"],
        options={"bucket": 2, **WRITE_ONLY},
    )
    texts = ["x" * (i % 40) + chr(97 + i % 7) for i in range(ROWS)]
    doubles = [math.nan if i % 9 == 0 else -0.0 if i % 9 == 1 else float(i) for i in range(ROWS)]
    numbers = pa.array(range(ROWS), pa.int32())
    table.write(pa.table({"a": texts, "d": doubles, "v": numbers}))
    longer = "y" * 300
    table.write(
        pa.table(
            {
                "a": [*texts[:50], "b", longer, "b\0"],
                "d": [*(0.0 if d == 0 else d for d in doubles[:50]), 1.0, 2.0, 3.0],
                "v": pa.array(range(-53, 0), pa.int32()),
            }
        )
    )
    frame = check(lake, table)
    assert frame.count() > ROWS / 2


def test_a_large_run_with_deletes_of_its_own(lake):
    table = lake.catalog.create_table(
        "db.t",
        fields_of(k="BIGINT NOT NULL", v="STRING"),
        primary_keys=["k"],
        options={"bucket": 1, **WRITE_ONLY},
    )
    kinds = ["-D" if k % 5 == 0 else "+I" for k in range(ROWS)]
    table.write(pa.table({"k": range(ROWS), "v": ["old"] * ROWS}), row_kinds=kinds)
    table.write(pa.table({"k": [0, 1, 2], "v": ["new"] * 3}), row_kinds=["+I", "-D", "+I"])
    check(lake, table)


@pytest.mark.parametrize(
    ("options", "masked"),
    [
        ({"sequence.field": "s"}, True),  # the merge of the keys and sequences decides
        ({"merge-engine": "first-row", "ignore-delete": "true"}, True),
        ({"ignore-delete": "true"}, True),  # the writer leaves deletes out
    ],
    ids=["sequence", "first-row", "deletes"],
)
def test_where_the_newer_run_does_not_always_win(lake, options, masked):
    table = lake.catalog.create_table(
        "db.t",
        fields_of(k="BIGINT NOT NULL", s="BIGINT", v="STRING"),
        primary_keys=["k"],
        options={"bucket": 1, **options, **WRITE_ONLY},
    )
    table.write(pa.table({"k": range(ROWS), "s": [10] * ROWS, "v": ["old"] * ROWS}))
    # of a file that is hidden whole Spark reads nothing
    rows = {"k": [1, 2, 3, ROWS], "s": [5, 15, 20, 5], "v": ["late", "new", "gone", "more"]}
    kinds = ["+I", "+I", "+I" if "merge-engine" in options else "-D", "+I"]
    table.write(pa.table(rows), row_kinds=kinds)
    check(lake, table, masked=masked)


@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "partial-update", "fields.s.sequence-group": "v"},
        {
            "merge-engine": "aggregation",
            "fields.s.aggregate-function": "sum",
            "fields.v.aggregate-function": "listagg",
        },
    ],
    ids=["partial-update", "aggregation"],
)
def test_of_engines_that_combine_rows_keys_of_several_files_alone_meet_python(lake, options):
    table = lake.catalog.create_table(
        "db.t",
        fields_of(k="BIGINT NOT NULL", s="BIGINT", v="STRING"),
        primary_keys=["k"],
        options={"bucket": 2, "num-sorted-run.compaction-trigger": "9", **options},
    )
    table.write(pa.table({"k": range(ROWS), "s": [10] * ROWS, "v": ["old"] * ROWS}))
    table.compact(full=True)
    assert plan_of(lake.table("db.t")).count("FileScan parquet") == 1
    table.write(
        pa.table({"k": [1, 2, 3, 5000], "s": [5, 15, None, 7], "v": ["late", "n", "x", "y"]})
    )
    table.write(pa.table({"k": [1, 3, -7], "s": [None, 8, 9], "v": ["a", None, "c"]}))
    check(lake, table, merged=True)
    check(lake, table, merged=True, columns=["v"], where="s > 9 OR v IS NULL")
    check(lake, table, merged=True, where="k = 3")
    check(lake, table, merged=True, snapshot_id=table.latest_snapshot_id - 1)
    rows = table.to_arrow(columns=["s"], where="k < 6").num_rows
    (found,) = lake.sql("SELECT count(*), sum(s) FROM db.t WHERE k < 6").collect()
    assert found[0] == rows
    # where most keys are in several files, all rows are merged
    table.write(pa.table({"k": range(ROWS), "s": [20] * ROWS, "v": ["new"] * ROWS}))
    check(lake, table, masked=False)


def test_where_spark_does_not_take_our_file_index_rows_are_merged(lake, numbers, monkeypatch):
    def define(_):
        raise Py4JError("no such compiler")

    monkeypatch.setattr(masked_scan, "_TAKES_MASKS", WeakKeyDictionary())
    monkeypatch.setattr(masked_scan, "define_listed_files", define)
    monkeypatch.setattr(slower, "_SAID", set())
    with pytest.warns(RuntimeWarning, match="merges in Python.* no such compiler") as said:
        check(lake, numbers, masked=False)
    assert len(said) == 1
    check(lake, numbers, masked=False, columns=["x"])  # a second warning would be an error


def test_a_column_of_the_name_that_spark_gives_its_metadata(lake):
    table = lake.catalog.create_table(
        "db.t",
        fields_of(k="BIGINT NOT NULL", _metadata="STRING"),
        primary_keys=["k"],
        options={"bucket": 1, **WRITE_ONLY},
    )
    table.write(pa.table({"k": range(ROWS), "_metadata": ["old"] * ROWS}))
    table.write(pa.table({"k": [1], "_metadata": ["new"]}))
    check(lake, table)
    check(lake, table, columns=["k"])


def test_a_mask_is_found_once_and_extended_by_the_next_commit(lake, numbers, monkeypatch):
    counts = []
    real = mask_job.masks_here

    def counted(context, requests):
        counts.append(sum(file.row_count for r in requests for file in r.held.values()))
        return real(context, requests)

    monkeypatch.setattr(mask_job, "masks_here", counted)
    check(lake, numbers)
    assert counts == [14]  # rows of the two newer runs
    check(lake, numbers, columns=["v"])
    check(lake, numbers, where="x > 10")
    assert len(counts) == 1
    numbers.write(pa.table({"k": [4, 6], "v": ["a", "b"], "x": [1.0, 2.0]}))
    check(lake, numbers)
    assert counts[1:] == [2]
    # the columns of a query need not have the key
    check(lake, numbers, columns=["x"])
    numbers.rollback_to(snapshot_id=2)
    check(lake, numbers)
    numbers.write(pa.table({"k": [700], "v": ["again"], "x": [7.0]}))
    check(lake, numbers)


def test_many_rows_are_looked_up_by_a_job(lake, numbers, monkeypatch):
    monkeypatch.setattr(mask_job, "DRIVER_ROWS_MAX", 10)
    monkeypatch.setattr(mask_job, "masks_here", None)
    check(lake, numbers)
    numbers.write(pa.table({"k": [4, 700], "v": ["a", "b"], "x": [1.0, 2.0]}))
    check(lake, numbers)


def test_a_column_that_was_added_is_null_in_masked_files_of_before(lake, numbers):
    table = lake.catalog.alter_table("db.t", [AddColumn("late", parse_type("INT"))])
    late = pa.array([1, 2], pa.int32())
    table.write(pa.table({"k": [0, 4], "v": ["l", "m"], "x": [0.5, 1.5], "late": late}))
    check(lake, table)
    # the files of before have none of these columns: the kernel merges them
    check(lake, table, masked=False, columns=["late"], where="late IS NULL")


@pytest.mark.share(3)
@pytest.mark.parametrize(
    "options", [{}, {"deletion-vectors.enabled": "true"}, {"ignore-delete": "true"}]
)
def test_random_commits_and_compactions(lake, options):
    rng = np.random.default_rng(len(options) + 27)
    table = lake.catalog.create_table(
        "db.t",
        fields_of(k="STRING NOT NULL", n="INT NOT NULL", v="BIGINT"),
        primary_keys=["k", "n"],
        options={"bucket": 2, "num-sorted-run.compaction-trigger": 3, **options},
    )
    for number in range(7):
        n = rng.choice(200, size=int(rng.integers(1, 120)), replace=False)
        kinds = ["+I" if options.get("ignore-delete") or x % 3 else "-D" for x in n]
        keys = {"k": ["k" * (x % 11) for x in n], "n": pa.array(n, pa.int32())}
        table.write(pa.table({**keys, "v": n * 10 + number}), row_kinds=kinds)
        frame = lake.table("db.t", columns=["v"])
        found = sorted(row.v for row in frame.collect())
        assert found == sorted(table.to_arrow(columns=["v"])["v"].to_pylist())
        assert "MapInArrow" not in plan_of(frame)


@pytest.mark.parametrize("seed", range(SIZE.spark_mask_tables))
def test_drawn_tables_are_the_same_by_spark(lake, seed):
    def rows(table):
        try:
            found = lake.table("db.t").toArrow()
        except UnsupportedError:
            return None  # Spark lacks a type
        nullable = pa.schema([field.with_nullable(True) for field in table.schema])
        return [tuple(row.values()) for row in found.cast(nullable).to_pylist()]

    run_seed(seed, lambda: lake.catalog, steps=5, also=rows)
