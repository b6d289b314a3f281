"""Statistics of a closed data file as manifests store them.

With ``metadata.stats-dense-store`` they cover the table's columns that have statistics; if all
have, the list of columns is left out (``_VALUE_STATS_COLS`` null). Without it they cover all
columns, and columns without statistics are unknown (null).
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.codec.binary_row import serialize_row
from tidelake.errors import UnsupportedError
from tidelake.format import ColumnStats
from tidelake.metadata.data_file import EMPTY_STATS, SimpleStats
from tidelake.store.context import StoreContext
from tidelake.types import DataField

SEQUENCE_NUMBER_MAX = 2**63 - 1


def check_sequence_numbers(context: StoreContext, first: int, count: int, where: str) -> None:
    """Refuse rows for which a bucket has no sequence numbers left; none of them is written yet.

    Parameters
    ----------
    first : int
        The number of the first row.

    Raises
    ------
    UnsupportedError
        The last number would exceed 64 bits. No table gets there by its rows: another writer
        wrote such a number. The table can still be read and compacted.
    """
    if first + count - 1 > SEQUENCE_NUMBER_MAX:
        message = (
            f"Table '{context.options.table}': a file in {where} has the sequence number"
            f" {first - 1}, so {count} more rows would need numbers above {SEQUENCE_NUMBER_MAX}."
            " Nothing was written. The table can be read: write its rows again with"
            " mode='overwrite', which counts from 0 again."
        )
        raise UnsupportedError(message, kind="sequence_number", table=context.options.table)


def simple_stats(fields: Sequence[DataField], stats: Sequence[ColumnStats]) -> SimpleStats:
    """Give the statistics of some columns as rows.

    Parameters
    ----------
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
    """Return the local wall clock as if it were UTC: Paimon stores this."""
    clock = context.env.clock
    return clock.now_ms() + clock.local_offset_ms()
