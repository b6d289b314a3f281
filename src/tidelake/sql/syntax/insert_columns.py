"""Which columns of a table values go to, and what is said where one does not go into its column.

The rule is SQL's store assignment, as Spark has it (``storeAssignmentPolicy = ANSI``), the same for
INSERT, UPDATE and MERGE, with Spark and without: a number goes into a column of numbers, a fraction
is cut off where the column has none, and one beyond the column's range is an error; a text goes
into no number. Which types go into which is decided in
:mod:`tidelake.spark.expression.store_assignment` and, for literals, in
:mod:`tidelake.sql.execution.kernel_insert`; the words are here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from tidelake.errors import InvalidInputError, near_names
from tidelake.sql.syntax.ast import Insert, Query
from tidelake.sql.syntax.parameters import literal_text
from tidelake.sql.syntax.tokens import words_of
from tidelake.types import DataField, TypeRoot
from tidelake.types.default_value import default_scalar

__all__ = [
    "check_count",
    "insert_targets",
    "out_of_range",
    "target_columns",
    "values_with_defaults",
    "with_defaults",
    "wrong_type",
]

DEFAULT = "DEFAULT"
_OPENS_CELL = frozenset({"(", ",", "VALUES", "SELECT"})
_ENDS_CELL = frozenset({")", ","})


def target_columns(
    given: Sequence[str], fields: Sequence[DataField], fixed: Sequence[str], *, table: str
) -> list[DataField]:
    """The columns that a query's columns go to, in the query's order.

    Parameters
    ----------
    given : sequence of str
        The list behind the table's name; empty for all columns.
    fields : sequence of DataField
        The table's.
    fixed : sequence of str
        Columns whose value PARTITION gives.
    table : str
        For messages.

    Raises
    ------
    InvalidInputError
        A name is unknown, there twice, or has a value already.
    """
    taken = {_named(name, fields, table=table).name for name in fixed}
    if not given:
        return [f for f in fields if f.name not in taken]
    found: list[DataField] = []
    for name in given:
        field = _named(name, fields, table=table)
        if field in found or field.name in taken:
            message = f"Column '{name}' of table '{table}' is given twice."
            raise InvalidInputError(message, kind="column_twice", table=table, column=name)
        found.append(field)
    return found


def insert_targets(
    statement: Insert, fields: Sequence[DataField], *, table: str
) -> list[DataField]:
    """The columns that a statement's query gives, in its order; by name they are not known yet.

    Raises
    ------
    InvalidInputError
        As of :func:`target_columns`.
    """
    targets = target_columns(statement.columns, fields, list(statement.partition), table=table)
    if not statement.columns and statement.dynamic:
        # Spark's order: the partition columns that the query gives come last
        last = [f for f in targets if f.name in statement.dynamic]
        targets = [f for f in targets if f not in last] + last
    return targets


def with_defaults(
    statement: Insert, fields: Sequence[DataField], *, table: str, zone: str | None
) -> Insert:
    """The same statement with the columns' own defaults where its query says DEFAULT.

    DEFAULT is a whole value of VALUES, or of a SELECT without FROM; elsewhere it is a name.

    Parameters
    ----------
    statement : Insert
        The statement.
    fields : sequence of DataField
        The table's columns.
    table : str
        For messages.
    zone : str, optional
        Of times that name none.

    Examples
    --------
    >>> from tidelake.sql.syntax.name import TableName
    >>> from tidelake.types import parse_type
    >>> fields = [DataField(0, "a", parse_type("INT")),
    ...           DataField(1, "b", parse_type("STRING"), None, "'x'")]
    >>> text = "VALUES (1, DEFAULT), (DEFAULT, 'DEFAULT')"
    >>> statement = Insert(TableName(("t",)), Query(text, 0, len(text)))
    >>> with_defaults(statement, fields, table="t", zone=None).query.sql
    "VALUES (1, 'x'), (NULL, 'DEFAULT')"
    """
    cells = [] if statement.by_name else list(_default_cells(statement.query))
    if not cells:
        return statement
    targets = insert_targets(statement, fields, table=table)
    text, end = statement.query.text, statement.query.end
    for start, place in reversed(cells):
        value = _literal(targets[place], zone) if place < len(targets) else "NULL"
        text = f"{text[:start]}{value}{text[start + len(DEFAULT) :]}"
        end += len(value) - len(DEFAULT)
    return replace(statement, query=Query(text, statement.query.start, end))


def values_with_defaults(
    values: Mapping[str, Query], fields: Sequence[DataField], *, zone: str | None
) -> dict[str, Query]:
    """New values by columns, of UPDATE or MERGE, with a column's own default for DEFAULT."""
    by_key = {f.name.casefold(): f for f in fields}
    if DEFAULT.casefold() in by_key:  # then it is a column
        return dict(values)
    made: dict[str, Query] = {}
    for column, words in values.items():
        field = by_key.get(column.casefold())
        if field is not None and words.sql.strip().upper() == DEFAULT:
            text = _literal(field, zone)
            words = Query(text, 0, len(text))
        made[column] = words
    return made


