"""The source as a job uses it: copies, positions, the slot, the publication, refusals."""

from __future__ import annotations

import itertools
import pickle
import threading

import psycopg
import pytest
from cdc_postgres import QUICK, SETTINGS, Place, lines, read_to
from servers.postgres import DATABASE, PASSWORD, USER, postgres
from waiting import until

from tidelake.cdc.postgres.log import slot_reader
from tidelake.cdc.postgres.slot import make_slot
from tidelake.cdc.source.changes import MustReread, SourceRows
from tidelake.cdc.source.source import EpochLimits, Source
from tidelake.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    StorageRefusedError,
    TidelakeError,
)
from tidelake.types import RowKind

SHORT = EpochLimits(wait_ms=300, gather_ms=100)


@pytest.fixture
def bad_server():
    """A server of a test's own; makes it with settings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slot_reader, "IN_USE_TRIES", 4)
        yield lambda *settings: postgres(18, *settings)


def simple(place, *names):
    place.run(*(f"CREATE TABLE {name} (id int PRIMARY KEY, v int)" for name in names or "a"))


def apply(state, changes, name, *, from_order=(0, 0)):
    """What a job does with a table's rows."""
    for part in changes.parts:
        if not isinstance(part, SourceRows) or part.table.name != name:
            continue
        for kind, order, row in zip(
            part.kinds.tolist(), part.order.tolist(), part.rows.to_pylist(), strict=True
        ):
            if tuple(order) < from_order:
                continue
            if kind == RowKind.DELETE:
                state.pop(row["id"], None)
            else:
                state[row["id"]] = row["v"]


def copied(copy, source, name):
    [table] = [table for table in source.tables() if table.name == name]
    chunks = [pickle.loads(pickle.dumps(c)) for c in copy.chunks(table, rows_max=500)]
    state = {}
    for chunk in chunks:
        for batch in copy.read(chunk):
            for row in batch.rows.to_pylist():
                assert row["id"] not in state
                state[row["id"]] = row["v"]
    assert len(chunks) > 1 or len(state) <= 500
    return state


class Load:
    """Writers that change keys, delete and roll back."""

    def __init__(self, place, tables, count=3):
        self.place, self.tables, self.stop = place, tables, threading.Event()
        self.threads = [threading.Thread(target=self.write, args=(i,)) for i in range(count)]

    def write(self, seed):
        import random

        rng = random.Random(seed)
        conninfo = self.place.server.conninfo(self.place.database)
        with psycopg.connect(**conninfo) as connection:
            while not self.stop.is_set():
                table, key = rng.choice(self.tables), rng.randrange(3000)
                try:
                    for _ in range(rng.randrange(1, 4)):
                        statement = rng.choice(
                            [
                                f"UPDATE {table} SET v = v + 1 WHERE id = {key}",
                                f"UPDATE {table} SET v = -v WHERE id BETWEEN {key} AND {key + 9}",
                                f"DELETE FROM {table} WHERE id = {key}",
                                f"UPDATE {table} SET id = {key} + 5000 WHERE id = {key}",
                                f"INSERT INTO {table} VALUES ({key}, {rng.randrange(99)})"
                                " ON CONFLICT (id) DO UPDATE SET v = excluded.v",
                            ]
                        )
                        connection.execute(statement)
                    connection.rollback() if rng.random() < 0.1 else connection.commit()
                except psycopg.Error:
                    connection.rollback()

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()


