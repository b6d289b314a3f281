"""Snapshots name their base; one that does not follow is set aside, wherever a snapshot is read."""

from __future__ import annotations

import dataclasses
import logging

import pytest
from unit.metadata.made import BIGINT, PATHS, publish, snapshot

from tidelake.errors import NotFoundError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata import SchemaLog, SnapshotLog
from tidelake.metadata.log.chain import BASE, follows, link_of, marked
from tidelake.metadata.log.incarnation import OPENED_SCHEMA, Incarnation
from tidelake.types import DataField, TableSchema

SCHEMA = TableSchema(0, (DataField(0, "k", BIGINT),), 0)


def on(base, **changes):
    """A snapshot on another one, as a commit makes it."""
    lists = {"base_manifest_list": f"list-{changes.pop('name', 'a')}-{base.id + 1}"}
    made = snapshot(base.id + 1, properties={BASE: link_of(base)})
    return dataclasses.replace(made, **lists, **changes)


def chain_of(log, count, *, start=None, name="a"):
    newest = start
    for _ in range(count):
        newest = snapshot(1) if newest is None else on(newest, name=name)
        assert publish(log, newest)
    return newest


@pytest.fixture
def log():
    return SnapshotLog(MemoryFileIO(), PATHS)


@pytest.mark.parametrize("hint", [b"3", b"4", b"5", b"6", b"99", None])
def test_what_was_published_late_is_not_there_whatever_the_hint_says(log, hint, caplog):
    fileio = log._fileio
    old = chain_of(log, 4)
    late = on(old)
    for number in (4, 3):
        fileio.delete(PATHS.snapshot(number))
    kept = log.load(2)
    newest = chain_of(log, 2, start=kept, name="b")
    assert log.put(late)
    if hint is None:
        fileio.delete(PATHS.latest_hint)
    else:
        fileio.replace(PATHS.latest_hint, hint)
    with caplog.at_level(logging.WARNING, "tidelake"):
        assert log.latest_id() == 4
        assert log.latest() == newest
        assert log.ids() == [1, 2, 3, 4]
        assert log.at_or_before(10**15) == newest
    with pytest.raises(NotFoundError):
        log.load_on_chain(5)
    assert log.load_on_chain(4) == newest
    assert all("Snapshot 5" in record.message for record in caplog.records)


def test_what_names_no_base_follows_as_it_always_did(log):
    one = chain_of(log, 1)
    assert publish(log, snapshot(2))
    assert log.latest_id() == 2
    assert follows(snapshot(2), one)


def test_another_engine_s_snapshot_on_one_that_is_set_aside_is_set_aside_with_it(log):
    old = chain_of(log, 3)
    late = on(old)
    log._fileio.delete(PATHS.snapshot(3))
    chain_of(log, 1, start=log.load(2), name="b")
    assert log.put(late)
    assert log.put(snapshot(5))
    log._fileio.replace(PATHS.latest_hint, b"5")
    assert log.latest_id() == 3


def test_what_was_built_on_the_target_of_a_rollback_before_does_not_follow_it():
    one = snapshot(1)
    two = on(one)
    again = marked(one, "x")
    assert follows(two, one)
    assert not follows(two, again)
    assert follows(on(again), again)
    assert not follows(on(again), one)
    assert not follows(on(again), marked(one, "y"))


def test_a_snapshot_that_came_late_below_the_oldest_one_breaks_nothing(log):
    chain_of(log, 6)
    fileio = log._fileio
    for number in range(1, 5):
        fileio.delete(PATHS.snapshot(number))
    fileio.replace(PATHS.earliest_hint, b"5")
    rival = dataclasses.replace(snapshot(4), base_manifest_list="list-of-a-rival-4")
    assert log.put(rival)
    fileio.replace(PATHS.latest_hint, b"5")
    assert log.latest_id() == 6
    assert log.load_on_chain(5).id == 5
    assert log.ids() == [5, 6], "the oldest one names another"
    assert log.left_behind() == [4]


def test_a_snapshot_that_came_late_long_after_it_had_expired_is_passed_over(log, caplog):
    chain_of(log, 6)
    fileio = log._fileio
    old = log.load(2)
    for number in range(1, 5):
        fileio.delete(PATHS.snapshot(number))
    fileio.replace(PATHS.earliest_hint, b"5")
    assert log.put(old)
    with caplog.at_level(logging.WARNING, "tidelake"):
        assert log.ids() == [5, 6]
    assert log.left_behind() == [2]
    assert "Snapshots 2 " in caplog.text


def test_what_an_expiry_that_was_killed_left_is_there(log):
    chain_of(log, 6)
    fileio = log._fileio
    for number in (1, 2):
        fileio.delete(PATHS.snapshot(number))
    fileio.replace(PATHS.earliest_hint, b"5")
    assert log.ids() == [3, 4, 5, 6]
    assert log.left_behind() == []


@pytest.mark.parametrize("dropped", [{2}, {3}, {2, 3}])
def test_a_dropped_table_s_snapshot_fills_no_gap_before_the_oldest_one(log, dropped, caplog):
    """What came late of the table itself is passed over, whatever stands between."""
    fileio = log._fileio
    assert SchemaLog(fileio, PATHS).create(SCHEMA)
    log = SnapshotLog(fileio, PATHS, incarnation=Incarnation(fileio, PATHS, SCHEMA))
    chain_of(log, 5)
    fileio.replace(PATHS.earliest_hint, b"4")
    for number in dropped:
        old = log.load(number)
        fileio.delete(PATHS.snapshot(number))
        assert log.put(dataclasses.replace(old, properties={OPENED_SCHEMA: "0@1"}))
    kept = [3] if dropped == {2} else []
    assert log.ids() == [*kept, 4, 5]
    late = [number for number in (1, 2) if number not in dropped]
    assert log.left_behind() == late, "those of the dropped table are the user's"
