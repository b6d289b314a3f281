"""Limits of one batch of a stream: the most that it holds, the least that it waits for.

A batch ends before the unit that would exceed a limit. It has at least one unit: a unit larger than
a limit makes a batch of its own. The options' names are those of Paimon's ``SparkConnectorOptions``
(1.3.1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidelake.errors import InvalidInputError
from tidelake.options import Options, declared


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits of one batch; None is no limit.

    Parameters
    ----------
    files, bytes, rows : int, optional
        The most files, bytes of files, and stored rows.
    max_delay_ms : int, optional
        The longest wait after the commit of the first rows, ms.
    """

    files: int | None = None
    bytes: int | None = None
    rows: int | None = None
    min_rows: int | None = None
    max_delay_ms: int | None = None

    @classmethod
    def of(cls, options: Options, *, table: str) -> ReadLimits:
        """The limits that options set.

        Raises
        ------
        InvalidInputError
            Only one of the least number of rows and the longest wait is set.
        """
        min_rows = options.get(declared.READ_STREAM_MINROWSPERTRIGGER)
        max_delay_ms = options.get(declared.READ_STREAM_MAXTRIGGERDELAYMS)
        if (min_rows is None) != (max_delay_ms is None):
            keys = (declared.READ_STREAM_MINROWSPERTRIGGER, declared.READ_STREAM_MAXTRIGGERDELAYMS)
            names = " and ".join(f"'{option.key}'" for option in keys)
            message = f"Stream of table '{table}': set both or neither of {names}."
            raise InvalidInputError(message, kind="stream_limits", table=table)
        return cls(
            options.get(declared.READ_STREAM_MAXFILESPERTRIGGER),
            options.get(declared.READ_STREAM_MAXBYTESPERTRIGGER),
            options.get(declared.READ_STREAM_MAXROWSPERTRIGGER),
            min_rows,
            max_delay_ms,
        )

    @property
    def bounds_a_batch(self) -> bool:
        """Whether a batch may have to end before the newest snapshot."""
        return not (self.files is None and self.bytes is None and self.rows is None)

    @property
    def needs_sizes(self) -> bool:
        """Whether the sizes of snapshots must be read."""
        return self.bounds_a_batch or self.min_rows is not None


NO_LIMITS = ReadLimits()


class Admission:
    """Counts the files, bytes and rows of a batch."""

    def __init__(self, limits: ReadLimits) -> None:
        self._limits = limits
        self.units_count = 0
        self.files = self.bytes = self.rows = 0

    def take(
        self, files: NDArray[np.int64], sizes: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> int:
        """Add units in order while they fit; return how many were added.

        Parameters
        ----------
        files, sizes, rows : int64 array
            Of each unit: files, bytes, rows.
        """
        count = len(files)
        limits = self._limits
        for taken, most, values in (
            (self.files, limits.files, files),
            (self.bytes, limits.bytes, sizes),
            (self.rows, limits.rows, rows),
        ):
            if most is not None:
                fits = int(np.searchsorted(np.cumsum(values), most - taken, side="right"))
                count = min(count, fits)
        if not self.units_count and not count:
            count = min(1, len(files))
        self.units_count += count
        self.files += int(files[:count].sum())
        self.bytes += int(sizes[:count].sum())
        self.rows += int(rows[:count].sum())
        return count
