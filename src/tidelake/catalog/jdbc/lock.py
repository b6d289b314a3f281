"""Java's lock of a table: a row of ``paimon_distributed_locks``.

It keeps engines out of each other's way and guards nothing: a holder that is slow for longer than
the time-out loses the lock without a word, and Java's release removes the row whoever holds it.
What makes a commit safe is that its file is put if absent. Ours removes only its own row, which it
knows by its time: no two rows have the same, nor has one of Java's in the same second.

Only where a store has no conditional writes, and ``commit.lock`` = ``catalog`` says so, puts depend
on it (:class:`WarehousePutLock`). Then a holder checks before and after its put that the row is
still its own, and leaves the row to expire if the put may still come.

1. Insert the row. If it is there: remove it if it is older than it says, and insert again.
2. Otherwise wait, twice as long each time, up to ``lock-check-max-sleep``.
3. Give up after ``lock-acquire-timeout``.

Source: ``JdbcCatalogLock`` of paimon-core (1.3.1).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass

from tidelake.catalog.identifier import Identifier
from tidelake.catalog.jdbc import statements
from tidelake.catalog.jdbc.database import Database, RowExistsError
from tidelake.catalog.warehouse import DATABASE_SUFFIX
from tidelake.errors import OutcomeUnknownError, StorageError, StorageRefusedError
from tidelake.telemetry import Clock

FIRST_WAIT_MS = 100
TABLE_DEPTH = 2
"""Parts of a table's path below the warehouse: database and table."""
WAREHOUSE_LOCK = ".tidelake"
"""Lock of what is in no table; no name of a table."""


_HELD = threading.local()
"""The locks that each thread holds."""


@dataclass(frozen=True, slots=True)
class TableLock:
    """Takes and releases locks.

    Parameters
    ----------
    enabled : bool
        Otherwise nothing is locked.
    """

    database: Database
    catalog_key: str
    enabled: bool
    timeout_ms: int
    sleep_ms_max: int
    clock: Clock

    @contextmanager
    def hold(self, name: Identifier) -> Iterator[None]:
        """Hold the lock of a table.

        Raises
        ------
        StorageError
            Another held it for too long, or the database failed. Nothing was done.
        """
        if not self.enabled:
            yield
            return
        with self.held(str(name)):
            yield

    @contextmanager
    def held(self, name: str) -> Iterator[HeldLock]:
        """Hold a lock by its name; if this thread holds it already, go on with that.

        Raises
        ------
        StorageError
            As of :meth:`hold`.
        """
        lock_id = f"{self.catalog_key}.{name}"
        mine = _HELD.__dict__.setdefault("by_id", {})
        key = (self.database.dialect.shown, lock_id)
        if key in mine:
            yield mine[key]
            return
        try:
            acquired_at, acquired_ms = self._acquire(lock_id, name)
        except OutcomeUnknownError as error:  # of the lock's row, which expires
            raise StorageError(error.message, kind=error.kind) from error
        lock = mine[key] = HeldLock(self, lock_id, acquired_at, acquired_ms)
        try:
            yield lock
        finally:
            del mine[key]
            if not lock.is_left:
                with suppress(StorageError):  # it expires; the work under it counts
                    self.database.change(statements.DELETE_LOCK, lock_id, acquired_at)

    def _acquire(self, lock_id: str, name: str) -> tuple[str, int]:
        """Time of the row, and this machine's before it was inserted, ms."""
        started_ms, wait_ms = self.clock.now_ms(), FIRST_WAIT_MS
        while True:
            asked_ms = self.clock.now_ms()
            acquired_at = self._try(lock_id)
            if acquired_at is not None:
                return acquired_at, asked_ms
            if self.clock.now_ms() - started_ms > self.timeout_ms:
                message = (
                    f"Table '{name}' is locked in the catalog {self.database.dialect.shown} for"
                    f" more than {self.timeout_ms // 1000} s: wait for the engine that holds the"
                    f" lock '{lock_id}', or delete its row of {statements.LOCKS}."
                )
                raise StorageRefusedError(message, kind="catalog_lock", table=name)
            self.clock.sleep_ms(min(wait_ms, self.sleep_ms_max))
            wait_ms = min(wait_ms * 2, self.sleep_ms_max)

    def _try(self, lock_id: str) -> str | None:
        """Insert the row; None if another holds the lock."""
        acquired_at = self._insert(lock_id)
        if acquired_at is None and self.database.change(
            self.database.dialect.delete_expired_lock, lock_id
        ):
            acquired_at = self._insert(lock_id)
        return acquired_at

    def _insert(self, lock_id: str) -> str | None:
        try:
            ((acquired_at,),) = self.database.returned(
                self.database.dialect.insert_lock, lock_id, self.timeout_ms // 1000
            )
        except RowExistsError:
            return None
        return str(acquired_at)


@dataclass(slots=True)
class HeldLock:
    """A lock that was taken. See :class:`tidelake.fileio.object_store.HeldPutLock`."""

    lock: TableLock
    lock_id: str
    acquired_at: str
    acquired_ms: int
    is_left: bool = False

    def leave(self) -> None:
        """Leave its row to expire: work under it may take effect later."""
        self.is_left = True

    def is_held(self) -> bool:
        """Whether its row is still there, and not so old that others may remove it."""
        lock = self.lock
        if lock.clock.now_ms() - self.acquired_ms >= lock.timeout_ms:
            return False
        return bool(lock.database.rows(statements.LOCK_IS_OURS, self.lock_id, self.acquired_at))


@dataclass(frozen=True, slots=True)
class WarehousePutLock:
    """The lock around a put: of the table that a path is in, else one of the warehouse."""

    lock: TableLock
    warehouse: str

    def hold(self, path: str) -> AbstractContextManager[HeldLock]:
        """Hold it; errors as of :meth:`TableLock.hold`."""
        parts = path.removeprefix(f"{self.warehouse.rstrip('/')}/").split("/")
        if len(parts) > TABLE_DEPTH and parts[0].endswith(DATABASE_SUFFIX):
            return self.lock.held(f"{parts[0].removesuffix(DATABASE_SUFFIX)}.{parts[1]}")
        return self.lock.held(WAREHOUSE_LOCK)
