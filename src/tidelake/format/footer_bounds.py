"""The bounds in a Parquet footer as storage values."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def footer_bounds(
    statistics: pq.Statistics | None, arrow_type: pa.DataType
) -> tuple[object, object] | None:
    """Return the smallest and the largest value of a column in one row group.

    Returns
    -------
    tuple of storage values, or None
        None if the footer has no bounds, or one that is not a value of the type (a writer may cut
        a text inside a character).
    """
    if statistics is None or not statistics.has_min_max:
        return None
    try:
        # the raw values: Arrow's own conversion loses nanoseconds and fails beyond the year 9999
        low = _stored(statistics.min_raw, arrow_type)
        high = _stored(statistics.max_raw, arrow_type)
    except UnicodeDecodeError:
        return None
    return low, high


def _stored(raw: object, arrow_type: pa.DataType) -> object:
    if isinstance(raw, bytes):
        if pa.types.is_decimal(arrow_type):
            return int.from_bytes(raw, "big", signed=True)
        return raw.decode() if _is_text(arrow_type) else raw
    if isinstance(raw, int) and pa.types.is_timestamp(arrow_type):
        return raw * _NANOS[arrow_type.unit]
    return raw


def _is_text(arrow_type: pa.DataType) -> bool:
    """Whether values are texts, in whichever layout of Arrow."""
    kinds = pa.types
    return (
        kinds.is_string(arrow_type)
        or kinds.is_large_string(arrow_type)
        or kinds.is_string_view(arrow_type)
    )
