"""Messages of topics as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_TIME_KINDS = pa.array(["NoTimestampType", "CreateTime", "LogAppendTime"])


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Some messages, by column, in the order in which they were read. Picklable.

    Parameters
    ----------
    keys, values : list of bytes or None
        As they are in Kafka.
    topics : list of str
        The topic of each message.
    partitions, offsets : numpy.ndarray
        int64.
    times_ms : numpy.ndarray
        Kafka's time of each message, int64, milliseconds since 1970 in UTC.
    time_kinds : numpy.ndarray
        int8: 0 there is none, 1 the producer's, 2 the broker's.
    """

    keys: list[bytes | None]
    values: list[bytes | None]
    topics: list[str]
    partitions: NDArray[np.int64]
    offsets: NDArray[np.int64]
    times_ms: NDArray[np.int64]
    time_kinds: NDArray[np.int8]

    @classmethod
    def of(cls, messages: Sequence[Any]) -> MessageBatch:
        """Take the messages of the client's library."""
        times = [m.timestamp() for m in messages]
        return cls(
            [m.key() for m in messages],
            [m.value() for m in messages],
            [m.topic() for m in messages],
            np.array([m.partition() for m in messages], np.int64),
            np.array([m.offset() for m in messages], np.int64),
            np.array([ms for _, ms in times], np.int64),
            np.array([kind for kind, _ in times], np.int8),
        )

    @classmethod
    def of_values(
        cls,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None = None,
        *,
        topic: str = "t",
    ) -> MessageBatch:
        """Take values as the messages of one partition, from offset 0 on."""
        count = len(values)
        zeros = np.zeros(count, np.int64)
        return cls(
            [None] * count if keys is None else list(keys),
            list(values),
            [topic] * count,
            zeros,
            np.arange(count, dtype=np.int64),
            zeros,
            np.ones(count, np.int8),
        )

    def __len__(self) -> int:
        return len(self.values)

    def metadata(self, places: NDArray[np.int64]) -> dict[str, pa.Array]:
        """Give Paimon's metadata columns of some messages."""
        topics = self.topics
        if topics.count(topics[0] if topics else "") == len(topics):
            names = pa.repeat(pa.scalar(topics[0] if topics else "", pa.string()), len(places))
        else:
            names = pa.array([topics[place] for place in places.tolist()], pa.string())
        kinds = self.time_kinds[places]
        times = pa.array(self.times_ms[places], pa.timestamp("ms", "UTC"), mask=kinds == 0)
        return {
            "topic": names,
            "partition": pa.array(self.partitions[places], pa.int32()),
            "offset": pa.array(self.offsets[places]),
            "timestamp": times,
            "timestamp_type": _TIME_KINDS.take(pa.array(kinds)),
        }
