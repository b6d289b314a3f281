"""Times of users: with a zone, without one, and where one without is refused."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import replace
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tidelake
from tidelake import InvalidInputError
from tidelake.fileio import MemoryFileIO
from tidelake.maintenance import call
from tidelake.table.handle.instant import instant_ms, is_time, shown_instant, timestamp_ms
from tidelake.telemetry import Env, ManualClock

NEW_YORK = ZoneInfo("America/New_York")
NOON = dt.datetime(2026, 1, 7, 12)
NOON_MS = 1_767_805_200_000  # 17:00 UTC
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    "given",
    [
        NOON,
        NOON.replace(tzinfo=NEW_YORK),
        "2026-01-07 12:00:00",
        "2026-01-07T17:00:00Z",
        "2026-01-07 12:00 America/New_York",
        np.datetime64("2026-01-07T12:00"),
        pd.Timestamp("2026-01-07 12:00"),
        pd.Timestamp("2026-01-07 17:00", tz="UTC"),
        NOON_MS,
        str(NOON_MS),
    ],
)
def test_a_time_without_a_zone_is_in_the_zone_that_is_asked(given):
    assert timestamp_ms(given, zone=NEW_YORK) == NOON_MS
    assert timestamp_ms(given, zone="America/New_York") == NOON_MS


def test_a_date_is_its_midnight():
    assert timestamp_ms(dt.date(2026, 1, 7), zone=NEW_YORK) == NOON_MS - 12 * 3_600_000
    assert timestamp_ms("20260107", zone=NEW_YORK) == NOON_MS - 12 * 3_600_000


@pytest.fixture
def in_new_york(monkeypatch):
    """A machine whose zone has no name in the data base."""
    monkeypatch.setenv("TZ", "XST5XDT,M3.2.0,M11.1.0")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_zone_without_a_name_is_read_as_python_reads_it(in_new_york):
    assert timestamp_ms(NOON, zone=None) == NOON_MS
    assert timestamp_ms(NOON, zone=None) == NOON.astimezone().timestamp() * 1000
    assert Env.system().zone is None or Env().zone is None
    table = _table(Env())
    with pytest.raises(tidelake.NotFoundError, match="lies before snapshot 1"):
        table.count(timestamp=dt.datetime(2026, 1, 7))


def test_a_year_that_the_machine_cannot_tell_is_refused(in_new_york):
    with pytest.raises(InvalidInputError, match="add a zone"):
        timestamp_ms(dt.datetime.min, zone=None)


@pytest.mark.parametrize(
    "given",
    [NOON, "2026-01-07 12:00:00", "20260107", dt.date(2026, 1, 7), np.datetime64("2026-01-07")],
)
def test_what_changes_a_table_takes_no_time_without_a_zone(given):
    with pytest.raises(InvalidInputError, match=r"has no time zone.*astimezone\(\)") as caught:
        instant_ms(given, what="older_than", table="db.t")
    assert caught.value.kind == "naive_time"


def test_what_the_message_says_to_write_is_taken():
    for text in ("2026-01-07 12:00:00Z", "2026-01-07 12:00:00 America/New_York"):
        assert is_time(text)
        instant_ms(text, what="older_than")
    assert instant_ms(NOON.astimezone(), what="older_than") == NOON.timestamp() * 1000


@pytest.mark.parametrize("given", [pd.NaT, np.datetime64("NaT"), 1.5, b"2026-01-07", True])
def test_what_is_no_time_is_refused(given):
    with pytest.raises(InvalidInputError, match="is not a time"):
        timestamp_ms(given, zone=NEW_YORK)


def test_an_instant_is_shown_with_the_offset_of_its_zone():
    assert shown_instant(NOON_MS, NEW_YORK) == "2026-01-07T12:00:00.000-05:00"


def _table(env: Env):
    catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=env)
    table = catalog.create_table("db.t", pa.schema({"k": pa.int64()}))
    for k in range(4):
        table.write([{"k": k}])
    return table


def test_procedures_read_times_in_the_zone_of_the_session():
    clock = ManualClock(NOON_MS, tick_ms=60_000)
    env = replace(Env.seeded(1), clock=clock, zone="Asia/Tokyo")
    table = _table(env)
    third = table.history()["commit_time"][2].as_py()
    naive = third.astimezone(NEW_YORK).replace(tzinfo=None).isoformat(sep=" ")
    catalog = tidelake.open("/w", fileio=table.fileio, env=env)
    dry = {"dry_run": True}
    for name, argument, more, column, expected in (
        ("rollback_to_timestamp", "timestamp", dry, "current_snapshot_id", 3),
        ("expire_snapshots", "older_than", {"retain_min": 1, **dry}, "deleted_snapshots_count", 1),
        ("create_tag_from_timestamp", "timestamp", {"tag": "a"}, "snapshot", 3),
    ):
        named = {"table": "db.t", argument: naive, **more}
        with pytest.raises(InvalidInputError, match="has no time zone"):
            call(catalog, name, named=named)
        (answer,) = call(catalog, name, named=named, zone=NEW_YORK).to_pylist()
        assert answer[column] == expected


def test_of_a_time_that_is_there_twice_the_first_is_meant_as_in_spark():
    twice = dt.datetime(2025, 10, 26, 2, 6, 0, 845_000)
    first = 1_761_437_160_845  # unix_millis(timestamp'2025-10-26 02:06:00.845') of Spark 4
    for given in (twice, str(twice), f"{twice} Europe/Berlin", np.datetime64(twice)):
        assert timestamp_ms(given, zone="Europe/Berlin") == first
    assert timestamp_ms(twice.replace(fold=1), zone="Europe/Berlin") == first + HOUR_MS


def test_a_time_that_clocks_pass_over_is_later_by_the_step_as_in_spark():
    by_spark = 1_743_298_200_000  # unix_millis(timestamp'2025-03-30 02:30:00')
    assert timestamp_ms("2025-03-30 02:30:00", zone="Europe/Berlin") == by_spark
    assert timestamp_ms("2025-03-30 03:30:00", zone="Europe/Berlin") == by_spark
