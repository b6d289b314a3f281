"""A job as a query of Spark, on a real PostgreSQL."""

from __future__ import annotations

import contextlib
import logging
import re
import shutil
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from pyspark.serializers import CloudPickleSerializer
from servers.postgres import PASSWORD

from tidelake.cdc.command.figures import SyncProgress
from tidelake.cdc.postgres.first_copy import PostgresCopy
from tidelake.cdc.target.target import Target
from tidelake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    StorageRefusedError,
    TidelakeError,
)

METRICS = re.compile(r"http://127\.0\.0\.1:[0-9]+/metrics")
ORDERS = ("id", "item", "price", "at")


def _fill(shop, first, last):
    shop.run(
        "INSERT INTO orders SELECT n, 'item ' || n, n / 4.0, '2026-01-01Z'::timestamptz + n * "
        f"interval '1 second' FROM generate_series({first}, {last}) n"
    )


def _journal(shop):
    return Path(shop.lake.catalog.warehouse) / "_cdc" / "ods"


def _files(place):
    return [path for path in Path(place).rglob("*") if path.is_file()]


def test_executors_copy_chunks_and_show_no_password(shop, monkeypatch, caplog, tmp_path):
    caplog.set_level(logging.DEBUG)
    _fill(shop, 1, 3000)
    shop.run("INSERT INTO orders VALUES (-1, 'bad', 'NaN', now())")
    here = PostgresCopy.read
    readers = []

    def read(copy, chunk):
        assert chunk.table.name.table != "orders", "read by the driver"
        return here(copy, chunk)

    def reader(copy, chunks, make=PostgresCopy.reader):
        readers.append(make(copy, chunks))
        return readers[-1]

    monkeypatch.setattr(PostgresCopy, "read", read)
    monkeypatch.setattr(PostgresCopy, "reader", reader)
    epochs, seen, scraped = [], [], []

    def watch(done, _):
        epochs.append(done)
        with urlopen(METRICS.search(caplog.text)[0], timeout=10) as answer:
            scraped.append(answer.read().decode())

    job = shop.job(chunk_rows=500)
    job.progress = SyncProgress(job.name, shop.lake.catalog.env.clock, seen.append)
    checkpoint = tmp_path / "checkpoint"
    started = job.start(
        once=True,
        executors_from=1000,
        checkpoint=checkpoint,
        watch=watch,
        metrics_port=0,
    )
    assert started.wait(60)
    copies = [now.copy for now in seen if now.copy and now.copy.target == "ods.orders"]
    counts = [copy.rows for copy in copies]
    assert (counts[0], counts[-1]) == (0, 3000), "what executors copied"
    assert counts == sorted(counts)
    assert re.search(r'_rows_total\{job="ods",.*table="ods.orders"\} 3000\.0', scraped[-1])
    with pytest.raises(URLError):  # the port goes with the query
        urlopen(METRICS.search(caplog.text)[0], timeout=5)
    rows = {one.target: one.rows for one in job.progress.figures.tables}
    assert rows == {"ods.orders": 3000, "ods.users": 1}
    good = "SELECT id, item, price, at FROM orders WHERE id > 0"
    assert shop.content("orders", *ORDERS) == sorted(shop.rows(good), key=str)
    assert shop.lake.table("ods.orders").count() == 3000
    assert shop.is_equal("users", "mail", "age")
    assert epochs[0].rows_count == 3001
    assert shop.commits("ods.orders") == 1
    status = job.status()
    assert {one.target: one.rows for one in status.tables} == {"ods.orders": 3000, "ods.users": 1}
    assert status.quarantined == 1
    [bad] = shop.content("cdc_quarantine", "reason")
    assert "NaN" in bad[0]

    spark = shop.lake.spark
    shown = [repr(job), str(job.plan()), str(status), str(started.progress), caplog.text]
    shown += [repr(one) for one in readers]
    store = spark._jsparkSession.sharedState().statusStore()
    runs = store.executionsList()
    shown += [
        f"{run.physicalPlanDescription()} {run.details()} {run.description()}"
        for run in (runs.apply(place) for place in range(runs.size()))
    ]
    assert any("MapInArrow" in text for text in shown)
    shown.append(str(spark.sparkContext._jsc.sc().statusStore().environmentInfo().toString()))
    written = [path.read_bytes() for path in [*_files(checkpoint), *_files(_journal(shop))]]
    written += [CloudPickleSerializer().dumps(one) for one in readers]
    assert readers
    assert len(written) > 5
    assert not any(PASSWORD in text for text in shown)
    assert not any(PASSWORD.encode() in data for data in written)


