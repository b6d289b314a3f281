"""Snapshots that are read once, and who made them."""

import pyarrow as pa
import pytest

from tidelake.ui.model import timeline
from tidelake.ui.model.timeline import BATCH, read_timeline


def test_snapshots_that_were_read_are_not_read_again(orders, monkeypatch):
    first = read_timeline(orders.handle)
    orders.write([{"day": "2026-11-20", "id": 99, "item": "tea"}])
    log = type(orders.handle.snapshots)
    loaded, find = [], log.find

    def watched(self, number):
        loaded.append(number)
        return find(self, number)

    monkeypatch.setattr(log, "find", watched)
    second = read_timeline(orders.handle, first)
    assert set(loaded) <= {6, 7, 8}  # the newest known one, the new one, and if there is more
    assert 7 in loaded
    assert second.snapshots[:-1] == first.snapshots
    assert second.newest.id == second.count == 7


def test_after_a_rollback_nothing_of_before_is_shown(orders):
    first = read_timeline(orders.handle)
    orders.rollback_to(3)
    for n in range(4):
        orders.write([{"day": "2026-11-20", "id": n, "item": "rye"}])
    second = read_timeline(orders.handle, first)
    assert second == read_timeline(orders.handle)
    assert second.snapshots[3] != first.snapshots[3]


def test_of_many_snapshots_the_newest_are_shown(orders, monkeypatch):
    monkeypatch.setattr(timeline, "SHOWN_MAX", 2)
    found = read_timeline(orders.handle)
    assert [one.id for one in found.snapshots] == [5, 6]
    assert found.count == 6


def test_batch_writes_are_one_activity_and_a_stream_is_its_user(lake):
    table = lake.create_table("db.t", pa.schema({"n": pa.int64()}))
    for n in range(3):
        table.write([{"n": n}])
    for n in range(2):
        table.write([{"n": n}], commit_user="ingest", commit_identifier=n)
        table.write([{"n": n}], commit_user="cdc-shop", commit_identifier=n)
    found = read_timeline(table.handle).writers()
    assert [(one.user, one.kind, one.users, one.commits, one.rows) for one in found[:2]] == [
        ("shop", "job of change data capture", 1, 2, 2),
        ("ingest", "stream", 1, 2, 2),
    ]
    assert (found[2].kind, found[2].users, found[2].commits) == (BATCH, 3, 3)
    assert found[2].seconds_between >= 0
    assert [one.last_identifier for one in found] == [1, 1, None]


def test_a_table_without_snapshots_has_none(lake):
    table = lake.create_table("db.t", pa.schema({"n": pa.int64()}))
    found = read_timeline(table.handle)
    assert (found.count, found.newest, found.writers(), found.kinds()) == (0, None, (), {})


@pytest.mark.parametrize("kind", ["APPEND", "COMPACT"])
def test_kinds_are_counted(orders, kind):
    assert read_timeline(orders.handle).kinds()[kind] == {"APPEND": 5, "COMPACT": 1}[kind]
