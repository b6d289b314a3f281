"""Reads messages of all partitions, on from offsets, until enough or to given offsets.

Offsets that it gives as reached are exact: of a message, or of the end of a partition behind marks
of transactions. So a range between two of them always has the same messages.

One client stays open, and goes on where it is if it is asked to; else it is put elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidelake.cdc.source.source import EpochLimits
from tidelake.engine.env import Clock
from tidelake.errors import NotFoundError, StorageError
from tidelake.kafka._optional import confluent
from tidelake.kafka.client import Errors, consumer_settings, kafka_error, unreachable
from tidelake.kafka.definition import KafkaTable
from tidelake.kafka.offsets import Partition

POLL_SECONDS_MAX = 0.5
MESSAGES_MAX = 10_000
"""Messages of one call of the library."""
IDLE_POLLS_MAX = 60
PATIENCE_MS = 500
"""How long the ends of partitions are waited for, where no message is."""
DOWN_MS_MAX = 10_000
"""How long all brokers may be down before a read is given up."""
_LOST = frozenset({"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"})
_PASSING = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT"})
_GONE = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})
_DOING = "topics were read"
_LOG = logging.getLogger("tidelake")


@dataclass(frozen=True, slots=True)
class Taken:
    """Messages, and the offsets after them.

    Parameters
    ----------
    messages : list
        The library's, by partition in the order of offsets.
    reached : mapping of (str, int) to int
        The next offset of each partition.
    """

    messages: list[Any]
    reached: Mapping[Partition, int]


class TopicReader:
    """Reads partitions. For one thread."""

    def __init__(self, table: KafkaTable, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._library = confluent()
        self._errors = Errors()
        self._at: dict[Partition, int] = {}
        self._down_ms = 0
        try:
            self._consumer = self._library.Consumer(consumer_settings(table, self._errors))
        except self._library.KafkaException as error:
            raise kafka_error(error, table=table, doing="a client was made") from error

    def close(self) -> None:
        """End the connections."""
        self._consumer.close()

    def until_enough(self, start: Mapping[Partition, int], limits: EpochLimits) -> Taken:
        """Read on, until a limit: of messages as of rows.

        Raises
        ------
        NotFoundError
            Kafka no longer has the start: kind ``kafka_offset_lost``.
        StorageError
            No broker answers.
        """
        self._go_to(start)
        messages: list[Any] = []
        size, ends = 0, set[Partition]()
        begun = self._clock.now_ms()
        until = begun + max(limits.wait_ms, PATIENCE_MS)
        while len(messages) < limits.rows_max and size < limits.bytes_max:
            now = self._clock.now_ms()
            if now >= until:
                break
            count = min(MESSAGES_MAX, limits.rows_max - len(messages))
            found = self._poll(count, (until - now) / 1_000, ends)
            if found and not messages:
                until = self._clock.now_ms() + limits.gather_ms
            messages += found
            size += sum(len(m) for m in found)
            waits = limits.gather_ms if messages else limits.wait_ms
            if waits == 0 and ends >= self._at.keys():
                break
        return Taken(messages, dict(self._at))

    def to(self, start: Mapping[Partition, int], end: Mapping[Partition, int]) -> Taken:
        """Read exactly to offsets."""
        self._go_to({p: o for p, o in start.items() if end.get(p, o) > o})
        messages: list[Any] = []
        idle = 0
        while any(self._at[p] < end[p] for p in self._at):
            before = dict(self._at)
            found = self._poll(MESSAGES_MAX, POLL_SECONDS_MAX, set())
            messages += [m for m in found if m.offset() < end[m.topic(), m.partition()]]
            idle = 0 if found or self._at != before else idle + 1
            if idle >= IDLE_POLLS_MAX:
                message = (
                    f"Kafka gave no message for {IDLE_POLLS_MAX * POLL_SECONDS_MAX:g} s although"
                    " it has more. Try again."
                )
                raise StorageError(message, kind="kafka", table=self._table.name)
            done = [p for p in self._at if self._at[p] >= end[p]]
            if done and len(done) < len(self._at):
                self._go_to({p: o for p, o in self._at.items() if p not in done})
        self._at = {}
        return Taken(messages, {**start, **end})

    def show(self, offsets: Mapping[Partition, int]) -> None:
        """Commit offsets of the client's group, for people: nothing reads them here."""
        places = [self._library.TopicPartition(*p, offset) for p, offset in offsets.items()]
        try:
            self._consumer.commit(offsets=places, asynchronous=True)
        except self._library.KafkaException as error:
            _LOG.warning("offsets were not committed to Kafka: %s", error)

    def _go_to(self, start: Mapping[Partition, int]) -> None:
        """Go on from offsets, by a new assignment if they are not where the client is."""
        if self._at == dict(start):
            return
        self._at = dict(start)
        places = [self._library.TopicPartition(*p, offset) for p, offset in start.items()]
        try:
            self._consumer.assign(places)
        except self._library.KafkaException as error:
            raise kafka_error(error, table=self._table, doing=_DOING) from error

    def _poll(self, count: int, seconds: float, ends: set[Partition]) -> list[Any]:
        """Take messages; note where each partition stands, and which is at its end."""
        found: list[Any] = []
        waited = max(0.0, min(seconds, POLL_SECONDS_MAX))
        began = self._clock.now_ms()
        for message in self._consumer.consume(count, timeout=waited):
            error = message.error()
            if error is not None:
                self._note(message, error, ends)
                continue
            place = (message.topic(), message.partition())
            if place in self._at and message.offset() >= self._at[place]:
                self._at[place] = message.offset() + 1
                ends.discard(place)
                found.append(message)
        if found:
            self._errors.all_down, self._down_ms = False, 0
        elif self._errors.all_down:
            self._down_ms += max(1, self._clock.now_ms() - began)
            if self._down_ms >= DOWN_MS_MAX:
                raise unreachable(self._table, self._errors, doing=_DOING)
        return found

    def _note(self, message: Any, error: Any, ends: set[Partition]) -> None:
        place = (message.topic(), message.partition())
        if error.code() == self._library.KafkaError._PARTITION_EOF:
            if place in self._at and message.offset() >= 0:
                self._at[place] = max(self._at[place], message.offset())
                ends.add(place)
            return
        if error.name() in _LOST or error.name() in _GONE:
            said = f"offset {self._at.get(place)} of partition {place[1]} of topic '{place[0]}'"
            text = f"Kafka no longer has {said}: {error.str()}."
            raise NotFoundError(text, kind="kafka_offset_lost", topic=place[0])
        if not error.retriable() and error.name() not in _PASSING:
            raise kafka_error(error, table=self._table, doing=_DOING)