def test_copy_and_log_give_the_table_under_load_and_a_table_joins(place):
    simple(place, "a", "b")
    place.run(*(f"INSERT INTO {t} SELECT g, 0 FROM generate_series(0, 2999) g" for t in "ab"))
    source: Source = place.source()
    a, b = (table.name for table in source.tables())
    source.prepare([a])
    with Load(place, ["a", "b"]):
        with source.first_copy([a]) as copy:
            states = {a: copied(copy, source, a)}
            position = copy.position
        for _ in range(3):
            changes = source.read(position, [a], EpochLimits(wait_ms=300, gather_ms=100))
            apply(states[a], changes, a)
            position = changes.end
            source.confirm(position)
        # b joins: published, then copied at a moment of its own
        source.prepare([a, b])
        with source.first_copy([b]) as copy:
            assert not source.is_before(copy.position, position)
            states[b] = copied(copy, source, b)
            joined = copy.order
        for _ in range(3):
            changes = source.read(position, [a, b], EpochLimits(wait_ms=300, gather_ms=100))
            apply(states[a], changes, a)
            apply(states[b], changes, b, from_order=joined)
            position = changes.end
    _, ranges = read_to(source, position, [a, b], source.newest())
    for changes in ranges:
        apply(states[a], changes, a)
        apply(states[b], changes, b, from_order=joined)
    assert states[a] == dict(place.rows("SELECT * FROM a"))
    assert states[b] == dict(place.rows("SELECT * FROM b"))
    # the temporary slot is gone
    assert place.rows("SELECT count(*) FROM pg_replication_slots WHERE temporary") == [(0,)]


@pytest.mark.parametrize(
    "statement", ["TRUNCATE t", "ALTER TABLE t ALTER v TYPE BIGINT", "DROP TABLE t"]
)
def test_a_table_that_left_the_snapshot_is_not_copied_as_empty(place, statement):
    place.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)")
    source = place.source()
    tables = source.tables()
    source.prepare([table.name for table in tables])
    with source.first_copy([table.name for table in tables]) as copy:
        chunks = copy.chunks(tables[0], rows_max=100)
        assert [row.rows.num_rows for row in copy.read(chunks[0])] == [1]
        place.run(statement)
        if statement.startswith("DROP"):
            place.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        with pytest.raises(ConflictError) as caught:
            list(copy.read(chunks[0]))
    assert caught.value.kind == "cdc_copy_disturbed"


def test_a_slot_that_is_there_is_kept_by_another_first_copy(place):
    simple(place)
    source, names, position = place.followed()
    place.run("INSERT INTO a VALUES (1, 1)")
    with source.first_copy(names) as copy:
        assert source.is_before(position, copy.position)
    assert lines(source.read(position, names, SHORT)) == ["a +I 1 1"]


def test_an_idle_database_holds_no_log(place):
    simple(place)
    source, names, position = place.followed()
    place.run("CREATE TABLE other AS SELECT g FROM generate_series(1, 300000) g")
    assert source.status()["held_bytes"] > 10 << 20
    for _ in range(20):
        changes = source.read(position, names, SHORT)
        assert changes.parts == ()
        position = changes.end
        source.confirm(position)
        # the server moves the slot when it logs which transactions run: within 15 s, or now
        place.run("CHECKPOINT")
        if source.status()["held_bytes"] < 1 << 20:
            break
    status = source.status()
    assert status["held_bytes"] < 1 << 20
    assert status["wal_status"] == "reserved"
    assert status["slot"] == place.conf()["slot.name"]


def test_a_read_without_a_wait_passes_over_what_is_not_published(place):
    simple(place)
    source, names, position = place.followed()
    place.run("CREATE TABLE other AS SELECT g FROM generate_series(1, 1000) g")
    newest = source.newest()
    at_once = EpochLimits(wait_ms=0, gather_ms=0)
    for _ in range(50):
        changes = source.read(position, names, at_once)
        position = changes.end
        if not source.is_before(position, newest):
            break
    assert not source.is_before(position, newest)


def test_what_is_confirmed_is_not_read_again(place):
    simple(place)
    source, names, position = place.followed()
    place.run("INSERT INTO a VALUES (1, 1)")
    changes = source.read(position, names, SHORT)
    source.confirm(changes.end)
    place.run("INSERT INTO a VALUES (2, 2)")
    assert lines(source.read(changes.end, names, SHORT)) == ["a +I 2 2"]
    source.close()
    # an older copy of a journal: the server would skip to what was confirmed
    with pytest.raises(NotFoundError, match="the slot is confirmed to") as raised:
        source.read(position, names, SHORT)
    assert raised.value.kind == "cdc_position_lost"


