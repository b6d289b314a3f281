"""Lookup joins: each row finds its own by the primary key, of one snapshot a batch."""

import time
from datetime import date, datetime
from decimal import Decimal

import pytest
from pyspark.sql import functions as F

import tidelake
from tidelake.errors import InvalidInputError, NotFoundError, UnsupportedError
from tidelake.spark.lookupjoin import pin

DIMENSION = "CREATE TABLE {} (id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED)"


def dimension(lake, name="d", options="'bucket' = '2'"):
    lake.sql(f"{DIMENSION.format(name)} WITH ({options})")
    lake.sql(f"INSERT INTO {name} VALUES (1, 'one'), (2, 'two'), (3, 'three')")


def plan(frame):
    return frame._jdf.queryExecution().optimizedPlan().toString()


def rows(frame):
    return sorted((tuple(row) for row in frame.collect()), key=repr)


TYPES = [
    (
        "BIGINT, STRING",
        "'bucket' = '2'",
        [(1, "a"), (-(2**62), ""), (7, "ä€")],
        [(1, "b"), (None, "a"), (2, None)],
    ),
    (
        "DECIMAL(12, 2), DATE",
        "'bucket' = '-1'",
        [(Decimal("1.20"), date(2026, 1, 2)), (Decimal("-0.01"), date(1900, 1, 1))],
        [(Decimal("1.21"), date(2026, 1, 2)), (Decimal("1.20"), None)],
    ),
    (
        "TIMESTAMP(3), BYTES, BOOLEAN",
        "'bucket' = '1'",
        [
            (datetime(2026, 1, 1, 0, 0, 0, 5000), b"\x00\xff", True),
            (datetime(1969, 1, 1), b"", False),
        ],
        [(datetime(2026, 1, 1, 0, 0, 0, 5001), b"\x00\xff", True)],
    ),
]


@pytest.mark.parametrize(("types", "options", "there", "missing"), TYPES, ids=[t[0] for t in TYPES])
def test_the_rows_are_those_of_an_ordinary_join(lake, types, options, there, missing):
    keys = [f"k{n}" for n in range(types.count(",") - types.count("(12") + 1)]
    split = [t.strip() for t in types.replace("(12, 2)", "(12;2)").split(",")]
    columns = ", ".join(f"{k} {t.replace(';', ',')}" for k, t in zip(keys, split, strict=True))
    lake.sql(
        f"CREATE TABLE d ({columns}, v INT, PRIMARY KEY ({', '.join(keys)}) NOT ENFORCED)"
        f" WITH ({options})"
    )
    schema = lake.table("default.d").schema
    spark = lake.spark
    lake.write(spark.createDataFrame([(*k, n) for n, k in enumerate(there)], schema), "default.d")
    facts = spark.createDataFrame(
        [(*k, n) for n, k in enumerate([*there, *missing, *there])], schema
    ).withColumnRenamed("v", "n")
    for how in ("left", "inner"):
        found = lake.lookup_join(facts, "default.d", on=keys, how=how)
        expected = facts.join(lake.table("default.d"), on=keys, how=how)
        assert found.columns == [*facts.columns, "v"]
        assert rows(found) == rows(expected.select(*facts.columns, "v"))


def test_columns_are_chosen_and_named_and_a_wider_key_is_cast(lake):
    lake.sql("CREATE TABLE d (id INT, a STRING, b INT, PRIMARY KEY (id) NOT ENFORCED)")
    facts = lake.spark.createDataFrame([(1, 5), (2**40, 6)], "k bigint, a int")
    joined = lake.lookup_join(facts, "default.d", on={"k": "id"}, columns={"a": "name"})
    assert rows(joined) == [(1, 5, None), (2**40, 6, None)]  # no snapshot yet
    lake.sql("INSERT INTO d VALUES (1, 'one', 10), (0, 'zero', 0)")
    joined = lake.lookup_join(facts, "default.d", on={"k": "id"}, columns={"a": "name", "id": "id"})
    assert joined.columns == ["k", "a", "name", "id"]
    # one lookup, whatever is asked of its columns
    kept = joined.where("name = 'one' AND id > 0 AND a < 9").select("k", "name", "id")
    assert rows(kept) == [(1, "one", 1)]
    assert plan(kept).count("ArrowEvalPython") == 1


