"""Rows of the quarantine are applied once they fit, and only if nothing newer was."""

from __future__ import annotations

import itertools

import pyarrow.compute as pc
import pytest
from unit.cdc.job.log_source import name_of

import tidelake
from tidelake.cdc.journal.entry import EntryKind
from tidelake.cdc.journal.journal import REPLAY, FileJournal
from tidelake.cdc.routing.routing import Routing
from tidelake.cdc.target.quarantine import Quarantine
from tidelake.cdc.target.row_maker import AddedColumns
from tidelake.engine.env import Env
from tidelake.engine.tables import Table
from tidelake.testing import FaultMode, FaultyFileIO, SimulatedCrash

_PROCESSES = itertools.count()
SHORT = [("id", "INT NOT NULL"), ("v", "VARCHAR(3)"), ("d", "DATE")]


def another(bench, name):
    """The table, opened by another process."""
    env = Env.seeded(1_000 + next(_PROCESSES))
    return tidelake.open("/lake", fileio=bench.fileio, env=env).table(f"ods.{name}")


def row(number, value, day=None):
    return {"id": number, "v": value, "d": day}


def kept(bench):
    return bench.catalog.table("ods.cdc_quarantine").count()


def content(bench):
    rows = bench.catalog.table("ods.short").to_arrow(columns=["id", "v"]).to_pylist()
    return {one["id"]: one["v"] for one in rows}


def widen(bench):
    another(bench, "short").retype_column("v", "VARCHAR(20)")


def ask(bench):
    FileJournal(bench.fileio, "/lake/_cdc/job", "job").ask([name_of("short")], REPLAY)


@pytest.fixture
def short(bench):
    bench.database.create("short", SHORT)
    bench.run().close()
    return bench


def put(bench, *rows):
    for one in rows:
        bench.database.commit(("short", "put", one))
    bench.run().close()


def replayed(bench):
    """The plan, and the rows that were applied; a second time changes nothing."""
    ask(bench)
    job = bench.job()
    job.start()
    plan = job._lake.replay("cdc-job").plan(job.state)
    done = []
    job.run_once(done.append)
    job.close()
    [one] = [one for one in done if one.kind is EntryKind.REPLAY]
    return plan, one.rows_count


def test_rows_that_fit_now_are_applied_and_leave_the_quarantine(short):
    put(short, row(1, "abc"), row(1, "too long"), row(2, "also long"), row(3, "ok"))
    assert content(short) == {1: "abc", 3: "ok"}
    assert kept(short) == 2
    plan, count = replayed(short)
    assert (count, len(plan.staying), kept(short)) == (0, 2, 2)
    assert "VARCHAR(3)" in plan.staying[0][1]
    widen(short)
    plan, count = replayed(short)
    assert (count, kept(short)) == (2, 0)
    assert content(short) == {1: "too long", 2: "also long", 3: "ok"}
    assert short.run().state.quarantined_count == 0


def test_a_newer_row_of_the_key_wins(short):
    put(short, row(1, "too long"), row(2, "too long"), row(1, "new"))
    widen(short)
    plan, count = replayed(short)
    [outdated] = plan.outdated
    assert '"id": 1' in outdated.payload
    assert (count, kept(short)) == (1, 0)
    assert content(short) == {1: "new", 2: "too long"}


def test_a_row_whose_key_was_mended_leaves_whether_it_fits_or_not(short):
    put(short, row(1, "too long"), row(2, "too long"), row(3, "too long"))
    put(short, row(1, "new"), row(3, "x"))
    short.database.commit(("short", "delete", (3,)))
    short.run().close()
    plan, count = replayed(short)
    assert [one.payload[:8] for one in plan.outdated] == ['{"id": 1', '{"id": 3']
    assert ["VARCHAR(3)" in why for _, why in plan.staying] == [True]
    assert (count, kept(short)) == (0, 1)
    assert content(short) == {1: "new"}
    widen(short)
    assert replayed(short)[1] == 1
    assert content(short) == {1: "new", 2: "too long"}


def test_a_replay_reads_what_was_written_under_its_keys_alone(short, monkeypatch):
    put(short, row(500, "too long"))
    for first in range(0, 500, 100):
        put(short, *(row(number, "n") for number in range(first, first + 20)))
    seen = []
    read = Table.changes_batches

    def counted(table, *given, **more):
        found = read(table, *given, **more).read_all()
        seen.append(found.num_rows)
        return found.to_reader()

    monkeypatch.setattr(Table, "changes_batches", counted)
    widen(short)
    assert replayed(short)[1] == 1
    assert set(seen) == {0}
    assert content(short)[500] == "too long"


