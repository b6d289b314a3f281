"""What a query asks of a run, without a query: whether there is something to do."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import pytest
from unit.cdc.job.conftest import ITEMS, Bench
from unit.cdc.job.log_source import LogSource

from tidelake.cdc.command.figures import SyncProgress
from tidelake.cdc.job.job import IDLE_MS
from tidelake.cdc.journal.journal import REPLAY
from tidelake.spark.cdc.query_run import BATCH_SECONDS_MAX, QueryRun

ITEM = {"id": 1, "name": "n", "price": None}


class Query:
    """A run over a database in memory, whose source may be slow."""

    def __init__(self, bench, monkeypatch):
        self.bench = bench
        self.job = bench.job()
        self.clock = self.job._env.clock
        self.slow_reads = 0
        self.reads = 0
        read = LogSource.read

        def slowly(source, start, tables, limits, **more):
            self.reads += 1
            found = read(source, start, tables, limits, **more)
            if self.slow_reads:
                self.slow_reads -= 1
                self.clock.sleep_ms(limits.wait_ms)
                return replace(found, end=start, parts=())
            return found

        monkeypatch.setattr(LogSource, "read", slowly)
        parts = SimpleNamespace(source=self.job._source, env=self.job._env, job=lambda: self.job)
        self.progress = SyncProgress("job", self.job._env.clock)
        self.run = QueryRun(parts, mock.Mock(), self.progress, None)

    def batches(self, most=20):
        """Batches until there is nothing to do."""
        for count in range(most):
            if not self.run.has_work():
                return count
            self.run(mock.Mock(), count)
        raise AssertionError("the run always has something to do")


@pytest.fixture
def query(monkeypatch):
    bench = Bench()
    bench.database.create("items", ITEMS)
    made = Query(bench, monkeypatch)
    assert made.batches() == 1
    return made


def test_changes_that_a_slow_source_gives_late_are_applied(query):
    query.slow_reads = 3
    query.bench.database.commit(("items", "put", ITEM))
    assert query.batches() == 4
    query.bench.check()


def test_a_log_without_changes_is_passed_over_once(query):
    query.bench.database.commit()
    assert query.batches() == 1
    assert query.job.position == "0:0"
    reads = query.reads
    assert query.batches() == 0
    assert query.reads == reads
    assert query.run.facts()["lagMs"] == "0"


def test_a_source_that_gives_nothing_leaves_the_batch_to_the_next_one(query):
    query.slow_reads = 1_000
    query.bench.database.commit(("items", "put", ITEM))
    assert query.run.has_work()
    reads, began = query.reads, query.clock.monotonic_seconds()
    query.run(mock.Mock(), 0)
    assert query.reads == reads + 1
    assert query.clock.monotonic_seconds() - began < BATCH_SECONDS_MAX
    assert query.run.has_work()


def test_a_request_is_taken_up_while_the_log_has_nothing_for_the_job(query):
    query.bench.database.commit()
    assert query.batches() == 1
    query.clock.sleep_ms(IDLE_MS)
    query.job._journal.ask([], REPLAY)
    assert query.batches() == 1
