"""On a real MariaDB: every type equal to SELECT, what the log says, ranges, hand-over, faults."""

from __future__ import annotations

import datetime as dt
import pickle
import random
import threading
import time
from decimal import Decimal

import pytest
from servers.mariadb import PASSWORD
from unit.cdc.mysql.applied import Applied, plain

from tidelake.cdc.mysql.position import BinlogPosition
from tidelake.cdc.source.changes import MustReread, SourceRows, Truncated, Vanished
from tidelake.cdc.source.source import EpochLimits
from tidelake.cdc.source.source_table import SourceName
from tidelake.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)

QUICK = EpochLimits(wait_ms=1_500, gather_ms=150)
T = SourceName("shop", "", "t")

COLUMNS = {
    "ti": "tinyint", "tu": "tinyint unsigned", "tb": "tinyint(1)", "si": "smallint",
    "su": "smallint unsigned", "mi": "mediumint", "mu": "mediumint unsigned", "i": "int",
    "y": "year", "iu": "int unsigned zerofill", "bi": "bigint", "ub": "bigint unsigned",
    "f": "float", "fu": "float unsigned", "d": "double", "dd": "double(10,2)", "d5": "decimal(5,2)",
    "d9": "decimal(9,0)", "d18": "decimal(18,9)", "d20": "decimal(20,20)", "d38": "decimal(38,10)",
    "d65": "decimal(65,30)", "c": "char(5)", "cl": "char(5) character set latin1",
    "cg": "varchar(9) character set gbk", "cb": "char(200)", "vc": "varchar(20)",
    "vl": "varchar(300) character set latin1", "tt": "tinytext", "tx": "text", "mt": "mediumtext",
    "lt": "longtext", "u16": "text character set utf16", "bn": "binary(4)", "vb": "varbinary(20)",
    "tbl": "tinyblob", "bl": "blob", "mb": "mediumblob", "lb": "longblob", "da": "date",
    "t0": "time", "t3": "time(3)", "t6": "time(6)", "dt0": "datetime", "dt1": "datetime(1)",
    "dt3": "datetime(3)", "dt6": "datetime(6)", "ts0": "timestamp null", "ts2": "timestamp(2) null",
    "ts6": "timestamp(6) null", "b1": "bit(1)", "b3": "bit(3)", "b64": "bit(64)",
    "e": "enum('a','b','ü''x')", "el": "enum('é','z') character set latin1",
    "s": "set('x','y','z')", "j": "json", "g": "geometry", "p": "point", "ip6": "inet6",
    "ip4": "inet4", "e2": "enum(" + ",".join(f"'v{n}'" for n in range(300)) + ")",
}  # fmt: skip
LOW = (
    "-128, 0, 0, -32768, 0, -8388608, 0, -2147483648, 1901, 0, -9223372036854775808, 0, -1.1, 0,"
    " -1.7976931348623157e308, -12345678.91, -999.99, -999999999, -123456789.987654321,"
    " -0.12345678901234567891, -1234567890123456789012345678.0123456789,"
    " -12345678901234567890123456789012345.012345678901234567890123456789,"
    " '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '',"
    " '0001-01-01', '00:00:00', '00:00:00', '00:00:00', '1000-01-01', '1000-01-01', '1000-01-01',"
    " '1000-01-01', '1970-01-01 00:00:01', '1970-01-01 00:00:01', '1970-01-01 00:00:01', b'0',"
    " b'0', 0, 'a', 'z', '', '[]', st_geomfromtext('geometrycollection(point(1 2),"
    "multipoint(1 1,2 2),linestring(0 0,1 1))'), st_geomfromtext('point(0 0)'), '::',"
    " '0.0.0.0', 'v0'"
)
HIGH = (
    "127, 255, 1, 32767, 65535, 8388607, 16777215, 2147483647, 2155, 4294967295,"
    " 9223372036854775807, 18446744073709551615, 1.1, 3.4e38, 1.7976931348623157e308, 12345678.91,"
    " 999.99, 999999999, 123456789.987654321, 0.12345678901234567891,"
    " 1234567890123456789012345678.0123456789,"
    " 12345678901234567890123456789012345.012345678901234567890123456789,"
    " 'äb', 'é€', '中文', repeat('ü', 200), 'naïve 😀', repeat('ß', 300), 'tt', repeat('x', 64000),"
    " repeat('y', 100), repeat('z', 70000), 'u16 ü😀', 'ab', 'vb\\0\\0', x'00ff', x'',"
    " repeat('m', 70000), 'l', '9999-12-31', '23:59:59', '00:00:00.123', '12:34:56.123456',"
    " '9999-12-31 23:59:59', '2024-02-29 12:34:56.7', '2024-02-29 12:34:56.789',"
    " '9999-12-31 23:59:59.999999', '2038-01-19 03:14:07', '2038-01-19 03:14:07.12',"
    " '2024-06-30 12:00:00.123456', b'1', b'101', x'8000000000000001', 'ü''x', 'é', 'x,z',"
    " '{\"a\": [1, 2.5, null]}', st_geomfromtext('polygon((0 0,1 0,1 1,0 0))'),"
    " st_geomfromtext('point(1 2.5)'), '1:2::3', '10.0.0.1', 'v299'"
)


def make_all_types(server):
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    server.do(
        f"CREATE TABLE t (id int PRIMARY KEY, {columns}, gv int AS (si - 1) VIRTUAL,"
        " gs int AS (si - 2) STORED) DEFAULT CHARSET utf8mb4"
    )


def fill_all_types(server):
    names = ", ".join(COLUMNS)
    server.do(
        "INSERT INTO t (id) VALUES (1)",
        f"INSERT INTO t (id, {names}) VALUES (2, {LOW})",
        f"INSERT INTO t (id, {names}) VALUES (3, {HIGH})",
    )


