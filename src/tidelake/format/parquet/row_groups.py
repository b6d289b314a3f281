"""Finds the row groups of a Parquet file that may match a predicate.

A row group is skipped only if its statistics prove that no row matches. Some statistics count as
unknown: those of FLOAT and DOUBLE columns (other writers leave NaN out, ours write none), those of
columns that are cast, and a bound that is not a value of the type.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.parquet as pq

from tidelake.format.field_id_mapping import ColumnOrigin
from tidelake.format.footer_bounds import footer_bounds
from tidelake.types import TypeRoot
from tidelake.types.predicate import ColumnRange, Predicate, columns_of, may_match

_WITHOUT_BOUNDS = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})


def matching_row_groups(
    metadata: pq.FileMetaData, sources: Sequence[ColumnOrigin], predicate: Predicate | None
) -> list[int]:
    """List the row groups to read, in order.

    Parameters
    ----------
    sources : sequence of ColumnOrigin
        The origins of the predicate's columns, perhaps of others too.
    predicate : Predicate, optional
        Bound; None keeps all.
    """
    groups = range(metadata.num_row_groups)
    if predicate is None:
        return list(groups)
    names = columns_of(predicate)
    wanted = [s for s in sources if s.field.name in names]
    leaves = {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}
    return [
        g for g in groups if may_match(predicate, _ranges(metadata.row_group(g), wanted, leaves))
    ]


def _ranges(
    group: pq.RowGroupMetaData, sources: Sequence[ColumnOrigin], leaves: dict[str, int]
) -> dict[str, ColumnRange]:
    rows = group.num_rows
    ranges = {}
    for source in sources:
        if source.constant is not None:
            ranges[source.field.name] = ColumnRange(None, None, None, rows)
        elif source.file_name is None:
            ranges[source.field.name] = ColumnRange(None, None, rows, rows)
        elif source.file_name in leaves:
            statistics = group.column(leaves[source.file_name]).statistics
            ranges[source.field.name] = _range(source, statistics, rows)
    return ranges


def _range(source: ColumnOrigin, statistics: pq.Statistics | None, rows: int) -> ColumnRange:
    if statistics is None:
        return ColumnRange(None, None, None, rows)
    null_count = statistics.null_count if statistics.has_null_count else None
    known = source.file_type == source.target and source.field.type.root not in _WITHOUT_BOUNDS
    bounds = footer_bounds(statistics, source.target) if known else None
    if bounds is None:
        return ColumnRange(None, None, null_count, rows)
    return ColumnRange(*bounds, null_count, rows)
