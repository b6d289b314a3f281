"""Constraints of a table: conditions on each row, which every write checks.

An option ``constraint.<name>`` holds a condition in the language of filters
(:mod:`tidelake.types.predicate.text`). As in SQL a row violates it where the condition is false:
where it is unknown, because a value is null, the row is good. ``v IS NOT NULL`` forbids the null.

1. The options are parsed and bound to the columns once for a schema; what cannot be bound is
   refused when the table is created or altered.
2. A batch that is written is checked with Arrow kernels, a mask for each constraint. The first row
   that violates one is shown in the error, and nothing of the write becomes visible.
3. Rows that leave (deletes, and the old rows of updates) are not checked. Nor are rows that a job
   only moves: a compaction, a rescale, the rows of a file that stay when others are deleted.

Java Paimon keeps the options and does not know them: its writers check nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidelake.errors import InvalidInputError, TidelakeError, counted, shortened
from tidelake.options import CONSTRAINT_PREFIX, Options
from tidelake.types import DataField, RowKind, TableSchema
from tidelake.types.predicate import Not, Predicate, bind, columns_of, evaluate, parse_filter

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
VALUE_SHOWN_MAX = 60
"""Characters of one value that a message repeats."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """One condition.

    Parameters
    ----------
    violated : Predicate
        Bound to the table's columns; keeps the rows that violate the constraint.
    """

    name: str
    text: str
    columns: tuple[str, ...]
    violated: Predicate

    @property
    def option(self) -> str:
        """The option that holds it."""
        return CONSTRAINT_PREFIX + self.name


@dataclass(frozen=True, slots=True)
class Constraints:
    """All constraints of a table.

    Parameters
    ----------
    key : tuple of str
        The columns that a message shows besides those of the constraint.
    """

    table: str
    fields: tuple[DataField, ...]
    key: tuple[str, ...] = ()
    every: tuple[Constraint, ...] = ()

    @classmethod
    def of(cls, schema: TableSchema, options: Options, *, table: str) -> Constraints:
        """Parse the options.

        Raises
        ------
        InvalidInputError
            A constraint has no name, is no condition, or does not fit the columns.
        """
        every = _parsed(options.raw, schema.fields, table)
        return cls(table, schema.fields, schema.primary_keys, every)

    def check(
        self, rows: pa.RecordBatch, kinds: np.ndarray | None = None, *, first_row: int | None = None
    ) -> None:
        """Refuse rows that violate a constraint.

        Parameters
        ----------
        rows : RecordBatch [n]
            All columns, as they are stored.
        kinds : int8 array [n], optional
            Rows of the kinds ``-U`` and ``-D`` are not checked; all are by default.
        first_row : int, optional
            The number of the first row in the caller's data, for the message.

        Raises
        ------
        InvalidInputError
            The first row that violates the first constraint.
        """
        if not self.every or not rows.num_rows:
            return
        for constraint in self.every:
            mask = self._mask(constraint, rows, kinds)
            if mask.any():
                raise self._violation(constraint, rows, mask, first_row)

    def violations(self, rows: pa.RecordBatch, kinds: np.ndarray) -> dict[int, str]:
        """The rows that violate a constraint, by their places, each with the first of its reasons.

        Parameters
        ----------
        rows, kinds
            As of :meth:`check`.
        """
        found: dict[int, str] = {}
        for constraint in self.every:
            for place in np.flatnonzero(self._mask(constraint, rows, kinds)).tolist():
                shown = self.shown(constraint, rows.slice(place, 1))
                text = f"constraint '{constraint.name}' ({shortened(constraint.text)}): {shown}"
                found.setdefault(place, f"it violates the {text}")
        return found

    def _mask(
        self, constraint: Constraint, rows: pa.RecordBatch, kinds: np.ndarray | None
    ) -> np.ndarray:
        mask = evaluate(constraint.violated, rows, self.fields).to_numpy(zero_copy_only=False)
        return mask if kinds is None else mask & _comes(kinds)

    def _violation(
        self, constraint: Constraint, rows: pa.RecordBatch, mask: np.ndarray, first_row: int | None
    ) -> InvalidInputError:
        first = int(np.argmax(mask))
        which = "A row" if first_row is None else f"Row {first_row + first}"
        count = int(mask.sum())
        others = f" So do {counted(count - 1, 'other')} beside it." if count > 1 else ""
        message = (
            f"{which} violates the constraint '{constraint.name}' of table '{self.table}'"
            f" ({shortened(constraint.text)}): {self.shown(constraint, rows.slice(first, 1))}."
            f"{others} Nothing was written. Correct the rows, or drop the constraint by resetting"
            f" the option '{constraint.option}'."
        )
        return InvalidInputError(
            message,
            kind="constraint",
            table=self.table,
            constraint=constraint.name,
            column=", ".join(constraint.columns),
        )

    def shown(self, constraint: Constraint, row: pa.RecordBatch) -> str:
        """The values of a row that a message shows: of the key, and of the constraint's columns."""
        names = dict.fromkeys((*self.key, *constraint.columns))
        return ", ".join(
            f"{name} = {shortened(repr(row.column(name)[0].as_py()), VALUE_SHOWN_MAX)}"
            for name in names
        )


