"""Offsets of partitions as a value, and slices: the offsets that one task reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from tidelake.errors import CorruptError

__all__ = ["KafkaOffsets", "Partition", "Slice"]

Partition = tuple[str, int]
VERSION = 1


@dataclass(frozen=True, slots=True)
class Slice:
    """Some offsets of a partition, not all of which hold a message.

    Parameters
    ----------
    topic : str
        The topic.
    partition : int
        Its number.
    first, end : int
        The first offset, and the first that is not read.
    """

    topic: str
    partition: int
    first: int
    end: int

    @property
    def size(self) -> int:
        """Number of offsets."""
        return self.end - self.first


@dataclass(frozen=True, slots=True)
class KafkaOffsets:
    """The next offset to read of each partition.

    Parameters
    ----------
    offsets : mapping of (str, int) to int
        By topic and partition.
    topic_ids : mapping of str to str
        The identity of each topic, by which one that was dropped and made again is another.

    Examples
    --------
    >>> offsets = KafkaOffsets({("t", 0): 5})
    >>> KafkaOffsets.from_json(offsets.to_json()) == offsets
    True
    """

    offsets: Mapping[Partition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """The text in a checkpoint; on disk: never changed within a version."""
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
            It is of a later version, or no offsets.
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
            message = f"The checkpoint holds '{text[:80]}', which are no offsets of Kafka."
            raise CorruptError(message, kind="stream_offset") from error

    def slices_to(self, end: KafkaOffsets, *, tasks_min: int = 1) -> list[Slice]:
        """Give what is between two offsets; a partition that is new begins at 0.

        Parameters
        ----------
        end : KafkaOffsets
            Where to end.
        tasks_min : int
            Slices at least, where there are as many offsets: large partitions are cut.

        Examples
        --------
        >>> begin, end = KafkaOffsets({("t", 0): 0}), KafkaOffsets({("t", 0): 10, ("t", 1): 2})
        >>> [(s.partition, s.first, s.end) for s in begin.slices_to(end, tasks_min=3)]
        [(0, 0, 5), (0, 5, 10), (1, 0, 2)]
        """
        whole = [
            Slice(topic, partition, self.offsets.get((topic, partition), 0), offset)
            for (topic, partition), offset in sorted(end.offsets.items())
            if offset > self.offsets.get((topic, partition), 0)
        ]
        total = sum(one.size for one in whole)
        if len(whole) >= tasks_min or not total:
            return whole
        # what is left over after one slice for each goes to the largest partitions
        spare = tasks_min - len(whole)
        cut: list[Slice] = []
        for one in whole:
            parts = min(one.size, 1 + round(spare * one.size / total))
            edges = [one.first + one.size * n // parts for n in range(parts + 1)]
            cut += [Slice(one.topic, one.partition, low, high) for low, high in pairwise(edges)]
        return cut

    def limited(self, end: KafkaOffsets, most: int | None) -> KafkaOffsets:
        """Give the end of a batch of so many offsets at most, shared by what each partition has.

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
        # rounded up, so that a partition with little gets on, too
        share = {p: min(n, -(-n * most // total)) for p, n in behind.items()}
        reached = {p: self.offsets.get(p, 0) + n for p, n in share.items()}
        return KafkaOffsets(reached, end.topic_ids)

    def lag_to(self, end: KafkaOffsets) -> int:
        """Number of offsets between."""
        return sum(max(0, o - self.offsets.get(p, 0)) for p, o in end.offsets.items())
