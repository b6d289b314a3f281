"""A cell of a notebook that is interrupted leaves no job behind, and nothing half-written."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager

import pytest

from tidelake.spark.sessions.cancellation import interruptible

# values that fit: a task that failed by one would end the job before it is interrupted
ENDLESS = "SELECT CAST(id % 1000 AS INT) AS n, 'big' AS page FROM range(0, 100000000000, 1, 2)"
WAIT_S = 60.0


@pytest.fixture
def log(lake):
    lake.sql("CREATE TABLE log (n INT, page STRING) PARTITIONED BY (page)")
    lake.sql("INSERT INTO log VALUES (1, 'a')")
    return lake.catalog.table("default.log")


@pytest.fixture
def as_in_a_notebook():
    """The kernel's handler: PySpark's own, which cancels all jobs, is away during a cell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def active_jobs(spark):
    return spark.sparkContext.statusTracker().getActiveJobsIds()


def waits_until(holds):
    end = time.monotonic() + WAIT_S
    while not (held := holds()) and time.monotonic() < end:
        time.sleep(0.1)
    return held


@contextmanager
def interrupted(spark):
    """Send what the button of a notebook sends, once a job has run for a while."""
    left = threading.Event()

    def send():
        waits_until(lambda: left.is_set() or active_jobs(spark))
        if not left.wait(0.5):
            os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        left.set()
        sender.join()


@pytest.mark.parametrize("way", ["write", "sql", "delete"])
def test_an_interrupted_cell_leaves_no_job_and_no_commit(lake, spark, log, as_in_a_notebook, way):
    ways = {
        "write": lambda: lake.write(spark.sql(ENDLESS), "default.log"),
        "sql": lambda: lake.sql(f"INSERT INTO log {ENDLESS}"),
        # rows are compared with an endless query
        "delete": lambda: lake.sql(f"DELETE FROM log WHERE n IN (SELECT n FROM ({ENDLESS}))"),
    }
    with interrupted(spark):
        ways[way]()
    assert waits_until(lambda: not active_jobs(spark)), "a job runs on"
    assert log.latest_snapshot_id == 1
    lake.sql("INSERT INTO log VALUES (2, 'b')")  # a notebook goes on
    assert log.count() == 2


def test_what_ended_before_it_was_cancelled_says_so(spark, as_in_a_notebook):
    def work():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.5)  # between jobs: nothing there that could be cancelled
        return "committed"

    with pytest.raises(KeyboardInterrupt) as caught:
        interruptible(spark, work)
    assert "what it wrote is committed" in "".join(caught.value.__notes__)


def test_tags_and_groups_of_the_caller_stay(lake, spark, log):
    context = spark.sparkContext
    context.setJobGroup("mine", "of the caller")
    try:
        lake.write(spark.sql("SELECT 3 AS n, 'c' AS page"), "default.log")
        assert context.statusTracker().getJobIdsForGroup("mine")
        assert not set(context.getJobTags())
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
