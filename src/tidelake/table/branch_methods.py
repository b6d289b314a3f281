"""Methods of a table that open its branches."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Self

from tidelake.table.handle.branch import BRANCH_OPTION, NAME_PREFIX, on_branch, with_branch_named
from tidelake.table.handle.handle import TableHandle
from tidelake.table.system.row_views import ROW_VIEWS, RowView
from tidelake.table.system.system_table import MetadataTable, SystemTable


class BranchMethods(abc.ABC):
    """A table's branches and system tables."""

    @property
    @abc.abstractmethod
    def handle(self) -> TableHandle:
        """The table."""

    @abc.abstractmethod
    def with_options(self, options: Mapping[str, object]) -> Self:
        """The table with other options for one use."""

    @abc.abstractmethod
    def _with_handle(self, handle: TableHandle) -> Self:
        """Another table, or the same one opened otherwise."""

    def branch(self, name: str) -> Self:
        """Open a branch of the table, to read and write; ``"main"`` is the table itself.

        The same as ``catalog.table("db.t$branch_<name>")``.

        Raises
        ------
        NotFoundError
            There is no such branch; the message offers near names.
        """
        return self._with_handle(on_branch(self.handle, name))

    def named(self, name: str) -> Self | SystemTable:
        """The branch, or the system table, by the name after the table's ``$``."""
        branch, system = with_branch_named(f"${name}")
        if branch and not system:
            return self.branch(branch.removeprefix(f"${NAME_PREFIX}"))
        return self.system_table(name)

    def system_table(self, name: str) -> SystemTable:
        """A system table by the name after the ``$``: ``snapshots``, ``audit_log``, ..."""
        branch, system = with_branch_named(f"${name}")
        if system and branch:
            return self.branch(branch.removeprefix(f"${NAME_PREFIX}")).system_table(system)
        return (RowView if name in ROW_VIEWS else MetadataTable)(self.handle, name)

    def _on_branch_with(self, options: Mapping[str, object]) -> Self:
        """The branch that an option names, with the other options and those of this use."""
        handle = self.handle
        stored = handle.schemas.load(handle.schema.id).options
        kept: dict[str, object] = {
            key: value for key, value in handle.options.raw.items() if stored.get(key) != value
        }
        rest = {key: value for key, value in options.items() if key != BRANCH_OPTION}
        return self.branch(str(options[BRANCH_OPTION])).with_options({**kept, **rest})
