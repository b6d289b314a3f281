"""On a real MySQL 5.6: GTIDs and files, rows of version 2, a log without names of columns."""

from __future__ import annotations

import random
import threading
from decimal import Decimal

import pytest
from unit.cdc.mysql.applied import Applied, plain

from tidelake.cdc.source.changes import SourceRows
from tidelake.cdc.source.source import EpochLimits
from tidelake.cdc.source.source_table import SourceName
from tidelake.errors import NotFoundError

QUICK = EpochLimits(wait_ms=1_500, gather_ms=150)
T = SourceName("shop", "", "t")


def test_types_are_what_a_copy_says(mysql56, open_source):
    mysql56.do(
        "CREATE TABLE t (id int PRIMARY KEY, a tinyint(1), b bigint unsigned, c decimal(30,5),"
        " d varchar(20) CHARACTER SET utf8, e enum('a','é'), s set('x','y'), f float, g double,"
        " h char(3) CHARACTER SET latin1, i binary(3), j blob, k longtext CHARACTER SET utf8mb4,"
        " l date, m time(2), n datetime(6), o timestamp(3) NULL, p timestamp NULL, q year,"
        " r bit(9), w mediumint unsigned, x point, y geometry, z smallint) DEFAULT CHARSET latin1"
    )
    source = open_source(mysql56)
    (table,) = source.tables()
    start = source.newest()
    mysql56.do(
        "INSERT INTO t (id) VALUES (1)",
        "INSERT INTO t VALUES (2, 1, 18446744073709551615, -1.5, 'é€', 'é', 'x,y', 1.1, 1e300,"
        " 'üß', 'a', x'00ff', '😀', '2024-02-29', '12:34:56.78', '2024-02-29 12:34:56.789012',"
        " '2024-02-29 12:34:56.789', '2024-02-29 12:34:56', 2155, b'100000001', 16777215,"
        " POINT(1,2), LINESTRING(POINT(0,0),POINT(1,1)), -3)",
        "UPDATE t SET z = 5 WHERE id = 1",
    )
    (part,) = source.read(start, [T], QUICK).parts
    assert part.table == table
    assert part.kinds.tolist() == [0, 0, 2]
    logged = part.rows.to_pylist()
    assert logged[1]["b"] == Decimal("18446744073709551615")
    assert logged[1]["e"] == "é"
    assert logged[1]["k"] == "😀"
    assert logged[1]["i"] == b"a\0\0"
    assert logged[1]["a"] is True
    with source.first_copy([T]) as copied:
        (batch,) = copied.read(copied.chunks(table, rows_max=100)[0])
    assert batch.rows.to_pylist() == [logged[2], logged[1]]


def test_a_row_without_a_key_is_in_the_copy_or_in_the_log(mysql56, open_source):
    mysql56.do("CREATE TABLE t (id int)", "CREATE TABLE u (id int PRIMARY KEY)")
    mysql56.do("INSERT INTO t VALUES (1)")
    source = open_source(mysql56)
    table = source.tables()[0]
    with source.first_copy([T, SourceName("shop", "", "u")]) as copied:
        mysql56.do("INSERT INTO t VALUES (2)")  # nobody waits for a lock any more
        (batch,) = copied.read(copied.chunks(table, rows_max=100)[0])
    assert batch.rows.to_pylist() == [{"id": 1}]
    (part,) = source.read(copied.position, [T], QUICK).parts
    assert part.rows.to_pylist() == [{"id": 2}]


