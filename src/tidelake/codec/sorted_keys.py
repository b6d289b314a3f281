"""Finds sorted keys in batches of keys, which mostly rise, by bisection.

Keys are encoded (:mod:`tidelake.codec.key_order`) with the width of their longest text. A row of a
batch with a longer text is none of them, and left out: so a batch cannot widen the sorted keys.
Cost: a bisection per key of the smaller side's range. Memory: the sorted keys twice, as columns and
encoded, and a batch as wide as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.codec.arrow_memory import contiguous
from tidelake.codec.key_order import encode_keys, key_widths
from tidelake.types.data_type import DataType

Places = npt.NDArray[np.intp]


class SortedKeys:
    """Keys, sorted once.

    Parameters
    ----------
    columns : sequence of pyarrow.Array [n]
        The key columns, most significant first, in any order of rows.
    ordinals : int array [n], optional
        The ordinal of each key; by default its index.
    """

    def __init__(
        self,
        columns: Sequence[pa.Array],
        types: Sequence[DataType],
        ordinals: Places | None = None,
    ) -> None:
        self._types = types
        self._widths = key_widths(columns, types)
        order = np.argsort(encode_keys(columns, types, self._widths), kind="stable")
        self._columns = [column.take(pa.array(order)) for column in columns]
        self._ordinals = order if ordinals is None else ordinals[order]
        self._keys = encode_keys(self._columns, types, self._widths)

    @property
    def key_bytes(self) -> int:
        """Bytes of an encoded key."""
        return self._keys.itemsize

    def repeated(self) -> int | None:
        """Give the ordinal of a repeated key; None if all keys are distinct.

        Examples
        --------
        >>> from tidelake.types import parse_type
        >>> types = [parse_type("BIGINT NOT NULL")]
        >>> SortedKeys([pa.array([9, 2, 9])], types).repeated()
        2
        """
        again = np.flatnonzero(self._keys[1:] == self._keys[:-1])
        return int(self._ordinals[again[0] + 1]) if len(again) else None

    def found_in(
        self, columns: Sequence[pa.Array], *, rising: bool = True
    ) -> tuple[Places, Places]:
        """Look the keys up in a batch.

        Requires: no key is in the batch twice, and there is at least one.

        Parameters
        ----------
        columns : sequence of pyarrow.Array [m]
            The key columns of the batch.
        rising : bool
            Whether the batch's keys rise; else they are sorted first.

        Returns
        -------
        ordinals : int array
            Ordinals of the keys that the batch has.
        positions : int array
            Their positions in the batch.

        Examples
        --------
        >>> from tidelake.types import parse_type
        >>> keys = SortedKeys([pa.array([9, 2, 5])], [parse_type("BIGINT NOT NULL")])
        >>> ordinals, positions = keys.found_in([pa.array([1, 2, 9])])
        >>> ordinals.tolist(), positions.tolist()
        ([1, 0], [1, 2])
        """
        longer = [
            pc.greater(pc.binary_length(contiguous(column, data_type)), own)
            for column, data_type, own, width in zip(
                columns, self._types, self._widths, key_widths(columns, self._types), strict=True
            )
            if width > own
        ]
        if not longer:
            return self._found(columns, rising)
        is_longer = np.zeros(len(columns[0]), np.bool_)
        for flags in longer:
            is_longer |= flags.fill_null(False).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(~is_longer)
        if not len(rows):
            return np.empty(0, np.intp), np.empty(0, np.intp)
        ordinals, positions = self._found(
            [column.take(pa.array(rows)) for column in columns], rising
        )
        return ordinals, rows[positions]

    def _found(self, columns: Sequence[pa.Array], rising: bool) -> tuple[Places, Places]:  # noqa: FBT001
        """The same, where no text is longer than those sought."""
        keys: npt.NDArray[Any] = encode_keys(columns, self._types, self._widths)
        order: Places | None = None
        if not rising:
            order = np.argsort(keys)
            keys = keys[order]
        begin = np.searchsorted(self._keys, keys[0], side="left")
        end = np.searchsorted(self._keys, keys[-1], side="right")
        sought = self._keys[begin:end]
        positions = np.searchsorted(keys, sought)
        hit = np.flatnonzero(keys[positions] == sought)
        positions = positions[hit] if order is None else order[positions[hit]]
        return self._ordinals[begin:end][hit], positions
