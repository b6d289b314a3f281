"""Java's lock of a table: a row of ``paimon_distributed_locks``.

It keeps engines out of each other's way and guards nothing: a holder that is slow for longer than
the time-out loses the lock without a word, and Java's release removes the row whoever holds it.
What makes a commit safe is that its file is put if absent. Ours removes only its own row.

1. Insert the row. If it is there: remove it if it is older than it says, and insert again.
2. Otherwise wait, twice as long each time, up to ``lock-check-max-sleep``.
3. Give up after ``lock-acquire-timeout``.

Source: ``JdbcCatalogLock`` of paimon-core (1.3.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tidelake.catalog.identifier import Identifier
from tidelake.catalog.jdbc import statements
from tidelake.catalog.jdbc.database import Database, RowExistsError
from tidelake.errors import OutcomeUnknownError, StorageError, StorageRefusedError
from tidelake.telemetry import Clock

__all__ = ["TableLock"]

FIRST_WAIT_MS = 100


@dataclass(frozen=True, slots=True)
class TableLock:
    """Takes and releases locks.

    Parameters
    ----------
    database : Database
        The catalog's.
    catalog_key : str
        Begins the ids of locks.
    enabled : bool
        Otherwise nothing is locked.
    timeout_ms, sleep_ms_max : int
        How long to wait in all, and at once.
    clock : Clock
        Measures it.
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
        lock_id = f"{self.catalog_key}.{name}"
        try:
            acquired_at = self._acquire(lock_id, name)
        except OutcomeUnknownError as error:  # of the lock's row, which expires
            raise StorageError(error.message, kind=error.kind) from error
        try:
            yield
        finally:
            with suppress(StorageError):  # it expires; the work under it counts
                self.database.change(statements.DELETE_LOCK, lock_id, acquired_at)

    def _acquire(self, lock_id: str, name: Identifier) -> str:
        started_ms, wait_ms = self.clock.now_ms(), FIRST_WAIT_MS
        while True:
            acquired_at = self._try(lock_id)
            if acquired_at is not None:
                return acquired_at
            if self.clock.now_ms() - started_ms > self.timeout_ms:
                message = (
                    f"Table '{name}' is locked in the catalog {self.database.dialect.shown} for"
                    f" more than {self.timeout_ms // 1000} s: wait for the engine that holds the"
                    f" lock '{lock_id}', or delete its row of {statements.LOCKS}."
                )
                raise StorageRefusedError(message, kind="catalog_lock", table=str(name))
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
                statements.INSERT_LOCK, lock_id, self.timeout_ms // 1000
            )
        except RowExistsError:
            return None
        return str(acquired_at)
