"""Statistics of a closed data file in the form of the manifests.

With ``metadata.stats-dense-store`` they cover the table's columns that have any; where all have,
the list of columns is left out (``_VALUE_STATS_COLS`` null). Without it they cover all columns, and
those that have none are unknown (null).
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.codec.binary_row import serialize_row
from tidelake.format import ColumnStats
from tidelake.metadata.data_file import EMPTY_STATS, SimpleStats
from tidelake.store.context import StoreContext
from tidelake.types import DataField

__all__ = ["creation_time_ms", "simple_stats", "value_stats"]


def simple_stats(fields: Sequence[DataField], stats: Sequence[ColumnStats]) -> SimpleStats:
    """Give the statistics of some columns as rows.

    Parameters
    ----------
    fields : sequence of DataField
        The columns.
    stats : sequence of ColumnStats
        One per column.
    """
    if not fields:
        return EMPTY_STATS
    types = [field.type.as_nullable() for field in fields]
    return SimpleStats(
        serialize_row([s.min for s in stats], types),
        serialize_row([s.max for s in stats], types),
        tuple(s.null_count for s in stats),
    )


def value_stats(
    fields: Sequence[DataField], stats: Sequence[ColumnStats], *, dense: bool
) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """Give the statistics of the table's columns, and which columns they cover (None: all).

    Parameters
    ----------
    fields : sequence of DataField
        The columns.
    stats : sequence of ColumnStats
        One per column.
    dense : bool
        Whether columns without statistics are left out.
    """
    if not dense:
        return simple_stats(fields, stats), None
    covered = [
        (field, column)
        for field, column in zip(fields, stats, strict=True)
        if column.null_count is not None or column.min is not None or column.max is not None
    ]
    present = simple_stats([field for field, _ in covered], [column for _, column in covered])
    if len(covered) == len(fields):
        return present, None
    return present, tuple(field.name for field, _ in covered)


def creation_time_ms(context: StoreContext) -> int:
    """Give the local wall clock as if it were UTC, which is what Paimon stores."""
    clock = context.env.clock
    return clock.now_ms() + clock.local_offset_ms()
