"""Target columns of INSERT, their defaults, and the errors of store assignment.

INSERT, UPDATE and MERGE assign values as Spark does (``storeAssignmentPolicy = ANSI``), with Spark
and without. A number goes into a numeric column, and a fraction is cut off if the column has none.
A number out of the column's range is an error, and so is text for a number.
:mod:`tidelake.spark.expression.store_assignment` checks types; for literals
:mod:`tidelake.sql.execution.kernel_insert` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from tidelake.errors import InvalidInputError, counted, near_names
from tidelake.sql.syntax.ast import Insert, Query
from tidelake.sql.syntax.parameters import sql_literal
from tidelake.sql.syntax.tokens import tokenize
from tidelake.types import DataField, TypeRoot
from tidelake.types.default_value import default_scalar

DEFAULT = "DEFAULT"
_OPENS_CELL = frozenset({"(", ",", "VALUES", "SELECT"})
_ENDS_CELL = frozenset({")", ","})


def target_columns(
    given: Sequence[str], fields: Sequence[DataField], fixed: Sequence[str], *, table: str
) -> list[DataField]:
    """Return the target columns of a query, in its order.

    Parameters
    ----------
    given : sequence of str
        The column list after the table's name; empty for all columns.

    Raises
    ------
    InvalidInputError
        A column is unknown, listed twice, or has a value in PARTITION.
    """
    taken = {_named(name, fields, table=table).name for name in fixed}
    if not given:
        return [f for f in fields if f.name not in taken]
    found: list[DataField] = []
    for name in given:
        field = _named(name, fields, table=table)
        if field in found or field.name in taken:
            message = f"Column '{name}' of table '{table}' gets two values: list it once."
            raise InvalidInputError(message, kind="column_twice", table=table, column=name)
        found.append(field)
    return found


def insert_targets(
    statement: Insert, fields: Sequence[DataField], *, table: str
) -> list[DataField]:
    """Return the target columns of an INSERT; BY NAME is not resolved.

    Without a list they are those of the table, in its order, without the columns that PARTITION
    gives a value. A partition column without one keeps its place, as in Spark's catalogs.

    Raises
    ------
    InvalidInputError
        As :func:`target_columns`.
    """
    return target_columns(statement.columns, fields, list(statement.partition), table=table)


def with_defaults(
    statement: Insert, fields: Sequence[DataField], *, table: str, zone: str | None
) -> Insert:
    """Replace DEFAULT in a statement's query by the columns' defaults.

    DEFAULT is a keyword as a whole value of VALUES or of a SELECT without FROM; elsewhere it is a
    name.

    Parameters
    ----------
    zone : str, optional
        Zone of times without one.

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
    for start, index in reversed(cells):
        value = default_literal(targets[index], zone=zone) if index < len(targets) else "NULL"
        text = f"{text[:start]}{value}{text[start + len(DEFAULT) :]}"
        end += len(value) - len(DEFAULT)
    return replace(statement, query=Query(text, statement.query.start, end))


def values_with_defaults(
    values: Mapping[str, Query], fields: Sequence[DataField], *, zone: str | None
) -> dict[str, Query]:
    """Replace DEFAULT in the assignments of UPDATE or MERGE by the column's default."""
    by_key = {f.name.casefold(): f for f in fields}
    if DEFAULT.casefold() in by_key:  # then it is a column
        return dict(values)
    made: dict[str, Query] = {}
    for column, value in values.items():
        field = by_key.get(column.casefold())
        if field is not None and value.sql.strip().upper() == DEFAULT:
            text = default_literal(field, zone=zone)
            value = Query(text, 0, len(text))
        made[column] = value
    return made


def _default_cells(query: Query) -> Iterator[tuple[int, int]]:
    """Offsets of DEFAULT as a value, each with its column index."""
    if DEFAULT not in query.sql.upper():
        return
    tokens = [w for w in tokenize(query.text) if query.start <= w.start < query.end]
    is_values = tokens[0].upper == "VALUES"
    if not is_values and (tokens[0].upper != "SELECT" or any(w.upper == "FROM" for w in tokens)):
        return
    depth = index = 0
    of_row = 1 if is_values else 0
    for number, token in enumerate(tokens):
        sign = "" if token.is_quoted else token.text
        depth += (sign == "(") - (sign == ")")
        if sign == "(" and depth == of_row:
            index = 0
        if sign == "," and depth == of_row:
            index += 1
        if token.upper != DEFAULT or depth > of_row:
            continue
        after = tokens[number + 1].text if number + 1 < len(tokens) else ","
        if tokens[number - 1].text.upper() in _OPENS_CELL and after in _ENDS_CELL:
            yield token.start, index if depth == of_row else 0


def default_literal(field: DataField, *, zone: str | None) -> str:
    """A column's default as a literal; NULL without one."""
    if field.default_value is None:
        return "NULL"
    value = default_scalar(field.default_value, field.type, zone=zone).as_py()
    if field.type.root is TypeRoot.TIMESTAMP and isinstance(value, datetime):
        return f"TIMESTAMP_NTZ '{value.isoformat(' ')}'"
    return sql_literal(value, f"the default of column '{field.name}'")


def _named(name: str, fields: Sequence[DataField], *, table: str) -> DataField:
    """Find a column by its exact name, or else by a name that differs only in case."""
    same = [f for f in fields if f.name == name]
    alike = same or [f for f in fields if f.name.casefold() == name.casefold()]
    if len(alike) == 1:
        return alike[0]
    names = [f.name for f in alike or fields]
    if alike:  # a table that another engine made
        message = (
            f"'{name}' is ambiguous: columns {', '.join(names)} of table '{table}' differ only in"
            " case. Write the exact name, or rename the other columns."
        )
        raise InvalidInputError(message, kind="column_ambiguous", table=table, column=name)
    message = f"Table '{table}' has no column '{name}'.{near_names(name, names)}"
    raise InvalidInputError(message, kind="column_not_found", table=table, column=name)


def check_count(count: int, targets: Sequence[DataField], *, table: str) -> None:
    """Check the number of a query's columns.

    Raises
    ------
    InvalidInputError
        They are too few or too many.
    """
    if count != len(targets):
        message = (
            f"The query gives {counted(count, 'column')}, but table '{table}' takes"
            f" {len(targets)}: {', '.join(f.name for f in targets)}."
        )
        raise InvalidInputError(message, kind="column_count", table=table)


def wrong_type_error(
    target: DataField, *, given: str, cast_to: str, table: str
) -> InvalidInputError:
    """Make the error for a type that a column does not take."""
    message = (
        f"Column '{target.name}' of table '{table}' is {target.type}, but the value is {given}:"
        f" write CAST(... AS {cast_to})."
    )
    return InvalidInputError(message, kind="column_type", table=table, column=target.name)


def out_of_range_error(target: DataField, value: object, *, table: str) -> InvalidInputError:
    """Make the error for a number out of a column's range.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> out_of_range_error(DataField(0, "n", parse_type("INT")), 3000000000, table="t").message
    "The value 3000000000 does not fit column 'n' of table 't', which is INT: write a value \
within its range, or NULL, or give the column a wider type."
    """
    message = (
        f"The value {value} does not fit column '{target.name}' of table '{table}', which is"
        f" {target.type}: write a value within its range, or NULL, or give the column a wider type."
    )
    return InvalidInputError(message, kind="value_range", table=table, column=target.name)