def test_confirming_without_a_stream_moves_the_slot(place):
    simple(place)
    source, names, position = place.followed()
    place.run("INSERT INTO a VALUES (1, 1)")
    changes = source.read(position, names, SHORT)
    source.close()
    source.confirm(changes.end)
    assert source.status()["confirmed"] == changes.end


def test_within_a_transaction_the_slot_keeps_all_of_it(place):
    simple(place)
    source, names, position = place.followed()
    place.run("INSERT INTO a SELECT g, g FROM generate_series(1, 100) g")
    first = source.read(position, names, EpochLimits(rows_max=30))
    source.confirm(first.end)
    source.close()
    again = place.source()
    rest, _ = read_to(again, first.end, names, again.newest())
    assert lines(first) + rest == [f"a +I {g} {g}" for g in range(1, 101)]


def test_identity_is_of_the_cluster_and_the_database(place):
    source = place.source()
    system, database, timeline = source.identity().split("/")
    assert database == place.database
    assert (int(system) > 0, timeline) == (True, "1")
    conf = {**place.conf(), "slot.failover": "true"}
    assert place.source(conf=conf).identity() == f"{system}/{database}"


def test_a_slot_in_use_is_tried_again_and_then_refused(place, monkeypatch):
    simple(place)
    first, names, position = place.followed()
    first.read(position, names, EpochLimits(wait_ms=1))
    monkeypatch.setattr(slot_reader, "IN_USE_TRIES", 3)
    second = place.source()
    with pytest.raises(ConflictError, match="Another reader holds the slot") as raised:
        second.read(position, names, SHORT)
    assert raised.value.kind == "cdc_position_in_use"
    monkeypatch.setattr(slot_reader, "IN_USE_TRIES", 12)
    timer = threading.Timer(0.5, first.close)
    timer.start()
    assert second.read(position, names, SHORT).parts == ()
    timer.join()


def test_the_server_is_restarted_between_and_within_reads(bad_server):
    with bad_server(*SETTINGS) as server:
        connection = psycopg.connect(**server.conninfo(), autocommit=True)
        place = Place(server, DATABASE, connection)
        simple(place)
        source, names, position = place.followed()
        place.run("INSERT INTO a VALUES (1, 1)")
        first = source.read(position, names, SHORT)
        place.run("INSERT INTO a SELECT g, g FROM generate_series(2, 5000) g")
        server.stop()
        server.start()
        second = source.read(first.end, names, EpochLimits(rows_max=1000))
        again = threading.Timer(0.3, lambda: (server.stop(), server.start()))
        again.start()
        goal = source.newest()
        rest, _ = read_to(source, second.end, names, goal, EpochLimits(rows_max=700, wait_ms=1500))
        idle = source.read(goal, names, EpochLimits(wait_ms=1500)) if not rest else None
        again.join()
        assert idle is None or idle.parts == ()
        assert lines(first) + lines(second) + rest == [f"a +I {g} {g}" for g in range(1, 5001)]
        source.close()
        connection.close()


def test_a_reader_that_was_silent_for_too_long_connects_again(bad_server):
    with (
        bad_server(*SETTINGS, "wal_sender_timeout=1s") as server,
        psycopg.connect(**server.conninfo(), autocommit=True) as connection,
    ):
        place = Place(server, DATABASE, connection)
        simple(place)
        source, names, position = place.followed()
        place.run("INSERT INTO a SELECT g, g FROM generate_series(1, 3000) g")
        first = source.read(position, names, EpochLimits(rows_max=1000))
        until(lambda: place.rows("SELECT active FROM pg_replication_slots") == [(False,)])
        rest, _ = read_to(source, first.end, names, source.newest())
        assert lines(first) + rest == [f"a +I {g} {g}" for g in range(1, 3001)]
        source.confirm(source.newest())
        source.close()


