"""Statements in streaming mode: INSERT starts a job, SELECT is a stream."""

from contextlib import nullcontext
from datetime import UTC, datetime

import pytest
from proving.odd_names import odd_name

from tidelake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    TidelakeError,
    UnsupportedError,
)

WAIT_S = 60


@pytest.fixture
def streaming(lake, tmp_path, request):
    """A warehouse in streaming mode whose jobs are stopped at the end."""
    lake.sql("SET 'execution.runtime-mode' = 'streaming'")
    folder = str(tmp_path / odd_name(request.node.name)).replace("'", "''")
    lake.sql(f"SET 'execution.checkpointing.dir' = '{folder}'")
    yield lake
    for job in lake.jobs():
        job.stop()


def rows(lake, text):
    """The rows of a table now, sorted."""
    lake.sql("SET 'execution.runtime-mode' = 'batch'")
    try:
        return sorted(tuple(row) for row in lake.sql(text).collect())
    finally:
        lake.sql("SET 'execution.runtime-mode' = 'streaming'")


def started(lake, text):
    """The job that a statement starts."""
    ((job_id, name),) = lake.sql(text).collect()
    job = lake.job(job_id)
    assert job.name == name
    return job


def in_batch(lake, text):
    """Run a statement that changes rows in place."""
    lake.sql("SET 'execution.runtime-mode' = 'batch'")
    lake.sql(text)
    lake.sql("SET 'execution.runtime-mode' = 'streaming'")


def drained(*jobs):
    """Wait until jobs have read all that is there."""
    for job in jobs:
        job.query.processAllAvailable()


def tables(lake, *names):
    for name in names:
        lake.sql(
            f"CREATE TABLE {name} (id INT, n INT, PRIMARY KEY (id) NOT ENFORCED)"
            " WITH ('bucket' = '1', 'changelog-producer' = 'input')"
        )


def test_an_insert_starts_a_job_that_goes_on_where_it_was(streaming):
    lake = streaming
    tables(lake, "a", "b")
    lake.sql("INSERT INTO a VALUES (1, 10), (2, 20)")
    job = started(lake, "INSERT INTO b SELECT id, n + 1 FROM a")
    assert (job.name, job.status, job.target) == ("default.b", "RUNNING", "default.b")
    drained(job)
    assert rows(lake, "SELECT * FROM b") == [(1, 11), (2, 21)]
    lake.sql("INSERT INTO a VALUES (1, 11), (3, 30)")
    drained(job)
    assert rows(lake, "SELECT * FROM b") == [(1, 12), (2, 21), (3, 31)]
    lake.sql(f"STOP JOB '{job.id}'")
    assert job.status == "CANCELED"
    in_batch(lake, "DELETE FROM a WHERE id = 2")
    again = started(lake, "INSERT INTO b SELECT id, n + 1 FROM a")
    assert again.id == job.id
    drained(again)
    assert rows(lake, "SELECT * FROM b") == [(1, 12), (3, 31)]
    (shown,) = [r.asDict() for r in lake.sql("SHOW JOBS").collect() if r["status"] == "RUNNING"]
    assert shown["job id"] == job.id
    assert shown["job name"] == "default.b"
    assert shown["snapshots behind"] == 0
    assert shown["batch"] is not None
    assert shown["start time"] is not None


def test_a_select_is_a_stream_with_the_kinds_in_front(streaming):
    lake = streaming
    tables(lake, "a")
    frame = lake.sql("SELECT n, id FROM a WHERE n > 1")
    assert frame.isStreaming
    assert frame.columns == ["_row_kind", "n", "id"]
    lake.sql("CREATE TEMPORARY VIEW v (x, y) AS SELECT n, id FROM a")
    assert lake.sql("SELECT y FROM v").columns == ["_row_kind", "y"]
    lake.sql("INSERT INTO a VALUES (1, 2)")
    assert not lake.sql("SELECT * FROM a VERSION AS OF 1").isStreaming
    assert not lake.sql("SELECT snapshot_id FROM a$snapshots").isStreaming


