"""What one epoch left of a job's targets: a mapping by name, whatever a table is read as."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from tidelake.errors import NotFoundError, near_names

Opened = TypeVar("Opened", covariant=True)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EpochView(Mapping[str, Opened]):
    """Targets as one epoch left them, by ``database.table``; each is read at its snapshot.

    Parameters
    ----------
    position : str
        Of the source: what the tables show.
    is_whole : bool or None
        Whether it is a moment between two transactions of the source; None if the source does not
        tell.
    note : str
        Why it is not whole; empty otherwise.
    snapshots : mapping of str to int
        The snapshot of each table.
    behind : mapping of str to str
        Targets that do not show this position, and why: suspended tables, and those without a
        snapshot yet, which are not among the tables.
    """

    epoch: int
    position: str
    is_whole: bool | None
    note: str
    snapshots: Mapping[str, int]
    behind: Mapping[str, str]

    def __getitem__(self, name: str) -> Opened:
        if name not in self.snapshots:
            why = f": {self.behind[name]}" if name in self.behind else ""
            hint = near_names(name, self.snapshots) or f" There are: {', '.join(self.snapshots)}."
            message = f"Epoch {self.epoch} has no table '{name}'{why}.{hint}"
            raise NotFoundError(message, kind="table_not_found", table=name)
        return self.opened(name)

    @abc.abstractmethod
    def opened(self, name: str) -> Opened:
        """Open a table that is there."""

    def __iter__(self) -> Iterator[str]:
        return iter(self.snapshots)

    def __len__(self) -> int:
        return len(self.snapshots)

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"{kind}(epoch={self.epoch}, position={self.position!r}, {self.snapshots})"
