"""The arguments of ``tl.apply_changes``, checked against the source's columns.

A definition says what the rows of the feed are, and gives them in one shape: the key, the values,
the sequence in :func:`sequence_columns`, and the role of the change in ``_tidelake_role``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.engine.write import DELETE, ROLE_COLUMN, ROW_KIND_COLUMN, UPSERT
from tidelake.errors import InvalidInputError, UnsupportedError, near_names
from tidelake.spark.expression.expression import quoted

TRUNCATE = UPSERT + 1
"""The role of a change that removes all rows before it."""
START, END, SEQUENCE, OPERATION = "__START_AT", "__END_AT", "__SEQUENCE", "__OPERATION"
"""Columns that are made. On disk: never rename."""
KEPT_SUFFIX = "__apply_changes"
"""What the name of the table of kept changes ends with. On disk: never rename."""
SEQUENCE_PREFIX, END_PREFIX = "_tidelake_sequence_", "_tidelake_end_"
ORDERED = (
    st.ByteType,
    st.ShortType,
    st.IntegerType,
    st.LongType,
    st.DecimalType,
    st.StringType,
    st.DateType,
    st.TimestampType,
    st.TimestampNTZType,
)
"""Types with one order and one spelling of each value: floating point has -0.0 and NaN."""
_OWN = (START, END, SEQUENCE, OPERATION, "_tidelake_", ROW_KIND_COLUMN)

Names: TypeAlias = "str | Column | Sequence[str | Column]"
"""A column or several, by names or as columns."""


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments as given; see :meth:`tidelake.spark.Lake.apply_changes`."""

    keys: Names
    sequence_by: Names
    apply_as_deletes: str | Column | None = None
    apply_as_truncates: str | Column | None = None
    except_columns: Names | None = None
    columns: Names | None = None
    ignore_null_updates: bool = False
    scd_type: int | str = 1
    track_history_columns: Names | None = None


@dataclass(frozen=True, slots=True)
class FeedDefinition:
    """What a feed's rows are, and what becomes of them. Picklable.

    Parameters
    ----------
    columns : tuple of str
        The columns of the source that the target has, keys included, in the source's order.
    sequence_names : tuple of str
        A name for each part of the sequence; one of `columns` each, if `has_own_sequence`.
    """

    table: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    sequence_names: tuple[str, ...]
    sequence_types: tuple[st.DataType, ...]
    has_own_sequence: bool
    keeps_versions: bool
    ignores_nulls: bool = False
    tracked: tuple[str, ...] | None = None

    @property
    def keeps_all(self) -> bool:
        """Whether all changes are kept beside the target, and not deletes alone.

        Rows of the target do not show what a null left as it was, nor which changes made none.
        """
        return self.ignores_nulls or self.tracked is not None

    @property
    def target_sequence(self) -> tuple[str, ...]:
        """The target's columns with the sequence: of a row's change, or of its start."""
        if self.keeps_versions:
            return self._numbered(START)
        return self.sequence_names if self.has_own_sequence else self._numbered(SEQUENCE)

    @property
    def target_ends(self) -> tuple[str, ...]:
        """The target's columns with the end of a version; none for type 1."""
        return self._numbered(END) if self.keeps_versions else ()

    @property
    def values(self) -> tuple[str, ...]:
        """The target's columns beside key and sequence."""
        left = {*self.keys, *self.target_sequence}
        return tuple(name for name in self.columns if name not in left)

    @property
    def target_keys(self) -> tuple[str, ...]:
        """The target's primary key."""
        return (*self.keys, *self.target_sequence) if self.keeps_versions else self.keys

    @property
    def kept_table(self) -> str:
        """The name of the table of kept changes."""
        return self.table + KEPT_SUFFIX

    @property
    def kept_sequence(self) -> tuple[str, ...]:
        """The columns of kept changes with the sequence."""
        return self._numbered(SEQUENCE)

    def _numbered(self, name: str) -> tuple[str, ...]:
        if len(self.sequence_names) == 1:
            return (name,)
        return tuple(f"{name}_{part}" for part in self.sequence_names)

    def to_json(self, created_ms: int) -> str:
        """Describe what kept changes are for; `created_ms` is when the target was created."""
        return json.dumps(
            {
                "v": 1,
                "target_created_ms": created_ms,
                "scd_type": 2 if self.keeps_versions else 1,
                "keys": self.keys,
                "sequence": [t.simpleString() for t in self.sequence_types],
                "ignore_null_updates": self.ignores_nulls,
                "track_history_columns": self.tracked,
            },
            sort_keys=True,
        )


