"""A job whose look at a table meets an expiry by another one: it looks again, and says nothing."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from sizes import SIZE

import tidelake
from tidelake.fileio import MemoryFileIO
from tidelake.table.upkeep import TableUpkeep
from tidelake.telemetry import Env, ManualClock

COLUMNS = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])
TABLES = {
    "keys": {"bucket": "1"},
    "vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "postponed": {"bucket": "-2"},
    "append": {"bucket": "-1", "compaction.min.file-num": "2"},
    "queue": {"bucket": "1", "bucket-key": "k", "compaction.min.file-num": "2"},
}
KEYLESS = ("append", "queue")


class BesideFileIO:
    """Lets something happen before the call of a number, counted from 1."""

    def __init__(self, inner, at, meanwhile):
        self._inner = inner
        self._at = at
        self._meanwhile = meanwhile
        self.calls_count = 0

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def counted(*arguments, **options):
            self.calls_count += 1
            if self.calls_count == self._at:
                self._meanwhile()
            return found(*arguments, **options)

        return counted


def run_beside(name, at):
    """Run a job; at the call `at` others write and expire what was newest. Its number of calls."""
    clock = ManualClock()
    catalog = tidelake.open(
        "/lake", fileio=MemoryFileIO(clock=clock), env=replace(Env.seeded(1), clock=clock)
    )
    table = catalog.create_table(
        "db.t",
        COLUMNS,
        primary_keys=() if name in KEYLESS else ("k",),
        options={"write-only": "true", **TABLES[name]},
    )
    for v in range(4):
        table.write([{"k": v % 3, "v": v}])

    def meanwhile():
        other = catalog.table("db.t")
        for v in range(4, 6):
            other.write([{"k": v % 3, "v": v}])
        other.maintenance.expire_snapshots(retain_max=1, retain_min=1)

    handle = catalog.table("db.t").handle
    beside = BesideFileIO(handle.fileio, at, meanwhile)
    upkeep = TableUpkeep("a")
    done = upkeep.run(replace(handle, fileio=beside))
    assert not done.errors, done
    calls_count = beside.calls_count
    for _ in range(5):
        last = upkeep.run(handle)
        assert not last.errors, last
        if not last.tasks:
            break
    assert not last.tasks, last
    rows = sorted((row["k"], row["v"]) for row in table.to_arrow().to_pylist())
    written = [(v % 3, v) for v in range(6 if at <= calls_count else 4)]
    assert rows == (sorted(written) if name in KEYLESS else sorted(dict(written).items()))
    return calls_count


@pytest.mark.parametrize("name", TABLES)
def test_at_whichever_call_an_expiry_comes_a_job_goes_on(name):
    every = SIZE.upkeep_expiries_step
    at = 1 + list(TABLES).index(name) % every
    while at <= run_beside(name, at):
        at += every
    assert at > 100
