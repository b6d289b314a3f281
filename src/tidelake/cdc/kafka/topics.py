"""Which partitions there are, where they begin and end, and whether topics are still the same."""

from __future__ import annotations

from collections.abc import Mapping

from tidelake.errors import ConflictError, NotFoundError, TidelakeError
from tidelake.kafka import KafkaOffsets
from tidelake.kafka.client import Client
from tidelake.kafka.offsets import Partition
from tidelake.kafka.read_range import checked_start, current_end, fails_on_loss, initial_offsets

_LOST = frozenset({"kafka_offset_lost", "kafka_topic_recreated", "kafka_topic_not_found"})


class Topics:
    """The topics of one job. For one thread."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.ids: Mapping[str, str] = {}
        """The identity of each topic, at the last look."""

    def look(self) -> list[Partition]:
        """Find all partitions.

        Raises
        ------
        NotFoundError
            A topic does not exist.
        """
        partitions, self.ids = self._client.partitions()
        return partitions

    def start(self) -> KafkaOffsets:
        """Find where a new job begins."""
        return _sorted(initial_offsets(self._client))

    def newest(self) -> KafkaOffsets:
        """Find the end of each partition."""
        return _sorted(current_end(self._client))

    def checked(self, start: KafkaOffsets) -> KafkaOffsets:
        """Find where a job goes on: new partitions begin at the oldest message that Kafka has.

        Raises
        ------
        NotFoundError
            Messages were deleted before they were read, or a topic is another one, and
            ``scan.fail-on-data-loss`` is not false: kind ``cdc_position_lost``.
        """
        try:
            latest = current_end(self._client)
            whole = self.with_new(start, list(latest.offsets))
            self.ids = latest.topic_ids
            return _sorted(checked_start(self._client, whole, latest))
        except (NotFoundError, ConflictError) as error:
            raise lost(error) from error

    def with_new(self, start: KafkaOffsets, partitions: list[Partition]) -> KafkaOffsets:
        """Add partitions that a position lacks."""
        new = [p for p in partitions if p not in start.offsets]
        if not new:
            return start
        oldest = self._client.earliest(new)
        ids = {**{p[0]: self.ids[p[0]] for p in new if p[0] in self.ids}, **start.topic_ids}
        return _sorted(KafkaOffsets({**start.offsets, **oldest}, ids))

    def check_same(self, position: KafkaOffsets) -> None:
        """Look that no topic was deleted, or made again, since a position.

        Raises
        ------
        NotFoundError
            One was: kind ``cdc_position_lost``.
        """
        if not fails_on_loss(self._client.table):
            return
        for topic, identity in position.topic_ids.items():
            found = self.ids.get(topic)
            if found == identity:
                continue
            what = "deleted" if found is None else "deleted and created again"
            raise lost_position(f"Topic '{topic}' was {what}.")


def lost(error: TidelakeError) -> TidelakeError:
    """Make the error of a lost position from one of a read; others stay."""
    return lost_position(error.message) if error.kind in _LOST else error


def lost_position(why: str) -> NotFoundError:
    """Make the error of a lost position, from a sentence."""
    message = (
        f"{why} The job's position in Kafka is lost. With 'scan.fail-on-data-loss' ="
        " 'false' the job goes on with the messages that Kafka has; with --on-lost-position"
        " resnapshot it reads again from where 'scan.startup.mode' says, and rows that are there"
        " stay."
    )
    return NotFoundError(message, kind="cdc_position_lost")


def _sorted(offsets: KafkaOffsets) -> KafkaOffsets:
    """The same offsets with the same text, whatever the order in which they were found."""
    topics = {topic for topic, _ in offsets.offsets}
    ids = {t: i for t, i in sorted(offsets.topic_ids.items()) if t in topics}
    return KafkaOffsets(dict(sorted(offsets.offsets.items())), ids)
