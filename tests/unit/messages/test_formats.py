"""Formats of messages: what is written is read again, and one bad message is one bad row."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.messages import FORMATS, format_named
from tidelake.messages.format_options import GivenOptions
from tidelake.types import DataField, RowKind
from tidelake.types.arrow import to_arrow_schema
from tidelake.types.data_type import parse_type_text

NOON = dt.datetime(2026, 11, 24, 12, 0, 0, 123_000)


def columns(**types):
    return tuple(
        DataField(n, name, parse_type_text(t)) for n, (name, t) in enumerate(types.items())
    )


def options(name, **given):
    return GivenOptions.parse(given, FORMATS[name].options, table="t")


def decoder(name, fields, wanted=None, given=None):
    names = [f.name for f in fields] if wanted is None else wanted
    return FORMATS[name].decoder(fields, names, options(name, **(given or {})))


def decode(name, fields, *messages, wanted=None, **given):
    return decoder(name, fields, wanted, given).decode(list(messages))


def bad(decoded):
    return [(one.position, one.reason) for one in decoded.bad]


PLAIN = columns(
    a="BIGINT", b="STRING", c="DOUBLE", d="DECIMAL(20,5)", e="BOOLEAN", f="DATE", g="TIME(3)",
    h="TIMESTAMP(6)", i="TIMESTAMP(3)", j="TIMESTAMP(6) WITH LOCAL TIME ZONE", k="BYTES",
    l="TINYINT", m="FLOAT", n="CHAR(3)", o="SMALLINT", p="INT",
)  # fmt: skip
NESTED = columns(
    q="ARRAY<INT>", r="MAP<STRING, TIMESTAMP(3)>", s="ROW<x INT, y DATE, z ARRAY<DECIMAL(5,2)>>"
)
ROW = {
    "a": 2**62 + 1, "b": 'x,"ü"\n', "c": 1.5, "d": Decimal("1234567890123.45678"), "e": True,
    "f": dt.date(1969, 1, 1), "g": dt.time(1, 2, 3, 4000), "h": NOON, "i": NOON,
    "j": NOON.replace(tzinfo=dt.UTC), "k": b"\x00\xff", "l": -5, "m": 0.1, "n": "abc", "o": 300,
    "p": -1, "q": [1, None, 3], "r": [("k", NOON), ("l", None)],
    "s": {"x": 1, "y": None, "z": [Decimal("1.25")]},
}  # fmt: skip


def batch(fields, *rows):
    return pa.RecordBatch.from_pylist(list(rows), schema=to_arrow_schema(fields))


@pytest.mark.parametrize(
    ("name", "fields", "given"),
    [
        ("json", PLAIN + NESTED, {}),
        ("json", PLAIN + NESTED, {"json.timestamp-format.standard": "ISO-8601"}),
        ("json", PLAIN, {"json.encode.ignore-null-fields": "true"}),
        ("json", PLAIN, {"json.encode.decimal-as-plain-number": "true"}),
        ("debezium-json", PLAIN + NESTED, {}),
        ("avro", PLAIN + NESTED, {"avro.timestamp_mapping.legacy": "false"}),
        ("csv", PLAIN + columns(q="ARRAY<INT>"), {"csv.null-literal": "N"}),
        ("csv", PLAIN, {"csv.null-literal": "N", "csv.field-delimiter": "\\t"}),
    ],
)
def test_rows_come_back_as_they_were_written(name, fields, given):
    row = {**ROW, "q": [1, 2]} if name == "csv" else ROW
    rows = batch(fields, {f.name: row[f.name] for f in fields}, {f.name: None for f in fields})
    messages = FORMATS[name].writer(fields, options(name, **given)).encode(rows, None)
    found = decode(name, fields, *messages, **given)
    assert bad(found) == []
    assert found.rows.to_pylist() == rows.to_pylist()
    assert found.rows.equals(rows)
    assert found.messages.tolist() == [0, 1]
    assert found.kinds.tolist() == [int(RowKind.INSERT)] * 2


@pytest.mark.parametrize(
    ("kind", "value", "given"),
    [
        ("STRING", "ü", {"raw.charset": "latin-1"}), ("BYTES", b"\x00", {}), ("INT", -2, {}),
        ("BIGINT", 2**40, {"raw.endianness": "little-endian"}), ("DOUBLE", 1.5, {}),
        ("BOOLEAN", True, {}), ("SMALLINT", 258, {}),
    ],
)  # fmt: skip
def test_a_raw_message_is_one_value(kind, value, given):
    fields = columns(v=kind)
    (message,) = (
        FORMATS["raw"]
        .writer(fields, options("raw", **given))
        .encode(batch(fields, {"v": value}), None)
    )
    assert decode("raw", fields, message, **given).rows.to_pylist() == [{"v": value}]


def test_raw_numbers_are_big_endian_and_of_their_width():
    fields = columns(v="INT")
    found = decode("raw", fields, b"\x00\x00\x01\x02", b"\x01", None)
    assert found.rows.to_pylist() == [{"v": 258}]
    assert bad(found) == [(1, "column 'v': 1 bytes are not a value of type INT")]


FEW = columns(id="BIGINT", name="STRING", price="DOUBLE", at="TIMESTAMP(3)")


def test_one_bad_message_of_json_leaves_the_others():
    found = decode(
        "json", FEW,
        b'{"id":1,"name":"a","price":1,"at":"2026-11-24 12:00:00"}', b'{"id":1,', None, b"[1]",
        b'{"id":"2","name":3,"price":"1e2","other":[{}]}', b'{"id":1.5}', b'{"id":true}',
        b'{"at":"2026-02-30 00:00:00"}', b'{"at":"2026-11-24T12:00:00"}', b'{"name":{"x":1}}',
        b'{"price":true}', b"",
    )  # fmt: skip
    assert found.rows.to_pylist() == [
        {"id": 1, "name": "a", "price": 1.0, "at": dt.datetime(2026, 11, 24, 12)},
        {"id": 2, "name": "3", "price": 100.0, "at": None},
        {"id": None, "name": '{"x":1}', "price": None, "at": None},
    ]
    assert found.messages.tolist() == [0, 4, 9]
    reasons = dict(bad(found))
    assert sorted(reasons) == [1, 3, 5, 6, 7, 8, 10, 11]
    assert "truncated" in reasons[1]
    assert "`array`" in reasons[3]
    assert reasons[5] == "column 'id': '1.5' is not a value of type BIGINT"
    assert reasons[7] == "column 'at': '2026-02-30 00:00:00' is not a value of type TIMESTAMP(3)"


def test_ignored_errors_of_json_are_nulls_and_left_out_messages():
    found = decode(
        "json", FEW, b'{"id":"x","name":"a"}', b"{", **{"json.ignore-parse-errors": "true"}
    )
    assert found.rows.select(["id", "name"]).to_pylist() == [{"id": None, "name": "a"}]
    assert bad(found) == []


def test_a_missing_column_of_json_fails_by_option():
    found = decode("json", FEW[:2], b'{"id":1}', **{"json.fail-on-missing-field": "true"})
    assert bad(found) == [(0, "column 'name' is missing")]


def test_only_the_columns_wanted_are_looked_at():
    found = decode("json", FEW, b'{"id":"bad","name":"a"}', wanted=["name"])
    assert found.rows.to_pylist() == [{"name": "a"}]
    assert decode("json", FEW, b'{"id":"bad"}', None, wanted=[]).rows.num_rows == 1


def test_decimals_of_json_keep_their_digits_and_are_rounded_to_the_scale():
    fields = columns(d="DECIMAL(20,2)", f="DOUBLE")
    found = decode(
        "json", fields, b'{"d":123456789012345678.12,"f":0.1}', b'{"d":"1.005"}', b'{"d":1e30}'
    )
    assert found.rows.to_pylist() == [
        {"d": Decimal("123456789012345678.12"), "f": 0.1},
        {"d": Decimal("1.01"), "f": None},
    ]
    assert bad(found) == [(2, "column 'd': '1e30' is not a value of type DECIMAL(20, 2)")]


def test_numbers_that_json_has_not_are_written_as_java_writes_them():
    fields = columns(f="DOUBLE", d="DECIMAL(10,9)")
    rows = batch(fields, {"f": float("inf"), "d": Decimal("2.7E-8")})
    plain = {"json.encode.decimal-as-plain-number": "true"}
    writer = FORMATS["json"].writer
    assert writer(fields, options("json")).encode(rows, None) == [b'{"f":"Infinity","d":2.7E-8}']
    assert writer(fields, options("json", **plain)).encode(rows, None) == [
        b'{"f":"Infinity","d":0.000000027}'
    ]
    assert decode("json", fields, b'{"f":"NaN"}').rows.column(0).to_pylist() != [None]


def test_one_bad_line_of_csv_leaves_the_others():
    found = decode(
        "csv", FEW, b"1,a,1.5,2026-11-24 12:00:00", b'2,"x,y",,', b"3,a", b"x,a,1,", b"\xff",
        b'"', b" 5 ,,1,",
    )  # fmt: skip
    assert [(r["id"], r["name"], r["price"]) for r in found.rows.to_pylist()] == [
        (1, "a", 1.5), (2, "x,y", None), (5, "", 1.0),
    ]  # fmt: skip
    assert found.messages.tolist() == [0, 1, 6]
    assert [position for position, _ in bad(found)] == [2, 3, 4, 5]
    assert dict(bad(found))[2] == "2 values, but the table has 4 columns"


def test_lines_of_csv_without_quotes_read_alike():
    found = decode("csv", FEW, b"1,a,1.5,", b"2,b,2.5,", wanted=["price", "id"])
    assert found.rows.to_pylist() == [{"price": 1.5, "id": 1}, {"price": 2.5, "id": 2}]


def test_one_bad_record_of_avro_leaves_the_others():
    fields = columns(id="INT", name="STRING")
    writer = FORMATS["avro"].writer(fields, options("avro"))
    first, second = writer.encode(
        batch(fields, {"id": 1, "name": "a"}, {"id": None, "name": "b"}), None
    )
    found = decode("avro", fields, first, first[:-1], second + b"x", None, second, b"\x08")
    assert found.rows.to_pylist() == [{"id": 1, "name": "a"}, {"id": None, "name": "b"}]
    assert [position for position, _ in bad(found)] == [1, 2, 5]


def test_numbers_of_avro_beyond_the_column_are_bad():
    wide, narrow = columns(v="INT"), columns(v="TINYINT")
    messages = (
        FORMATS["avro"]
        .writer(wide, options("avro"))
        .encode(batch(wide, {"v": 300}, {"v": 3}), None)
    )
    found = decode("avro", narrow, *messages)
    assert found.rows.to_pylist() == [{"v": 3}]
    assert bad(found) == [(0, "column 'v': '300' is not a value of type TINYINT")]


def test_older_timestamps_of_avro_have_milliseconds():
    for kind in ("TIMESTAMP(6)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"):
        with pytest.raises(UnsupportedError, match="timestamp_mapping"):
            decoder("avro", columns(v=kind))


def rows_of(found):
    return [
        (str(RowKind(kind)), *row.values())
        for kind, row in zip(found.kinds.tolist(), found.rows.to_pylist(), strict=True)
    ]


TWO = columns(id="INT", name="STRING")


def test_debezium_says_what_happened():
    found = decode(
        "debezium-json", TWO,
        b'{"before":null,"after":{"id":1,"name":"a"},"op":"c","ts_ms":1,"source":{}}',
        b'{"before":{"id":1,"name":"a"},"after":{"id":1,"name":"b"},"op":"u"}',
        b'{"before":{"id":1,"name":"b"},"after":null,"op":"d"}',
        b'{"after":{"id":2,"name":"r"},"op":"r"}',
        b'{"before":null,"after":{"id":1,"name":"b"},"op":"u"}',
        b'{"before":{"id":"x"},"after":{"id":1},"op":"u"}',
        b'{"op":"t"}', None,
    )  # fmt: skip
    assert rows_of(found) == [
        ("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, "b"), ("-D", 1, "b"), ("+I", 2, "r"),
    ]  # fmt: skip
    assert found.messages.tolist() == [0, 1, 1, 2, 3]
    reasons = dict(bad(found))
    assert sorted(reasons) == [4, 5, 6]
    assert "REPLICA IDENTITY" in reasons[4]
    assert reasons[5] == "column 'id': 'x' is not a value of type INT"


def test_debezium_may_have_its_schema_beside():
    found = decode(
        "debezium-json", TWO, b'{"schema":{},"payload":{"after":{"id":1},"op":"c"}}',
        **{"debezium-json.schema-include": "true"},
    )  # fmt: skip
    assert rows_of(found) == [("+I", 1, None)]


def test_debezium_is_written_as_deletes_and_inserts():
    rows = batch(TWO, *({"id": n, "name": None} for n in range(4)))
    kinds = np.arange(4, dtype=np.int8)
    messages = FORMATS["debezium-json"].writer(TWO, options("debezium-json")).encode(rows, kinds)
    assert messages[3] == b'{"before":{"id":3,"name":null},"after":null,"op":"d"}'
    assert [row[0] for row in rows_of(decode("debezium-json", TWO, *messages))] == [
        "+I", "-D", "+I", "-D",
    ]  # fmt: skip


def test_canal_has_many_rows_a_message_and_old_values_of_what_changed():
    found = decode(
        "canal-json", TWO,
        b'{"data":[{"id":"1","name":"a"},{"id":"2","name":"b"}],"type":"INSERT","database":"d"}',
        b'{"data":[{"id":"1","name":null}],"old":[{"name":"a"}],"type":"UPDATE","database":"d"}',
        b'{"data":[{"id":"2","name":"b"}],"type":"DELETE","database":"d"}',
        b'{"data":null,"type":"CREATE","database":"d"}',
        b'{"data":null,"type":"INSERT","database":"d"}',
        b'{"data":[{"id":"9"}],"type":"INSERT","database":"other"}',
        **{"canal-json.database.include": "d"},
    )  # fmt: skip
    assert rows_of(found) == [
        ("+I", 1, "a"), ("+I", 2, "b"), ("-U", 1, "a"), ("+U", 1, None), ("-D", 2, "b"),
    ]  # fmt: skip
    assert found.messages.tolist() == [0, 0, 1, 1, 2]
    assert [position for position, _ in bad(found)] == [4]


def test_an_old_null_of_canal_was_a_null():
    message = b'{"data":[{"id":"1","name":"a"}],"old":[{"name":null}],"type":"UPDATE"}'
    assert rows_of(decode("canal-json", TWO, message)) == [("-U", 1, None), ("+U", 1, "a")]


def test_maxwell_has_a_row_a_message():
    found = decode(
        "maxwell-json", TWO,
        b'{"database":"d","type":"insert","data":{"id":1,"name":"a"}}',
        b'{"type":"update","data":{"id":1,"name":"b"},"old":{"name":"a"}}',
        b'{"type":"delete","data":{"id":1,"name":"b"}}', b'{"type":"drop","data":{}}',
    )  # fmt: skip
    assert rows_of(found) == [("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, "b"), ("-D", 1, "b")]
    assert [position for position, _ in bad(found)] == [3]


def test_formats_that_know_only_inserts_refuse_other_rows():
    rows = batch(TWO, {"id": 1, "name": "a"})
    for name in ("json", "csv", "avro"):
        with pytest.raises(UnsupportedError, match="debezium-json"):
            FORMATS[name].writer(TWO, options(name)).encode(
                rows, np.array([int(RowKind.DELETE)], np.int8)
            )


def test_change_logs_of_canal_and_maxwell_are_read_only():
    for name in ("canal-json", "maxwell-json"):
        with pytest.raises(UnsupportedError, match="read-only"):
            FORMATS[name].writer(TWO, options(name))


def test_columns_that_a_format_cannot_hold_are_refused_by_name():
    for name, kind in (
        ("json", "MAP<INT, INT>"), ("json", "VARIANT"), ("csv", "ROW<a INT>"),
        ("raw", "DATE"), ("avro", "MAP<INT, INT>"),
    ):  # fmt: skip
        with pytest.raises(UnsupportedError, match="Column 'v'"):
            decoder(name, columns(v=kind))
    with pytest.raises(InvalidInputError, match="one column, not 2"):
        decoder("raw", TWO)


def test_misspelt_formats_options_and_values_are_refused():
    with pytest.raises(InvalidInputError, match="Did you mean 'json'"):
        format_named("jsn", option="format", table="t")
    with pytest.raises(InvalidInputError, match=r"Did you mean 'json\.ignore-parse-errors'"):
        options("json", **{"json.ignore-parse-error": "true"})
    with pytest.raises(InvalidInputError, match="must be one of SQL, ISO-8601"):
        options("json", **{"json.timestamp-format.standard": "unix"})
    with pytest.raises(InvalidInputError, match="one character"):
        decoder("csv", TWO, given={"csv.field-delimiter": "||"})
    with pytest.raises(InvalidInputError, match="regular expression"):
        decoder("canal-json", TWO, given={"canal-json.table.include": "("})
    with pytest.raises(InvalidInputError, match="charset"):
        decoder("raw", columns(v="STRING"), given={"raw.charset": "utf-99"})
