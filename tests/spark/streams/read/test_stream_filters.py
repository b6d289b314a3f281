"""Filters on streams of changes: what leaves one leaves the target, or the query is refused."""

from __future__ import annotations

import itertools

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

import tidelake.spark
from tidelake.errors import UnsupportedError

OF_PARTS = "partial-update.remove-record-on-delete"
PRODUCERS = ("none", "input", "lookup", "full-compaction")
FILTERS = ("v > 5", "v > 5 AND k > 1", "k > 1", "p = 'a' AND v > 5", "v IS NULL OR v > 8")


@pytest.fixture
def lake(spark, tmp_path):
    return tidelake.spark.attach(spark, tmp_path / "lake", catalog="filtered")


@pytest.fixture
def checkpoints(tmp_path):
    return (tmp_path / f"checkpoint-{n}" for n in itertools.count())


def made(lake, name, *, keys=("k",), partition_keys=(), **options):
    return lake.catalog.create_table(
        f"db.{name}",
        {"k": "INT NOT NULL", "v": "INT", "p": "STRING NOT NULL"},
        primary_keys=keys,
        partition_keys=partition_keys,
        options={"bucket": "1"} | {key.replace("_", "-"): v for key, v in options.items()},
    )


def put(table, **values):
    rows = [{"k": int(k[1:]), "v": v, "p": "ab"[int(k[1:]) % 2]} for k, v in values.items()]
    table.write(rows)


def change(table):
    """Rows come to the filters, leave them, are deleted by key, and come again."""
    for values in ({"k1": 9, "k2": 9, "k3": 1}, {"k1": 1, "k3": 9}, {"k1": 9}, {"k4": 9, "k5": 1}):
        put(table, **values)
    table.delete([{"k": 2, "p": "a"}] if "p" in table.primary_keys else [{"k": 2}])
    put(table, k3=2, k6=None)
    compacted(table)


def compacted(table):
    if table.options.raw.get("changelog-producer") == "full-compaction":
        table.compact(full=True)


def rows(table, where=None):
    return sorted(tuple(r.values()) for r in table.to_arrow(where=where).to_pylist())


def streamed(lake, frame, name, checkpoint, **given):
    query = lake.write_stream(
        frame, f"db.{name}", checkpoint=checkpoint, trigger="availableNow", **given
    )
    assert query.awaitTermination(120)


@pytest.mark.share(2)
@pytest.mark.parametrize("producer", PRODUCERS)
def test_issue_36_what_leaves_a_filter_leaves_the_target(lake, checkpoints, producer):
    source = made(lake, "s", keys=("p", "k"), partition_keys=("p",), changelog_producer=producer)
    change(source)
    places = []
    for number, text in enumerate(FILTERS):
        target = made(lake, f"t{number}", keys=("p", "k"), partition_keys=("p",))
        options = {"scan.snapshot-id": 1} if number % 2 else {}
        places.append((text, target, next(checkpoints), options))
    for step in (1, 2):
        for text, target, checkpoint, options in places:
            frame = lake.read_stream("db.s", where=text, options=options)
            streamed(lake, frame, target.identifier.partition(".")[2], checkpoint)
            assert rows(target) == rows(source, text), (step, text)
        change(source)
        source.delete("k = 4")
        compacted(source)


def of_format(reader, lake, **options):
    given = {"warehouse": str(lake.catalog.warehouse), "table": "db.s"} | options
    return reader.format("tidelake").options(**given).load()


def test_issue_36_by_format_what_leaves_a_filter_leaves_the_target(lake, checkpoints):
    source = made(lake, "s", changelog_producer="none")
    put(source, k1=9, k2=9, k3=1)
    target, checkpoint = made(lake, "t"), next(checkpoints)
    wanted = {"where": "v > 5", "read.changelog": "true"}
    for _ in range(2):
        streamed(lake, of_format(lake.spark.readStream, lake, **wanted), "t", checkpoint)
        assert rows(target) == rows(source, "v > 5")
        put(source, k1=1, k3=9)
        source.delete([{"k": 2}])
    between = {"where": "v > 5", "incremental-between": "1,3"}
    found = sorted(map(repr, of_format(lake.spark.read, lake, **between).collect()))
    assert found == sorted(
        map(repr, lake.changes("db.s", 1, 3, where="v > 5", mode="auto").collect())
    )
    assert any("'-D'" in row for row in found)
    lacking = of_format(lake.spark.readStream, lake, columns="v", **wanted).writeStream
    query = lacking.format("noop").option("checkpointLocation", str(next(checkpoints))).start()
    with pytest.raises(StreamingQueryException, match="need the primary key"):
        query.awaitTermination(60)


