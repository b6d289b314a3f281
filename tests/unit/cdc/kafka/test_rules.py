"""The JSON formats of the table of rules, by messages as their tools send them."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pytest

from tidelake.cdc.kafka.formats.mysql_types import mysql_column
from tidelake.cdc.kafka.formats.rules import RULES, RuledJson
from tidelake.cdc.kafka.messages import MessageBatch
from tidelake.cdc.kafka.row_changes import Tables, row_changes
from tidelake.cdc.source.source_table import SourceName
from tidelake.cdc.source.type_mapping import TypeMapping

SHOWN = {0: "+I", 2: "+U", 3: "-D"}


def read(form, *documents, keys=None, tables=None, **given):
    values = [d if isinstance(d, bytes) else json.dumps(d).encode() for d in documents]
    batch = MessageBatch.of_values(values, keys)
    events = RuledJson(RULES[form], **given).events(batch)
    tables = tables or Tables()
    return [row_changes(one, batch, tables) for one in events.tables], events


def rows(part):
    kinds = [SHOWN[k] for k in part.kinds.tolist()]
    return list(zip(kinds, part.rows.to_pylist(), strict=True))


# ---- Canal


def canal(kind, *data, old=None, types=None, **more):
    types = types or {"id": "INT", "name": "VARCHAR(10)"}
    return {
        "data": list(data), "database": "shop", "es": 1_683_006_706_000, "id": 92, "isDdl": False,
        "mysqlType": types, "old": old, "pkNames": ["id"], "sql": "", "sqlType": {"id": 4},
        "table": "items", "ts": 1_683_006_706_728, "type": kind, **more,
    }  # fmt: skip


def test_canal_has_several_rows_in_a_message():
    (part,), _ = read(
        "canal-json",
        canal("INSERT", {"id": "2", "name": "two"}, {"id": "4", "name": None}),
        canal("UPDATE", {"id": "2", "name": "second"}, old=[{"name": "two"}]),
        canal("DELETE", {"id": "4", "name": None}),
    )
    assert rows(part) == [
        ("+I", {"id": 2, "name": "two"}),
        ("+I", {"id": 4, "name": None}),
        ("+U", {"id": 2, "name": "second"}),
        ("-D", {"id": 4, "name": None}),
    ]
    assert part.table.name == SourceName("shop", "", "items")
    assert part.table.keys == ("id",)
    assert part.changed_ms.tolist() == [1_683_006_706_000] * 4
    assert part.order.tolist() == [[0, 1], [0, 3], [1, 1], [2, 1]]


def test_an_update_of_canal_that_changes_the_key():
    (part,), _ = read("canal-json", canal("UPDATE", {"id": "3", "name": "n"}, old=[{"id": "2"}]))
    assert rows(part) == [("-D", {"id": 2, "name": "n"}), ("+U", {"id": 3, "name": "n"})]
    assert part.order.tolist() == [[0, 0], [0, 1]]


def test_a_column_that_only_the_types_of_canal_have_is_null():
    types = {"id": "INT", "name": "VARCHAR(10)", "more": "BIGINT"}
    (part,), _ = read("canal-json", canal("DELETE", {"id": "1", "name": "x"}, types=types))
    assert rows(part) == [("-D", {"id": 1, "name": "x", "more": None})]


def test_a_column_that_the_types_of_canal_lack_is_a_text():
    (part,), _ = read("canal-json", canal("INSERT", {"id": "1", "name": "x", "new": "7"}))
    assert rows(part) == [("+I", {"id": 1, "name": "x", "new": "7"})]


def test_statements_of_canal_are_passed_over_but_for_truncate():
    ddl = canal("ALTER", isDdl=True, data=None, mysqlType=None, sql="ALTER TABLE items")
    query = {**ddl, "type": "QUERY"}
    truncate = {**ddl, "type": "TRUNCATE"}
    parts, events = read("canal-json", ddl, query, truncate)
    assert not parts
    assert not events.bad
    assert events.truncated == {2: SourceName("shop", "", "items")}


@pytest.mark.parametrize(
    ("native", "lake", "value", "wanted"),
    [
        ("TINYINT(1)", "BOOLEAN", "1", True),
        ("BOOL", "BOOLEAN", "0", False),
        ("TINYINT", "TINYINT", "-1", -1),
        ("TINYINT(2) unsigned zerofill", "SMALLINT", "3", 3),
        ("SMALLINT", "SMALLINT", "1000", 1000),
        ("SMALLINT(4) unsigned zerofill", "INT", "3000", 3000),
        ("MEDIUMINT", "INT", "100000", 100_000),
        ("mediumint(8) unsigned", "BIGINT", "300000", 300_000),
        ("int", "INT", "-7", -7),
        ("INT unsigned", "BIGINT", "4000000000", 4_000_000_000),
        ("BIGINT", "BIGINT", "10000000000", 10_000_000_000),
        ("BIGINT(16) unsigned zerofill", "DECIMAL(20, 0)", "18446744073709551615",
         Decimal(18446744073709551615)),
        ("SERIAL", "DECIMAL(20, 0)", "40000000000", Decimal(40_000_000_000)),
        ("FLOAT(4) unsigned", "FLOAT", "2.5", 2.5),
        ("REAL(10,7) unsigned zerofill", "DOUBLE", "3.000003", 3.000003),
        ("DOUBLE PRECISION", "DOUBLE", "1.000111", 1.000111),
        ("DOUBLE PRECISION(10,7) unsigned zerofill", "DOUBLE", "3.000333", 3.000333),
        ("NUMERIC(8,3)", "DECIMAL(8, 3)", "12345.110", Decimal("12345.110")),
        ("FIXED(40,3)", "STRING", "123456789876543212345678987654321.110",
         "123456789876543212345678987654321.110"),
        ("DECIMAL(8, 0) unsigned", "DECIMAL(8, 0)", "22222", Decimal(22_222)),
        ("DATE", "DATE", "2023-03-23", dt.date(2023, 3, 23)),
        ("DATETIME", "TIMESTAMP(0)", "2023-03-23 14:30:05", dt.datetime(2023, 3, 23, 14, 30, 5)),
        ("DATETIME(3)", "TIMESTAMP(3)", "2023-03-23 14:30:05.123",
         dt.datetime(2023, 3, 23, 14, 30, 5, 123_000)),
        ("TIMESTAMP(6)", "TIMESTAMP(6)", "2023-03-23 15:00:10.123456",
         dt.datetime(2023, 3, 23, 15, 0, 10, 123_456)),
        ("TIME", "TIME(0)", "10:13:23", dt.time(10, 13, 23)),
        ("YEAR", "INT", "2023", 2023),
        ("CHAR(10)", "CHAR(10)", "Paimon", "Paimon"),
        ("VARCHAR(20)", "VARCHAR(20)", "Apache", "Apache"),
        ("LONGTEXT", "STRING", "long", "long"),
        ("JSON", "STRING", '{"a": "b"}', '{"a": "b"}'),
        ("BINARY(10)", "VARBINARY(10)", "bytes\xff", b"bytes\xff"),
        ("BLOB", "BYTES", "data", b"data"),
        ("ENUM('value1','it''s')", "STRING", "2", "it's"),
        ("ENUM('value1','value2')", "STRING", "value2", "value2"),
        ("SET('a','b','c','d')", "ARRAY<STRING>", "3", ["a", "b"]),
        ("SET('a','b')", "ARRAY<STRING>", "a,b", ["a", "b"]),
        ("POINT", "STRING", "\0\0\0\0\1\1\0\0\0\0\0\0\0\0\0\xf0?\0\0\0\0\0\0\xf0?",
         '{"coordinates":[1,1],"type":"Point","srid":0}'),
        ("POINT", "STRING", "x", "column 'v': 'x' is not a value of STRING"),
        ("DATE", "DATE", "0000-00-00", "column 'v': '0000-00-00' is not a value of DATE"),
        ("INT", "INT", "x", "column 'v': 'x' is not a value of INT"),
        ("DECIMAL(3,1)", "DECIMAL(3, 1)", "1.25",
         "column 'v': '1.25' is not a value of DECIMAL(3, 1)"),
        ("TIME", "TIME(0)", "-10:00:00", "column 'v': '-10:00:00' is not a value of TIME(0)"),
        ("ENUM('a')", "STRING", "9", "column 'v': '9' is not a value of STRING"),
    ],
)  # fmt: skip
def test_types_of_mysql(native, lake, value, wanted):
    types = {"id": "INT", "v": native}
    good = {"id": "1", "v": None}
    (part,), _ = read("canal-json", canal("INSERT", good, {"id": "2", "v": value}, types=types))
    assert str(part.table.fields[1].type) == lake
    if part.rejected:
        assert part.rejected[0].reason == wanted
        assert part.rows.num_rows == 1
    else:
        assert part.rows.column("v").to_pylist() == [None, wanted]


@pytest.mark.parametrize(
    ("switch", "native", "lake"),
    [
        ("tinyint1-not-bool", "TINYINT(1)", "TINYINT"),
        ("to-string", "INT", "STRING"),
        ("to-string", "SET('a')", "STRING"),
        ("char-to-string", "VARCHAR(10)", "STRING"),
        ("longtext-to-bytes", "LONGTEXT", "BYTES"),
        ("bigint-unsigned-to-bigint", "BIGINT UNSIGNED", "BIGINT"),
    ],
)
def test_switches_of_the_type_mapping(switch, native, lake):
    assert str(mysql_column("v", native, TypeMapping.of([switch])).type) == lake


# ---- Maxwell


def maxwell(kind, data, old=None, **more):
    made = {
        "database": "test", "table": "product", "type": kind, "ts": 1_596_684_883, "xid": 7125,
        "xoffset": 0, "data": data, "primary_key_columns": ["id"],
    }  # fmt: skip
    return {**made, **({} if old is None else {"old": old}), **more}


def test_maxwell():
    (part,), events = read(
        "maxwell-json",
        maxwell("insert", {"id": 101, "name": "scooter", "weight": 3.14}),
        maxwell("bootstrap-insert", {"id": 102, "name": "car", "weight": 8.1}),
        maxwell("update", {"id": 101, "name": "bike", "weight": 3.14}, {"name": "scooter"}),
        maxwell("update", {"id": 7, "name": "bike", "weight": None}, {"id": 101, "weight": 3.14}),
        maxwell("delete", {"id": 102, "name": "car", "weight": 8.1}),
        {"type": "table-alter", "database": "test", "table": "product", "sql": "alter"},
    )
    assert [(kind, row["id"], row["name"]) for kind, row in rows(part)] == [
        ("+I", "101", "scooter"),
        ("+I", "102", "car"),
        ("+U", "101", "bike"),
        ("-D", "101", "bike"),
        ("+U", "7", "bike"),
        ("-D", "102", "car"),
    ]
    assert part.table.keys == ("id",)
    assert part.changed_ms[0] == 1_596_684_883_000
    assert not events.bad


def test_the_position_of_maxwell_is_the_order():
    at = [maxwell("insert", {"id": n}, position=f"master.{n:06d}:{9 - n}") for n in (2, 1)]
    (part,), _ = read("maxwell-json", *at)
    assert part.rows.column("id").to_pylist() == ["1", "2"]


# ---- Oracle GoldenGate


def ogg(op, before, after, pos, **more):
    return {
        "table": "OGG.TBL", "pos": f"{pos:023d}", "primary_keys": ["id"], "before": before,
        "after": after, "op_type": op, "op_ts": "2020-05-13 17:32:24.455000", **more,
    }  # fmt: skip


def test_ogg():
    one, two = {"id": 103, "weight": 5.1}, {"id": 103, "weight": 8.1}
    (part,), events = read(
        "ogg-json",
        ogg("I", None, one, 155),
        ogg("D", two, None, 158),
        ogg("U", one, two, 157),
        ogg("T", None, None, 159),
    )
    assert [(kind, row["weight"]) for kind, row in rows(part)] == [
        ("+I", "5.1"),
        ("+U", "8.1"),
        ("-D", "8.1"),
    ]
    assert part.table.name == SourceName("OGG", "", "TBL")
    assert part.changed_ms[0] == 1_589_391_144_455
    assert events.truncated == {3: SourceName("OGG", "", "TBL")}


# ---- AWS DMS


def dms(op, data, **more):
    metadata = {
        "timestamp": "2024-10-27T12:39:03.210671Z", "record-type": "data", "operation": op,
        "partition-key-type": "schema-table", "schema-name": "test", "table-name": "product",
        "transaction-id": 670_014_899_490, **more,
    }  # fmt: skip
    return {"data": data, "metadata": metadata}


def test_aws_dms():
    row = {"id": 105, "address": "Beijing"}
    (part,), events = read(
        "aws-dms-json",
        dms("load", {"id": 1, "address": None}),
        dms("update", {**row, "BI_id": 105, "BI_address": "Shanghai"}),
        dms("update", {"id": 106, "address": "x", "BI_id": 105, "BI_address": "Beijing"}),
        dms("delete", {"id": 106, "address": "x"}),
        dms("create-table", None, **{"record-type": "control"}),
        tables=Tables(keys=("id",)),
    )
    assert rows(part) == [
        ("+I", {"id": "1", "address": None}),
        ("+U", {"id": "105", "address": "Beijing"}),
        ("-D", {"id": "105", "address": "Beijing"}),
        ("+U", {"id": "106", "address": "x"}),
        ("-D", {"id": "106", "address": "x"}),
    ]
    assert part.table.name == SourceName("test", "", "product")
    assert part.changed_ms[0] == 1_730_032_743_210
    assert not events.bad


# ---- Aliyun


def aliyun(op, before, after, sequence, ddl=None):
    columns = [("id", "LONG"), ("val", "DOUBLE"), ("name", "STRING"), ("at", "DATE")]
    image = lambda row: None if row is None else {"dataColumn": row}  # noqa: E731
    return {
        "schema": {
            "dataColumn": [{"name": n, "type": t} for n, t in columns],
            "primaryKey": ["id"],
            "source": {"dbType": "MySQL", "dbName": "big", "tableName": "sync"},
        },
        "payload": {
            "before": image(before), "after": image(after), "sequenceId": sequence, "op": op,
            "timestamp": {"eventTime": 1_731_662_085_000, "systemTime": 1}, "ddl": ddl,
        },
        "version": "0.0.1",
    }  # fmt: skip


def test_aliyun():
    old = {"id": 2, "val": "1.100000", "name": "a", "at": 1_731_661_114_000}
    new = {**old, "val": "2.200000"}
    (part,), events = read(
        "aliyun-json",
        aliyun("INSERT", None, old, "-1"),
        aliyun("UPDATE_AFTER", old, new, "1731663842292000001"),
        aliyun("UPDATE_BEFORE", new, None, "1731663842292000002"),
        aliyun("UPDATE_AFTER", None, old, "1731663842292000002"),
        aliyun("DELETE", old, None, "1731663842292000003"),
        aliyun("INSERT", None, None, "-1", ddl={"text": "alter"}),
    )
    at = dt.datetime(2024, 11, 15, 8, 58, 34)
    assert rows(part) == [
        ("+I", {"id": 2, "val": 1.1, "name": "a", "at": at}),
        ("+U", {"id": 2, "val": 2.2, "name": "a", "at": at}),
        ("-D", {"id": 2, "val": 2.2, "name": "a", "at": at}),
        ("+U", {"id": 2, "val": 1.1, "name": "a", "at": at}),
        ("-D", {"id": 2, "val": 1.1, "name": "a", "at": at}),
    ]
    assert [str(f.type) for f in part.table.fields] == [
        "BIGINT", "DOUBLE", "STRING", "TIMESTAMP(3)"
    ]  # fmt: skip
    assert part.table.name == SourceName("big", "", "sync")
    assert not events.bad


# ---- JSON


def test_plain_json_is_a_row_of_the_topic():
    (part,), events = read(
        "json",
        {"id": 1, "a": 1.0},
        b"7",
        {"id": 2, "b": {"x": None}},
        keys=[b'{"id":1}', None, b""],
    )
    assert rows(part) == [
        ("+U", {"id": "1", "a": "1.0", "b": None}),
        ("+U", {"id": "2", "a": None, "b": '{"x":null}'}),
    ]
    assert part.table.keys == ("id",)
    assert list(events.bad) == [1]
    assert part.table.name == SourceName("", "", "t")


# ---- what is missing


@pytest.mark.parametrize(
    ("form", "document", "reason"),
    [
        ("canal-json", canal("INSERT", data=None), "member 'data' is missing"),
        ("canal-json", canal("UPDATE", {"id": "1"}), "member 'old' has not the rows"),
        ("canal-json", canal("WHAT", {"id": "1"}), "type 'WHAT' is not one of"),
        ("maxwell-json", maxwell("insert", None), "member 'data' is missing"),
        ("maxwell-json", {"data": {}}, "member 'type' is missing"),
        ("ogg-json", ogg("D", None, {"id": 1}, 5), "member 'before' is missing"),
        ("aws-dms-json", {"data": {"id": 1}}, "member 'metadata' is missing"),
        ("aliyun-json", {"schema": {}}, "member 'payload' is missing"),
        ("ogg-json", b"{", "not a message of ogg-json: Input data was truncated"),
        ("maxwell-json", [1], "a message of maxwell-json is an object"),
    ],
)
def test_a_member_that_is_missing_is_named(form, document, reason):
    parts, events = read(form, document)
    assert not parts
    assert events.bad[0].startswith(reason)
