"""Collects the distinct values of one column of one file, and the rows of each.

1. Keys of a fixed width are kept for each row, in that width. Byte strings are kept as a dictionary
   for each batch and a code for each row.
2. At the end the keys are sorted once; every row gets the rank of its key.

Memory: the width (4 bytes for byte strings) per row, and the distinct values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.format.file_index.index_key import IndexKeyForm

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DistinctValues:
    """The result of :class:`DistinctRows`.

    Parameters
    ----------
    keys : int64 array or list of bytes
        The distinct keys, rising.
    groups, positions : int64 arrays [rows that are not null]
        Rank of the key and position of the row, sorted by both.
    """

    row_count: int
    keys: Numbers | list[bytes]
    groups: Numbers
    positions: Numbers
    nulls: Numbers

    def codes(self) -> tuple[Numbers, Numbers]:
        """Return ranks and positions in the order of the rows."""
        order = np.argsort(self.positions)
        return self.groups[order], self.positions[order]


class DistinctRows:
    """Collects a column batch by batch."""

    def __init__(self, form: IndexKeyForm) -> None:
        self._form = form
        self.size_bytes = 0
        self._row_count = 0
        self._parts: list[npt.NDArray[np.generic]] = []
        self._texts: list[pa.DictionaryArray] = []
        self._nulls: list[Numbers] = []

    def add(self, values: pa.Array) -> None:
        """Add the next rows."""
        if values.null_count:
            nulls = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))
            self._nulls.append(nulls + self._row_count)
            self.size_bytes += nulls.nbytes
        self._row_count += len(values)
        present = values.drop_null()
        if not len(present):
            return
        if self._form.is_bytes:
            texts = pc.dictionary_encode(present.cast(pa.large_binary()))
            self._texts.append(texts)
            self.size_bytes += texts.nbytes
        else:
            part = self._form.keys(present).astype(f"i{self._form.width}")
            self._parts.append(part)
            self.size_bytes += part.nbytes

    def finish(self) -> DistinctValues:
        """Return the result."""
        nulls = np.concatenate(self._nulls) if self._nulls else np.zeros(0, np.int64)
        keys, ranks = self._texts_ranked() if self._form.is_bytes else self._numbers_ranked()
        present = np.ones(self._row_count, np.bool_)
        present[nulls] = False
        order = np.argsort(ranks, kind="stable")
        positions = np.flatnonzero(present)[order]
        return DistinctValues(self._row_count, keys, ranks[order], positions, nulls)

    def _numbers_ranked(self) -> tuple[Numbers, Numbers]:
        parts = self._parts or [np.zeros(0, np.int64)]
        keys, ranks = np.unique(np.concatenate(parts), return_inverse=True)
        return keys.astype(np.int64), ranks.astype(np.int64)

    def _texts_ranked(self) -> tuple[list[bytes], Numbers]:
        if not self._texts:
            return [], np.zeros(0, np.int64)
        column = pa.chunked_array(self._texts).unify_dictionaries()
        dictionary = column.chunk(0).dictionary
        order = pc.array_sort_indices(dictionary).to_numpy().astype(np.int64)
        rank_of = np.empty(len(order), np.int64)
        rank_of[order] = np.arange(len(order))
        codes = np.concatenate([chunk.indices.to_numpy() for chunk in column.chunks])
        return dictionary.take(pa.array(order)).to_pylist(), rank_of[codes]