def test_a_job_needs_a_checkpoint_and_a_name_of_its_own(streaming):
    lake = streaming
    tables(lake, "a", "b")
    job = started(lake, "INSERT INTO b SELECT * FROM a")
    with pytest.raises(AlreadyExistsError, match=r"Job 'default\.b' already runs"):
        lake.sql("INSERT INTO b SELECT * FROM a")
    lake.sql("SET 'pipeline.name' = 'another'")
    other = started(lake, "INSERT INTO b SELECT * FROM a WHERE n > 3")
    assert {j.name for j in lake.jobs() if j.status == "RUNNING"} == {"default.b", "another"}
    lake.sql("STOP JOB 'another'")
    assert (job.status, other.status) == ("RUNNING", "CANCELED")
    lake.sql("RESET 'execution.checkpointing.dir'")
    with pytest.raises(InvalidInputError, match="needs a directory for its checkpoint") as raised:
        lake.sql("INSERT INTO b SELECT * FROM a")
    assert raised.value.kind == "no_checkpoint"
    with pytest.raises(NotFoundError, match="no job '12'"):
        lake.sql("STOP JOB '12'")
    with pytest.raises(NotFoundError, match=r"no job 'default\.c'.* Did you mean 'default\.b'"):
        lake.job("default.c")


def test_what_a_stream_cannot_do_is_refused_before_it_starts(streaming):
    lake = streaming
    tables(lake, "a", "b")
    lake.sql("CREATE TABLE q (id INT, n INT) WITH ('bucket' = '-1')")
    for statement, message in [
        ("INSERT OVERWRITE b SELECT * FROM a", "cannot take a stream"),
        ("INSERT INTO q SELECT * FROM a", "which a table without one cannot take"),
        ("INSERT INTO b SELECT id, sum(n) FROM a GROUP BY id", "Name _row_kind in the SELECT"),
        ("INSERT INTO q SELECT id, sum(n) FROM q GROUP BY id", "rows again when they change"),
        ("INSERT INTO q SELECT * FROM q ORDER BY id", "cannot run as a stream: Sorting"),
        ("DELETE FROM a WHERE id = 1", "'batch' first"),
        ("UPDATE a SET n = 1", "'batch' first"),
        ("MERGE INTO b USING a ON a.id = b.id WHEN NOT MATCHED THEN INSERT *", "'batch' first"),
        ("CREATE TABLE c AS SELECT * FROM a", "then INSERT INTO it starts a job"),
    ]:
        with pytest.raises(UnsupportedError, match=message):
            lake.sql(statement)
    assert lake.jobs() == []
    assert [row["tableName"] for row in lake.sql("SHOW TABLES").collect()] == ["a", "b", "q"]


def test_in_batch_mode_a_table_is_a_stream_where_the_query_says_so(lake):
    tables(lake, "a", "d")
    found = lake.sql(
        "SELECT s.id, c.n FROM STREAM a /*+ OPTIONS('scan.mode' = 'latest') */ AS s"
        " JOIN d FOR SYSTEM_TIME AS OF PROCTIME() AS c ON s.n = c.id"
    )
    assert found.isStreaming
    assert found.columns == ["_row_kind", "id", "n"]
    assert "lookup of default.d" in found._jdf.queryExecution().analyzed().toString()
    for statement, message in [
        ("INSERT INTO d SELECT * FROM STREAM a", r"SET 'execution\.runtime-mode' = 'streaming'"),
        ("CREATE TABLE c AS SELECT * FROM STREAM a", "cannot take a stream"),
        ("SELECT * FROM STREAM a VERSION AS OF 1", "at a moment cannot be read as a STREAM"),
        ("SELECT * FROM STREAM a$snapshots", "cannot be read as a STREAM"),
        (
            "MERGE INTO d USING (SELECT * FROM STREAM a) s ON s.id = d.id"
            " WHEN NOT MATCHED THEN INSERT *",
            "MERGE cannot take a stream",
        ),
    ]:
        with pytest.raises(TidelakeError, match=message):
            lake.sql(statement)


