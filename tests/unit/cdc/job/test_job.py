"""A job keeps tables equal to their source, whatever comes between."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from unittest import mock

import pytest
from unit.cdc.job.conftest import ITEMS
from unit.cdc.job.log_source import LogSource, name_of

from tidelake.cdc.evolution.plan import Policy
from tidelake.cdc.job.lake import LakeWriter
from tidelake.cdc.journal.job_state import Phase
from tidelake.cdc.journal.journal import FileJournal
from tidelake.cdc.routing.routing import Routing
from tidelake.cdc.routing.table_names import TableNames
from tidelake.cdc.source.changes import Rejected
from tidelake.cdc.target.target import Target
from tidelake.errors import (
    ConflictError,
    CorruptError,
    InvalidInputError,
    NotFoundError,
    StorageRefusedError,
    TidelakeError,
)
from tidelake.fileio import MemoryFileIO
from tidelake.testing import SimulatedCrash

JOURNAL = "/lake/_cdc/job"


def item(number, name="n", price=None):
    return {"id": number, "name": name, "price": price and Decimal(price)}


def test_a_new_job_copies_and_then_follows(bench):
    bench.database.commit(("items", "put", item(1, price="1.50")), ("items", "put", item(2)))
    job = bench.job()
    assert job.start().rows_count == 2
    bench.check()
    bench.database.commit(("items", "delete", (1,)), ("orders", "put", {"id": 7, "item": 2}))
    bench.database.commit(("items", "move", (2,), item(3, "moved")))
    job.run_once()
    bench.check()
    assert job.state.tables[name_of("items")].rows_count == 5


def test_a_job_may_begin_without_a_copy_and_keeps_the_rows_of_its_targets(bench):
    bench.database.commit(("items", "put", item(1)))
    bench.run().close()
    bench.fileio.delete_dir(JOURNAL)
    rows = bench.database.rows[name_of("items")]
    bench.database.log.append([])
    start = f"{len(bench.database.log)}:0"

    def fails(moment):
        if moment == "prepare":
            raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        bench.run(fails, name="other", starts_at=start)
    bench.database.commit(("items", "put", item(2)))
    job = bench.run(name="other", starts_at=start)
    bench.check()
    assert job.state.tables[name_of("items")].rows_count == 1
    assert len(rows) == 2
    bench.database.commit(("items", "delete", (1,)))
    bench.run(name="other", starts_at="0:0")
    bench.check()


def test_a_job_goes_on_after_a_restart(bench):
    bench.run().close()
    bench.database.commit(("items", "put", item(1)))
    again = bench.run()
    bench.check()
    assert again.state.tables[name_of("items")].copies_count == 1


def test_positions_are_confirmed_when_the_next_epoch_begins(bench):
    job = bench.run()
    bench.confirmed.clear()
    bench.database.commit(("items", "put", item(1)))
    job.run_once()
    assert bench.confirmed == ["0:0"]
    job.close()
    assert bench.confirmed == ["0:0", "1:0"]


def test_a_log_without_changes_for_the_job_is_read_on_from_where_it_was_read(bench, monkeypatch):
    job = bench.run()
    starts = []
    read = LogSource.read

    def recorded(source, start, *args, **more):
        starts.append(start)
        return read(source, start, *args, **more)

    monkeypatch.setattr(LogSource, "read", recorded)
    for _ in range(2):
        bench.database.commit()
        assert job.step() is None
    assert job.position == "0:0"
    bench.database.commit(("items", "put", item(1)))
    assert job.step().rows_count == 1
    assert starts == ["0:0", "1:0", "2:0"]
    bench.run()  # the epoch comes again, from its own start
    assert starts[3] == "0:0"
    bench.check()


def test_a_run_that_is_refused_leaves_the_other_one_alone(bench):
    job = bench.run()

    def in_use(moment):
        if moment == "read":
            raise ConflictError("Another reader holds the slot.", kind="cdc_position_in_use")

    second = bench.job(in_use)
    second.start()
    bench.database.commit(("items", "put", item(1)))
    with pytest.raises(ConflictError):
        second.run_once()
    second.close()
    job.run_once()
    job.close()
    bench.check()


def test_a_large_transaction_is_cut(bench):
    job = bench.run(rows_max=10)
    bench.database.commit(*[("items", "put", item(n)) for n in range(35)])
    epochs = []
    job.run_once(epochs.append)
    assert [one.rows_count for one in epochs] == [10, 10, 10, 5]
    bench.check()


def test_a_column_that_is_added_comes_with_its_rows(bench):
    bench.database.commit(("items", "put", item(1)))
    job = bench.run()
    bench.database.alter("items", [*ITEMS, ("extra", "BIGINT")])
    bench.database.commit(("items", "put", item(2) | {"extra": 5}))
    bench.database.commit(("items", "put", item(1) | {"extra": 6}))
    job.run_once()
    bench.check()
    assert job.state.tables[name_of("items")].copies_count == 1


def test_two_versions_of_a_table_in_one_epoch(bench):
    job = bench.run()
    bench.database.commit(("items", "put", item(1)))
    bench.database.alter("items", [*ITEMS, ("extra", "BIGINT")])
    bench.database.commit(("items", "put", item(2) | {"extra": 5}))
    job.run_once()
    bench.check()
    assert bench.catalog.table("ods.items").latest_snapshot_id == 2


def test_a_type_that_widens(bench):
    bench.database.commit(("orders", "put", {"id": 1, "item": 1}))
    job = bench.run()
    bench.database.alter("orders", [("id", "BIGINT NOT NULL"), ("item", "BIGINT")])
    bench.database.commit(("orders", "put", {"id": 2, "item": 1 << 40}))
    job.run_once()
    bench.check()


def test_a_table_that_cannot_follow_is_suspended_and_the_others_go_on(bench):
    bench.database.commit(("items", "put", item(1)), ("orders", "put", {"id": 1, "item": 1}))
    job = bench.run()
    bench.database.alter("orders", [("id", "BIGINT NOT NULL"), ("item", "BOOLEAN")])
    bench.database.commit(("orders", "put", {"id": 2, "item": True}), ("items", "put", item(2)))
    job.run_once()
    assert bench.content("items") == bench.database.rows[name_of("items")]
    orders = job.state.tables[name_of("orders")]
    assert orders.phase is Phase.SUSPENDED
    assert "does not convert" in orders.reason
    assert bench.catalog.table("ods.orders").to_arrow(columns=["item"]).to_pylist() == [{"item": 1}]


def test_a_strict_job_follows_no_change(bench):
    bench.settings["policy"] = Policy.STRICT
    job = bench.run()
    bench.database.alter("items", [*ITEMS, ("extra", "BIGINT")])
    bench.database.commit(("items", "put", item(2) | {"extra": 5}))
    job.run_once()
    assert job.state.tables[name_of("items")].phase is Phase.SUSPENDED


def test_a_truncation_has_an_epoch_of_its_own(bench):
    bench.database.commit(("items", "put", item(1)))
    job = bench.run()
    bench.database.commit(
        ("items", "put", item(2)), ("items", "truncate"), ("items", "put", item(3))
    )
    job.run_once()
    bench.check()


def test_a_table_that_must_be_read_again_is_copied(bench):
    bench.database.commit(("items", "put", item(1)))
    job = bench.run()
    bench.database.rows[name_of("items")][(1,)]["name"] = "changed without an event"
    bench.database.commit(("items", "reread"), ("orders", "put", {"id": 1, "item": 1}))
    bench.database.commit(("items", "put", item(9)))
    job.run_once()
    bench.check()
    assert job.state.tables[name_of("items")].copies_count == 2
    assert job.state.tables[name_of("orders")].copies_count == 1


def test_a_truncation_before_a_copy_does_not_empty_it(bench):
    bench.database.commit(("items", "put", item(1)))
    job = bench.run()
    bench.database.commit(("items", "reread"))
    job.step()
    bench.database.commit(("items", "truncate"))
    bench.database.commit(("items", "put", item(2)))
    job.run_once()
    bench.check()


def test_a_copy_that_is_disturbed_begins_anew(bench):
    tries = []
    bench.database.commit(("items", "put", item(9)))

    def fails(moment):
        if moment == "chunk" and len(tries) < 2:
            tries.append(moment)
            bench.database.commit(("items", "put", item(len(tries))))
            raise ConflictError("It was truncated.", kind="cdc_copy_disturbed")

    job = bench.run(fails)
    bench.check()
    assert len(tries) == 2
    assert job.state.tables[name_of("items")].copies_count == 1


def test_a_column_that_came_as_the_copy_began_is_in_the_copy(bench):
    bench.database.commit(("items", "put", item(1)))

    def fails(moment):
        if moment == "copy" and len(bench.database.versions[name_of("items")].columns) == 3:
            bench.database.alter("items", [*ITEMS, ("size", "INT")])
            bench.database.commit(("items", "put", {**item(2), "size": 5}))

    job = bench.run(fails)
    assert bench.content("items")[(2,)]["size"] == 5
    bench.check()
    assert job.state.tables[name_of("items")].copies_count == 1


def test_a_copy_that_is_always_disturbed_is_an_error(bench):
    bench.database.commit(("items", "put", item(9)))

    def fails(moment):
        if moment == "chunk":
            raise ConflictError("It was truncated.", kind="cdc_copy_disturbed")

    with pytest.raises(ConflictError, match="truncated"):
        bench.run(fails)


def test_a_journal_of_before_a_copy_does_not_take_another_copy_for_its_own(bench):
    bench.database.commit(("items", "put", item(1)))

    def fails(moment):
        if moment == "chunk":
            raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        bench.run(fails)
    before = journal_of(bench)
    bench.run()
    bench.database.commit(("items", "put", item(2)), ("items", "delete", (1,)))
    put_back(bench, before)
    with pytest.raises(InvalidInputError) as caught:
        bench.run()
    assert caught.value.kind == "checkpoint_behind"


def journal_of(bench):
    names = [f"{JOURNAL}/{one.name}" for one in bench.fileio.list_dir(JOURNAL)]
    return {name: bench.fileio.read_bytes(name) for name in names}


def put_back(bench, files):
    bench.fileio.delete_dir(JOURNAL)
    bench.fileio.make_dirs(JOURNAL)
    for path, data in files.items():
        bench.fileio.put_if_absent(path, data)


def test_a_journal_that_lacks_an_epoch_which_some_tables_have_is_refused(bench):
    bench.database.create("events", [("n", "INT NOT NULL")], keys=())
    bench.run().close()
    before = journal_of(bench)
    commit = Target.commit

    def crashes(self, *given):
        if self.identifier == "ods.items":
            raise SimulatedCrash
        return commit(self, *given)

    bench.database.commit(("items", "put", item(1)))
    bench.database.commit(("events", "put", {"n": 1}))
    with mock.patch.object(Target, "commit", crashes), pytest.raises(SimulatedCrash):
        bench.run()
    assert bench.catalog.table("ods.events").count() == 1
    newest = journal_of(bench)
    put_back(bench, before)
    bench.database.forgotten = 0  # as a log that keeps all
    # its next epoch would have items alone, and the one after it the events a second time
    with pytest.raises(InvalidInputError, match=r"older than the tables\. 'ods.events'") as caught:
        bench.run(rows_max=1)
    assert caught.value.kind == "checkpoint_behind"
    assert bench.catalog.table("ods.items").count() == 0
    put_back(bench, newest)
    bench.run(rows_max=1)
    bench.check()


def test_a_journal_of_before_a_table_joined_is_refused(bench):
    bench.run().close()
    before = journal_of(bench)
    bench.database.create("late", ITEMS)
    bench.database.commit(("late", "put", item(1)))
    bench.run().close()
    put_back(bench, before)
    bench.database.forgotten = 0
    bench.database.commit(("items", "put", item(1)))
    with pytest.raises(InvalidInputError, match=r"older than the tables\. 'ods.late'") as caught:
        bench.run()
    assert caught.value.kind == "checkpoint_behind"
    assert bench.catalog.table("ods.items").count() == 0


def test_a_journal_whose_last_epoch_was_only_begun_goes_on(bench):
    bench.run().close()
    before = journal_of(bench)
    bench.database.commit(("items", "put", item(1)), ("orders", "put", {"id": 1, "item": 1}))
    with mock.patch.object(Target, "commit", raises_crash), pytest.raises(SimulatedCrash):
        bench.run()
    put_back(bench, before)
    bench.database.forgotten = 0
    bench.run(rows_max=1)
    bench.check()


def raises_crash(*_):
    raise SimulatedCrash


def test_an_epoch_that_comes_again_ends_where_it_ended(bench, monkeypatch):
    bench.database.commit(("items", "put", item(1)))
    bench.run().close()
    bench.database.commit(("items", "put", item(2)))
    with mock.patch.object(Target, "commit", raises_crash), pytest.raises(SimulatedCrash):
        bench.run()
    read = LogSource.read
    bench.database.log.append([])

    def too_far(self, start, tables, limits, **more):
        return replace(read(self, start, tables, limits, **more), end=self.newest())

    monkeypatch.setattr(LogSource, "read", too_far)
    with pytest.raises(CorruptError, match="where it ended at"):
        bench.run()


def test_a_table_without_a_key_takes_new_rows_and_is_suspended_by_others(bench):
    bench.database.create("events", [("n", "INT NOT NULL")], keys=())
    put = [("events", "put", {"n": n}) for n in (1, 1, 2)]
    bench.database.commit(("items", "put", item(1)), *put)
    bench.run()
    bench.database.commit(put[0])
    bench.run()
    found = bench.catalog.table("ods.events").to_arrow(columns=["n"]).to_pylist()
    assert sorted(row["n"] for row in found) == [1, 1, 1, 2]
    [first, *_] = bench.database.rows[name_of("events")]
    bench.database.commit(("events", "delete", first), ("items", "put", item(2)))
    job = bench.run()
    events = job.state.tables[name_of("events")]
    assert (events.phase, events.reason[:21]) == (Phase.SUSPENDED, "it has no key, and ro")
    assert set(bench.content("items")) == {(1,), (2,)}


@pytest.mark.parametrize("producer", ["input", "lookup", "full-compaction"])
def test_a_copy_replaces_rows_of_a_log_that_began_anew(bench, producer):
    bench.settings["options"] = {"table_conf": {"changelog-producer": producer, "bucket": "1"}}
    for number in range(4):
        bench.database.commit(("items", "put", item(number)))
    bench.run().close()
    bench.database.commit(("items", "put", item(2, "late")))
    bench.run().close()
    bench.database.log.clear()  # as by RESET MASTER
    bench.database.forgotten = 100
    del bench.database.rows[name_of("items")][(3,)]
    job = bench.job(resnapshots_if_lost=True)
    job.start()
    job.step()
    bench.check()
    bench.database.forgotten = 0
    bench.database.commit(("items", "put", item(1, "new")), ("items", "delete", (0,)))
    job.run_once()
    bench.check()


def test_a_copy_replaces_rows_that_a_column_of_the_users_orders(bench):
    conf = {"changelog-producer": "lookup", "sequence.field": "price"}
    bench.settings["options"] = {"table_conf": conf}
    bench.database.hidden.add(name_of("orders"))
    bench.database.commit(("items", "put", item(1, price="5")))
    bench.run().close()
    bench.database.rows[name_of("items")][(1,)]["price"] = Decimal(3)
    FileJournal(bench.fileio, JOURNAL, "job").ask([name_of("items")])
    bench.run()
    assert bench.content("items")[1,]["price"] == 3


def test_a_table_that_is_dropped_during_a_first_copy_does_not_stop_the_job_later(bench):
    commit = LakeWriter._copy_target

    def crashes(self, copy, identifier, *given):
        if identifier == "ods.orders":
            raise SimulatedCrash
        return commit(self, copy, identifier, *given)

    bench.database.commit(("items", "put", item(1)), ("orders", "put", {"id": 1, "item": 1}))
    with mock.patch.object(LakeWriter, "_copy_target", crashes), pytest.raises(SimulatedCrash):
        bench.run()
    del bench.database.versions[name_of("items")]
    del bench.database.rows[name_of("items")]
    for _ in range(3):
        bench.run().close()
        bench.database.commit(("orders", "put", {"id": 2, "item": 1}))
    assert bench.content("orders").keys() == {(1,), (2,)}


def test_a_target_that_was_dropped_is_made_again_when_it_is_asked_for(bench):
    bench.database.commit(("items", "put", item(1)), ("orders", "put", {"id": 1, "item": 1}))
    bench.run().close()
    bench.catalog.drop_table("ods.items")
    bench.database.commit(("items", "put", item(2)), ("orders", "put", {"id": 2, "item": 1}))
    job = bench.run()
    assert job.state.tables[name_of("items")].phase is Phase.SUSPENDED
    assert bench.content("orders").keys() == {(1,), (2,)}
    job.close()
    FileJournal(bench.fileio, JOURNAL, "job").ask([name_of("items")])
    bench.run().close()
    bench.check()


def test_a_job_that_was_dropped_may_begin_anew_under_its_name(bench):
    bench.database.commit(("items", "put", item(1)))
    bench.run().close()
    for number in (2, 3):
        FileJournal(bench.fileio, JOURNAL, "job").remove()
        bench.database.commit(("items", "put", item(number)))
        bench.run().close()
        bench.check()


def test_a_new_table_joins(bench):
    job = bench.run()
    bench.database.create("users", [("id", "INT NOT NULL"), ("mail", "STRING")])
    bench.database.commit(("users", "put", {"id": 1, "mail": "a"}), ("items", "put", item(1)))
    again = bench.run()
    again._looked_ms = -(10**9)
    again.step()
    again.run_once()
    bench.check()
    bench.database.commit(("users", "put", {"id": 2, "mail": "b"}))
    again.run_once()
    bench.check()
    del job


def test_an_epoch_that_an_error_cut_off_is_not_done_at_the_close(bench):
    bench.database.create("events", [("n", "INT NOT NULL")], keys=())
    bench.run().close()
    bench.database.commit(("events", "put", {"n": 1}), ("orders", "put", {"id": 1, "item": 1}))
    calls = []

    class Full(MemoryFileIO):
        """A storage that is full when the second target of the epoch is committed."""

        def put_if_absent(self, path, data, **given):
            calls.append(path)
            if "/orders/snapshot/" in path:
                raise StorageRefusedError("The disk is full.", kind="storage_full")
            return bench.fileio.put_if_absent(path, data, **given)

        def __getattribute__(self, name):
            own = ("put_if_absent", "__class__", "__dict__")
            return object.__getattribute__(self if name in own else bench.fileio, name)

    job = bench.job(fileio=Full())
    job.start()
    with pytest.raises(TidelakeError):
        job.run_once()
    job.close()
    bench.run().close()
    bench.check()


def test_a_table_is_copied_again_when_it_is_asked_for(bench):
    bench.database.commit(("items", "put", item(1)))
    job = bench.run()
    journal = FileJournal(bench.fileio, "/lake/_cdc/job", "job")
    bench.database.rows[name_of("items")][(1,)]["name"] = "changed behind the log"
    journal.ask([name_of("items")])
    assert job.step() is None  # it looks every few seconds
    again = bench.run()
    bench.check()
    assert again.state.tables[name_of("items")].copies_count == 2
    assert not journal.asked()


def test_another_source_is_refused(bench):
    bench.run()
    bench.database.identity = "8"
    with pytest.raises(InvalidInputError, match="restored, promoted or replaced") as caught:
        bench.run()
    assert caught.value.kind == "cdc_source_changed"


def test_a_lost_position_is_an_error_unless_asked(bench):
    bench.database.commit(("items", "put", item(1)))
    bench.run().close()
    bench.database.commit(("items", "delete", (1,)), ("items", "put", item(2)))
    bench.database.forgotten = 2
    with pytest.raises(NotFoundError, match="log is gone"):
        bench.run()
    job = bench.run(resnapshots_if_lost=True)
    job.run_once()
    bench.check()
    assert job.state.tables[name_of("items")].copies_count == 2


def test_a_target_that_is_rolled_back_stops_the_job(bench):
    bench.database.commit(("items", "put", item(1)))
    job = bench.run()
    bench.database.commit(("items", "put", item(2)))
    job.run_once()
    bench.catalog.table("ods.items").rollback_to(1)
    bench.database.commit(("items", "put", item(3)))
    with pytest.raises(InvalidInputError) as caught:
        job.run_once()
    assert caught.value.kind == "target_rolled_back"


def test_a_source_without_tables_is_refused(bench):
    bench.database.versions.clear()
    with pytest.raises(InvalidInputError, match="no table that the job takes"):
        bench.run()


def test_a_row_that_does_not_fit_is_kept_under_the_name_of_its_own_table(bench):
    bench.settings["routing"] = Routing("ods", "all", names=TableNames())
    bench.database.versions.clear()
    for table in ("one", "two"):
        bench.database.create(table, [("id", "INT NOT NULL"), ("v", "VARCHAR(3)")])
    job = bench.run(options={"table_conf": {}})
    bench.database.commit(("two", "put", {"id": 1, "v": "fits"[:3]}))
    bench.database.commit(("one", "put", {"id": 2, "v": "too long"}))
    bench.database.commit(("two", "put", {"id": 3, "v": "b"}), ("one", "put", {"id": 4, "v": "a"}))
    job.run_once()
    assert sorted(bench.catalog.table("ods.all").to_arrow()["id"].to_pylist()) == [1, 3, 4]
    [kept] = bench.catalog.table("ods.cdc_quarantine").to_arrow().to_pylist()
    assert (kept["source_table"], kept["lsn"], kept["kind"]) == ("shop.one", 1, "+U")
    assert "too long" in kept["payload"]
    assert job.state.quarantined_count == 1


def test_a_full_quarantine_stops_the_job_before_the_epoch(bench):
    bench.database.create("short", [("id", "INT NOT NULL"), ("v", "VARCHAR(3)")])
    job = bench.run(quarantine_max=1)
    bench.database.commit(
        ("short", "put", {"id": 1, "v": "too long"}), ("short", "put", {"id": 2, "v": "also long"})
    )
    with pytest.raises(InvalidInputError, match="2 rows fit nowhere") as caught:
        job.run_once()
    assert caught.value.kind == "cdc_quarantine_full"
    assert bench.catalog.table("ods.short").count() == 0
    bench.run(quarantine_max=2)
    assert bench.catalog.table("ods.cdc_quarantine").count() == 2


@pytest.mark.parametrize("rows_before", [0, 3])
def test_a_table_that_shows_with_its_first_row_loses_none(bench, rows_before):
    bench.database.hidden.add(name_of("orders"))
    job = bench.run()
    for number in range(rows_before):
        bench.database.commit(("items", "put", item(number)))
    bench.database.keeps_rows = True
    rows = bench.database.rows[name_of("orders")]
    bench.database.commit(("orders", "put", {"id": 1, "item": 2}), ("items", "put", item(9)))
    bench.database.rows[name_of("orders")] = {}  # nothing to copy: the row is in the log alone
    job.step()
    job.run_once()
    bench.database.rows[name_of("orders")] = rows
    bench.check()


def test_a_table_that_shows_while_the_job_runs_may_wait_for_its_next_start(bench):
    bench.database.hidden.add(name_of("orders"))
    job = bench.run(takes_new_tables=False)
    bench.database.commit(("orders", "put", {"id": 1, "item": 2}), ("items", "put", item(9)))
    job.run_once()
    assert name_of("orders") not in job.state.tables
    assert bench.content("items") == bench.database.rows[name_of("items")]
    job.close()
    bench.run(takes_new_tables=False)  # the next start looks
    bench.check()


def test_rows_stay_where_a_source_has_only_a_log(bench):
    bench.database.commit(("items", "put", item(1)))
    bench.run(resnapshots_if_lost=True)
    bench.database.keeps_rows = True
    bench.database.rows[name_of("items")] = {}
    bench.database.log.append([])
    bench.database.forgotten = 2
    bench.run(resnapshots_if_lost=True)
    assert list(bench.content("items")) == [(1,)]


@pytest.mark.parametrize("asked", [False, True])
def test_tables_that_share_a_target_are_copied_together(bench, asked):
    bench.settings["routing"] = Routing("ods", "all", names=TableNames())
    bench.database.versions.clear()
    for table in ("one", "two"):
        bench.database.create(table, [("id", "INT NOT NULL"), ("v", "STRING")])
    bench.database.commit(("one", "put", {"id": 1, "v": "a"}), ("two", "put", {"id": 2, "v": "b"}))
    bench.database.commit(("one", "put", {"id": 3, "v": "c"}))
    job = bench.run()
    del bench.database.rows[name_of("one")][(3,)]  # gone without an event
    if asked:
        FileJournal(bench.fileio, "/lake/_cdc/job", "job").ask([name_of("one")])
        job = bench.run()
    else:
        bench.database.commit(("one", "reread"), ("two", "put", {"id": 4, "v": "d"}))
        job.run_once()
    found = bench.catalog.table("ods.all").to_arrow(columns=["id"])["id"].to_pylist()
    assert sorted(found) == ([1, 2] if asked else [1, 2, 4])
    assert {one.copies_count for one in job.state.tables.values()} == {2}


def test_a_large_table_is_suspended_in_place_of_copied_by_itself(bench):
    bench.database.commit(*[("items", "put", item(n)) for n in range(5)])
    job = bench.run(reread_max=4)
    bench.database.commit(("items", "reread"), ("orders", "put", {"id": 1, "item": 1}))
    bench.database.commit(("items", "put", item(9)))
    job.run_once()
    items = job.state.tables[name_of("items")]
    assert (items.phase, items.copies_count) == (Phase.SUSPENDED, 1)
    assert "about 6 rows, more than --reread-max" in items.reason
    assert bench.content("orders") == bench.database.rows[name_of("orders")]
    job.close()
    FileJournal(bench.fileio, "/lake/_cdc/job", "job").ask([name_of("items")])
    job = bench.run(reread_max=4)
    bench.check()
    assert job.state.tables[name_of("items")].phase is Phase.LIVE


def test_what_came_while_an_epoch_was_applied_counts_as_gathered(bench, monkeypatch):
    job = bench.job()
    job.start()
    clock, asked = job._env.clock, []
    read, apply = LogSource.read, job._lake.apply

    def seen(source, start, tables, limits, **more):
        asked.append(limits.gather_ms)
        return read(source, start, tables, limits, **more)

    def slowly(*arguments):
        clock.sleep_ms(300)
        return apply(*arguments)

    monkeypatch.setattr(LogSource, "read", seen)
    monkeypatch.setattr(job._lake, "apply", slowly)
    job.step(wait_ms=0)
    for number in range(2):
        bench.database.commit(("items", "put", item(number)))
        job.step()
    job.step()
    assert [round(ms, -2) for ms in asked[1:]] == [1_000, 700, 700]


def test_a_copy_with_too_many_misfits_is_refused_before_its_commit(bench):
    bench.run().close()
    bench.database.commit(*[("items", "put", item(n, price="1.50")) for n in range(3)])
    job = bench.job(quarantine_max=1)
    maker = type(job._lake.targets.maker(bench.database.versions[name_of("items")]))
    copied = maker.copied

    def odd(self, rows, order, now_ms):
        made, rejected = copied(self, rows, order, now_ms)
        bad = [Rejected(name_of("items"), order, 0, "it is odd", "{}")] * made.num_rows
        return made.slice(0, 0), [*rejected, *bad]

    FileJournal(bench.fileio, JOURNAL, "job").ask([name_of("items")])
    newest = bench.catalog.table("ods.items").latest_snapshot_id
    job.start()
    with mock.patch.object(maker, "copied", odd), pytest.raises(InvalidInputError) as refused:
        job.run_once()
    assert refused.value.kind == "cdc_quarantine_full"
    assert "Its copy was not put in place" in refused.value.message
    assert bench.catalog.table("ods.items").latest_snapshot_id == newest
    assert not bench.catalog.table_exists("ods.cdc_quarantine")


def test_a_source_that_ends_before_the_position_is_refused_at_the_start(bench):
    bench.database.commit(("items", "put", item(1)))
    bench.database.commit(("items", "put", item(2)))
    bench.run().close()
    bench.database.log.pop()  # it was restored
    with pytest.raises(NotFoundError) as refused:
        bench.run()
    assert refused.value.kind == "cdc_position_lost"
    bench.database.rows[name_of("items")].pop((2,))
    bench.run(resnapshots_if_lost=True)
    bench.check()