def sequence_columns(definition: FeedDefinition) -> tuple[str, ...]:
    """The columns of a change with its sequence."""
    return tuple(f"{SEQUENCE_PREFIX}{n}" for n in range(len(definition.sequence_names)))


def end_columns(definition: FeedDefinition) -> tuple[str, ...]:
    """The columns of a row of the target with its end."""
    return tuple(f"{END_PREFIX}{n}" for n in range(len(definition.target_ends)))


def defined(frame: DataFrame, table: str, given: Given) -> tuple[FeedDefinition, DataFrame]:
    """Check the arguments, and give the changes in their one shape; nothing is read.

    Raises
    ------
    InvalidInputError, UnsupportedError
        An argument is wrong, or a column is missing.
    """
    keeps_versions = _scd_type(given.scd_type, table) == 2
    keys = _names(frame, given.keys, "keys", table)
    if not keys:
        raise _wrong("keys", "names no column: name those that identify a row", table)
    sequence = _sequence(frame, given.sequence_by, table)
    columns = _selected(frame, given, table)
    _check_keys(frame, keys, columns, table)
    own = [part.name for part in sequence if part.is_column]
    if set(own) & set(keys):
        message = "names a column of the key: it orders the changes of a key"
        raise _wrong("sequence_by", message, table)
    tracked = None
    if given.track_history_columns is not None:
        if not keeps_versions:
            message = "needs scd_type=2: type 1 keeps no history"
            raise _wrong("track_history_columns", message, table)
        tracked = _names(frame, given.track_history_columns, "track_history_columns", table)
        wrong = [n for n in tracked if n not in columns or n in keys]
        if wrong or not tracked:
            message = f"must name columns of the target beside the key, not {_listed(wrong)}"
            raise _wrong("track_history_columns", message, table)
    definition = FeedDefinition(
        table,
        keys,
        columns,
        tuple(part.name for part in sequence),
        tuple(part.type for part in sequence),
        has_own_sequence=set(own) <= set(columns) and len(own) == len(sequence),
        keeps_versions=keeps_versions,
        ignores_nulls=bool(given.ignore_null_updates),
        tracked=tracked,
    )
    if given.apply_as_truncates is not None and keeps_versions:
        message = (
            f"apply_as_truncates of changes for table '{table}' is for scd_type=1: a history has"
            " the rows that were there. Leave it out, or give a delete for each key."
        )
        raise UnsupportedError(message, kind="apply_changes", table=table)
    return definition, _changes(frame, definition, sequence, given)


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the sequence; `is_column` if it is a column of the source as it stands."""

    name: str
    column: Column
    type: st.DataType
    is_column: bool


def _changes(
    frame: DataFrame, definition: FeedDefinition, sequence: Sequence[_Part], given: Given
) -> DataFrame:
    """The changes: key, values, sequence and role."""
    role = F.lit(UPSERT)
    for argument, number in (("apply_as_deletes", DELETE), ("apply_as_truncates", TRUNCATE)):
        condition = getattr(given, argument)
        if condition is not None:
            found = _condition(frame, condition, argument, definition.table)
            role = F.when(F.coalesce(found, F.lit(False)), F.lit(number)).otherwise(role)
    names = (*definition.keys, *definition.values)
    return frame.select(
        *(F.col(quoted(name)) for name in names),
        *(p.column.alias(n) for p, n in zip(sequence, sequence_columns(definition), strict=True)),
        role.cast("tinyint").alias(ROLE_COLUMN),
    )


def _scd_type(given: object, table: str) -> int:
    if str(given) not in {"1", "2"} or isinstance(given, bool):
        raise _wrong("scd_type", f"is 1 or 2, not {given!r}", table)
    return int(str(given))


def _condition(frame: DataFrame, given: object, argument: str, table: str) -> Column:
    """A condition over a row of the source."""
    if not isinstance(given, str | Column):
        message = "is a condition: an SQL expression as text, or a Column"
        raise _wrong(argument, message, table)
    column = F.expr(given) if isinstance(given, str) else given
    found = _analysed(frame, column, argument, table)
    if not isinstance(found.dataType, st.BooleanType):
        message = f"is a condition, not {found.dataType.simpleString()}"
        raise _wrong(argument, message, table)
    return column


def _analysed(frame: DataFrame, column: Column, argument: str, table: str) -> st.StructField:
    try:
        return frame.select(column).schema.fields[0]
    except AnalysisException as error:
        reason = " ".join(str(error).split(";")[0].split())
        raise _wrong(argument, f"does not fit the source: {reason}", table) from error


def _names(frame: DataFrame, given: Names, argument: str, table: str) -> tuple[str, ...]:
    """The source's own spelling of columns that an argument names."""
    found = []
    for one in _each(given, argument, table):
        name = _analysed(frame, one, argument, table).name if isinstance(one, Column) else one
        own = [column for column in frame.columns if column.casefold() == name.casefold()]
        if len(own) != 1:
            near = near_names(name, frame.columns)
            message = f"names '{name}', which is {'no' if not own else 'not one'} column"
            raise _wrong(argument, f"{message} of the source.{near}", table)
        found.append(own[0])
    if len(set(found)) < len(found):
        raise _wrong(argument, f"names a column twice: {_listed(found)}", table)
    return tuple(found)