def test_a_statement_set_starts_all_of_its_jobs_or_none(streaming, tmp_path, request):
    lake = streaming
    tables(lake, "a", "b", "c")
    lake.sql("INSERT INTO a VALUES (1, 10), (2, 20)")
    with pytest.raises(NotFoundError):
        lake.sql(
            "EXECUTE STATEMENT SET BEGIN INSERT INTO b SELECT * FROM a;"
            " INSERT INTO nowhere SELECT * FROM a; END"
        )
    assert lake.jobs() == []
    checkpoints = tmp_path / odd_name(request.node.name)
    checkpoints.mkdir(exist_ok=True)
    (checkpoints / "default.c").write_text("no directory")
    with pytest.raises(InvalidInputError, match="is a file"):
        lake.sql(
            "EXECUTE STATEMENT SET BEGIN INSERT INTO b SELECT * FROM a WHERE n < 15;"
            " INSERT INTO c SELECT * FROM a WHERE n > 15; END"
        )
    assert [(job.name, job.status) for job in lake.jobs()] == [("default.b", "CANCELED")]
    lake.sql("SET 'pipeline.name' = 'both'")
    found = lake.sql(
        "EXECUTE STATEMENT SET BEGIN INSERT INTO b SELECT * FROM a WHERE n < 15;"
        " INSERT INTO c SELECT * FROM a WHERE n > 15; END"
    ).collect()
    assert [row["job name"] for row in found] == ["both.default.b", "both.default.c"]
    drained(*(job for job in lake.jobs() if job.name.startswith("both")))
    assert rows(lake, "SELECT * FROM b") == [(1, 10)]
    assert rows(lake, "SELECT * FROM c") == [(2, 20)]


def test_groups_without_a_window_are_upserts(streaming):
    lake = streaming
    lake.sql("CREATE TABLE q (k STRING, n INT) WITH ('bucket' = '-1')")
    lake.sql("CREATE TABLE s (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED)")
    lake.sql("INSERT INTO q VALUES ('a', 1), ('b', 2)")
    job = started(lake, "INSERT INTO s SELECT k, sum(n) FROM q GROUP BY k")
    drained(job)
    lake.sql("INSERT INTO q VALUES ('a', 5)")
    drained(job)
    assert rows(lake, "SELECT * FROM s") == [("a", 6), ("b", 2)]


def test_changes_count_as_the_query_says(streaming):
    lake = streaming
    tables(lake, "a", "b")
    lake.sql("CREATE TABLE s (k INT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED)")
    lake.sql("INSERT INTO a VALUES (1, 10), (2, 20)")
    job = started(
        lake,
        "INSERT INTO s SELECT 0, sum(CASE WHEN _row_kind IN ('-U', '-D') THEN -n ELSE n END)"
        " FROM a GROUP BY 1",
    )
    drained(job)
    in_batch(lake, "DELETE FROM a WHERE id = 1")
    drained(job)
    assert rows(lake, "SELECT * FROM s") == [(0, 20)]


def test_a_limit_takes_the_first_rows_of_an_append_stream(streaming):
    lake = streaming
    lake.sql("CREATE TABLE q (id INT, n INT) WITH ('bucket' = '-1')")
    lake.sql("CREATE TABLE o (id INT, n INT) WITH ('bucket' = '-1')")
    lake.sql("INSERT INTO q VALUES (1, 10)")
    job = started(lake, "INSERT INTO o SELECT * FROM q LIMIT 2")
    drained(job)
    lake.sql("INSERT INTO q VALUES (2, 20), (3, 30)")
    drained(job)
    assert len(rows(lake, "SELECT * FROM o")) == 2
    job.stop()


