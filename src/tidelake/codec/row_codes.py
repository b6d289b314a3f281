"""Numbers rows: two rows have the same number exactly if they are equal.

A column of scalars takes the numbers of its dictionary. A struct combines the numbers of its
fields. The numbers of a list's elements are one byte string, and the dictionary of these strings
numbers the lists. A map is the list of its entries in key order, so the order of writing does not
count. Floats are compared by their bits: NaN equals NaN, and -0.0 is not 0.0.

Notes: O(n log n) and vectorised; numbers of two calls are unrelated.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.types.nested import list_parts, struct_children

Codes = npt.NDArray[np.int64]


def row_codes(rows: pa.Table) -> Codes:
    """Number the rows of a table.

    Examples
    --------
    >>> row_codes(pa.table({"a": [1, 2, 1], "b": [[1], None, [1]]})).tolist()
    [0, 1, 0]
    """
    columns = [pa.concat_arrays(c.chunks) for c in rows.columns if c.num_chunks]
    return _combined((column_codes(c) for c in columns), rows.num_rows)


def column_codes(array: pa.Array) -> Codes:
    """Number the values of a column."""
    if pa.types.is_struct(array.type):
        codes = _combined((column_codes(c) for c in struct_children(array)), len(array))
    elif pa.types.is_nested(array.type):
        codes = _sequence_codes(array)
    else:
        if pa.types.is_floating(array.type):
            array = array.view(pa.int64() if array.type == pa.float64() else pa.int32())
        encoded = pc.dictionary_encode(array, null_encoding="encode")
        return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    codes[array.is_null().to_numpy(zero_copy_only=False)] = -1
    return codes


def rows_differ(left: pa.RecordBatch, right: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Find rows that differ between two batches of equal shape; null equals null, NaN NaN.

    Examples
    --------
    >>> a = pa.record_batch({"x": [1.0, None, float("nan")]})
    >>> b = pa.record_batch({"x": [1.0, 2.0, float("nan")]})
    >>> rows_differ(a, b).tolist()
    [False, True, False]
    """
    differ = np.zeros(left.num_rows, dtype=bool)
    for a, b in zip(left.columns, right.columns, strict=True):
        if pa.types.is_nested(a.type):
            codes = column_codes(pa.concat_arrays([a, b]))
            differ |= codes[: len(a)] != codes[len(a) :]
            continue
        same = pc.fill_null(pc.equal(a, b), False)
        same = pc.or_(same, pc.and_(pc.is_null(a), pc.is_null(b)))
        if pa.types.is_floating(a.type):
            both_nan = pc.and_(pc.is_nan(a), pc.is_nan(b))
            same = pc.or_(same, pc.fill_null(both_nan, False))
        differ |= ~same.to_numpy(zero_copy_only=False)
    return differ


def _combined(columns: Iterable[Codes], rows_count: int) -> Codes:
    codes = np.zeros(rows_count, dtype=np.int64)
    for own in columns:
        both = (codes - codes.min(initial=0)) * (own.max(initial=0) + 2) + own + 1
        codes = np.unique(both, return_inverse=True)[1].astype(np.int64)
    return codes


def _sequence_codes(array: pa.Array) -> Codes:
    parts = list_parts(array)
    offsets = parts.offsets.to_numpy()
    inside = [column_codes(c) for c in parts.children]
    codes = _combined(inside, int(offsets[-1]))
    if len(inside) == 2:
        rows = np.repeat(np.arange(len(array)), np.diff(offsets))
        codes = codes[np.lexsort((codes, inside[0], rows))]
    memory = [None, pa.py_buffer(offsets.astype(np.int64) * codes.itemsize), pa.py_buffer(codes)]
    texts = pa.Array.from_buffers(pa.large_binary(), len(array), memory)
    encoded = pc.dictionary_encode(texts)
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