def test_a_batch_sees_the_table_as_it_was_and_asks_again_for_what_is_missing(lake):
    dimension(lake)
    facts = lake.spark.createDataFrame([(1,), (4,), (None,)], "id bigint")
    before = lake.lookup_join(facts, "default.d", on="id")
    again = lake.lookup_join(facts, "default.d", on="id", retry_attempts=1, retry_delay_ms=1)
    lake.sql("INSERT INTO d VALUES (1, 'newer'), (4, 'four')")
    assert rows(before) == [(1, "one"), (4, None), (None, None)]
    assert rows(again) == [(1, "one"), (4, "four"), (None, None)]
    assert rows(lake.lookup_join(facts, "default.d", on="id", how="inner")) == [
        (1, "newer"),
        (4, "four"),
    ]


def test_the_service_answers_as_local_files_do(lake):
    dimension(lake)
    facts = lake.spark.range(6).select("id", (F.col("id") % 3).alias("other"))
    local = rows(lake.lookup_join(facts, "default.d", on="id", via="local"))
    with pytest.raises(NotFoundError, match="No query service is registered"):
        lake.lookup_join(facts, "default.d", on="id", via="service")
    with tidelake.serve(str(lake.catalog.warehouse), ["default.d"], parallelism=1):
        assert rows(lake.lookup_join(facts, "default.d", on="id", via="service")) == local
        facts.createOrReplaceTempView("served")
        found = lake.sql(
            "SELECT /*+ LOOKUP('table'='d', 'via'='service') */ o.id, d.name FROM served AS o"
            " LEFT JOIN d FOR SYSTEM_TIME AS OF PROCTIME() AS d ON o.other = d.id"
        )
        assert rows(found) == [(n, {1: "one", 2: "two"}.get(n % 3)) for n in range(6)]
        lost = lake.lookup_join(facts, "default.d", on="id")
    assert rows(lost) == local


def test_what_cannot_be_looked_up_is_refused_before_anything_runs(lake):
    dimension(lake)
    facts = lake.spark.createDataFrame([(1, "one")], "id bigint, name string")
    lake.sql("CREATE TABLE a (id BIGINT)")
    with pytest.raises(InvalidInputError, match=r"must name the primary key .*\(id\).*\(name\)"):
        lake.lookup_join(facts, "default.d", on="name")
    with pytest.raises(InvalidInputError, match="'name' is in the frame already"):
        lake.lookup_join(facts, "default.d", on="id")
    with pytest.raises(UnsupportedError, match="no primary key"):
        lake.lookup_join(facts, "default.a", on="id")
    with pytest.raises(InvalidInputError, match="system table"):
        lake.lookup_join(facts, "default.d$files", on="id")
    with pytest.raises(UnsupportedError, match="say at which moment"):
        lake.lookup_join(
            facts, "default.d", on="id", columns={"name": "n"}, options={"scan.snapshot-id": "1"}
        )


def test_each_batch_of_a_stream_sees_one_snapshot_the_newest(lake, monkeypatch):
    monkeypatch.setattr(pin, "LOOK_S", 0.05)
    lake.sql("CREATE TABLE q (id INT, k BIGINT, at TIMESTAMP_LTZ(6)) WITH ('bucket' = '-1')")
    dimension(lake)
    lake.sql("INSERT INTO q VALUES (1, 1, TIMESTAMP '2026-01-01 00:10:00')")
    stream = lake.read_stream("default.q").withWatermark("at", "1 minute")
    once = lake.lookup_join(stream, "default.d", on={"k": "id"}, columns={"name": "a"})
    twice = lake.lookup_join(once, "default.d", on={"k": "id"}, columns={"name": "b"})
    seen = []

    def take(batch, number):
        # Spark plans a batch while the table goes on
        seen.append([tuple(r) for r in batch.select("id", "a", "b").collect()])
        lake.sql(f"INSERT INTO d VALUES (1, 'of batch {number}')")

    query = twice.writeStream.foreachBatch(take).start()
    try:
        for number in (2, 3):
            query.processAllAvailable()
            lake.sql(f"INSERT INTO q VALUES ({number}, 1, TIMESTAMP '2026-01-01 03:00:00')")
        query.processAllAvailable()
        assert seen == [
            [(1, "one", "one")],
            [(2, "of batch 0", "of batch 0")],
            [(3, "of batch 1", "of batch 1")],
        ]
        (held,) = lake.sql("SELECT next_snapshot_id FROM d$consumers").collect()
        assert held[0] == 3
    finally:
        query.stop()
    deadline = time.monotonic() + 120
    while lake.sql("SELECT * FROM d$consumers").count() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert lake.sql("SELECT * FROM d$consumers").count() == 0
    # the watermark is still that of the stream
    hours = twice.groupBy(F.window("at", "1 hour")).agg(F.count("a").alias("n"))
    query = hours.writeStream.format("memory").queryName("hours").outputMode("append").start()
    try:
        query.processAllAvailable()
        assert rows(lake.spark.sql("SELECT n FROM hours")) == [(1,)]
    finally:
        query.stop()