def expected(name, value):
    """A value of PyMySQL as the lake has it."""
    kind = COLUMNS.get(name, "int")
    if value is None:
        return None
    if kind == "tinyint(1)":
        return bool(value)
    if kind == "bigint unsigned":
        return Decimal(value)
    if kind == "decimal(65,30)":
        return f"{value:f}"
    if kind == "bit(1)":
        return value == b"\1"
    if kind.startswith("set"):
        return value.split(",") if value else []
    if kind.startswith("time") and isinstance(value, dt.timedelta):
        whole = dt.datetime(1970, 1, 1) + value
        return whole.time().replace(microsecond=whole.microsecond // 1000 * 1000)
    return value


def read_rows(source, start, tables, limits=QUICK):
    parts = source.read(start, [table.name for table in tables], limits).parts
    parts = [part for part in parts if not getattr(part, "columns", ())]
    assert all(isinstance(part, SourceRows) for part in parts), parts
    return [row for part in parts for row in part.rows.to_pylist()]


def test_every_type_is_what_select_says_by_the_log_and_by_a_copy(maria, open_source):
    make_all_types(maria)
    source = open_source(maria, "unknown-to-string")
    tables = source.tables()
    start = source.newest()
    fill_all_types(maria)
    changes = source.read(start, [T], QUICK)
    (part,) = changes.parts
    assert part.table == tables[0]  # also what only information_schema knows: tinyint(1)
    assert part.rejected == ()
    names = [name for name in COLUMNS if name not in {"f", "fu", "g", "p"}]
    asked = ", ".join(["id", *(f"`{name}`" for name in names), "gv", "gs"])
    selected = [
        {"id": row[0], **{name: expected(name, value) for name, value in
                          zip([*names, "gv", "gs"], row[1:], strict=True)}}
        for row in maria.do(f"SELECT {asked} FROM t ORDER BY id")
    ]  # fmt: skip
    for zone in ("ts0", "ts2", "ts6"):  # PyMySQL's connection has the server's zone, UTC here
        assert selected[0][zone] is None
    logged = part.rows.to_pylist()
    assert [{name: row[name] for name in selected[0]} for row in logged] == selected
    assert [row["f"] for row in logged] == [None, pytest.approx(-1.1), pytest.approx(1.1)]
    assert logged[1]["g"].startswith('{"geometries":[{"type":"Point","coordinates":[1,2]}')
    assert logged[2]["p"] == '{"coordinates":[1,2.5],"type":"Point","srid":0}'
    with source.first_copy([T]) as copied:
        (chunk,) = copied.chunks(tables[0], rows_max=1000)
        rows = [row for one in copied.read(chunk) for row in one.rows.to_pylist()]
        assert copied.order < tuple(part.order[0]) or copied.position != start
    assert rows == logged


def test_a_copied_row_stands_before_the_next_change(maria, open_source):
    maria.do("CREATE TABLE t (id int PRIMARY KEY, n int)", "INSERT INTO t VALUES (1, 1)")
    source = open_source(maria)
    with source.first_copy([T]) as copied:
        order, start = copied.order, copied.position
    maria.do("UPDATE t SET n = 2")
    (part,) = source.read(start, [T], QUICK).parts
    assert order < tuple(part.order[0])
    assert part.rows.to_pylist() == [{"id": 1, "n": 2}]


def test_chunks_are_read_by_other_processes(maria, open_source):
    maria.do(
        "CREATE TABLE t (id int PRIMARY KEY, n int)",
        "INSERT INTO t SELECT seq, seq * 2 FROM seq_1_to_100",
        "CREATE TABLE bare (n int)",
    )
    source = open_source(maria)
    tables = {table.name.table: table for table in source.tables()}
    with source.first_copy(list(tables)) as copied:
        chunks = copied.chunks(tables["t"], rows_max=30)
        sent = pickle.dumps(copied.reader(chunks))
        assert copied.reader(copied.chunks(tables["bare"], rows_max=30)) is None
    assert PASSWORD.encode() not in sent
    assert len(chunks) > 2
    reader = pickle.loads(sent)
    rows = [row for one in chunks for part in reader.read(one) for row in part.rows.to_pylist()]
    assert rows == [{"id": n, "n": 2 * n} for n in range(1, 101)]


def test_kinds_of_rows(maria, open_source):
    maria.do("CREATE TABLE t (id int PRIMARY KEY, n int)")
    source = open_source(maria)
    start = source.newest()
    maria.do(
        "INSERT INTO t VALUES (1, 1), (2, 2)", "UPDATE t SET n = 5 WHERE id = 1",
        "UPDATE t SET id = 7 WHERE id = 2", "DELETE FROM t WHERE id = 1",
        "BEGIN", "INSERT INTO t VALUES (8, 8)", "ROLLBACK",
        "BEGIN", "INSERT INTO t VALUES (9, 9)", "SAVEPOINT a", "INSERT INTO t VALUES (10, 10)",
        "ROLLBACK TO a", "COMMIT",
    )  # fmt: skip
    changes = source.read(start, [T], QUICK)
    (part,) = changes.parts
    rows = [(kind, row["id"], row["n"]) for kind, row in
            zip(part.kinds.tolist(), part.rows.to_pylist(), strict=True)]  # fmt: skip
    assert rows == [(0, 1, 1), (0, 2, 2), (2, 1, 5), (3, 2, 2), (2, 7, 2), (3, 1, 5), (0, 9, 9)]
    assert part.order[3].tolist()[0] == part.order[4].tolist()[0]
    assert part.order[4].tolist()[1] == part.order[3].tolist()[1] + 1
    assert changes.newest == changes.end == source.newest()
    assert changes.committed_ms is not None
    assert abs(part.changed_ms[0] - changes.committed_ms) < 60_000


def test_every_update_of_a_table_without_a_key_takes_the_old_row_away(maria, open_source):
    maria.do("CREATE TABLE t (a int, s set('x','y'))", "INSERT INTO t VALUES (1, 'x')")
    source = open_source(maria)
    start = source.newest()
    maria.do("UPDATE t SET s = 'x,y'")
    (part,) = source.read(start, [T], QUICK).parts
    assert part.kinds.tolist() == [3, 2]
    assert [row["s"] for row in part.rows.to_pylist()] == [["x"], ["x", "y"]]


def test_a_change_of_another_key_column_takes_the_old_row_away(maria, open_source):
    maria.do(
        "CREATE TABLE t (id int PRIMARY KEY, shelf varchar(9), n int, d date)",
        "SET sql_mode = 'ALLOW_INVALID_DATES'",
        "INSERT INTO t VALUES (1, 'a', 1, NULL), (2, NULL, 2, NULL), (3, 'c', 3, '2024-02-31')",
    )
    source = open_source(maria)
    start = source.newest()
    maria.do(
        "UPDATE t SET n = n + 1, d = NULL", "UPDATE t SET shelf = 'b' WHERE id < 3",
        "UPDATE t SET shelf = NULL WHERE id = 1", "DELETE FROM t WHERE id = 2",
    )  # fmt: skip
    shelf = lambda _: frozenset({"shelf"})  # noqa: E731
    (part,) = source.read(start, [T], QUICK, key_columns=shelf).parts
    rows = [(kind, row["id"], row["shelf"]) for kind, row in
            zip(part.kinds.tolist(), part.rows.to_pylist(), strict=True)]  # fmt: skip
    assert rows == [
        (2, 1, "a"), (2, 2, None), (2, 3, "c"), (3, 1, "a"), (2, 1, "b"), (3, 2, None), (2, 2, "b"),
        (3, 1, "b"), (2, 1, None), (3, 2, "b"),
    ]  # fmt: skip
    order = [tuple(one) for one in part.order.tolist()]
    assert order == sorted(set(order))
    # a day that none is tells no row if it is of the key
    day = lambda _: frozenset({"d"})  # noqa: E731
    (part,) = source.read(start, [T], QUICK, key_columns=day).parts
    [told] = part.rejected
    assert (told.kind, told.reason[:10]) == (3, "column 'd'")


def test_days_that_no_calendar_has(maria, open_source):
    maria.do(
        "CREATE TABLE t (id int PRIMARY KEY, a date, b datetime(3), c date NOT NULL, d time,"
        " e tinyint(1))"
    )
    source = open_source(maria)
    start = source.newest()
    free = "SET sql_mode = 'ALLOW_INVALID_DATES'"
    good = "'2024-01-01'"
    maria.do(
        free, f"INSERT INTO t VALUES (1, '0000-00-00', '0000-00-00', {good}, NULL, NULL)",
        f"INSERT INTO t VALUES (2, '2024-00-10', NULL, {good}, NULL, NULL)",
        f"INSERT INTO t VALUES (3, NULL, '2024-02-31 01:02:03.004', {good}, NULL, NULL)",
        "INSERT INTO t VALUES (4, NULL, NULL, '0000-00-00', NULL, NULL)",
        f"INSERT INTO t VALUES (5, NULL, NULL, {good}, '-01:00:00', NULL)",
        f"INSERT INTO t VALUES (6, NULL, NULL, {good}, NULL, 2)",
        "DELETE FROM t WHERE id = 2",
    )  # fmt: skip
    (part,) = source.read(start, [T], QUICK).parts
    rows = part.rows.to_pylist()
    assert [(row["id"], row["a"], row["b"]) for row in rows] == [(1, None, None), (2, None, None)]
    assert part.kinds.tolist() == [0, 3]  # a deletion needs its key alone
    reasons = {one.position: one for one in part.rejected}
    assert len(reasons) == 5
    told = [one.reason for one in part.rejected]
    assert told[0].startswith("column 'a': the value does not fit DATE")
    assert "to-nullable" in told[2]
    assert "outside of a day" in told[3]
    assert "tinyint1-not-bool" in told[4]
    assert '"a": "2024-00-10"' in part.rejected[0].payload
    maria.do(free, f"INSERT INTO t VALUES (2, '2024-00-10', NULL, {good}, NULL, NULL)")
    with source.first_copy([T]) as copied:
        (chunk,) = copied.chunks(source.tables()[0], rows_max=10)
        (batch,) = copied.read(chunk)
    assert batch.rows.to_pylist() == rows[:1]
    assert [one.reason for one in batch.rejected] == told
    assert '"a": "2024-00-10"' in batch.rejected[0].payload


def test_a_timestamp_is_on_the_clock_of_the_zone(maria, open_source):
    maria.do("CREATE TABLE t (id int PRIMARY KEY, a timestamp(3) NULL, b datetime)")
    zoned = open_source(maria, server_time_zone="Europe/Berlin")
    offset = open_source(maria, server_time_zone="+02:00", server_id="77")
    start = zoned.newest()
    maria.do(
        "SET time_zone = '+00:00'",
        "INSERT INTO t VALUES (1, '2024-07-01 10:00:00.5', '2024-07-01 10:00:00')",
        "INSERT INTO t VALUES (2, '2024-01-01 10:00:00.5', '2024-01-01 10:00:00')",
    )
    found = [[row["a"].hour for row in read_rows(one, start, zoned.tables())]
             for one in (zoned, offset)]  # fmt: skip
    assert found == [[12, 11], [12, 12]]
    for one, hours in ((zoned, [12, 11]), (offset, [12, 12])):
        with one.first_copy([T]) as copied:
            (batch,) = copied.read(copied.chunks(one.tables()[0], rows_max=9)[0])
        assert [row["a"].hour for row in batch.rows.to_pylist()] == hours
        assert [row["b"].hour for row in batch.rows.to_pylist()] == [10, 10]


def test_switches_of_the_mapping(maria, open_source):
    maria.do(
        "CREATE TABLE t (id int PRIMARY KEY, a tinyint(1), b bigint unsigned, c char(3),"
        " l longtext, d datetime(2), t time(1), s set('x','y'), v bit(5), n decimal(10,9), y year,"
        " g point, f double, z blob)"
    )
    start = open_source(maria).newest()
    maria.do(
        "INSERT INTO t VALUES (1, 2, 18446744073709551615, 'x', 'lé', '2024-01-02 03:04:05.67',"
        " '-100:00:00.5', 'x,y', b'101', 0.000000001, 0, ST_GeomFromText('point(1 2)'), 0.1, 'z')"
    )
    texts = open_source(maria, "to-string")
    rows = read_rows(texts, start, texts.tables())
    assert rows == [{
        "id": "1", "a": "2", "b": "18446744073709551615", "c": "x", "l": "lé",
        "d": "2024-01-02 03:04:05.67", "t": "-100:00:00.5", "s": "x,y", "v": "00101",
        "n": "0.000000001", "y": "0000", "g": '{"coordinates":[1,2],"type":"Point","srid":0}',
        "f": "0.1", "z": "z",
    }]  # fmt: skip
    with texts.first_copy([T]) as copied:
        (batch,) = copied.read(copied.chunks(texts.tables()[0], rows_max=9)[0])
    assert batch.rows.to_pylist() == rows
    other = open_source(
        maria, "tinyint1-not-bool", "bigint-unsigned-to-bigint", "char-to-string",
        "longtext-to-bytes", "to-nullable",
    )  # fmt: skip
    (table,) = other.tables()
    types = {column.name: str(column.type) for column in table.columns}
    assert types["a"] == "TINYINT"
    assert types["b"] == "BIGINT"
    assert types["c"] == "STRING"
    assert types["l"] == "BYTES"
    assert types["id"] == "INT"
    (part,) = other.read(start, [T], QUICK).parts
    assert not len(part.rows)
    assert "column 'b': the value does not fit BIGINT" in part.rejected[0].reason


def test_columns_change_on_the_way(maria, open_source):
    maria.do("CREATE TABLE t (id int PRIMARY KEY, n int, gone tinyint(1))")
    source = open_source(maria)
    start = source.newest()
    maria.do(
        "INSERT INTO t VALUES (1, 1, 1)", "ALTER TABLE t ADD COLUMN x bigint unsigned DEFAULT 5",
        "INSERT INTO t VALUES (2, 2, 1, 9)", "ALTER TABLE t DROP COLUMN gone, RENAME COLUMN n TO m",
        "INSERT INTO t VALUES (3, 3, 8)", "ALTER TABLE t MODIFY m bigint, ADD s enum('a') FIRST",
        "INSERT INTO t VALUES ('a', 4, 4, 7)",
    )  # fmt: skip
    every = source.read(start, [T], QUICK).parts
    parts = [part for part in every if isinstance(part, SourceRows)]
    # which names columns got is told between the rows
    assert [getattr(part, "columns", None) for part in every] == [
        None, ("x",), None, ("m",), None, ("s",), None
    ]  # fmt: skip
    assert [part.rows.to_pylist() for part in parts] == [
        [{"id": 1, "n": 1, "gone": 1}],
        [{"id": 2, "n": 2, "gone": 1, "x": Decimal(9)}],
        [{"id": 3, "m": 3, "x": Decimal(8)}],
        [{"s": "a", "id": 4, "m": 4, "x": Decimal(7)}],
    ]
    last = {
        column.name: (column.native_type, column.has_default) for column in parts[3].table.columns
    }
    assert last["x"] == ("bigint unsigned", True)
    assert last["m"] == ("bigint", False)
    assert parts[3].table == source.tables()[0]


def test_a_renamed_boolean_stays_one(maria, open_source):
    maria.do("CREATE TABLE t (id int PRIMARY KEY, a tinyint(1))")
    source = open_source(maria)
    start = source.newest()
    maria.do("INSERT INTO t VALUES (1, 1)", "ALTER TABLE t RENAME COLUMN a TO b")
    assert read_rows(source, start, source.tables()) == [{"id": 1, "a": True}]


def test_a_truncation_is_alone_in_its_range(maria, open_source):
    maria.do("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE u (id int PRIMARY KEY)")
    source = open_source(maria)
    tables = source.tables()
    applied = Applied(source, tables, source.newest())
    maria.do(
        "INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)", "truncate /* all */ `shop` . `t`",
        "INSERT INTO t VALUES (2)", "TRUNCATE u", "TRUNCATE t", "INSERT INTO t VALUES (3)",
    )  # fmt: skip
    end = source.newest()
    seen = []
    while source.is_before(applied.position, end):
        changes = source.read(applied.position, applied.names, QUICK)
        names = [part.table.name if isinstance(part, SourceRows) else part.table
                 for part in changes.parts]  # fmt: skip
        if any(isinstance(part, Truncated) for part in changes.parts):
            assert len(set(names)) == len(names)
        seen.append([type(part).__name__ for part in changes.parts])
        again = source.read(changes.start, applied.names, QUICK, end=changes.end)
        assert plain(again) == plain(changes)
        assert (again.start, again.end) == (changes.start, changes.end)
        applied.take(changes)
    assert applied.rows[T] == {(3,): {"id": 3}}
    assert applied.rows[SourceName("shop", "", "u")] == {}
    assert sum(one.count("Truncated") for one in seen) == 3


def test_whole_tables_come_and_go(maria, open_source):
    maria.do("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE u (id int PRIMARY KEY)")
    source = open_source(maria)
    applied = Applied(source, source.tables(), source.newest())
    maria.do(
        "CREATE TABLE _t_gho LIKE t", "INSERT INTO _t_gho VALUES (5)",
        "RENAME TABLE t TO _t_del, _t_gho TO t", "INSERT INTO t VALUES (6)",
        "DROP TABLE IF EXISTS _t_del, u", "CREATE TABLE u (id int PRIMARY KEY, n int)",
        "CREATE TABLE IF NOT EXISTS u (id int)", "ALTER TABLE u RENAME v",
        "CREATE TEMPORARY TABLE u (id int)", "CREATE OR REPLACE TABLE t (id int PRIMARY KEY)",
        "CREATE TABLE p (id int PRIMARY KEY) PARTITION BY HASH(id) PARTITIONS 2",
        "DROP DATABASE shop", "CREATE DATABASE shop",
    )  # fmt: skip
    applied.catch_up(QUICK)
    told = [(kind, table) for kind, table, _ in applied.told]
    assert told == [
        ("MustReread", "shop.t"), ("Vanished", "shop.u"), ("MustReread", "shop.u"),
        ("Vanished", "shop.u"), ("MustReread", "shop.t"), ("Vanished", "shop.t"),
        ("Vanished", "shop.u"),
    ]  # fmt: skip
    assert applied.told[0][2] == "another table was renamed to it"
    assert not [table for table in source.tables() if table.name.table.startswith("_")]


def test_partitions_that_are_emptied_make_the_table_be_read_again(maria, open_source):
    maria.do(
        "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)"
        " (PARTITION a VALUES LESS THAN (10), PARTITION b VALUES LESS THAN (20))"
    )
    source = open_source(maria)
    applied = Applied(source, source.tables(), source.newest())
    maria.do("INSERT INTO t VALUES (1), (11)", "ALTER TABLE t TRUNCATE PARTITION a",
             "ALTER TABLE t DROP PARTITION b")  # fmt: skip
    applied.catch_up(QUICK)
    assert [kind for kind, _, _ in applied.told] == ["MustReread", "MustReread"]
    assert "TRUNCATE PARTITION" in applied.told[0][2]


def test_what_the_log_does_not_tell_row_by_row(maria, open_source):
    maria.do("CREATE TABLE t (id int PRIMARY KEY, n int)", "CREATE TABLE u (id int PRIMARY KEY)",
             "INSERT INTO t VALUES (1, 1)")  # fmt: skip
    source = open_source(maria)
    applied = Applied(source, source.tables(), source.newest())
    maria.do("SET binlog_format = 'STATEMENT'", "INSERT INTO t SELECT id + 1, n FROM t")
    applied.catch_up(QUICK)
    assert [(kind, table) for kind, table, _ in applied.told] == [("MustReread", "shop.t")]
    maria.do("SET binlog_row_image = 'MINIMAL'", "UPDATE t SET n = 2 WHERE id = 1")
    applied.catch_up(QUICK)
    assert "binlog_row_image" in applied.told[-1][2]
    assert len(applied.told) == 2


def test_names_that_are_missing_are_refused_with_the_setting(maria, open_source):
    maria.do("CREATE TABLE t (id int PRIMARY KEY)")
    source = open_source(maria)
    tables = source.tables()
    start = source.newest()
    try:
        maria.do("SET GLOBAL binlog_row_metadata = 'MINIMAL'")
        maria.do("INSERT INTO t VALUES (1)")
        (finding,) = source.check(tables)
        assert finding.kind == "binlog_row_metadata"
        assert finding.mend == "SET GLOBAL binlog_row_metadata = 'FULL'"
        with pytest.raises(UnsupportedError, match="SET GLOBAL binlog_row_metadata") as raised:
            source.read(start, [T], QUICK)
        assert raised.value.kind == "cdc_row_metadata"
    finally:
        maria.do("SET GLOBAL binlog_row_metadata = 'FULL'")


def test_xa_transactions_of_a_table_are_refused(maria, open_source):
    maria.do("CREATE TABLE t (id int PRIMARY KEY)")
    source = open_source(maria)
    start = source.newest()
    maria.do("XA START 'a'", "INSERT INTO t VALUES (1)", "XA END 'a'", "XA PREPARE 'a'",
             "XA COMMIT 'a'")  # fmt: skip
    with pytest.raises(UnsupportedError, match="XA transaction"):
        source.read(start, [T], QUICK)
    other = SourceName("shop", "", "other")
    assert source.read(start, [other], QUICK).end == source.newest()


def test_a_large_transaction_is_cut_within_and_read_again_the_same(maria, open_source):
    maria.do("CREATE TABLE t (id int PRIMARY KEY, s varchar(200))")
    source = open_source(maria)
    applied = Applied(source, source.tables(), source.newest())
    maria.do("BEGIN", "INSERT INTO t SELECT seq, repeat('x', 100) FROM seq_1_to_5000",
             "UPDATE t SET id = id + 10000 WHERE id <= 2500", "COMMIT",
             "INSERT INTO t VALUES (1, 'after')")  # fmt: skip
    small = EpochLimits(rows_max=700, wait_ms=300, gather_ms=50)
    end = source.newest()
    whole = source.read(applied.position, [T], QUICK)
    pieces = []
    while source.is_before(applied.position, end):
        changes = source.read(applied.position, [T], small)
        assert changes.rows_count < 2 * 1_000  # an update of a key is two rows
        pieces.append(changes)
        applied.take(changes)
    assert len(pieces) > 8
    assert any(":0;" not in piece.end for piece in pieces)
    joined = [row for piece in pieces for part in piece.parts for row in part.rows.to_pylist()]
    order = [one for piece in pieces for part in piece.parts for one in part.order.tolist()]
    assert joined == [row for part in whole.parts for row in part.rows.to_pylist()]
    assert order == [one for part in whole.parts for one in part.order.tolist()]
    other = open_source(maria, server_id="4711")  # another process, in another order
    for piece in reversed(pieces):
        again = other.read(piece.start, [T], EpochLimits(), end=piece.end)
        assert plain(again) == plain(piece)
    assert len(applied.rows[T]) == 5001


def test_ranges_read_again_are_the_same_under_a_random_load(maria, open_source):
    maria.do("CREATE TABLE t (id int PRIMARY KEY, n int)", "CREATE TABLE u (id int PRIMARY KEY)")
    source = open_source(maria)
    tables = source.tables()
    applied = Applied(source, tables, source.newest())
    draw = random.Random(5)
    statements = []
    for _ in range(150):
        key, n = draw.randrange(60), draw.randrange(60)
        statements.append(draw.choice([
            f"REPLACE INTO t VALUES ({key}, {n})", f"DELETE FROM t WHERE id = {key}",
            f"UPDATE IGNORE t SET id = {n} WHERE id = {key}",
            f"UPDATE t SET n = n + 1 WHERE n > {n}",
            f"REPLACE INTO u VALUES ({key})", "BEGIN", "COMMIT", "ROLLBACK",
        ]))  # fmt: skip
        if draw.random() < 0.03:
            more = "ALTER TABLE t ADD COLUMN IF NOT EXISTS x int"
            statements.append(
                draw.choice(["TRUNCATE t", "FLUSH BINARY LOGS", "FLUSH TABLES", more])
            )
    with maria.connect(database="shop") as connection, connection.cursor() as cursor:
        for statement in statements:
            if statement.startswith("ALTER") or "INTO t" not in statement:
                cursor.execute(statement)
            else:
                cursor.execute(statement.replace("INTO t ", "INTO t (id, n) "))
        cursor.execute("COMMIT")
    ranges = []
    while source.is_before(applied.position, source.newest()):
        limits = EpochLimits(rows_max=draw.choice([1, 3, 20]), wait_ms=200, gather_ms=50)
        changes = source.read(applied.position, applied.names, limits)
        ranges.append(changes)
        applied.take(changes)
    other = open_source(maria, server_id="4711")
    for changes in draw.sample(ranges, len(ranges))[:40]:
        again = other.read(changes.start, applied.names, EpochLimits(), end=changes.end)
        assert plain(again) == plain(changes)
    now = {(row[0],): row[1] for row in maria.do("SELECT id, n FROM t")}
    assert {key: row["n"] for key, row in applied.rows[T].items()} == now


@pytest.mark.parametrize("keyed", [True, False])
def test_a_copy_hands_over_to_the_log_under_three_writers(maria, open_source, keyed):
    key = "PRIMARY KEY" if keyed else ""
    maria.do(f"CREATE TABLE t (id int {key}, v int, INDEX (id))",
             "INSERT INTO t SELECT seq, 0 FROM seq_1_to_5000")  # fmt: skip
    source = open_source(maria)
    stop = threading.Event()
    count = [0, 0, 0]

    def load(seed):
        draw = random.Random(seed)
        with maria.connect(database="shop") as connection, connection.cursor() as cursor:
            while not stop.is_set():
                one, kind = draw.randrange(6000) * 3 + seed, draw.random()
                if kind < 0.6:
                    cursor.execute("UPDATE t SET v = v + 1 WHERE id = %s", [one % 6000])
                elif kind < 0.7:
                    cursor.execute("UPDATE IGNORE t SET id = %s WHERE id = %s", [one + 7, one])
                elif kind < 0.85:
                    cursor.execute("DELETE FROM t WHERE id = %s", [one])
                else:
                    cursor.execute("DELETE FROM t WHERE id = %s", [one])
                    cursor.execute("INSERT IGNORE INTO t VALUES (%s, %s)", [one, count[seed]])
                count[seed] += 1

    threads = [threading.Thread(target=load, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    try:
        applied = Applied(source, source.tables(), "")
        with source.first_copy([T]) as copied:
            stop.wait(0.3)
            applied.copy(copied, rows_max=700)
        stop.wait(0.5)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    applied.catch_up(QUICK)
    assert applied.sorted(T) == sorted(maria.do("SELECT id, v FROM t"))
    assert min(count) > 20


def test_chunks_cover_a_table_once(maria, open_source):
    maria.do(
        "CREATE TABLE t (k varchar(20) CHARACTER SET latin1 PRIMARY KEY, n int)",
        "INSERT INTO t SELECT concat('ü''', seq * 7919 % 10007), seq FROM seq_1_to_3000",
        "CREATE TABLE u (a datetime(3), b int, PRIMARY KEY (a, b))",
        "INSERT INTO u SELECT timestamp'2024-01-01 00:00:00' + interval seq div 10 minute, seq"
        " FROM seq_1_to_3000",
        "CREATE TABLE w (id bigint PRIMARY KEY)",
        "INSERT INTO w SELECT seq * 1000 FROM seq_1_to_3000",
        "ANALYZE TABLE t, u, w",
    )  # fmt: skip
    source = open_source(maria)
    for table in source.tables():
        with source.first_copy([table.name]) as copied:
            chunks = copied.chunks(table, rows_max=400)
            assert 5 <= len(chunks) <= 12, chunks
            rows = [tuple(row.values()) for chunk in chunks for part in copied.read(chunk)
                    for row in part.rows.to_pylist()]  # fmt: skip
        assert len(rows) == len(set(rows)) == 3000


def test_a_restarted_server_is_read_on(maria, open_source):
    maria.do("CREATE TABLE t (id int PRIMARY KEY)")
    source = open_source(maria)
    start = source.newest()
    maria.do("INSERT INTO t VALUES (1)")
    first = source.read(start, [T], QUICK)
    maria.restart()
    maria.do("INSERT INTO t VALUES (2)")
    second = source.read(first.end, [T], QUICK)
    assert [row["id"] for part in second.parts for row in part.rows.to_pylist()] == [2]
    maria.stop()
    hasty = open_source(maria, **{"connect.max-retries": "0"})
    try:
        with pytest.raises(StorageError) as raised:
            hasty.read(second.end, [T], QUICK)
        assert raised.value.kind == "cdc_unreachable"
    finally:
        maria.start()
    maria.do("INSERT INTO t VALUES (3)")
    third = source.read(second.end, [T], QUICK)
    assert [row["id"] for part in third.parts for row in part.rows.to_pylist()] == [3]


def test_a_position_that_the_log_no_longer_has_is_lost(maria, open_source):
    maria.do("CREATE TABLE t (id int PRIMARY KEY)")
    source = open_source(maria)
    start = source.newest()
    maria.do("INSERT INTO t VALUES (1)", "FLUSH BINARY LOGS")
    last = maria.do("SHOW MASTER STATUS")[0][0]
    for _ in range(100):  # readers of other tests that are gone hold files until it notices
        maria.do(f"PURGE BINARY LOGS TO '{last}'", "INSERT INTO t SELECT max(id) + 1 FROM t")
        if len(maria.do("SHOW BINARY LOGS")) == 1:
            break
        time.sleep(0.1)
    with pytest.raises(NotFoundError) as raised:
        source.read(start, [T], QUICK)
    assert raised.value.kind == "cdc_position_lost"
    newer = source.newest()
    maria.do("INSERT INTO t VALUES (0)")
    assert len(source.read(newer, [T], QUICK).parts) == 1
    source.check_position(newer)
    [held] = source.held(newer)
    assert held.startswith("The server holds nothing for the job: it keeps its log")
    maria.do("RESET MASTER")
    with pytest.raises(NotFoundError, match="was reset, or the server was restored") as raised:
        source.check_position(newer)  # without a read
    assert raised.value.kind == "cdc_position_lost"
    with pytest.raises(NotFoundError) as raised:
        source.read(newer, [T], QUICK)
    assert raised.value.kind == "cdc_position_lost"


def test_two_readers_of_one_server_id(maria, open_source):
    maria.do("CREATE TABLE t (id int PRIMARY KEY)")
    one, two = open_source(maria, server_id="4444"), open_source(maria, server_id="4444")
    start = one.newest()
    one.read(start, [T], EpochLimits(wait_ms=50))
    assert [found.kind for found in two.check(two.tables())] == ["server_id_in_use"]
    two.read(start, [T], EpochLimits(wait_ms=50))
    with pytest.raises(ConflictError) as raised:
        one.read(start, [T], EpochLimits(wait_ms=2_000))
    assert raised.value.kind == "cdc_position_in_use"


def test_findings_name_the_statement_that_mends(maria, open_source):
    maria.do("CREATE TABLE t (id int PRIMARY KEY, u uuid)", "CREATE TABLE n (a int)")
    source = open_source(maria)
    tables = source.tables()
    assert {(found.kind, found.is_error) for found in source.check(tables)} == {
        ("column_type", True), ("no_primary_key", False)
    }  # fmt: skip
    poor = open_source(maria, username="reader", server_id="1")
    found = {one.kind: one for one in poor.check(tables)}
    assert set(found) == {
        "right_replication_client", "right_replication_slave", "right_select", "server_id",
        "column_type", "no_primary_key",
    }  # fmt: skip
    assert found["right_replication_slave"].mend == "GRANT REPLICATION SLAVE ON *.* TO 'reader'"
    maria.do("GRANT REPLICATION SLAVE, BINLOG MONITOR, SELECT ON *.* TO reader@'127.0.0.1'")
    try:
        good = open_source(maria, username="reader", server_id="4712")
        assert {one.kind for one in good.check(tables)} == {"column_type", "no_primary_key"}
        start = good.newest()
        maria.do("INSERT INTO n VALUES (4)")
        assert read_rows(good, start, [t for t in tables if t.name.table == "n"]) == [{"a": 4}]
    finally:
        maria.do("REVOKE REPLICATION SLAVE, BINLOG MONITOR, SELECT ON *.* FROM reader@'127.0.0.1'")


def test_a_wrong_password_says_so_and_not_the_password(maria, open_source):
    source = open_source(maria, password="not it")
    with pytest.raises(InvalidInputError) as raised:
        source.newest()
    assert raised.value.kind == "cdc_login"
    assert "not it" not in str(raised.value)
    assert "not it" not in repr(source._settings)


def test_facts_for_people(maria, open_source):
    source = open_source(maria)
    assert source.identity() == "mariadb:server_id=1,domain=0"
    status = source.status()
    assert status["newest"] == source.newest()
    assert status["log_bytes"] > 0
    assert source.drop() == []
    source.confirm(source.newest())


def test_the_lag_is_counted_in_bytes_over_several_files(maria, open_source):
    maria.do("CREATE TABLE t (id int PRIMARY KEY)")
    source = open_source(maria)
    start = source.newest()
    assert source.lag(start, start).bytes_count == 0
    maria.do("INSERT INTO t VALUES (1)", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (2)")
    end, files = source.newest(), source.status()["log_bytes"]
    lag = source.lag(start, end)
    assert 0 < lag.bytes_count < files
    assert (lag.newest_ms, lag.note) == (None, "MySQL does not say when it committed last")
    gone = BinlogPosition(BinlogPosition.parse(start).file.replace("0", "9"), 4)
    assert source.lag(str(gone), end).bytes_count is None


def test_a_range_without_changes_still_moves(maria, open_source):
    maria.do("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (id int)")
    source = open_source(maria)
    start = source.newest()
    maria.do("INSERT INTO other VALUES (1)")
    changes = source.read(start, [T], QUICK)
    assert changes.parts == ()
    assert changes.end == source.newest() != start
    assert source.read(changes.end, [T], QUICK).end == changes.end


def test_compressed_events_are_read(maria, open_source):
    maria.do("CREATE TABLE t (id int PRIMARY KEY, s text)")
    source = open_source(maria)
    start = source.newest()
    try:
        maria.do("SET GLOBAL log_bin_compress = ON", "SET GLOBAL log_bin_compress_min_len = 10")
        maria.do("INSERT INTO t VALUES (1, repeat('x', 500))", "UPDATE t SET s = repeat('y', 500)",
                 "DELETE FROM t", "TRUNCATE TABLE t /* " + "c" * 600 + " */")  # fmt: skip
    finally:
        maria.do("SET GLOBAL log_bin_compress = OFF")
    applied = Applied(source, source.tables(), start)
    (part,) = source.read(start, [T], QUICK).parts
    assert part.kinds.tolist() == [0, 2, 3]
    assert part.rows.to_pylist()[1]["s"] == "y" * 500
    applied.catch_up(QUICK)
    assert applied.told == [("Truncated", "shop.t", "")]


def test_vanished_names_the_statement(maria, open_source):
    maria.do("CREATE TABLE t (id int PRIMARY KEY)")
    source = open_source(maria)
    start = source.newest()
    maria.do("DROP TABLE t")
    (part,) = source.read(start, [T], QUICK).parts
    assert isinstance(part, Vanished)
    assert part.statement.startswith("DROP TABLE `t`")
    maria.do("CREATE TABLE t (id int PRIMARY KEY)")
    changes = source.read(source.read(start, [T], QUICK).end, [T], QUICK)
    assert isinstance(changes.parts[0], MustReread)


@pytest.mark.parametrize("flavour", ["maria", "mysql56"])
def test_a_job_begins_where_it_is_asked_to(flavour, request, open_source):
    server = request.getfixturevalue(flavour)
    server.do("CREATE TABLE t (id int PRIMARY KEY)", "RESET MASTER", "INSERT INTO t VALUES (1)")
    time.sleep(1.1)
    seconds = time.time()
    time.sleep(1.1)
    marks = [server.do("SHOW MASTER STATUS")[0][:2]]
    server.do("INSERT INTO t VALUES (2)", "FLUSH LOGS", "INSERT INTO t VALUES (3)")
    marks.append(server.do("SHOW MASTER STATUS")[0][:2])
    server.do("INSERT INTO t VALUES (4)")
    tables = open_source(server).tables()
    file, pos = "scan.startup.specific-offset.file", "scan.startup.specific-offset.pos"
    asked = {
        (1, 2, 3, 4): {"scan.startup.mode": "earliest-offset"},
        (): {"scan.startup.mode": "latest-offset"},
        (2, 3, 4): {"scan.startup.mode": "specific-offset", file: marks[0][0],
                    pos: str(marks[0][1])},
        (4,): {"scan.startup.mode": "specific-offset", file: marks[1][0], pos: str(marks[1][1])},
        (2, 3, 4, None): {"scan.startup.mode": "timestamp",
                          "scan.startup.timestamp-millis": str(int(seconds * 1000))},
    }  # fmt: skip
    for number, (ids, conf) in enumerate(asked.items()):
        source = open_source(server, server_id=str(4800 + number), **conf)
        start = source.first_copy([T], is_start=True).position
        rows = read_rows(source, start, tables)
        assert [row["id"] for row in rows] == [one for one in ids if one], conf
        end = source.read(start, [T], QUICK).end
        if ids != (1, 2, 3, 4):  # before the first there is no GTID, and files are read on
            assert end.partition(";")[2] == source.newest().partition(";")[2]
    assert open_source(server).startup_position() is None
    wrong = open_source(server, **{"scan.startup.mode": "specific-offset", file: marks[0][0],
                                   pos: str(marks[0][1] + 1)})  # fmt: skip
    with pytest.raises(InvalidInputError, match="No transaction begins"):
        wrong.startup_position()
    gone = open_source(server, **{"scan.startup.mode": "specific-offset", file: "bin.999999"})
    with pytest.raises(NotFoundError):
        gone.startup_position()


def test_a_reader_that_was_ended_on_the_server_goes_on(maria, open_source):
    maria.do("CREATE TABLE t (id int PRIMARY KEY)")
    source = open_source(maria)
    first = source.read(source.newest(), [T], EpochLimits(wait_ms=50))
    for row in maria.do("SHOW PROCESSLIST"):
        if row[4] == "Binlog Dump":
            maria.do(f"KILL {row[0]}")
    maria.do("INSERT INTO t VALUES (1)")
    changes = source.read(first.end, [T], QUICK)
    assert [row["id"] for part in changes.parts for row in part.rows.to_pylist()] == [1]


def test_a_file_that_has_no_transaction_is_read_to_its_end(maria, open_source):
    maria.do("CREATE TABLE t (id int PRIMARY KEY)")
    source = open_source(maria)
    start = source.newest()
    maria.do("FLUSH BINARY LOGS")
    newest = source.newest()
    assert source.is_before(start, newest)
    changes = source.read(start, [T], QUICK)
    # MariaDB writes an event of its own a moment later
    assert not source.is_before(changes.end, newest)
    assert changes.parts == ()
    other = open_source(maria, server_id="4713")
    assert other.read(start, [T], QUICK, end=newest).parts == ()
    maria.do("INSERT INTO t VALUES (1)")
    for reader in (source, other):
        [part] = reader.read(newest, [T], QUICK).parts
        assert part.rows["id"].to_pylist() == [1]
