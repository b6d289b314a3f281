"""The new values of an update: constants, and columns computed from the old rows.

1. A value is a Python object or an Arrow scalar, or a function. A function receives matching rows
   as a batch with all columns of the table and their old values, and returns an Arrow array, or a
   list, of one value per row. It is called for each batch, so it must not look beyond one row.
2. All functions see the old values, whatever else is set, as in SQL.
3. Values are cast and checked like written ones: without loss, no null in a NOT NULL column; a null
   in a column with a default becomes the default. Other columns keep their values.
   Text is text here, and an SQL expression on Spark (``tl.update``). So text that would compute
   there (``"upper(s)"``) is refused; an Arrow scalar says that it is meant as text.
4. Primary-key columns cannot be set: a row under another key is another row. Source: Paimon's
   ``PaimonUpdateTable`` (1.3.1) for Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import InvalidInputError, UnsupportedError, near_names, shortened
from tidelake.table.conversion.inputs import record_batches
from tidelake.table.handle.arguments import check_dict
from tidelake.table.handle.handle import TableHandle
from tidelake.types import DataField, TypeRoot
from tidelake.types.arrow import to_arrow_schema
from tidelake.types.conform import conform
from tidelake.types.default_value import default_scalars, filled_in
from tidelake.types.predicate import Predicate, col

Computed: TypeAlias = Callable[[pa.RecordBatch], object]

_TEXTS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'")
_WORD = re.compile(r"\b([A-Za-z_]\w*)\b(\()?")
_OPERATOR = re.compile(r"(?<=[\w)'])\s*(?:\|\||[-+*/%])\s*(?=[\w('])")


@dataclass(frozen=True, slots=True)
class Assignments:
    """New values of some columns; called with old rows it returns the new ones.

    Parameters
    ----------
    constants : mapping of str to Array [1]
        Columns that get one value, in the columns' types.
    computed : mapping of str to callable
        Columns that are computed.
    zone : str, optional
        The time zone in which defaults are understood.
    """

    fields: tuple[DataField, ...]
    constants: Mapping[str, pa.Array]
    computed: Mapping[str, Computed]
    zone: str | None
    table: str

    @classmethod
    def of(cls, handle: TableHandle, values: object) -> Assignments:
        """Take the argument of :meth:`tidelake.Table.update`.

        Raises
        ------
        InvalidInputError
            It is not a dict, is empty, names an unknown column or one of the primary key, or a
            value does not fit its column or is text that would be an expression on Spark.
        """
        check_settable(handle, values, name="values")
        assert isinstance(values, Mapping), "checked"
        constants: dict[str, pa.Array] = {}
        computed: dict[str, Computed] = {}
        zone, table = handle.env.zone, handle.identifier
        for name, value in values.items():
            if callable(value) and not isinstance(value, (pa.Scalar, Predicate)):
                computed[name] = value
            else:
                field = handle.schema.field(name)
                _check_text(value, field, handle)
                constants[name] = _stored(_constant(value, field, table), field, zone, table)
        return cls(tuple(handle.schema.fields), constants, computed, zone, table)

    @property
    def columns(self) -> frozenset[str]:
        """The columns that are set."""
        return frozenset(self.constants) | frozenset(self.computed)

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with their new values.

        Parameters
        ----------
        rows : RecordBatch [n]
            Old rows, at least one, with the table's columns in order.

        Returns
        -------
        RecordBatch [n]
            With the table's Arrow types.

        Raises
        ------
        InvalidInputError
            A function's result does not fit its column.
        """
        columns = []
        for field, old in zip(self.fields, rows.columns, strict=True):
            if field.name in self.constants:
                column = self.constants[field.name].take(pa.array(np.zeros(len(old), np.int64)))
            elif field.name in self.computed:
                given = self.computed[field.name](rows)
                array = _per_row(given, field, rows.num_rows, self.table)
                column = _stored(array, field, self.zone, self.table)
            else:
                column = old
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(self.fields))


def check_settable(handle: TableHandle, values: object, *, name: str) -> None:
    """Refuse anything but new values for existing columns, whatever the values are.

    Raises
    ------
    InvalidInputError
        It is not a dict, is empty, or names an unknown column or one of the primary key.
    """
    check_dict(values, name, table=handle.identifier)
    assert isinstance(values, Mapping), "checked"
    known = handle.schema.field_names
    if not values:
        message = f"An update of table '{handle.identifier}' sets no column: {name}= is empty."
        raise InvalidInputError(message, kind="bad_argument", table=handle.identifier)
    for column in values:
        if column not in known:
            raise _unknown(handle, column, known)
        if column in handle.schema.primary_keys:
            message = (
                f"Column '{column}' is part of the primary key of table '{handle.identifier}', and"
                " an update cannot change keys: delete the rows and write them under their new"
                " keys."
            )
            raise InvalidInputError(
                message, kind="update_key", table=handle.identifier, column=column
            )


