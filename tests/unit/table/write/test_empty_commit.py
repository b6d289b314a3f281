"""Batches of streams without rows: when they make a snapshot, for the tags by watermark."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

import tidelake
from tidelake.fileio import MemoryFileIO
from tidelake.table.write.empty_commit import wants_empty_commit
from tidelake.table.write.transaction import WriteTransaction
from tidelake.telemetry import Env, ManualClock

HOUR_MS = 3_600_000
START_MS = int(datetime(2024, 1, 1, 10, tzinfo=UTC).timestamp() * 1000)
BY_WATERMARK = {
    "tag.automatic-creation": "watermark",
    "snapshot.watermark-idle-timeout": "2 h",
    "tag.creation-period": "hourly",
}


@pytest.fixture
def clock():
    return ManualClock(START_MS)


@pytest.fixture
def make(clock):
    def make(options):
        env = replace(Env.seeded(1), clock=clock)
        catalog = tidelake.open("/lake", fileio=MemoryFileIO(clock=clock), env=env)
        return catalog.create_table("db.t", {"k": "BIGINT"}, options=options)

    return make


def commit(table, rows, watermark_ms):
    wanted = wants_empty_commit(table.handle)
    WriteTransaction(table.handle, watermark=watermark_ms, is_wanted_empty=wanted).write(rows)


def test_a_watermark_that_is_old_makes_a_snapshot_without_rows_and_a_tag(make, clock):
    table = make(BY_WATERMARK)
    commit(table, [], START_MS)
    assert table.latest_snapshot_id is None
    commit(table, [{"k": 1}], START_MS)
    assert [tag.name for tag in table.tags.list()] == ["2024-01-01 09"]
    clock.sleep_ms(2 * HOUR_MS - 1)
    commit(table, [], START_MS + HOUR_MS)
    assert table.latest_snapshot_id == 1
    clock.sleep_ms(1)
    commit(table, [], START_MS + HOUR_MS)
    assert table.latest_snapshot_id == 2
    assert [tag.name for tag in table.tags.list()] == ["2024-01-01 09", "2024-01-01 10"]
    assert table.count() == 1


@pytest.mark.parametrize("left_out", ["tag.automatic-creation", "snapshot.watermark-idle-timeout"])
def test_without_either_option_only_rows_make_a_snapshot(make, clock, left_out):
    table = make({key: value for key, value in BY_WATERMARK.items() if key != left_out})
    commit(table, [{"k": 1}], START_MS)
    clock.sleep_ms(9 * HOUR_MS)
    commit(table, [], START_MS + HOUR_MS)
    assert table.latest_snapshot_id == 1


def test_an_option_asks_for_a_snapshot_of_each_batch(make):
    table = make({"commit.force-create-snapshot": "true"})
    commit(table, [], None)
    assert table.latest_snapshot_id == 1
