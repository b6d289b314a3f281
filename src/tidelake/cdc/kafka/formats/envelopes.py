"""Debezium's envelopes, as rows by table: what JSON and Avro have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tidelake.cdc.kafka.events import DELETE, INSERT, UPDATE, MessageEvents, TableEvents
from tidelake.cdc.kafka.images import RowLayout
from tidelake.cdc.kafka.messages import MessageBatch
from tidelake.cdc.kafka.order import debezium_orders, offset_orders
from tidelake.cdc.source.source_table import SourceName

KINDS = {"c": INSERT, "r": INSERT, "u": UPDATE, "d": DELETE}
TRUNCATE, MESSAGE = "t", "m"


class Origin(msgspec.Struct, gc=False):
    """The member ``source``: what the source says of a change."""

    connector: str | None = None
    ts_ms: int | None = None
    db: str | None = None
    schema: str | None = None
    table: str | None = None
    lsn: int | str | None = None
    file: str | None = None
    pos: int | None = None
    row: int | None = None
    scn: int | str | None = None
    change_lsn: str | None = None
    commit_lsn: str | None = None
    event_serial_no: int | None = None


NOWHERE = Origin()


@dataclass(slots=True)
class Envelope:
    """A decoded envelope."""

    op: str
    source: Origin | None
    before: Any
    after: Any
    ts_ms: int | None = None
    pkNames: list[str] | None = None


@dataclass(frozen=True, slots=True)
class Envelopes:
    """Groups envelopes.

    Parameters
    ----------
    keys_of : callable
        The names of the key's columns in a message's key.
    uses_places : bool
        Whether the place in the source's log is the order.
    """

    keys_of: Callable[[bytes | None], tuple[str, ...]]
    uses_places: bool = True

    def grouped(
        self,
        batch: MessageBatch,
        places: Sequence[int],
        found: Sequence[Any],
        layouts: Sequence[RowLayout],
        bad: dict[int, str],
    ) -> MessageEvents:
        """Group envelopes by table and layout.

        Parameters
        ----------
        places : sequence of int
            The message of each.
        bad : dict of int to str
            By message: why it cannot be read; added to.
        """
        origins = [one.source or NOWHERE for one in found]
        ops = [one.op for one in found]
        is_plain = set(ops) <= KINDS.keys()
        if is_plain and found and _is_one(origins, layouts):
            groups: list[Sequence[int]] = [range(len(found))]
        else:
            groups = self._groups(places, ops, origins, layouts, bad)
        truncated = {
            places[place]: _name(origins[place], batch.topics[places[place]])
            for place in range(len(ops) if not is_plain else 0)
            if ops[place] == TRUNCATE
        }
        tables = [
            self._table(batch, members, places, found, origins, layouts) for members in groups
        ]
        return MessageEvents(tuple(tables), truncated, bad)

    def of_one_table(
        self, batch: MessageBatch, found: Sequence[Any], layout: RowLayout
    ) -> TableEvents:
        """Take envelopes of changes of one table and layout: one for each message."""
        origins = [one.source for one in found]
        every = range(len(found))
        return self._table(batch, every, every, found, origins, [layout])

    def _groups(
        self,
        places: Sequence[int],
        ops: Sequence[str],
        origins: Sequence[Any],
        layouts: Sequence[RowLayout],
        bad: dict[int, str],
    ) -> list[Sequence[int]]:
        """The envelopes of each table and layout."""
        groups: dict[Any, list[int]] = {}
        for place, (origin, layout) in enumerate(zip(origins, layouts, strict=True)):
            if ops[place] in KINDS:
                mark = (origin.db, origin.schema, origin.table, id(layout))
                groups.setdefault(mark, []).append(place)
            elif ops[place] not in (TRUNCATE, MESSAGE):
                bad[places[place]] = f"op '{ops[place]}' is not one of c, r, u, d, t, m"
        return list(groups.values())

    def _table(
        self,
        batch: MessageBatch,
        members: Sequence[int],
        places: Sequence[int],
        found: Sequence[Any],
        origins: Sequence[Any],
        layouts: Sequence[RowLayout],
    ) -> TableEvents:
        start, is_all = members[0], len(members) == len(found)
        rows = found if is_all else [found[place] for place in members]
        ops = [one.op for one in rows]
        mine = origins if is_all else [origins[place] for place in members]
        at = list(places) if is_all else [places[place] for place in members]
        is_whole = len(at) == len(batch)
        offsets = batch.offsets.tolist() if is_whole else batch.offsets[at].tolist()
        partitions = batch.partitions.tolist() if is_whole else batch.partitions[at].tolist()
        connector = origins[start].connector or ""
        if self.uses_places:
            first, second = debezium_orders(connector, mine, partitions, offsets)
        else:
            first, second = offset_orders(partitions, offsets)
        keys = self.keys_of(next((batch.keys[place] for place in at if batch.keys[place]), None))
        changed = [o.ts_ms for o in mine]
        if None in changed:
            times = batch.times_ms[at].tolist()
            changed = [
                one.ts_ms or time if ms is None else ms
                for ms, one, time in zip(changed, rows, times, strict=True)
            ]
        return TableEvents(
            _name(origins[start], batch.topics[at[0]]),
            layouts[start],
            keys or tuple(rows[0].pkNames or ()),
            bool(keys),
            True,
            at,
            list(map(KINDS.__getitem__, ops)),
            [one.before if op == "d" else one.after for op, one in zip(ops, rows, strict=True)],
            [one.before if one.op == "u" else None for one in rows],
            first,
            second,
            changed,
        )


def _is_one(origins: Sequence[Any], layouts: Sequence[RowLayout]) -> bool:
    """Whether all are of one table and layout; each look costs 50 ns a message."""
    first, count = origins[0], len(origins)
    return (
        [one.table for one in origins].count(first.table) == count
        and [one.schema for one in origins].count(first.schema) == count
        and [one.db for one in origins].count(first.db) == count
        and layouts.count(layouts[0]) == count
    )


def _name(origin: Any, topic: str) -> SourceName:
    """The table's name; the topic's, where a message names none."""
    return SourceName(origin.db or "", origin.schema or "", origin.table or topic)
