"""Which columns of a table values go to, and what is said where one does not go into its column.

The rule is SQL's store assignment, as Spark has it (``storeAssignmentPolicy = ANSI``), the same for
INSERT, UPDATE and MERGE, with Spark and without: a number goes into a column of numbers, a fraction
is cut off where the column has none, and one beyond the column's range is an error; a text goes
into no number. Which types go into which is decided in :mod:`tidelake.spark.assignment` and, for
literals, in :mod:`tidelake.sql.kernel_insert`; the words are here.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.errors import InvalidInputError, near_names
from tidelake.types import DataField

__all__ = ["check_count", "out_of_range", "target_columns", "wrong_type"]


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
