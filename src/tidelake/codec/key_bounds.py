"""Bounds that cut rows into ranges of their keys, chosen by a sample.

Keys compare as :mod:`tidelake.codec.key_order` says. Cost: a bisection of the bounds per row, and a
stable sort of the rows by the number of their range.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.key_order import encode_keys, key_widths
from tidelake.types.data_type import DataType


@dataclass(frozen=True, slots=True)
class KeyBounds:
    """Where ranges begin, but the first. Picklable.

    Parameters
    ----------
    columns : tuple of pyarrow.Array [m]
        The key columns of the bounds, which rise.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> sample = [pa.array([5, 1, 9, 7])]
    >>> bounds = KeyBounds.of_sample(sample, [parse_type("BIGINT NOT NULL")], ranges_count=2)
    >>> [(number, rows.tolist()) for number, rows in bounds.cut([pa.array([8, 2, 6])])]
    [(0, [1, 2]), (1, [0])]
    """

    columns: tuple[pa.Array, ...]
    types: tuple[DataType, ...]

    @classmethod
    def of_sample(
        cls, columns: Sequence[pa.Array], types: Sequence[DataType], *, ranges_count: int
    ) -> KeyBounds:
        """Choose bounds of ranges of even size; fewer where a sample repeats a key."""
        keys = encode_keys(columns, types, key_widths(columns, types))
        order = np.argsort(keys, kind="stable")
        at = order[np.arange(1, ranges_count) * len(order) // ranges_count] if len(order) else order
        distinct = at[np.unique(keys[at], return_index=True)[1]]
        rows = pa.array(distinct)
        return cls(tuple(column.take(rows) for column in columns), tuple(types))

    @property
    def ranges_count(self) -> int:
        """How many ranges there are."""
        return len(self.columns[0]) + 1

    def cut(self, columns: Sequence[pa.Array]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        """Give each range that has rows, and their positions in order."""
        widths = tuple(
            map(max, key_widths(columns, self.types), key_widths(self.columns, self.types))
        )
        keys = encode_keys(columns, self.types, widths)
        numbers = np.searchsorted(encode_keys(self.columns, self.types, widths), keys, side="right")
        order = np.argsort(numbers, kind="stable")
        found, starts = np.unique(numbers[order], return_index=True)
        yield from zip(found.tolist(), np.split(order, starts[1:]), strict=True)
