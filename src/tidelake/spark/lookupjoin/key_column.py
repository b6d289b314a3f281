"""Keys as Spark gives them in the kernel's types."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidelake.types import DataField, DataType, TypeRoot
from tidelake.types.arrow import to_arrow_schema

_TEXTS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_BYTES = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})


def present_keys(
    columns: Sequence[pa.Array], fields: Sequence[DataField]
) -> tuple[pa.RecordBatch, pa.BooleanArray | None]:
    """Return keys that a table may hold, and which of the rows have one.

    A null is equal to nothing; nor is a time finer than the key's type, or a text longer than it.

    Parameters
    ----------
    columns : sequence of Array
        In Spark's types, one per column of the key.

    Returns
    -------
    RecordBatch
        Without nulls, with the types of the key.
    BooleanArray or None
        Which rows these are; None if all.
    """
    schema = to_arrow_schema([DataField(f.id, f.name, f.type.not_null()) for f in fields])
    arrays = [
        _fitting(_typed(c, t), f.type)
        for c, t, f in zip(columns, schema.types, fields, strict=True)
    ]
    missing = [a for a in arrays if a.null_count]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    if not missing:
        return batch, None
    valid = missing[0].is_valid()
    for array in missing[1:]:
        valid = pc.and_(valid, array.is_valid())
    return batch.filter(valid), valid


def _typed(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if column.type == wanted:
        return column
    typed = pc.cast(column, wanted, safe=False)
    if not pa.types.is_temporal(wanted):
        return typed
    same = pc.equal(pc.cast(typed, column.type, safe=False), column)
    return typed if pc.all(same).as_py() is not False else pc.if_else(same, typed, None)


def _fitting(column: pa.Array, wanted: DataType) -> pa.Array:
    """A column of text or bytes with nulls in place of what no key of this type can be."""
    if wanted.root in _TEXTS:
        lengths = pc.utf8_length(column)
    elif wanted.root in _BYTES:
        lengths = pc.binary_length(column)
    else:
        return column
    fits = pc.less_equal(lengths, pa.scalar(wanted.length, lengths.type))
    return column if pc.all(fits).as_py() is not False else pc.if_else(fits, column, None)
