"""Consumers are reset and cleared by procedures, while nobody uses them."""

from __future__ import annotations

import pytest

import tidelake
from tidelake import ConflictError, InvalidInputError, NotFoundError
from tidelake.fileio import MemoryFileIO
from tidelake.maintenance import call
from tidelake.metadata.log.consumer import ConsumerLog


@pytest.fixture
def catalog():
    made = tidelake.open("/w", fileio=MemoryFileIO())
    table = made.create_table("db.t", {"k": "INT"})
    for k in range(3):
        table.write([{"k": k}])
    return made


@pytest.fixture
def log(catalog):
    table = catalog.table("db.t")
    found = ConsumerLog(table.fileio, table.handle.paths)
    for name in ("a1", "a2", "b"):
        found.record(name, 3)
    return found


def test_a_consumer_is_reset_and_removed(catalog, log):
    done = call(
        catalog, "reset_consumer", named={"table": "db.t", "consumerId": "b", "nextSnapshotId": 2}
    )
    assert done.to_pylist() == [{"result": True}]
    assert log.next_id("b") == 2
    call(catalog, "reset_consumer", ("db.t", "b"))
    assert log.next_ids() == {"a1": 3, "a2": 3}
    with pytest.raises(NotFoundError, match="snapshot 9"):
        call(catalog, "reset_consumer", ("db.t", "a1", 9))


def test_consumers_are_cleared_by_whole_names(catalog, log):
    call(catalog, "clear_consumers", ("db.t", "a.*", "a2"))
    assert log.next_ids() == {"a2": 3, "b": 3}
    call(catalog, "clear_consumers", ("db.t", "a"))
    assert log.next_ids() == {"a2": 3, "b": 3}
    with pytest.raises(InvalidInputError, match="not a regular expression"):
        call(catalog, "clear_consumers", ("db.t", "("))
    call(catalog, "clear_consumers", ("db.t",))
    assert log.next_ids() == {}


def test_a_consumer_that_a_run_uses_is_refused(catalog, log):
    stream = catalog.table("db.t").stream(consumer_id="b", timeout=0)
    next(stream)
    for name, arguments in (("reset_consumer", ("db.t", "b", 1)), ("clear_consumers", ("db.t",))):
        with pytest.raises(ConflictError, match="stop it first"):
            call(catalog, name, arguments)
    assert sorted(log.next_ids()) == ["a1", "a2", "b"]
    stream.close()
    call(catalog, "reset_consumer", ("db.t", "b", 1))
    assert log.next_id("b") == 1
