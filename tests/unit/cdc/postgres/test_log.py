"""What the log says of each kind of statement, and where ranges end."""

from __future__ import annotations

import psycopg
import pytest
from cdc_postgres import QUICK, lines, read, read_to

from tidelake.cdc.source.changes import MustReread, Signal, SourceRows, Vanished
from tidelake.cdc.source.source import EpochLimits
from tidelake.cdc.source.source_table import OldRows

LARGE = "repeat('x', 9000)"


def told(place, source, names, position, *statements):
    place.run(*statements)
    found, ranges = read_to(source, position, names, source.newest())
    return found, ranges[-1].end, ranges


def key_table(place):
    place.run(
        "CREATE TABLE k (id int PRIMARY KEY, n int, big text)",
        "ALTER TABLE k ALTER big SET STORAGE EXTERNAL",
    )


def test_unchanged_large_values_are_marked_with_the_old_key(place):
    key_table(place)
    source, names, position = place.followed()
    found, position, _ = told(
        place, source, names, position, f"INSERT INTO k VALUES (1, 1, {LARGE})"
    )
    assert found == ["k +I 1 1 x*9000"]
    found, position, [changes] = told(
        place,
        source,
        names,
        position,
        "UPDATE k SET n = 2",
        "UPDATE k SET id = 7",
        "INSERT INTO k VALUES (2, 2, 'short')",
        "DELETE FROM k WHERE id = 7",
    )
    assert found == [
        "k +U 1 2 ~",
        "k -D 1 null null",
        "k +U 7 2 ~",
        "k +I 2 2 short",
        "k -D 7 null null",
    ]
    [part] = changes.parts
    assert part.unchanged["big"].tolist() == [True, False, True, False, False]
    assert part.old_keys.to_pydict() == {"id": [1, 1, 1, 2, 7]}
    # both rows of a key change have one place in the log, the old row's before the new one's
    assert part.order[1, 0] == part.order[2, 0]
    assert part.order[1:3, 1].tolist() == [2, 3]


def test_full_identity_fills_large_values(place):
    key_table(place)
    place.run("ALTER TABLE k REPLICA IDENTITY FULL")
    source, names, position = place.followed()
    found, _, ranges = told(
        place,
        source,
        names,
        position,
        f"INSERT INTO k VALUES (1, 1, {LARGE})",
        "UPDATE k SET n = 2",
        "UPDATE k SET id = 5",
        "UPDATE k SET big = 'new'",
        "DELETE FROM k",
    )
    assert found == [
        "k +I 1 1 x*9000",
        "k +U 1 2 x*9000",
        "k -D 1 2 x*9000",
        "k +U 5 2 x*9000",
        "k +U 5 2 new",
        "k -D 5 2 new",
    ]
    assert all(part.unchanged == {} for changes in ranges for part in changes.parts)


def test_a_change_of_another_key_column_takes_the_old_row_away(place):
    key_table(place)
    place.run("ALTER TABLE k REPLICA IDENTITY FULL")
    source, names, position = place.followed()
    place.run(
        f"INSERT INTO k VALUES (1, 1, {LARGE}), (2, NULL, 'b')",
        "UPDATE k SET big = 'c' WHERE id = 2",
        "UPDATE k SET n = 5",
        "UPDATE k SET n = NULL WHERE id = 1",
        "DELETE FROM k WHERE id = 2",
    )
    of_n = lambda _: frozenset({"n"})  # noqa: E731
    end = source.newest()
    found = []
    while source.is_before(position, end):
        changes = source.read(position, names, QUICK, key_columns=of_n)
        found, position = found + lines(changes), changes.end
    assert found == [
        "k +I 1 1 x*9000",
        "k +I 2 null b",
        "k +U 2 null c",
        "k -D 1 1 x*9000",
        "k +U 1 5 x*9000",
        "k -D 2 null c",
        "k +U 2 5 c",
        "k -D 1 5 x*9000",
        "k +U 1 null x*9000",
        "k -D 2 5 c",
    ]


def test_without_a_key_the_whole_old_row_goes(place):
    place.run("CREATE TABLE k (a int, b int)", "ALTER TABLE k REPLICA IDENTITY FULL")
    source, names, position = place.followed()
    found, *_ = told(
        place, source, names, position, "INSERT INTO k VALUES (1, 1)", "UPDATE k SET b = 2"
    )
    assert found == ["k +I 1 1", "k -D 1 1", "k +U 1 2"]


