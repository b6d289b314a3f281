"""Makes a condition that prunes files from rows of keys: each column is one of their values."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from tidelake.types.predicate.node import In, Predicate, conjoin
from tidelake.types.schema import DataField
from tidelake.types.values import arrow_to_storage

VALUES_MAX = 1_000
"""A column with more distinct values than this gives no condition."""


def among_keys(keys: pa.Table | pa.RecordBatch, fields: Iterable[DataField]) -> Predicate | None:
    """Return a condition that is true for every row with one of these keys; None if there is none.

    It may be true for other rows too, because it tests each column separately.

    Parameters
    ----------
    fields : iterable of DataField
        The columns that the condition may name.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> keys = pa.table({"k": pa.array([1, 2, 1], pa.int32())})
    >>> among_keys(keys, [DataField(0, "k", parse_type("INT"))])
    In(column='k', literals=(1, 2))
    """
    parts = []
    for field in fields:
        values = keys.column(field.name).unique()
        if len(values) <= VALUES_MAX:
            parts.append(In(field.name, tuple(arrow_to_storage(values, field.type))))
    return conjoin(parts)
