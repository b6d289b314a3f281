"""Where a query is in its topics, as the texts of offsets that Spark keeps in its checkpoint.

Spark keeps the ends of batches alone. The text of the first one keeps where the stream began, too
(``from``), so that a first batch that is given again after a crash begins where it did before.
"""

from __future__ import annotations

import json

from tidelake.kafka import KafkaOffsets, KafkaTable
from tidelake.kafka import table_options as own
from tidelake.kafka.client import Client
from tidelake.kafka.read_range import bounded_end, checked_start, current_end, initial_offsets

__all__ = ["TopicCursor", "between"]

BEGAN = "from"
"""In checkpoints: never renamed."""


class TopicCursor:
    """The progress of one run of a query. For one thread at a time.

    Parameters
    ----------
    table : KafkaTable
        The table, with the options of the stream.
    """

    def __init__(self, table: KafkaTable) -> None:
        self._table = table
        self._client = Client(table)
        self._bound = bounded_end(self._client)
        self._fixed: KafkaOffsets | None = None
        self._began: KafkaOffsets | None = None

    def fix_end(self) -> None:
        """Go no further than what is there now."""
        self._fixed = self._reachable()

    def next(self, start: str | None) -> str:
        """The end of the next batch; the start itself where nothing is new.

        Raises
        ------
        NotFoundError
            Kafka no longer has the messages behind the start, or the topic is gone.
        ConflictError
            The topic was made again.
        StorageError
            No broker answers.
        """
        if start is None and self._began is None:
            self._began = initial_offsets(self._client)
        at = KafkaOffsets.from_json(start) if start is not None else self._began
        assert at is not None
        reachable = self._fixed or self._reachable()
        # with the identities of now: a topic that was made again is another
        checked_start(self._client, at, self._with_ids(reachable, at))
        most = self._table.options[own.MAX_ROWS]
        end = at.limited(_not_before(at, reachable), most)
        if start is not None:
            return start if end.offsets == at.offsets else end.to_json()
        document = json.loads(end.to_json())
        return json.dumps({**document, BEGAN: json.loads(at.to_json())})

    def latest(self) -> str:
        """What is the latest offset now."""
        return current_end(self._client).to_json()

    def behind(self, at: str) -> int:
        """Offsets that are there and were not read."""
        return KafkaOffsets.from_json(at).lag_to(current_end(self._client))

    def close(self) -> None:
        """The run ends."""
        self._client.close()

    def _reachable(self) -> KafkaOffsets:
        latest = current_end(self._client)
        if self._bound is None:
            return latest
        bound = self._bound.offsets
        # a partition that came later than the bound is beyond it
        ends = {p: min(o, bound[p]) for p, o in latest.offsets.items() if p in bound}
        return KafkaOffsets(ends, latest.topic_ids)

    def _with_ids(self, end: KafkaOffsets, at: KafkaOffsets) -> KafkaOffsets:
        """The partitions that a batch begins at, whose offsets must still be there."""
        latest = current_end(self._client)
        ends = {p: o for p, o in latest.offsets.items() if p in at.offsets or p in end.offsets}
        return KafkaOffsets(ends, latest.topic_ids)


def _not_before(at: KafkaOffsets, end: KafkaOffsets) -> KafkaOffsets:
    """The end, of every partition at or behind the start."""
    every = {**at.offsets, **end.offsets}
    return KafkaOffsets(
        {p: max(at.offsets.get(p, 0), o) for p, o in every.items()}, end.topic_ids or at.topic_ids
    )


def between(start: str | None, end: str) -> tuple[KafkaOffsets, KafkaOffsets]:
    """The two ends of a batch by their texts; nothing is looked at."""
    last = KafkaOffsets.from_json(end)
    if start is not None:
        return KafkaOffsets.from_json(start), last
    began = json.loads(end).get(BEGAN)
    return last if began is None else KafkaOffsets.from_json(json.dumps(began)), last