def test_a_lookup_sees_the_table_as_it_is_at_each_batch(streaming):
    lake = streaming
    lake.sql("CREATE TABLE q (id INT, k INT) WITH ('bucket' = '-1')")
    tables(lake, "d")
    lake.sql("CREATE TABLE o (id INT, n INT) WITH ('bucket' = '-1')")
    lake.sql("INSERT INTO q VALUES (1, 7)")
    lake.sql("INSERT INTO d VALUES (7, 70)")
    job = started(
        lake,
        "INSERT INTO o SELECT q.id, c.n FROM q"
        " JOIN d FOR SYSTEM_TIME AS OF PROCTIME() AS c ON q.k = c.id",
    )
    drained(job)
    lake.sql("INSERT INTO d VALUES (7, 71), (8, 80)")
    lake.sql("INSERT INTO q VALUES (2, 7), (3, 8)")
    drained(job)
    assert rows(lake, "SELECT * FROM o") == [(1, 70), (2, 71), (3, 80)]


@pytest.mark.parametrize(
    "join",
    [
        "a LEFT JOIN d FOR SYSTEM_TIME AS OF PROCTIME() AS c ON a.n = c.id",
        "a LEFT JOIN d FOR SYSTEM_TIME AS OF PROCTIME() AS c ON a.n = c.id AND c.n >= 0",
        "(SELECT id AS k, n AS m FROM d VERSION AS OF 1) AS c RIGHT JOIN a ON a.n = c.k",
    ],
    ids=["lookup by key", "lookup", "version"],
)
def test_changes_of_one_key_keep_their_order_in_a_join(streaming, join):
    """Spark would shuffle them by the key of the join, which an update changes."""
    lake = streaming
    tables(lake, "a", "d", "o")
    lake.sql("INSERT INTO d VALUES " + ", ".join(f"({k}, {k * 10})" for k in range(12)))
    value = "c.n" if "PROCTIME" in join else "c.m"
    lake.spark.conf.set("spark.sql.optimizer.disableHints", "true")
    try:
        # what each row looks up by key is not joined, and needs no hint
        with (
            nullcontext()
            if join.endswith("c.id")
            else pytest.raises(UnsupportedError, match="disableHints' is true")
        ):
            lake.sql(f"SELECT a.id, {value} AS n FROM {join}")
    finally:
        lake.spark.conf.unset("spark.sql.optimizer.disableHints")
    job = started(lake, f"INSERT INTO o SELECT a.id, {value} AS n FROM {join}")
    drained(job)
    for moved in range(3):
        values = ", ".join(f"({k}, {(k * 5 + moved) % 12})" for k in range(12))
        lake.sql(f"INSERT INTO a VALUES {values}")
    drained(job)
    assert rows(lake, "SELECT * FROM o") == [(k, (k * 5 + 2) % 12 * 10) for k in range(12)]


def test_a_name_of_the_kinds_excuses_its_own_select_alone(streaming):
    lake = streaming
    tables(lake, "a", "b")
    lake.sql("CREATE TABLE q (id INT, n INT) WITH ('bucket' = '-1')")
    with pytest.raises(UnsupportedError, match="Name _row_kind in the SELECT that reads"):
        lake.sql(
            "SELECT count(*) AS n FROM a UNION ALL SELECT n FROM b WHERE _row_kind IN ('+I', '+U')"
        )
    with pytest.raises(UnsupportedError, match="may change places"):
        lake.sql("INSERT INTO b SELECT a.id, q.n FROM a JOIN q ON a.id = q.id")
    both = "SELECT * FROM a UNION ALL SELECT * FROM b WHERE _row_kind IN ('+I', '+U')"
    assert lake.sql(both).columns == ["_row_kind", "id", "n"]


def clicks(lake):
    lake.sql(
        "CREATE TABLE clicks (k INT, at TIMESTAMP(3),"
        " WATERMARK FOR at AS at - INTERVAL '5' SECOND) WITH ('bucket' = '-1')"
    )
    lake.sql(
        "CREATE TABLE counts (s TIMESTAMP(3), e TIMESTAMP(3), k INT, n BIGINT)"
        " WITH ('bucket' = '-1')"
    )


def click(lake, *given):
    values = ", ".join(f"({k}, TIMESTAMP_NTZ '2026-01-01 00:{at}')" for k, at in given)
    lake.sql(f"INSERT INTO clicks VALUES {values}")


