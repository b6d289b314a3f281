"""The offsets of partitions as a value, and slices, which are the offsets of one task."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tidelake.errors import CorruptError

Partition = tuple[str, int]
VERSION = 1


@dataclass(frozen=True, slots=True)
class KafkaSlice:
    """A range of offsets of a partition; an offset need not have a message.

    Parameters
    ----------
    first, end : int
        The first offset, and the one after the last.
    topic_id : str
        The topic's identity when the slice was planned; empty where nobody asked.
    """

    topic: str
    partition: int
    first: int
    end: int
    topic_id: str = ""

    @property
    def size(self) -> int:
        """Number of offsets."""
        return self.end - self.first


@dataclass(frozen=True, slots=True)
class KafkaOffsets:
    """The next offset to read of each partition.

    Parameters
    ----------
    topic_ids : mapping of str to str
        The identity of each topic. A topic that was deleted and created again has another one.

    Examples
    --------
    >>> offsets = KafkaOffsets({("t", 0): 5})
    >>> KafkaOffsets.from_json(offsets.to_json()) == offsets
    True
    """

    offsets: Mapping[Partition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Write the text for a checkpoint. On disk: never change it within a version."""
        topics: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in sorted(self.offsets.items()):
            topics.setdefault(topic, {})[str(partition)] = offset
        return json.dumps({"v": VERSION, "offsets": topics, "ids": dict(self.topic_ids)})

    @classmethod
    def from_json(cls, text: str) -> KafkaOffsets:
        """Read the text of a checkpoint.

        Raises
        ------
        CorruptError
            The text is of a later version, or holds no offsets.
        """
        try:
            document = json.loads(text)
            if document["v"] != VERSION:
                message = (
                    f"The checkpoint holds offsets of version {document['v']}, which this version"
                    f" of Tidelake does not know: use the one that wrote it, or a new checkpoint."
                )
                raise CorruptError(message, kind="stream_offset")
            offsets = {
                (topic, int(partition)): int(offset)
                for topic, of_topic in document["offsets"].items()
                for partition, offset in of_topic.items()
            }
            return cls(offsets, dict(document["ids"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"The checkpoint holds '{text[:80]}', which are not offsets of Kafka."
            raise CorruptError(message, kind="stream_offset") from error

    def slices_to(self, end: KafkaOffsets, *, tasks_min: int = 1) -> list[KafkaSlice]:
        """Cut the range between two offsets into slices; a new partition begins at 0.

        Parameters
        ----------
        tasks_min : int
            The least number of slices, if there are as many offsets: large partitions are cut.

        Examples
        --------
        >>> begin, end = KafkaOffsets({("t", 0): 0}), KafkaOffsets({("t", 0): 10, ("t", 1): 2})
        >>> [(s.partition, s.first, s.end) for s in begin.slices_to(end, tasks_min=3)]
        [(0, 0, 5), (0, 5, 10), (1, 0, 2)]
        """
        whole = [
            KafkaSlice(
                topic,
                partition,
                self.offsets.get((topic, partition), 0),
                offset,
                end.topic_ids.get(topic, ""),
            )
            for (topic, partition), offset in sorted(end.offsets.items())
            if offset > self.offsets.get((topic, partition), 0)
        ]
        total = sum(one.size for one in whole)
        if len(whole) >= tasks_min or not total:
            return whole
        # after one slice for each partition the largest partitions get the rest
        spare = tasks_min - len(whole)
        cut: list[KafkaSlice] = []
        for one in whole:
            parts = min(one.size, 1 + round(spare * one.size / total))
            edges = [one.first + one.size * n // parts for n in range(parts + 1)]
            cut += [replace(one, first=low, end=high) for low, high in pairwise(edges)]
        return cut

    def limited(self, end: KafkaOffsets, most: int | None) -> KafkaOffsets:
        """Find the end of a batch of `most` offsets, shared in proportion to each partition's lag.

        Examples
        --------
        >>> begin, end = KafkaOffsets({}), KafkaOffsets({("t", 0): 90, ("t", 1): 10})
        >>> begin.limited(end, 10).offsets
        {('t', 0): 9, ('t', 1): 1}
        """
        behind = {p: max(0, o - self.offsets.get(p, 0)) for p, o in end.offsets.items()}
        total = sum(behind.values())
        if most is None or total <= most:
            return end
        # rounded up, so that a small partition gets a share, too
        share = {p: min(n, -(-n * most // total)) for p, n in behind.items()}
        reached = {p: self.offsets.get(p, 0) + n for p, n in share.items()}
        return KafkaOffsets(reached, end.topic_ids)

    def lag_to(self, end: KafkaOffsets) -> int:
        """Count the offsets up to `end`."""
        return sum(max(0, o - self.offsets.get(p, 0)) for p, o in end.offsets.items())