def test_an_interrupt_loses_nothing(place, monkeypatch):
    simple(place)
    source, names, position = place.followed()
    place.run("INSERT INTO a SELECT g, g FROM generate_series(1, 2000) g")
    scan = slot_reader.scan

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(slot_reader, "scan", interrupted)
    with pytest.raises(KeyboardInterrupt):
        source.read(position, names, SHORT)
    monkeypatch.setattr(slot_reader, "scan", scan)
    found, _ = read_to(source, position, names, source.newest())
    assert len(found) == 2000


def test_a_position_beyond_the_log_is_refused(place):
    simple(place)
    source, names, _ = place.followed()
    with pytest.raises(NotFoundError, match="was it restored") as raised:
        source.read("FFFF/0", names, SHORT)
    assert raised.value.kind == "cdc_position_lost"


def test_a_lost_slot_is_refused(bad_server):
    settings = ("max_slot_wal_keep_size=2MB", "min_wal_size=32MB", "max_wal_size=48MB")
    with (
        bad_server(*SETTINGS, *settings) as server,
        psycopg.connect(**server.conninfo(), autocommit=True) as connection,
    ):
        place = Place(server, DATABASE, connection)
        simple(place)
        source, names, position = place.followed()
        assert source.status()["safe_bytes"] > 0
        for _ in range(6):
            place.run(
                "SELECT pg_switch_wal()",
                "CREATE TABLE x AS SELECT g FROM generate_series(1, 200000) g",
                "DROP TABLE x",
                "CHECKPOINT",
            )
        assert source.status()["wal_status"] == "lost"
        with pytest.raises(NotFoundError, match="must be copied again") as raised:
            source.read(position, names, SHORT)
        assert raised.value.kind == "cdc_position_lost"
        kinds = [finding.kind for finding in source.check(source.tables())]
        assert "slot_lost" in kinds
        # the same said by the server itself
        source._reader._check = lambda start: None
        with pytest.raises(NotFoundError) as raised:
            source.read(position, names, SHORT)
        assert raised.value.kind == "cdc_position_lost"
        assert len(source.drop()) == 2
        source.close()


def test_a_missing_slot_is_refused(place):
    simple(place)
    source, names, position = place.followed()
    source.drop()
    with pytest.raises(NotFoundError, match="there is no slot") as raised:
        source.read(position, names, SHORT)
    assert raised.value.kind == "cdc_position_lost"
    assert source.status()["wal_status"] == "missing"


def test_a_publication_that_was_dropped_is_an_error(place):
    simple(place)
    source, names, position = place.followed()
    place.run(f"DROP PUBLICATION {place.conf()['slot.name']}", "INSERT INTO a VALUES (1, 1)")
    # PostgreSQL 18 only warns, and leaves the changes out
    with pytest.raises(NotFoundError, match="publication") as raised:
        source.read(position, names, SHORT)
    assert raised.value.kind == "cdc_publication_missing"


def test_a_table_that_was_taken_out_of_the_publication_must_be_read_again(place):
    simple(place, "a", "b")
    source, names, position = place.followed()
    publication = place.conf()["slot.name"]
    place.run("INSERT INTO a VALUES (1, 1)", f"ALTER PUBLICATION {publication} DROP TABLE a")
    place.run("UPDATE a SET v = 2", "INSERT INTO b VALUES (1, 1)")
    changes = source.read(position, names, SHORT)
    told = MustReread(names[0], "it is not in the publication")
    assert changes.parts[-1] == told
    changes = source.read(changes.end, names, SHORT)
    assert changes.parts == ()
    source.prepare(names)
    changes = source.read(changes.end, names, SHORT)
    place.run(f"ALTER PUBLICATION {publication} DROP TABLE a")
    changes = source.read(changes.end, names, SHORT)
    assert changes.parts == (told,)


