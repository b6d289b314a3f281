"""Asks brokers for topics, partitions and offsets; raises errors of ours.

If all brokers are down, a request fails within two seconds. The library itself would retry until
the time of the request is over.
"""

from __future__ import annotations

import concurrent.futures
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from tidelake.errors import (
    InvalidInputError,
    NotFoundError,
    StorageError,
    StorageRefusedError,
    TidelakeError,
    near_names,
)
from tidelake.kafka import table_options as own
from tidelake.kafka._optional import confluent, confluent_admin
from tidelake.kafka.definition import KafkaTable
from tidelake.kafka.offsets import Partition
from tidelake.kafka.properties import GROUP

REQUEST_SECONDS_MAX = 20
DOWN_SECONDS_MAX = 1.5
"""How long all brokers may be down before a request fails."""
POLL_SECONDS = 0.1
TRIES_MAX = 40
GROUP_DEFAULT = "tidelake"
BROKERS_AWAY = frozenset({"kafka_unreachable", "kafka_no_leader"})
"""The kinds of errors that end by themselves when brokers come back."""
WITHOUT_LEADER = frozenset({"_NOENT", "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION"})
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"

_LOG = logging.getLogger("tidelake.kafka")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = (
    False  # the library logs every attempt to connect; our error names the failure once
)


class Errors:
    """Collects the errors that the library reports to one client's callback."""

    def __init__(self) -> None:
        self.all_down = False
        self.said = ""

    def __call__(self, error: Any) -> None:
        """Take an error."""
        if error.name() == "_ALL_BROKERS_DOWN":
            self.all_down = True
        else:
            self.said = error.str()


def base_settings(table: KafkaTable, errors: Errors) -> dict[str, Any]:
    """Make the settings of every client of a table."""
    return {**table.settings, "error_cb": errors, "logger": _LOG}


def consumer_settings(table: KafkaTable, errors: Errors) -> dict[str, Any]:
    """Make the settings of a reading client, which commits and skips nothing by itself."""
    given = base_settings(table, errors)
    given.setdefault(GROUP, GROUP_DEFAULT)
    given.setdefault("isolation.level", READ_COMMITTED)
    given.setdefault("queued.max.messages.kbytes", 32_768)
    return {
        **given,
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
    }


def kafka_error(error: Any, *, table: KafkaTable, doing: str) -> TidelakeError:
    """Make an error of ours from the library's.

    Parameters
    ----------
    doing : str
        A clause that follows "while", such as "offsets were asked for".
    """
    if isinstance(error, confluent().KafkaException):
        error = error.args[0]
    name, said = error.name(), error.str()
    where = f"table '{table.name}' (broker {table.settings['bootstrap.servers']})"
    context = {"table": table.name}
    if name in {"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"}:
        topics = ", ".join(table.topics)
        message = f"Topic '{topics}' of {where} does not exist: create it, or correct 'topic'."
        return NotFoundError(message, kind="kafka_topic_not_found", **context)
    if name in {"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"}:
        message = (
            f"A message for {where} is larger than the limit: {said}. Raise"
            " 'properties.max.request.size' and the topic's 'max.message.bytes', or write smaller"
            " rows."
        )
        return InvalidInputError(message, kind="kafka_message_too_large", **context)
    if name in {"_INVALID_ARG", "_CONF_UNKNOWN"}:
        setting = re.search(r'property: "([^"]+)"', said)
        option = f" 'properties.{setting[1]}'" if setting else ""
        message = (
            f"The client refuses a setting{option} of {where}: {said}. Use settings of librdkafka."
        )
        return InvalidInputError(message, kind="kafka_setting", **context)
    if "AUTH" in name or "SSL" in name:
        message = f"{where[0].upper()}{where[1:]} refused while {doing}: {said}."
        return StorageRefusedError(message, kind="kafka_refused", **context)
    message = f"Kafka failed while {doing}, {where}: {said} ({name}). Try again."
    return StorageError(message, kind="kafka", **context)


