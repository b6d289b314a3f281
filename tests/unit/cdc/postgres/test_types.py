"""Every type: what the copy and the log give is what SELECT gives."""

from __future__ import annotations

import datetime
import decimal
import json
import math

import pytest
from cdc_postgres import read_to

from tidelake.cdc.postgres.values.postgres_type import PostgresType
from tidelake.cdc.source.changes import SourceRows
from tidelake.cdc.source.type_mapping import TypeMapping

BITS = "bits"
"""Values of bits are compared as numbers in base 2."""
# name, type, type in the lake, values, how SELECT shows it
CASES = [
    ("c_bool", "bool", "BOOLEAN", ["true", "false"], ""),
    ("c_int2", "int2", "SMALLINT", ["-32768", "32767"], ""),
    ("c_int4", "int4", "INT", ["-2147483648", "2147483647"], ""),
    ("c_int8", "int8", "BIGINT", ["-9223372036854775808", "9223372036854775807"], ""),
    ("c_float4", "float4", "FLOAT", ["1.1", "-3.4e38", "'NaN'", "'-Infinity'"], ""),
    ("c_float8", "float8", "DOUBLE", ["0.1", "1e308", "5e-324", "'Infinity'", "'NaN'"], ""),
    ("c_num", "numeric(12,2)", "DECIMAL(12, 2)", ["-1234567890.12", "0", "0.10"], ""),
    ("c_num5", "numeric(5)", "DECIMAL(5, 0)", ["99999", "-1"], ""),
    ("c_num38", "numeric(38,10)", "DECIMAL(38, 10)", ["9999999999999999999999999999.1"], ""),
    ("c_free", "numeric", "DECIMAL(38, 18)", ["1.5", "-12345678901234567890.000000000000000001"], ""),
    ("c_num60", "numeric(60,3)", "STRING", ["1234567890123456789012345678901234567890.125"], "::text"),
    ("c_num_neg", "numeric(3,-2)", "STRING", ["12300"], "::text"),
    ("c_text", "text", "STRING", ["''", "'a\"b,c'", "E'line\\nline\\r\\n\\ttab\\\\'", "'ünï😀'", "'NULL'"], ""),
    ("c_varchar", "varchar(20)", "VARCHAR(20)", ["'x'", "'  '", "''"], ""),
    ("c_varchar_free", "varchar", "STRING", ["'x'"], ""),
    ("c_char", "char(5)", "CHAR(5)", ["'ab'", "'abcde'"], ""),
    ("c_uuid", "uuid", "STRING", ["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"], "::text"),
    ("c_json", "json", "STRING", ["'{\"a\": [1, 2]}'", "'null'"], "::text"),
    ("c_jsonb", "jsonb", "STRING", ["'{\"b\":1,\"a\":\"x\"}'"], "::text"),
    ("c_enum", "mood", "STRING", ["'sad'", "'so, so'"], "::text"),
    ("c_bytea", "bytea", "BYTES", ["'\\x00ff10'", "''", "'abc'"], ""),
    ("c_date", "date", "DATE", ["'2024-02-29'", "'0001-01-01'", "'9999-12-31'"], ""),
    ("c_time3", "time(3)", "TIME(3)", ["'23:59:59.999'", "'00:00'"], ""),
    ("c_ts", "timestamp", "TIMESTAMP(6)", ["'2024-01-02 03:04:05.123456'", "'1969-12-31 23:59:59.9'"], ""),
    ("c_ts3", "timestamp(3)", "TIMESTAMP(3)", ["'2024-01-02 03:04:05.123'", "'0001-01-01'"], ""),
    ("c_ts0", "timestamp(0)", "TIMESTAMP(0)", ["'2024-01-02 03:04:05'"], ""),
    ("c_tz", "timestamptz", "TIMESTAMP(6) WITH LOCAL TIME ZONE", ["'2024-06-02 03:04:05.5+02'", "'1800-01-01+00'"], ""),
    ("c_bit1", "bit", "BOOLEAN", ["B'1'", "B'0'"], "::text"),
    ("c_bit9", "bit(9)", "BINARY(2)", ["B'100000001'", "B'000000000'"], "::text"),
    ("c_varbit", "varbit(20)", "BINARY(3)", ["B'101'", "B''"], "::text"),
    ("c_ints", "int[]", "ARRAY<INT>", ["'{1,2,null}'", "'{}'", "'[0:1]={7,8}'"], ""),
    ("c_texts", "text[]", "ARRAY<STRING>", ["array['a,b','\"q\"','','NULL',null,E'\\\\']"], ""),
    ("c_nums", "numeric(9,2)[]", "ARRAY<DECIMAL(9, 2)>", ["'{1.5,-2}'"], ""),
    ("c_tss", "timestamptz[]", "ARRAY<TIMESTAMP(6) WITH LOCAL TIME ZONE>", ["array['2024-01-01 01:00+01'::timestamptz]"], ""),
    ("c_bools", "bool[]", "ARRAY<BOOLEAN>", ["'{t,f,null}'"], ""),
    ("c_dates", "date[]", "ARRAY<DATE>", ["'{2024-01-01}'"], ""),
    ("c_byteas", "bytea[]", "ARRAY<BYTES>", ["array['\\x0102'::bytea, '']"], ""),
    ("c_enums", "mood[]", "ARRAY<STRING>", ["array['sad','so, so']::mood[]"], "::text[]"),
    ("c_uuids", "uuid[]", "ARRAY<STRING>", ["array['a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid]"], "::text[]"),
]  # fmt: skip


