"""Changes read on Spark's executors equal those that are read without Spark."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from tidelake.errors import InvalidInputError, NotFoundError, UnsupportedError

MODES = ["diff", "changelog", "delta", "auto"]


def rows_of(frame):
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def lines(changes):
    return sorted((tuple(row.values()) for row in changes.to_pylist()), key=repr)


def between(spark, lake, ends, mode=None, **options):
    if mode is not None:
        options["incremental-between-scan-mode"] = mode
    reader = spark.read.format("tidelake").option("incremental-between", ends).options(**options)
    return reader.load(f"{lake.catalog.warehouse}/db.db/t")


def flights(ids, offset=0.0):
    """Rows by their ids, in two partitions."""
    ids = np.asarray(ids)
    at = pa.array(ids * 1_000_000, pa.timestamp("us", tz="UTC"))
    return pa.table({"p": np.array(["a", "b"])[ids % 2], "k": ids, "at": at, "v": ids + offset})


@pytest.fixture
def logged(lake):
    """Two partitions of two buckets: 600 rows, then updates, deletes and inserts in 3 commits."""
    lake.create_table(
        "db.t",
        "p string, k bigint, at timestamp, v double",
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": 2, "changelog-producer": "lookup"},
    )
    table = lake.catalog.table("db.t")
    table.write(flights(np.arange(600)))
    for number in range(3):
        ids = np.arange(100 * number, 150 * number + 400, 3)
        kinds = np.where(ids % 7 == number, "-D", "+U")
        table.write(flights(ids, number / 10), row_kinds=kinds.tolist())
    return table


@pytest.mark.parametrize("mode", MODES)
def test_executors_read_the_changes_that_the_table_reads(spark, lake, logged, mode):
    last = logged.latest_snapshot_id
    seen = set()
    for start, end in ((0, last), (2, last), (2, 4)):
        table = logged.changes(start, end, mode=mode)
        frame = lake.changes("db.t", start, end, mode=mode)
        assert frame.columns == ["_row_kind", "p", "k", "at", "v"]
        # the session's zone is none of the kernel's business
        own = frame.selectExpr("_row_kind", "k", "v", "unix_seconds(at)")
        seconds = [None if at is None else round(at.timestamp()) for at in table["at"].to_pylist()]
        expected = list(
            zip(*(table[c].to_pylist() for c in ("_row_kind", "k", "v")), seconds, strict=True)
        )
        assert rows_of(own) == sorted(expected, key=repr), (start, end)
        read = between(spark, lake, f"{start},{end}", mode)
        assert rows_of(read) == rows_of(frame), (start, end)
        seen |= set(table["_row_kind"].to_pylist())
    assert seen == ({"+I", "+U", "-D"} if mode == "delta" else {"+I", "-U", "+U", "-D"})


def test_changes_are_of_the_moment_they_were_asked_for(spark, lake, logged):
    frame = lake.changes("db.t", 2, columns=["k"])
    before = rows_of(frame)
    logged.write(flights(np.arange(1000, 1010)))
    assert rows_of(frame) == before
    assert lake.changes("db.t", 2, columns=["k"]).count() == len(before) + 10


@pytest.mark.share(2)
@pytest.mark.parametrize("mode", MODES)
def test_changes_of_some_columns_and_rows(spark, lake, logged, mode):
    condition = "p = 'a' AND v > 300"
    names = ["v", "k", "p"]  # what leaves the filter is named by its key
    frame = lake.changes("db.t", 2, columns=names, where=condition, mode=mode)
    assert frame.columns == ["_row_kind", *names]
    expected = logged.changes(2, columns=names, where=condition, mode=mode)
    assert expected.num_rows
    assert rows_of(frame) == lines(expected)
    read = between(spark, lake, f"2,{logged.latest_snapshot_id}", mode, columns="v,k")
    some = read.where("v > 300 AND k < 450 AND _row_kind <> '-U'")
    whole = lines(logged.changes(2, columns=["v", "k"], mode=mode))
    kept = [(kind, v, k) for kind, v, k in whole if v is not None and v > 300 and k < 450]
    assert rows_of(some) == [line for line in kept if line[0] != "-U"]


@pytest.mark.share(2)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("condition", ["v < 301.05", "p = 'a' AND v = 302.0", "k < 200"])
def test_issue_36_an_update_that_leaves_a_filter_is_a_delete_by_every_door(
    spark, lake, logged, mode, condition
):
    """-U behind which no +U satisfies the filter comes as -D, on executors too."""
    expected = lines(logged.changes(1, columns=["p", "k", "v"], where=condition, mode=mode))
    assert expected
    wanted = ["p", "k", "v"]
    found = lake.changes("db.t", 1, columns=wanted, where=condition, mode=mode)
    assert rows_of(found) == expected
    ends = f"1,{logged.latest_snapshot_id}"
    read = between(spark, lake, ends, mode, columns=",".join(wanted), where=condition)
    assert rows_of(read) == expected


def test_a_net_change_between_tags_over_an_overwrite(spark, lake, logged):
    logged.tags.create("old", snapshot_id=2)
    logged.write(flights(np.arange(10), -1), mode="overwrite")
    logged.tags.create("new")
    expected = lines(logged.changes("old", "new", columns=["k", "v"]))
    assert rows_of(lake.changes("db.t", "old", "new", columns=["k", "v"])) == expected
    assert rows_of(between(spark, lake, "old,new", "diff", columns="k,v")) == expected
    gone = [line for line in expected if line[0] == "-D"]
    assert len(gone) == 590


def test_net_changes_of_an_append_table(spark, lake):
    lake.create_table("db.t", "a bigint, b string", options={"deletion-vectors.enabled": True})
    table = lake.catalog.table("db.t")
    for begin in (0, 500):
        ids = np.arange(begin, begin + 500)
        table.write({"a": ids, "b": (ids % 7).astype(str)})
    table.delete("b = '3'")
    ends = [(0, table.latest_snapshot_id), (1, 2), (2, table.latest_snapshot_id)]
    table.compact(full=True)
    table.write({"a": 7, "b": "new"})
    ends += [(2, table.latest_snapshot_id), (1, table.latest_snapshot_id)]
    for start, end in ends:
        expected = lines(table.changes(start, end))
        assert expected, (start, end)
        assert rows_of(lake.changes("db.t", start, end)) == expected, (start, end)
        assert rows_of(between(spark, lake, f"{start},{end}", "diff")) == expected, (start, end)


def test_a_range_without_changes_is_an_empty_frame(spark, lake, logged):
    last = logged.latest_snapshot_id
    for mode in MODES:
        frame = lake.changes("db.t", last, mode=mode)
        assert frame.columns[0] == "_row_kind"
        assert frame.count() == 0
        assert between(spark, lake, f"{last},{last}", mode).count() == 0


def test_executors_share_the_parts(spark, lake, logged):
    """No part is read twice, and each of two tasks has some."""
    frame = lake.changes(
        "db.t", 0, mode="changelog", options={"source.split.open-file-cost": "1 kb"}
    )
    assert frame.rdd.getNumPartitions() > 1
    assert frame.count() == logged.changes(0, mode="changelog").num_rows


def test_changes_that_there_are_not_are_refused(spark, lake, logged):
    with pytest.raises(InvalidInputError, match="mode='news' is not known"):
        lake.changes("db.t", 0, mode="news")
    with pytest.raises(InvalidInputError, match="swap them"):
        lake.changes("db.t", 3, 2)
    with pytest.raises(NotFoundError, match="no tag 'old'"):
        lake.changes("db.t", "old")
    with pytest.raises(InvalidInputError, match="is a system table: changes are read of the table"):
        lake.changes("db.t$audit_log", 0)
    options = {"bucket": 1, "merge-engine": "aggregation"}
    lake.create_table("db.sums", "k int, v int", primary_keys=["k"], options=options)
    with pytest.raises(UnsupportedError, match="has no changelog, and the rows written"):
        lake.changes("db.sums", 0, mode="auto")
    for ends in ("1", "1,2,3", "1,", ""):
        with pytest.raises(PySparkException, match="it names two snapshots or tags"):
            between(spark, lake, ends).count()
    with pytest.raises(PySparkException, match=r"Give either .* or a moment of the table"):
        between(spark, lake, "1,2", **{"snapshot-id": "1"})
    reader = spark.read.format("tidelake").option("incremental-between-scan-mode", "diff")
    with pytest.raises(PySparkException, match="needs option 'incremental-between'"):
        reader.load(f"{lake.catalog.warehouse}/db.db/t")
    with pytest.raises(UnsupportedError, match=r"on Spark to tl\.changes"):
        lake.table("db.t", options={"incremental-between": "1,2"})


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["cl_lookup", "rowkind_field", "append_unaware"])
def test_changes_are_those_that_java_reads_on_spark(spark, oracle_dir, name):
    """Java showed them through ``$audit_log``; its net change has no row before an update."""
    document = oracle_dir / f"fixtures/expected/changelog_{name}.json"
    compared = set()
    for read, java in json.loads(document.read_text()).items():
        match = re.fullmatch(r"incremental (\w+) (1,\d+)", read)
        if match is None or not java["rows"]:
            continue
        mode, ends = match.groups()
        if mode == "diff" and name == "append_unaware":
            continue  # there it also has rows that were in both states, in other files
        options = {"incremental-between": ends, "incremental-between-scan-mode": mode}
        reader = spark.read.format("tidelake").options(**options)
        rows = [
            list(row)
            for row in reader.load(f"{oracle_dir}/fixtures/warehouse/db.db/{name}").collect()
        ]
        expected = java["rows"]
        if mode == "diff":
            rows, expected = (
                [row[1:] for row in of if row[0] in {"+I", "+U"}] for of in (rows, expected)
            )
        assert sorted(rows, key=repr) == sorted(expected, key=repr), read
        compared.add(mode)
    assert {"delta", "auto"} <= compared
