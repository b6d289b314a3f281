"""Partition statistics of a manifest, by which a scan skips whole manifests."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tidelake.codec.binary_row import decode_row, serialize_row
from tidelake.metadata.data_file import EMPTY_STATS, SimpleStats
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.types import DataType


def partition_stats(table: EntryTable, types: Sequence[DataType]) -> SimpleStats:
    """Smallest and largest value and number of nulls of each partition column.

    Parameters
    ----------
    table : EntryTable
        The entries; each counts, so that a partition with two files counts twice.

    Returns
    -------
    SimpleStats
        The statistics of no columns for a table without partitions.
    """
    if not types:
        return EMPTY_STATS
    used, counts = np.unique(table["partition_id"], return_counts=True)
    rows = [decode_row(table.partitions[i], types) for i in used]
    lows, highs, nulls = [], [], []
    for column in zip(*rows, strict=True):
        values = sorted((v for v in column if v is not None), key=_order)
        lows.append(values[0] if values else None)
        highs.append(values[-1] if values else None)
        nulls.append(int(counts[[v is None for v in column]].sum()))
    return SimpleStats(serialize_row(lows, types), serialize_row(highs, types), tuple(nulls))


def _order(value: object) -> tuple[object, ...]:
    """Java's order: -0.0 before 0.0 and NaN last; strings by code point, which is UTF-8's order."""
    if isinstance(value, float):
        return (1, 0.0, 0.0) if math.isnan(value) else (0, value, math.copysign(1, value))
    return (value,)
