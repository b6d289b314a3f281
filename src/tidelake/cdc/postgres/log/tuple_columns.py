"""Rows of pgoutput to columns of texts, for many rows of one version of a table at once.

A row is, all numbers big endian::

    2  number of columns; of each:
       1  't' text, 'n' null, 'u' unchanged and not sent
       4  length, only of a text
       .. the text

Where a column begins depends on the lengths before it, so the columns are taken one after the
other, each for all rows: the work is a few array operations a column, not one step a value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelake.cdc.postgres.log.log_messages import big_endian

_TEXT, _UNCHANGED = ord("t"), ord("u")
LENGTH_GATHERED_MAX = 128
"""Mean bytes of texts that are gathered byte by byte; longer ones are cut out one by one."""


@dataclass(frozen=True, slots=True)
class TextColumn:
    """One column of some rows.

    Parameters
    ----------
    texts : pyarrow.Array
        Null for a null and for a value that was not sent.
    unchanged : numpy.ndarray or None
        Whether each value was not sent; None where all were.
    """

    texts: pa.Array
    unchanged: NDArray[np.bool_] | None = None


def read_columns(
    data: NDArray[np.uint8], at: NDArray[np.int64], count: int
) -> tuple[list[TextColumn], NDArray[np.int64]]:
    """Read rows.

    Parameters
    ----------
    at : numpy.ndarray
        ``[n]``: where each row begins.
    count : int
        Columns of each row.

    Returns
    -------
    columns : list of TextColumn
    ends : numpy.ndarray
        ``[n]``: where each row ends.
    """
    at = at + 2
    columns = []
    for _ in range(count):
        marks = data[at]
        is_text = marks == _TEXT
        if is_text.all():
            lengths = big_endian(data, at + 1, 4)
            columns.append(TextColumn(_gather(data, at + 5, lengths, None)))
            at = at + 5 + lengths
            continue
        lengths = np.where(is_text, big_endian(data, np.where(is_text, at + 1, 0), 4), 0)
        unchanged = marks == _UNCHANGED
        texts = _gather(data, at + 5, lengths, is_text)
        columns.append(TextColumn(texts, unchanged if unchanged.any() else None))
        at = at + 1 + np.where(is_text, 4 + lengths, 0)
    return columns, at


def _gather(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    valid: NDArray[np.bool_] | None,
) -> pa.Array:
    """Texts at places of the bytes, as an Arrow array."""
    offsets = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    total = int(offsets[-1])
    if total <= LENGTH_GATHERED_MAX * len(starts):
        places = np.arange(total, dtype=np.int64)
        places += np.repeat(starts - offsets[:-1], lengths)
        values = pa.py_buffer(data[places])
    else:
        # one index a byte would take eight times the memory of the texts
        view = data.data
        ends = (starts + lengths).tolist()
        cuts = [view[a:b] for a, b in zip(starts.tolist(), ends, strict=True)]
        values = pa.py_buffer(b"".join(cuts))
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.utf8(), len(starts), [bits, pa.py_buffer(offsets), values])