def made(place):
    place.run("CREATE TYPE mood AS ENUM ('sad', 'so, so')")
    columns = ", ".join(f"{name} {kind}" for name, kind, *_ in CASES)
    place.run(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")


def fill(place, start):
    count = max(len(values) for *_, values, _ in CASES)
    for turn in range(count + 1):
        # the last row is of nulls
        shown = [values[turn] if turn < len(values) else "NULL" for *_, values, _ in CASES]
        place.run(f"INSERT INTO t VALUES ({start + turn}, {', '.join(shown)})")
    return count + 1


def expected(place):
    asked = ", ".join(f"{name}{how}" for name, *_, how in CASES)
    return {row[0]: row[1:] for row in place.rows(f"SELECT id, {asked} FROM t")}


def same(kind, ours, theirs):
    if ours is None or theirs is None:
        return ours is theirs
    if kind.startswith(("bit", "varbit")):
        if isinstance(ours, bool):
            return ours == (theirs == "1")
        size = (
            (int(kind.partition("(")[2].rstrip(")")) + 7) // 8 if kind.startswith("bit(") else None
        )
        size = (len(theirs) + 7) // 8 if size is None else size
        return ours == int(theirs or "0", 2).to_bytes(size, "big")
    if isinstance(theirs, float):
        import struct

        if kind == "float4":
            theirs = struct.unpack("f", struct.pack("f", theirs))[0]
        return ours == theirs or (math.isnan(ours) and math.isnan(theirs))
    if isinstance(theirs, bytes | memoryview):
        return ours == bytes(theirs)
    return ours == theirs


def differences(rows, wanted):
    found = []
    for row in rows:
        for (name, kind, *_), theirs in zip(CASES, wanted[row["id"]], strict=True):
            if not same(kind, row[name], theirs):
                found.append((row["id"], name, row[name], theirs))
    return found


def test_types_in_the_lake_are_those_of_the_table(place):
    made(place)
    [table] = place.source().tables()
    found = {column.name: str(column.type) for column in table.columns}
    assert found == {"id": "INT NOT NULL", **{name: lake for name, _, lake, *_ in CASES}}


def test_copy_and_log_give_what_select_gives(place):
    made(place)
    count = fill(place, 0)
    source = place.source()
    names = [table.name for table in source.tables()]
    source.prepare(names)
    with source.first_copy(names) as copy:
        [table] = source.tables()
        copied = [
            batch for chunk in copy.chunks(table, rows_max=1000) for batch in copy.read(chunk)
        ]
        position = copy.position
    assert [rejected for batch in copied for rejected in batch.rejected] == []
    rows = [row for batch in copied for row in batch.rows.to_pylist()]
    assert len(rows) == count
    assert differences(rows, expected(place)) == []

    fill(place, 100)
    _, ranges = read_to(source, position, names, source.newest())
    [part] = [part for changes in ranges for part in changes.parts]
    assert isinstance(part, SourceRows)
    assert part.rejected == ()
    assert part.rows.num_rows == count
    assert differences(part.rows.to_pylist(), expected(place)) == []
    # the version that the log describes is the one of the catalogue
    assert part.table == table


def test_values_that_do_not_fit_are_rejected_one_by_one(place):
    place.run(
        "CREATE TABLE t (id int PRIMARY KEY, d numeric, n numeric(5,2), day date, ts timestamptz,"
        " a int[], at time)"
    )
    source, names, position = place.followed()
    good = "INSERT INTO t VALUES (%s, 1.5, 1.5, '2024-01-01', '2024-01-01+00', '{1}', '01:00')"
    bad = {
        "d": ["'NaN'", "1e21", "0.1234567890123456789"],
        "n": ["'NaN'"],
        "day": ["'infinity'", "'0044-03-15 BC'", "'20000-01-01'"],
        "ts": ["'-infinity'", "'0044-03-15 BC'"],
        "a": ["'{{1,2},{3,4}}'"],
        "at": ["'24:00'"],
    }
    key, wrong = 0, {}
    for column, values in bad.items():
        for value in values:
            place.run(good.replace("%s", str(key)))
            place.run(f"INSERT INTO t (id, {column}) VALUES ({key + 1}, {value})")
            wrong[key + 1] = column
            key += 2
    # a row whose new version does not fit, and a delete of it
    place.run("UPDATE t SET n = 'NaN' WHERE id = 0", "DELETE FROM t WHERE id = 0")
    _, ranges = read_to(source, position, names, source.newest())
    [part] = [part for changes in ranges for part in changes.parts]
    rejected = {json.loads(r.payload)["id"]: r for r in part.rejected}
    assert sorted(rejected) == sorted(map(str, [0, *wrong]))
    for number, column in wrong.items():
        assert f"column '{column}': " in rejected[str(number)].reason
    assert "NaN is not a DECIMAL(5, 2)" in rejected["0"].reason
    assert part.rows.column("id").to_pylist() == [*range(0, key, 2), 0]
    assert part.kinds.tolist() == [0] * (key // 2) + [3]
    orders = [tuple(pair) for pair in part.order.tolist()]
    assert orders == sorted(set(orders))
    assert {r.position for r in part.rejected} & set(orders) == set()


@pytest.mark.parametrize(
    "kind",
    ["interval", "money", "timetz", "inet", "xml", "int4range", "point", "tsvector", "price"],
)
def test_types_without_a_place_are_refused_or_text(place, kind):
    place.run(
        "CREATE DOMAIN price AS numeric(5,2)", f"CREATE TABLE t (id int PRIMARY KEY, v {kind})"
    )
    [table] = place.source().tables()
    assert table.columns[1].type is None
    [finding] = [f for f in place.source().check([table]) if f.kind == "column_type"]
    assert "unknown-to-string" in finding.mend
    [table] = place.source("unknown-to-string").tables()
    assert str(table.columns[1].type) == "STRING"


def test_switches():
    of = TypeMapping.of
    numeric = PostgresType("numeric", (12 << 16 | 2) + 4)
    assert str(numeric.lake_type(of(["to-string"]))) == "STRING"
    assert str(PostgresType("varchar", 14).lake_type(of(["char_to_string"]))) == "STRING"
    assert str(PostgresType("int4", -1, True).lake_type(of([]))) == "ARRAY<INT>"


def test_to_nullable_leaves_the_key(place):
    place.run("CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL)")
    [table] = place.source("to-nullable").tables()
    assert [str(column.type) for column in table.columns] == ["INT NOT NULL", "INT"]
    [table] = place.source().tables()
    assert [str(column.type) for column in table.columns] == ["INT NOT NULL", "INT NOT NULL"]


def test_finer_digits_of_a_time_are_cut_with_a_warning(place):
    place.run("CREATE TABLE t (id int PRIMARY KEY, v time)")
    source, names, position = place.followed()
    assert "time_digits" in [finding.kind for finding in source.check(source.tables())]
    place.run("INSERT INTO t VALUES (1, '01:02:03.123999')")
    _, [changes] = read_to(source, position, names, source.newest())
    assert changes.parts[0].rows.to_pylist() == [{"id": 1, "v": datetime.time(1, 2, 3, 123000)}]


def test_decimals_are_exact(place):
    place.run("CREATE TABLE t (id int PRIMARY KEY, v numeric(38,0))")
    source, names, position = place.followed()
    place.run(f"INSERT INTO t VALUES (1, {'9' * 38})")
    _, [changes] = read_to(source, position, names, source.newest())
    assert changes.parts[0].rows.to_pylist()[0]["v"] == decimal.Decimal("9" * 38)
