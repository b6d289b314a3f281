"""``avro`` and ``debezium-avro`` with a schema registry over HTTP."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal

import pytest
from servers.schema_registry import SchemaRegistry

from tidelake.cdc.kafka.formats.avro import AvroRows, DebeziumAvro
from tidelake.cdc.kafka.messages import MessageBatch
from tidelake.cdc.kafka.registry import SchemaRegistry as Client
from tidelake.cdc.kafka.row_changes import Tables, row_changes
from tidelake.cdc.source.source_table import SourceName
from tidelake.errors import NotFoundError, StorageError, StorageRefusedError

SHOWN = {0: "+I", 2: "+U", 3: "-D"}
KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture
def registry():
    made = SchemaRegistry()
    yield made
    made.close()


def named(kind, name, **more):
    return {"type": kind, "connect.name": name, "connect.version": 1, **more}


def maybe(kind):
    return ["null", kind]


FIELDS = [
    ("id", "long", 1, "BIGINT", 1),
    ("small", maybe({"type": "int", "connect.type": "int16"}), 7, "SMALLINT", 7),
    ("whole", maybe("int"), 8, "INT", 8),
    ("real", maybe("double"), 1.5, "DOUBLE", 1.5),
    ("single", maybe("float"), 2.5, "FLOAT", 2.5),
    ("flag", maybe("boolean"), True, "BOOLEAN", True),
    ("name", maybe("string"), "ö", "STRING", "ö"),
    ("data", maybe("bytes"), b"\0\xff", "BYTES", b"\0\xff"),
    ("day", maybe(named("int", "io.debezium.time.Date")), 19_439, "DATE", dt.date(2023, 3, 23)),
    ("day2", maybe({"type": "int", "logicalType": "date"}), dt.date(2023, 3, 23), "DATE",
     dt.date(2023, 3, 23)),
    ("at", maybe(named("long", "io.debezium.time.MicroTimestamp")), 1_500_000, "TIMESTAMP(6)",
     dt.datetime(1970, 1, 1, 0, 0, 1, 500_000)),
    ("at2", maybe({"type": "long", "logicalType": "timestamp-millis"}),
     dt.datetime(2023, 3, 23, 1, tzinfo=dt.UTC), "TIMESTAMP(3)", dt.datetime(2023, 3, 23, 1)),
    ("zoned", maybe(named("string", "io.debezium.time.ZonedTimestamp")), "2023-03-23T07:00:10Z",
     "TIMESTAMP(6)", dt.datetime(2023, 3, 23, 7, 0, 10)),
    ("clock", maybe(named("long", "io.debezium.time.MicroTime")), 36_803_000_000, "TIME(3)",
     dt.time(10, 13, 23)),
    ("price", maybe(named("bytes", "org.apache.kafka.connect.data.Decimal", scale=2, precision=8,
                          logicalType="decimal")), Decimal("12.34"), "DECIMAL(8, 2)",
     Decimal("12.34")),
    ("tags", maybe({"type": "array", "items": "string"}), ["a"], "STRING", '["a"]'),
    ("kind", maybe({"type": "enum", "name": "Kind", "symbols": ["A", "B"]}), "B", "STRING", "B"),
    ("wide", maybe({"type": "string", "connect.parameters": {
        "__debezium.source.column.type": "DECIMAL", "__debezium.source.column.length": "2",
        "__debezium.source.column.scale": "1"}}), "1.1", "DECIMAL(2, 1)", Decimal("1.1")),
    ("unsigned", maybe({"type": "int", "connect.parameters": {
        "__debezium.source.column.type": "TINYINT UNSIGNED",
        "__debezium.source.column.length": "2"}}), 3, "SMALLINT", 3),
]  # fmt: skip


def value_record(name="Value", fields=FIELDS):
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": n, "type": kind} for n, kind, *_ in fields],
    }


def envelope(fields=FIELDS):
    source = [
        ("connector", "string"), ("ts_ms", "long"), ("db", "string"), ("schema", maybe("string")),
        ("table", "string"), ("lsn", maybe("long")),
    ]  # fmt: skip
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.public.items",
        "fields": [
            {"name": "before", "type": ["null", value_record(fields=fields)], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": {"type": "record", "name": "Source", "fields": [
                {"name": n, "type": kind} for n, kind in source]}},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": maybe("long")},
        ],
    }  # fmt: skip


def change(op, before, after, lsn):
    source = {
        "connector": "postgresql", "ts_ms": 9, "db": "shop", "schema": "public", "table": "items",
        "lsn": lsn,
    }  # fmt: skip
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 10}


def read(form, values, keys=None, tables=None):
    batch = MessageBatch.of_values(values, keys)
    events = form.events(batch)
    return [row_changes(one, batch, tables or Tables()) for one in events.tables], events


def test_debezium_avro(registry):
    number, key = registry.register(envelope()), registry.register(KEY)
    full = {name: value for name, _, value, *_ in FIELDS}
    empty = {**dict.fromkeys(full), "id": 2}
    values = [
        registry.message(number, change("c", None, full, 5)),
        registry.message(number, change("u", full, empty, 6)),
        None,
        registry.message(number, change("d", empty, None, 7)),
        b"junk",
        registry.message(number, change("c", None, full, 8))[:-3],
    ]
    form = DebeziumAvro(Client(registry.url))
    (part,), events = read(form, values, [registry.message(key, {"id": 1})] * 6)
    assert [SHOWN[k] for k in part.kinds.tolist()] == ["+I", "+U", "-D"]
    first, second, third = part.rows.to_pylist()
    assert first == {name: wanted for name, *_, wanted in FIELDS}
    assert second == third == empty
    assert {f.name: str(f.type) for f in part.table.fields} == {f[0]: f[3] for f in FIELDS}
    assert part.table.keys == ("id",)
    assert part.table.name == SourceName("shop", "public", "items")
    assert part.order.tolist() == [[5, 0], [6, 2], [7, 6]]
    assert sorted(events.bad) == [4, 5]
    assert "does not begin with the number" in events.bad[4]
    assert sorted(registry.asked) == [1, 2]


def test_a_new_schema_of_the_registry_is_a_new_version(registry):
    old = registry.register(envelope(FIELDS[:1]))
    new = registry.register(envelope([FIELDS[0], FIELDS[6]]))
    values = [
        registry.message(old, change("c", None, {"id": 1}, 5)),
        registry.message(new, change("c", None, {"id": 2, "name": "b"}, 6)),
    ]
    parts, _ = read(DebeziumAvro(Client(registry.url)), values)
    assert [part.rows.to_pylist() for part in parts] == [[{"id": 1}], [{"id": 2, "name": "b"}]]


def test_a_record_of_avro_is_a_row_of_the_topic(registry):
    number = registry.register(value_record(fields=FIELDS[:3]))
    values = [registry.message(number, {"id": 1, "small": 2, "whole": None})]
    (part,), _ = read(AvroRows(Client(registry.url)), values, [b'{"id": 1}'])
    assert part.rows.to_pylist() == [{"id": 1, "small": 2, "whole": None}]
    assert (part.table.name, part.table.keys) == (SourceName("", "", "t"), ("id",))
    assert part.kinds.tolist() == [2]


def test_a_schema_that_is_not_there_is_an_error(registry):
    with pytest.raises(NotFoundError, match="Schema 9 is not in the schema registry"):
        Client(registry.url)(9)


def test_a_registry_that_is_busy_is_asked_again(registry):
    registry.register(KEY)
    registry.failures = 2
    client = Client(registry.url)
    assert '"Key"' in client(1)
    assert client(1) == pickle.loads(pickle.dumps(client))(1)
    assert len(registry.asked) == 3


def test_a_registry_that_is_down_is_named_without_its_password():
    with pytest.raises(StorageError, match=r"http://127.0.0.1:1 does not answer") as caught:
        Client("http://me:secret@127.0.0.1:1")(1)
    assert "secret" not in str(caught.value)


def test_a_registry_may_ask_for_a_password():
    registry = SchemaRegistry("me:secret")
    registry.register(KEY)
    assert '"Key"' in Client(registry.url)(1)
    with pytest.raises(StorageRefusedError, match="check user and password"):
        Client(registry.url.replace("secret", "other"))(1)
    registry.close()
