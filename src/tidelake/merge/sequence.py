"""User sequence fields (``sequence.field``) as arrays that compare in the order of the rows.

Rules, from Paimon's ``UserDefinedSeqComparator`` and its generated row comparator (1.3.1):

- fields compare one after the other; null is smaller than every value;
- ``sequence.field.sort-order = descending`` turns the comparison of two values around, but not
  that of a value with null: a null never wins over a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.key_order import encode_keys, key_widths
from tidelake.merge.segments import RankOf
from tidelake.merge.spec import MergeSpec
from tidelake.types import DataType


def rank_rows(rows: pa.Table, spec: MergeSpec, *, sequence_column: str) -> RankOf:
    """Return the function that ranks some of `rows`: user sequence fields, then sequence number."""

    def rank(positions: npt.NDArray[np.int64]) -> Sequence[npt.NDArray[Any]]:
        places = pa.array(positions)
        ranks: list[npt.NDArray[Any]] = []
        for name, data_type in zip(spec.sequence_columns, spec.sequence_types, strict=True):
            column = pa.concat_arrays(rows.column(name).chunks).take(places)
            ranks += rank_column(column, data_type, descending=spec.sequence_descending)
        chunks = rows.column(sequence_column).chunks
        numbers = np.concatenate([chunk.to_numpy() for chunk in chunks])
        return [*ranks, numbers[positions]]

    return rank


def rank_column(
    column: pa.Array, data_type: DataType, *, descending: bool
) -> list[npt.NDArray[Any]]:
    """Give arrays, most significant first, that order the rows by one sequence field.

    Parameters
    ----------
    column : pyarrow.Array [n]
        The field's values, nulls allowed.
    descending : bool
        Whether smaller values rank higher.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> column, data_type = pa.array([3, None]), parse_type("BIGINT")
    >>> [rank.tolist() for rank in rank_column(column, data_type, descending=False)]
    [[True, False], [3, 3]]
    """
    ranks: list[npt.NDArray[Any]] = []
    if column.null_count:
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        ranks.append(valid)
        if column.null_count == len(column):
            return ranks
        column = column.fill_null(column[int(np.argmax(valid))])
    types = [data_type.not_null()]
    values = encode_keys([column], types, key_widths([column], types))
    ranks.append(_reversed(values) if descending else values)
    return ranks


def _reversed(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if values.dtype.kind in "iu":
        return np.invert(values)
    return np.invert(values.view(np.uint8)).view(values.dtype)  # same width: bytes compare alike