def minutes(found):
    return [(s.strftime("%M"), e.strftime("%M"), k, n) for s, e, k, n in found]


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (
            "TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '10' MINUTES)",
            [("00", "10", 1, 2), ("00", "10", 2, 1), ("10", "20", 1, 1)],
        ),
        (
            "HOP(TABLE clicks, DESCRIPTOR(at), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES)",
            [
                ("00", "10", 1, 2),
                ("00", "10", 2, 1),
                ("05", "15", 1, 2),
                ("10", "20", 1, 1),
                ("55", "05", 1, 1),
                ("55", "05", 2, 1),
            ],
        ),
        (
            "CUMULATE(TABLE clicks, DESCRIPTOR(at), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES)",
            [
                ("00", "05", 1, 1),
                ("00", "05", 2, 1),
                ("00", "10", 1, 2),
                ("00", "10", 2, 1),
                ("10", "15", 1, 1),
                ("10", "20", 1, 1),
            ],
        ),
        (
            "SESSION(TABLE clicks PARTITION BY k, DESCRIPTOR(at), INTERVAL '4' MINUTES)",
            [("01", "05", 1, 1), ("04", "08", 2, 1), ("09", "16", 1, 2)],
        ),
    ],
    ids=["tumble", "hop", "cumulate", "session"],
)
def test_a_window_of_a_stream_comes_once_the_watermark_has_passed_it(streaming, window, expected):
    """In a session of another time zone than UTC; the same rows as of a batch, without the last."""
    lake = streaming
    clicks(lake)
    query = (
        "SELECT window_start, window_end, k, count(*) AS n FROM TABLE(" + window + ")"
        " GROUP BY window_start, window_end, k"
    )
    job = started(lake, f"INSERT INTO counts {query}")
    click(lake, (1, "01:00"), (2, "04:00"), (1, "09:59"))
    drained(job)
    before = rows(lake, "SELECT * FROM counts")
    assert all(end <= datetime(2026, 1, 1, 0, 9, 54) for _, end, _, _ in before)
    click(lake, (1, "12:00"))
    drained(job)
    click(lake, (3, "59:00"))
    drained(job)
    found = minutes(rows(lake, "SELECT s, e, k, n FROM counts"))
    assert sorted(found) == expected
    batch = [r for r in minutes(rows(lake, query)) if r[2] != 3]
    assert sorted(batch) == expected
    assert job.watermark.strftime("%H:%M:%S") == "00:58:55"


def test_a_window_needs_a_watermark(streaming):
    lake = streaming
    lake.sql("CREATE TABLE t (k INT, at TIMESTAMP(3)) WITH ('bucket' = '-1')")
    with pytest.raises(InvalidInputError, match="ADD WATERMARK FOR"):
        lake.sql(
            "SELECT window_end, count(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1'"
            " HOUR)) GROUP BY window_start, window_end"
        )


def test_the_watermark_is_kept_in_the_snapshots_of_the_target(streaming):
    lake = streaming
    clicks(lake)
    lake.sql("CREATE TABLE copy (k INT) WITH ('bucket' = '-1')")
    click(lake, (1, "01:00"))
    drained(started(lake, "INSERT INTO copy SELECT k FROM clicks"))
    (snapshot,) = rows(lake, "SELECT watermark FROM copy$snapshots")
    assert datetime.fromtimestamp(snapshot[0] / 1000).strftime("%M:%S") == "00:55"


def test_a_view_of_windows_may_be_windowed_again(streaming):
    """By the time of its windows, which the query names: ``window_time``."""
    lake = streaming
    clicks(lake)
    lake.sql(
        "CREATE TEMPORARY VIEW small AS SELECT window_time AS at, count(*) AS n FROM"
        " TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '5' MINUTES))"
        " GROUP BY window_start, window_time"
    )
    frame = lake.sql(
        "SELECT window_start AS s, window_end AS e, sum(n) AS n FROM"
        " TABLE(TUMBLE(TABLE small, DESCRIPTOR(at), INTERVAL '10' MINUTES))"
        " GROUP BY window_start, window_end"
    )
    assert frame.isStreaming


