"""Moments that options name: one of them, and read as the arguments read it."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import tidelake
from tidelake.errors import InvalidInputError, NotFoundError, UnsupportedError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata import SchemaLog
from tidelake.metadata.log.snapshot import CommitKind
from tidelake.table.handle.instant import timestamp_ms
from tidelake.telemetry import Env, ManualClock
from tidelake.types import DataField, parse_type

KV = {"k": "INT NOT NULL", "v": "INT"}


@pytest.fixture
def two(keyed):
    """Two snapshots, the first with one row and a tag."""
    keyed.write([{"k": 1, "v": "a", "n": 0}])
    keyed.tags.create("first")
    keyed.write([{"k": 2, "v": "b", "n": 0}])
    return keyed


def evolve(table):
    """Add a column as another engine does; gives the names of the columns before."""
    old = table.table_schema
    fields = (*old.fields, DataField(3, "later", parse_type("INT")))
    new = replace(old, id=1, fields=fields, highest_field_id=3)
    assert SchemaLog(table.fileio, table.paths).create(new)
    return list(old.field_names)


@pytest.mark.parametrize(
    "options",
    [
        {"scan.snapshot-id": 1, "scan.tag-name": "first"},
        {"scan.snapshot-id": 1, "scan.tag-name": "missing"},
        {"scan.snapshot-id": 1, "scan.timestamp-millis": 5},
        {"scan.tag-name": "first", "scan.timestamp": "2026-01-01"},
        {"scan.timestamp-millis": 5, "scan.timestamp": "2026-01-01"},
        {"scan.snapshot-id": 1, "log.scan.timestamp-millis": 5},
    ],
    ids=" and ".join,
)
def test_two_moments_in_options_are_refused(two, options):
    with pytest.raises(InvalidInputError, match=r"Give one of the options scan\.") as caught:
        two.copy(options)
    assert caught.value.kind == "two_moments"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"scan.mode": "from-snapshot"}, r"scan\.snapshot-id or scan\.tag-name"),
        ({"scan.mode": "from-snapshot-full"}, r"scan\.snapshot-id"),
        ({"scan.mode": "from-timestamp"}, r"scan\.timestamp-millis or scan\.timestamp"),
        ({"scan.mode": "from-timestamp", "scan.snapshot-id": 1}, "names another moment"),
        ({"scan.mode": "from-snapshot", "scan.timestamp-millis": 5}, "names another moment"),
        ({"scan.mode": "latest", "scan.snapshot-id": 1}, "unset one of them"),
    ],
    ids=str,
)
def test_a_scan_mode_without_its_moment_is_refused(two, options, says):
    with pytest.raises(InvalidInputError, match=says) as caught:
        two.copy(options)
    assert caught.value.kind == "scan_mode"


@pytest.mark.parametrize(
    "options",
    [
        {"scan.mode": "from-snapshot", "scan.snapshot-id": 1},
        {"scan.mode": "from-snapshot", "scan.tag-name": "first"},
        {"scan.mode": "from-snapshot-full", "scan.snapshot-id": 1},
    ],
    ids=str,
)
def test_a_scan_mode_with_its_moment_reads_it(two, options):
    assert two.copy(options).count() == 1


def test_a_tag_that_is_missing_is_an_error(two):
    with pytest.raises(NotFoundError, match=r"'frist'.*Did you mean 'first'") as missing:
        two.copy({"scan.tag-name": "frist"}).to_arrow()
    assert "which the option 'scan.tag-name' names" in str(missing.value)
    with pytest.raises(NotFoundError, match=r"has no tag 'frist'\. Did"):
        two.to_arrow(tag="frist")


def test_an_argument_comes_before_the_options(two):
    assert two.copy({"scan.snapshot-id": 1}).count(snapshot_id=2) == 2


def test_options_give_the_columns_of_the_moment_as_the_arguments_do(two, catalog):
    names = evolve(two)
    again = catalog.table("db.keyed")
    assert again.to_arrow().column_names == [*names, "later"]
    assert again.to_arrow(snapshot_id=1).column_names == names
    for options in ({"scan.snapshot-id": 1}, {"scan.tag-name": "first"}):
        moment = again.copy(options)
        assert moment.to_arrow().column_names == names
        assert moment.to_arrow().equals(again.to_arrow(snapshot_id=1))


def test_a_new_table_with_two_moments_is_refused(catalog):
    with pytest.raises(InvalidInputError, match=r"Give one of the options"):
        catalog.create_table(
            "db.t",
            pa.schema({"k": pa.int64()}),
            options={"scan.snapshot-id": 1, "scan.tag-name": "x"},
        )


def test_a_time_may_be_text_a_datetime_a_date_or_of_numpy(two):
    ms = two.handle.snapshots.load(1).time_ms
    moment = dt.datetime.fromtimestamp(ms / 1000, tz=dt.UTC)
    later = two.handle.snapshots.load(2).time_ms
    assert ms <= later
    expected = 1 if ms < later else 2
    here = np.datetime64(dt.datetime.fromtimestamp(ms / 1000), "ms")
    for time in (ms, moment, moment.isoformat(), here):
        assert two.count(timestamp=time) == expected
    later_day = moment.date() + dt.timedelta(days=2)  # whatever the zone, and past midnight
    for time in (later_day, np.datetime64(later_day), np.datetime64(later_day, "ns")):
        assert two.count(timestamp=time) == 2
    with pytest.raises(NotFoundError, match="lies before snapshot 1"):
        two.count(timestamp=dt.date(2020, 1, 1))
    with pytest.raises(InvalidInputError, match="NaT"):
        two.count(timestamp=np.datetime64("NaT"))


def test_changes_take_times_as_text_where_no_tag_has_the_name(two):
    later = (dt.datetime.now(tz=dt.UTC) + dt.timedelta(days=2)).isoformat()
    for end in (later, dt.date.fromisoformat(later[:10]), np.datetime64(later[:10])):
        assert two.changes(1, end)["k"].to_pylist() == [2]
    two.tags.create("2020-01-01", snapshot_id=1)
    assert two.changes(0, "2020-01-01")["k"].to_pylist() == [1]
    with pytest.raises(NotFoundError, match="lies before snapshot 1"):
        two.changes(0, "2020-01-02")
    with pytest.raises(NotFoundError, match="no tag 'yesterday'"):
        two.changes("yesterday")


@pytest.mark.parametrize(
    ("text", "utc", "in_shanghai"),
    [
        ("2024-11-22 10:06:40", 1732270000000, 1732241200000),
        ("2024-11-22 10:06:40.123", 1732270000123, 1732241200123),
        ("2024-11-22", 1732233600000, 1732204800000),
        ("20241122", 1732233600000, 1732204800000),
        ("2024-11-22 18:06:40+08:00", 1732270000000, None),
        ("2024-11-22 18:06:40 +08:00", 1732270000000, None),
        ("2024-11-22T18:06:40.5 GMT+8", 1732270000500, None),
        ("2024-11-22 05:06:40 America/New_York", 1732270000000, None),
        ("2024-11-22 10:06:40Z", 1732270000000, None),
        ("2024-11-22 10:06 UTC", 1732269960000, None),
        ("1732270000123", 1732270000123, None),
        (" 1732270000123 ", 1732270000123, None),
        ("1712123100123", 1712123100123, None),  # ISO 8601 would be a day of the year 1712
    ],
)
def test_text_is_read_as_a_time_wherever_one_is_taken(text, utc, in_shanghai):
    shanghai = dt.timezone(dt.timedelta(hours=8))
    assert timestamp_ms(text, zone=dt.UTC) == utc
    assert timestamp_ms(text, zone=shanghai) == (in_shanghai or utc)


@pytest.mark.parametrize(
    "text", ["noon", "2024-11-22 10:06:40 Mars/Olympus", "2024-13-22 10:06:40 UTC", "", "-5"]
)
def test_text_that_is_no_time_is_refused(text):
    with pytest.raises(InvalidInputError, match="is not a time"):
        timestamp_ms(text, zone=dt.UTC)


@pytest.mark.parametrize(
    ("more", "every", "wanted"),
    [
        ({}, 1, 5),
        ({"full-compaction.delta-commits": "2"}, 2, 4),
        ({"full-compaction.delta-commits": "7"}, 7, None),
        ({"changelog-producer": "full-compaction"}, 1, 5),
    ],
    ids=str,
)
def test_compacted_full_reads_the_newest_snapshot_of_a_compaction(catalog, more, every, wanted):
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "1"}
    table = catalog.create_table("db.c", KV, primary_keys=["k"], options=options)
    for number in range(1, 6):
        table.write([{"k": number, "v": number}], commit_user="u", commit_identifier=number)
    for number in (6, 8):
        own = {"write-only": "true"}
        table.write(
            [{"k": number, "v": number}], commit_user="u", commit_identifier=number, options=own
        )
    snapshots = [table.handle.snapshots.load(n) for n in table.handle.snapshots.ids()]
    compacted = [s for s in snapshots if s.commit_kind is CommitKind.COMPACT]
    fitting = [s for s in compacted if s.commit_identifier % every == 0]
    assert (fitting[-1].commit_identifier if fitting else None) == wanted
    picked = fitting[-1] if fitting else snapshots[-1]
    found = table.with_options({"scan.mode": "compacted-full", **more})
    assert found.to_arrow().equals(table.to_arrow(snapshot_id=picked.id))
    assert found.count() == (wanted or 7)
    assert found.count(snapshot_id=1) == 1  # an argument comes first
    assert (found.get(8) is None) == (wanted is not None)


def test_compacted_full_has_the_columns_of_now_and_no_compaction_means_the_newest(keyed, catalog):
    mode = {"scan.mode": "compacted-full"}
    assert keyed.count(options=mode) == 0
    keyed.write([{"k": 1, "v": "a", "n": 0}])
    assert keyed.count(options=mode) == 1
    names = evolve(keyed)
    again = catalog.table("db.keyed").copy(mode)
    assert again.to_arrow().column_names == [*names, "later"]
    with pytest.raises(InvalidInputError, match="unset one of them"):
        keyed.copy({**mode, "scan.snapshot-id": 1})


class ClockEastOfUtc(ManualClock):
    """Its wall clock, which files are marked by, is ahead."""

    def local_offset_ms(self):
        return 2 * 3600 * 1000


@pytest.mark.parametrize("clock_of", [ManualClock, ClockEastOfUtc])
@pytest.mark.parametrize("mode", [{}, {"scan.mode": "from-file-creation-time"}], ids=str)
def test_a_batch_may_read_only_files_that_were_made_since(mode, clock_of):
    clock = clock_of(1_700_000_000_000)
    lake = tidelake.open("/w", fileio=MemoryFileIO(), env=replace(Env.seeded(1), clock=clock))
    options = {"bucket": "1", "write-only": "true"}
    table = lake.create_table("db.t", KV, primary_keys=["k"], options=options)
    since = {}
    for number in range(3):
        since[number] = {"scan.file-creation-time-millis": str(clock.now_ms()), **mode}
        table.write([{"k": number, "v": number}, {"k": 9, "v": number}])
        clock.sleep_ms(1000)
    for number in range(3):
        found = table.to_arrow(options=since[number])
        want = [(k, k) for k in range(number, 3)] + [(9, 2)]
        assert sorted(zip(*found.to_pydict().values(), strict=True)) == want
        assert table.count(options=since[number]) == len(want)
        plan = table.scan(options=since[number]).plan
        assert plan.pruned.get("creation time", 0) == number
        log = table.with_options(since[number]).system_table("audit_log")
        assert len(log.to_arrow()) == len(want)
    assert (
        table.count(options={**since[2], "scan.file-creation-time-millis": "99999999999999"}) == 0
    )
    assert table.copy(since[2]).count(snapshot_id=2) == 3
    table.compact(full=True)  # a rewritten file is as new as its compaction
    assert table.count(options=since[2]) == 4
    with pytest.raises(UnsupportedError, match=r"scan\.file-creation-time-millis") as caught:
        table.copy(since[2]).get(9)
    assert caught.value.kind == "scan_mode"
    with pytest.raises(UnsupportedError, match=r"scan\.file-creation-time-millis"):
        table.copy(since[2]).local_query().get(9)
