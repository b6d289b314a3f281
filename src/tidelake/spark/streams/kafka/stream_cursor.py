"""The position of a query in its topics, as the texts in Spark's checkpoint.

Spark keeps only the ends of batches. If a batch does not begin at the previous end, its text holds
its start, too (``from``). Such are the first batch, so that a repeat after a crash is equal, and a
batch after lost messages.

The cursor reads the latest offsets once for each batch; Spark's progress shows the last ones.

Brokers that are down for a while, or lead no partition yet, do not end a stream: it has nothing new
until they are back, for :data:`DOWN_MS_MAX`. A stream with an end does not wait, for it would seem
to be at its end.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from tidelake.engine.env import Clock
from tidelake.errors import StorageError
from tidelake.kafka import KafkaOffsets, KafkaTable
from tidelake.kafka import table_options as own
from tidelake.kafka.client import BROKERS_AWAY, Client
from tidelake.kafka.offsets import Partition
from tidelake.kafka.read_range import bounded_end, checked_start, current_end, initial_offsets

BEGAN = "from"
"""On disk, in checkpoints: never rename."""
DOWN_MS_MAX = 120_000
"""How long all brokers may be down before a running stream fails."""
_LOG = logging.getLogger("tidelake")


class TopicCursor:
    """The progress of one run of a query. For one thread at a time."""

    def __init__(self, table: KafkaTable, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._down_since_ms: int | None = None
        self._client = Client(table)
        self._bound = bounded_end(self._client)
        self._fixed: KafkaOffsets | None = None
        self._began: KafkaOffsets | None = None
        self._latest: KafkaOffsets | None = None

    def fix_end(self) -> None:
        """Set the end of the stream to the latest offsets of now."""
        self._fixed = current_end(self._client)

    def next(self, start: str | None) -> str:
        """Find the end of the next batch; the start itself without new messages.

        Raises
        ------
        NotFoundError
            Kafka no longer has the messages behind the start, or the topic was deleted.
        ConflictError
            The topic was deleted and created again.
        StorageError
            No broker answers or leads a partition, and none did for a while.
        """
        try:
            end = self._next(start)
        except StorageError as error:
            if start is None or not self._waits_for_brokers(error):
                raise
            return start
        self._down_since_ms = None
        return end

    def _waits_for_brokers(self, error: StorageError) -> bool:
        """Whether brokers are away, and have not been for too long."""
        if error.kind not in BROKERS_AWAY or self._fixed or self._bound:
            return False
        now_ms = self._clock.now_ms()
        if self._down_since_ms is None:
            self._down_since_ms = now_ms
            _LOG.warning(
                "The stream of table '%s' waits up to %d s for Kafka: %s",
                self._table.name,
                DOWN_MS_MAX // 1000,
                error.message,
            )
        return now_ms - self._down_since_ms < DOWN_MS_MAX

    def _next(self, start: str | None) -> str:
        if start is None and self._began is None:
            self._began = initial_offsets(self._client)
        at = KafkaOffsets.from_json(start) if start is not None else self._began
        assert at is not None
        self._latest = latest = current_end(self._client)
        reach = self._reach(latest)
        known = {p: o for p, o in latest.offsets.items() if p in at.offsets or p in reach}
        begin = checked_start(self._client, at, KafkaOffsets(known, latest.topic_ids))
        ends = {p: max(o, reach.get(p, o)) for p, o in begin.offsets.items()}
        end = begin.limited(KafkaOffsets(ends, begin.topic_ids), self._table.options[own.MAX_ROWS])
        if start is not None and not _is_moved(at, begin):
            return start if end.offsets == at.offsets else end.to_json()
        document = json.loads(end.to_json())
        return json.dumps({**document, BEGAN: json.loads(begin.to_json())})

    def latest(self) -> str:
        """Give the latest offsets of the last look."""
        return self._seen().to_json()

    def behind(self, at: str) -> int:
        """Count the offsets that were not read."""
        return KafkaOffsets.from_json(at).lag_to(self._seen())

    def close(self) -> None:
        """Release the client at the end of a run."""
        self._client.close()

    def _seen(self) -> KafkaOffsets:
        if self._latest is None:
            self._latest = current_end(self._client)
        return self._latest

    def _reach(self, latest: KafkaOffsets) -> Mapping[Partition, int]:
        """Find how far the stream may go; not to partitions that are newer than its end."""
        ends = dict(latest.offsets)
        for most in (self._fixed, self._bound):
            if most is not None:
                known = most.offsets
                ends = {p: min(o, known[p]) for p, o in ends.items() if p in known}
        return ends


def _is_moved(at: KafkaOffsets, begin: KafkaOffsets) -> bool:
    """Whether a batch does not begin at the previous end."""
    return any(begin.offsets.get(p) != o for p, o in at.offsets.items()) or any(
        begin.topic_ids.get(topic) != known for topic, known in at.topic_ids.items()
    )


def between(start: str | None, end: str) -> tuple[KafkaOffsets, KafkaOffsets]:
    """Parse the two ends of a batch; does not ask Kafka."""
    last = KafkaOffsets.from_json(end)
    began = json.loads(end).get(BEGAN)
    if began is not None:
        return KafkaOffsets.from_json(json.dumps(began)), last
    return (last if start is None else KafkaOffsets.from_json(start)), last
