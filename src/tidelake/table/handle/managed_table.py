"""A table whose newest snapshot and schema a catalog's server decides: the port to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tidelake.commit.snapshot_commit import SnapshotCommit
from tidelake.types.schema_change import SchemaChange


class ManagedTable(Protocol):
    """What only the server may change of a table. Its files are read and written as ever."""

    @property
    def snapshot_commit(self) -> SnapshotCommit:
        """Makes snapshots visible."""
        ...

    def alter(self, changes: Sequence[SchemaChange]) -> None:
        """Change the schema, by changes that were checked.

        Raises
        ------
        StorageRefusedError, InvalidInputError, UnsupportedError, NotFoundError, AlreadyExistsError
            The server refused; nothing was changed.
        StorageError
            The schema may have been changed.
        """
        ...

    def mark_done(self, partitions: Sequence[Mapping[str, str]]) -> None:
        """Mark partitions as done, each by the texts of its columns.

        Raises
        ------
        StorageRefusedError, UnsupportedError, NotFoundError
            The server refused; nothing was marked.
        StorageError
            They may be marked.
        """
        ...

    def roll_back(self, snapshot_id: int) -> None:
        """Make an older snapshot the newest.

        Raises
        ------
        StorageRefusedError, UnsupportedError, NotFoundError
            The server refused; nothing was changed.
        StorageError
            The table may have been rolled back.
        """
        ...
