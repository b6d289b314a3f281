"""Keys as callers give them: values, tuples, dicts, Arrow; checked before anything is read.

A key is one value for a primary key of one column, else a tuple in the order of the primary key, or
a dict by column. Its parts are what ``write`` takes for their columns, by the same code: a
``datetime.date`` for a DATE and not its text, a ``Decimal`` or an ``int`` for a DECIMAL and not a
``float``. So each call for rows by key takes the same keys, be it for one or for many, from files
or from a service, and refuses the others with the same kind of error.

A value that its column cannot hold is refused: text that is longer than a VARCHAR(n), an integer
out of range. A filter with such a literal finds no row instead; a call for one row by such a key is
a mistake.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import InvalidInputError, shortened
from tidelake.table.conversion.inputs import record_batches
from tidelake.types import DataField, TypeRoot
from tidelake.types.arrow import NANOS_PER_UNIT, timestamp_unit, to_arrow_schema
from tidelake.types.conform import conform, shown_value
from tidelake.types.data_type import STRING_LENGTH_MAX
from tidelake.types.values import arrow_to_storage

_INTEGER_BITS = {
    TypeRoot.TINYINT: 8,
    TypeRoot.SMALLINT: 16,
    TypeRoot.INT: 32,
    TypeRoot.BIGINT: 64,
}
_TEXTS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_SIZED = _TEXTS | {TypeRoot.BINARY, TypeRoot.VARBINARY}
_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_GIVEN_AS = {
    TypeRoot.DATE: "a datetime.date",
    TypeRoot.TIME: "a datetime.time",
    TypeRoot.TIMESTAMP: "a datetime.datetime without a zone",
    TypeRoot.TIMESTAMP_LTZ: "a datetime.datetime with a zone",
    TypeRoot.DECIMAL: "a decimal.Decimal or an int",
}
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - of columns without a zone
_MICROSECOND = dt.timedelta(microseconds=1)
_UNKNOWN: Any = object()
Quick: TypeAlias = Callable[[Any], Any]


def memory_value(value: Any, field: DataField) -> Any:
    """A storage value as Arrow's memory holds it: timestamps in their column's own unit."""
    if value is not None and field.type.root in _TIMESTAMPS:
        return value // NANOS_PER_UNIT[timestamp_unit(field.type)]
    return value


def _quick(field: DataField) -> Quick:
    """Reads a part of the one class that its column is mostly given as; else `_UNKNOWN`.

    It takes nothing that the way by Arrow would not take, and costs a tenth of it.
    """
    root = field.type.root
    if root in _INTEGER_BITS:
        bits = _INTEGER_BITS[root]
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        return lambda part: part if type(part) is int and low <= part <= high else _UNKNOWN
    if root in _TEXTS:
        most = field.type.length or 0
        return lambda part: (
            part if type(part) is str and part.isascii() and len(part) <= most else _UNKNOWN
        )
    if root is TypeRoot.DATE:
        return lambda part: part.toordinal() - _EPOCH_DAY if type(part) is dt.date else _UNKNOWN
    if root is TypeRoot.TIMESTAMP and timestamp_unit(field.type) == "us":
        return lambda part: (
            (part - _EPOCH) // _MICROSECOND
            if type(part) is dt.datetime and part.tzinfo is None
            else _UNKNOWN
        )
    return lambda _: _UNKNOWN


class KeyInput:
    """Reads the keys of one table. Picklable; threads share it.

    Parameters
    ----------
    fields : tuple of DataField
        The primary key's columns in order.
    """

    def __init__(self, fields: tuple[DataField, ...], *, table: str) -> None:
        self._fields = fields
        self._names = tuple(field.name for field in fields)
        self._table = table
        self._schema = to_arrow_schema(fields)
        root = fields[0].type.root
        self._bits = _INTEGER_BITS.get(root, 0) if len(fields) == 1 else 0
        self._low, self._high = -(1 << self._bits >> 1), (1 << self._bits >> 1) - 1
        self._is_text = len(fields) == 1 and root in _TEXTS
        self._text_length_max = fields[0].type.length or 0 if self._is_text else -1
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
        self._quick = tuple(map(_quick, fields))

    def __reduce__(self) -> tuple[object, ...]:
        return (_key_input, (self._fields, self._table))

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
        found = [quick(part) for quick, part in zip(self._quick, parts, strict=True)]
        if _UNKNOWN not in found:
            return tuple(found)
        row = self._of_rows([parts])
        storage = [
            arrow_to_storage(column, field.type)[0]
            for column, field in zip(row.columns, self._fields, strict=True)
        ]
        return tuple(map(memory_value, storage, self._fields))

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
        exact = self._exact(keys) if self._bits or self._is_text else None
        if exact is not None:
            return pa.RecordBatch.from_arrays([exact], schema=self._schema)
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
        return self._of_rows(rows)

    def _exact(self, keys: object) -> pa.Array | None:
        """Whole numbers of the column's width, or a list of Python's own numbers or text."""
        kind = self._schema.field(0).type
        if isinstance(keys, pa.Array) and self._bits:
            return keys if keys.type == kind and not keys.null_count else None
        wanted = int if self._bits else str
        if type(keys) is not list or not keys or set(map(type, keys)) != {wanted}:
            return None
        if not self._bits and self._length_max and max(map(len, keys)) > self._text_length_max:
            return None
        try:
            return pa.array(keys, kind)
        except (OverflowError, UnicodeEncodeError, pa.ArrowInvalid):
            return None  # it is told which

    def _of_rows(self, rows: Sequence[Sequence[object]]) -> pa.RecordBatch:
        """Keys by their parts, as ``write`` takes rows."""
        columns = dict(zip(self._names, map(list, zip(*rows, strict=True)), strict=True))
        for name, values in columns.items():
            if any(value is None for value in values):
                raise self._null(name)
        try:
            batches = list(record_batches(columns, self._without_lengths, table=self._table))
        except InvalidInputError as error:
            raise self._misfit(columns, error) from error
        return self._conformed(_one_batch(pa.Table.from_batches(batches)))

    def _conformed(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        given = keys.schema.names
        if len(given) != len(self._names):
            raise self._arity(len(given))
        if set(given) != set(self._names):
            raise self._other_columns(given, "Arrow data")
        for name in given:
            if keys.column(name).null_count:
                raise self._null(name)
        try:
            batch = conform(keys, self._without_lengths, table=self._table)
        except InvalidInputError as error:
            message = f"A key of table '{self._table}' does not fit: {error.message}"
            raise InvalidInputError(message, kind="key_type", table=self._table) from error
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
                raise self._other_columns(list(map(str, key)), "a dict")
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

    def _other_columns(self, given: Sequence[str], what: str) -> InvalidInputError:
        names = ", ".join(map(shortened, given))
        message = (
            f"The key of table '{self._table}' is ({', '.join(self._names)}); {what} with the"
            f" columns ({names}) is none. Name exactly the key's columns."
        )
        return InvalidInputError(message, kind="key_columns", table=self._table)

    def _misfit(
        self, columns: Mapping[str, Sequence[object]], error: InvalidInputError
    ) -> InvalidInputError:
        """Say which part of which key does not fit, and what would."""
        name = str(error.context.get("column", self._names[0]))
        field = self._fields[self._names.index(name)]
        bad = next((v for v in columns[name] if not self._fits(field, v)), None)
        message = (
            f"A key of table '{self._table}' does not fit column '{name}': {shown_value(bad)}"
            f" {_problem(bad, field)}."
        )
        return InvalidInputError(message, kind="key_type", table=self._table, column=name)

    def _fits(self, field: DataField, value: object) -> bool:
        try:
            list(record_batches({field.name: [value]}, self._without_lengths, table=self._table))
        except InvalidInputError:
            return False
        return True


def _key_input(fields: tuple[DataField, ...], table: str) -> KeyInput:
    return KeyInput(fields, table=table)


def _problem(value: object, field: DataField) -> str:
    """Why a value is no part of a key."""
    kind = field.type.as_nullable()
    if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        return "holds half a character (a lone surrogate)"
    if isinstance(value, int) and field.type.root in _INTEGER_BITS:
        return f"is out of range of {kind}"
    wanted = _GIVEN_AS.get(field.type.root)
    given = f"({type(value).__name__}) is not a value of {kind}"
    return given if wanted is None else f"{given}: give {wanted}"


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    whole = rows.combine_chunks().to_batches()
    return whole[0] if whole else pa.RecordBatch.from_pylist([], schema=rows.schema)