def test_a_where_behind_the_format_that_would_lose_rows_is_refused(lake, checkpoints):
    source, target = made(lake, "s", changelog_producer="none"), made(lake, "t")
    change(source)
    stream = of_format(lake.spark.readStream, lake, **{"read.changelog": "true"})
    with pytest.raises(UnsupportedError, match=r"the filter .*v.* > 5.*option 'where'") as refused:
        streamed(lake, stream.where("v > 5"), "t", next(checkpoints))
    assert refused.value.kind == "incomplete_changes"
    named = stream.where("v > 5").writeStream.format(tidelake.spark.STREAM)
    named = named.option("checkpointLocation", str(next(checkpoints))).trigger(availableNow=True)
    query = named.toTable("filtered.db.t")
    with pytest.raises(Exception, match="would lose changes: the filter"):
        query.awaitTermination(60)
    assert rows(target) == []
    streamed(lake, stream.where("k > 1"), "t", next(checkpoints))
    assert rows(target) == rows(source, "k > 1")


def test_a_where_behind_the_format_of_changes_with_old_rows_goes_on(lake, checkpoints):
    source, target = made(lake, "s", changelog_producer="lookup"), made(lake, "t")
    change(source)
    stream = of_format(lake.spark.readStream, lake, **{"read.changelog": "true"}).where("v > 5")
    streamed(lake, stream, "t", next(checkpoints))
    assert rows(target) == rows(source, "v > 5")
    made(lake, "parts", merge_engine="partial-update", **{OF_PARTS: "true"})
    with pytest.raises(UnsupportedError, match="-U alone"):
        streamed(lake, stream, "parts", next(checkpoints))


AT_DELETE = ("partial-update", "aggregation")


def removing(lake, engine):
    """A target that removes rows at -D alone."""
    option = f"{engine.replace('-', '_')}.remove_record_on_delete"
    return made(lake, "t", merge_engine=engine, **{option: "true"})


@pytest.mark.share(2)
@pytest.mark.parametrize("engine", AT_DELETE)
@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_issue_36_a_filter_of_a_stream_leaves_a_target_that_removes_at_deletes_alone(
    lake, checkpoints, engine, producer
):
    """An update that leaves the filter is -D, also where Spark could scan its file."""
    source = made(lake, "s", changelog_producer=producer)
    target, checkpoint = removing(lake, engine), next(checkpoints)
    for _ in range(2):
        change(source)
        streamed(lake, lake.read_stream("db.s", where="v > 5"), "t", checkpoint)
        assert rows(target) == rows(source, "v > 5")


@pytest.mark.parametrize("engine", AT_DELETE)
def test_issue_36_a_filter_behind_a_stream_into_a_target_that_removes_at_deletes_is_refused(
    lake, checkpoints, engine
):
    """An update that leaves it is -U alone, at which such a target keeps its row."""
    made(lake, "s", changelog_producer="lookup")
    removing(lake, engine)
    with pytest.raises(UnsupportedError, match=r"-U alone.*read_stream\(name, where=") as refused:
        streamed(lake, lake.read_stream("db.s").where("v > 5"), "t", next(checkpoints))
    assert refused.value.kind == "incomplete_changes"
    streamed(lake, lake.read_stream("db.s").where("k > 5"), "t", next(checkpoints))


def test_issue_36_a_filter_that_would_lose_rows_is_refused(lake, checkpoints):
    made(lake, "s", changelog_producer="none")
    made(lake, "t")
    made(lake, "by_v", keys=("v",))
    made(lake, "dim", keys=("k",))
    made(lake, "rows", keys=(), bucket="-1")
    stream = lake.read_stream("db.s")
    dim = F.broadcast(lake.table("db.dim").select(F.col("k").alias("d"), F.col("v").alias("dv")))
    by_name = lake.spark.readStream.table("filtered.db.s")
    for frame, name, found in (
        (stream.where("v > 5"), "t", r"the filter .*v.* > 5.*where=.*'db.s' to 'lookup'"),
        (stream.withColumn("v", F.col("v") + 1).where("k > 1 AND v > 5"), "t", "the filter"),
        (stream.join(dim, F.col("v") == F.col("d")).drop("d", "dv"), "t", "the join .INNER. drops"),
        (stream.dropDuplicates(["k"]), "t", "dropDuplicates"),
        (stream, "by_v", r"its key \('v'\) is not made of the primary key \(k\)"),
        (by_name.where("v > 5"), "t", "read without row kinds. Read it with 'read.changelog'"),
        (stream, "rows", r"without a primary key cannot take. Select rows"),
    ):
        with pytest.raises(UnsupportedError, match=found):
            lake.write_stream(frame, f"db.{name}", checkpoint=next(checkpoints))
    assert not any(query.isActive for query in lake.spark.streams.active)