def test_drop_leaves_what_others_made(place):
    simple(place)
    place.run("CREATE PUBLICATION theirs FOR TABLE a")
    conf = {**place.conf(), "publication.name": "theirs"}
    source, *_ = place.followed(conf=conf)
    said = source.drop()
    assert said[0].startswith("dropped the replication slot")
    assert said[1] == "left the publication theirs, which somebody else made"
    assert place.rows("SELECT count(*) FROM pg_publication") == [(1,)]
    assert source.drop() == [said[1]]


def test_publication_has_the_named_tables_only(place):
    simple(place, "a", "b", "c")
    source = place.source()
    a, b, c = (table.name for table in source.tables())
    published = "SELECT tablename::text FROM pg_publication_tables ORDER BY 1"
    for wanted in ([a, b], [a, b], [c], [b, c]):
        source.prepare(wanted)
        assert place.rows(published) == [(name.table,) for name in wanted]
    assert place.rows("SELECT puballtables, pubviaroot FROM pg_publication") == [(False, True)]


def test_tables_that_publishing_would_break_are_never_published(place):
    place.run("CREATE TABLE bare (a int)", "CREATE TABLE a (id int PRIMARY KEY)")
    source = place.source()
    tables = source.tables()
    [finding] = [f for f in source.check(tables) if f.kind == "no_primary_key"]
    assert finding.is_error
    assert "ADD PRIMARY KEY" in finding.mend
    with pytest.raises(InvalidInputError, match="would fail in the application"):
        source.prepare([table.name for table in tables])
    assert place.rows("SELECT count(*) FROM pg_publication") == [(0,)]
    place.run("INSERT INTO bare VALUES (1)", "UPDATE bare SET a = 2")


def findings(place, *, conf=None):
    source = place.source(conf=conf)
    return {finding.kind: finding for finding in source.check(source.tables())}


def test_findings_of_tables(place):
    place.run(
        "CREATE TABLE large (id int PRIMARY KEY, v text)",
        "CREATE TABLE nothing (id int PRIMARY KEY, v int)",
        "ALTER TABLE nothing REPLICA IDENTITY NOTHING",
        "CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY)",
    )
    found = findings(place)
    assert not found["unchanged_values"].is_error
    for kind in ("unchanged_values", "replica_identity", "unlogged"):
        place.run(found[kind].mend)
    assert set(findings(place)) == {"wal_keep_unlimited"}


def test_a_statement_about_the_publication_comes_alone(place):
    simple(place, "a", "b")
    place.run("DROP ROLE IF EXISTS other", "CREATE ROLE other LOGIN REPLICATION PASSWORD 'r'")
    place.run("GRANT SELECT ON a, b TO other", "ALTER TABLE b OWNER TO other")
    conf = {**place.conf(), "username": "other", "password": "r"}

    def about_publication():
        source = place.source(conf=conf)
        found = source.check(source.tables())
        return [one.mend for one in found if "PUBLICATION" in one.mend]

    for _ in range(2):  # whether it may make one, or not
        [mend] = about_publication()
        assert mend.startswith("CREATE PUBLICATION")
        assert '"a", "public"."b"' in mend
        place.run(f"GRANT CREATE ON DATABASE {place.database} TO other")
    place.run("CREATE PUBLICATION mine FOR TABLE b WITH (publish_via_partition_root = true)")
    conf["publication.name"] = "mine"
    [mend] = about_publication()
    assert mend == 'ALTER PUBLICATION "mine" ADD TABLE "public"."a"'
    place.run(mend)
    assert about_publication() == []
    place.run("DROP PUBLICATION mine", "DROP OWNED BY other", "DROP ROLE other")


def test_a_table_without_a_key_gets_both_ways_to_mend_it(place):
    place.run("CREATE TABLE bare (a int)")
    found = findings(place)["no_primary_key"]
    assert "ADD PRIMARY KEY" in found.mend
    assert 'ALTER TABLE "public"."bare" REPLICA IDENTITY FULL' in found.mend
    place.run("ALTER TABLE bare REPLICA IDENTITY FULL")
    assert not findings(place)["no_primary_key"].is_error


