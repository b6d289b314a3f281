"""Change feeds applied to tables, against what plain Python makes of the same changes."""

from __future__ import annotations

import contextlib
import datetime as dt
import os

import change_feeds
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from sizes import SIZE

from tidelake.errors import InvalidInputError, TidelakeError, UnsupportedError
from tidelake.spark.streams.applychanges import apply

FEED = "k bigint, at bigint, op string, a string, b bigint"
ARROW = pa.schema(
    [
        ("k", pa.int64()),
        ("at", pa.int64()),
        ("op", pa.string()),
        ("a", pa.string()),
        ("b", pa.int64()),
    ]
)
GIVEN = {
    "keys": ["k"],
    "sequence_by": "at",
    "apply_as_deletes": "op = 'D'",
    "except_columns": ["op", "at"],
}
ONE_BUCKET = {"bucket": 1}


def frame_of(spark, changes):
    return spark.createDataFrame(pa.Table.from_pylist(changes, schema=ARROW))


def shown(lake, name, *more):
    columns = ["k", "a", "b", *more]
    return {tuple(row) for row in lake.table(name, columns=columns).collect()}


def distinct(changes):
    return [dict(t) for t in {tuple(sorted(c.items(), key=str)) for c in changes}]


def expected(changes, given):
    wanted = {}
    if given.get("ignore_null_updates"):
        wanted["ignores_nulls"] = True
    if given.get("scd_type") != 2:
        return change_feeds.last_rows(distinct(changes), **wanted)
    tracked = given.get("track_history_columns")
    return change_feeds.history_rows(distinct(changes), tracked=tracked, **wanted)


def found(lake, name, given):
    ends = ("__START_AT", "__END_AT") if given.get("scd_type") == 2 else ()
    return shown(lake, name, *ends)


CASES = [
    {},
    {"ignore_null_updates": True},
    {"scd_type": 2},
    {"scd_type": 2, "track_history_columns": ["a"], "ignore_null_updates": True},
]


@pytest.mark.parametrize("seed", range(SIZE.change_feeds))
@pytest.mark.parametrize("case", CASES, ids=str)
def test_batches_in_any_order_give_the_rows_of_the_changes(case, seed, spark, lake):
    given = {**GIVEN, **case}
    feed = change_feeds.drawn_feed(len(str(case)) + 100 * seed, nulls=True)
    seen = []
    for changes in change_feeds.drawn_batches(feed, 7 + seed, batches=3):
        lake.apply_changes(frame_of(spark, changes), "d.t", options=ONE_BUCKET, **given)
        seen += changes
        assert found(lake, "d.t", given) == expected(seen, given)
        lake.compact("d.t", full=True)  # forgets deletes
    lake.apply_changes(frame_of(spark, seen[::2]), "d.t", **given)
    assert found(lake, "d.t", given) == expected(seen, given)


class Files:
    """A stream of files, each a batch."""

    def __init__(self, spark, folder):
        self.spark, self.folder, self.count = spark, folder, 0
        folder.mkdir()

    def feed(self, changes):
        path = self.folder / f"{self.count:03}.parquet"
        pq.write_table(pa.Table.from_pylist(changes, schema=ARROW), path)
        self.count += 1
        os.utime(path, (1_700_000_000 + self.count, 1_700_000_000 + self.count))

    def frame(self):
        reader = self.spark.readStream.schema(FEED).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.folder))


@pytest.fixture
def files(spark, tmp_path):
    return Files(spark, tmp_path / "in")


def run(lake, files, checkpoint, given, name="d.t"):
    query = lake.apply_changes(
        files.frame(),
        name,
        checkpoint=checkpoint,
        trigger="availableNow",
        options=ONE_BUCKET,
        **given,
    )
    query.awaitTermination()


@pytest.mark.parametrize("kind", [1, 2])
def test_a_stream_that_dies_between_its_commits_goes_on(kind, lake, files, tmp_path, monkeypatch):
    given = {**GIVEN, "scd_type": kind}
    feed = change_feeds.drawn_feed(kind, nulls=True)
    first, second, third = change_feeds.drawn_batches(feed, 3, batches=3)
    checkpoint = tmp_path / "state"
    files.feed(first)
    run(lake, files, checkpoint, given)
    assert found(lake, "d.t", given) == expected(first, given)

    files.feed(second)

    def dies(*args, **kwargs):
        raise UnsupportedError("the process dies here", kind="test")

    with monkeypatch.context() as patch:
        patch.setattr(apply, "write_made_rows", dies)
        with pytest.raises(TidelakeError, match="dies here"):
            run(lake, files, checkpoint, given)
    assert found(lake, "d.t", given) == expected(first, given)
    run(lake, files, checkpoint, given)
    assert found(lake, "d.t", given) == expected(first + second, given)

    commits = sorted((checkpoint / "commits").glob("[0-9]*"))
    newest = commits[-1]
    newest.unlink()  # Spark repeats the batch
    with contextlib.suppress(FileNotFoundError):
        newest.with_name(f".{newest.name}.crc").unlink()
    before = lake.catalog.table("d.t").latest_snapshot_id
    run(lake, files, checkpoint, given)
    assert lake.catalog.table("d.t").latest_snapshot_id == before

    files.feed(third)
    run(lake, files, checkpoint, given)
    assert found(lake, "d.t", given) == expected(feed, given)


def change(k, at, op="U", a="x", b=0):
    return {"k": k, "at": at, "op": op, "a": a, "b": b}


