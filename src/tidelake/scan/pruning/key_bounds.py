"""What is known of rows by a set of keys: a condition that prunes files and row groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidelake.types import DataField, TypeRoot
from tidelake.types.predicate import And, Compare, In, Predicate, bind

KEYS_LISTED_MAX = 1_000
"""Up to so many keys prune files by their values, more of them by their bounds."""
BOUNDED_TYPES = frozenset(
    {
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INT,
        TypeRoot.BIGINT,
        TypeRoot.VARCHAR,
        TypeRoot.DATE,
    }
)
"""Types whose values compare in files as in SQL."""


def key_bounds(
    rows: pa.RecordBatch | pa.Table, keys: Sequence[DataField], fields: Sequence[DataField]
) -> Iterator[Predicate]:
    """Find conditions that every row with one of some keys satisfies.

    Requires: there is a key, and no key has a null.

    Parameters
    ----------
    rows : RecordBatch or Table
        The keys.
    keys, fields : sequence of DataField
        The key columns, and those that the conditions are bound to.
    """
    for field in keys:
        if field.type.root not in BOUNDED_TYPES:
            continue
        column = rows.column(field.name)
        if rows.num_rows <= KEYS_LISTED_MAX:
            yield bind(In(field.name, tuple(sorted(column.unique().to_pylist()))), fields)
            continue
        bounds = pc.min_max(column)
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        yield bind(And((Compare(">=", field.name, low), Compare("<=", field.name, high))), fields)
