"""``debezium-json``: envelopes with and without a schema, and Debezium's types."""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal

import pytest
from unit.cdc.kafka.change_stream import debezium

from tidelake.cdc.kafka.formats.debezium_json import DebeziumJson
from tidelake.cdc.kafka.messages import MessageBatch
from tidelake.cdc.kafka.row_changes import Tables, row_changes
from tidelake.cdc.kafka.wire import WireForm, column, declared_column
from tidelake.cdc.source.source_table import SourceName
from tidelake.types import DataField, parse_type

ITEMS = SourceName("shop", "public", "items")
KEY = b'{"id": 1}'


def read(*values, keys=None, tables=None, others=(), **given):
    batch = MessageBatch.of_values(values, [KEY] * len(values) if keys is None else keys)
    events = DebeziumJson(**given).events(batch)
    tables = tables or Tables()
    of_key = lambda _: frozenset(others)  # noqa: E731
    return [row_changes(one, batch, tables, of_key) for one in events.tables], events


def rows(part):
    shown = {0: "+I", 2: "+U", 3: "-D"}
    return [(shown[k], r) for k, r in zip(part.kinds.tolist(), part.rows.to_pylist(), strict=True)]


def field(name, kind, logical=None, **parameters):
    return {
        "type": kind, "optional": True, "field": name, "name": logical, "parameters": parameters
    }  # fmt: skip


def typed(kind, logical, value, **parameters):
    """The lake's type and value of one value of Debezium."""
    schema = [field("id", "int32"), field("v", kind, logical, **parameters)]
    row = {"id": 1, "v": value}
    (part,), _ = read(debezium("items", "c", None, row, 5, schema=schema))
    found = {f.name: str(f.type) for f in part.table.fields}
    values = part.rows.to_pylist()
    return found["v"], values[0]["v"] if values else part.rejected[0].reason


def test_changes_without_a_schema_are_texts():
    old = {"id": 1, "name": "scooter", "weight": 3.14}
    (part,), _ = read(
        debezium("items", "c", None, old, 5),
        debezium("items", "u", old, {**old, "weight": 10.50, "on": True}, 6),
        None,
        debezium("items", "d", old, None, 7),
        debezium("items", "r", None, {"id": 2, "tags": ["a", {"b": 1.10}], "name": None}, 8),
    )
    assert [str(f.type) for f in part.table.fields] == ["STRING"] * 5
    assert rows(part) == [
        ("+I", {"id": "1", "name": "scooter", "weight": "3.14", "on": None, "tags": None}),
        ("+U", {"id": "1", "name": "scooter", "weight": "10.5", "on": "true", "tags": None}),
        ("-D", {"id": "1", "name": "scooter", "weight": "3.14", "on": None, "tags": None}),
        ("+I", {"id": "2", "name": None, "weight": None, "on": None, "tags": '["a",{"b":1.1}]'}),
    ]
    assert part.table.keys == ("id",)
    assert part.table.name == ITEMS
    assert part.order.tolist() == [[5, 0], [6, 2], [7, 6], [8, 8]]
    assert part.changed_ms.tolist() == [1_700_000_000_000] * 4


def test_a_number_keeps_its_digits_as_text():
    value = debezium("items", "c", None, {"id": 1, "v": 0}, 5).replace(b'"v": 0', b'"v": 3.140')
    (part,), _ = read(value)
    assert part.rows.to_pylist() == [{"id": "1", "v": "3.140"}]


def test_a_change_of_another_key_column_takes_the_old_row_away():
    old = {"id": 1, "shelf": "a", "n": 1}
    new = {**old, "shelf": "b"}
    values = (
        debezium("items", "c", None, old, 5),
        debezium("items", "u", old, {**old, "n": 2}, 6),
        debezium("items", "u", {**old, "n": 2}, new, 7),
        debezium("items", "u", None, {**new, "n": 3}, 8),
        debezium("items", "d", {**new, "n": 3}, None, 9),
    )
    for given in ({"others": {"shelf"}}, {"tables": Tables(keys=("shelf", "id"))}):
        (part,), _ = read(*values, **given)
        assert [(kind, row["shelf"], row["n"]) for kind, row in rows(part)] == [
            ("+I", "a", "1"), ("+U", "a", "2"), ("-D", "a", "2"), ("+U", "b", "1"),
            ("-D", "b", "3"),
        ]  # fmt: skip
        # whether the fourth message moves its row nobody knows
        [told] = part.rejected
        assert told.position[0] == 8
        assert "the message has no old row" in told.reason
        assert "(shelf)" in told.reason
    # with the source's key each is known
    (part,), _ = read(*values)
    assert [kind for kind, _ in rows(part)] == ["+I", "+U", "+U", "+U", "-D"]
    assert not part.rejected


