"""Texts as local times, as Java 17 reads them with Paimon's formatter; counts; instants."""

import datetime as dt

import pyarrow as pa
import pytest

from tidelake.cdc.columns.date_pattern import parse_pattern
from tidelake.cdc.columns.local_times import of_epochs, of_values
from tidelake.types import parse_type

JAVA = {
    "2023-03-23": "2023-03-23T00:00:00.0",
    "2023-3-5": "2023-03-05T00:00:00.0",
    "2023-02-30": "2023-02-28T00:00:00.0",
    "2023-02-32": None,
    "2023-04-31": "2023-04-30T00:00:00.0",
    "2024-02-30": "2024-02-29T00:00:00.0",
    "2022-01-01 14:30": None,
    "2022-01-01 14:30:00": "2022-01-01T14:30:00.0",
    "2022-01-01 4:3:5": "2022-01-01T04:03:05.0",
    "2022-01-01T14:30": "2022-01-01T14:30:00.0",
    "2022-01-01T14:30:15.5": "2022-01-01T14:30:15.5",
    "2022-01-01 14:30:15.123456789": "2022-01-01T14:30:15.123456789",
    "2022-01-01 14:30:15.1234567890": None,
    "2022-01-01 14:30:15.": "2022-01-01T14:30:15.0",
    "2022-01-01 24:00:00": "2022-01-02T00:00:00.0",
    "2022-12-31 24:00:00": "2023-01-01T00:00:00.0",
    "2022-01-01 24:00:01": None,
    "2022-01-01 23:60:00": None,
    "2022-01-01 23:59:60": None,
    "202-01-01": None,
    "12022-01-01": None,
    "+12022-01-01": "+12022-01-01T00:00:00.0",
    "-2022-01-01": None,
    "0000-01-01": None,
    "0001-01-01": "0001-01-01T00:00:00.0",
    "2022-13-01": None,
    "2022-00-01": None,
    "2022-01-00": None,
    " 2022-01-01": None,
    "2022-01-01 ": None,
    "2022/01/01": None,
    "20220101": None,
    "": None,
    "2022-01-01 14:30:15Z": None,
    "2022-01-01T14:30:15+01:00": None,
    "2022-01": None,
    "2022-012-01": None,
    "2022-01-01T24:00": "2022-01-02T00:00:00.0",
    "2022-1-1 1:1:1.000001": "2022-01-01T01:01:01.000001",
}
SHOWN = parse_pattern("yyyy-MM-dd'T'HH:mm:ss.SSSSSSSSS")
STRING = parse_type("STRING")


def shown(times):
    return [
        None if text is None else text.rstrip("0") + ("0" if text.endswith("000000000") else "")
        for text in SHOWN.format(times).to_pylist()
    ]


def test_texts_are_read_as_java_reads_them():
    found = shown(of_values(pa.array([*JAVA, None]), STRING, zone="UTC"))
    assert dict(zip(JAVA, found, strict=False)) == JAVA
    assert found[-1] is None


@pytest.mark.parametrize("precision", [0, 3, 6, 9])
def test_counts_are_read_in_their_unit_before_1970_too(precision):
    counts = [0, 1_704_585_662, -1, None]
    found = of_epochs(pa.array(counts), precision)
    for count, text in zip(counts, shown(found), strict=True):
        if count is None:
            assert text is None
            continue
        seconds, rest = divmod(count, 10**precision)
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)
        fraction = f"{rest * 10 ** (9 - precision):09d}".rstrip("0") or "0"
        assert text == moment.strftime("%Y-%m-%dT%H:%M:%S.") + fraction


def test_a_count_beyond_all_calendars_is_no_time():
    assert of_epochs(pa.array([2**62]), 0).valid.tolist() == [False]
    assert of_epochs(pa.array([2**62]), 9).valid.tolist() == [True]


def test_an_instant_is_read_in_the_zone_of_the_job():
    instants = pa.array([1_704_585_662_123_456], pa.timestamp("us", "UTC"))
    data_type = parse_type("TIMESTAMP(6) WITH LOCAL TIME ZONE")
    found = of_values(instants, data_type, zone="Europe/Berlin")
    assert shown(found) == ["2024-01-07T01:01:02.123456"]


def test_slices_are_read_from_their_begin():
    dates = pa.array([dt.date(2020, 1, 1), dt.date(2021, 1, 1)]).slice(1)
    assert shown(of_values(dates, parse_type("DATE"), zone="UTC")) == ["2021-01-01T00:00:00.0"]
