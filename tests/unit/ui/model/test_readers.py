"""Consumers, their leases, and the job that maintains a table."""

import pyarrow as pa

from tidelake.ui.model.readers import (
    consumer_rows,
    kept_branches,
    kept_tags,
    maintenance_claim,
)


def test_a_consumer_says_what_it_has_not_read(orders):
    [found] = consumer_rows(orders.handle, orders.latest_snapshot_id)
    recorded = orders.system_table("consumers").to_arrow().to_pylist()
    assert (found.consumer_id, found.next_snapshot_id) == (
        "mailer",
        recorded[0]["next_snapshot_id"],
    )
    assert found.snapshots_behind == orders.latest_snapshot_id - found.next_snapshot_id + 1 == 4
    assert not found.is_live


def test_a_reader_at_work_holds_its_lease(orders):
    stream = orders.stream(start=1, consumer_id="slow", timeout=0)
    next(stream)
    found = {one.consumer_id: one for one in consumer_rows(orders.handle, 6)}
    assert found["slow"].is_live
    assert found["slow"].run_id
    stream.close()
    found = {one.consumer_id: one for one in consumer_rows(orders.handle, 6)}
    assert not found["slow"].is_live


def test_the_maintenance_job_that_worked_last_is_named(lake, orders):
    assert maintenance_claim(orders.handle) is None
    lake.maintain("shop.orders", rounds=1)
    found = maintenance_claim(orders.handle)
    assert found.run_id.startswith("maintenance-")
    assert not found.is_live


def test_tags_and_branches_say_how_long_they_stay(orders):
    [tag] = kept_tags(orders.handle)
    assert (tag.name, tag.snapshot_id, tag.stays) == ("before", 2, "30 days")
    orders.tags.create("for-good")
    assert kept_tags(orders.handle)[1].stays == "until it is deleted"
    orders.branches.create("audit", snapshot_id=1)
    assert [(one.name, one.snapshot_id) for one in kept_branches(orders)] == [("audit", 1)]


def test_a_table_that_nobody_reads_has_no_consumers(lake):
    table = lake.create_table("db.t", pa.schema({"n": pa.int64()}))
    assert consumer_rows(table.handle, None) == ()
