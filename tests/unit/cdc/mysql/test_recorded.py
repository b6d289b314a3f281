"""Binlogs that servers wrote, read without a server; and by hand, what no server here can write."""

from __future__ import annotations

import json
import struct
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from unit.cdc.mysql.binlog_file import (
    MARIA,
    MYSQL8,
    MYSQL56,
    NOW,
    OTHER,
    FileMaker,
    field,
    packed,
    payload,
    query,
    read_file,
    reader_of,
    rows,
    table_map,
    texts,
)
from unit.cdc.mysql.record_binlogs import COLUMNS

from tidelake.cdc.mysql.binlog.events import EventType
from tidelake.cdc.mysql.position import BinlogPosition
from tidelake.cdc.mysql.values.columns import ReadableColumn, ReadableTable
from tidelake.cdc.mysql.values.native_type import MySqlType
from tidelake.cdc.source.changes import MustReread, SourceRows, Truncated, Vanished
from tidelake.cdc.source.source import EpochLimits
from tidelake.cdc.source.source_table import SourceName
from tidelake.cdc.source.type_mapping import TypeMapping
from tidelake.errors import CorruptError, UnsupportedError

if sys.version_info >= (3, 14):
    from compression.zstd import compress
else:
    from backports.zstd import compress

HERE = Path(__file__).parent
T, U = SourceName("shop", "", "t"), SourceName("shop", "", "u")
START = BinlogPosition("bin.000001", 4)
BINARY_NAMES = {"varbinary", "blob"}


def known_table(*switches):
    """The recorded table as ``information_schema`` has it."""
    mapping = TypeMapping.of(switches)
    columns = []
    for name, kind in {"id": "int", **COLUMNS}.items():
        charset = kind.rpartition("character set ")[2] if "character set" in kind else "latin1"
        native = MySqlType.parse(kind)
        charset = "binary" if native.name in BINARY_NAMES else charset
        columns.append(
            ReadableColumn.of(name, native, charset, is_nullable=name != "id", mapping=mapping)
        )
    return ReadableTable(T, tuple(columns), ("id",))


@pytest.mark.parametrize(("name", "flavour"), [("mariadb-10.11", MARIA), ("mysql-5.6", MYSQL56)])
def test_a_recorded_log_has_the_texts_of_select(name, flavour):
    data = (HERE / f"{name}.binlog").read_bytes()
    selected = [tuple(row) for row in json.loads((HERE / f"{name}.json").read_text())]
    known = known_table("to-string")
    found = read_file(data, flavour, [T], "to-string", describe=lambda _: known)
    changes = [part for one in found for part in one.parts if isinstance(part, SourceRows)]
    (part,) = changes
    logged = [tuple(row.values()) for row in part.rows.to_pylist()]
    assert part.kinds.tolist() == [0, 0, 0, 2, 3, 2, 3]
    assert [logged[3], *logged[1:3]] == selected
    assert [row[0] for row in logged] == ["1", "2", "3", "1", "1", "7", "2"]
    assert logged[6] == selected[1]
    assert [type(part) for part in found[-2].parts] == [Truncated]
    assert found[-1].end.file == "bin.000002"
    assert found[-1].end.gtids.split(",")[0].endswith("8")


def test_a_log_with_full_metadata_needs_no_information_schema():
    data = (HERE / "mariadb-10.11.binlog").read_bytes()
    with_schema = read_file(data, MARIA, [T], describe=lambda _: known_table())
    without = read_file(data, MARIA, [T], "tinyint1-not-bool")
    (part,) = [part for one in without for part in one.parts if isinstance(part, SourceRows)]
    native = {column.name: column.native_type for column in part.table.columns}
    expected = {name: str(MySqlType.parse(kind)) for name, kind in COLUMNS.items()}
    assert native == {"id": "int", **expected, "a": "tinyint"}
    assert part.table.keys == ("id",)
    (other,) = [part for one in with_schema for part in one.parts if isinstance(part, SourceRows)]
    # the log does not say that it is tinyint(1); with the schema -128 and 127 are no booleans
    reasons = [one.reason for one in other.rejected]
    assert len(reasons) == 2
    assert all(one.startswith("column 'a': the value does not fit BOOLEAN") for one in reasons)
    assert [one.reason for one in part.rejected] == [
        "column 'u': the value does not fit TIME(0); it is outside of a day; column 'v': the value"
        " does not fit TIME(0); it is outside of a day",
        "column 'u': the value does not fit TIME(0); it is outside of a day",
    ]


