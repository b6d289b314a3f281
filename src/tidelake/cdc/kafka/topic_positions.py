"""What offsets of topics say of each other."""

from __future__ import annotations

from tidelake.errors import CorruptError
from tidelake.kafka import KafkaOffsets


class TopicPositions:
    """Positions of a job that reads topics."""

    def is_position(self, text: str) -> bool:
        """Whether a text is one."""
        try:
            KafkaOffsets.from_json(text)
        except CorruptError:
            return False
        return True

    def is_before(self, left: str, right: str) -> bool:
        """Whether a partition of one position is before the other's."""
        begin, end = KafkaOffsets.from_json(left), KafkaOffsets.from_json(right)
        same = {  # a topic that was made again has not been read
            (topic, number): offset
            for (topic, number), offset in begin.offsets.items()
            if begin.topic_ids.get(topic) == end.topic_ids.get(topic)
        }
        return KafkaOffsets(same).lag_to(end) > 0

    def is_between_transactions(self, position: str) -> bool | None:  # noqa: ARG002 - not known
        """None: messages of one transaction lie in several partitions, and do not say its end."""
        return None
