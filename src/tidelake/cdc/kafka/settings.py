"""What a user says of topics: Paimon's ``--kafka_conf``, the options of Flink's connector.

Our own are ``schema-from``, ``order-from`` and ``schema-init-max-read``. Unlike Flink, a job that
names no group begins at the earliest offset, not at a group's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelake.cdc.kafka.events import EventFormat
from tidelake.cdc.kafka.formats.avro import AvroRows, DebeziumAvro
from tidelake.cdc.kafka.formats.debezium_json import DebeziumJson
from tidelake.cdc.kafka.formats.rules import RULES, RuledJson
from tidelake.cdc.kafka.registry import SchemaRegistry
from tidelake.cdc.source.type_mapping import TypeMapping
from tidelake.errors import InvalidInputError, UnsupportedError, near_names
from tidelake.kafka import KafkaTable
from tidelake.types import DataField, parse_type

PROPERTIES, GROUP, MODE = "properties.", "properties.group.id", "scan.startup.mode"
FORMAT, REGISTRY, TOPIC = "value.format", "schema.registry.url", "topic"
SCHEMA_FROM, ORDER_FROM, PEEKED = "schema-from", "order-from", "schema-init-max-read"
TEXTS, KINDS = "string", "message"
PLACES, OFFSETS = "source", "offset"
PEEKED_MAX = 1_000
"""Messages of a partition that are looked at to find tables, from its begin and from its end."""
_CHOICES = {SCHEMA_FROM: (TEXTS, KINDS), ORDER_FROM: (PLACES, OFFSETS)}
_OF_READS = (
    "topic-pattern", MODE, "scan.startup.specific-offsets", "scan.startup.timestamp-millis",
    "scan.topic-partition-discovery.interval", "scan.fail-on-data-loss",
)  # fmt: skip
KEYS = (FORMAT, TOPIC, *_OF_READS, REGISTRY, SCHEMA_FROM, ORDER_FROM, PEEKED)
DEBEZIUM_JSON, DEBEZIUM_AVRO, AVRO = "debezium-json", "debezium-avro", "avro"
FORMATS = (DEBEZIUM_JSON, DEBEZIUM_AVRO, AVRO, *RULES)
_NAME = "kafka"


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Topics with change events. Picklable.

    Parameters
    ----------
    topics : KafkaTable
        Topics, startup mode and the client's settings, as a table of raw messages.
    group : str or None
        The group whose offsets are shown in Kafka.
    peeked_max : int
        How many messages of a partition are looked at to find tables.
    """

    topics: KafkaTable
    format: str
    group: str | None = None
    registry_url: str = field(default="", repr=False)
    mapping: TypeMapping = field(default_factory=TypeMapping)
    takes_kinds: bool = False
    uses_places: bool = True
    peeked_max: int = PEEKED_MAX

    @classmethod
    def of(cls, conf: Mapping[str, str], mapping: TypeMapping | None = None) -> KafkaSettings:
        """Read settings.

        Parameters
        ----------
        conf : mapping of str to str
            As of ``--kafka_conf``.

        Raises
        ------
        InvalidInputError
            One is missing, not known or has a wrong value; the message has near names.
        UnsupportedError
            The format is one of Paimon's that we do not read.
        """
        for key in conf:
            if key not in KEYS and not key.startswith(PROPERTIES):
                hint = near_names(key, KEYS) or f" Known: {PROPERTIES}*, {', '.join(KEYS)}."
                message = f"There is no setting '{key}' of Kafka.{hint}"
                raise InvalidInputError(message, kind="option_unknown", option=key)
        form = _format(conf)
        for key, known in _CHOICES.items():
            if conf.get(key, known[0]) not in known:
                message = f"Setting '{key}' of Kafka is '{conf[key]}': use {' or '.join(known)}."
                raise InvalidInputError(message, kind="option_value", option=key)
        options = {key: conf[key] for key in _OF_READS if key in conf}
        options |= {key: value for key, value in conf.items() if key.startswith(PROPERTIES)}
        if TOPIC in conf:
            options[TOPIC] = conf[TOPIC].replace(",", ";")
        if conf.get(GROUP) is None:
            options.setdefault(MODE, "earliest-offset")
        options |= {"connector": "kafka", "format": "raw"}
        topics = KafkaTable.of(_NAME, (DataField(0, "value", parse_type("BYTES")),), options)
        return cls(
            topics,
            form,
            conf.get(GROUP),
            conf.get(REGISTRY, ""),
            mapping or TypeMapping(),
            conf.get(SCHEMA_FROM) == KINDS,
            conf.get(ORDER_FROM) != OFFSETS,
            _count(conf),
        )

    def reader(self) -> EventFormat:
        """Make the reader of messages; each task makes its own."""
        given: dict[str, Any] = {"mapping": self.mapping}
        if self.format == AVRO:
            return AvroRows(SchemaRegistry(self.registry_url), **given)
        if self.format == DEBEZIUM_AVRO:
            registry = SchemaRegistry(self.registry_url)
            return DebeziumAvro(registry, uses_places=self.uses_places, **given)
        if self.format == DEBEZIUM_JSON:
            return DebeziumJson(uses_places=self.uses_places)
        return RuledJson(RULES[self.format], uses_places=self.uses_places, **given)


def _format(conf: Mapping[str, str]) -> str:
    form = conf.get(FORMAT)
    if form is None:
        message = f"Setting '{FORMAT}' of Kafka is missing: one of {', '.join(FORMATS)}."
        raise InvalidInputError(message, kind="option_missing", option=FORMAT)
    if form == "debezium-bson":
        message = (
            "Messages of 'debezium-bson', which are of MongoDB, are not read: nothing could prove"
            f" that they are read right. Use one of {', '.join(FORMATS)}."
        )
        raise UnsupportedError(message, kind="option_unsupported", option=FORMAT)
    if form not in FORMATS:
        hint = near_names(form, FORMATS) or f" Known: {', '.join(FORMATS)}."
        message = f"There is no '{FORMAT}' of '{form}'.{hint}"
        raise InvalidInputError(message, kind="option_value", option=FORMAT)
    if form in (AVRO, DEBEZIUM_AVRO) and not conf.get(REGISTRY):
        message = f"'{FORMAT}' = '{form}' needs '{REGISTRY}': the schemas are in the registry."
        raise InvalidInputError(message, kind="option_missing", option=REGISTRY)
    return form


def _count(conf: Mapping[str, str]) -> int:
    given = conf.get(PEEKED, str(PEEKED_MAX))
    if not given.isdigit() or int(given) < 1:
        message = f"Setting '{PEEKED}' of Kafka is '{given}': give a number of messages from 1 on."
        raise InvalidInputError(message, kind="option_value", option=PEEKED)
    return int(given)
