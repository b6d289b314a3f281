"""The tables of a query have a snapshot each, which all lookups of a batch see."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from proving.expiring import make

from tidelake.fileio import MemoryFileIO
from tidelake.spark.lookupjoin import pin
from tidelake.spark.lookupjoin.pin import BATCH_ID, NO_SNAPSHOT, QUERY_ID
from tidelake.telemetry import ManualClock


@pytest.fixture
def spark(monkeypatch):
    """A session whose thread plans the first batch of a query."""
    ended = []
    monkeypatch.setattr(pin, "LOOK_S", 0.001)
    monkeypatch.setattr(pin.QueryLife, "has_ended", lambda _: bool(ended))
    properties = {QUERY_ID: "q", BATCH_ID: "0"}
    context = SimpleNamespace(_jsc=1, getLocalProperty=properties.get)
    yield SimpleNamespace(sparkContext=context)
    ended.append(True)
    clock = ManualClock()
    while pin._PINS:
        clock.sleep_ms(1)


def test_a_table_and_its_branch_are_pinned_each(spark):
    table = make(MemoryFileIO())
    table.write([{"k": 1, "v": 1, "p": "a"}])
    table.write([{"k": 2, "v": 1, "p": "a"}])
    table.branches.create("b")
    branch = table.branch("b")
    found = [pin._pinned(spark, one.handle) for one in (table, branch, table)]
    assert found == [2, NO_SNAPSHOT, 2]
    branch.write([{"k": 3, "v": 1, "p": "a"}])
    assert pin._pinned(spark, branch.handle) == NO_SNAPSHOT, "a batch sees one snapshot"
