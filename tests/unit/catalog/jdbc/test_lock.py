"""Java's lock: taken before a change, waited for, and removed when it is too old."""

import pyarrow as pa
import pytest

from tidelake.catalog.identifier import Identifier
from tidelake.errors import StorageRefusedError
from tidelake.fileio import MemoryFileIO
from tidelake.telemetry import ManualClock

SCHEMA = pa.schema({"k": pa.int64()})
LOCKS = "paimon_distributed_locks"
HELD = f"INSERT INTO {LOCKS} (lock_id, expire_time_seconds) VALUES (?, ?)"
NAME = Identifier("db", "t")


class Waits(ManualClock):
    """A clock whose waits are noted, take no time, and may do something."""

    def __init__(self):
        super().__init__(1_000_000)
        self.waited, self.act = [], lambda: None

    def sleep_ms(self, duration_ms):
        self.waited.append(duration_ms)
        super().sleep_ms(duration_ms)
        self.act()


@pytest.fixture
def clock():
    return Waits()


@pytest.fixture
def locked(place, clock):
    """A catalog that locks, and the id of the lock of ``db.t``."""
    metastore = place.open(**{"lock.enabled": "true", "lock-acquire-timeout": "2 s"}).metastore
    lock = metastore.lock
    object.__setattr__(lock, "clock", clock)
    return lock, f"{place.options['catalog-key']}.db.t"


class Remote(MemoryFileIO):
    """A storage behind a network."""

    is_remote = True


def test_it_is_on_by_itself_on_remote_storage_only(sqlite_place):
    def enabled(**more):
        return sqlite_place.open(**more).metastore.lock.enabled

    assert not enabled()
    assert enabled(fileio=Remote())
    assert not enabled(fileio=Remote(), **{"lock.enabled": "false"})


def ids(place):
    return [row[0] for row in place.run(f"SELECT lock_id FROM {LOCKS}")]


def test_the_row_is_there_while_the_lock_is_held_and_not_later(place, locked):
    lock, lock_id = locked
    with lock.hold(NAME):
        held = place.run(f"SELECT expire_time_seconds FROM {LOCKS} WHERE lock_id = ?", lock_id)
        assert held == [(2,)]
    assert lock_id not in ids(place)
    with pytest.raises(ZeroDivisionError), lock.hold(NAME):
        1 / 0  # noqa: B018
    assert lock_id not in ids(place)


def test_a_held_lock_is_waited_for_longer_each_time(place, locked, clock):
    lock, lock_id = locked
    place.run(HELD, lock_id, 600)

    def release():
        if len(clock.waited) == 3:
            place.run(f"DELETE FROM {LOCKS} WHERE lock_id = ?", lock_id)

    clock.act = release
    with lock.hold(NAME):
        assert clock.waited == [100, 200, 400]
    assert lock_id not in ids(place)


def test_a_lock_that_is_held_for_too_long_is_given_up(place, locked, clock):
    lock, lock_id = locked
    place.run(HELD, lock_id, 600)
    with (
        pytest.raises(StorageRefusedError, match=f"more than 2 s: .* '{lock_id}'"),
        lock.hold(NAME),
    ):
        raise AssertionError
    assert sum(clock.waited) > 2_000
    assert lock_id in ids(place)
    place.run(f"DELETE FROM {LOCKS} WHERE lock_id = ?", lock_id)


def test_a_lock_that_is_too_old_is_taken_over(place, locked, clock):
    lock, lock_id = locked
    place.run(
        f"INSERT INTO {LOCKS} (lock_id, acquired_at, expire_time_seconds) VALUES (?, ?, ?)",
        lock_id,
        "2020-01-01 00:00:00",
        1,
    )
    with lock.hold(NAME):
        assert clock.waited == []


def test_only_the_own_row_is_removed(place, locked):
    lock, lock_id = locked
    with lock.hold(NAME):  # another took it over meanwhile
        place.run(
            f"UPDATE {LOCKS} SET acquired_at = ? WHERE lock_id = ?", "2030-01-01 00:00:00", lock_id
        )
    assert lock_id in ids(place)
    place.run(f"DELETE FROM {LOCKS} WHERE lock_id = ?", lock_id)


def test_a_row_of_the_same_second_is_another_s(place, locked):
    """Java's release removes the row whoever holds it, and the next one takes it at once."""
    lock, lock_id = locked
    for others in (lambda: place.run(HELD, lock_id, 600), lambda: lock._try(lock_id)):
        with lock.held(str(NAME)) as mine:
            assert mine.is_held()
            place.run(f"DELETE FROM {LOCKS} WHERE lock_id = ?", lock_id)
            others()
            assert not mine.is_held()
        assert lock_id in ids(place)
        place.run(f"DELETE FROM {LOCKS} WHERE lock_id = ?", lock_id)


def test_java_s_statement_sees_how_old_a_row_of_ours_is(place, locked):
    lock, lock_id = locked
    assert lock._try(lock_id)
    assert lock._try(lock_id) is None
    place.run(f"UPDATE {LOCKS} SET expire_time_seconds = -3 WHERE lock_id = ?", lock_id)
    assert lock._try(lock_id)
    place.run(f"DELETE FROM {LOCKS} WHERE lock_id = ?", lock_id)


def test_commits_and_alterations_take_it(place):
    """A holder that another engine is makes both wait; without the option none does."""
    catalog = place.open(**{"lock.enabled": "true", "lock-acquire-timeout": "0 ms"})
    table = catalog.create_table("db.t", SCHEMA)
    table.write([{"k": 1}])
    lock_id = f"{place.options['catalog-key']}.db.t"
    place.run(HELD, lock_id, 600)
    for change in (
        lambda: table.write([{"k": 2}]),
        lambda: table.add_column("v", "STRING"),
        lambda: catalog.rename_table("db.t", "db.u"),
    ):
        with pytest.raises(StorageRefusedError, match="is locked in the catalog"):
            change()
    assert catalog.table("db.t").to_arrow().to_pylist() == [{"k": 1}]
    place.open().table("db.t").write([{"k": 2}])
    place.run(f"DELETE FROM {LOCKS} WHERE lock_id = ?", lock_id)
    table.write([{"k": 3}])
    assert place.open().table("db.t").count() == 3
    assert lock_id not in ids(place)
