"""The clock of a zone."""

from __future__ import annotations

import pyarrow as pa

from tidelake.cdc.mysql.values.lake_values import on_the_clock


def test_the_clock_of_a_zone_with_summer_time():
    moments = [1_711_846_799, 1_711_846_800, None]  # the second when Berlin's summer begins
    micros = pa.array([None if one is None else one * 1_000_000 for one in moments])
    found = on_the_clock(micros, "Europe/Berlin").to_pylist()
    assert [None if one is None else one // 1_000_000 for one in found] == [
        moments[0] + 3600, moments[1] + 7200, None
    ]  # fmt: skip
    assert on_the_clock(micros, "-03:30").to_pylist()[0] == (moments[0] - 12_600) * 1_000_000
