"""Tables that the arguments no longer take are left out, and copied anew once they take them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.cdc.job.log_source import name_of

from tidelake.cdc.journal.job_state import Phase
from tidelake.cdc.journal.journal import FileJournal
from tidelake.cdc.routing.name_filter import NameFilter
from tidelake.cdc.routing.routing import Routing
from tidelake.cdc.routing.table_names import TableNames
from tidelake.cdc.source.source import EpochLimits
from tidelake.errors import InvalidInputError
from tidelake.testing import SimulatedCrash

WITHOUT = Routing("ods", filter=NameFilter(excluding_tables="orders"))
ORDERS = name_of("orders")


def order(number, item=1):
    return ("orders", "put", {"id": number, "item": item})


def item(number, name="n"):
    return ("items", "put", {"id": number, "name": name, "price": None})


def phase(job):
    return job.state.tables[ORDERS].phase


def test_a_table_that_is_excluded_is_left_out_and_its_target_stays(bench, caplog):
    bench.database.commit(item(1), order(1))
    bench.run().close()
    bench.database.commit(item(2), order(2))
    job = bench.run(routing=WITHOUT)
    job.close()
    assert phase(job) is Phase.LEFT_OUT
    assert len(bench.content("items")) == 2
    assert list(bench.content("orders")) == [(1,)]
    assert job._source.prepared == [name_of("items")]
    assert name_of("orders") not in job._followed()
    again = bench.run(routing=WITHOUT)
    assert phase(again) is Phase.LEFT_OUT
    assert sum("orders is left out" in one.message for one in caplog.records) == 1


def test_the_journal_says_at_once_that_a_table_is_left_out(bench):
    bench.run().close()
    bench.job(routing=WITHOUT).start()
    state = FileJournal(bench.fileio, "/lake/_cdc/job", "job").load().state
    assert state.tables[ORDERS].phase is Phase.LEFT_OUT


def test_a_table_that_is_taken_again_is_copied_anew(bench):
    bench.database.commit(order(1), order(2))
    bench.run().close()
    job = bench.run(routing=WITHOUT)
    bench.database.commit(("orders", "delete", (1,)), order(3), item(1))
    job.run_once()
    job.close()
    again = bench.run()
    bench.check()
    assert phase(again) is Phase.LIVE
    assert again.state.tables[ORDERS].copies_count == 2
    assert again.state.tables[name_of("items")].copies_count == 1


def test_an_epoch_that_was_cut_off_is_applied_before_its_table_is_left_out(bench):
    bench.database.commit(order(1))
    job = bench.run()
    bench.database.commit(order(2), item(1))
    changes = job._read_on(EpochLimits())
    job._put("changes", changes.end)  # and the job dies
    left = bench.run(routing=WITHOUT)
    assert phase(left) is Phase.LEFT_OUT
    bench.check()


def test_a_copy_that_was_cut_off_leaves_out_what_is_excluded_since(bench):
    bench.database.commit(order(1), item(1))

    def fails(moment):
        if moment == "chunk":
            raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        bench.run(fails)
    job = bench.run(routing=WITHOUT)
    assert len(bench.content("items")) == 1
    assert not bench.catalog.table_exists("ods.orders") or not bench.content("orders")
    assert phase(job) is Phase.LEFT_OUT
    bench.run()
    bench.check()


def test_tables_that_share_a_target_are_copied_with_the_one_that_is_taken_again(bench):
    names = TableNames(mapping={"items": "all", "more": "all"})
    bench.database.create("more", [("id", "INT NOT NULL"), ("name", "STRING")])
    bench.database.commit(item(1), ("more", "put", {"id": 100, "name": "m"}))
    bench.run(routing=Routing("ods", names=names)).close()
    without = Routing("ods", names=names, filter=NameFilter(excluding_tables="more"))
    job = bench.run(routing=without)
    bench.database.commit(("more", "delete", (100,)), item(2))
    job.run_once()
    job.close()
    found = bench.catalog.table("ods.all").to_arrow(columns=["id"])["id"].to_pylist()
    assert sorted(found) == [1, 2, 100]
    bench.run(routing=Routing("ods", names=names))
    found = bench.catalog.table("ods.all").to_arrow(columns=["id"])["id"].to_pylist()
    assert sorted(found) == [1, 2]


def test_a_table_that_the_source_no_longer_names_is_left_out(bench):
    bench.run().close()
    job = bench.job()
    job._source.unread = {ORDERS}
    job.start()
    assert phase(job) is Phase.LEFT_OUT


def test_a_job_without_any_table_is_refused(bench):
    bench.run().close()
    with pytest.raises(InvalidInputError) as refused:
        bench.run(routing=Routing("ods", filter=NameFilter(including_tables="absent")))
    assert refused.value.kind == "cdc_no_tables"
    bench.run()


def test_a_lost_position_copies_no_table_that_is_left_out(bench):
    bench.database.commit(order(1), item(1))
    job = bench.run()
    bench.database.commit(item(2))
    changes = job._read_on(EpochLimits())
    job._put("changes", changes.end)
    bench.database.forgotten = 2
    again = bench.run(routing=WITHOUT, resnapshots_if_lost=True)
    assert phase(again) is Phase.LEFT_OUT
    assert len(bench.content("items")) == 2
    assert again.state.tables[ORDERS].copies_count == 1


SHARED = TableNames(mapping={"items": "all", "more": "all", "third": "all"})
EVERY = Routing("ods", names=SHARED)
FEWER = Routing("ods", names=SHARED, filter=NameFilter(excluding_tables="more"))


def shared(bench):
    """The keys of the rows in the target that tables share."""
    found = bench.catalog.table("ods.all").to_arrow(columns=["id"])["id"].to_pylist()
    return sorted(found)


@pytest.fixture
def sharing(bench):
    """A job that has left out ``more``, whose rows are in the target of ``items``."""
    bench.database.create("more", [("id", "INT NOT NULL"), ("name", "STRING")])
    bench.database.commit(item(1), item(2), ("more", "put", {"id": 100, "name": "m"}))
    bench.run(routing=EVERY).close()
    bench.run(routing=FEWER).close()
    return bench


@pytest.mark.parametrize("why", ["reread", "truncate", "lost"])
def test_a_copy_takes_no_rows_of_a_table_that_is_left_out(sharing, why):
    """They share a target, whose rows do not tell of which table they are."""
    sharing.database.commit(("items", "delete", (1,)))
    if why == "lost":
        sharing.database.forgotten = len(sharing.database.log)
    else:
        sharing.database.commit(("items", why))
    job = sharing.run(routing=FEWER, resnapshots_if_lost=True)
    job.run_once()
    job.close()
    items = job.state.tables[name_of("items")]
    assert 100 in shared(sharing)
    assert items.phase is Phase.SUSPENDED
    assert "let them take" in items.reason
    assert "drop ods.all" in items.reason
    sharing.database.commit(item(3))
    again = sharing.run(routing=EVERY)
    again.run_once()
    assert shared(sharing) == ([3, 100] if why == "truncate" else [2, 3, 100])
    phases = {again.state.tables[name_of(one)].phase for one in ("items", "more")}
    assert phases == {Phase.LIVE}


def test_a_target_that_was_dropped_has_no_rows_of_a_table_that_is_left_out(sharing):
    sharing.database.commit(("items", "reread"))
    job = sharing.run(routing=FEWER)
    job.run_once()
    job.close()
    sharing.catalog.drop_table("ods.all")
    FileJournal(sharing.fileio, "/lake/_cdc/job", "job").ask([name_of("items")])
    job = sharing.run(routing=FEWER)
    assert shared(sharing) == [1, 2]
    sharing.database.commit(("items", "truncate"), item(4))
    job.run_once()
    assert shared(sharing) == [4]
    job.close()
    sharing.run(routing=EVERY)
    assert shared(sharing) == [4, 100]


def test_a_new_table_joins_the_rows_of_those_that_are_left_out(sharing):
    sharing.database.create("third", [("id", "INT NOT NULL"), ("name", "STRING")])
    sharing.database.commit(("third", "put", {"id": 200, "name": "t"}))
    sharing.run(routing=FEWER).close()
    assert shared(sharing) == [1, 2, 100, 200]
    others = NameFilter(including_tables="third")
    third = Routing("ods", names=SHARED, filter=others)
    sharing.database.rows[name_of("more")].clear()
    sharing.run(routing=third).close()
    job = sharing.run(routing=EVERY)
    assert shared(sharing) == [1, 2, 200]
    assert {one.phase for one in job.state.tables.values()} == {Phase.LIVE}


def test_a_copy_takes_no_rows_of_a_table_that_is_suspended(bench):
    bench.database.create("more", [("id", "INT NOT NULL"), ("name", "STRING")])
    bench.database.commit(item(1), ("more", "put", {"id": 100, "name": "m"}))
    job = bench.run(routing=EVERY)
    more = job.state.tables[name_of("more")]
    job.state = job.state.with_table(name_of("more"), replace(more, phase=Phase.SUSPENDED))
    bench.database.commit(("items", "truncate"), item(2))
    job.run_once()
    assert shared(bench) == [1, 100]
    items = job.state.tables[name_of("items")]
    assert items.phase is Phase.SUSPENDED
    assert "which is suspended" in items.reason
    job.close()
    FileJournal(bench.fileio, "/lake/_cdc/job", "job").ask([name_of("items")])
    job = bench.run(routing=EVERY)
    job.run_once()
    assert shared(bench) == [2, 100]


def test_a_new_table_that_does_not_fit_its_target_does_not_stop_the_others(bench, caplog):
    job = bench.run()
    bench.catalog.create_table("ods.users", {"mail": "BYTES"}, options={"bucket": "-1"})
    bench.database.create("users", [("id", "INT NOT NULL"), ("mail", "STRING")])
    bench.database.commit(("users", "put", {"id": 1, "mail": "a"}), item(1))
    job._looked_ms = -(10**9)
    job.run_once()
    users = job.state.tables[name_of("users")]
    assert (users.phase, users.copies_count) == (Phase.SUSPENDED, 0)
    assert "ods.users" in users.reason
    assert "ods.users" in caplog.text
    assert len(bench.content("items")) == 1
    job.close()
    bench.database.commit(("users", "put", {"id": 2, "mail": "b"}), item(2))
    bench.run().close()
    assert len(bench.content("items")) == 2
    bench.catalog.drop_table("ods.users")
    FileJournal(bench.fileio, "/lake/_cdc/job", "job").ask([name_of("users")])
    bench.run().close()
    bench.check()


def test_a_table_that_does_not_fit_its_target_stops_a_job_that_begins(bench):
    bench.catalog.create_table("ods.orders", {"mail": "BYTES"}, options={"bucket": "-1"})
    bench.database.commit(item(1))
    with pytest.raises(InvalidInputError, match=r"ods\.orders"):
        bench.run()


def test_a_new_table_whose_target_is_anothers_does_not_join(bench, caplog):
    together = Routing("ods", names=TableNames(mapping={"people": "items"}))
    job = bench.run(routing=together)
    bench.database.create("people", [("id", "INT NOT NULL"), ("mail", "STRING")])
    bench.database.commit(("people", "put", {"id": 1, "mail": "a"}), item(1))
    for _ in range(2):
        job._looked_ms = -(10**9)
        job.run_once()
    assert sum("both go into 'ods.items'" in one.message for one in caplog.records) == 1
    job.close()
    bench.database.commit(item(2))
    again = bench.run(routing=together)
    assert len(bench.content("items")) == 2
    assert name_of("people") not in again.state.tables
