"""A job as people use it, on a real PostgreSQL: planned, run, asked, copied again, dropped."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import time
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from cdc_postgres import SETTINGS
from servers.postgres import PASSWORD, USER, postgres

import tidelake
import tidelake.cdc
from tidelake.cdc.command import figures
from tidelake.cdc.command.job_lag import NO_POSITION
from tidelake.cdc.command.sync import Sync
from tidelake.cli import cdc_command
from tidelake.cli.main import main
from tidelake.errors import InvalidInputError, NotFoundError, StorageError

_NUMBERS = itertools.count()
PAGE = Path(__file__).parents[4] / "docs" / "cdc.md"
CODE = re.compile(r"^```(python|toml)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def server():
    with postgres(18, *SETTINGS, "track_commit_timestamp=on") as started:
        yield started


class Shop:
    """A database with two tables, and a job of it."""

    def __init__(self, server, lake, name):
        self.lake = lake
        self.name = name
        self.connection = psycopg.connect(**server.conninfo(name), autocommit=True)
        self.conf = {
            "hostname": "127.0.0.1",
            "port": server.port,
            "username": USER,
            "password": "env:CDC_PASSWORD",
            "database-name": name,
            "slot.name": f"slot_{name}",
        }

    def run(self, *statements):
        for statement in statements:
            self.connection.execute(statement)

    def rows(self, query):
        return self.connection.execute(query).fetchall()

    def job(self, command="postgres_sync_database", **more):
        given = {"warehouse": str(self.lake), "database": "ods", "postgres_conf": self.conf}
        return tidelake.cdc.sync(command, **{**given, **more})

    def words(self, *more):
        pairs = [word for key, value in self.conf.items()
                 for word in ("--postgres_conf", f"{key}={value}")]  # fmt: skip
        where = ["--warehouse", str(self.lake), "--database", "ods"]
        return ["postgres_sync_database", *where, *pairs, *more]

    def table(self, name):
        return tidelake.open(self.lake).table(f"ods.{name}")

    def content(self, name, *columns):
        rows = self.table(name).to_arrow(columns=list(columns)).to_pylist()
        return sorted(tuple(row.values()) for row in rows)


@pytest.fixture
def shop(server, tmp_path, monkeypatch):
    monkeypatch.setenv("CDC_PASSWORD", PASSWORD)
    name = f"shop{next(_NUMBERS)}"
    with psycopg.connect(**server.conninfo("postgres"), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    made = Shop(server, tmp_path / "lake", name)
    made.run(
        "CREATE TABLE orders (id int PRIMARY KEY, item text, price numeric(8, 2))",
        "CREATE TABLE users (mail varchar(40) PRIMARY KEY, age smallint)",
        "INSERT INTO orders SELECT n, 'item ' || n, n / 4.0 FROM generate_series(1, 100) n",
    )
    yield made
    made.connection.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s",
        [name],
    )
    made.connection.close()


def test_a_plan_shows_tables_and_changes_nothing(shop):
    plan = shop.job(table_prefix="pg_").plan()
    assert plan.can_run
    assert [table.target for table in plan.tables] == ["ods.pg_orders", "ods.pg_users"]
    assert plan.tables[0].columns[:3] == (
        ("id", "INT NOT NULL"), ("item", "STRING"), ("price", "DECIMAL(8, 2)"),
    )  # fmt: skip
    assert "create ods.pg_orders from" in str(plan)
    assert not shop.lake.exists()
    assert not shop.rows("SELECT 1 FROM pg_replication_slots WHERE database = current_database()")


def test_a_job_that_begins_with_the_newest_changes_copies_nothing(shop):
    shop.conf["scan.startup.mode"] = "latest-offset"
    shop.job().run(once=True)
    assert shop.table("orders").count() == 0
    shop.run(
        "INSERT INTO orders VALUES (200, 'new', 1)", "UPDATE orders SET price = 2 WHERE id = 7"
    )
    shop.job().run(once=True)
    assert [row[0] for row in shop.content("orders", "id")] == [7, 200]
    # a table that joins later is copied
    shop.run("CREATE TABLE late (id int PRIMARY KEY)", "INSERT INTO late VALUES (1)")
    shop.job().run(once=True)
    assert shop.content("late", "id") == [(1,)]
    shop.job().resnapshot("ods.orders")
    shop.job().run(once=True)
    assert shop.table("orders").count() == 101


def test_a_plan_says_what_is_wrong_and_the_run_refuses(shop):
    shop.run("CREATE TABLE logs (line text)", "CREATE TABLE odd (id int PRIMARY KEY, m money)")
    plan = shop.job().plan()
    assert not plan.can_run
    problems = {table.target: table.problem for table in plan.tables}
    assert "no primary key" in problems["ods.logs"]
    assert "money" in problems["ods.odd"]
    with pytest.raises(InvalidInputError):
        shop.job(once=True).run()
    shop.job(including_tables="orders|users", once=True).run()
    assert shop.table("orders").count() == 100


def test_a_job_runs_once_and_again(shop):
    epochs = []
    job = shop.job(once=True)
    job.run(watch=lambda done, _: epochs.append(done.rows_count))
    assert epochs == [100]
    assert shop.content("orders", "id", "item", "price") == shop.rows(
        "SELECT id, item, price FROM orders ORDER BY id"
    )
    shop.run(
        "UPDATE orders SET id = id + 1000 WHERE id <= 10",
        "DELETE FROM orders WHERE id BETWEEN 20 AND 30",
        "INSERT INTO users VALUES ('a@b', 30)",
        "ALTER TABLE users ADD COLUMN since date",
        "INSERT INTO users VALUES ('c@d', 40, '2026-11-29')",
    )
    job.run()
    assert shop.content("orders", "id", "item", "price") == shop.rows(
        "SELECT id, item, price FROM orders ORDER BY id"
    )
    assert shop.content("users", "mail", "age", "since") == shop.rows(
        "SELECT * FROM users ORDER BY mail"
    )


def test_the_status_says_how_far_it_is(shop):
    job = shop.job(once=True)
    assert job.status().epoch == -1
    job.run()
    status = job.status()
    assert {one.target: one.rows for one in status.tables} == {"ods.orders": 100, "ods.users": 0}
    assert status.source["slot"] == shop.conf["slot.name"]
    shop.run("INSERT INTO users VALUES ('a@b', 30)")
    assert job.status().is_behind
    assert "ods.orders: live, 100 rows, copied 1 time" in str(job.status())


def test_the_lag_is_said_in_seconds_and_bytes(shop, capsys):
    job = shop.job(once=True)
    assert (job.status().lag.seconds, job.status().lag.note) == (None, NO_POSITION)
    job.run()
    ran = time.monotonic()
    shop.run("SELECT pg_sleep(0.3)", "UPDATE orders SET price = 1")
    lag = job.status().lag
    assert 0.3 <= lag.seconds <= time.monotonic() - ran + 2
    assert lag.bytes_count > 100 * 20
    assert (lag.is_bound, lag.messages_count, lag.note) == (False, None, "")
    # the age of the change, not the time since: nothing more is committed
    shop.run("SELECT pg_sleep(0.3)")
    assert abs(job.status().lag.seconds - lag.seconds) < 0.25
    assert re.search(r"^    lag: [0-9.]+ s, [0-9,]+ bytes of log$", str(job.status()), re.MULTILINE)
    assert main(["cdc", "status", "--json", *shop.words()]) == 0
    assert json.loads(capsys.readouterr().out)["lag"]["seconds"] == lag.seconds
    job.run()
    assert job.status().lag.seconds < 0.1


def test_the_doctor_names_slots_that_nobody_reads_and_the_statement_that_mends(shop, capsys):
    def doctor(*more):
        code = main(["doctor", "slots", *shop.words(*more)])
        return code, capsys.readouterr().out

    ours = shop.conf["slot.name"]
    assert doctor() == (0, f"pass  slot {ours}: this job's, wal_status missing\n")
    shop.job(once=True).run()
    shop.run(f"SELECT pg_create_logical_replication_slot('other_{shop.name}', 'pgoutput')")
    code, said = doctor()
    lines = [line for line in said.splitlines() if shop.name in line]
    assert code == 1
    assert re.fullmatch(
        f"FAIL  slot {ours}: this job's, nobody reads it, it holds [0-9,]+ bytes of log, wal_status"
        r" reserved, no limit to what it may hold; nobody has read it since [-0-9: ]+ UTC\."
        " Run the job, or end it by tidelake cdc drop",
        lines[0],
    )
    assert "another reader's, nobody reads it" in lines[1]
    mend = lines[1].partition("run: ")[2]
    assert mend == f"SELECT pg_drop_replication_slot('other_{shop.name}')"
    shop.run(mend)
    code, said = doctor("--json")
    assert [one["name"] for one in json.loads(said) if shop.name in one["name"]] == [ours]
    assert PASSWORD not in said
    shop.run(f"SELECT pg_drop_replication_slot('{ours}')")
    code, said = doctor()
    assert (code, "the job's slot is gone. Run the job with --on-lost-position" in said) == (
        1,
        True,
    )


def test_the_doctor_of_slots_needs_a_job(capsys):
    assert main(["doctor", "slots"]) == 2
    assert "Name a job: a file such as job.toml" in capsys.readouterr().err


def test_a_table_is_copied_again(shop):
    job = shop.job(once=True)
    job.run()
    shop.table("orders").delete("id = 1")
    job.resnapshot("ods.orders")
    job.run()
    assert shop.table("orders").count() == 100
    assert {one.target: one.copies for one in job.status().tables} == {
        "ods.orders": 2, "ods.users": 1,
    }  # fmt: skip
    with pytest.raises(NotFoundError, match=r"has no table 'ods\.ordres'"):
        job.resnapshot("ods.ordres")


def test_all_tables_are_read_at_one_moment(shop):
    job = shop.job(once=True)
    job.run()
    with shop.connection.transaction():
        shop.run("INSERT INTO users VALUES ('a@b', 30)", "DELETE FROM orders WHERE id > 50")
    job.run()
    now = job.at_epoch()
    assert now.is_whole
    assert (now["ods.orders"].count(), now["ods.users"].count()) == (50, 1)
    assert job.epochs()["is_whole"].to_pylist() == [True] * job.epochs().num_rows
    before = job.at_epoch(0)
    assert (before["ods.orders"].count(), before["ods.users"].count()) == (100, 0)


def test_a_transaction_that_was_cut_is_seen_whole_or_not_at_all(shop):
    shop.job(once=True).run()
    with shop.connection.transaction():
        shop.run(
            "INSERT INTO users SELECT 'm' || n, n FROM generate_series(1, 40) n",
            "UPDATE orders SET price = 0",
        )
    job = shop.job(once=True, max_rows="10")
    seen = set()

    def watch(done, _):
        now = job.at_epoch()
        paid = now["ods.orders"].to_arrow(where="price > 0").num_rows
        seen.add((now["ods.users"].count(), paid))

    job.run(watch=watch)
    assert seen == {(0, 100)}
    assert False in job.epochs()["is_whole"].to_pylist()
    whole = job.at_epoch()
    assert whole["ods.users"].count() == 40
    assert whole["ods.orders"].to_arrow(where="price > 0").num_rows == 0


def test_rows_of_the_quarantine_are_tried_again(shop, capsys):
    shop.run("CREATE TABLE events (id int PRIMARY KEY, n numeric(9, 2), at timestamptz)")
    words = shop.words("--once", "--sequence", "source")
    assert main(["cdc", *words]) == 0
    shop.run(
        "INSERT INTO events VALUES (1, 'NaN', now()), (2, 2.50, '2026-11-29 12:00+02')",
        "INSERT INTO events VALUES (3, 1, '10000-01-01')",
    )
    assert main(["cdc", *words]) == 0
    left = shop.content("cdc_quarantine", "kind", "payload")
    assert len(left) == 2
    capsys.readouterr()
    assert main(["cdc", "replay", "ods.events", *words]) == 0
    said = capsys.readouterr().out
    assert "0 rows of the quarantine can be applied" in said
    assert "'NaN' is no DECIMAL(9, 2)" in said
    assert main(["cdc", "replay", *words, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["staying"]) == 2
    shop.table("events").retype_column("n", "STRING")
    job = shop.job(once=True)
    assert str(job.replay()).startswith("1 row of the quarantine can be applied")
    job.run()
    assert shop.content("events", "id", "n") == [(1, "NaN"), (2, "2.50")]
    assert job.status().quarantined == 1
    with pytest.raises(NotFoundError, match="has no table"):
        job.replay("ods.absent")


def test_a_dropped_job_leaves_tables_and_nothing_else(shop):
    job = shop.job(once=True)
    job.run()
    said = job.drop()
    assert said[0] == f"dropped the replication slot {shop.conf['slot.name']}"
    assert not shop.rows("SELECT 1 FROM pg_publication")
    (left,) = (shop.lake / "_cdc" / "ods").iterdir()
    assert left.name.startswith("dropped-")
    assert shop.table("orders").count() == 100
    assert job.status().epoch == -1
    job.run()  # the same name may begin anew
    assert shop.table("orders").count() == 100


def test_columns_that_are_arrays_are_kept_in_the_journal(shop):
    shop.run("CREATE TABLE lists (id int PRIMARY KEY, n int[])", "INSERT INTO lists VALUES (1)")
    shop.job().run(once=True)
    shop.run("ALTER TABLE orders ADD tags text[]", "INSERT INTO lists VALUES (2, '{1,2}')")
    shop.run("INSERT INTO orders (id, tags) VALUES (200, '{a}')")
    shop.job().run(once=True)
    shop.run("INSERT INTO lists VALUES (3, '{3}')")
    shop.job().run(once=True)
    found = shop.table("lists").to_arrow(columns=["id", "n"]).to_pylist()
    assert sorted((row["id"], row["n"]) for row in found) == [(1, None), (2, [1, 2]), (3, [3])]


def test_one_table_with_computed_and_metadata_columns(shop):
    job = shop.job(
        "postgres_sync_table",
        table="orders",
        postgres_conf={**shop.conf, "table-name": "orders"},
        computed_column=["first=substring(item, 0, 4)", "bucket_of=truncate(id, 10)"],
        metadata_column="table_name,op_ts",
        table_conf={"bucket": 2},
        once=True,
    )
    job.run()
    row = shop.table("orders").get(42)
    assert (row["first"], row["bucket_of"], row["table_name"]) == ("item", 40, "orders")
    shop.run("UPDATE orders SET item = 'thing' WHERE id = 42")
    job.run()
    assert shop.table("orders").get(42)["first"] == "thin"


def test_rows_of_a_table_without_a_key_are_appended_where_it_is_asked_for(shop):
    shop.run(
        "CREATE TABLE logs (line text)",
        "ALTER TABLE logs REPLICA IDENTITY FULL",
        "INSERT INTO logs VALUES ('a'), ('a')",
    )
    with pytest.raises(InvalidInputError, match="--keyless append"):
        shop.job(once=True).run()
    job = shop.job(once=True, keyless="append", table_conf={"bucket": 2})
    assert job.plan().can_run
    job.run()
    shop.run("INSERT INTO logs VALUES ('a'), ('b')", "UPDATE orders SET price = 1")
    job.run()
    assert shop.content("logs", "line") == [("a",), ("a",), ("a",), ("b",)]
    assert shop.table("orders").table_schema.options["bucket"] == "2"


def by_shelf(shop):
    shop.run(
        "CREATE TABLE stock (id int PRIMARY KEY, shelf text, amount int NOT NULL)",
        "INSERT INTO stock SELECT n, 'shelf' || n % 3, n FROM generate_series(1, 9) n",
    )
    return shop.job(
        including_tables="stock",
        primary_keys="shelf,id,half",
        computed_column=["half=truncate(amount, 5)"],
        once=True,
    )


def test_an_update_of_a_key_that_is_not_the_sources_takes_the_old_row_away(shop):
    job = by_shelf(shop)
    shop.run("ALTER TABLE stock REPLICA IDENTITY FULL")
    assert job.plan().can_run
    job.run()
    shop.run(
        "UPDATE stock SET shelf = 'other' WHERE id = 1",
        "UPDATE stock SET amount = amount + 1",
        "UPDATE stock SET id = 20, shelf = 'last' WHERE id = 2",
        "DELETE FROM stock WHERE id = 3",
        "UPDATE stock SET shelf = 'shelf0' WHERE shelf = 'other'",
    )
    job.run()
    assert shop.content("stock", "id", "shelf", "amount") == shop.rows(
        "SELECT id, shelf, amount FROM stock ORDER BY id"
    )
    # from here on the log has the source's key alone
    shop.run("ALTER TABLE stock REPLICA IDENTITY DEFAULT", "UPDATE stock SET shelf = 'x'")
    job.run()
    [stock] = job.status().tables
    assert stock.phase == "suspended"
    assert "no longer sends old values of 'amount', 'shelf'" in stock.reason
    statement = 'ALTER TABLE "public"."stock" REPLICA IDENTITY FULL'
    assert statement in stock.reason
    shop.run(statement)
    job.resnapshot("ods.stock")
    job.run()
    shop.run("UPDATE stock SET shelf = 'y'")
    job.run()
    assert shop.content("stock", "id", "shelf", "amount") == shop.rows(
        "SELECT id, shelf, amount FROM stock ORDER BY id"
    )


def test_a_key_whose_old_values_are_not_sent_is_refused_before_anything_is_made(shop):
    job = by_shelf(shop)
    statement = 'ALTER TABLE "public"."stock" REPLICA IDENTITY FULL'
    plan = job.plan()
    assert not plan.can_run
    assert statement in plan.tables[0].problem
    with pytest.raises(InvalidInputError, match=statement) as refused:
        job.run()
    assert refused.value.kind == "cdc_key_unsent"
    assert not shop.rows("SELECT 1 FROM pg_replication_slots WHERE database = current_database()")
    assert not shop.rows("SELECT 1 FROM pg_publication")
    assert not shop.lake.exists()


def test_the_command_line_runs_plans_asks_and_drops(shop, capsys):
    words = shop.words("--once")
    assert main(["cdc", "plan", *words]) == 0
    assert "create ods.orders" in capsys.readouterr().out
    assert main(["cdc", *words, "--json"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert json.loads(line)["rows_by_table"][f"{shop.name}.public.orders"] == 100
    assert main(["cdc", *words]) == 0
    assert main(["cdc", "status", *words]) == 0
    assert "ods.orders: live, 100 rows" in capsys.readouterr().out
    assert main(["cdc", "epochs", *words]) == 0
    assert "whole: ods.orders@1 ods.users@1" in capsys.readouterr().out
    assert main(["cdc", "epochs", *words, "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[0]["kind"] == "copy"
    assert rows[-1]["snapshots"] == {"ods.orders": 1, "ods.users": 1}
    assert main(["cdc", "resnapshot", "ods.orders", *words]) == 0
    assert main(["cdc", *words]) == 0
    assert "100 rows copied" in capsys.readouterr().err
    assert main(["cdc", "drop", *words]) == 0
    assert "dropped the replication slot" in capsys.readouterr().out


def test_a_terminal_shows_a_table_and_the_copy(shop, capsys, monkeypatch):
    monkeypatch.setattr(figures, "SHOWN_EVERY_SECONDS", 0.0)
    shop.run("ANALYZE")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["cdc", *shop.words("--once"), "--metrics-port", "0"]) == 0
    said = capsys.readouterr().err
    assert "Metrics: http://127.0.0.1:" in said
    assert "100 %, 100 of about 100 rows, 0:00:00 left" in said
    assert re.search(rf"ods.orders +{shop.name}.public.orders +live +100", said)
    assert "\x1b[" in said
    assert main(["cdc", "status", *shop.words(), "--metrics-port", "0"]) == 2


def test_a_file_holds_a_job(shop, tmp_path, capsys):
    path = tmp_path / "job.toml"
    conf = "\n".join(f'"{key}" = "{value}"' for key, value in shop.conf.items())
    path.write_text(
        f'command = "postgres_sync_database"\nwarehouse = "{shop.lake}"\ndatabase = "ods"\n'
        f"[postgres_conf]\n{conf}\n"
    )
    assert main(["cdc", "run", str(path), "--once"]) == 0
    assert shop.table("orders").count() == 100
    tidelake.cdc.from_file(path).drop()
    assert main(["cdc", "run", str(path), "--database", "other"]) == 2
    assert "'database' is in" in capsys.readouterr().err


def test_what_is_wrong_is_said_without_the_password(shop, capsys, monkeypatch):
    monkeypatch.setenv("CDC_PASSWORD", "canary-7c1")
    assert main(["cdc", *shop.words("--once")]) == 1
    said = capsys.readouterr().err
    assert "password" in said
    assert "canary-7c1" not in said
    assert main(["cdc", *shop.words("--onec")]) == 2
    assert "Did you mean 'once'?" in capsys.readouterr().err
    assert main(["cdc", "plan", "no-such.toml"]) == 2
    assert main(["cdc", "--help"]) == 0
    assert main(["cdc", "postgres_sync_table", "--help"]) == 0
    assert "--computed_column DEFINITION" in capsys.readouterr().out


def test_a_lost_slot_stops_the_job_and_is_made_anew_where_it_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("CDC_PASSWORD", PASSWORD)
    settings = ("max_slot_wal_keep_size=2MB", "min_wal_size=32MB", "max_wal_size=48MB")
    with postgres(18, *SETTINGS, *settings) as server:
        shop = Shop(server, tmp_path / "lake", "lake")
        shop.run("CREATE TABLE orders (id int PRIMARY KEY)", "INSERT INTO orders VALUES (1)")
        shop.job(once=True).run()
        for _ in range(6):
            shop.run(
                "SELECT pg_switch_wal()",
                "CREATE TABLE x AS SELECT g FROM generate_series(1, 200000) g",
                "DROP TABLE x",
                "CHECKPOINT",
            )
        shop.run("DELETE FROM orders", "INSERT INTO orders VALUES (2)")
        assert shop.job().status().source["wal_status"] == "lost"
        [lost] = shop.job().slots()
        assert (lost.problem, lost.safe_bytes) == ("the server threw away log that it needs", None)
        assert "--on-lost-position resnapshot" in lost.mend
        with pytest.raises(InvalidInputError, match="resnapshot"):
            shop.job(once=True).run()
        job = shop.job(once=True, on_lost_position="resnapshot")
        job.run()
        assert shop.content("orders", "id") == [(2,)]
        shop.run("INSERT INTO orders VALUES (3)")
        job.run()
        assert shop.content("orders", "id") == [(2,), (3,)]
        [orders] = job.status().tables
        assert (orders.copies, job.status().source["wal_status"]) == (2, "reserved")
        assert "safe_wal_size" in str(job.slots()[0])
        job.drop()
        shop.connection.close()


def test_the_code_of_the_page_runs(shop, capsys):
    shop.run("DELETE FROM orders WHERE id > 3")
    blocks = dict(CODE.findall(PAGE.read_text(encoding="utf-8")))
    code = blocks["python"].replace("/tmp/cdc-warehouse", str(shop.lake))
    code = code.replace("5432", str(shop.conf["port"])).replace('"shop"', f'"{shop.name}"')
    exec(compile(code, "docs/cdc.md", "exec"), {})
    assert capsys.readouterr().out.splitlines()[-1] == "3"
    path = shop.lake / "job.toml"
    path.write_text(blocks["toml"])
    assert tidelake.cdc.from_file(path).name == "ods"


def test_an_excluded_table_is_left_out_and_comes_back_with_a_new_snapshot(shop, capsys):
    shop.run("INSERT INTO users VALUES ('a@b', 30)")
    shop.job(once=True).run()
    less = {"excluding_tables": "users", "once": True}
    assert shop.job(**less).plan().left_out == (
        f"{shop.name}.public.users: the arguments no longer take it; ods.users stays",
    )
    shop.job(**less).run()
    shop.run("DELETE FROM users", "INSERT INTO users VALUES ('c@d', 40)", "DELETE FROM orders")
    shop.job(**less).run()
    assert shop.job(**less).plan().left_out == ()
    status = str(shop.job(**less).status())
    assert status.count("left out (the arguments no longer take it)") == 1
    assert shop.content("users", "mail") == [("a@b",)]
    assert shop.table("orders").count() == 0
    published = "SELECT tablename FROM pg_publication_tables"
    assert shop.rows(published) == [("orders",)]
    with pytest.raises(InvalidInputError) as refused:
        shop.job(**less).resnapshot("ods.users")
    assert refused.value.kind == "cdc_table_left_out"
    assert "was left out, and is copied anew" in str(shop.job().plan())
    shop.job(once=True).run()
    assert shop.content("users", "mail") == [("c@d",)]
    assert sorted(shop.rows(published)) == [("orders",), ("users",)]


def test_a_copy_that_would_take_rows_of_a_table_that_is_left_out_is_refused(shop):
    shop.run(
        "CREATE TABLE older (LIKE orders INCLUDING ALL)", "INSERT INTO older VALUES (0, 'o', 1)"
    )
    more = {"table_mapping": {"orders": "all", "older": "all"}, "once": True}
    shop.job(**more).run()
    less = {**more, "excluding_tables": "older"}
    shop.job(**less).run()
    for name in ("ods.all", f"{shop.name}.public.orders"):
        with pytest.raises(InvalidInputError, match=r"older, or drop 'ods\.all' first") as refused:
            shop.job(**less).resnapshot(name)
        assert refused.value.kind == "cdc_target_shared"
    assert shop.table("all").count() == 101
    tidelake.open(shop.lake).drop_table("ods.all")
    shop.job(**less).resnapshot("ods.all")
    shop.job(**less).run()
    assert shop.table("all").count() == 100


def test_a_table_dropped_while_another_one_joins(shop):
    shop.job(once=True).run()
    shop.run("DROP TABLE users", "CREATE TABLE late (id int PRIMARY KEY)")
    shop.job(once=True).run()
    phases = {one.target: one.phase for one in shop.job().status().tables}
    assert phases == {"ods.orders": "live", "ods.users": "gone", "ods.late": "live"}


@pytest.mark.parametrize(
    "conf",
    [{"bucket": "many"}, {"changelog-producer": "no"}, {"no.such.option": "1", "bucket": "0"}],
)
def test_a_refused_option_leaves_nothing_behind_on_the_source(shop, conf):
    job = shop.job(table_conf=conf, once=True)
    assert not job.plan().can_run
    with pytest.raises(InvalidInputError):
        job.run()
    assert not shop.rows("SELECT 1 FROM pg_replication_slots WHERE database = current_database()")
    assert not shop.rows("SELECT 1 FROM pg_publication")
    assert not (shop.lake / "_cdc").exists()


def test_a_target_that_does_not_fit_is_refused_before_anything_is_made(shop):
    tidelake.open(shop.lake).create_table(
        "ods.users", pa.schema([pa.field("mail", pa.string())]), options={"bucket": "-1"}
    )
    job = shop.job(once=True)
    assert "would be (mail)" in job.plan().tables[1].problem
    with pytest.raises(InvalidInputError, match="does not fit its source") as refused:
        job.run()
    assert refused.value.kind == "cdc_table_differs"
    assert not shop.rows("SELECT 1 FROM pg_replication_slots WHERE database = current_database()")


def test_a_plan_notes_what_the_job_does_by_itself(shop):
    shop.job(once=True).run()
    shop.run("ALTER TABLE users ADD level int NOT NULL DEFAULT 1")
    plan = shop.job().plan()
    assert plan.can_run
    [users] = [table for table in plan.tables if table.target == "ods.users"]
    assert users.problem == ""
    assert "will copy" in users.notes[0]
    assert users.changes
    shop.run("INSERT INTO users VALUES ('a@b', 30, 2)")
    shop.job(once=True).run()
    assert shop.content("users", "mail", "level") == [("a@b", 2)]


@pytest.fixture
def interruptible():
    """A process that a shell has put into the background ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_job_that_is_stopped_says_what_the_slot_holds(
    shop, interruptible, capsys, monkeypatch, number, code
):
    told = []

    def stop(_, done, __):
        told.append(done)
        os.kill(os.getpid(), number)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(cdc_command._EpochLines, "__call__", stop)
    assert main(["cdc", *shop.words()]) == code
    assert signal.getsignal(signal.SIGTERM) is before
    said = capsys.readouterr().err
    slot = shop.conf["slot.name"]
    [confirmed] = shop.rows(f"SELECT confirmed_flush_lsn::text FROM pg_replication_slots"
                            f" WHERE slot_name = '{slot}' AND NOT active")[0]  # fmt: skip
    lines = said.splitlines()
    assert lines[0] == "job ods stopped"
    assert lines[1].startswith(f"    The next run goes on from {told[0].position}")
    assert lines[2] == f"    The slot '{slot}' stays, confirmed to {confirmed}."
    assert re.search(r"It holds [\d,]+ bytes of WAL, and all that is written from now on", said)
    assert "tidelake cdc drop" in said
    statement = said.partition("in PostgreSQL: ")[2].strip()
    shop.run(statement)
    assert not shop.rows(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{slot}'")


def test_a_job_that_is_stopped_while_the_source_is_away_says_so(shop, capsys, monkeypatch):
    def away(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cdc_command._EpochLines, "__call__", away)
    monkeypatch.setattr(Sync, "held", away_from)
    assert main(["cdc", *shop.words()]) == 130
    assert "What the source holds for it is not known: it is away" in capsys.readouterr().err


def away_from(_):
    raise StorageError("it is away", kind="cdc_unreachable")
