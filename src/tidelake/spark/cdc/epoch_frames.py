"""The tables of a job of change data capture as one epoch left them, as DataFrames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from tidelake.cdc.door import EpochView, epochs_of
from tidelake.engine.tables import Catalog


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EpochFrames(EpochView[DataFrame]):
    """Targets as one epoch left them, by ``database.table``; each reads its snapshot."""

    _read: Callable[[str, int], DataFrame]

    def opened(self, name: str) -> DataFrame:
        """Give the DataFrame of a table at its snapshot."""
        return self._read(name, self.snapshots[name])


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
