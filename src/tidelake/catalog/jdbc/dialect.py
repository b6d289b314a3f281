"""A kind of database: how it is reached, and how its driver's errors are read.

A driver speaks Python's DB-API. Statements are written with ``?`` and have no other question marks.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, Protocol

Connection = Any
"""A connection of Python's DB-API, in autocommit."""


class DriverFailure(enum.Enum):
    """What an error of a driver means."""

    TAKEN = enum.auto()
    """A row with this primary key exists."""
    LOST = enum.auto()
    """The connection is gone; a statement that was sent may have taken effect."""
    LOCKED = enum.auto()
    """Another process holds a lock; nothing was done."""
    REFUSED = enum.auto()
    """The database refuses the connection, the user or the statement."""


class Dialect(Protocol):
    """One database. A value: it holds no connection, and no credential shows in its ``repr``."""

    @property
    def shown(self) -> str:
        """Its URI without credentials."""
        ...

    @property
    def insert_lock(self) -> str:
        """The statement that inserts a lock, and returns its time, which no other row has."""
        ...

    @property
    def delete_expired_lock(self) -> str:
        """The statement that removes a lock by its id if it is too old."""
        ...

    def connect(self) -> Connection:
        """Open a connection in autocommit; raises the driver's errors."""
        ...

    def errors(self) -> tuple[type[Exception], ...]:
        """Base classes of the driver's errors."""
        ...

    def failure(self, error: Exception) -> DriverFailure:
        """Read an error of the driver."""
        ...

    def statement(self, text: str) -> str:
        """A statement with the driver's placeholders."""
        ...

    def begin(self, connection: Connection) -> None:
        """Begin a transaction that no other writer's can overtake."""
        ...

    def tables(self, connection: Connection, names: Sequence[str]) -> set[str]:
        """Which of the tables exist."""
        ...

    def is_usable(self, connection: Connection) -> bool:
        """Whether an idle connection still answers."""
        ...

    def hint(self, error: Exception) -> str:
        """What a user may do about an error; a sentence, or empty."""
        ...