@pytest.mark.parametrize("rows_max", [1, 2, 100])
@pytest.mark.parametrize(("name", "flavour"), [("mariadb-10.11", MARIA), ("mysql-5.6", MYSQL56)])
def test_ranges_of_any_size_replay(name, flavour, rows_max):
    data = (HERE / f"{name}.binlog").read_bytes()
    known = known_table("to-string")
    limits = EpochLimits(rows_max=rows_max, wait_ms=60_000, gather_ms=60_000)
    more = {"describe": lambda _: known}
    found = read_file(data, flavour, [T], "to-string", limits=limits, **more)
    start = START
    for one in found:
        again = reader_of(data, flavour, "to-string", **more).read(start, [T], NOW, one.end)
        assert [_plain(part) for part in again.parts] == [_plain(part) for part in one.parts]
        start = one.end


def _plain(part):
    if isinstance(part, SourceRows):
        return part.rows.to_pylist(), part.kinds.tolist(), part.order.tolist()
    return part


@pytest.mark.parametrize("name", ["mariadb-10.11", "mysql-5.6"])
def test_a_turned_bit_is_found(name):
    data = bytearray((HERE / f"{name}.binlog").read_bytes())
    data[-200] ^= 4
    known = known_table("to-string")
    with pytest.raises(CorruptError):
        read_file(bytes(data), MARIA if name[:2] == "ma" else MYSQL56, [T], "to-string",
                  describe=lambda _: known)  # fmt: skip


# --- MySQL 8, by hand ---

FULL = (
    field(1, bytes([0b01000000]))  # of id and n: n is unsigned
    + field(2, packed(255) + packed(0) + packed(8))  # the first text is latin1, the others utf8mb4
    + field(4, texts("id", "n", "s", "e", "j", "v"))
    + field(6, packed(2) + texts("a", "ü"))
    + field(8, packed(0))
    + field(10, packed(255))
)
KINDS = [3, 8, 15, 254, 245, 15]
META = struct.pack("<H", 40) + b"\xf7\1" + b"\4" + struct.pack("<H", 400)


def image(number, n, s, e, j, v):
    return b"\0" + struct.pack("<iQ", number, n) + bytes([len(s)]) + s + bytes([e]) + (
        struct.pack("<I", len(j)) + j + struct.pack("<H", len(v)) + v
    )  # fmt: skip


ONE = image(1, 2**64 - 1, b"na\xefve", 2, b"\4\1", "é€".encode())
TWO = image(1, 5, b"", 1, b"", b"w")
KEY = image(9, 5, b"", 1, b"", b"w")


def mysql8(*events):
    made = FileMaker()
    made.transaction(1, *events)
    return made.data


def only(data, flavour=MYSQL8):
    (found,) = read_file(data, flavour, [T])
    return found


