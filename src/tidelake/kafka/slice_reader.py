"""Reads the messages of slices, as lists. Runs in tasks.

A slice is read until the reader's *position* is at its end. A count of messages would not do: a
compacted topic has gaps, and transactions leave marks that are not messages. The position is known
from a message at or behind the end, or from the end of the partition.

A topic that was deleted and recreated since the slice was planned has other messages at its
offsets. So the reader asks for the topic's identity before the slice and once more after it: if it
is the same, all messages were of that topic.

Memory: a block of about :data:`BLOCK_BYTES`, and what the library fetches ahead (32 MiB).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from tidelake.errors import ConflictError, NotFoundError, StorageError
from tidelake.kafka._optional import confluent
from tidelake.kafka.client import (
    REQUEST_SECONDS_MAX,
    Client,
    Errors,
    consumer_settings,
    kafka_error,
    unreachable,
)
from tidelake.kafka.definition import KafkaTable
from tidelake.kafka.offsets import KafkaSlice
from tidelake.kafka.read_range import GOES_ON, LATEST, fails_on_loss, reset

BLOCK_BYTES = 8 << 20
BLOCK_MESSAGES_MIN, BLOCK_MESSAGES_MAX = 100, 20_000
POLL_SECONDS = 0.5
IDLE_POLLS_MAX = 60
"""Half a minute without a message, although more must come."""
DOWN_SECONDS_MAX = 2.0
"""How long all brokers may be down before a read is given up."""
_LOG = logging.getLogger("tidelake")


@dataclass(frozen=True, slots=True)
class MessageBlock:
    """Some messages of a slice, by column.

    Parameters
    ----------
    messages : list
        The library's messages, without errors.
    """

    part: KafkaSlice
    messages: list[Any]
    values: list[bytes | None]

    def offsets(self) -> list[int]:
        """The offset of each message."""
        return [m.offset() for m in self.messages]


class SliceReader:
    """Reads slices one after the other with one client.

    Parameters
    ----------
    patience_s : float
        How long all brokers may be down before a read is given up.
    """

    def __init__(self, table: KafkaTable, *, patience_s: float = DOWN_SECONDS_MAX) -> None:
        self._table = table
        self._patience_s = patience_s
        self._client: Client | None = None
        self._errors = Errors()
        self._library = confluent()
        try:
            self._consumer = self._library.Consumer(consumer_settings(table, self._errors))
        except self._library.KafkaException as error:
            raise kafka_error(error, table=table, doing="a client was made") from error

    def __enter__(self) -> SliceReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._consumer.close()
        if self._client is not None:
            self._client.close()

    def blocks(self, part: KafkaSlice) -> Iterator[MessageBlock]:
        """Read a slice.

        Raises
        ------
        NotFoundError
            Kafka deleted messages of the slice, or the topic.
        ConflictError
            The topic was recreated since the slice was planned.
        StorageError
            The broker does not answer.
        """
        if part.topic_id and (error := self._other_topic(part)) is not None:
            if fails_on_loss(self._table):
                raise error
            _LOG.warning(
                "the read of table '%s' goes on without unread messages: topic '%s' was"
                " deleted, or deleted and recreated, after the read was planned",
                self._table.name,
                part.topic,
            )
            return
        yield from self._messages(part)
        if part.topic_id and (error := self._other_topic(part)) is not None:
            raise error  # the messages are of two topics: the next try leaves them out

    def _other_topic(self, part: KafkaSlice) -> ConflictError | NotFoundError | None:
        """Make the error if the topic is not the one that the slice was planned for."""
        found = self._topic_id(part.topic)
        if found == part.topic_id:
            return None
        where = f"Topic '{part.topic}' of table '{self._table.name}' was deleted"
        context = {"table": self._table.name, "topic": part.topic}
        if found is None:
            message = f"{where} after this read was planned. {GOES_ON}"
            return NotFoundError(message, kind="kafka_topic_not_found", **context)
        message = (
            f"{where} and created again after this read was planned: its offsets {part.first} to"
            f" {part.end} hold other messages now. Read a batch again; start a stream with a new"
            f" checkpoint. {GOES_ON}"
        )
        return ConflictError(message, kind="kafka_topic_recreated", **context)

    def _topic_id(self, topic: str) -> str | None:
        """The identity of a topic now; brokers may be down for as long as the reader waits."""
        if self._client is None:
            self._client = Client(self._table, patience_s=self._patience_s)
        for left in reversed(range(max(1, int(self._patience_s / REQUEST_SECONDS_MAX)))):
            try:
                return self._client.topic_id(topic)
            except StorageError:
                if not left:
                    raise
        raise AssertionError

    def _messages(self, part: KafkaSlice) -> Iterator[MessageBlock]:
        self._assign(part, part.first)
        position, idle, count = part.first, 0, BLOCK_MESSAGES_MIN
        while position < part.end:
            taken = self._consumer.consume(min(count, part.end - position), timeout=POLL_SECONDS)
            idle = 0 if taken else idle + 1
            self._check_idle(part, idle)
            kept: list[Any] = []
            for message in taken:
                error = message.error()
                if error is None:
                    position = message.offset() + 1
                    if message.offset() < part.end:
                        kept.append(message)
                elif error.code() == self._library.KafkaError._PARTITION_EOF:
                    position = max(position, message.offset())
                else:
                    position = self._after_error(part, position, error)
            if kept:
                values = [m.value() for m in kept]
                yield MessageBlock(part, kept, values)
                size = sum(len(v) for v in values if v is not None) // len(kept) or 1
                fitting = min(BLOCK_BYTES // size, BLOCK_MESSAGES_MAX)
                count = max(BLOCK_MESSAGES_MIN, fitting)

    def _assign(self, part: KafkaSlice, offset: int) -> None:
        place = self._library.TopicPartition(part.topic, part.partition, offset)
        self._consumer.assign([place])

    def _check_idle(self, part: KafkaSlice, idle: int) -> None:
        doing = f"partition {part.partition} of topic '{part.topic}' was read"
        if idle == 0:
            self._errors.all_down = False
        if self._errors.all_down:
            if idle * POLL_SECONDS >= self._patience_s:
                raise unreachable(self._table, self._errors, doing=doing)
        elif idle >= IDLE_POLLS_MAX:
            message = (
                f"Kafka gave no message for {IDLE_POLLS_MAX * POLL_SECONDS:g} s while {doing}"
                f" (table '{self._table.name}'), although it has offsets up to {part.end}. Try"
                " again."
            )
            raise StorageError(message, kind="kafka", table=self._table.name)

    def _after_error(self, part: KafkaSlice, position: int, error: Any) -> int:
        """Find the position to go on from after an error."""
        doing = f"partition {part.partition} of topic '{part.topic}' was read"
        if error.name() not in {"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"}:
            if error.retriable() or error.name() in {"_TRANSPORT", "_ALL_BROKERS_DOWN"}:
                return position  # the library tries again; the caller counts the polls
            raise kafka_error(error, table=self._table, doing=doing)
        if not fails_on_loss(self._table):
            if reset(self._table) == LATEST:
                return part.end
            place = self._library.TopicPartition(part.topic, part.partition)
            low, _ = self._consumer.get_watermark_offsets(place, timeout=20)
            if low > position:
                self._assign(part, low)
                return int(low)
        message = (
            f"Offset {position} of partition {part.partition} of topic '{part.topic}' (table"
            f" '{self._table.name}') is lost: Kafka deleted messages while they were read."
            f" {GOES_ON}"
        )
        raise NotFoundError(
            message, kind="kafka_offset_lost", table=self._table.name, topic=part.topic
        )


def all_blocks(table: KafkaTable, parts: Sequence[KafkaSlice]) -> Iterator[MessageBlock]:
    """Read slices with one client, and close it at the end."""
    with SliceReader(table) as reader:
        for part in parts:
            yield from reader.blocks(part)
