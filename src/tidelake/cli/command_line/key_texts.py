"""Reads keys of a table as a command line gives them."""

from __future__ import annotations

import csv
from collections.abc import Sequence

import pyarrow as pa

from tidelake.engine.env import local_zone
from tidelake.engine.tables import Table
from tidelake.errors import InvalidInputError, TidelakeError, counted, shortened
from tidelake.types.default_value import default_scalar


def keys_of(table: Table, texts: Sequence[str]) -> pa.RecordBatch:
    """Read keys from their texts.

    Parameters
    ----------
    texts : sequence of str
        Of several columns: values with commas between, in double quotes where they hold one.

    Returns
    -------
    pyarrow.RecordBatch
        The primary key's columns, in their order.

    Raises
    ------
    InvalidInputError
        The table has no primary key, a key has another number of values, or one is of another
        type.
    """
    if not table.primary_keys:
        message = f"Table '{table.identifier}' has no primary key, so it has no rows by key."
        raise InvalidInputError(message, kind="no_primary_key", table=table.identifier)
    fields = [table.table_schema.field(name) for name in table.primary_keys]
    values: list[list[pa.Scalar]] = [[] for _ in fields]
    for text in texts:
        parts = [text] if len(fields) == 1 else next(csv.reader([text]), [])
        if len(parts) != len(fields):
            message = (
                f"The key '{shortened(text)}' has {counted(len(parts), 'value')}, and the primary"
                f" key of '{table.identifier}' has {counted(len(fields), 'column')}:"
                f" {', '.join(table.primary_keys)}."
            )
            raise InvalidInputError(message, kind="key_arity", table=table.identifier)
        for column, field, part in zip(values, fields, parts, strict=True):
            try:
                column.append(default_scalar(part, field.type, zone=local_zone() or "UTC"))
            except TidelakeError as error:
                message = (
                    f"'{shortened(part)}' is no key for column '{field.name}': {error.message}"
                )
                raise InvalidInputError(message, kind="key_type", column=field.name) from error
    schema = pa.schema([table.schema.field(name) for name in table.primary_keys])
    arrays = [
        pa.array([scalar.as_py() for scalar in column], field.type)
        for column, field in zip(values, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
