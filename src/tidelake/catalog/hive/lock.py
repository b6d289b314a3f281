"""The metastore's lock of a table, which Java takes where its storage cannot rename.

It keeps engines out of each other's way and guards nothing: what makes a commit safe is that its
file is put if absent. The metastore lets a lock go whose holder says nothing for its time-out.

1. Ask for an exclusive lock of the table.
2. While it waits, look again, twice as long later each time, up to ``lock-check-max-sleep``.
3. Give up after ``lock-acquire-timeout``, and withdraw.

Source: ``HiveCatalogLock`` (2.1).
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tidelake.catalog.hive.connection import MetastoreConnection, protocol
from tidelake.catalog.identifier import Identifier
from tidelake.errors import StorageError, StorageRefusedError, TidelakeError
from tidelake.telemetry import Clock

FIRST_WAIT_MS = 100


@dataclass(frozen=True, slots=True)
class MetastoreLock:
    """Takes and releases locks.

    Parameters
    ----------
    connection : MetastoreConnection, optional
        Without one nothing is locked: Glue has no locks.
    enabled : bool
        Otherwise nothing is locked.
    """

    connection: MetastoreConnection | None
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
            Another held it for too long, or the metastore failed. Nothing was done.
        """
        if not self.enabled or self.connection is None:
            yield
            return
        lock_id = self._acquire(self.connection, name)
        try:
            yield
        finally:
            self._release(self.connection, lock_id)

    def _acquire(self, connection: MetastoreConnection, name: Identifier) -> int:
        structs = protocol()
        part = structs.LockComponent(
            type=structs.LockType.EXCLUSIVE,
            level=structs.LockLevel.TABLE,
            dbname=name.database,
            tablename=name.table,
            # Java sends none, and a metastore takes that for a mistake where it looks for any
            operationType=structs.DataOperationType.NO_TXN,
        )
        asked = structs.LockRequest(
            component=[part], user=connection.user, hostname=socket.gethostname()
        )
        started_ms, wait_ms = self.clock.now_ms(), FIRST_WAIT_MS
        try:
            found = connection.change(f"table '{name}' was locked", "lock", asked)
        except TidelakeError as error:
            raise self._failed(name, str(error)) from error
        state = found.state
        try:
            while state == structs.LockState.WAITING:
                if self.clock.now_ms() - started_ms > self.timeout_ms:
                    said = f"another holds it for more than {self.timeout_ms // 1000} s"
                    raise self._failed(name, said)
                self.clock.sleep_ms(min(wait_ms, self.sleep_ms_max))
                wait_ms *= 2
                state = self._look(connection, name, found.lockid)
        except BaseException:  # an interrupt too
            self._release(connection, found.lockid)
            raise
        if state != structs.LockState.ACQUIRED:
            raise self._failed(name, f"its state is {state}")
        return int(found.lockid)

    def _look(self, connection: MetastoreConnection, name: Identifier, lock_id: int) -> Any:
        structs = protocol()
        try:
            return connection.read("check_lock", structs.CheckLockRequest(lockid=lock_id)).state
        except structs.NoSuchLockException as error:
            raise self._failed(name, "the metastore gave it up") from error

    def _release(self, connection: MetastoreConnection, lock_id: int) -> None:
        structs = protocol()
        gone = (structs.NoSuchLockException, structs.TxnOpenException, StorageError)
        with suppress(*gone):  # it expires; the work under it counts
            asked = structs.UnlockRequest(lockid=lock_id)
            connection.change(f"lock {lock_id} was released", "unlock", asked)

    def _failed(self, name: Identifier, said: str) -> StorageRefusedError:
        message = (
            f"Table '{name}' could not be locked in the metastore: {said.removesuffix('.')}. Wait"
            " for the engine that holds it, or open the catalog with 'lock.enabled' = 'false':"
            " commits are safe without."
        )
        return StorageRefusedError(message, kind="catalog_lock", table=str(name))
