"""Declarations of tables: what is missing, misspelt or does not fit is refused by name."""

import pickle

import pytest
from unit.kafka.conftest import columns

from tidelake.errors import CorruptError, InvalidInputError, UnsupportedError
from tidelake.kafka.definition import KafkaTable, MetadataColumn
from tidelake.kafka.offsets import KafkaOffsets

TWO = columns(id="BIGINT", name="STRING")
GIVEN = {
    "connector": "kafka", "topic": "t", "properties.bootstrap.servers": "b:9092", "format": "json",
}  # fmt: skip
KEYED = {"key.format": "json", "key.fields": "id"}
UPSERT = {"connector": "upsert-kafka", "key.format": "json"}


def table(fields=TWO, metadata=None, primary_keys=(), drop=(), **more):
    options = {key: value for key, value in {**GIVEN, **more}.items() if key not in drop}
    return KafkaTable.of("orders", fields, options, metadata=metadata, primary_keys=primary_keys)


def test_a_declaration_says_what_is_in_key_and_value():
    made = table(
        **KEYED, **{"value.fields-include": "EXCEPT_KEY", "json.ignore-parse-errors": "true"}
    )
    assert made.key.names == ("id",)
    assert made.value.names == ("name",)
    assert pickle.loads(pickle.dumps(made)) == made


def test_options_of_formats_have_the_prefix_of_their_part():
    made = table(
        **KEYED, drop=["format"],
        **{"value.format": "json", "value.json.ignore-parse-errors": "true",
           "key.json.fail-on-missing-field": "true"},
    )  # fmt: skip
    assert made.value.options.values == {"json.ignore-parse-errors": True}
    assert made.key.options.values == {"json.fail-on-missing-field": True}


def test_passwords_are_not_shown():
    made = table(
        **{"properties.sasl.jaas.config": 'org.apache.kafka.common.security.plain.PlainLoginModule'
           ' required username="u" password="secret";'},
    )  # fmt: skip
    assert made.settings["sasl.password"] == "secret"
    assert "secret" not in repr(made)


@pytest.mark.parametrize(
    ("said", "how"),
    [
        (r"unknown option 'scan\.start\.mode'.*Did you mean 'scan\.startup\.mode'", {"scan.start.mode": "x"}),
        (r"unknown option 'json\.ignore'", {"json.ignore": "true"}),
        (r"'scan\.startup\.mode' .*must be one of", {"scan.startup.mode": "newest"}),
        (r"needs the option 'properties\.bootstrap\.servers'", {"drop": ["properties.bootstrap.servers"]}),
        ("needs the option 'format'", {"drop": ["format"]}),
        ("needs the option 'topic'", {"drop": ["topic"]}),
        ("exclude each other", {"topic-pattern": "a.*"}),
        ("not a format of messages.*Did you mean 'avro'", {"format": "avr"}),
        ("give one of them", {"value.format": "json"}),
        (r"'key\.fields' .* names no column 'idd' in messages Did you mean 'id'", {**KEYED, "key.fields": "idd"}),
        (r"needs the option 'key\.format'", {"key.fields": "id"}),
        (r"needs the option 'key\.fields'", {"key.format": "json"}),
        (r"needs 'value\.fields-include' = 'EXCEPT_KEY'", {**KEYED, "key.fields-prefix": "i"}),
        ("leaves no column", {**KEYED, "key.fields": "id;name", "value.fields-include": "EXCEPT_KEY"}),
        ("is a change log, which a key cannot be", {**KEYED, "key.format": "canal-json"}),
        (r"needs the option 'scan\.startup\.timestamp-millis'", {"scan.startup.mode": "timestamp"}),
        (r"needs the option 'scan\.bounded\.specific-offsets'", {"scan.bounded.mode": "specific-offsets"}),
        (r"needs the option 'scan\.dead-letter-table'", {"scan.bad-record": "dead-letter"}),
        (r"needs 'scan\.bad-record' = 'dead-letter'", {"scan.dead-letter-table": "a.b"}),
        ("exactly-once.*not supported", {"sink.delivery-guarantee": "exactly-once"}),
        ("needs a PRIMARY KEY", UPSERT),
        ("messages of the format 'json' in connector 'kafka' are inserts", {"primary_keys": ["id"]}),
        ("change log: 'upsert-kafka' has changes", {**UPSERT, "primary_keys": ["id"], "format": "debezium-json"}),
        ("must be 'earliest-offset'", {**UPSERT, "primary_keys": ["id"], "scan.startup.mode": "latest-offset"}),
        ("leave it out", {**UPSERT, "primary_keys": ["id"], "key.fields": "id"}),
        (r"key stores: give\s+certificates in PEM", {"properties.ssl.truststore.location": "x.jks"}),
        ("PlainLoginModule", {"properties.sasl.jaas.config": "GssLogin required;"}),
        ("METADATA FROM 'offzet'.*Did you mean 'offset'", {"metadata": {"id": MetadataColumn("offzet")}}),
        ("is STRING, but METADATA FROM 'offset' is BIGINT", {"metadata": {"name": MetadataColumn("offset")}}),
        ("read-only: write VIRTUAL", {"metadata": {"id": MetadataColumn("offset")}}),
        ("needs a column that is not metadata",
         {"metadata": {n: MetadataColumn("offset", is_virtual=True) for n in ("id", "name")}}),
        ("Column 'v'.* cannot be in messages of JSON", {"fields": columns(v="MAP<INT, INT>")}),
    ],
)  # fmt: skip
def test_a_wrong_declaration_is_refused(said, how):
    with pytest.raises((InvalidInputError, UnsupportedError), match=said):
        table(**how)


def test_options_for_one_use_are_checked_alike():
    assert table().with_options({"scan.bad-record": "skip"}).raw["scan.bad-record"] == "skip"
    with pytest.raises(InvalidInputError, match="Did you mean"):
        table().with_options({"scan.bad-records": "skip"})


def test_an_offset_of_a_later_version_or_another_kind_is_refused():
    for text in ('{"v": 2}', "[]", "{", '{"v": 1, "offsets": {"t": 3}, "ids": {}}'):
        with pytest.raises(CorruptError):
            KafkaOffsets.from_json(text)


def test_a_batch_is_limited_and_every_partition_gets_on():
    end = KafkaOffsets({("t", 0): 1_000_000, ("t", 1): 1, ("t", 2): 0})
    start = KafkaOffsets({("t", 0): 0, ("t", 1): 0, ("t", 2): 0})
    reached = start.limited(end, 10)
    assert reached.offsets == {("t", 0): 10, ("t", 1): 1, ("t", 2): 0}
    assert start.lag_to(end) == 1_000_001
    assert start.limited(end, None) == end