def test_a_delete_counts_by_its_key_alone():
    schema = [
        {"type": "int32", "optional": False, "field": "id"},
        field("price", "string", "io.debezium.data.VariableScaleDecimal"),
        field("day", "int32", "io.debezium.time.Date"),
    ]
    good = {"id": 1, "price": None, "day": 5}
    bad = {"id": 1, "price": None, "day": "x"}
    (part,), _ = read(
        debezium("items", "c", None, good, 5, schema=schema),
        debezium("items", "d", bad, None, 6, schema=schema),
        debezium("items", "c", None, bad, 7, schema=schema),
        debezium("items", "d", {**good, "id": "x"}, None, 8, schema=schema),
    )
    assert [(kind, row["id"]) for kind, row in rows(part)] == [("+I", 1), ("-D", 1)]
    assert [(one.position[0], one.reason[:12]) for one in part.rejected] == [
        (7, "column 'day'"), (8, "column 'id':")
    ]  # fmt: skip


def test_kinds_of_json_give_types_on_request():
    row = {"id": 7, "price": 1.5, "on": True, "name": "n", "tags": [1]}
    (part,), _ = read(debezium("items", "c", None, row, 5), tables=Tables(takes_kinds=True))
    assert [str(f.type) for f in part.table.fields] == [
        "BIGINT", "DOUBLE", "BOOLEAN", "STRING", "STRING"
    ]  # fmt: skip
    assert part.rows.to_pylist() == [{**row, "tags": "[1]"}]


def test_declared_types_are_taken_and_a_misfit_leaves_its_row_out():
    declared = {
        ITEMS: {n: column(n, t, parse_type(t), WireForm.PLAIN) for n, t in
                {"id": "BIGINT", "price": "DECIMAL(6, 2)"}.items()}
    }  # fmt: skip
    (part,), _ = read(
        debezium("items", "c", None, {"id": 1, "price": "1.50"}, 5),
        debezium("items", "c", None, {"id": 2, "price": "AQ=="}, 6),
        debezium("items", "c", None, {"id": 3, "price": 2}, 7),
        debezium("items", "c", None, {"id": "x", "price": 2}, 8),
        tables=Tables(declared=declared),
    )
    assert part.rows.to_pylist() == [
        {"id": 1, "price": Decimal("1.50")},
        {"id": 3, "price": Decimal("2.00")},
    ]
    assert [(one.position, one.reason) for one in part.rejected] == [
        ((6, 2), "column 'price': 'AQ==' is not a value of DECIMAL(6, 2)"),
        ((8, 6), "column 'id': 'x' is not a value of BIGINT"),
    ]
    assert json.loads(part.rejected[0].payload) == {"id": 2, "price": "AQ=="}


def test_columns_of_a_table_that_exists_are_read_as_their_types():
    kinds = {
        "id": "INT", "on": "BOOLEAN", "size": "DOUBLE", "price": "DECIMAL(6, 2)", "day": "DATE",
        "at": "TIMESTAMP(3)", "data": "BYTES", "name": "VARCHAR(5)", "clock": "TIME(0)",
    }  # fmt: skip
    fields = [DataField(n, name, parse_type(kind)) for n, (name, kind) in enumerate(kinds.items())]
    declared = {ITEMS: {one.name: declared_column(one) for one in fields}}
    texts = {
        "id": "7", "on": "true", "size": "1.5", "price": "2.5", "day": "2023-03-23",
        "at": "2023-03-23 14:30:05.123", "data": "AQI=", "name": "n", "clock": "10:13:23",
    }  # fmt: skip
    kinds_of_json = {**texts, "id": 7, "on": True, "size": 1.5, "price": 2.5, "name": 8}
    parts, _ = read(
        debezium("items", "c", None, texts, 5),
        debezium("items", "c", None, kinds_of_json, 6),
        tables=Tables(declared=declared),
    )
    wanted = {
        "id": 7, "on": True, "size": 1.5, "price": Decimal("2.50"), "day": dt.date(2023, 3, 23),
        "at": dt.datetime(2023, 3, 23, 14, 30, 5, 123_000), "data": b"\1\2", "name": "n",
        "clock": dt.time(10, 13, 23),
    }  # fmt: skip
    assert parts[0].rows.to_pylist() == [wanted, {**wanted, "name": "8"}]
    assert {f.name: str(f.type) for f in parts[0].table.fields} == kinds


