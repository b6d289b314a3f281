"""Targets read as one epoch left them: no transaction over several tables is seen in part."""

from __future__ import annotations

import itertools
import random

import pytest
from unit.cdc.job.log_source import LogSource, name_of

import tidelake
from tidelake.cdc.job.epoch_reads import EpochReads
from tidelake.cdc.journal.journal import FileJournal
from tidelake.engine.env import Env
from tidelake.errors import InvalidInputError, NotFoundError
from tidelake.testing import SimulatedCrash

_PROCESSES = itertools.count()


def reads(bench):
    records = FileJournal(bench.fileio, "/lake/_cdc/job", "job").history()
    return EpochReads(bench.catalog, "job", "cdc-job", LogSource(bench.database), records)


def another(bench, name):
    """The table, opened by another process."""
    env = Env.seeded(1_000 + next(_PROCESSES))
    return tidelake.open("/lake", fileio=bench.fileio, env=env).table(f"ods.{name}")


def ids(tables, name):
    return sorted(row["id"] for row in tables[f"ods.{name}"].to_arrow(columns=["id"]).to_pylist())


def item(number, name="n"):
    return {"id": number, "name": name, "price": None}


def both(number):
    return ("items", "put", item(number)), ("orders", "put", {"id": number, "item": number})


def test_each_epoch_shows_both_tables_of_a_transaction(bench):
    job = bench.run()
    for number in range(4):
        bench.database.commit(*both(number))
        job.run_once()
    listed = reads(bench).epochs().to_pylist()
    assert [row["kind"] for row in listed] == ["copy", *["changes"] * 4]
    assert all(row["is_whole"] and not row["note"] for row in listed)
    for row in listed[1:]:
        tables = reads(bench).at(row["epoch"])
        number = int(row["end"].partition(":")[0])
        assert ids(tables, "items") == ids(tables, "orders") == list(range(number))
        assert tables.position == row["end"]
        assert dict(row["snapshots"]) == tables.snapshots
    # the newest is not proved complete before the next one begins, or the job ends
    assert ids(reads(bench).at(), "items") == [0, 1, 2]
    job.close()
    assert ids(reads(bench).at(), "items") == [0, 1, 2, 3]


def test_a_table_without_rows_in_an_epoch_stays_as_it_was(bench):
    job = bench.run()
    bench.database.commit(*both(1))
    job.run_once()
    for number in (2, 3):
        bench.database.commit(("items", "put", item(number)))
        job.run_once()
    job.close()
    newest = reads(bench).at()
    assert ids(newest, "items") == [1, 2, 3]
    assert ids(newest, "orders") == [1]
    assert set(newest) == {"ods.items", "ods.orders"}
    assert not newest.behind


def test_compactions_between_belong_to_the_epoch_before(bench):
    job = bench.run()
    for number in range(3):
        bench.database.commit(*both(number))
        job.run_once()
        another(bench, "items").compact(full=True)
    job.close()
    listed = reads(bench).epochs().to_pylist()
    rows = {row["epoch"]: dict(row["snapshots"])["ods.items"] for row in listed}
    history = bench.catalog.table("ods.items").system_table("snapshots").to_arrow().to_pylist()
    kinds = {row["snapshot_id"]: row["commit_kind"] for row in history}
    assert "COMPACT" in {kinds[one] for one in rows.values()}
    for row in listed:
        tables = reads(bench).at(row["epoch"])
        assert ids(tables, "items") == ids(tables, "orders")


def test_an_epoch_that_cuts_a_transaction_is_not_whole(bench):
    job = bench.run(rows_max=4)
    bench.database.commit(*both(100))
    job.run_once()
    bench.database.commit(*[change for n in range(5) for change in both(n)])
    for _ in range(2):
        job.step()
    assert "inside a transaction" in reads(bench).epochs().to_pylist()[-1]["note"]
    tables = reads(bench).at()
    assert tables.is_whole
    assert ids(tables, "items") == ids(tables, "orders") == [100]
    cut = reads(bench).at(reads(bench).epochs()["epoch"].to_pylist()[-1])
    assert cut.is_whole is False
    assert cut.note == "it ends inside a transaction"
    job.run_once()
    job.close()
    assert ids(reads(bench).at(), "items") == [0, 1, 2, 3, 4, 100]


def test_a_table_that_was_copied_later_is_whole_when_the_others_have_come_there(bench):
    job = bench.run(rows_max=2)
    for number in range(4):
        bench.database.commit(*both(number))
    journal = FileJournal(bench.fileio, "/lake/_cdc/job", "job")
    journal.ask([name_of("orders")])
    again = bench.job(rows_max=2)
    again.start()
    again.step()  # copies orders as they are after all four
    noted = reads(bench).epochs().to_pylist()[-1]
    assert noted["is_whole"] is False
    assert "which is later" in noted["note"]
    assert ids(reads(bench).at(), "orders") == []
    again.run_once()
    again.close()
    whole = [row for row in reads(bench).epochs().to_pylist() if row["is_whole"]]
    for row in whole:
        tables = reads(bench).at(row["epoch"])
        assert ids(tables, "items") == ids(tables, "orders")
    assert ids(reads(bench).at(), "items") == [0, 1, 2, 3]
    job.close()


def test_a_copy_that_shows_later_rows_is_whole_when_the_log_has_come_there(bench):
    bench.settings["converges"] = True
    bench.database.commit(*both(1))
    chunks = []

    def fails(moment):
        chunks.extend([moment] if moment == "chunk" else [])
        if len(chunks) == 2 and moment == "chunk":  # between the tables
            bench.database.commit(("items", "delete", (1,)), ("orders", "put", {"id": 2}))

    job = bench.job(fails)
    job.start()
    job.close()
    noted = reads(bench).epochs().to_pylist()[-1]
    assert noted["is_whole"] is False
    assert "which is later" in noted["note"]
    bench.run().close()
    tables = reads(bench).at()
    assert (ids(tables, "items"), ids(tables, "orders")) == ([], [1, 2])
    assert reads(bench).epochs().to_pylist()[-1]["is_whole"]