def _default_cells(query: Query) -> Iterator[tuple[int, int]]:
    """Where DEFAULT stands for a value, and of the how manieth column."""
    if DEFAULT not in query.sql.upper():
        return
    words = [w for w in words_of(query.text) if query.start <= w.start < query.end]
    is_values = words[0].upper == "VALUES"
    if not is_values and (words[0].upper != "SELECT" or any(w.upper == "FROM" for w in words)):
        return
    depth = place = 0
    of_row = 1 if is_values else 0
    for number, word in enumerate(words):
        sign = "" if word.is_quoted else word.text
        depth += (sign == "(") - (sign == ")")
        if sign == "(" and depth == of_row:
            place = 0
        if sign == "," and depth == of_row:
            place += 1
        if word.upper != DEFAULT or depth > of_row:
            continue
        behind = words[number + 1].text if number + 1 < len(words) else ","
        if words[number - 1].text.upper() in _OPENS_CELL and behind in _ENDS_CELL:
            yield word.start, place if depth == of_row else 0


def _literal(field: DataField, zone: str | None) -> str:
    """A column's default as a literal of SQL; NULL where it has none."""
    if field.default_value is None:
        return "NULL"
    value = default_scalar(field.default_value, field.type, zone=zone).as_py()
    if field.type.root is TypeRoot.TIMESTAMP and isinstance(value, datetime):
        return f"TIMESTAMP_NTZ '{value.isoformat(' ')}'"
    return literal_text(value, f"the default of column '{field.name}'")


def _named(name: str, fields: Sequence[DataField], *, table: str) -> DataField:
    """The column of a name: of the very same, or of the one that differs in case alone."""
    same = [f for f in fields if f.name == name]
    alike = same or [f for f in fields if f.name.casefold() == name.casefold()]
    if len(alike) == 1:
        return alike[0]
    names = [f.name for f in alike or fields]
    if alike:  # a table that another engine made
        message = (
            f"'{name}' may be any of the columns {', '.join(names)} of table '{table}', which"
            " differ only in case: write it as one of them, or rename the others first."
        )
        raise InvalidInputError(message, kind="column_ambiguous", table=table, column=name)
    message = f"Table '{table}' has no column '{name}'.{near_names(name, names)}"
    raise InvalidInputError(message, kind="column_not_found", table=table, column=name)


def check_count(count: int, targets: Sequence[DataField], *, table: str) -> None:
    """See that a query gives as many columns as it has to.

    Raises
    ------
    InvalidInputError
        They are too few or too many.
    """
    if count != len(targets):
        message = (
            f"The query gives {count} columns, table '{table}' takes {len(targets)}:"
            f" {', '.join(f.name for f in targets)}."
        )
        raise InvalidInputError(message, kind="column_count", table=table)


def wrong_type(target: DataField, *, given: str, cast_to: str, table: str) -> InvalidInputError:
    """Make the error for a type that does not go into a column.

    Parameters
    ----------
    target : DataField
        The column.
    given, cast_to : str
        The type of the value, and what it may be cast to, as Spark calls them.
    table : str
        For the message.
    """
    message = (
        f"Column '{target.name}' of table '{table}' is {target.type}, the value is {given}:"
        f" write CAST(... AS {cast_to})."
    )
    return InvalidInputError(message, kind="column_type", table=table, column=target.name)


def out_of_range(target: DataField, value: object, *, table: str) -> InvalidInputError:
    """Make the error for a number that a column cannot hold.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> out_of_range(DataField(0, "n", parse_type("INT")), 3000000000, table="t").message
    "The value 3000000000 does not fit column 'n' of table 't', which is INT: write a value \
within its range, or NULL, or give the column a wider type."
    """
    message = (
        f"The value {value} does not fit column '{target.name}' of table '{table}', which is"
        f" {target.type}: write a value within its range, or NULL, or give the column a wider type."
    )
    return InvalidInputError(message, kind="value_range", table=table, column=target.name)
