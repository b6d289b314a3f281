"""The answer of a streaming query: its changes, as they come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

OP = "op"
"""The column with the kind of each change, as in Flink's client."""
ROW_KIND = "_row_kind"


class LiveAnswer(Protocol):
    """The batches of a streaming query; the end of the context stops it."""

    def __enter__(self) -> LiveAnswer: ...

    def __exit__(self, *_: object) -> None: ...

    def __iter__(self) -> Iterator[pa.Table]: ...


def with_op(batch: pa.Table, default: str) -> pa.Table:
    """Move the kinds of changes to the first column, ``op``.

    Parameters
    ----------
    batch : pyarrow.Table
        With or without a column ``_row_kind``.
    default : str
        The kind of rows without one.

    Examples
    --------
    >>> batch = pa.table({"id": [1], "_row_kind": ["-D"]})
    >>> with_op(batch, "+I").to_pylist()
    [{'op': '-D', 'id': 1}]
    """
    names = batch.schema.names
    if ROW_KIND in names:
        at = names.index(ROW_KIND)
        kinds, batch = batch.column(at), batch.remove_column(at)
    else:
        kinds = pa.chunked_array([pa.repeat(default, batch.num_rows)])
    return batch.add_column(0, OP, kinds)