def test_identity_of_an_index_that_has_the_key(place):
    place.run(
        "CREATE TABLE k (id int PRIMARY KEY, u int NOT NULL, v int)",
        "CREATE UNIQUE INDEX both_of ON k (u, id)",
        "ALTER TABLE k REPLICA IDENTITY USING INDEX both_of",
    )
    source, names, position = place.followed()
    assert source.tables()[0].old_rows is OldRows.KEYS
    found, *_ = told(
        place,
        source,
        names,
        position,
        "INSERT INTO k VALUES (1, 1, 1)",
        "UPDATE k SET u = 2",
        "UPDATE k SET id = 2",
        "DELETE FROM k",
    )
    assert found == ["k +I 1 1 1", "k +U 1 2 1", "k -D 1 2 null", "k +U 2 2 1", "k -D 2 2 null"]


def test_columns_change_between_rows(place):
    place.run("CREATE TABLE k (id int PRIMARY KEY, a int, b text)")
    source, names, position = place.followed()
    found, _, ranges = told(
        place,
        source,
        names,
        position,
        "INSERT INTO k VALUES (1, 1, 'x')",
        "ALTER TABLE k ADD COLUMN extra int NOT NULL DEFAULT 5",
        "UPDATE k SET a = 2",
        "ALTER TABLE k DROP COLUMN b",
        "UPDATE k SET a = 3",
        "ALTER TABLE k RENAME COLUMN extra TO more",
        "UPDATE k SET a = 4",
        "ALTER TABLE k ALTER COLUMN a TYPE text USING 'n' || a",
        "UPDATE k SET more = 6",
    )
    assert found == ["k +I 1 1 x", "k +U 1 2 x 5", "k +U 1 3 5", "k +U 1 4 5", "k +U 1 n4 6"]
    parts = [part for changes in ranges for part in changes.parts]
    shown = [
        [(c.name, c.native_type, c.number, c.has_default) for c in part.table.columns]
        for part in parts
    ]
    assert shown[-1] == [
        ("id", "integer", 1, False),
        ("a", "text", 2, False),
        ("more", "integer", 4, True),
    ]
    # versions that the catalogue no longer has: what still fits it is found by the order
    assert [number for _, _, number, _ in shown[0]] == [1, 2, None]
    assert [number for _, _, number, _ in shown[3]] == [1, 2, 4]


def test_two_versions_in_the_first_range_after_a_restart(place):
    place.run("CREATE TABLE k (id int PRIMARY KEY, a int)")
    source, names, position = place.followed()
    place.run(
        "INSERT INTO k VALUES (1, 1)",
        "ALTER TABLE k ADD COLUMN b text",
        "INSERT INTO k VALUES (2, 2, 'b')",
        "ALTER TABLE k DROP COLUMN a",
        "INSERT INTO k VALUES (3, 'c')",
    )
    goal = source.newest()
    once, _ = read_to(source, position, names, goal)
    source.close()
    again, _ = read_to(place.source(), position, names, goal)
    assert once == again == ["k +I 1 1", "k +I 2 2 b", "k +I 3 c"]


def test_a_key_that_changes_under_full_identity(place):
    place.run(
        "CREATE TABLE k (a int PRIMARY KEY, b int NOT NULL)", "ALTER TABLE k REPLICA IDENTITY FULL"
    )
    source, names, position = place.followed()
    _, position, [first] = told(place, source, names, position, "INSERT INTO k VALUES (1, 1)")
    assert first.parts[0].table.keys == ("a",)
    found, _, [second] = told(
        place,
        source,
        names,
        position,
        "ALTER TABLE k DROP CONSTRAINT k_pkey, ADD PRIMARY KEY (b)",
        "UPDATE k SET b = 2",
    )
    assert second.parts[0].table.keys == ("b",)
    assert found == ["k -D 1 1", "k +U 1 2"]


