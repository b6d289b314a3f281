"""Statements on the catalog's database: a connection per thread, opened again when it is lost.

1. A read is repeated once on a new connection.
2. Before a change an idle connection is tried out, so that a server that was restarted meanwhile
   costs nothing. If the connection is lost during the change, its outcome is unknown, and the error
   says so; a caller that can tell looks.
3. A process that was forked opens its own connections.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TypeVar

from tidelake.catalog.jdbc.dialect import Connection, Dialect, DriverFailure
from tidelake.errors import (
    AlreadyExistsError,
    OutcomeUnknownError,
    StorageError,
    StorageRefusedError,
    TidelakeError,
)

Row = tuple[object, ...]
T = TypeVar("T")


class RowExistsError(AlreadyExistsError):
    """A row with this primary key exists; for the metastore, which knows what it means."""


class _Held:
    """A connection of one thread; closed with the thread, or with the last use of the database."""

    __slots__ = ("connection", "pid")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.pid = os.getpid()

    def close(self) -> None:
        """Close it, unless it is that of the process which this one was forked from."""
        if self.pid == os.getpid():
            with suppress(Exception):  # it may be broken, or the interpreter may be ending
                self.connection.close()

    __del__ = close


class Database:
    """Runs statements. Thread-safe; a copy in another process connects itself."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._local = threading.local()

    def __reduce__(self) -> tuple[object, ...]:
        return (Database, (self.dialect,))

    def rows(self, text: str, *values: object) -> list[Row]:
        """Read.

        Raises
        ------
        StorageError
            The database cannot be reached, or refuses.
        """
        return self._read(lambda connection: self._fetched(connection, text, values))

    def change(self, text: str, *values: object) -> int:
        """Change rows, and say how many.

        Raises
        ------
        RowExistsError
            A primary key is taken.
        StorageError
            The database cannot be reached, or refuses. Nothing was done.
        OutcomeUnknownError
            The connection was lost meanwhile.
        """
        connection = self._usable_connection()
        with self._translated(), closing(connection.cursor()) as cursor:
            cursor.execute(self.dialect.statement(text), values)
            return int(cursor.rowcount)

    def returned(self, text: str, *values: object) -> list[Row]:
        """Change rows, and read what ``RETURNING`` says; errors as of :meth:`change`."""
        connection = self._usable_connection()
        with self._translated():
            return self._fetched(connection, text, values)

    def tables(self, *names: str) -> set[str]:
        """Which of the tables exist; errors as of :meth:`rows`."""
        return self._read(lambda connection: self.dialect.tables(connection, names))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All changes of this thread in the block, or none if it raises.

        Raises
        ------
        StorageError
            The database cannot be reached, or refuses. Nothing was done.
        OutcomeUnknownError
            The connection was lost meanwhile.
        """
        connection = self._usable_connection()
        try:  # an interrupt may come when the transaction has begun, before the driver returns
            self._local.in_transaction = True
            with self._translated():
                self.dialect.begin(connection)
            yield
            with self._translated():
                connection.execute("COMMIT")
        except BaseException:
            with suppress(*self.dialect.errors()):  # report the failure before
                connection.execute("ROLLBACK")
            raise
        finally:
            self._local.in_transaction = False

    def close(self) -> None:
        """Close this thread's connection."""
        held, self._local.held = getattr(self._local, "held", None), None
        if held is not None:
            held.close()

    def _read(self, ask: Callable[[Connection], T]) -> T:
        """Ask, and once more on a new connection if the first was lost."""
        try:
            with self._translated():
                return ask(self._connection())
        except OutcomeUnknownError as error:
            if self._in_transaction:
                raise
            try:
                with self._translated():
                    return ask(self._connection())
            except OutcomeUnknownError:
                message = f"The catalog's database {self.dialect.shown} closes each connection."
                raise StorageError(
                    message, kind="catalog_unreachable", path=self.dialect.shown
                ) from error

    def _fetched(self, connection: Connection, text: str, values: Sequence[object]) -> list[Row]:
        with closing(connection.cursor()) as cursor:
            cursor.execute(self.dialect.statement(text), values)
            return list(cursor.fetchall())

    def _usable_connection(self) -> Connection:
        connection = self._connection()
        if self._in_transaction or self.dialect.is_usable(connection):
            return connection
        self.close()
        return self._connection()

    @property
    def _in_transaction(self) -> bool:
        return bool(getattr(self._local, "in_transaction", False))

    def _connection(self) -> Connection:
        held: _Held | None = getattr(self._local, "held", None)
        if held is None or held.pid != os.getpid():
            with self._translated(connecting=True):
                held = _Held(self.dialect.connect())
            self._local.held = held
        return held.connection

    @contextmanager
    def _translated(self, *, connecting: bool = False) -> Iterator[None]:
        try:
            yield
        except self.dialect.errors() as error:
            raise self._error(error, connecting=connecting) from error

    def _error(self, error: Exception, *, connecting: bool) -> TidelakeError:
        failure = self.dialect.failure(error)
        said = " ".join(str(error).split())
        if failure is DriverFailure.TAKEN:
            return RowExistsError(said, kind="row_exists")
        if failure is DriverFailure.LOCKED:
            message = (
                f"The catalog's database {self.dialect.shown} is locked by another process: try"
                " again, or end a transaction that was left open there."
            )
            return StorageRefusedError(message, kind="catalog_locked", path=self.dialect.shown)
        if failure is DriverFailure.LOST and not connecting:
            self.close()
            message = (
                f"The connection to the catalog's database {self.dialect.shown} was lost ({said})."
                " It is unknown whether the change was made: look, and try again."
            )
            return OutcomeUnknownError(message, kind="catalog_lost", path=self.dialect.shown)
        what = "cannot be reached" if connecting else "refused a statement"
        message = (
            f"The catalog's database {self.dialect.shown} {what}: {said.removesuffix('.')}."
            f"{self.dialect.hint(error)}"
        )
        kind = "catalog_unreachable" if connecting else "catalog_refused"
        return (StorageError if connecting else StorageRefusedError)(
            message, kind=kind, path=self.dialect.shown
        )
