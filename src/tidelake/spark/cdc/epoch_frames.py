"""The tables of a job of change data capture as one epoch left them, as DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from tidelake.cdc.command.job_epochs import epochs_of
from tidelake.engine.tables import Catalog
from tidelake.errors import NotFoundError, near_names


@dataclass(frozen=True, slots=True, eq=False)
class EpochFrames(Mapping[str, DataFrame]):
    """Targets as one epoch left them, by ``database.table``; each reads its snapshot.

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
        Targets that do not show this position, and why.
    """

    epoch: int
    position: str
    is_whole: bool | None
    note: str
    snapshots: Mapping[str, int]
    behind: Mapping[str, str]
    _read: Callable[[str, int], DataFrame] = field(repr=False)

    def __getitem__(self, name: str) -> DataFrame:
        if name not in self.snapshots:
            why = f": {self.behind[name]}" if name in self.behind else ""
            hint = near_names(name, self.snapshots) or f" There are: {', '.join(self.snapshots)}."
            message = f"Epoch {self.epoch} has no table '{name}'{why}.{hint}"
            raise NotFoundError(message, kind="table_not_found", table=name)
        return self._read(name, self.snapshots[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.snapshots)

    def __len__(self) -> int:
        return len(self.snapshots)


def epoch_frames(
    catalog: Catalog, job: str, epoch: int | None, read: Callable[[str, int], DataFrame]
) -> EpochFrames:
    """Find an epoch of a job; see :meth:`tidelake.spark.Lake.at_epoch`.

    Parameters
    ----------
    read : callable
        Gives the DataFrame of a table at a snapshot.
    """
    found = epochs_of(catalog, job).at(epoch)
    return EpochFrames(
        found.epoch,
        found.position,
        found.is_whole,
        found.note,
        found.snapshots,
        found.behind,
        read,
    )
