"""Collects the smallest and largest value and the number of nulls of each column of a file.

1. Arrow reduces each row group's columns; at the end of the file the results of all row groups are
   reduced again. Bounds of text and DECIMAL columns are costly (a tenth of the write), so for a
   Parquet file they come from its footer, which lacks bounds of texts above 4096 bytes. Bounds of
   FLOAT and DOUBLE, which the footer lacks, come from numpy: 0.35 ms for a million values (Arrow:
   6.7 ms), with NaN.
2. Bounds are cut by the column's mode (:mod:`tidelake.format.stats_mode`).
3. A text bound is cut by Unicode code points. A cut largest value must not be below a value of the
   column. So its last code point is incremented, or dropped if it is the last one of Unicode. If no
   code point is left, the bound is unknown.
4. A FLOAT or DOUBLE column that holds NaN gets no bounds, because readers do not agree on the order
   of NaN. A zero bound is -0.0 below and 0.0 above, because some readers distinguish them. Binary
   columns have no bounds in Paimon.

Source: Paimon's ``SimpleColStatsCollector`` (1.3.1); ``docs/format/manifest.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelake.format.field_schema import leaves
from tidelake.format.footer_bounds import footer_bounds
from tidelake.format.stats_mode import NO_STATS, StatsMode
from tidelake.types import DataField, TypeRoot
from tidelake.types.arrow import to_arrow_type
from tidelake.types.values import arrow_to_storage

_CODE_POINT_MAX = 0x10FFFF
_SURROGATE_FIRST, _SURROGATE_LAST = 0xD800, 0xDFFF
_TEXT = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_FLOATING = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
_BOUNDS_IN_FOOTER = _TEXT | {TypeRoot.DECIMAL}
_WITHOUT_BOUNDS = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
_WITHOUT_STATS = frozenset(
    {TypeRoot.VARIANT, TypeRoot.ARRAY, TypeRoot.MULTISET, TypeRoot.MAP, TypeRoot.ROW}
)
"""Paimon has not even the number of nulls of these types."""


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """One column of one file.

    Parameters
    ----------
    min, max : storage value or None
        Bounds: no value is outside; None if unknown or if all values are null.
    null_count : int, optional
        None if unknown.
    """

    min: object
    max: object
    null_count: int | None


UNKNOWN_STATS = ColumnStats(None, None, None)


class StatsCollector:
    """Collects the statistics of one file, row group by row group.

    Parameters
    ----------
    fields : sequence of DataField
        The file's columns in order.
    modes : sequence of StatsMode
        The mode of each column; nested columns get no statistics.
    footer : bool
        Whether the file is Parquet, whose footer has the costly bounds.
    """

    def __init__(
        self, fields: Sequence[DataField], modes: Sequence[StatsMode], *, footer: bool
    ) -> None:
        self._footer = footer
        self._columns = [
            _Column(f, NO_STATS if f.type.root in _WITHOUT_STATS else m, footer=footer)
            for f, m in zip(fields, modes, strict=True)
        ]

    def add(self, row_group: pa.Table) -> None:
        """Add a row group; its columns are the file's, in order."""
        for column, values in zip(self._columns, row_group.columns, strict=True):
            column.add(values)

    def result(self, footer: pq.FileMetaData | None = None) -> tuple[ColumnStats, ...]:
        """Return the statistics of the finished file, one per column.

        Requires: the footer is given if, and only if, the file is Parquet.
        """
        assert (footer is not None) == self._footer, "the footer has bounds that were not collected"
        if footer is None:
            return tuple(column.result([]) for column in self._columns)
        groups = [footer.row_group(g) for g in range(footer.num_row_groups)]
        leaf, found = 0, []
        for column in self._columns:
            found.append(column.result([group.column(leaf).statistics for group in groups]))
            leaf += column.leaves_count
        return tuple(found)


class _Column:
    def __init__(self, field: DataField, mode: StatsMode, *, footer: bool) -> None:
        self._type = field.type
        self._arrow_type = to_arrow_type(field.type)
        self._mode = mode
        self._null_count = 0
        self._extremes: list[object] = []
        self._bounded = mode.bounds and field.type.root not in _WITHOUT_BOUNDS
        self.leaves_count = len(leaves(field))
        self._from_footer = footer and field.type.root in _BOUNDS_IN_FOOTER

    def add(self, values: pa.ChunkedArray) -> None:
        self._null_count += values.null_count
        if not self._bounded or values.null_count == len(values):
            return
        if self._type.root in _FLOATING:
            extremes = _float_extremes(values)
            self._bounded = not any(math.isnan(value) for value in extremes)
            self._extremes += extremes
        elif not self._from_footer:
            extremes = pc.min_max(values)
            array = pa.array([extremes["min"], extremes["max"]], type=values.type)
            self._extremes += arrow_to_storage(array, self._type)

    def result(self, groups: Sequence[pq.Statistics | None]) -> ColumnStats:
        if not self._mode.counts:
            return UNKNOWN_STATS
        unknown = ColumnStats(None, None, self._null_count)
        if not self._bounded:
            return unknown
        extremes: list[Any] = list(self._extremes)
        if self._from_footer:
            for group in groups:
                bounds = footer_bounds(group, self._arrow_type)
                if bounds is not None:
                    extremes += bounds
                elif group is None or group.num_values:
                    return unknown
        if not extremes:
            return unknown
        smallest, largest = min(extremes), max(extremes)
        length = self._mode.prefix_length
        if self._type.root in _TEXT and length is not None:
            smallest, largest = smallest[:length], truncated_max(largest, length)
        elif self._type.root in _FLOATING:
            smallest = -0.0 if smallest == 0 else smallest
            largest = 0.0 if largest == 0 else largest
        return ColumnStats(smallest, largest, self._null_count)


def _float_extremes(values: pa.ChunkedArray) -> list[float]:
    """Find the smallest and largest value; NaN if the column holds NaN. Requires: some value."""
    extremes: list[float] = []
    for chunk in values.chunks:
        if chunk.null_count < len(chunk):
            numbers = chunk.drop_null().to_numpy()
            extremes += [float(numbers.min()), float(numbers.max())]
    return extremes


def truncated_max(text: str, length: int) -> str | None:
    """Shorten a text to `length` code points so that it is not below the given one.

    Returns
    -------
    str or None
        None if no such text exists.

    Examples
    --------
    >>> truncated_max("abcdef", 3)
    'abd'
    >>> truncated_max("ab", 3)
    'ab'
    >>> truncated_max(chr(0x10FFFF) * 2, 1) is None
    True
    """
    if len(text) <= length:
        return text
    for end in range(length, 0, -1):
        code_point = ord(text[end - 1]) + 1
        if _SURROGATE_FIRST <= code_point <= _SURROGATE_LAST:
            code_point = _SURROGATE_LAST + 1  # surrogates are not characters and have no UTF-8
        if code_point <= _CODE_POINT_MAX:
            return text[: end - 1] + chr(code_point)
    return None