class Client:
    """Finds the topics and offsets of a table. Runs on the driver; not picklable.

    Parameters
    ----------
    patience_s : float
        How long all brokers may be down before an answer is given up.
    """

    def __init__(self, table: KafkaTable, *, patience_s: float = DOWN_SECONDS_MAX) -> None:
        self.table = table
        self._patience_s = patience_s
        self._errors = Errors()
        self._library = confluent()
        self._admin_library = confluent_admin()
        settings = base_settings(table, self._errors)
        self._isolation = settings.pop("isolation.level", READ_COMMITTED)
        try:
            self._admin = self._admin_library.AdminClient(settings)
        except self._library.KafkaException as error:
            raise kafka_error(error, table=table, doing="a client was made") from error

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        close = getattr(self._admin, "close", None)
        if close is not None:
            close()

    def partitions(self) -> tuple[list[Partition], dict[str, str]]:
        """Find the partitions and the identity of each topic.

        Raises
        ------
        NotFoundError
            A topic does not exist.
        StorageError
            No broker answers.
        """
        topics = self.table.topics or self._matching()
        wanted = self._library.TopicCollection(list(topics))
        asked = self._admin.describe_topics(wanted, request_timeout=REQUEST_SECONDS_MAX)
        found: list[Partition] = []
        ids: dict[str, str] = {}
        for topic, answer in asked.items():
            try:
                described = self._answer(answer, doing=f"topic '{topic}' was looked up")
            except NotFoundError:
                raise self._no_topic(topic) from None
            ids[topic] = str(described.topic_id)
            found += [(topic, one.id) for one in described.partitions]
        return sorted(found), ids

    def cluster_id(self) -> str:
        """The identity of the cluster.

        Raises
        ------
        StorageError
            No broker answers.
        """
        answer = self._admin.describe_cluster(request_timeout=REQUEST_SECONDS_MAX)
        return str(self._answer(answer, doing="the cluster was asked for").cluster_id)

    def topic_id(self, topic: str) -> str | None:
        """The identity of a topic; None where there is none of that name.

        Raises
        ------
        StorageError
            No broker answers.
        """
        wanted = self._library.TopicCollection([topic])
        asked = self._admin.describe_topics(wanted, request_timeout=REQUEST_SECONDS_MAX)
        try:
            described = self._answer(asked[topic], doing=f"topic '{topic}' was looked up")
        except NotFoundError:
            return None
        return str(described.topic_id)

    def _no_topic(self, topic: str) -> NotFoundError:
        message = (
            f"Topic '{topic}' of table '{self.table.name}' is not at broker"
            f" {self.table.settings['bootstrap.servers']}.{near_names(topic, self._all_topics())}"
            " Create it, or correct the option 'topic'."
        )
        return NotFoundError(
            message, kind="kafka_topic_not_found", table=self.table.name, topic=topic
        )

    def _all_topics(self) -> list[str]:
        try:
            listed = self._admin.list_topics(timeout=REQUEST_SECONDS_MAX)
        except self._library.KafkaException as error:
            raise kafka_error(error, table=self.table, doing="topics were listed") from error
        return sorted(name for name in listed.topics if not name.startswith("__"))

    def _matching(self) -> list[str]:
        given = self.table.options[own.TOPIC_PATTERN] or ""
        try:
            pattern = re.compile(given)
        except re.error as error:
            message = f"Option 'topic-pattern' = '{given}' is not a regular expression: {error}."
            raise InvalidInputError(message, kind="option_value", option="topic-pattern") from error
        self._check_up()
        found = [topic for topic in self._all_topics() if pattern.fullmatch(topic)]
        if not found:
            message = f"No topic of table '{self.table.name}' matches 'topic-pattern' = '{given}'."
            raise NotFoundError(message, kind="kafka_topic_not_found", table=self.table.name)
        return found

    def _check_up(self) -> None:
        """Ask for the cluster: this request fails early if all brokers are down."""
        answer = self._admin.describe_cluster(request_timeout=REQUEST_SECONDS_MAX)
        self._answer(answer, doing="the cluster was asked for")

    def earliest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Find the oldest offset that Kafka has of each partition."""
        return self._offsets(dict.fromkeys(partitions, self._admin_library.OffsetSpec.earliest()))

    def latest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Find the offset after the last message that no open transaction precedes."""
        return self._offsets(dict.fromkeys(partitions, self._admin_library.OffsetSpec.latest()))

    def at_time(self, partitions: Sequence[Partition], time_ms: int) -> dict[Partition, int]:
        """Find the first offset of this time or later; the latest offset if there is none."""
        if time_ms < 0:
            message = (
                f"Table '{self.table.name}' asks for messages from {time_ms} ms: give a time from"
                " 0 on."
            )
            raise InvalidInputError(message, kind="option_value", table=self.table.name)
        spec = self._admin_library.OffsetSpec.for_timestamp(time_ms)
        found = self._offsets(dict.fromkeys(partitions, spec))
        later = self.latest([p for p, offset in found.items() if offset < 0])
        return {p: later.get(p, offset) for p, offset in found.items()}

    def newest_ms(self, partitions: Iterable[Partition]) -> int | None:
        """Find the time of the newest message; None if there is none that has a time."""
        spec = self._admin_library.OffsetSpec.max_timestamp()
        found = self._listed(dict.fromkeys(partitions, spec))
        return max(
            (int(one.timestamp) for one in found.values() if one.timestamp >= 0), default=None
        )

    def _offsets(self, wanted: Mapping[Partition, Any]) -> dict[Partition, int]:
        return {place: int(one.offset) for place, one in self._listed(wanted).items()}

    def _listed(self, wanted: Mapping[Partition, Any]) -> dict[Partition, Any]:
        """Ask for offsets; gives the library's answers."""
        if not wanted:
            return {}
        for _ in range(TRIES_MAX):  # a broker that just started answers before it leads
            try:
                return self._listed_now(wanted)
            except StorageError as error:
                if error.kind != "kafka_no_leader":
                    raise
            self._admin.poll(POLL_SECONDS)
        return self._listed_now(wanted)

    def _listed_now(self, wanted: Mapping[Partition, Any]) -> dict[Partition, Any]:
        level = self._library.IsolationLevel
        committed = self._isolation != READ_UNCOMMITTED
        asked = self._admin.list_offsets(
            {self._library.TopicPartition(*p): spec for p, spec in wanted.items()},
            isolation_level=level.READ_COMMITTED if committed else level.READ_UNCOMMITTED,
            request_timeout=REQUEST_SECONDS_MAX,
        )
        return {
            (p.topic, p.partition): self._answer(answer, doing="offsets were asked for")
            for p, answer in asked.items()
        }

    def committed(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Find the offsets that the table's group committed; partitions without one are left out.

        Raises
        ------
        InvalidInputError
            The table names no group.
        """
        group = self.table.settings.get(GROUP)
        if not group:
            message = (
                f"Table '{self.table.name}' begins or ends at 'group-offsets' but names no group:"
                " give 'properties.group.id', or another 'scan.startup.mode', such as"
                " 'earliest-offset'."
            )
            raise InvalidInputError(message, kind="option_missing", option="properties.group.id")
        self._check_up()  # the consumer would wait
        errors = Errors()
        consumer = self._library.Consumer(consumer_settings(self.table, errors))
        try:
            found = self._tried(
                lambda: consumer.committed(
                    [self._library.TopicPartition(*p) for p in partitions],
                    timeout=REQUEST_SECONDS_MAX,
                )
            )
        finally:
            consumer.close()
        return {(p.topic, p.partition): p.offset for p in found if p.offset >= 0}

    def _tried(self, call: Callable[[], Any]) -> Any:
        """Repeat a call that a broker refuses while it elects the group's coordinator."""
        for attempt in range(TRIES_MAX):
            try:
                return call()
            except self._library.KafkaException as error:
                if attempt == TRIES_MAX - 1 or "COORDINATOR" not in error.args[0].name():
                    raise kafka_error(
                        error, table=self.table, doing="committed offsets were asked for"
                    ) from error
                self._admin.poll(POLL_SECONDS)
        raise AssertionError

    def _answer(self, answer: concurrent.futures.Future[Any], *, doing: str) -> Any:
        """Wait for an answer, but only briefly if all brokers are down."""
        waited_down = 0.0
        while True:
            try:
                return answer.result(POLL_SECONDS)
            except TimeoutError:
                self._admin.poll(0)
                if not self._errors.all_down:
                    continue
                waited_down += POLL_SECONDS
                if waited_down >= self._patience_s:
                    raise self.unreachable(doing) from None
            except self._library.KafkaException as error:
                if error.args[0].name() in {"_TIMED_OUT", "_TRANSPORT", "_RESOLVE"}:
                    raise self.unreachable(doing) from error
                if error.args[0].name() in WITHOUT_LEADER:
                    raise self._leaderless(doing) from error
                raise kafka_error(error, table=self.table, doing=doing) from error

    def _leaderless(self, doing: str) -> StorageError:
        message = (
            f"Partitions of table '{self.table.name}' have no leader at"
            f" {self.table.settings['bootstrap.servers']} while {doing}: Kafka elects one when a"
            " broker starts. Try again, and check the cluster if it stays so."
        )
        return StorageError(message, kind="kafka_no_leader", table=self.table.name)

    def unreachable(self, doing: str) -> StorageError:
        """Make the error of brokers that do not answer."""
        return unreachable(self.table, self._errors, doing=doing)


def unreachable(table: KafkaTable, errors: Errors, *, doing: str) -> StorageError:
    """Make the error of brokers that do not answer."""
    said = f" The client reports: {errors.said}." if errors.said else ""
    message = (
        f"No broker of table '{table.name}' answers at {table.settings['bootstrap.servers']} while"
        f" {doing}.{said} Check 'properties.bootstrap.servers', and that Kafka runs."
    )
    return StorageError(message, kind="kafka_unreachable", table=table.name)