def test_a_truncation_stands_alone(place):
    place.run("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    source, names, position = place.followed()
    place.run("INSERT INTO a VALUES (1)")
    with place.connection.transaction():
        place.run(
            "INSERT INTO a VALUES (2)",
            "INSERT INTO b VALUES (2)",
            "TRUNCATE a, b",
            "INSERT INTO a VALUES (3)",
            "TRUNCATE a",
            "TRUNCATE a",
            "INSERT INTO b VALUES (4)",
        )
    goal = source.newest()
    _, ranges = read_to(source, position, names, goal)
    found = [lines(changes) for changes in ranges]
    a, b = (f"truncated {name.table}" for name in names)
    assert found == [
        ["a +I 1"],
        ["a +I 2", "b +I 2"],
        [a, b],
        ["a +I 3"],
        [a],
        ["b +I 4", a],
    ]
    for changes in ranges:
        same = place_again(place, changes, names)
        assert lines(same) == lines(changes)


def place_again(place, changes, names):
    for source in place.made:
        source.close()
    return place.source().read(changes.start, names, EpochLimits(), end=changes.end)


def test_a_range_that_comes_again_ends_where_it_ended(place):
    place.run("CREATE TABLE a (id int PRIMARY KEY)")
    source, names, position = place.followed()
    place.run("INSERT INTO a VALUES (1)", "CREATE TABLE apart (id int)")
    _, [changes] = read_to(source, position, names, source.newest())
    # the server decodes on, and has nothing to send
    place.run("INSERT INTO apart SELECT generate_series(1, 100)")
    for _ in range(3):
        again = place_again(place, changes, names)
        assert (lines(again), again.end) == (lines(changes), changes.end)


def test_savepoints_that_were_rolled_back_are_not_sent(place):
    place.run("CREATE TABLE a (id int PRIMARY KEY)")
    source, names, position = place.followed()
    with place.connection.transaction():
        place.run("INSERT INTO a VALUES (1)")
        with pytest.raises(psycopg.errors.UniqueViolation), place.connection.transaction():
            place.run("INSERT INTO a VALUES (2)", "INSERT INTO a VALUES (1)")
        place.run("INSERT INTO a VALUES (3)")
    found, *_ = told(place, source, names, position)
    assert found == ["a +I 1", "a +I 3"]


def test_a_message_of_ours_is_a_signal(place):
    place.run("CREATE TABLE a (id int PRIMARY KEY)")
    source, names, position = place.followed()
    with place.connection.transaction():
        place.run(
            "INSERT INTO a VALUES (1)",
            "SELECT pg_logical_emit_message(true, 'tidelake', 'mark ü')",
            "SELECT pg_logical_emit_message(true, 'another', 'not ours')",
            "INSERT INTO a VALUES (2)",
        )
    place.run("SELECT pg_logical_emit_message(false, 'tidelake', 'outside of transactions')")
    _, [changes] = read_to(source, position, names, source.newest())
    rows, signal = changes.parts
    assert signal == Signal("mark ü", (int(rows.order[0, 0]), 4))
    assert rows.order[:, 1].tolist() == [3, 9]


def test_partitions_are_their_root(place):
    place.run(
        "CREATE TABLE p (id int, v int, PRIMARY KEY (id)) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)",
        "INSERT INTO p SELECT g, g FROM generate_series(0, 19) g",
    )
    source = place.source()
    names = [table.name for table in source.tables()]
    assert [name.table for name in names] == ["p"]
    source.prepare(names)
    with source.first_copy(names) as copy:
        [table] = source.tables()
        ids = sorted(
            key
            for chunk in copy.chunks(table, rows_max=3)
            for batch in copy.read(chunk)
            for key in batch.rows.column("id").to_pylist()
        )
    assert ids == list(range(20))
    found, *_ = told(
        place,
        source,
        names,
        copy.position,
        "UPDATE p SET v = 0 WHERE id = 3",
        "UPDATE p SET id = 15 + 100 * 0 WHERE id = 19 AND false",
        "DELETE FROM p WHERE id = 15",
        "UPDATE p SET id = 15 WHERE id = 4",
    )
    assert found == ["p +U 3 0", "p -D 15 null", "p -D 4 null", "p +I 15 4"]


def test_tables_that_are_renamed_dropped_and_made_again(place):
    place.run(*(f"CREATE TABLE {name} (id int PRIMARY KEY)" for name in "abc"))
    source, names, position = place.followed()
    _, position, _ = told(place, source, names, position, "INSERT INTO a VALUES (1)")
    _, position, ranges = told(
        place,
        source,
        names,
        position,
        "ALTER TABLE a RENAME TO a2",
        "INSERT INTO a2 VALUES (2)",
        "DROP TABLE b",
        "DROP TABLE c",
        "CREATE TABLE c (id int PRIMARY KEY)",
    )
    position = ranges[-1].end
    parts = [part for changes in ranges for part in changes.parts]
    parts += source.read(position, names, EpochLimits(wait_ms=200)).parts
    source.close()
    again = place.source().read(position, names, EpochLimits(wait_ms=200)).parts
    assert [(type(part), part.table.table) for part in again] == [
        (Vanished, "a"),
        (Vanished, "b"),
        (MustReread, "c"),
    ]
    # a rename is in the log, the other two are not
    assert [part.order is None for part in parts] == [False, True, True]
    assert [(type(part), part.table.table) for part in parts] == [
        (Vanished, "a"),
        (Vanished, "b"),
        (MustReread, "c"),
    ]


def test_huge_transactions_are_cut_and_replayed(place):
    place.run("CREATE TABLE a (id int PRIMARY KEY, v text)", "INSERT INTO a VALUES (0, 'zero')")
    source, names, position = place.followed()
    place.run("INSERT INTO a VALUES (-1, 'before')")
    with place.connection.transaction():
        place.run(
            "INSERT INTO a SELECT g, 'row ' || g FROM generate_series(1, 25000) g",
            "UPDATE a SET id = 100000 WHERE id = 7",
        )
    place.run("INSERT INTO a VALUES (-2, 'after')")
    limits = EpochLimits(rows_max=1000, gather_ms=2000)
    found, ranges = read_to(source, position, names, source.newest(), limits)
    assert len(found) == 25_004
    assert lines(ranges[0]) == ["a +I -1 before"]
    assert all(changes.rows_count <= 1001 for changes in ranges)
    assert ranges[1].end.endswith(":1000")
    orders = [
        tuple(pair) for changes in ranges for part in changes.parts for pair in part.order.tolist()
    ]
    assert orders == sorted(set(orders))
    # each range again, by a source that begins there
    for changes in [*ranges[:4], *ranges[-3:]]:
        same = place_again(place, changes, names)
        assert lines(same) == lines(changes)
        [ours], [theirs] = same.parts, changes.parts
        assert ours.order.tolist() == theirs.order.tolist()
        assert ours.table == theirs.table


def test_a_range_of_bytes(place):
    key_table(place)
    source, names, position = place.followed()
    with place.connection.transaction():
        for key in range(20):
            place.run(f"INSERT INTO k VALUES ({key}, 1, repeat('y', 100000))")
    limits = EpochLimits(bytes_max=350_000)
    found, ranges = read_to(source, position, names, source.newest(), limits)
    assert len(found) == 20
    assert [changes.rows_count for changes in ranges] == [3] * 6 + [2]


def test_other_tables_are_left_out_but_counted(place):
    place.run("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    source, names, position = place.followed()
    with place.connection.transaction():
        place.run(
            "INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)", "INSERT INTO a VALUES (2)"
        )
    _, [changes] = read_to(source, position, names[:1], source.newest())
    [part] = changes.parts
    assert part.table.name == names[0]
    assert part.order[:, 1].tolist() == [3, 7]


def test_time_of_commit(place):
    place.run("CREATE TABLE a (id int PRIMARY KEY)")
    source, names, position = place.followed()
    place.run("INSERT INTO a VALUES (1)")
    [(now,)] = place.rows("SELECT extract(epoch FROM now()) * 1000")
    changes = read(source, position, names)
    assert abs(int(changes.parts[0].changed_ms[0]) - int(now)) < 60_000
    assert changes.committed_ms == int(changes.parts[0].changed_ms[0])


def test_names_that_need_quotes(place):
    place.run(
        'CREATE SCHEMA "S ""1"',
        'CREATE TABLE "S ""1"."T,ü" ("Id" int PRIMARY KEY, "a ""b" text, "c,d" int)',
        'INSERT INTO "S ""1"."T,ü" VALUES (1, \'x\', 1)',
    )
    conf = place.conf()
    conf["schema-name"] = 'S "1'
    source = place.source(conf=conf)
    names = [table.name for table in source.tables()]
    source.prepare(names)
    with source.first_copy(names) as copy:
        [table] = source.tables()
        [batch] = [b for chunk in copy.chunks(table, rows_max=9) for b in copy.read(chunk)]
    assert batch.rows.to_pylist() == [{"Id": 1, 'a "b': "x", "c,d": 1}]
    found, *_ = told(place, source, names, copy.position, 'DELETE FROM "S ""1"."T,ü"')
    assert found == ["T,ü -D 1 null null"]


def test_generated_columns(place):
    kinds = "s int GENERATED ALWAYS AS (a * 2) STORED"
    new = place.connection.info.server_version >= 180000
    if new:
        kinds += ", v int GENERATED ALWAYS AS (a * 3) VIRTUAL"
    place.run(f"CREATE TABLE a (id int PRIMARY KEY, a int, {kinds})", "INSERT INTO a VALUES (0, 1)")
    source, names, position = place.followed()
    left = [f.message for f in source.check(source.tables()) if f.kind == "generated_column"]
    assert len(left) == 1
    with source.first_copy(names) as copy:
        [table] = source.tables()
        [batch] = [b for chunk in copy.chunks(table, rows_max=9) for b in copy.read(chunk)]
    found, _, [changes] = told(place, source, names, position, "UPDATE a SET a = 5")
    assert found == ["a +U 0 5 10" if new else "a +U 0 5"]
    assert changes.parts[0].rows.schema == batch.rows.schema
    assert isinstance(changes.parts[0], SourceRows)
