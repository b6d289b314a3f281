"""Settings of topics have Flink's names; what is not known is refused."""

from __future__ import annotations

import pickle

import pytest

from tidelake.cdc.kafka.formats.avro import AvroRows, DebeziumAvro
from tidelake.cdc.kafka.formats.debezium_json import DebeziumJson
from tidelake.cdc.kafka.formats.rules import RuledJson
from tidelake.cdc.kafka.settings import FORMATS, KafkaSettings
from tidelake.errors import InvalidInputError, UnsupportedError

LEAST = {
    "properties.bootstrap.servers": "127.0.0.1:1",
    "topic": "a,b;c",
    "value.format": "canal-json",
}


def settings(**more):
    given = {**LEAST, **{key.replace("__", "."): value for key, value in more.items()}}
    return KafkaSettings.of({key: value for key, value in given.items() if value is not None})


def test_the_least_that_is_said():
    made = settings()
    assert made.topics.topics == ("a", "b", "c")
    assert made.topics.raw["scan.startup.mode"] == "earliest-offset"
    assert made.group is None
    assert made.peeked_max == 1_000
    assert pickle.loads(pickle.dumps(made)) == made


def test_a_group_begins_at_its_offsets_as_in_flink():
    made = settings(properties__group__id="g")
    assert "scan.startup.mode" not in made.topics.raw
    assert made.group == "g"


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"value__format": None}, "option_missing", "'value.format' of Kafka is missing"),
        ({"value__format": "canal"}, "option_value", "canal-json"),
        ({"value__form": "x"}, "option_unknown", "value.format"),
        ({"scan__startup__mod": "x"}, "option_unknown", "scan.startup.mode"),
        ({"what": "x"}, "option_unknown", "Known: properties"),
        ({"scan__startup__mode": "initial"}, "option_value", "scan.startup.mode"),
        ({"scan__startup__mode": "timestamp"}, "option_missing", "timestamp-millis"),
        ({"topic": None}, "option_missing", "'topic'"),
        ({"topic-pattern": "a.*"}, "option_value", "exclude each other"),
        ({"properties__bootstrap__servers": None}, "option_missing", "bootstrap.servers"),
        ({"value__format": "avro"}, "option_missing", "'schema.registry.url'"),
        ({"schema-from": "table"}, "option_value", "use string or message"),
        ({"order-from": "time"}, "option_value", "use source or offset"),
        ({"schema-init-max-read": "0"}, "option_value", "from 1 on"),
    ],
)
def test_what_is_wrong_is_named(given, kind, message):
    with pytest.raises(InvalidInputError) as caught:
        settings(**given)
    assert caught.value.kind == kind
    assert message in str(caught.value)


def test_mongodb_is_refused():
    with pytest.raises(UnsupportedError, match="debezium-bson"):
        settings(value__format="debezium-bson")


def test_each_format_has_a_reader():
    url = {"schema.registry.url": "http://127.0.0.1:1"}
    made = {name: settings(value__format=name, **url).reader() for name in FORMATS}
    assert {type(one) for one in made.values()} == {
        AvroRows, DebeziumAvro, DebeziumJson, RuledJson
    }  # fmt: skip


def test_secrets_are_not_shown():
    made = settings(
        properties__sasl__password="secret1",
        **{"schema.registry.url": "http://me:secret2@h"},
    )
    assert "secret" not in repr(made)