def test_a_copy_begins_in_a_new_file_of_the_log(mysql56, open_source):
    """What is in a file that ended is committed: a transaction in the newest file may not be."""
    mysql56.do("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    source = open_source(mysql56)
    (table,) = source.tables()
    before = source.newest()
    with source.first_copy([T]) as copied:
        assert copied.position.split(":")[0] > before.split(":")[0]
        assert copied.position == source.newest()
        mysql56.do("INSERT INTO t VALUES (2)")
        (batch,) = copied.read(copied.chunks(table, rows_max=100)[0])
    assert batch.rows.to_pylist() == [{"id": 1}, {"id": 2}]
    (part,) = source.read(copied.position, [T], QUICK).parts
    assert part.rows.to_pylist() == [{"id": 2}]


def test_a_snapshot_waits_for_a_row_that_is_not_committed(mysql56, open_source):
    mysql56.do("CREATE TABLE t (id int)")
    source = open_source(mysql56)
    table = source.tables()[0]
    with mysql56.connect(database="shop", autocommit=False) as other:
        other.cursor().execute("INSERT INTO t VALUES (1)")
        later = threading.Timer(0.5, other.commit)
        later.start()
        with source.first_copy([T]) as copied:
            (batch,) = copied.read(copied.chunks(table, rows_max=100)[0])
        later.join()
    assert batch.rows.to_pylist() == [{"id": 1}]


def test_positions_have_gtids(mysql56, open_source):
    mysql56.do("CREATE TABLE t (id int PRIMARY KEY)")
    source = open_source(mysql56)
    uuid = mysql56.do("SELECT @@server_uuid")[0][0]
    assert source.identity() == f"mysql:{uuid}"
    start = source.newest()
    assert uuid in start
    mysql56.do("INSERT INTO t VALUES (1)", "FLUSH LOGS", "INSERT INTO t VALUES (2)")
    changes = source.read(start, [T], QUICK)
    assert changes.end == source.newest() == changes.newest
    assert [row["id"] for part in changes.parts for row in part.rows.to_pylist()] == [1, 2]
    other = open_source(mysql56, server_id="4711")
    assert plain(other.read(start, [T], QUICK, end=changes.end)) == plain(changes)
    mysql56.do("RESET MASTER")
    with pytest.raises(NotFoundError) as raised:
        open_source(mysql56, server_id="4712").read(changes.end, [T], QUICK)
    assert raised.value.kind == "cdc_position_lost"


def test_columns_are_named_where_they_fit_and_an_alteration_reads_again(mysql56, open_source):
    mysql56.do("CREATE TABLE t (id int PRIMARY KEY, n int)")
    source = open_source(mysql56)
    tables = source.tables()
    assert [(found.kind, found.is_error) for found in source.check(tables)] == [
        ("binlog_row_metadata", False)
    ]
    applied = Applied(source, tables, source.newest())
    mysql56.do("INSERT INTO t VALUES (1, 1)", "ALTER TABLE t ADD COLUMN x int FIRST",
               "INSERT INTO t VALUES (5, 2, 2)")  # fmt: skip
    end = source.newest()
    applied.catch_up(QUICK)
    assert [(kind, table) for kind, table, _ in applied.told] == [
        ("MustReread", "shop.t"), ("MustReread", "shop.t")
    ]  # fmt: skip
    assert applied.told[0][2] == "its columns changed, and the log has no names of columns"
    assert applied.rows[T] == {(2,): {"x": 5, "id": 2, "n": 2}}
    assert not source.is_before(applied.position, end)


def test_statements_and_kinds(mysql56, open_source):
    mysql56.do("CREATE TABLE t (id int PRIMARY KEY, n int)", "CREATE TABLE m (a int) ENGINE MyISAM")
    source = open_source(mysql56)
    applied = Applied(source, source.tables(), source.newest())
    mysql56.do(
        "INSERT INTO t VALUES (1, 1), (2, 2)", "UPDATE t SET id = 7 WHERE id = 2",
        "DELETE FROM t WHERE id = 1", "INSERT INTO m VALUES (1)", "UPDATE m SET a = 2",
        "TRUNCATE m",
    )  # fmt: skip
    applied.catch_up(QUICK)
    assert applied.rows[T] == {(7,): {"id": 7, "n": 2}}
    mysql56.do("RENAME TABLE t TO old, m TO t", "DROP TABLE old")
    applied.catch_up(QUICK)
    assert [(kind, table) for kind, table, _ in applied.told] == [
        ("Truncated", "shop.m"), ("Vanished", "shop.m"), ("MustReread", "shop.t"),
    ]  # fmt: skip


def test_a_copy_converges_under_writers(mysql56, open_source):
    mysql56.do("CREATE TABLE t (id int PRIMARY KEY, v int)")
    mysql56.do("INSERT INTO t VALUES " + ",".join(f"({n}, 0)" for n in range(2000)))
    source = open_source(mysql56)
    stop = threading.Event()

    def load(seed):
        draw = random.Random(seed)
        with mysql56.connect(database="shop") as connection, connection.cursor() as cursor:
            while not stop.is_set():
                key, kind = draw.randrange(2500), draw.random()
                if kind < 0.6:
                    cursor.execute("UPDATE t SET v = v + 1 WHERE id = %s", [key])
                elif kind < 0.8:
                    cursor.execute("DELETE FROM t WHERE id = %s", [key])
                else:
                    cursor.execute("REPLACE INTO t VALUES (%s, %s)", [key, draw.randrange(99)])

    threads = [threading.Thread(target=load, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    try:
        applied = Applied(source, source.tables(), "")
        with source.first_copy([T]) as copied:
            applied.copy(copied, rows_max=300)
        stop.wait(0.5)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    applied.catch_up(QUICK)
    assert applied.sorted(T) == sorted(mysql56.do("SELECT id, v FROM t"))


def test_a_large_transaction_is_cut(mysql56, open_source):
    mysql56.do("CREATE TABLE t (id int PRIMARY KEY, s varchar(100))")
    source = open_source(mysql56)
    start = source.newest()
    rows = ",".join(f"({n}, repeat('x', 90))" for n in range(3000))
    mysql56.do("BEGIN", f"INSERT INTO t VALUES {rows}", "DELETE FROM t WHERE id < 1000", "COMMIT")
    end, position, ranges = source.newest(), start, []
    while source.is_before(position, end):
        ranges.append(source.read(position, [T], EpochLimits(500, wait_ms=300, gather_ms=50)))
        position = ranges[-1].end
    assert len(ranges) > 5
    assert sum(changes.rows_count for changes in ranges) == 4000
    other = open_source(mysql56, server_id="4711")
    for changes in ranges[::-1]:
        assert plain(other.read(changes.start, [T], QUICK, end=changes.end)) == plain(changes)


def test_a_server_id_in_use_is_told(mysql56, open_source):
    mysql56.do("CREATE TABLE t (id int PRIMARY KEY)")
    one, two = open_source(mysql56, server_id="4444"), open_source(mysql56, server_id="4444")
    one.read(one.newest(), [T], EpochLimits(wait_ms=50))
    assert "server_id_in_use" in {found.kind for found in two.check(two.tables())}


def test_without_gtids_files_are_read_on(open_source):
    from servers.mysql56 import AbsentError, mysql56

    try:
        running = mysql56()
        server = running.__enter__()
    except AbsentError as reason:
        pytest.skip(f"no MySQL 5.6: {reason}")
    try:
        server.do("CREATE TABLE t (id int PRIMARY KEY, n int)")
        source = open_source(server)
        applied = Applied(source, source.tables(), source.newest())
        assert ";" not in applied.position
        server.do("INSERT INTO t VALUES (1, 1)", "FLUSH LOGS", "UPDATE t SET n = 2")
        end = source.newest()
        while source.is_before(applied.position, end):
            changes = source.read(applied.position, [T], EpochLimits(1, wait_ms=300, gather_ms=50))
            assert all(isinstance(part, SourceRows) for part in changes.parts)
            again = open_source(server, server_id="4711").read(
                changes.start, [T], QUICK, end=changes.end
            )
            assert plain(again) == plain(changes)
            applied.take(changes)
        assert applied.rows[T] == {(1,): {"id": 1, "n": 2}}
        server.do("PURGE BINARY LOGS TO 'bin.000002'")
        first = applied.ranges[0][0]
        with pytest.raises(NotFoundError) as raised:
            open_source(server, server_id="4712").read(first, [T], QUICK)
        assert raised.value.kind == "cdc_position_lost"
    finally:
        running.__exit__(None, None, None)


def test_a_file_that_has_no_transaction_is_read_to_its_end(mysql56, open_source):
    mysql56.do("CREATE TABLE t (id int PRIMARY KEY)")
    source = open_source(mysql56)
    start = source.newest()
    mysql56.do("FLUSH LOGS")
    newest = source.newest()
    assert source.is_before(start, newest)
    changes = source.read(start, [T], QUICK)
    assert (changes.end, changes.parts) == (newest, ())
    other = open_source(mysql56, server_id="4713")
    assert other.read(start, [T], QUICK, end=newest).parts == ()
    mysql56.do("INSERT INTO t VALUES (1)")
    for reader in (source, other):
        [part] = reader.read(newest, [T], QUICK).parts
        assert part.rows["id"].to_pylist() == [1]