def test_filters_that_lose_nothing_go_on(lake, checkpoints):
    source = made(lake, "s", changelog_producer="none")
    complete = made(lake, "c", changelog_producer="lookup")
    for table in (source, complete):
        change(table)
    dim = made(lake, "dim")
    put(dim, k1=1, k3=3)
    small = F.broadcast(lake.table("db.dim").select(F.col("k").alias("d")))
    stream = lake.read_stream("db.s")
    own = F.expr("CASE WHEN v > 5 OR _row_kind = '-D' THEN _row_kind ELSE '-D' END")
    events = stream.where("v > 5").where("_row_kind IN ('+I', '+U')").drop("_row_kind")
    upserts = lake.read_stream("db.s", options={"read.changelog": False}).where("v > 5")
    for number, (frame, expected) in enumerate(
        (
            (stream.where("k > 1"), rows(source, "k > 1")),
            (stream.withColumn("_row_kind", own), rows(source, "v > 5")),
            (stream.join(small, F.col("k") == F.col("d")).drop("d"), rows(source, "k IN (1, 3)")),
            (lake.read_stream("db.c").where("v > 5"), rows(source, "v > 5")),
            (events, rows(source, "v > 5")),
            (upserts, rows(source, "v > 5")),
        )
    ):
        target = made(lake, f"t{number}")
        streamed(lake, frame, f"t{number}", next(checkpoints))
        assert rows(target) == expected, number


def test_the_sink_of_a_format_refuses_what_loses_rows(lake, checkpoints):
    change(made(lake, "s", changelog_producer="none"))
    target = made(lake, "t")
    lost = lake.read_stream("db.s").where("v > 5").writeStream.format(tidelake.spark.STREAM)
    lost = lost.option("checkpointLocation", str(next(checkpoints))).trigger(availableNow=True)
    query = lost.toTable("filtered.db.t")
    with pytest.raises(Exception, match="would lose changes: the filter"):
        query.awaitTermination(60)
    assert rows(target) == []


JOINED = "SELECT s.k, s.v, s.p FROM s JOIN dim FOR SYSTEM_TIME AS OF PROCTIME() AS d ON s.v ="
STATEMENTS = (
    ("SELECT k, v, p FROM s WHERE v > 5", "v > 5"),
    ("SELECT * FROM s AS x WHERE x.v > 5 AND x.k <> 1", "v > 5 AND k != 1"),
    ("SELECT k, v, p FROM db.s WHERE abs(db.s.v - CAST('1' AS INT)) > 4", "v > 5"),
    ("SELECT k, v, upper(p) AS p FROM s WHERE v > 5 UNION ALL SELECT k + 100, v, p FROM s"
     " WHERE k > 100", "v > 5"),
    ("SELECT x.k, x.v, x.p FROM (SELECT * FROM s WHERE v > 5) AS x LEFT JOIN dim"
     " FOR SYSTEM_TIME AS OF PROCTIME() AS d ON x.k = d.k", "v > 5"),
    ("WITH w AS (SELECT * FROM s WHERE v > 5 OR v IS NULL) SELECT k, v, p FROM w",
     "v > 5 OR v IS NULL"),
    ("SELECT k, v, p FROM s WHERE k > 1", "k > 1"),
)  # fmt: skip


def test_issue_36_where_of_a_statement_shows_what_leaves_it(lake, tmp_path):
    source = made(lake, "s", changelog_producer="none")
    put(made(lake, "dim"), k1=1)
    lake.sql("USE db")
    lake.sql("SET 'execution.runtime-mode' = 'streaming'")
    lake.sql(f"SET 'execution.checkpointing.dir' = '{tmp_path / 'jobs'}'")
    change(source)
    jobs = []
    try:
        for number, (text, _) in enumerate(STATEMENTS):
            made(lake, f"t{number}")
            ((job, _),) = lake.sql(f"INSERT INTO t{number} {text}").collect()
            jobs.append(lake.job(job))
        for step in (1, 2):
            for job in jobs:
                job.query.processAllAvailable()
            for number, (text, kept) in enumerate(STATEMENTS):
                found = [(k, v, p.lower()) for k, v, p in rows(lake.catalog.table(f"db.t{number}"))]
                assert found == rows(source, kept), (step, text)
            change(source)
            source.delete("k = 4")
        made(lake, "more")
        for text, what in (
            (f"{JOINED} d.k", "an inner lookup join, or LATERAL VIEW, drops rows"),
            (f"{JOINED} d.v", "the join .INNER. drops"),
            ("SELECT x.k, x.v, x.p FROM (SELECT * FROM s) x WHERE x.v > 5", "the filter"),
        ):
            with pytest.raises(UnsupportedError, match=what):
                lake.sql(f"INSERT INTO more {text}")
    finally:
        for job in lake.jobs():
            job.stop()
