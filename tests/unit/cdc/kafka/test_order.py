"""The place in a source's log as two numbers that rise."""

from __future__ import annotations

import pytest

from tidelake.cdc.kafka.formats.envelopes import Origin
from tidelake.cdc.kafka.order import (
    binlog_order,
    debezium_orders,
    offset_order,
    trail_order,
    unplaced_order,
)


def orders(connector, *sources):
    first, second = debezium_orders(
        connector, [Origin(**one) for one in sources], [3] * len(sources), range(len(sources))
    )
    return list(zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("connector", "rising"),
    [
        ("postgresql", [{"lsn": 5}, {"lsn": 6}]),
        ("mysql", [
            {"file": "bin.9", "pos": 4_000_000_000, "row": 0},
            {"file": "bin.9", "pos": 4_000_000_000, "row": 1},
            {"file": "bin.10", "pos": 4, "row": 0},
        ]),
        ("mariadb", [{"file": "b.000001", "pos": 4}, {"file": "b.000001", "pos": 5}]),
        ("sqlserver", [
            {"change_lsn": "0000002a:00000190:0002", "event_serial_no": 1},
            {"change_lsn": "0000002a:00000190:0002", "event_serial_no": 2},
            {"change_lsn": "0000002a:00000190:0003"},
            {"change_lsn": "0000002a:00000191:0001"},
            {"commit_lsn": "0000002b:00000000:0001"},
        ]),
        ("oracle", [{"scn": "18014398509481984"}, {"scn": 18014398509481985}]),
        ("db2", [{}, {}]),
    ],
)  # fmt: skip
def test_the_order_of_each_connector_rises(connector, rising):
    found = orders(connector, *rising)
    assert found == sorted(set(found))
    assert all(0 <= number < 1 << 63 for pair in found for number in pair)
    assert all(second % 2 == 0 for _, second in found)


def test_a_row_without_a_place_is_before_those_with_one():
    found = orders("postgresql", {"lsn": 5}, {}, {"lsn": "x"})
    assert found == [(5, 0), (0, 2), (0, 4)]
    assert orders("mysql", {"file": "bin", "pos": 4}) == [unplaced_order(0)]


def test_offsets_order_the_rows_of_messages():
    assert offset_order(2, 7, 3) == (7, (2 << 33) + 6)
    assert binlog_order("bin.000002", 4, 1) == (2, (4 << 20) + 2)
    places = [trail_order(f"000000000{place}") for place in ("20000000000158", "20000000000159")]
    assert places == sorted(places)
    assert trail_order("x") is None