def _each(given: Names, argument: str, table: str) -> list[str | Column]:
    listed = [given] if isinstance(given, str | Column) else given
    if not isinstance(listed, Iterable) or not all(isinstance(n, str | Column) for n in listed):
        raise _wrong(argument, f"is a list of columns, not {given!r}", table)
    return list(listed)


def _sequence(frame: DataFrame, given: Names, table: str) -> list[_Part]:
    """The parts of the sequence; a struct is ordered by its fields."""
    parts: list[_Part] = []
    for one in _each(given, "sequence_by", table):
        if isinstance(one, str):
            (name,) = _names(frame, [one], "sequence_by", table)
            column, data_type, is_column = F.col(quoted(name)), frame.schema[name].dataType, True
        else:
            field = _analysed(frame, one, "sequence_by", table)
            column, name, data_type = one, field.name, field.dataType
            is_column = name in frame.columns and frame.schema[name].dataType == data_type
            is_column = is_column and str(one) == str(F.col(name))
        if isinstance(data_type, st.StructType):
            parts += [_Part(f.name, column[f.name], f.dataType, False) for f in data_type.fields]
        else:
            parts.append(_Part(name, column, data_type, is_column))
    if not parts:
        raise _wrong("sequence_by", "names no column: name what orders the changes", table)
    for part in parts:
        if not isinstance(part.type, ORDERED):
            message = (
                f"has '{part.name}' of type {part.type.simpleString()}, which gives no exact order:"
                " take whole numbers, DECIMAL, text, dates or times, or cast it"
            )
            raise _wrong("sequence_by", message, table)
    if len({part.name for part in parts}) < len(parts):
        message = f"has a name twice: {_listed([part.name for part in parts])}"
        raise _wrong("sequence_by", message, table)
    return parts


def _selected(frame: DataFrame, given: Given, table: str) -> tuple[str, ...]:
    """The columns of the target."""
    if given.columns is not None and given.except_columns is not None:
        raise _wrong("columns", "and except_columns exclude each other: give one", table)
    columns = tuple(frame.columns)
    if given.columns is not None:
        columns = _names(frame, given.columns, "columns", table)
    if given.except_columns is not None:
        left_out = _names(frame, given.except_columns, "except_columns", table)
        columns = tuple(name for name in columns if name not in left_out)
    wrong = [n for n in columns if n.casefold().startswith(tuple(o.casefold() for o in _OWN))]
    if wrong:
        message = f"has {_listed(wrong)}, a name that is made here: leave it out by except_columns"
        raise _wrong("source", message, table)
    if len({name.casefold() for name in columns}) < len(columns):
        raise _wrong("source", f"has a column twice: {_listed(columns)}", table)
    return columns


def _check_keys(frame: DataFrame, keys: Sequence[str], columns: Sequence[str], table: str) -> None:
    missing = [name for name in keys if name not in columns]
    if missing:
        message = f"has {_listed(missing)}, which the columns of the target leave out"
        raise _wrong("keys", message, table)
    for name in keys:
        data_type = frame.schema[name].dataType
        if not isinstance(data_type, (*ORDERED, st.BooleanType)):
            message = f"has '{name}' of type {data_type.simpleString()}, which is no exact key"
            raise _wrong("keys", message, table)


def _listed(names: Iterable[Any]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"


def _wrong(argument: str, message: str, table: str) -> InvalidInputError:
    text = f"{argument} of changes for table '{table}' {message}"
    return InvalidInputError(
        text if text.endswith((".", "?")) else f"{text}.", kind="apply_changes", table=table
    )
