"""SQLite: a file, or one path of Java's driver ``sqlite-jdbc``."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from tidelake.catalog.jdbc import statements
from tidelake.catalog.jdbc.dialect import Connection, DriverFailure
from tidelake.errors import InvalidInputError, near_names, shortened

SQLITE_URI = "jdbc:sqlite:"
BUSY_TIMEOUT, BUSY_TIMEOUT_MS = "busy_timeout", 10_000
IGNORED = ("user", "password")  # Java needs them to be there, and SQLite has no users
PROPERTIES = (BUSY_TIMEOUT, *IGNORED)


class SqliteDialect:
    """A catalog in a file of SQLite.

    Parameters
    ----------
    uri : str
        ``jdbc:sqlite:/path``.
    properties : mapping
        Of the connection, without the prefix ``jdbc.``.
    """

    def __init__(self, uri: str, properties: Mapping[str, str]) -> None:
        path = uri.removeprefix(SQLITE_URI)
        if path.startswith("file:"):
            path = "/" + path.removeprefix("file:").lstrip("/")
        if not path or path.startswith(":") or "?" in path:
            message = (
                f"'{shortened(uri)}' names no file: write '{SQLITE_URI}/path/of/catalog.db'. A"
                " database in memory is not shared by threads and processes; properties of the"
                " connection are options such as 'jdbc.busy_timeout'."
            )
            raise InvalidInputError(message, kind="catalog_option", option="uri")
        for name in properties:
            if name not in PROPERTIES:
                message = (
                    f"Unknown catalog option 'jdbc.{shortened(name)}'."
                    f"{near_names(name, PROPERTIES)} SQLite takes:"
                    f" {', '.join(f'jdbc.{known}' for known in PROPERTIES)}."
                )
                raise InvalidInputError(message, kind="unknown_option", option=f"jdbc.{name}")
        timeout = properties.get(BUSY_TIMEOUT, str(BUSY_TIMEOUT_MS))
        if not timeout.isdecimal():
            message = f"Catalog option 'jdbc.{BUSY_TIMEOUT}' must be a number of milliseconds."
            raise InvalidInputError(message, kind="catalog_option", option=f"jdbc.{BUSY_TIMEOUT}")
        self._path = Path(path).expanduser().absolute()
        self._timeout_ms = int(timeout)

    def __repr__(self) -> str:
        return f"SqliteDialect({self.shown!r})"

    @property
    def shown(self) -> str:
        """The URI with an absolute path."""
        return f"{SQLITE_URI}{self._path}"

    @property
    def insert_lock(self) -> str:
        """By the clock, with further digits by chance: its own default has whole seconds."""
        return statements.INSERT_LOCK_ON_SQLITE

    @property
    def delete_expired_lock(self) -> str:
        """As Java's."""
        return statements.DELETE_EXPIRED_LOCK_ON_SQLITE

    def connect(self) -> Connection:
        """Open the file, which is made if its directory exists."""
        return sqlite3.connect(self._path, timeout=self._timeout_ms / 1000, isolation_level=None)

    def errors(self) -> tuple[type[Exception], ...]:
        """Errors of the module."""
        return (sqlite3.Error,)

    def failure(self, error: Exception) -> DriverFailure:
        """By the result code, which is in the message."""
        if isinstance(error, sqlite3.IntegrityError):
            return DriverFailure.TAKEN
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return DriverFailure.LOCKED
        return DriverFailure.REFUSED

    def statement(self, text: str) -> str:
        """As it is."""
        return text

    def begin(self, connection: Connection) -> None:
        """Take the write lock at once: taking it later may fail without a wait."""
        connection.execute("BEGIN IMMEDIATE")

    def tables(self, connection: Connection, names: Sequence[str]) -> set[str]:
        """Ask the schema."""
        marks = ",".join("?" * len(names))
        asked = f"SELECT name FROM sqlite_master WHERE type = 'table' AND name IN ({marks})"
        return {name for (name,) in connection.execute(asked, list(names))}

    def is_usable(self, connection: Connection) -> bool:
        """Whether the file is still the one that was opened."""
        del connection
        return True

    def hint(self, error: Exception) -> str:
        """By the result code."""
        name = getattr(error, "sqlite_errorname", "")
        if name == "SQLITE_CANTOPEN":
            return f" Is {self._path.parent} a directory that you may write to?"
        if name == "SQLITE_NOTADB":
            return f" {self._path} is another kind of file."
        if name.startswith("SQLITE_READONLY"):
            return " You may read the file only."
        return ""
