"""Which columns of a table the columns of an INSERT go to."""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.errors import InvalidInputError, near_names
from tidelake.types import DataField

__all__ = ["check_count", "target_columns", "wrong_type"]


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
    by_key = {f.name.casefold(): f for f in fields}
    taken = {name.casefold() for name in fixed}
    if not given:
        return [f for f in fields if f.name.casefold() not in taken]
    found: list[DataField] = []
    for name in given:
        field = by_key.get(name.casefold())
        if field is None:
            message = (
                f"Table '{table}' has no column '{name}'."
                f"{near_names(name, [f.name for f in fields])}"
            )
            raise InvalidInputError(message, kind="column_not_found", table=table, column=name)
        if field in found or field.name.casefold() in taken:
            message = f"Column '{name}' of table '{table}' is given twice."
            raise InvalidInputError(message, kind="column_twice", table=table, column=name)
        found.append(field)
    return found


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
        The type of what the query gives, and what it may cast that to, as Spark calls them.
    table : str
        For the message.
    """
    message = (
        f"Column '{target.name}' of table '{table}' is {target.type}, the query gives {given}:"
        f" write CAST(... AS {cast_to})."
    )
    return InvalidInputError(message, kind="column_type", table=table, column=target.name)
