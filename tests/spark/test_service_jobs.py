"""Jobs of a query service: what starts them again, what ends them, what is refused."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tidelake.errors import InvalidInputError
from tidelake.spark.service.executor_jobs import ExecutorJobs
from tidelake.spark.service.slots import check_slots
from tidelake.telemetry import SystemClock

CLOCK = SystemClock()


def serving(directory):
    """An executor that writes its process's number, and returns where a file says so."""

    def run(index):
        import os  # by value: Spark's Python does not know this module
        import pathlib
        import time

        place = pathlib.Path(directory)
        (place / f"{index}.{os.getpid()}").touch()
        while not (place / "stop").exists():
            time.sleep(0.02)
        return "told to stop"

    return run


def process_of(directory, known=()):
    until = time.monotonic() + 20
    while time.monotonic() < until:
        found = [int(path.name.split(".")[1]) for path in directory.glob("0.*")]
        if new := set(found) - set(known):
            return new.pop()
        time.sleep(0.02)
    raise AssertionError(f"no executor has begun beside {known}")


def test_an_executor_that_is_killed_begins_again_and_a_flag_ends_it(spark, tmp_path):
    jobs = ExecutorJobs(spark, "svc-killed", serving(str(tmp_path)), 1, clock=CLOCK)
    jobs.start()
    first = process_of(tmp_path)
    assert spark.range(3).count() == 3  # another job runs beside it
    began = time.monotonic()
    os.kill(first, signal.SIGKILL)
    second = process_of(tmp_path, known=[first])
    print(f"recovery {time.monotonic() - began:.2f} s")
    assert jobs.failures_count(0) == 1
    assert "Spark failed" in jobs.failure(0).message
    spark.sparkContext.cancelAllJobs()  # as Ctrl-C does in a program
    third = process_of(tmp_path, known=[first, second])
    (tmp_path / "stop").touch()
    assert jobs.stop()
    assert not jobs.is_running
    assert jobs.restarts_count == 2
    assert third not in (first, second)


def test_an_executor_that_does_not_return_is_cancelled(spark, tmp_path):
    jobs = ExecutorJobs(spark, "svc-deaf", serving(str(tmp_path)), 1, clock=CLOCK)
    jobs.start()
    process_of(tmp_path)
    assert jobs.stop(timeout_s=0.1)


def test_an_executor_that_cannot_begin_says_why(spark, tmp_path):
    def broken(index):
        raise ValueError(f"no executor {index} here")

    jobs = ExecutorJobs(spark, "svc-broken", broken, 1, clock=CLOCK)
    jobs.start()
    until = time.monotonic() + 20
    while jobs.failures_count(0) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    assert jobs.stop()
    assert "no executor 0 here" in jobs.failure(0).message


def test_a_service_leaves_a_slot_to_other_jobs(spark):
    check_slots(spark, 1, taken=0, clock=CLOCK)
    with pytest.raises(InvalidInputError, match=r"2 executors .* runs 2 tasks .* parallelism=1"):
        check_slots(spark, 2, taken=0, clock=CLOCK)
    with pytest.raises(InvalidInputError, match=r"other services hold 1\. Start .*local\[3\]"):
        check_slots(spark, 1, taken=1, clock=CLOCK)
