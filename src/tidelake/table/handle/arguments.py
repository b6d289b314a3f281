"""Checks of arguments: counts, whole numbers, column names, locations."""

from __future__ import annotations

import operator
import posixpath
from collections.abc import Mapping, Sequence

from tidelake.errors import InvalidInputError, NotFoundError, near_names, shortened
from tidelake.options import Options, declared

ROW_LIMIT_MAX = 2**62
"""More rows than any table has; Arrow takes no larger numbers."""


def whole_number(value: object) -> int | None:
    """Take an int or an equal of it, such as a numpy integer; None for anything else.

    Examples
    --------
    >>> import numpy as np
    >>> whole_number(np.int64(3)), whole_number("3"), whole_number(True)
    (3, None, None)
    """
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type] # what is none raises
    except TypeError:
        return None


def check_dict(value: object, name: str, *, table: str) -> None:
    """Refuse anything that is not a mapping of names to values.

    Raises
    ------
    InvalidInputError
        It is not a mapping.
    """
    if not isinstance(value, Mapping):
        shown = shortened(repr(value))
        message = f"{name}={shown} is not a dict: give names and values, as in {{'name': value}}."
        raise InvalidInputError(message, kind="bad_argument", table=table)


def check_location(options: Options, location: str, *, table: str) -> None:
    """Refuse an option ``path`` that is not the table's location.

    Raises
    ------
    InvalidInputError
        It names another directory.
    """
    given = options.get(declared.PATH)
    if given is None:
        return
    path = "/" + given.removeprefix("file:").lstrip("/") if given.startswith("file:") else given
    if posixpath.normpath(path) != posixpath.normpath(location):
        message = (
            f"Table '{table}' is at {location}, but option 'path' is '{shortened(given)}'. Leave"
            " the option out: the warehouse and the table's name determine the location."
        )
        raise InvalidInputError(message, kind="option_path", table=table, option="path")


def row_limit(limit: object, *, table: str) -> int | None:
    """Check a limit; None stays None.

    Raises
    ------
    InvalidInputError
        It is not a whole number from 0 on.
    """
    if limit is None:
        return None
    number = whole_number(limit)
    if number is None or number < 0:
        message = f"limit must be a number from 0 on, not {shortened(repr(limit))}."
        raise InvalidInputError(message, kind="bad_limit", table=table)
    return min(number, ROW_LIMIT_MAX)


def column_names(
    columns: Sequence[str] | None, default: Sequence[str], *, table: str
) -> tuple[str, ...]:
    """Give the columns asked for, by default all; one name alone is one column.

    Raises
    ------
    InvalidInputError
        A column is named twice. That the column exists is not checked here.
    """
    if columns is None:
        return tuple(default)
    names = (columns,) if isinstance(columns, str) else tuple(str(name) for name in columns)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        message = f"columns= names '{shortened(twice[0])}' more than once; name each column once."
        raise InvalidInputError(message, kind="column_twice", table=table, column=twice[0])
    return names


def known_columns(
    columns: Sequence[str] | None, known: Sequence[str], *, table: str
) -> tuple[str, ...]:
    """Give the columns asked for, by default all known ones.

    Raises
    ------
    InvalidInputError
        A column is named twice.
    NotFoundError
        There is no such column; near names are offered.
    """
    names = column_names(columns, known, table=table)
    for name in names:
        if name not in known:
            message = (
                f"'{table}' has no column '{name}'.{near_names(name, known)} Its columns are"
                f" {', '.join(known)}."
            )
            raise NotFoundError(message, kind="column_not_found", column=name)
    return names
