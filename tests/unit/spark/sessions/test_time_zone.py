"""Times without a zone on Spark are in the session's."""

import datetime as dt
from types import SimpleNamespace

import pytest

import tidelake
from tidelake import InvalidInputError
from tidelake.fileio import MemoryFileIO
from tidelake.options.declared import INCREMENTAL_BETWEEN_TIMESTAMP, SCAN_TIMESTAMP
from tidelake.spark.sessions.time_zone import session_ms, session_zone, with_session_times


def in_zone(name):
    return SimpleNamespace(conf={"spark.sql.session.timeZone": name})


@pytest.fixture
def table():
    return tidelake.open("/w", fileio=MemoryFileIO()).create_table("db.t", {"k": "BIGINT"})


def test_an_unknown_zone_is_refused():
    assert session_zone(in_zone("+09:00")) == dt.timezone(dt.timedelta(hours=9))
    with pytest.raises(InvalidInputError, match="'Mars/Olympus' is unknown"):
        session_zone(in_zone("Mars/Olympus"))


def test_a_time_to_read_is_in_the_sessions_zone():
    naive = dt.datetime(1970, 1, 1, 9)
    assert session_ms(in_zone("Asia/Tokyo"), naive) == 0
    assert session_ms(SimpleNamespace(), None) is None  # the session is not asked


@pytest.mark.parametrize(
    ("key", "given", "taken"),
    [
        ("scan.timestamp", "1970-01-01 09:00", "1970-01-01T00:00:00+00:00"),
        ("scan.timestamp", "1970-01-01 09:00Z", "1970-01-01T09:00:00+00:00"),
        (
            "incremental-between-timestamp",
            "1970-01-01, 1970-01-02",
            "1969-12-31T15:00:00+00:00,1970-01-01T15:00:00+00:00",
        ),
    ],
)
def test_times_among_options_are_in_it_too(table, key, given, taken):
    got = with_session_times(in_zone("Asia/Tokyo"), table.with_options({key: given}))
    option = SCAN_TIMESTAMP if key == "scan.timestamp" else INCREMENTAL_BETWEEN_TIMESTAMP
    assert got.options.get(option) == taken


def test_a_table_without_such_options_asks_no_session(table):
    assert with_session_times(SimpleNamespace(), table) is table