def test_a_suspended_table_is_named(bench):
    job = bench.run()
    bench.database.commit(*both(1))
    job.run_once()
    bench.database.alter("orders", [("id", "STRING NOT NULL"), ("item", "INT")])
    bench.database.commit(("orders", "put", {"id": "x", "item": 1}), ("items", "put", item(2)))
    job.run_once()
    job.close()
    tables = reads(bench).at()
    assert list(tables.behind) == ["ods.orders"]
    assert "suspended" in tables.behind["ods.orders"]
    assert ids(tables, "orders") == [1]
    assert ids(tables, "items") == [1, 2]


def test_a_copy_that_a_crash_cut_off_is_no_epoch(bench):
    bench.database.commit(*both(1))
    calls = []

    def fails(moment):
        if moment == "chunk":
            calls.append(moment)
            if len(calls) == 2:
                raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        bench.job(fails).start()
    with pytest.raises(NotFoundError, match="no whole epoch yet"):
        reads(bench).at()
    bench.run().close()
    kinds = reads(bench).epochs().select(["epoch", "kind"]).to_pylist()
    assert kinds == [{"epoch": 1, "kind": "copy"}, {"epoch": 2, "kind": "changes"}]
    with pytest.raises(NotFoundError, match="does not prove that epoch 0 is complete"):
        reads(bench).at(0)


def test_an_epoch_whose_snapshots_expired_is_refused(bench):
    job = bench.run()
    for number in range(4):
        bench.database.commit(*both(number))
        job.run_once()
    job.close()
    table = another(bench, "items")
    table.maintenance.expire_snapshots(retain_max=2, retain_min=1)
    with pytest.raises(NotFoundError, match=r"'ods\.items' at epoch 2 has expired"):
        reads(bench).at(2)
    listed = {row["epoch"]: dict(row["snapshots"]) for row in reads(bench).epochs().to_pylist()}
    assert listed[2]["ods.items"] is None
    assert listed[2]["ods.orders"] is not None
    assert ids(reads(bench).at(), "items") == [0, 1, 2, 3]


def test_a_table_that_was_rolled_back_is_refused(bench):
    job = bench.run()
    for number in range(3):
        bench.database.commit(*both(number))
        job.run_once()
    job.close()
    table = another(bench, "items")
    table.rollback_to(snapshot_id=table.latest_snapshot_id - 1)
    with pytest.raises(InvalidInputError, match="rolled back"):
        reads(bench).at()


@pytest.mark.parametrize("seed", range(4))
def test_every_whole_epoch_is_one_moment_of_a_drawn_source(bench, seed):
    rng = random.Random(seed)
    number = 0
    for _ in range(8):
        for _ in range(rng.randrange(1, 5)):
            many = range(number, number + rng.randrange(1, 4))
            number = many.stop
            bench.database.commit(*[change for n in many for change in both(n)])
        chance = rng.choice([0.0, 0.1])

        def fails(_, chance=chance):
            if rng.random() < chance:
                raise SimulatedCrash

        try:
            job = bench.job(fails, rows_max=rng.choice([1, 3, 100]))
            job.start()
            job.run_once()
            job.close()
        except SimulatedCrash:
            pass
        if rng.random() < 0.5 and bench.catalog.table_exists("ods.items"):
            another(bench, "items").compact(full=True)
    bench.run().close()
    found = reads(bench).epochs().to_pylist()
    assert any(row["is_whole"] for row in found)
    for row in found:
        if row["is_whole"]:
            tables = reads(bench).at(row["epoch"])
            assert ids(tables, "items") == ids(tables, "orders"), row


def test_a_table_lists_its_epochs_with_their_snapshots(bench):
    job = bench.run()
    for number in (1, 2):
        bench.database.commit(*both(number))
        job.run_once()
    another(bench, "items").compact(full=True)
    bench.database.commit(("items", "put", item(3)))
    job.run_once()
    bench.database.commit(("items", "put", item(4, "after")))
    job.run_once()
    job.close()
    whole = {row["epoch"]: row for row in reads(bench).epochs().to_pylist()}
    for name, wanted in (("items", [0, 2, 3, 4, 5]), ("orders", [0, 2, 3])):
        listed = bench.catalog.table(f"ods.{name}$cdc_epochs").to_arrow().to_pylist()
        assert [row["epoch"] for row in listed] == wanted
        assert [row["kind"] for row in listed] == ["copy", *["changes"] * (len(wanted) - 1)]
        assert {row["job"] for row in listed} == {"job"}
        for row in listed:
            assert row["position"] == whole[row["epoch"]]["end"]
            assert row["snapshot_id"] == dict(whole[row["epoch"]]["snapshots"])[f"ods.{name}"]
    newest = bench.catalog.table("ods.items").history()["snapshot_id"].to_pylist()[-1]
    assert listed[-1]["commit_time"] is not None
    where = bench.catalog.table("ods.items$cdc_epochs").to_arrow(where="epoch = 5")
    assert where["snapshot_id"].to_pylist() == [newest]


def test_a_table_that_is_not_there_is_refused_with_a_near_name(bench):
    bench.run().close()
    found = reads(bench).at()
    assert set(found) == {"ods.items", "ods.orders"}
    assert len(found) == 2
    with pytest.raises(NotFoundError, match=r"no table 'ods\.item'.*ods\.items"):
        found["ods.item"]
    assert "ods.absent" not in found
    assert repr(found).startswith("EpochTables(epoch=")