def test_a_row_that_was_deleted_later_does_not_come_back(short):
    put(short, row(1, "abc"))
    put(short, row(1, "too long"), row(2, "too long"))
    short.database.commit(("short", "delete", (1,)), ("short", "delete", (2,)))
    short.run().close()
    another(short, "short").compact(full=True)
    widen(short)
    plan, count = replayed(short)
    assert (count, len(plan.outdated), kept(short)) == (0, 2, 0)
    assert content(short) == {}


def test_a_delete_that_was_left_out_comes_in_its_turn(short):
    put(short, row(1, "abc"))
    put(short, row(1, "too long"), row(2, "too long"))
    # as an older version left deletes out by values beside their key
    file = another(short, "cdc_quarantine")
    rows = file.to_arrow()
    late = rows.filter(pc.equal(rows["lsn"], 1)).to_pylist()
    file.append([late[0] | {"kind": "-D", "lsn": 5, "payload": '{"id": 1, "v": "too long"}'}])
    plan, count = replayed(short)  # nothing fits yet, but a delete needs its key alone
    assert [one.kind for one in plan.fitting] == ["-D"]
    assert (count, kept(short)) == (1, 2)
    assert content(short) == {}
    widen(short)
    plan, count = replayed(short)
    assert (count, kept(short)) == (1, 0)
    assert [one.order[0] for one in plan.outdated] == [1]
    assert content(short) == {2: "too long"}


def test_a_delete_that_stays_holds_the_rows_before_it(short):
    put(short, row(1, "too long"), row(2, "too long"))
    file = another(short, "cdc_quarantine")
    one = file.to_arrow().to_pylist()[0]
    file.append([one | {"kind": "-D", "lsn": 5, "payload": '{"v": "too long"}'}])
    widen(short)
    plan, count = replayed(short)
    assert (count, kept(short)) == (0, 3)
    assert "later delete" in plan.staying[-1][1]
    assert any("key is not known" in why or "'id'" in why for _, why in plan.staying)


def test_a_delete_that_may_have_expired_keeps_the_row(short):
    put(short, row(1, "too long"))
    for number in range(5):
        put(short, row(9, f"n{number}"))
    another(short, "short").maintenance.expire_snapshots(retain_max=2, retain_min=1)
    widen(short)
    plan, count = replayed(short)
    assert (count, kept(short)) == (0, 1)
    assert "have expired" in plan.staying[0][1]


@pytest.mark.parametrize("conf", [{}, {"changelog-producer": "lookup"}])
def test_a_row_of_before_a_truncation_does_not_come_back(short, conf):
    short.settings["options"] = {**short.settings.get("options", {}), "table_conf": conf}
    put(short, row(1, "abc"), row(1, "too long"), row(2, "too long"))
    short.database.commit(("short", "truncate"))
    short.run().close()
    widen(short)
    plan, count = replayed(short)
    assert (count, len(plan.outdated), kept(short)) == (0, 2, 0)
    assert short.catalog.table("ods.short").count() == 0


def test_an_expiry_of_partitions_holds_the_rows_of_those_alone(bench):
    routing = Routing("ods", partition_keys=("day",))
    bench.settings = {"routing": routing, "options": {"is_strict": False}}
    columns = [("day", "STRING NOT NULL"), ("id", "INT NOT NULL"), ("v", "VARCHAR(3)")]
    bench.database.create("short", columns, keys=("day", "id"))
    bench.run().close()
    old, new = "2001-01-01", "9999-01-01"
    put(bench, *({"day": day, "id": 1, "v": "abc"} for day in (old, new)))
    late = [{"day": day, "id": 2, "v": "too long"} for day in (old, new, "8888-01-01")]
    put(bench, *late, {"day": new, "id": 3, "v": "abc"})
    dropped = another(bench, "short").maintenance.expire_partitions(
        expiration_time="1 d", timestamp_formatter="yyyy-MM-dd"
    )
    assert [one.values for one in dropped.partitions] == [{"day": old}]
    widen(bench)
    plan, count = replayed(bench)
    assert (count, kept(bench)) == (2, 1)
    [(row_, reason)] = plan.staying
    assert old in row_.payload
    assert reason == "the table was emptied or replaced since"
    assert content(bench) == {1: "abc", 2: "too long", 3: "abc"}


