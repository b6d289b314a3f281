"""Finds where a read of a table begins and ends, and finds lost messages of a stream.

1. The start: the oldest or latest offsets, a group's committed ones, those of a time, or given
   ones.
2. The end of a bounded read, in the same ways. A batch without a bound ends at the latest offsets
   of now.
3. A stream goes on from a checkpoint; new partitions begin at 0. It stops at a topic that was
   deleted or created again, and at offsets that Kafka no longer has: ``scan.fail-on-data-loss``.

Source: ``KafkaConnectorOptionsUtil`` of Flink's connector.
"""

from __future__ import annotations

import logging
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

_ENTRY = re.compile(r"\s*partition\s*:\s*(\d+)\s*,\s*offset\s*:\s*(\d+)\s*")
EARLIEST, LATEST, NONE = "earliest", "latest", "none"
GOES_ON = f"Set '{own.FAIL_ON_DATA_LOSS.key}' = 'false' to go on with the messages that Kafka has."
WARNED_MAX = 10
_LOG = logging.getLogger("tidelake")


def reset(table: KafkaTable) -> str:
    """Read what to do at a missing offset; ``none``, the default, is to fail.

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
    """Find where a new read begins."""
    partitions, ids = client.partitions()
    return KafkaOffsets(_start(client, partitions), ids)


def current_end(client: Client) -> KafkaOffsets:
    """Find the latest offset of each partition."""
    partitions, ids = client.partitions()
    return KafkaOffsets(client.latest(partitions), ids)


def bounded_end(client: Client) -> KafkaOffsets | None:
    """Find where a bounded read ends; None for an unbounded one."""
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
    """Find the start and the end of a batch.

    Raises
    ------
    NotFoundError
        It begins at an offset that Kafka no longer has.
    """
    start = initial_offsets(client)
    latest = current_end(client)
    bound = bounded_end(client)
    begin = checked_start(client, start, latest)
    ends = {
        p: offset if bound is None else min(offset, bound.offsets.get(p, offset))
        for p, offset in latest.offsets.items()
    }
    return begin, KafkaOffsets(ends, latest.topic_ids)


def fails_on_loss(table: KafkaTable) -> bool:
    """Whether a read fails at lost messages that it has not read."""
    return bool(table.options[own.FAIL_ON_DATA_LOSS])


def checked_start(client: Client, start: KafkaOffsets, latest: KafkaOffsets) -> KafkaOffsets:
    """Find where a read goes on: at `start`, unless Kafka lost those messages.

    Parameters
    ----------
    client : Client
        Finds the oldest offsets.
    latest : KafkaOffsets
        The latest offset of each partition.

    Returns
    -------
    KafkaOffsets
        The start for every partition of `latest`.

    Raises
    ------
    NotFoundError
        Kafka deleted messages, the start lies behind the topic's end, or a topic was deleted; and
        ``scan.fail-on-data-loss`` is not false.
    ConflictError
        A topic was deleted and created again; and ``scan.fail-on-data-loss`` is not false.
    """
    table = client.table
    deleted = sorted({topic for topic, _ in start.offsets} - set(latest.topic_ids))
    recreated = [t for t, i in start.topic_ids.items() if latest.topic_ids.get(t, i) != i]
    oldest = client.earliest(latest.offsets)
    given = {p: start.offsets.get(p, 0) for p in latest.offsets}
    lost = {p: o for p, o in given.items() if not oldest[p] <= o <= latest.offsets[p]}
    if fails_on_loss(table):
        _refuse_other_topics(table, deleted, recreated)
        if lost:
            raise _lost(table, lost, oldest, latest)
        return KafkaOffsets(given, latest.topic_ids)
    lost |= {p: o for p, o in given.items() if p[0] in recreated}
    if deleted or lost:
        _warn(table, deleted, lost)
    given |= {p: latest.offsets[p] if reset(table) == LATEST else oldest[p] for p in lost}
    return KafkaOffsets(given, latest.topic_ids)


def _refuse_other_topics(
    table: KafkaTable, deleted: Sequence[str], recreated: Sequence[str]
) -> None:
    """Refuse a topic that was deleted, or deleted and created again."""
    for topic in recreated:
        message = (
            f"Topic '{topic}' of table '{table.name}' was deleted and created again; the"
            f" checkpoint belongs to the old topic. Start with a new checkpoint. {GOES_ON}"
        )
        raise ConflictError(message, kind="kafka_topic_recreated", table=table.name)
    for topic in deleted:
        message = (
            f"Topic '{topic}' of table '{table.name}' was deleted, perhaps with unread messages:"
            f" 'topic-pattern' matched it before. {GOES_ON}"
        )
        raise NotFoundError(message, kind="kafka_topic_not_found", table=table.name, topic=topic)


def _warn(table: KafkaTable, deleted: Sequence[str], lost: Mapping[Partition, int]) -> None:
    places = [f"topic '{topic}' was deleted" for topic in deleted]
    places += [f"offset {o} of partition {n} of topic '{t}' is lost" for (t, n), o in lost.items()]
    _LOG.warning(
        "the read of table '%s' goes on without unread messages: %s",
        table.name,
        "; ".join(places[:WARNED_MAX]),
    )


def _lost(
    table: KafkaTable,
    lost: Mapping[Partition, int],
    oldest: Mapping[Partition, int],
    latest: KafkaOffsets,
) -> NotFoundError:
    (topic, number), offset = sorted(lost.items())[0]
    has = f"{oldest[topic, number]} to {latest.offsets[topic, number]}"
    message = (
        f"Offset {offset} of partition {number} of topic '{topic}' (table '{table.name}') is lost:"
        f" Kafka has {has}. Messages were deleted before they were read, or the topic was emptied."
        f" {GOES_ON}"
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
                f" {number} of topic '{topic}': use another mode than 'group-offsets', or"
                " 'properties.auto.offset.reset' = 'earliest' or 'latest'."
            )
            raise NotFoundError(message, kind="kafka_offset_lost", table=table.name, topic=topic)


def _given(
    table: KafkaTable, option: Option[Any], partitions: Sequence[Partition]
) -> dict[Partition, int]:
    """Parse ``partition:0,offset:42;partition:1,offset:300``."""
    text = str(table.options[option])
    if len(table.topics) != 1:
        message = f"Option '{option.key}' of table '{table.name}' needs one 'topic'."
        raise InvalidInputError(message, kind="option_value", option=option.key)
    found: dict[Partition, int] = {}
    for part in filter(str.strip, text.split(";")):
        entry = _ENTRY.fullmatch(part)
        if entry is None:
            message = (
                f"Option '{option.key}' of table '{table.name}' is '{text}' but must be pairs such"
                " as 'partition:0,offset:42;partition:1,offset:300'."
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
