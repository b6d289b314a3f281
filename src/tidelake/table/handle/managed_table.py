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

    def on_branch(self, branch: str) -> ManagedTable:
        """The same of a branch of the table; ``"main"`` is the table itself.

        Raises
        ------
        NotFoundError
            There is no such branch.
        """
        ...

    def branches(self) -> list[str]:
        """Names of the table's branches, sorted."""
        ...

    def create_branch(self, name: str, *, tag: str | None) -> None:
        """Create a branch, empty or at a tag.

        Raises
        ------
        AlreadyExistsError, NotFoundError, InvalidInputError, StorageRefusedError, UnsupportedError
            The server refused; nothing was created.
        StorageError
            It may be there.
        """
        ...

    def delete_branch(self, name: str) -> None:
        """Delete a branch; errors as of :meth:`create_branch`."""
        ...

    def fast_forward(self, name: str) -> None:
        """Make this branch, or the table, what another branch is; errors as of the others."""
        ...