def test_a_query_follows_and_changes_places_with_a_process(shop, tmp_path):
    _fill(shop, 1, 50)
    checkpoint = tmp_path / "checkpoint"
    job = shop.job()
    started = job.start(checkpoint=checkpoint)
    assert shop.becomes_equal("orders", *ORDERS)
    assert [one.name for one in shop.lake.spark.streams.active] == ["cdc-ods"]
    assert shop.lake.job("cdc-ods").status == "RUNNING"
    with pytest.raises(AlreadyExistsError):
        shop.job().start()
    _fill(shop, 51, 60)
    shop.run(
        "UPDATE orders SET item = 'new' WHERE id % 7 = 0",
        "DELETE FROM orders WHERE id = 3",
        "UPDATE orders SET id = 1004 WHERE id = 4",
        "ALTER TABLE orders ADD COLUMN note text",
        "INSERT INTO orders VALUES (2000, 'last', 1, now(), 'noted')",
    )
    assert shop.becomes_equal("users", "mail", "age")
    assert shop.has_column("orders", "note")
    assert shop.becomes_equal("orders", *ORDERS, "note")
    [shown] = [row for row in shop.lake.sql("SHOW JOBS").collect() if row["status"] == "RUNNING"]
    assert shown["job name"] == "cdc-ods"
    [source] = started.progress["sources"]
    assert source["description"].startswith("cdc[ods]")
    assert int(source["metrics"]["epoch"]) > 0
    assert source["metrics"]["tables"] == "2"
    assert job.status().epoch >= int(source["metrics"]["epoch"])
    started.stop()
    assert started.status == "CANCELED"

    _fill(shop, 61, 70)
    shop.plain_job(once=True).run()
    assert shop.is_equal("orders", *ORDERS, "note")
    _fill(shop, 71, 80)
    job.run(once=True, checkpoint=checkpoint)  # whose batches are behind the journal
    assert shop.is_equal("orders", *ORDERS, "note")
    shutil.rmtree(checkpoint)
    _fill(shop, 81, 90)
    epochs = []
    job.run(once=True, watch=lambda done, _: epochs.append(done))
    assert shop.is_equal("orders", *ORDERS, "note")
    assert sum(done.rows_count for done in epochs) == 10
    job.run(once=True)

    assert [one.copies for one in job.status().tables] == [1, 1]
    job.resnapshot("ods.users")
    job.run(once=True)
    assert {one.target: one.copies for one in job.status().tables}["ods.users"] == 2
    assert any("slot" in line for line in job.drop())
    assert [one.name[:8] for one in _journal(shop).iterdir()] == ["dropped-"]


def test_a_batch_that_fails_between_two_commits_is_done_once(shop, tmp_path, monkeypatch):
    _fill(shop, 1, 10)
    checkpoint = tmp_path / "checkpoint"
    job = shop.job()
    job.run(once=True, checkpoint=checkpoint)
    with shop.connection.transaction():
        _fill(shop, 11, 20)
        shop.run("UPDATE users SET age = 2", "INSERT INTO users VALUES ('c@d', 3)")
    commits = []

    def commit(target, step, prepared, real=Target.commit):
        commits.append(target.identifier)
        if len(commits) == 2:
            message = "The disk is full."
            raise StorageError(message, kind="disk_full")
        return real(target, step, prepared)

    with monkeypatch.context() as broken:
        broken.setattr(Target, "commit", commit)
        with pytest.raises(StorageError) as refused:
            job.run(once=True, checkpoint=checkpoint)
    assert refused.value.kind == "disk_full"
    assert refused.value.message == "The disk is full."
    assert sorted(map(shop.commits, commits)) == [1, 2]
    job.run(once=True, checkpoint=checkpoint)
    assert shop.is_equal("orders", *ORDERS)
    assert shop.is_equal("users", "mail", "age")
    assert [*map(shop.commits, commits)] == [2, 2]


def test_what_cannot_run_starts_no_query(shop, monkeypatch):
    monkeypatch.setenv("CDC_PASSWORD", "wrong-canary")
    with pytest.raises(StorageRefusedError) as refused:
        shop.job().start()
    assert refused.value.kind == "cdc_login"
    assert "wrong-canary" not in str(refused.value)
    with pytest.raises(InvalidInputError, match="attached"):
        shop.job(warehouse="/elsewhere")
    with pytest.raises(InvalidInputError, match="table_prefix"):
        shop.job(table_prefx="x")
    with pytest.raises(TidelakeError, match="interval"):
        shop.job().start(interval="soon")
    assert not shop.lake.spark.streams.active


def test_a_reader_sees_all_tables_as_one_epoch_left_them(shop):
    _fill(shop, 1, 5)
    job = shop.job()
    job.run(once=True)
    seen = []

    def watch(done, _):
        with contextlib.suppress(NotFoundError):  # no epoch is proved whole yet
            now = shop.lake.at_epoch("ods")
            seen.append((now["ods.orders"].count(), now["ods.users"].count()))

    for number in (6, 7):
        with shop.connection.transaction():
            _fill(shop, number, number)
            shop.run(f"INSERT INTO users VALUES ('{number}@x', {number})")
        job.run(once=True, watch=watch)
    now = shop.lake.at_epoch("ods")
    assert now.is_whole
    assert set(now) == {"ods.orders", "ods.users"}
    assert (now["ods.orders"].count(), now["ods.users"].count()) == (7, 3)
    assert seen
    assert {orders - users for orders, users in seen} == {4}  # a transaction adds to both

    session = shop.lake.spark
    listed = shop.lake.table("ods.orders$cdc_epochs").orderBy("epoch").collect()
    assert [row["kind"] for row in listed] == ["copy", "changes", "changes"]
    middle = listed[1]
    before = shop.lake.at_epoch("ods", middle["epoch"])
    assert before.position == middle["position"]
    assert before.snapshots["ods.orders"] == middle["snapshot_id"]
    assert (before["ods.orders"].count(), before["ods.users"].count()) == (6, 2)
    query = "SELECT job, epoch, snapshot_id FROM {}ods.`orders$cdc_epochs` WHERE epoch > 0"
    wanted = [("ods", row["epoch"], row["snapshot_id"]) for row in listed[1:]]
    assert [tuple(row) for row in shop.lake.sql(query.format("")).collect()] == wanted
    catalog = f"{shop.lake.catalog_name}."
    assert [tuple(row) for row in session.sql(query.format(catalog)).collect()] == wanted

    with pytest.raises(NotFoundError, match=r"no table 'ods\.user'.*ods\.users"):
        now["ods.user"]
    with pytest.raises(NotFoundError, match="There are: ods"):
        shop.lake.at_epoch("absent")
    with pytest.raises(NotFoundError, match="epoch 99"):
        shop.lake.at_epoch("ods", 99)