def test_without_order_columns_nothing_is_applied(bench):
    bench.settings = {"columns": AddedColumns(has_order=False), "options": {"order": ()}}
    bench.database.create("short", SHORT)
    bench.run().close()
    put(bench, row(1, "too long"))
    widen(bench)
    plan, count = replayed(bench)
    assert (count, kept(bench)) == (0, 1)
    assert "no primary key with the order columns" in plan.staying[0][1]


def test_two_rows_of_a_key_are_applied_in_order(short):
    put(short, row(1, "too long"), row(1, "longer yet"))
    widen(short)
    assert replayed(short)[1] == 2
    assert content(short) == {1: "longer yet"}


def test_a_running_job_takes_the_request_up(short):
    put(short, row(1, "too long"))
    widen(short)
    job = short.job()
    job.start()
    ask(short)
    job._asked_ms = -1e9
    assert job.step().kind is EntryKind.REPLAY
    assert job.step() is None
    short.database.commit(("short", "put", row(1, "x")))
    job.run_once()
    job.close()
    assert content(short) == {1: "x"}


def test_a_row_is_older_than_a_copy_that_came_later(short):
    put(short, row(1, "too long"))
    short.database.rows[name_of("short")].clear()  # a delete that the log does not have
    short.database.commit(("items", "put", {"id": 1, "name": "n", "price": None}))
    FileJournal(short.fileio, "/lake/_cdc/job", "job").ask([name_of("short")])
    short.run().close()
    widen(short)
    plan, count = replayed(short)
    assert (count, len(plan.outdated), kept(short)) == (0, 1, 0)
    assert content(short) == {}


def test_rows_that_were_applied_before_a_crash_are_not_written_again(short, monkeypatch):
    put(short, row(1, "too long"), row(2, "also long"))
    widen(short)
    ask(short)

    def crashes(*_):
        raise SimulatedCrash

    with monkeypatch.context() as patched:
        patched.setattr(Quarantine, "remove", crashes)
        job = short.job()
        job.start()
        with pytest.raises(SimulatedCrash):
            job.run_once()
    assert content(short) == {1: "too long", 2: "also long"}
    assert kept(short) == 2
    snapshot = short.catalog.table("ods.short").latest_snapshot_id
    plan, count = replayed(short)
    assert (count, len(plan.outdated), kept(short)) == (0, 2, 0)
    assert short.catalog.table("ods.short").latest_snapshot_id == snapshot


@pytest.mark.parametrize("call", range(1, 120, 4))
def test_a_crash_at_any_moment_loses_and_doubles_nothing(short, call):
    put(short, row(1, "too long"), row(2, "also long"), row(2, "ok"))
    widen(short)
    ask(short)
    files = FaultyFileIO(short.fileio, {call: FaultMode.CRASH_AFTER})
    job = short.job(fileio=files)
    try:
        job.start()
        job.run_once()
    except SimulatedCrash:
        pass
    short.run().close()
    assert content(short) == {1: "too long", 2: "ok"}
    assert kept(short) == 0
    for number in (1, 2):  # starts that find the replay's commit the newest of its table
        short.database.commit(("items", "put", {"id": number, "name": "x", "price": 1}))
        short.run().close()
    assert short.job()._journal.load().state.quarantined_count == 0
    history = short.catalog.table("ods.short").system_table("snapshots").to_arrow().to_pylist()
    epochs = [one["commit_identifier"] for one in history if one["commit_user"] == "cdc-job"]
    assert len(epochs) == len(set(epochs))


def test_rows_that_violate_a_constraint_wait_in_the_quarantine(short):
    table = short.catalog.table("ods.short")
    table.set_options({"constraint.known": "v IN ('a', 'b')"})
    put(short, row(1, "a"), row(2, "z"), row(3, "y"), row(3, "b"))
    assert content(short) == {1: "a", 3: "b"}
    reasons = short.catalog.table("ods.cdc_quarantine").to_arrow()["reason"].to_pylist()
    assert [text[:32] for text in reasons] == ["it violates the constraint 'know"] * 2
    FileJournal(short.fileio, "/lake/_cdc/job", "job").ask([name_of("short")])
    short.run().close()  # the copy, too, leaves the row out
    assert content(short) == {1: "a", 3: "b"}
    assert kept(short) == 3
    plan, count = replayed(short)
    assert (count, [why[:11] for _, why in plan.staying], kept(short)) == (0, ["it violates"], 1)
    short.catalog.table("ods.short").reset_options(["constraint.known"])
    plan, count = replayed(short)
    assert (count, kept(short)) == (1, 0)
    assert content(short) == {1: "a", 2: "z", 3: "b"}