def test_streams_join_by_their_event_times(streaming):
    lake = streaming
    clicks(lake)
    lake.sql("CREATE TABLE both (k INT, a TIMESTAMP(3), b TIMESTAMP(3)) WITH ('bucket' = '-1')")
    job = started(
        lake,
        "INSERT INTO both SELECT c.k, c.at, d.at FROM clicks c JOIN clicks d"
        " ON c.k = d.k AND d.at BETWEEN c.at + INTERVAL 1 SECOND AND c.at + INTERVAL 5 MINUTES",
    )
    click(lake, (1, "01:00"), (1, "04:00"))
    drained(job)
    click(lake, (1, "08:00"), (2, "08:00"))
    drained(job)
    found = rows(lake, "SELECT * FROM both")
    assert [(k, a.minute, b.minute) for k, a, b in found] == [(1, 1, 4), (1, 4, 8)]


def test_a_failed_job_says_why_in_our_words(streaming):
    lake = streaming
    tables(lake, "a", "b")
    lake.sql("INSERT INTO a VALUES (1, 1)")
    job = started(lake, "INSERT INTO b SELECT id, CAST(assert_true(n < 0) AS INT) FROM a")
    with pytest.raises(TidelakeError) as raised:
        job.wait(WAIT_S)
    assert job.status == "FAILED"
    assert "at org.apache" not in str(raised.value)
    assert str(raised.value) in str(job.error)


def test_a_stream_that_is_bounded_by_a_watermark_ends_by_itself(streaming):
    lake = streaming
    clicks(lake)
    lake.sql("CREATE TABLE copy (k INT, at TIMESTAMP(3)) WITH ('bucket' = '-1')")
    lake.sql("CREATE TABLE end_of_day (k INT) WITH ('bucket' = '-1')")
    copying = started(lake, "INSERT INTO copy SELECT * FROM clicks")
    click(lake, (1, "01:00"))
    drained(copying)
    bound = int(datetime(2026, 1, 1, 0, 30, tzinfo=UTC).timestamp() * 1000)
    ending = started(
        lake,
        "INSERT INTO end_of_day SELECT k FROM copy"
        f" /*+ OPTIONS('scan.bounded.watermark' = '{bound}') */",
    )
    click(lake, (2, "20:00"))
    drained(copying)
    click(lake, (3, "40:00"))
    drained(copying)
    click(lake, (4, "50:00"))
    assert ending.wait(WAIT_S)
    assert ending.status == "FINISHED"
    assert rows(lake, "SELECT * FROM end_of_day") == [(1,), (2,)]


def test_options_of_a_hint_go_to_the_source(streaming):
    lake = streaming
    tables(lake, "a", "b")
    lake.sql("INSERT INTO a VALUES (1, 1)")
    job = started(lake, "INSERT INTO b SELECT * FROM a /*+ OPTIONS('scan.mode' = 'latest') */")
    drained(job)
    lake.sql("INSERT INTO a VALUES (2, 2)")
    drained(job)
    assert rows(lake, "SELECT * FROM b") == [(2, 2)]
    with pytest.raises(InvalidInputError, match=r"Did you mean 'scan\.mode'"):
        lake.sql("SELECT * FROM a /*+ OPTIONS('scan.mod' = 'latest') */")


def test_in_batch_mode_a_stream_is_not_inserted(lake, spark, tmp_path):
    tables(lake, "b")
    frame = spark.readStream.format("rate").load().selectExpr("1 AS id", "2 AS n")
    frame.createOrReplaceTempView("rates_of_test")
    with pytest.raises(InvalidInputError, match=r"SET 'execution\.runtime-mode' = 'streaming'"):
        lake.sql("INSERT INTO b SELECT * FROM rates_of_test")
    spark.catalog.dropTempView("rates_of_test")
