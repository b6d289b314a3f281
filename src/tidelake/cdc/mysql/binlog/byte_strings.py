"""Values of variable length of all rows of a column at once, as Arrow's binary.

The values stay where they are: Arrow's views point into the buffer, and Arrow itself copies them
into a plain array. A view of at most 12 bytes holds the value.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelake.cdc.mysql.binlog.numbers import Bytes, Places, words

INLINE_MAX = 12


def byte_strings(
    buffer: Bytes, at: Places, sizes: NDArray[np.int64], ok: NDArray[np.bool_] | None
) -> pa.Array:
    """Gather the bytes of each row; requires: `buffer` is padded.

    Parameters
    ----------
    ok : numpy.ndarray or None
        Which rows have a value; None if all have.

    Returns
    -------
    pyarrow.Array
        binary.
    """
    sizes = sizes if ok is None else np.where(ok, sizes, 0)
    views = np.zeros((len(at), 2), np.uint64)
    head = words(buffer, at)
    is_inline = sizes <= INLINE_MAX
    # an inline view is size, then up to 12 bytes, the rest zero
    kept = np.minimum(sizes, 8).astype(np.uint64) * np.uint64(8)
    full = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
    mask = np.where(sizes >= 8, full, (np.uint64(1) << (kept % np.uint64(64))) - np.uint64(1))
    first = head & mask
    tail = np.clip(sizes - 8, 0, 4).astype(np.uint64) * np.uint64(8)
    last = words(buffer, at + 8) & ((np.uint64(1) << tail) - np.uint64(1))
    half = np.uint64(32)
    views[:, 0] = sizes.astype(np.uint64) | first << half
    views[:, 1] = np.where(is_inline, first >> half | last << half, at.astype(np.uint64) << half)
    bits = None if ok is None else pa.py_buffer(np.packbits(ok, bitorder="little"))
    found = pa.Array.from_buffers(
        pa.binary_view(), len(at), [bits, pa.py_buffer(views), pa.py_buffer(buffer)]
    )
    return found.cast(pa.binary())
