"""What the program says of its jobs, whenever they end."""

import pytest

from tidelake.cli.on_spark.started_jobs import StartedJobs
from tidelake.errors import InvalidInputError


class Job:
    """A job that ends after so many waits; without a number it runs until it is stopped."""

    def __init__(self, name, waits=None, error=None):
        self.name, self.id, self._waits, self._error = name, f"id-{name}", waits, error
        self._stopped = False

    @property
    def status(self):
        if self._stopped:
            return "CANCELED"
        if self._waits != 0:
            return "RUNNING"
        return "FINISHED" if self._error is None else "FAILED"

    @property
    def error(self):
        return self._error if self.status == "FAILED" else None

    def stop(self):
        self._stopped = self.status == "RUNNING" or self._stopped

    def wait(self, timeout=None):
        if self._waits:
            self._waits -= 1
        return self._waits == 0


@pytest.fixture
def told():
    return []


def test_a_job_that_has_ended_before_its_start_was_answered_is_told_all_the_same(told):
    jobs = StartedJobs(told.append)
    jobs.add(Job("quick", waits=0))
    jobs.wait()
    assert told[0] == "Started: quick (id-quick)."
    assert told[-1] == "Ended: quick (id-quick), FINISHED."
    assert len(told) == 3


def test_each_end_is_told_once_and_in_its_order(told):
    jobs = StartedJobs(told.append)
    jobs.add(Job("slow", waits=2))
    jobs.add(Job("quick", waits=0))
    jobs.wait()
    jobs.stop()
    assert [line for line in told if line.startswith("Ended")] == [
        "Ended: quick (id-quick), FINISHED.",
        "Ended: slow (id-slow), FINISHED.",
    ]


def test_the_others_are_stopped_when_one_fails(told):
    jobs = StartedJobs(told.append)
    jobs.add(Job("endless"))
    jobs.add(Job("bad", waits=0, error=InvalidInputError("no", kind="bad_input")))
    with pytest.raises(InvalidInputError, match="no"):
        jobs.wait()
    assert told[-2:] == ["Ended: bad (id-bad), FAILED.", "Ended: endless (id-endless), CANCELED."]


def test_without_jobs_nothing_is_said(told):
    StartedJobs(told.append).wait()
    assert told == []