def test_rows_of_mysql_8():
    found = only(mysql8(
        (EventType.TABLE_MAP, table_map(7, "t", KINDS, META, FULL, nullable=b"\xfe")),
        (EventType.WRITE_ROWS, rows(7, 6, [ONE])),
        (EventType.UPDATE_ROWS, rows(7, 6, [ONE, TWO, TWO, KEY], is_update=True)),
        (EventType.DELETE_ROWS, rows(7, 6, [KEY])),
    ))  # fmt: skip
    (part,) = found.parts
    assert [(c.name, c.native_type, str(c.type)) for c in part.table.columns] == [
        ("id", "int", "INT NOT NULL"), ("n", "bigint unsigned", "DECIMAL(20, 0)"),
        ("s", "varchar(40)", "VARCHAR(40)"), ("e", "enum('a','ü')", "STRING"),
        ("j", "json", "STRING"), ("v", "varchar(100)", "VARCHAR(100)"),
    ]  # fmt: skip
    assert part.table.keys == ("id",)
    assert part.kinds.tolist() == [0, 2, 3, 2, 3]
    assert [row["id"] for row in part.rows.to_pylist()] == [1, 1, 1, 9, 9]
    assert part.rows.to_pylist()[0] == {
        "id": 1, "n": 2**64 - 1, "s": "naïve", "e": "ü", "j": "true", "v": "é€"
    }  # fmt: skip
    assert found.end.gtids == f"00010203-0405-0607-0809-0a0b0c0d0e0f:1,{OTHER}:1-5"
    assert found.seconds == 1_700_000_000


@pytest.mark.parametrize("with_zstd", [True, False])
def test_a_compressed_transaction_is_one_like_others(with_zstd):
    events = [
        (EventType.QUERY, query("BEGIN")),
        (EventType.TABLE_MAP, table_map(7, "t", KINDS, META, FULL)),
        (EventType.WRITE_ROWS, rows(7, 6, [ONE])),
        (EventType.UPDATE_ROWS, rows(7, 6, [TWO, KEY], is_update=True)),
        (EventType.XID, bytes(8)),
    ]
    plain = only(mysql8(*events[1:4]))
    made = FileMaker()
    made.gtid(1)
    made.add(
        EventType.TRANSACTION_PAYLOAD, payload(events, compress=compress if with_zstd else None)
    )
    found = only(made.data)
    assert _plain(found.parts[0]) == _plain(plain.parts[0])
    assert found.end.gtids == plain.end.gtids
    assert found.end.offset == len(made.data)


def test_a_damaged_compressed_transaction_is_refused():
    made = FileMaker()
    made.gtid(1)
    body = payload([(EventType.QUERY, query("BEGIN"))], compress=compress)
    made.add(EventType.TRANSACTION_PAYLOAD, body[:-3] + b"xxx")
    with pytest.raises(CorruptError):
        only(made.data)


def test_parts_of_json_make_the_table_be_read_again():
    found = only(mysql8(
        (EventType.TABLE_MAP, table_map(7, "t", KINDS, META, FULL)),
        (EventType.PARTIAL_UPDATE_ROWS, rows(7, 6, [ONE, TWO], is_update=True)),
    ))  # fmt: skip
    (part,) = found.parts
    assert isinstance(part, MustReread)
    assert "binlog_row_value_options" in part.reason


def test_minimal_metadata_is_refused_with_the_setting():
    minimal = field(1, b"\x40") + field(2, packed(255))
    data = mysql8(
        (EventType.TABLE_MAP, table_map(7, "t", KINDS, META, minimal)),
        (EventType.WRITE_ROWS, rows(7, 6, [ONE])),
    )
    with pytest.raises(UnsupportedError, match="binlog_row_metadata = 'FULL'"):
        only(data)
    assert read_file(data, MYSQL8, [U])[0].parts == ()


def test_rows_that_do_not_fit_their_columns_are_corrupt():
    data = mysql8(
        (EventType.TABLE_MAP, table_map(7, "t", KINDS, META, FULL)),
        (EventType.WRITE_ROWS, rows(7, 6, [ONE[:-1]])),
    )
    with pytest.raises(CorruptError, match="do not fit"):
        only(data)


def test_a_number_of_no_enum_value_is_rejected():
    found = only(mysql8(
        (EventType.TABLE_MAP, table_map(7, "t", KINDS, META, FULL)),
        (EventType.WRITE_ROWS, rows(7, 6, [image(1, 1, b"", 0, b"", b""),
                                           image(2, 1, b"", 3, b"", b"\xff")])),
    ))  # fmt: skip
    (part,) = found.parts
    assert [row["e"] for row in part.rows.to_pylist()] == [""]
    (rejected,) = part.rejected
    assert "column 'e'" in rejected.reason
    assert "column 'v'" in rejected.reason
    assert json.loads(rejected.payload)["v"] == "\\xff"