def test_a_truncation_removes_what_is_older_whenever_it_comes(spark, lake):
    given = {**GIVEN, "apply_as_truncates": "op = 'T'"}
    batches = [
        [change(1, 1), change(2, 9)],
        [change(None, 5, "T"), change(3, 6)],
        [change(4, 4), change(1, 3), change(None, 2, "T")],  # all too late
        [change(4, 7)],
    ]
    for changes in batches:
        lake.apply_changes(frame_of(spark, changes), "d.t", options=ONE_BUCKET, **given)
    assert {row[0] for row in shown(lake, "d.t")} == {2, 3, 4}


def test_a_sequence_of_several_parts_orders_by_them_in_turn(spark, lake):
    day = dt.datetime(2026, 11, 29, 12)
    rows = [(1, day, 2, "b"), (1, day, 1, "a"), (1, day - dt.timedelta(days=1), 9, "old")]
    feed = spark.createDataFrame(rows, "k bigint, day timestamp_ntz, n int, v string")
    made = F.struct("day", "n")
    lake.apply_changes(
        feed, "d.one", keys="k", sequence_by=made, columns=["k", "v"], options=ONE_BUCKET
    )
    assert lake.table("d.one").columns == ["k", "v", "__SEQUENCE_day", "__SEQUENCE_n"]
    assert [row.v for row in lake.table("d.one").collect()] == ["b"]
    lake.apply_changes(feed, "d.two", keys="k", sequence_by=["day", "n"], scd_type=2)
    history = lake.table("d.two").orderBy("__START_AT_day", "__START_AT_n").collect()
    assert [(row.v, row["__START_AT_n"], row["__END_AT_n"]) for row in history] == [
        ("old", 9, 1),
        ("a", 1, 2),
        ("b", 2, None),
    ]


def test_a_table_with_partitions_and_its_own_sequence_takes_changes(spark, lake):
    lake.create_table(
        "d.t",
        "k bigint, a string, b bigint, at bigint",
        primary_keys=["k", "a"],
        partition_keys=["a"],
        options={"bucket": 1, "sequence.field": "at"},
    )
    given = {**GIVEN, "keys": ["k", "a"], "except_columns": "op"}
    lake.apply_changes(frame_of(spark, [change(1, 2), change(1, 3, a="y")]), "d.t", **given)
    lake.apply_changes(frame_of(spark, [change(1, 5, "D"), change(1, 1, b=7)]), "d.t", **given)
    lake.apply_changes(frame_of(spark, [change(1, 4)]), "d.t", **given)
    assert shown(lake, "d.t") == {(1, "y", 0)}


WRONG = [
    ({"keys": []}, "keys .* names no column"),
    ({"keys": ["kk"]}, "'kk', which is no column"),
    ({"keys": ["op"]}, "keys .* leave out"),
    ({"sequence_by": "missing"}, "'missing', which is no column"),
    ({"sequence_by": "k"}, "names a column of the key"),
    ({"apply_as_deletes": "nothing = 'D'"}, "apply_as_deletes .* does not fit"),
    ({"apply_as_deletes": "k"}, "is a condition"),
    ({"columns": ["k"]}, "exclude each other"),
    ({"scd_type": 3}, "is 1 or 2"),
    ({"track_history_columns": ["a"]}, "needs scd_type=2"),
    ({"scd_type": 2, "track_history_columns": ["k"]}, "beside the key"),
    ({"scd_type": 2, "apply_as_truncates": "op = 'T'"}, "is for scd_type=1"),
    ({"checkpoint": "/nowhere"}, "are for a stream"),
    ({"options": {"sequence.field": "b"}}, "follows from sequence_by"),
]


def test_wrong_arguments_are_refused_before_a_table_is_made(spark, lake):
    feed = frame_of(spark, [change(1, 1)])
    inexact = ({"sequence_by": F.col("b").cast("double")}, "no exact order")
    for given, message in (*WRONG, inexact):
        with pytest.raises(TidelakeError, match=message):
            lake.apply_changes(feed, "d.t", **{**GIVEN, **given})
    reserved = feed.withColumn("__START_AT", F.lit(1))
    with pytest.raises(InvalidInputError, match="a name that is made here"):
        lake.apply_changes(reserved, "d.t", **GIVEN)
    assert not lake.catalog.table_exists("d.t")
    assert not lake.catalog.table_exists("d.t__apply_changes")


def test_a_null_in_key_or_sequence_refuses_its_batch(spark, lake):
    for bad, what in ((change(None, 1), "key"), (change(7, None), "sequence: k = 7")):
        feed = frame_of(spark, [change(1, 1), bad])
        with pytest.raises(InvalidInputError, match=f"null in its {what}"):
            lake.apply_changes(feed, "d.t", options=ONE_BUCKET, **GIVEN)
    assert not shown(lake, "d.t")


def test_tables_that_do_not_fit_are_refused(spark, lake):
    feed = frame_of(spark, [change(1, 1)])
    lake.apply_changes(feed, "d.t", options=ONE_BUCKET, **GIVEN)
    with pytest.raises(InvalidInputError, match="primary key is k, not k, __START_AT"):
        lake.apply_changes(feed, "d.t", **{**GIVEN, "scd_type": 2})
    with pytest.raises(InvalidInputError, match="ignore_null_updates was False, not True"):
        lake.apply_changes(feed, "d.t", **{**GIVEN, "ignore_null_updates": True})
    with pytest.raises(InvalidInputError, match="column 'b' is bigint, not string"):
        lake.apply_changes(feed.withColumn("b", F.lit("s")), "d.t", **GIVEN)
    lake.catalog.drop_table("d.t")
    with pytest.raises(InvalidInputError, match="__apply_changes' too"):
        lake.apply_changes(feed, "d.t", options=ONE_BUCKET, **GIVEN)