SEED = "JOIN d FOR SYSTEM_TIME AS OF o.proc_time AS d ON o.id = d.id"


def test_sql_looks_up_what_is_joined_by_the_key(lake):
    dimension(lake)
    lake.sql("CREATE TABLE o (no INT, id INT, other DOUBLE) WITH ('bucket' = '-1')")
    lake.sql("INSERT INTO o VALUES (1, 1, 1), (2, 9, 9), (3, NULL, 2), (4, 2, 2)")
    found = lake.sql(f"SELECT o.no, d.name FROM o {SEED}")
    assert "Generate inline" in plan(found)
    assert "Join" not in plan(found)
    assert rows(found) == [(1, "one"), (4, "two")]
    found = lake.sql(
        f"SELECT * FROM (SELECT * FROM o LEFT {SEED} LEFT JOIN d FOR SYSTEM_TIME AS OF PROCTIME()"
        " AS e ON (d.id = e.id) WHERE d.name IS NULL OR e.name LIKE 't%')"
    )
    assert plan(found).count("Generate inline") == 2
    assert found.columns == ["no", "id", "other", "id", "name", "id", "name"]
    assert rows(found) == [
        (2, 9, 9.0, None, None, None, None),
        (3, None, 2.0, None, None, None, None),
        (4, 2, 2.0, 2, "two", 2, "two"),
    ]
    assert not [f.name for f in lake.spark.catalog.listFunctions() if "tidelake_lookup" in f.name]
    lake.spark.createDataFrame([(5, 3)], "no int, id smallint").createOrReplaceTempView("facts")
    found = lake.sql("SELECT no, d.* FROM facts " + SEED.replace("o.", "facts."))
    assert "Generate inline" in plan(found)
    assert rows(found) == [(5, 3, "three")]
    retried = lake.sql(
        "SELECT /*+ LOOKUP('table'='d', 'retry-predicate'='lookup_miss', 'max-attempts'='1',"
        f" 'retry-strategy'='fixed_delay', 'fixed-delay'='1ms') */ o.no, d.name FROM o {SEED}"
    )
    lake.sql("INSERT INTO d VALUES (9, 'late')")
    assert rows(retried) == [(1, "one"), (2, "late"), (4, "two")]
    with pytest.raises(InvalidInputError, match="this query looks no such table up"):
        lake.sql(f"SELECT /*+ LOOKUP('table'='dd') */ o.no FROM o {SEED}")
    for joined, expected in [
        ("ON o.other = d.id", [(1, "one"), (2, "late"), (3, "two"), (4, "two")]),  # not by bytes
        ("ON o.id = d.id AND d.name > 'p'", [(4, "two")]),
        ("USING (id)", [(1, "one"), (2, "late"), (4, "two")]),
    ]:
        found = lake.sql(f"SELECT no, name FROM o JOIN d FOR SYSTEM_TIME AS OF PROCTIME() {joined}")
        assert "Generate" not in plan(found)
        assert rows(found) == expected


def test_a_stream_of_changes_keeps_kinds_and_order_through_a_lookup(lake, tmp_path):
    dimension(lake)
    for name in ("o", "t"):
        lake.sql(
            f"CREATE TABLE {name} (no INT, id BIGINT, PRIMARY KEY (no) NOT ENFORCED)"
            " WITH ('bucket' = '1', 'changelog-producer' = 'input')"
        )
    lake.sql("SET 'execution.runtime-mode' = 'streaming'")
    lake.sql(f"SET 'execution.checkpointing.dir' = '{tmp_path / 'checkpoints'}'")
    found = lake.sql(f"SELECT o.no, d.name FROM o {SEED}")
    assert found.isStreaming
    assert found.columns == ["_row_kind", "no", "name"]
    ((job_id, _),) = lake.sql(
        f"INSERT INTO t SELECT o.no, d.id + length(d.name) AS id FROM o LEFT {SEED}"
    ).collect()
    job = lake.job(job_id)
    try:
        for moved in range(3):
            values = ", ".join(f"({no}, {(no + moved) % 4})" for no in range(8))
            lake.sql(f"INSERT INTO o VALUES {values}")
        job.query.processAllAvailable()
        lake.sql("INSERT INTO d VALUES (3, 'threehundred')")
        lake.sql("INSERT INTO o VALUES (100, 3)")
        job.query.processAllAvailable()
    finally:
        job.stop()
    lengths = {0: None, 1: 4, 2: 5, 3: 8}
    expected = [(no, lengths[(no + 2) % 4]) for no in range(8)]
    assert rows(lake.table("default.t")) == sorted([*expected, (100, 15)], key=repr)