def test_a_transaction_that_is_rolled_back_makes_its_tables_be_read_again():
    made = FileMaker()
    made.gtid(1)
    made.add(EventType.QUERY, query("BEGIN"))
    made.add(EventType.TABLE_MAP, table_map(7, "t", KINDS, META, FULL))
    made.add(EventType.WRITE_ROWS, rows(7, 6, [ONE]))
    made.add(EventType.QUERY, query("ROLLBACK"))
    made.transaction(2)
    found = [part for one in read_file(made.data, MYSQL8, [T]) for part in one.parts]
    assert [type(part) for part in found] == [SourceRows, MustReread]


def test_an_incident_makes_all_tables_be_read_again():
    made = FileMaker()
    made.add(EventType.INCIDENT, b"\1\0\0")
    made.transaction(1)
    (found,) = read_file(made.data, MYSQL8, [T, U])
    told = [(part.table, part.reason) for part in found.parts]
    assert told == [(name, "the server says that events of its log were lost") for name in (T, U)]


def test_a_tagged_gtid_is_refused():
    made = FileMaker()
    made.add(EventType.GTID_TAGGED, bytes(30))
    with pytest.raises(UnsupportedError, match="tag"):
        only(made.data)


def test_statements_between_transactions():
    made = FileMaker()
    for number, text in enumerate(("DROP DATABASE other", "drop table u, `t`"), 1):
        made.gtid(number)
        made.add(EventType.QUERY, query(text))
    found = [part for one in read_file(made.data, MYSQL8, [T, U]) for part in one.parts]
    assert [type(part) for part in found] == [Vanished, Vanished]
    assert [(part.table, part.statement) for part in found] == [
        (T, "drop table u, `t`"), (U, "drop table u, `t`")
    ]  # fmt: skip


def test_names_without_case_are_those_of_the_job():
    made = FileMaker()
    made.transaction(
        1, (EventType.TABLE_MAP, table_map(7, "T", KINDS, META, FULL)),
        (EventType.WRITE_ROWS, rows(7, 6, [ONE])),
    )  # fmt: skip
    made.gtid(2)
    made.add(EventType.QUERY, query("TRUNCATE Shop.t"))
    made.gtid(3)
    made.add(EventType.QUERY, query("INSERT INTO SHOP.T VALUES (1)"))
    flavour = replace(MYSQL8, folds_names=True)
    name = SourceName("shop", "", "T")
    found = [part for one in read_file(made.data, flavour, [name]) for part in one.parts]
    assert [type(part) for part in found] == [SourceRows, Truncated, MustReread]
    assert {part.table if part is not found[0] else name for part in found} == {name}


def test_a_large_transaction_is_cut_between_its_row_events():
    events = [(EventType.TABLE_MAP, table_map(7, "t", KINDS, META, FULL))]
    events += [(EventType.WRITE_ROWS, rows(7, 6, [image(n, 0, b"", 1, b"", b"")] * 3))
               for n in range(10)]  # fmt: skip
    data = mysql8(*events)
    found = read_file(
        data, MYSQL8, [T], limits=EpochLimits(rows_max=7, wait_ms=60_000, gather_ms=60_000)
    )
    assert [one.end.rows for one in found] == [3, 6, 9, 0]
    assert [sum(len(part.rows) for part in one.parts) for one in found] == [9, 9, 9, 3]
    numbers = [
        order[1] >> 32 for one in found for part in one.parts for order in part.order.tolist()
    ]
    assert numbers == [n for n in range(1, 11) for _ in range(3)]
    start = found[1].end
    again = reader_of(data, MYSQL8).read(start, [T], NOW, found[2].end)
    assert _plain(again.parts[0]) == _plain(found[2].parts[0])
    # a position in the middle that no event ends is not in the log
    with pytest.raises(CorruptError):
        reader_of(data, MYSQL8).read(
            START, [T], NOW, BinlogPosition("bin.000001", start.offset, 77)
        )
