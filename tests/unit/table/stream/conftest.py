"""Tables in memory, and small helpers to follow them."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tidelake
from tidelake.fileio import MemoryFileIO
from tidelake.table.stream import NO_LIMITS, StreamPlan
from tidelake.telemetry import Env, ManualClock


@pytest.fixture
def clock():
    return ManualClock(1_700_000_000_000)


@pytest.fixture
def catalog(clock):
    return tidelake.open("/w", fileio=MemoryFileIO(), env=replace(Env.seeded(1), clock=clock))


@pytest.fixture
def make(catalog):
    """Makes a table ``db.t`` of columns k and v, by default keyed by k."""

    def table(keys=("k",), options=None, partitions=()):
        return catalog.create_table(
            "db.t",
            {"k": "INT NOT NULL", "v": "INT"},
            primary_keys=keys,
            partition_keys=partitions,
            options={"bucket": "1" if keys else "-1", **(options or {})},
        )

    return table


@pytest.fixture
def follow():
    """Reads a stream of a table from its beginning, or from an offset, to its end so far."""

    def read(table, options=None, start=None, limits=NO_LIMITS, batches=100):
        plan = StreamPlan.of(table.handle, options)
        at = start or plan.initial()
        given = []
        for _ in range(batches):
            end = at and plan.next(at, limits)
            if end == at:
                break
            rows = plan.parts(at, end).reader().read_all().to_pylist()
            given.append([tuple(row.values()) for row in rows])
            at = end
        return given, at

    return read