def test_findings_of_an_ordinary_role(place):
    simple(place)
    place.run(
        "DROP ROLE IF EXISTS reader",
        "CREATE ROLE reader LOGIN PASSWORD 'r'",
        "ALTER TABLE a OWNER TO CURRENT_USER",
    )
    conf = {**place.conf(), "username": "reader", "password": "r"}
    found = findings(place, conf=conf)
    assert set(found) == {
        "replication_right",
        "select_right",
        "publication_right",
        "wal_keep_unlimited",
    }
    with pytest.raises(StorageRefusedError) as raised:
        place.source(conf=conf).prepare([place.source().tables()[0].name])
    assert raised.value.kind == "cdc_no_right"
    with pytest.raises(StorageRefusedError, match="ALTER ROLE") as raised:
        place.source(conf=conf).first_copy([])
    assert raised.value.kind == "cdc_no_replication_right"
    place.source().prepare([place.source().tables()[0].name])
    for kind in ("replication_right", "select_right"):
        place.run(found[kind].mend)
    assert set(findings(place, conf=conf)) == {"wal_keep_unlimited"}
    source = place.source(conf=conf)
    names = [table.name for table in source.tables()]
    source.prepare(names)
    with source.first_copy(names) as copy:
        place.run("INSERT INTO a VALUES (1, 1)")
    assert lines(source.read(copy.position, names, SHORT)) == ["a +I 1 1"]
    source.drop()
    source.close()
    place.run("REVOKE ALL ON a FROM reader", "DROP ROLE reader")


def test_findings_of_a_publication(place):
    simple(place)
    place.run("CREATE PUBLICATION p FOR ALL TABLES WITH (publish = 'insert')")
    conf = {**place.conf(), "publication.name": "p"}
    found = findings(place, conf=conf)
    assert {"publication_for_all", "publication_kinds", "publication_root"} <= set(found)
    place.run(found["publication_kinds"].mend, found["publication_root"].mend)
    found = findings(place, conf=conf)
    assert set(found) == {"publication_for_all", "wal_keep_unlimited"}
    place.run("DROP PUBLICATION p", "CREATE PUBLICATION p FOR TABLE a WHERE (id > 5)")
    assert "publication_filter" in findings(place, conf=conf)
    place.run("DROP PUBLICATION p", "CREATE PUBLICATION p FOR TABLE a (id)")
    [left] = [f for k, f in findings(place, conf=conf).items() if k == "publication_columns"]
    assert left.message.endswith(": v.")
    for statement in left.mend.split(";"):
        place.run(statement)
    assert "publication_columns" not in findings(place, conf=conf)


def test_a_server_that_does_not_log_enough(bad_server):
    with (
        bad_server("max_replication_slots=2", "max_wal_senders=2") as server,
        psycopg.connect(**server.conninfo(), autocommit=True) as connection,
    ):
        place = Place(server, DATABASE, connection)
        simple(place)
        source = place.source()
        found = {f.kind: f for f in source.check(source.tables())}
        assert found["wal_level"].is_error
        assert "ALTER SYSTEM SET wal_level" in found["wal_level"].mend
        with pytest.raises(StorageRefusedError, match="wal_level") as raised:
            source.first_copy([])
        assert raised.value.kind == "cdc_wal_level"
        source.close()