def test_an_update_of_the_key_is_a_delete_and_a_row():
    old, new = {"id": 1, "name": "a"}, {"id": 2, "name": "b"}
    for tables in (Tables(keys=("id",)), Tables()):
        values = [debezium("items", "u", old, new, 5)]
        if not tables.keys:
            values = [v[:-1] + b', "pkNames": ["id"]}' for v in values]
            values = [v.replace(b'"postgresql"', b'"other"') for v in values]
        (part,), _ = read(*values, keys=[None], tables=tables)
        assert [(kind, row["id"]) for kind, row in rows(part)] == [("-D", "1"), ("+U", "2")]
        assert part.order[0, 0] == part.order[1, 0]
        assert part.order[0, 1] < part.order[1, 1]


def test_a_part_of_the_old_row_is_no_other_key():
    old, new = {"name": "a"}, {"id": 2, "name": "b"}
    (part,), _ = read(debezium("items", "u", old, new, 5), keys=[None], tables=Tables(("id",)))
    assert rows(part) == [("+U", {"id": "2", "name": "b"})]


@pytest.mark.parametrize(
    ("kind", "logical", "parameters", "value", "lake", "wanted"),
    [
        ("int8", None, {}, -7, "TINYINT", -7),
        ("int16", None, {}, 300, "SMALLINT", 300),
        ("int32", None, {}, 70_000, "INT", 70_000),
        ("int64", None, {}, 1 << 40, "BIGINT", 1 << 40),
        ("float", None, {}, 1.5, "FLOAT", 1.5),
        ("double", None, {}, 1.000011, "DOUBLE", 1.000011),
        ("double", None, {}, 3, "DOUBLE", 3.0),
        ("boolean", None, {}, True, "BOOLEAN", True),
        ("string", None, {}, "ö", "STRING", "ö"),
        ("bytes", None, {}, "AQI=", "BYTES", b"\1\2"),
        ("bytes", "io.debezium.data.Bits", {"length": "16"}, "AQI=", "BINARY(2)", b"\2\1"),
        ("int32", "io.debezium.time.Date", {}, 19_439, "DATE", dt.date(2023, 3, 23)),
        ("int32", "org.apache.kafka.connect.data.Date", {}, -1, "DATE", dt.date(1969, 12, 31)),
        ("int64", "io.debezium.time.Timestamp", {}, 1_500, "TIMESTAMP(3)",
         dt.datetime(1970, 1, 1, 0, 0, 1, 500_000)),
        ("int64", "org.apache.kafka.connect.data.Timestamp", {}, -1, "TIMESTAMP(3)",
         dt.datetime(1969, 12, 31, 23, 59, 59, 999_000)),
        ("int64", "io.debezium.time.MicroTimestamp", {}, 1_679_581_805_123_456, "TIMESTAMP(6)",
         dt.datetime(2023, 3, 23, 14, 30, 5, 123_456)),
        ("int64", "io.debezium.time.NanoTimestamp", {}, 1_000, "TIMESTAMP(9)", None),
        ("string", "io.debezium.time.ZonedTimestamp", {}, "2023-03-23T07:00:10.123456Z",
         "TIMESTAMP(6)", dt.datetime(2023, 3, 23, 7, 0, 10, 123_456)),
        ("string", "io.debezium.time.ZonedTimestamp", {}, "2023-03-23T09:00:10+02:00",
         "TIMESTAMP(6)", dt.datetime(2023, 3, 23, 7, 0, 10)),
        ("int32", "io.debezium.time.Time", {}, 36_803_000, "TIME(3)", dt.time(10, 13, 23)),
        ("int64", "io.debezium.time.MicroTime", {}, 36_803_000_000, "TIME(3)",
         dt.time(10, 13, 23)),
        ("int64", "io.debezium.time.NanoTime", {}, 1_000_000, "TIME(3)", dt.time(0, 0, 0, 1_000)),
        ("int32", "io.debezium.time.Year", {}, 2023, "INT", 2023),
        ("string", "io.debezium.data.Json", {}, '{"a": "b"}', "STRING", '{"a": "b"}'),
        ("string", "io.debezium.data.Enum", {"allowed": "x,y"}, "y", "STRING", "y"),
        ("bytes", "org.apache.kafka.connect.data.Decimal",
         {"scale": "2", "connect.decimal.precision": "8"}, "BNI=", "DECIMAL(8, 2)",
         Decimal("12.34")),
        ("bytes", "org.apache.kafka.connect.data.Decimal",
         {"scale": "2", "connect.decimal.precision": "8"}, "/w==", "DECIMAL(8, 2)",
         Decimal("-0.01")),
        ("bytes", "org.apache.kafka.connect.data.Decimal",
         {"scale": "1", "connect.decimal.precision": "2"}, 1.1, "DECIMAL(2, 1)", Decimal("1.1")),
        ("bytes", "org.apache.kafka.connect.data.Decimal", {"scale": "0"}, "AQ==",
         "DECIMAL(20, 0)", Decimal(1)),
        ("bytes", "org.apache.kafka.connect.data.Decimal",
         {"scale": "3", "connect.decimal.precision": "40"}, "BNI=", "STRING", "1.234"),
        ("struct", "io.debezium.data.VariableScaleDecimal", {}, {"scale": 1, "value": "BNI="},
         "STRING", "123.4"),
        ("struct", "io.debezium.data.geometry.Point", {},
         {"x": 1, "y": 1, "wkb": "AQEAAAAAAAAAAADwPwAAAAAAAPA/", "srid": None},
         "STRING", '{"coordinates":[1,1],"type":"Point","srid":0}'),
        ("array", None, {}, [1, 2], "STRING", "[1,2]"),
        ("bytes", None, {}, "not base64", "BYTES",
         "column 'v': 'not base64' is not a value of BYTES"),
        ("int8", None, {}, 300, "TINYINT", "column 'v': '300' is not a value of TINYINT"),
        ("int32", None, {}, 1.5, "INT", "column 'v': '1.5' is not a value of INT"),
        ("bytes", "org.apache.kafka.connect.data.Decimal",
         {"scale": "0", "connect.decimal.precision": "2"}, "BNI=", "DECIMAL(2, 0)",
         "column 'v': 'BNI=' is not a value of DECIMAL(2, 0)"),
        ("string", "io.debezium.time.ZonedTimestamp", {}, "2023-03-23T07:00:10", "TIMESTAMP(6)",
         "column 'v': '2023-03-23T07:00:10' is not a value of TIMESTAMP(6)"),
    ],
)  # fmt: skip
def test_types_are_those_of_the_schema(kind, logical, parameters, value, lake, wanted):
    found = typed(kind, logical, value, **parameters)
    assert found[0] == lake
    if lake == "TIMESTAMP(9)":
        assert found[1].value == value
    else:
        assert found[1] == wanted


