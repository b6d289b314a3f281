"""Keys as callers give them: values, tuples, dicts, Arrow; checked before anything is read.

A key is one value for a primary key of one column, else a tuple in the order of the primary key, or
a dict by column. Its parts must be values of their columns, without nulls. A value that its column
cannot hold is refused: text that is longer than a VARCHAR(n), an integer out of range. A filter
with such a literal finds no row instead; a call for one row by such a key is a mistake.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import InvalidInputError, shortened
from tidelake.table.conversion.inputs import record_batches
from tidelake.types import DataField, TypeRoot
from tidelake.types.arrow import NANOS_PER_UNIT, timestamp_unit, to_arrow_schema
from tidelake.types.conform import conform, shown_value
from tidelake.types.data_type import STRING_LENGTH_MAX
from tidelake.types.values import to_storage

__all__ = ["KeyInput", "memory_value"]

_INTEGER_BITS = {
    TypeRoot.TINYINT: 8,
    TypeRoot.SMALLINT: 16,
    TypeRoot.INT: 32,
    TypeRoot.BIGINT: 64,
}
_TEXTS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_SIZED = _TEXTS | {TypeRoot.BINARY, TypeRoot.VARBINARY}
_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})


def memory_value(value: Any, field: DataField) -> Any:
    """A storage value as Arrow's memory holds it: timestamps in their column's own unit."""
    if value is not None and field.type.root in _TIMESTAMPS:
        return value // NANOS_PER_UNIT[timestamp_unit(field.type)]
    return value


class KeyInput:
    """Reads the keys of one table. Picklable; threads share it.

    Parameters
    ----------
    fields : tuple of DataField
        The primary key's columns in order.
    table : str
        The table, for messages.
    """

    def __init__(self, fields: tuple[DataField, ...], *, table: str) -> None:
        self._fields = fields
        self._names = tuple(field.name for field in fields)
        self._table = table
        self._schema = to_arrow_schema(fields)
        root = fields[0].type.root
        self._bits = _INTEGER_BITS.get(root, 0) if len(fields) == 1 else 0
        self._low, self._high = -(1 << self._bits >> 1), (1 << self._bits >> 1) - 1
        is_text = len(fields) == 1 and root in _TEXTS
        self._text_length_max = fields[0].type.length or 0 if is_text else -1
        self._length_max = {
            f.name: f.type.length
            for f in fields
            if f.type.root in _SIZED and (f.type.length or 0) < STRING_LENGTH_MAX
        }
        # lengths are checked here, in words of keys
        self._without_lengths = tuple(
            replace(f, type=replace(f.type, length=STRING_LENGTH_MAX))
            if f.name in self._length_max
            else f
            for f in fields
        )

    def values(self, key: object) -> tuple[Any, ...]:
        """The parts of one key, as Arrow's memory holds them.

        Raises
        ------
        InvalidInputError
            The key has another number of parts, an unknown or missing column, a null, or a value
            that its column cannot hold.
        """
        kind = type(key)
        if (kind is int and self._bits and self._low <= key <= self._high) or (  # type: ignore[operator]
            kind is str and key.isascii() and len(key) <= self._text_length_max  # type: ignore[attr-defined,arg-type]
        ):
            return (key,)
        parts = self._parts(key)
        found = []
        for part, field in zip(parts, self._fields, strict=True):
            if part is None:
                raise self._null(field.name)
            try:
                value = to_storage(part, field.type)
            except InvalidInputError as error:
                raise self._misfit(field, error) from error
            length_max = self._length_max.get(field.name)
            if length_max is not None and len(value) > length_max:  # type: ignore[arg-type]
                raise self._too_long(field.name, value)
            found.append(memory_value(value, field))
        return tuple(found)

    def batch(self, keys: object) -> pa.RecordBatch:
        """Many keys as a batch with the columns of the primary key.

        Parameters
        ----------
        keys : object
            A list of keys, or Arrow: an array (of a key of one column), a batch or a table.

        Raises
        ------
        InvalidInputError
            As of :meth:`values`.
        """
        numbers = self._numbers(keys) if self._bits else None
        if numbers is not None:
            return pa.RecordBatch.from_arrays([numbers], schema=self._schema)
        if isinstance(keys, (pa.Array, pa.ChunkedArray)):
            if len(self._fields) != 1:
                raise self._arity(1)
            keys = pa.table({self._names[0]: keys})
        if isinstance(keys, pa.RecordBatch):
            return self._conformed(keys)
        if isinstance(keys, pa.Table):
            return self._conformed(_one_batch(keys))
        if isinstance(keys, (str, bytes, Mapping)) or not hasattr(keys, "__iter__"):
            message = (
                f"{shortened(repr(keys))} does not hold keys of table '{self._table}': give a list"
                " of keys, or an Arrow array, batch or table. One key is for get()."
            )
            raise InvalidInputError(message, kind="key_form", table=self._table)
        rows = [self._parts(key) for key in keys]
        if not rows:
            return pa.RecordBatch.from_pylist([], schema=to_arrow_schema(self._fields))
        columns = dict(zip(self._names, map(list, zip(*rows, strict=True)), strict=True))
        for name, values in columns.items():
            if None in values:
                raise self._null(name)
        batches = list(record_batches(columns, self._without_lengths, table=self._table))
        return self._conformed(_one_batch(pa.Table.from_batches(batches)))

    def _numbers(self, keys: object) -> pa.Array | None:
        """Keys that are whole numbers of the column's width already, or a list of Python's own."""
        kind = self._schema.field(0).type
        if isinstance(keys, pa.Array):
            return keys if keys.type == kind and not keys.null_count else None
        if type(keys) is not list or not keys or set(map(type, keys)) != {int}:
            return None
        try:
            return pa.array(keys, kind)
        except (OverflowError, pa.ArrowInvalid):
            return None  # it is told which

    def _conformed(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        if set(keys.schema.names) != set(self._names) and len(keys.schema.names) != len(
            self._names
        ):
            raise self._arity(len(keys.schema.names))
        for name in keys.schema.names:
            if name in self._names and keys.column(name).null_count:
                raise self._null(name)
        batch = conform(keys, self._without_lengths, table=self._table)
        for name, length_max in self._length_max.items():
            column = batch.column(name)
            is_text = pa.types.is_string(column.type)
            lengths = pc.utf8_length(column) if is_text else pc.binary_length(column)
            first = pc.index(pc.greater(lengths, length_max), True).as_py()
            if first >= 0:
                raise self._too_long(name, column[first].as_py())
        return batch

    def _parts(self, key: object) -> Sequence[object]:
        if isinstance(key, Mapping):
            if set(key) != set(self._names):
                given = ", ".join(shortened(str(name)) for name in key)
                message = (
                    f"The key of table '{self._table}' is ({', '.join(self._names)}); a dict with"
                    f" the columns ({given}) is none. Name exactly the key's columns."
                )
                raise InvalidInputError(message, kind="key_columns", table=self._table)
            return [key[name] for name in self._names]
        if isinstance(key, (tuple, list)):
            if len(key) != len(self._names):
                raise self._arity(len(key))
            return key
        if len(self._names) != 1:
            raise self._arity(1)
        return (key,)

    def _arity(self, given: int) -> InvalidInputError:
        wanted = len(self._names)
        values = "1 value" if wanted == 1 else f"{wanted} values"
        message = (
            f"The key of table '{self._table}' is ({', '.join(self._names)}): a key has {values},"
            f" not {given}."
        )
        return InvalidInputError(message, kind="key_arity", table=self._table)

    def _null(self, name: str) -> InvalidInputError:
        message = (
            f"A key of table '{self._table}' has a null in column '{name}', where no row has one:"
            " leave such keys out."
        )
        return InvalidInputError(message, kind="key_null", table=self._table, column=name)

    def _too_long(self, name: str, value: object) -> InvalidInputError:
        what = "characters" if isinstance(value, str) else "bytes"
        message = (
            f"A key of table '{self._table}' does not fit column '{name}': {shown_value(value)} is"
            f" longer than {self._length_max[name]} {what}."
        )
        return InvalidInputError(message, kind="key_type", table=self._table, column=name)

    def _misfit(self, field: DataField, error: InvalidInputError) -> InvalidInputError:
        message = f"A key of table '{self._table}' does not fit column '{field.name}': {error}"
        return InvalidInputError(message, kind="key_type", table=self._table, column=field.name)


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    whole = rows.combine_chunks().to_batches()
    return whole[0] if whole else pa.RecordBatch.from_pylist([], schema=rows.schema)
