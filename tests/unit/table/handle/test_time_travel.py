"""Moments that options name: one of them, and read as the arguments read it."""

from __future__ import annotations

import dataclasses
import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from tidelake.errors import InvalidInputError, NotFoundError
from tidelake.metadata import SchemaLog
from tidelake.table.handle.instant import timestamp_ms
from tidelake.types import DataField, parse_type


@pytest.fixture
def two(keyed):
    """Two snapshots, the first with one row and a tag."""
    keyed.write([{"k": 1, "v": "a", "n": 0}])
    keyed.create_tag("first")
    keyed.write([{"k": 2, "v": "b", "n": 0}])
    return keyed


def evolve(table):
    """Add a column as another engine does; gives the names of the columns before."""
    old = table.table_schema
    fields = (*old.fields, DataField(3, "later", parse_type("INT")))
    new = dataclasses.replace(old, id=1, fields=fields, highest_field_id=3)
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
    with pytest.raises(NotFoundError, match=r"'frist'.*Did you mean 'first'"):
        two.copy({"scan.tag-name": "frist"}).to_arrow()


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
    for time in (ms, moment, moment.isoformat(), np.datetime64(ms, "ms"), np.datetime64(ms, "ms")):
        assert two.count(timestamp=time) == expected
    tomorrow = moment.date() + dt.timedelta(days=1)
    for time in (tomorrow, np.datetime64(tomorrow), np.datetime64(tomorrow, "ns")):
        assert two.count(timestamp=time) == 2
    with pytest.raises(NotFoundError, match="lies before snapshot 1"):
        two.count(timestamp=dt.date(2020, 1, 1))
    with pytest.raises(InvalidInputError, match="NaT"):
        two.count(timestamp=np.datetime64("NaT"))


def test_changes_take_times_as_text_where_no_tag_has_the_name(two):
    tomorrow = (dt.datetime.now(tz=dt.UTC) + dt.timedelta(days=1)).isoformat()
    for end in (tomorrow, dt.date.fromisoformat(tomorrow[:10]), np.datetime64(tomorrow[:10])):
        assert two.changes(1, end)["k"].to_pylist() == [2]
    two.create_tag("2020-01-01", snapshot_id=1)
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
