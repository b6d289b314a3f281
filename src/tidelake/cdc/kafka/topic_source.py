"""The source of topics with change events.

1. A position is the next offset of each partition, with the identity of each topic.
2. There is no first copy: a job begins where ``scan.startup.mode`` says, and a table's rows are
   those of its messages. Rows that a target has stay.
3. Tables are known by messages. At its start a job looks at some messages at the begin and the end
   of each partition. A table that shows later stops the range before its first message, so that it
   may join first.
4. A range is read from all partitions at once. Its rows are put into the order of the source, by
   table. A truncation is a range of its own.
5. A message that cannot be read goes to the quarantine, under a table of its topic.

A range that is read again is decoded again to the same rows. Columns that it lacks may be left out
of its tables' versions: they are null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidelake.cdc.kafka.events import INSERT, MessageEvents
from tidelake.cdc.kafka.messages import MessageBatch
from tidelake.cdc.kafka.order import offset_order
from tidelake.cdc.kafka.row_changes import Declared, Tables, no_rows, row_changes
from tidelake.cdc.kafka.settings import KafkaSettings
from tidelake.cdc.kafka.topic_positions import TopicPositions
from tidelake.cdc.kafka.topic_reader import Taken, TopicReader
from tidelake.cdc.kafka.topics import Topics, lost
from tidelake.cdc.source.changes import Changes, Part, Rejected, SourceRows, Truncated
from tidelake.cdc.source.finding import SourceFinding
from tidelake.cdc.source.lag import SourceLag
from tidelake.cdc.source.slot_status import SlotStatus
from tidelake.cdc.source.source import EpochLimits, NoCopy
from tidelake.cdc.source.source_table import (
    KeyColumns,
    SourceName,
    SourceTable,
    no_key_columns,
)
from tidelake.engine.env import Clock
from tidelake.errors import NotFoundError
from tidelake.kafka import KafkaOffsets
from tidelake.kafka.client import Client
from tidelake.kafka.offsets import Partition

LOOK_MS = 5_000
"""How often new partitions and topics are looked for while no message comes."""
FIRST_WAIT_MS = 5_000
"""How long a job that knows no table waits for the first message."""
PAYLOAD_BYTES_MAX = 100_000


@dataclass(slots=True)
class _Cut:
    """Where a range ends before all that was read.

    Parameters
    ----------
    stops : dict
        By partition: the first offset that is not in the range.
    """

    stops: dict[Partition, int] = field(default_factory=dict)
    appeared: set[SourceName] = field(default_factory=set)
    truncated: tuple[SourceName, Partition, int] | None = None

    def stop(self, place: Partition, offset: int) -> None:
        self.stops[place] = min(offset, self.stops.get(place, offset))


class TopicSource(TopicPositions):
    """Topics with change events, as a source. For one thread.

    Parameters
    ----------
    keys : sequence of str
        The key of all tables, where the messages' is not wanted.
    declared : mapping
        By table: columns of messages without types, whose types are known from elsewhere.
    """

    kind = "kafka"

    def __init__(
        self,
        settings: KafkaSettings,
        clock: Clock,
        *,
        keys: Sequence[str] = (),
        declared: Declared | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._client = Client(settings.topics)
        self._topics = Topics(self._client)
        self._reader = TopicReader(settings.topics, clock)
        self._format = settings.reader()
        self._tables = Tables(
            tuple(keys), {} if declared is None else declared, settings.takes_kinds
        )
        self._tables_of: dict[str, dict[SourceName, None]] = {}
        self._shown: set[SourceName] = set()
        self._peeked: set[Partition] = set()
        self._end = ""
        self._newest: KafkaOffsets | None = None
        self._looked_ms = 0
        self._key_columns: KeyColumns = no_key_columns
        """Of the range that is read."""

    # ---- what there is

    def identity(self) -> str:
        """The cluster. Topics are known by the position."""
        return f"kafka:{self._client.cluster_id()}"

    def check(self, tables: Sequence[SourceTable]) -> list[SourceFinding]:
        """Look for tables without a key."""
        return [
            SourceFinding(
                "no_primary_key",
                f"Messages of table {one.name} name no key: each is a row of its own.",
                "give a key with --primary_keys, or send messages with a key",
                is_error=False,
                table=str(one.name),
            )
            for one in tables
            if not one.keys
        ]

    def tables(self) -> list[SourceTable]:
        """Give the tables that messages have named.

        Of a partition that is new, some messages at its begin and at its end are looked at.
        """
        self._peek()
        self._shown |= self._tables.versions.keys()
        return list(self._tables.versions.values())

    def reads(self, name: SourceName) -> bool:  # noqa: ARG002
        """Whether the settings name a table: they name topics."""
        return True

    def prepare(self, tables: Sequence[SourceName]) -> None:
        """Do nothing: a topic needs no preparation."""

    def first_copy(self, tables: Sequence[SourceName], *, is_start: bool = False) -> NoCopy:  # noqa: ARG002
        """Give a copy without rows, at the position where a new job begins."""
        return NoCopy(self._topics.start().to_json())

    def newest(self) -> str:
        """Ask for the end of each partition."""
        self._newest = self._topics.newest()
        return self._newest.to_json()

    def _peek(self) -> None:
        partitions = [p for p in self._topics.look() if p not in self._peeked]
        if not partitions:
            return
        oldest, latest = self._client.earliest(partitions), self._client.latest(partitions)
        most = self._settings.peeked_max
        heads = {p: min(latest[p], oldest[p] + most) for p in partitions}
        tails = {p: max(heads[p], latest[p] - most) for p in partitions}
        reader = TopicReader(self._settings.topics, self._clock)
        try:
            self._note(reader.to(oldest, heads))
            self._note(reader.to(tails, latest))
            if not self._tables.versions:
                self._note(reader.until_enough(latest, EpochLimits(most, wait_ms=FIRST_WAIT_MS)))
        finally:
            reader.close()
        self._peeked |= set(partitions)

    def _note(self, taken: Taken) -> None:
        """Get to know the tables of messages."""
        if taken.messages:
            batch, events = self._decoded(taken.messages)
            for one in events.tables:
                row_changes(one, batch, self._tables)

    def _decoded(self, messages: Sequence[object]) -> tuple[MessageBatch, MessageEvents]:
        batch = MessageBatch.of(messages)
        events = self._format.events(batch)
        for one in events.tables:
            for topic in {batch.topics[place] for place in one.messages}:
                self._tables_of.setdefault(topic, {})[one.name] = None
        return batch, events

    # ---- reading

    def read(
        self,
        start: str,
        tables: Sequence[SourceName],
        limits: EpochLimits,
        *,
        end: str | None = None,
        key_columns: KeyColumns = no_key_columns,
    ) -> Changes:
        """Read on from a position.

        Raises
        ------
        NotFoundError
            Kafka no longer has the position, or a topic is another one: kind
            ``cdc_position_lost``.
        """
        begin = KafkaOffsets.from_json(start)
        self._key_columns = key_columns
        try:
            if not self._peeked:  # a new process knows no table yet
                self._peek()
            if end is not None:
                return self._exactly(start, begin, KafkaOffsets.from_json(end), tables)
            return self._read_on(start, self._begun(start, begin), tables, limits)
        except NotFoundError as error:
            self._end = ""
            raise lost(error) from error

    def _read_on(
        self, start: str, begin: KafkaOffsets, tables: Sequence[SourceName], limits: EpochLimits
    ) -> Changes:
        """Read until there is a change, passing over messages of tables that are not wanted."""
        until = self._clock.now_ms() + limits.wait_ms
        while True:
            taken = self._reader.until_enough(begin.offsets, limits)
            now = self._clock.now_ms()
            if taken.messages or now - self._looked_ms >= LOOK_MS:
                self._topics.look()
                self._looked_ms = now
                self._topics.check_same(begin)
            changes = self._changes(start, begin, taken, tables)
            if changes.parts or changes.appeared or not taken.messages or now >= until:
                return changes
            begin = KafkaOffsets.from_json(changes.end)

    def _begun(self, start: str, begin: KafkaOffsets) -> KafkaOffsets:
        """Where to go on: checked if it is not where the last read ended."""
        if start != self._end:
            return self._topics.checked(begin)
        if self._clock.now_ms() - self._looked_ms >= LOOK_MS:
            return self._topics.with_new(begin, self._topics.look())
        return begin

    def _exactly(
        self, start: str, begin: KafkaOffsets, end: KafkaOffsets, tables: Sequence[SourceName]
    ) -> Changes:
        begin = self._topics.checked(begin)
        first = {p: begin.offsets.get(p, o) for p, o in end.offsets.items()}
        taken = self._reader.to(first, end.offsets)
        self._topics.look()
        self._topics.check_same(end)
        batch, events = self._decoded(taken.messages)
        parts: tuple[Part, ...]
        truncated = [(m, n) for m, n in events.truncated.items() if n in tables]
        if truncated:
            (message, name) = truncated[0]
            (_, number), offset = _partition_offset(batch, message)
            parts = (Truncated(name, offset_order(number, offset)),)
        else:
            parts = tuple(self._parts(batch, events, tables))
        return self._made(start, end, parts, ())

    def _changes(
        self, start: str, begin: KafkaOffsets, taken: Taken, tables: Sequence[SourceName]
    ) -> Changes:
        reached = dict(taken.reached)
        if not taken.messages:
            return self._made(start, KafkaOffsets(reached, begin.topic_ids), (), ())
        batch, events = self._decoded(taken.messages)
        cut = self._cut(batch, events, set(tables))
        self._shown |= cut.appeared
        if cut.truncated is not None:
            name, place, offset = cut.truncated
            end = KafkaOffsets({**begin.offsets, place: offset + 1}, begin.topic_ids)
            part = Truncated(name, offset_order(place[1], offset))
            return self._made(start, end, (part,), cut.appeared)
        if cut.stops:
            events = _before(batch, events, cut.stops)
            reached |= cut.stops
        parts = tuple(self._parts(batch, events, tables))
        return self._made(start, KafkaOffsets(reached, begin.topic_ids), parts, cut.appeared)

    def _cut(self, batch: MessageBatch, events: MessageEvents, followed: set[SourceName]) -> _Cut:
        """Find where a range must end: before a table that is new, and around a truncation."""
        cut = _Cut()
        for one in events.tables:
            if one.name in followed or one.name in self._shown:
                continue
            row_changes(one, batch, self._tables)
            cut.appeared.add(one.name)
            for place in one.messages:
                cut.stop(*_partition_offset(batch, place))
        truncations = [
            (_partition_offset(batch, m), n) for m, n in events.truncated.items() if n in followed
        ]
        first: dict[Partition, int] = {}
        for one in events.tables if truncations else ():
            for at, offset in (
                _partition_offset(batch, m) for m in one.messages if one.name in followed
            ):
                first[at] = min(offset, first.get(at, offset))
        for (at, offset), name in sorted(truncations):
            if offset < min(first.get(at, offset + 1), cut.stops.get(at, offset + 1)):
                cut.truncated = (name, at, offset)
                return cut
            cut.stop(at, offset)
        return cut

    def _parts(
        self, batch: MessageBatch, events: MessageEvents, tables: Sequence[SourceName]
    ) -> Iterator[Part]:
        followed = set(tables)
        parts = [
            row_changes(one, batch, self._tables, self._key_columns)
            for one in events.tables
            if one.name in followed
        ]
        parts.sort(key=_first_order)
        bad = self._rejected(batch, events.bad, followed)
        for place, part in enumerate(parts):
            mine = bad.pop(part.table.name, [])
            if mine:
                parts[place] = replace(part, rejected=(*part.rejected, *mine))
        yield from parts
        for name, left in bad.items():
            yield no_rows(self._tables.versions[name], left)

    def _rejected(
        self, batch: MessageBatch, bad: Mapping[int, str], followed: set[SourceName]
    ) -> dict[SourceName, list[Rejected]]:
        """Put messages that cannot be read under a table of their topic, else under any."""
        found: dict[SourceName, list[Rejected]] = {}
        if bad and not followed & self._tables.versions.keys():
            self._peek()
        for message, reason in sorted(bad.items()):
            known = [n for n in self._tables_of.get(batch.topics[message], ()) if n in followed]
            known += sorted(followed & self._tables.versions.keys())
            if not known:
                continue
            place, offset = _partition_offset(batch, message)
            order = offset_order(place[1], offset)
            where = f"message {offset} of partition {place[1]} of topic '{place[0]}'"
            payload = (batch.values[message] or b"")[:PAYLOAD_BYTES_MAX].decode(errors="replace")
            rejected = Rejected(known[0], order, INSERT, f"{where}: {reason}", payload)
            found.setdefault(known[0], []).append(rejected)
        return found

    def _made(
        self,
        start: str,
        end: KafkaOffsets,
        parts: tuple[Part, ...],
        appeared: set[SourceName] | tuple[()],
    ) -> Changes:
        known = KafkaOffsets.from_json(start)
        ids = {t: i for t, i in self._topics.ids.items() if t not in known.topic_ids}
        topics = {topic for topic, _ in end.offsets}
        every = {t: i for t, i in {**ids, **end.topic_ids}.items() if t in topics}
        whole = KafkaOffsets(dict(sorted(end.offsets.items())), dict(sorted(every.items())))
        text = whole.to_json()
        self._end = text
        newest = whole if self._newest is None else _later(self._newest, whole)
        times = [
            int(p.changed_ms.max()) for p in parts if isinstance(p, SourceRows) and len(p.kinds)
        ]
        return Changes(
            start,
            text,
            parts,
            newest.to_json(),
            max(times, default=None),
            tuple(sorted(appeared)),
        )

    # ---- the rest

    def check_position(self, position: str) -> None:
        """Do nothing: each read looks at the topics."""

    def held(self, position: str) -> list[str]:  # noqa: ARG002
        """Say that topics keep messages by their own settings."""
        return ["Topics keep messages by their own retention, whoever reads them."]

    def confirm(self, position: str) -> None:
        """Show in Kafka how far a job is, if the settings name a group."""
        if self._settings.group is not None:
            self._reader.show(KafkaOffsets.from_json(position).offsets)

    def status(self) -> dict[str, object]:
        """Count topics and partitions."""
        newest = self._topics.newest()
        return {
            "topics": len(newest.topic_ids),
            "partitions": len(newest.offsets),
            "group": self._settings.group,
        }

    def lag(self, position: str, newest: str) -> SourceLag:
        """Count the messages behind a position; the time is that of the newest message."""
        start, end = KafkaOffsets.from_json(position), KafkaOffsets.from_json(newest)
        newest_ms = self._client.newest_ms(end.offsets)
        note = "no message of these topics has a time" if newest_ms is None else ""
        return SourceLag(messages_count=start.lag_to(end), newest_ms=newest_ms, note=note)

    def slots(self) -> list[SlotStatus]:
        """Nothing is kept for a reader."""
        return []

    def drop(self) -> list[str]:
        """Remove nothing: nothing was made in Kafka."""
        return []

    def close(self) -> None:
        """End all connections."""
        self._reader.close()
        self._client.close()


def _partition_offset(batch: MessageBatch, message: int) -> tuple[Partition, int]:
    partition, offset = int(batch.partitions[message]), int(batch.offsets[message])
    return (batch.topics[message], partition), offset


def _first_order(part: SourceRows) -> tuple[int, int]:
    if not len(part.order):
        return (0, 0)
    return int(part.order[0, 0]), int(part.order[0, 1])


def _before(
    batch: MessageBatch, events: MessageEvents, stops: Mapping[Partition, int]
) -> MessageEvents:
    """What messages before the stops say."""

    def is_kept(message: int) -> bool:
        place, offset = _partition_offset(batch, message)
        return offset < stops.get(place, offset + 1)

    tables = []
    for one in events.tables:
        kept = [row for row, message in enumerate(one.messages) if is_kept(message)]
        if kept:
            tables.append(one if len(kept) == len(one.messages) else one.taken(kept))
    return MessageEvents(
        tuple(tables),
        {m: n for m, n in events.truncated.items() if is_kept(m)},
        {m: reason for m, reason in events.bad.items() if is_kept(m)},
    )


def _later(one: KafkaOffsets, other: KafkaOffsets) -> KafkaOffsets:
    every = {**one.offsets, **other.offsets}
    offsets = {p: max(o, one.offsets.get(p, 0)) for p, o in every.items()}
    return KafkaOffsets(dict(sorted(offsets.items())), one.topic_ids)
