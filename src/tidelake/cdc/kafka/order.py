"""Where a row stands in its source: two numbers that rise, for each key.

A format that names the place in the source's log gives it, so that messages of several partitions
fall into order. Else the offset is the order: right for all rows of a key that one partition has.

===========  ============================  =====================================
Source       First number                  Second number
===========  ============================  =====================================
PostgreSQL   LSN                           offset
MySQL        number of the binlog file     position, then row of the event
SQL Server   change LSN, first two parts   its last part, then the event's number
Oracle       SCN                           offset
others       offset                        partition, then row of the message
===========  ============================  =====================================

The last bit of the second number is 0 for the -D of a key that changed, else 1. A message without a
place among those that have one, as of some snapshots, is before all: (0, offset).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

ROW_BITS, PARTITION_BIT = 20, 33
_ROW_MAX = (1 << ROW_BITS - 1) - 1
_POSITION_BITS = 42
Order = tuple[int, int]


def offset_order(partition: int, offset: int, row: int = 0) -> Order:
    """Give the order of a row by its message's place."""
    return offset, partition << PARTITION_BIT | row << 1


def unplaced_order(offset: int) -> Order:
    """Give the order of a row without a place in its source's log."""
    return 0, offset << 1


def binlog_order(file: str, position: int, row: int) -> Order | None:
    """Give the order of a row of a binlog; None if the file has no number."""
    digits = file.rpartition(".")[2]
    if not digits.isdigit():
        return None
    return int(digits), (position << ROW_BITS) | min(row, _ROW_MAX) << 1


def trail_order(position: str) -> Order | None:
    """Give the order of a position in a trail of Oracle GoldenGate: a long number."""
    if not position.isdigit():
        return None
    file, place = divmod(int(position), 10**12)
    return file, place << 1


def _sql_server(source: Any, _: int) -> Order | None:
    parts = (source.change_lsn or source.commit_lsn or "").split(":")
    try:
        high, middle, low = (int(part, 16) for part in parts)
    except ValueError:
        return None
    return high << 32 | middle, low << ROW_BITS | min(source.event_serial_no or 0, _ROW_MAX) << 1


def _mysql(source: Any, _: int) -> Order | None:
    if not source.file or source.pos is None:
        return None
    return binlog_order(source.file, source.pos, source.row or 0)


def _postgres(source: Any, offset: int) -> Order | None:
    return (source.lsn, offset << 1) if isinstance(source.lsn, int) else None


def _oracle(source: Any, offset: int) -> Order | None:
    text = str(source.scn or "")
    return (int(text), offset << 1) if text.isdigit() else None


_PLACES: dict[str, Callable[[Any, int], Order | None]] = {
    "postgresql": _postgres,
    "mysql": _mysql,
    "mariadb": _mysql,
    "sqlserver": _sql_server,
    "oracle": _oracle,
}


def debezium_orders(
    connector: str, sources: Sequence[Any], partitions: Sequence[int], offsets: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Give the orders of messages of one of Debezium's connectors."""
    place = _PLACES.get(connector)
    if place is None:
        return offset_orders(partitions, offsets)
    if connector == "postgresql":  # the common case, without a call for each
        places = [source.lsn for source in sources]
        if None not in places:
            return places, [offset << 1 for offset in offsets]
    orders = [
        place(source, offset) or unplaced_order(offset)
        for source, offset in zip(sources, offsets, strict=True)
    ]
    return [first for first, _ in orders], [second for _, second in orders]


def offset_orders(partitions: Sequence[int], offsets: Sequence[int]) -> tuple[list[int], list[int]]:
    """Give the orders of messages by their places."""
    return list(offsets), [partition << PARTITION_BIT for partition in partitions]
