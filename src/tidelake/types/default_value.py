"""Default values: written instead of nulls.

A column's default is a text. It is cast to the column's type like the text of an old file, without
surrounding quotes. It replaces every null that is written, given or omitted, and changes no
existing row. NOT NULL is checked first: a null in such a column is still refused.

Source: Paimon's ``DefaultValueRow``, ``DefaultValueUtils`` and ``TableWriteImpl`` (1.3.1), which
handle only top-level columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from tidelake.types.cast import cast_values
from tidelake.types.data_type import DataType, parse_type
from tidelake.types.schema import DataField

_STRING = parse_type("STRING")

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


def default_scalar(text: str, data_type: DataType, *, zone: str | None) -> pa.Scalar:
    """Return a default as a value of the column's type.

    Raises
    ------
    InvalidInputError
        The text is not a value of the type.
    UnsupportedError
        Values of the type cannot be read from text.

    Examples
    --------
    >>> default_scalar("'7'", parse_type("INT"), zone=None).as_py()
    7
    """
    if text.startswith("'") and text.endswith("'"):
        text = text[1:-1]
    return cast_values(pa.array([text]), _STRING, data_type, zone=zone)[0]


def default_scalars(fields: Sequence[DataField], *, zone: str | None) -> Mapping[int, pa.Scalar]:
    """The defaults of columns, by their index; empty if no column has any."""
    return {
        place: default_scalar(field.default_value, field.type, zone=zone)
        for place, field in enumerate(fields)
        if field.default_value is not None
    }


def filled_in(rows: Rows, defaults: Mapping[int, pa.Scalar]) -> Rows:
    """Replace nulls by the defaults.

    Examples
    --------
    >>> rows = pa.record_batch({"a": pa.array([1, None])})
    >>> filled_in(rows, {0: pa.scalar(9)}).to_pylist()
    [{'a': 1}, {'a': 9}]
    """
    for place, default in defaults.items():
        column = rows.column(place)
        if column.null_count and default.is_valid:
            field = rows.schema.field(place)
            rows = rows.set_column(place, field, pc.fill_null(column, default))
    return rows