def _unknown(handle: TableHandle, column: object, known: tuple[str, ...]) -> InvalidInputError:
    hint = near_names(column, known) if isinstance(column, str) else ""
    if isinstance(column, str) and "." in column and column.partition(".")[0] in known:
        hint = f" A field of column '{column.partition('.')[0]}' cannot be set alone: set it whole."
    message = (
        f"An update of table '{handle.identifier}' sets {shortened(repr(column))}, which is not a"
        f" column of it.{hint} Its columns are: {', '.join(known)}."
    )
    return InvalidInputError(message, kind="column_unknown", table=handle.identifier)


def _check_text(value: object, field: DataField, handle: TableHandle) -> None:
    """Refuse text for a text column that is an SQL expression over the table's columns."""
    if not isinstance(value, str) or field.type.root not in _TEXTS:
        return  # of other types it is refused as a value
    if not _is_expression(value, handle.schema.fields):
        return
    message = (
        f"Column '{field.name}' of table '{handle.identifier}' is set to {shortened(repr(value))},"
        " which is an SQL expression on Spark (tl.update) and would be stored as text here. Give a"
        " function of the rows, as in lambda rows: pc.utf8_upper(rows['s']) with pyarrow.compute;"
        f" for the text itself pa.scalar({shortened(repr(value))})."
    )
    raise InvalidInputError(
        message, kind="update_expression", table=handle.identifier, column=field.name
    )


def _is_expression(text: str, fields: Sequence[DataField]) -> bool:
    """Whether text computes with columns, as ``upper(s)``, ``n + 1`` and ``s || '!'`` do.

    Its words are columns or functions, and there is a column among them. Arithmetic is only of
    columns that hold no text: ``"sku-17"`` is text.
    """
    roots = {field.name.casefold(): field.type.root for field in fields}
    words = _WORD.findall(_QUOTED.sub("''", text))
    columns = [word.casefold() for word, bracket in words if not bracket]
    if not columns or not roots.keys() >= set(columns):
        return False
    if len(columns) < len(words) or "||" in text:
        return True
    return bool(_OPERATOR.search(text)) and not any(roots[name] in _TEXTS for name in columns)


def _constant(value: object, field: DataField, table: str) -> pa.Array:
    if isinstance(value, (pc.Expression, Predicate, col)):
        message = (
            f"Column '{field.name}' of table '{table}' is set to an expression"
            f" ({type(value).__name__}): give a function of the rows, as in"
            ' {"n": lambda rows: pc.add(rows["n"], 1)} with pyarrow.compute, or a value.'
        )
        raise UnsupportedError(message, kind="update_expression", table=table, column=field.name)
    if isinstance(value, pa.Scalar):
        return pa.repeat(value, 1)
    (batch,) = record_batches([{field.name: value}], [field], table=table)
    return batch.column(0)


def _per_row(given: object, field: DataField, count: int, table: str) -> pa.Array:
    """The result of a function, as one value per row."""
    if isinstance(given, pa.Scalar):
        return pa.repeat(given, count)
    length = None
    if not isinstance(given, (str, bytes, Mapping)) and hasattr(given, "__len__"):
        length = len(given)
    if length != count:
        what = f"{length} values" if length is not None else f"a {type(given).__name__}"
        message = (
            f"The function for column '{field.name}' of table '{table}' returned {what} for {count}"
            " rows: return an Arrow array, or a list, with one value per row."
        )
        raise InvalidInputError(message, kind="update_length", table=table, column=field.name)
    if isinstance(given, pa.ChunkedArray):
        return given.combine_chunks()
    if isinstance(given, pa.Array):
        return given
    batches = list(record_batches({field.name: given}, [field], table=table))
    return pa.concat_arrays([batch.column(0) for batch in batches])


def _stored(array: pa.Array, field: DataField, zone: str | None, table: str) -> pa.Array:
    """Values cast and checked like written ones."""
    rows = conform(pa.RecordBatch.from_arrays([array], [field.name]), [field], table=table)
    return filled_in(rows, default_scalars([field], zone=zone)).column(0)