def test_a_row_with_a_misfit_does_not_hurt_the_others_of_its_batch():
    schema = [field("id", "int32"), field("v", "int8")]
    values = [debezium("items", "c", None, {"id": n, "v": n}, n, schema=schema) for n in range(300)]
    (part,), _ = read(*values)
    assert part.rows.column("id").to_pylist() == list(range(128))
    assert len(part.rejected) == 172


def test_a_new_schema_is_a_new_version():
    one, two = [field("id", "int32")], [field("id", "int32"), field("age", "int64")]
    parts, _ = read(
        debezium("items", "c", None, {"id": 1}, 5, schema=one),
        debezium("items", "c", None, {"id": 2, "age": 3}, 6, schema=two),
    )
    assert [[c.name for c in part.table.columns] for part in parts] == [["id"], ["id", "age"]]


def test_one_topic_has_many_tables():
    parts, _ = read(
        debezium("items", "c", None, {"id": 1}, 5),
        debezium("orders", "c", None, {"id": 2}, 6),
        debezium("items", "c", None, {"id": 3}, 7),
    )
    assert [(p.table.name.table, p.rows.column("id").to_pylist()) for p in parts] == [
        ("items", ["1", "3"]),
        ("orders", ["2"]),
    ]


def test_rows_of_several_partitions_come_in_the_order_of_the_source():
    (part,), _ = read(*(debezium("items", "c", None, {"id": n}, n) for n in (7, 5, 6)))
    assert part.rows.column("id").to_pylist() == ["5", "6", "7"]
    (part,), _ = read(
        *(debezium("items", "c", None, {"id": n}, n) for n in (7, 5, 6)), uses_places=False
    )
    assert part.rows.column("id").to_pylist() == ["7", "5", "6"]


