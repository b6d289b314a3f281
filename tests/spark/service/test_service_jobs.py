"""Jobs of a query service: what starts them again, what ends them, what is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tidelake.errors import InvalidInputError
from tidelake.spark.service.executor_jobs import TASK_ATTEMPTS, ExecutorJobs
from tidelake.spark.service.slots import check_slots
from tidelake.telemetry import SystemClock

CLOCK = SystemClock()


def serving(directory):
    """An executor that writes its process's number, and returns where a file says so."""

    def run(index, attempt):
        import os  # by value: Spark's Python does not know this module
        import pathlib
        import time

        place = pathlib.Path(directory)
        (place / f"{index}.{os.getpid()}.{attempt}").touch()
        while not (place / "stop").exists():
            time.sleep(0.02)
        return "told to stop"

    return run


def process_of(directory, known=()):
    until = time.monotonic() + 120
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
    assert "Spark failed" in jobs.problem(0)
    spark.sparkContext.cancelAllJobs()  # as Ctrl-C does in a program
    third = process_of(tmp_path, known=[first, second])
    (tmp_path / "stop").touch()
    assert jobs.stop()
    assert not jobs.is_running
    assert jobs.restarts_count == 2
    assert third not in (first, second)
    attempts = [int(path.name.split(".")[2]) for path in tmp_path.glob("0.*")]
    assert sorted(attempts) == [start * TASK_ATTEMPTS for start in range(3)]


def test_an_executor_that_hangs_is_replaced_and_no_other(spark, tmp_path):
    stopped = []

    def hang(index, *, attempt, started):
        return "is stopped" if stopped and index == 0 and attempt == 0 else None

    jobs = ExecutorJobs(spark, "svc-hung", serving(str(tmp_path)), 2, clock=CLOCK, hang=hang)
    jobs.start()
    first = process_of(tmp_path)
    os.kill(first, signal.SIGSTOP)
    stopped.append(first)
    assert process_of(tmp_path, known=[first]) != first
    assert not Path(f"/proc/{first}").exists()
    (tmp_path / "stop").touch()
    assert jobs.stop()
    assert [jobs.failures_count(index) for index in range(2)] == [1, 0]


def test_an_executor_that_does_not_return_is_cancelled(spark, tmp_path):
    jobs = ExecutorJobs(spark, "svc-deaf", serving(str(tmp_path)), 1, clock=CLOCK)
    jobs.start()
    process_of(tmp_path)
    assert jobs.stop(timeout_s=0.1)


def test_an_executor_that_cannot_begin_says_why(spark, tmp_path):
    def broken(index, attempt):
        raise ValueError(f"no executor {index} here")

    jobs = ExecutorJobs(spark, "svc-broken", broken, 1, clock=CLOCK)
    jobs.start()
    until = time.monotonic() + 120
    while jobs.failures_count(0) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    assert jobs.stop()
    assert "no executor 0 here" in jobs.problem(0)


def test_a_service_leaves_a_slot_to_other_jobs(spark):
    check_slots(spark, 1, taken=0, clock=CLOCK)
    with pytest.raises(InvalidInputError, match=r"2 executors .* runs 2 tasks .* parallelism=1"):
        check_slots(spark, 2, taken=0, clock=CLOCK)
    with pytest.raises(InvalidInputError, match=r"other services hold 1\. Start .*local\[3\]"):
        check_slots(spark, 1, taken=1, clock=CLOCK)


def test_when_the_session_ends_so_does_the_service(tmp_path):
    """In a process of its own: the session of the tests goes on."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ENDED, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in sys.path if p)),
    )
    assert done.stdout.split() == ["ended", "False"], done.stderr[-2000:]


ENDED = """
import pathlib, sys, time
import quick_spark
from spark.service.test_service_jobs import CLOCK, process_of, serving
from tidelake.spark.service.executor_jobs import ExecutorJobs
place = pathlib.Path(sys.argv[1])
spark = quick_spark.session(place)
jobs = ExecutorJobs(spark, "svc", serving(str(place)), 1, clock=CLOCK)
jobs.on_session_end = lambda: print("ended", flush=True)
jobs.start()
process_of(place)
spark.stop()
until = time.monotonic() + 120
while jobs.is_running and time.monotonic() < until:
    time.sleep(0.02)
print(jobs.is_running)
"""