def unchecked(options: Options) -> Options:
    """The options without the constraints, for jobs that move rows and make none."""
    kept = {k: v for k, v in options.raw.items() if not k.startswith(CONSTRAINT_PREFIX)}
    if len(kept) == len(options.raw):
        return options
    return Options.parse(kept, table=options.table)


def check_constraint_columns(
    options: Mapping[str, str], fields: Sequence[DataField], column: str, verb: str, *, table: str
) -> None:
    """Refuse to rename or drop a column that a constraint names.

    Raises
    ------
    InvalidInputError
        Names the constraint, which must be dropped first.
    """
    for constraint in _parsed(options, fields, table):
        if column in constraint.columns:
            message = (
                f"Column '{shortened(column)}' of table '{table}' cannot be {verb}: the constraint"
                f" '{constraint.name}' ({shortened(constraint.text)}) names it. Drop the constraint"
                f" first, by resetting the option '{constraint.option}'."
            )
            raise InvalidInputError(message, kind="constraint_column", table=table, column=column)


def _parsed(
    options: Mapping[str, str], fields: Sequence[DataField], table: str
) -> tuple[Constraint, ...]:
    keys = sorted(key for key in options if key.startswith(CONSTRAINT_PREFIX))
    return tuple(_constraint(key, options[key], fields, table) for key in keys)


def _constraint(key: str, text: str, fields: Sequence[DataField], table: str) -> Constraint:
    name = key.removeprefix(CONSTRAINT_PREFIX)
    if not _NAME.fullmatch(name):
        message = (
            f"Option '{shortened(key)}' of table '{table}' gives a constraint the name"
            f" '{shortened(name)}': a name has letters, digits, '_' and '-', and begins with a"
            " letter or '_'."
        )
        raise InvalidInputError(message, kind="bad_constraint", table=table, option=key)
    try:
        condition = parse_filter(text)
        assert condition is not None, "a text gives a condition"
        names = columns_of(condition)
        violated = bind(Not(condition), fields)
    except TidelakeError as error:
        message = (
            f"Option '{key}' of table '{table}' is no condition that rows can be checked by."
            f" {error.message}"
        )
        raise InvalidInputError(message, kind="bad_constraint", table=table, option=key) from error
    if not names:
        message = (
            f"Option '{key}' of table '{table}' names no column: write a condition on the rows,"
            " such as 'price >= 0'."
        )
        raise InvalidInputError(message, kind="bad_constraint", table=table, option=key)
    columns = tuple(field.name for field in fields if field.name in names)
    return Constraint(name, text, columns, violated)


def _comes(kinds: np.ndarray) -> np.ndarray:
    """Which rows are there after the write."""
    return (kinds == int(RowKind.INSERT)) | (kinds == int(RowKind.UPDATE_AFTER))