def mysql(file, pos, row, key):
    text = debezium("items", "c", None, {"id": key}, 5)
    document = json.loads(text)
    document["source"] = {
        "connector": "mysql", "db": "shop", "table": "items", "ts_ms": 9, "file": file, "pos": pos,
        "row": row,
    }  # fmt: skip
    return json.dumps(document).encode()


def test_the_place_in_a_binlog_is_the_order():
    (part,), _ = read(
        mysql("bin.000010", 4, 0, 3), mysql("bin.000009", 900, 1, 2), mysql("bin.000009", 900, 0, 1)
    )
    assert part.rows.column("id").to_pylist() == ["1", "2", "3"]
    assert part.order[:, 0].tolist() == [9, 9, 10]
    assert part.table.name == SourceName("shop", "", "items")


def test_messages_that_cannot_be_read_have_a_reason():
    (part,), events = read(
        b'{"op":"u","after":{"id":"x"',
        b"[1]",
        b'{"id": 1}',
        debezium("items", "z", None, {"id": 1}, 5),
        debezium("items", "c", None, {"id": 1}, 6),
        debezium("items", "u", None, None, 7),
        b'{"schema": {"fields": []}, "payload": {"op": "c"}}',
        b"null",
        b"",
    )
    assert sorted(events.bad) == [0, 1, 2, 3, 6]
    assert events.bad[2] == "member 'op' is missing"
    assert events.bad[3] == "op 'z' is not one of c, r, u, d, t, m"
    assert part.rows.to_pylist() == [{"id": "1"}]
    assert "no JSON object" in part.rejected[0].reason


def test_messages_about_statements_and_transactions_are_passed_over():
    parts, events = read(
        b'{"source": {"db": "shop"}, "databaseName": "shop", "ddl": "alter table t"}',
        b'{"status": "BEGIN", "id": "7", "event_count": null}',
        b'{"schema": {"fields": []}, "payload": {"status": "END", "id": "7"}}',
    )
    assert not parts
    assert not events.bad


def test_a_truncation_and_a_mark_are_no_rows():
    parts, events = read(
        debezium("items", "t", None, None, 5), debezium("items", "m", None, None, 6)
    )
    assert not parts
    assert events.truncated == {0: ITEMS}


def test_a_value_that_was_not_sent_is_masked():
    mark = "__debezium_unavailable_value"
    schema = [field("id", "int32"), field("t", "string"), field("b", "bytes")]
    raw = base64.b64encode(mark.encode()).decode()
    (part,), _ = read(
        debezium("items", "u", None, {"id": 1, "t": mark, "b": "AQ=="}, 5, schema=schema),
        debezium("items", "u", None, {"id": 2, "t": "x", "b": raw}, 6, schema=schema),
    )
    assert part.rows.to_pylist() == [
        {"id": 1, "t": None, "b": b"\1"},
        {"id": 2, "t": "x", "b": None},
    ]
    assert {name: mask.tolist() for name, mask in part.unchanged.items()} == {
        "t": [True, False],
        "b": [False, True],
    }
    assert part.old_keys.to_pylist() == [{"id": 1}, {"id": 2}]


def test_the_key_may_have_a_schema_and_be_in_the_message():
    key = b'{"schema": {"fields": [{"field": "id"}]}, "payload": {"id": 1, "no": 2}}'
    value = debezium("items", "c", None, {"id": 1, "no": 2}, 5)
    assert read(value, keys=[key])[0][0].table.keys == ("id", "no")
    assert read(value, keys=[b"\xff"])[0][0].table.keys == ()
    assert read(value, tables=Tables(keys=("no",)))[0][0].table.keys == ("no",)


def test_metadata_is_that_of_the_message():
    (part,), _ = read(debezium("items", "c", None, {"id": 1}, 5))
    assert {name: values.to_pylist()[0] for name, values in part.metadata.items()} == {
        "topic": "t",
        "partition": 0,
        "offset": 0,
        "timestamp": dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
        "timestamp_type": "CreateTime",
    }