def test_no_free_slot_and_no_free_sender(bad_server):
    settings = ("wal_level=logical", "max_replication_slots=2", "max_wal_senders=3")
    with (
        bad_server(*settings) as server,
        psycopg.connect(**server.conninfo(), autocommit=True) as connection,
    ):
        place = Place(server, DATABASE, connection)
        simple(place)
        source = place.source()
        for name in ("x", "y"):
            place.run(f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")
        found = {f.kind: f for f in source.check(source.tables())}
        assert "max_replication_slots = 6" in found["slots_full"].mend
        with pytest.raises(StorageRefusedError) as raised:
            source.first_copy([])
        assert raised.value.kind == "cdc_no_free_slot"
        place.run("SELECT pg_drop_replication_slot('x')", "SELECT pg_drop_replication_slot('y')")
        held = [make_slot(source._settings, name, is_temporary=True).connection for name in "xy"]
        more = psycopg.connect(**server.conninfo(), replication="database", autocommit=True)
        with pytest.raises(StorageRefusedError) as raised:
            source.first_copy([])
        assert raised.value.kind == "cdc_no_free_sender"
        for one in (*held, more):
            one.close()
        source.close()


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"password": "wrong"}, "cdc_login"),
        ({"database-name": "nowhere"}, "cdc_login"),
        ({"port": "1"}, "cdc_unreachable"),
    ],
)
def test_refused_connections_never_show_the_password(place, change, kind):
    conf = {**place.conf(), **change}
    source = place.source(conf=conf)
    with pytest.raises(TidelakeError, match=r"PostgreSQL at 127\.0\.0\.1") as raised:
        source.tables()
    assert raised.value.kind == kind
    shown = f"{raised.value} {raised.value!r} {raised.value.context} {source._settings!r}"
    assert PASSWORD not in shown
    assert "wrong'" not in shown
    assert USER in shown


def test_failover_slots(place):
    new = place.connection.info.server_version >= 170000
    simple(place)
    conf = {**place.conf(), "slot.failover": "true"}
    found = findings(place, conf=conf)
    assert ("failover" in found) is not new
    if new:
        place.followed(conf=conf)
        assert place.rows("SELECT failover FROM pg_replication_slots") == [(True,)]


def test_empty_tables_and_unanalysed_ones_are_cut_into_parts(place):
    simple(place, "a", "b")
    place.run("INSERT INTO b SELECT g, g FROM generate_series(1, 5000) g")
    source = place.source()
    names = [table.name for table in source.tables()]
    source.prepare(names)
    with source.first_copy(names) as copy:
        a, b = source.tables()
        [empty] = copy.chunks(a, rows_max=100)
        assert list(copy.read(empty)) == []
        parts = copy.chunks(b, rows_max=1000)
        assert len(parts) > 1
        # all parts show one moment, whatever happens meanwhile
        place.run("DELETE FROM b", "INSERT INTO b SELECT g, g FROM generate_series(9000, 9999) g")
        ids = [
            key
            for part in parts
            for batch in copy.read(part)
            for key in batch.rows.column("id").to_pylist()
        ]
        assert sorted(ids) == list(range(1, 5001))
        # reading that has begun outlives the copy
        begun = [copy.read(part) for part in parts]
        firsts = [next(batches) for batches in begun]
    rest = [batch for batches in begun for batch in batches]
    count = sum(batch.rows.num_rows for batch in itertools.chain(firsts, rest))
    assert count == 5000


def test_a_slot_that_is_read_is_sound_and_one_of_another_database_is_seen(place):
    place.run("CREATE TABLE t (id int PRIMARY KEY)")
    source, names, start = place.followed()
    [ours, *others] = source.slots()
    assert (ours.name, ours.is_ours, ours.is_read) == (f"slot_{place.database}", True, False)
    assert ours.problem
    source.read(start, names, QUICK)
    [ours, *_] = source.slots()
    assert (ours.is_read, ours.problem, ours.status) == (True, "", "reserved")
    assert ours.held_bytes >= 0
    assert not any(one.is_ours for one in others)


def test_without_times_of_commits_the_lag_is_said_in_bytes_and_how_to_get_them(place):
    source = place.source()
    start = source.newest()
    place.run("CREATE TABLE t (id int PRIMARY KEY)")
    lag = source.lag(start, source.newest())
    assert lag.bytes_count > 0
    assert lag.newest_ms is None
    assert "track_commit_timestamp" in lag.note
