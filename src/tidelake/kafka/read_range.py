"""Where a read of a table begins and ends, by its options; and what a stream finds on its way.

1. The start: oldest or latest offset, those that a group committed, those at a time, or given ones.
2. The end of a bounded read, by the same words; a batch that is not bounded ends at what is the
   latest offset now.
3. A stream goes on from a checkpoint: partitions that are new begin at 0, a topic that was made
   again is refused, and offsets that Kafka no longer has are refused with what there is.

Source: ``KafkaConnectorOptionsUtil`` of Flink's connector.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tidelake.errors import ConflictError, InvalidInputError, NotFoundError
from tidelake.kafka import table_options as own
from tidelake.kafka.client import Client
from tidelake.kafka.definition import KafkaTable
from tidelake.kafka.offsets import KafkaOffsets, Partition
from tidelake.kafka.properties import AUTO_OFFSET_RESET
from tidelake.options.option import Option

__all__ = ["batch_range", "bounded_end", "checked_start", "current_end", "initial_offsets", "reset"]

_ENTRY = re.compile(r"\s*partition\s*:\s*(\d+)\s*,\s*offset\s*:\s*(\d+)\s*")
EARLIEST, LATEST, NONE = "earliest", "latest", "none"


def reset(table: KafkaTable) -> str:
    """What a reader does where an offset is missing: ``none`` is to fail, the default.

    Raises
    ------
    InvalidInputError
        The setting has another value.
    """
    given = str(table.settings.get(AUTO_OFFSET_RESET, NONE))
    if given not in {EARLIEST, LATEST, NONE}:
        message = (
            f"Option 'properties.auto.offset.reset' of table '{table.name}' is '{given}' but must"
            " be none, earliest or latest."
        )
        raise InvalidInputError(message, kind="option_value", option=AUTO_OFFSET_RESET)
    return given


def initial_offsets(client: Client) -> KafkaOffsets:
    """Where a new read begins."""
    partitions, ids = client.partitions()
    return KafkaOffsets(_start(client, partitions), ids)


def current_end(client: Client) -> KafkaOffsets:
    """What is the latest offset of each partition now."""
    partitions, ids = client.partitions()
    return KafkaOffsets(client.latest(partitions), ids)


def bounded_end(client: Client) -> KafkaOffsets | None:
    """Where a bounded read ends; None for one that does not."""
    options = client.table.options
    mode = options[own.BOUNDED_MODE]
    if mode == "unbounded":
        return None
    partitions, ids = client.partitions()
    if mode == "group-offsets":
        ends = client.committed(partitions)
        _all_committed(client.table, partitions, ends)
    elif mode == "timestamp":
        ends = client.at_time(partitions, options[own.BOUNDED_TIMESTAMP] or 0)
    else:
        ends = client.latest(partitions)
        if mode == "specific-offsets":
            ends |= _given(client.table, own.BOUNDED_OFFSETS, partitions)
    return KafkaOffsets(ends, ids)


def batch_range(client: Client) -> tuple[KafkaOffsets, KafkaOffsets]:
    """The start and the end of a batch.

    Raises
    ------
    NotFoundError
        It begins where Kafka has no messages any more.
    """
    start = initial_offsets(client)
    latest = current_end(client)
    bound = bounded_end(client)
    ends = {
        p: offset if bound is None else min(offset, bound.offsets.get(p, offset))
        for p, offset in latest.offsets.items()
    }
    end = KafkaOffsets(ends, latest.topic_ids)
    return checked_start(client, start, end), end


def checked_start(client: Client, start: KafkaOffsets, end: KafkaOffsets) -> KafkaOffsets:
    """Give the start, of what Kafka still has.

    Raises
    ------
    NotFoundError
        Messages between were deleted by Kafka, or lie behind the topic's end, and
        ``properties.auto.offset.reset`` does not say what to do.
    ConflictError
        A topic was dropped and made again.
    """
    for topic, known in start.topic_ids.items():
        found = end.topic_ids.get(topic)
        if found is not None and found != known:
            message = (
                f"Topic '{topic}' of table '{client.table.name}' was dropped and made again: what"
                " the checkpoint read was another topic. Start with a new checkpoint."
            )
            raise ConflictError(message, kind="kafka_topic_recreated", table=client.table.name)
    oldest = client.earliest(end.offsets)
    latest: Mapping[Partition, int] = {}
    given = {p: start.offsets.get(p, 0) for p in end.offsets}
    lost = {p: offset for p, offset in given.items() if offset < oldest[p]}
    beyond = {p: o for p, o in given.items() if o > end.offsets[p]}
    if beyond:
        latest = client.latest(beyond)
    lost |= {p: o for p, o in beyond.items() if o > latest[p]}
    if lost:
        action = reset(client.table)
        if action == NONE:
            raise _lost(client.table, lost, oldest, end)
        given |= {p: oldest[p] if action == EARLIEST else end.offsets[p] for p in lost}
    return KafkaOffsets(given, end.topic_ids)


def _lost(
    table: KafkaTable,
    lost: Mapping[Partition, int],
    oldest: Mapping[Partition, int],
    end: KafkaOffsets,
) -> NotFoundError:
    (topic, number), offset = sorted(lost.items())[0]
    has = f"{oldest[topic, number]} to {end.offsets[topic, number]}"
    message = (
        f"Offset {offset} of partition {number} of topic '{topic}' (table '{table.name}') is lost:"
        f" Kafka has {has}. Messages were deleted before they were read, or the topic was emptied."
        " Set 'properties.auto.offset.reset' = 'earliest' to go on with what there is."
    )
    return NotFoundError(
        message, kind="kafka_offset_lost", table=table.name, topic=topic, offset=offset
    )


def _start(client: Client, partitions: Sequence[Partition]) -> dict[Partition, int]:
    table, options = client.table, client.table.options
    mode = "earliest-offset" if table.is_upsert else options[own.STARTUP_MODE]
    if mode == "earliest-offset":
        return client.earliest(partitions)
    if mode == "latest-offset":
        return client.latest(partitions)
    if mode == "timestamp":
        return client.at_time(partitions, options[own.STARTUP_TIMESTAMP] or 0)
    if mode == "specific-offsets":
        given = _given(table, own.STARTUP_OFFSETS, partitions)
        return {**client.earliest(partitions), **given}
    found = client.committed(partitions)
    missing = [p for p in partitions if p not in found]
    action = reset(table)
    if missing and action == NONE:
        _all_committed(table, partitions, found)
    return {**found, **(client.earliest if action == EARLIEST else client.latest)(missing)}


def _all_committed(
    table: KafkaTable, partitions: Sequence[Partition], found: Mapping[Partition, int]
) -> None:
    for topic, number in partitions:
        if (topic, number) not in found:
            group = table.settings.get("group.id")
            message = (
                f"Group '{group}' of table '{table.name}' has committed no offset of partition"
                f" {number} of topic '{topic}': give another mode than 'group-offsets', or"
                " 'properties.auto.offset.reset' = 'earliest' or 'latest'."
            )
            raise NotFoundError(message, kind="kafka_offset_lost", table=table.name, topic=topic)


def _given(
    table: KafkaTable, option: Option[Any], partitions: Sequence[Partition]
) -> dict[Partition, int]:
    """Read ``partition:0,offset:42;partition:1,offset:300``."""
    text = str(table.options[option])
    if len(table.topics) != 1:
        message = f"Option '{option.key}' of table '{table.name}' needs one 'topic'."
        raise InvalidInputError(message, kind="option_value", option=option.key)
    found: dict[Partition, int] = {}
    for part in filter(str.strip, text.split(";")):
        entry = _ENTRY.fullmatch(part)
        if entry is None:
            message = (
                f"Option '{option.key}' of table '{table.name}' is '{text}' but must be pairs:"
                " 'partition:0,offset:42;partition:1,offset:300'."
            )
            raise InvalidInputError(message, kind="option_value", option=option.key)
        place = (table.topics[0], int(entry[1]))
        if place not in partitions:
            message = (
                f"Option '{option.key}' of table '{table.name}' names partition {entry[1]}, but"
                f" topic '{table.topics[0]}' has {len(partitions)}."
            )
            raise InvalidInputError(message, kind="option_value", option=option.key)
        found[place] = int(entry[2])
    return found
