"""The check of all names that users give: database, table, tag, branch, column, commit user.

Most of these names become file names, so a hostile one could leave the warehouse, hide a file or
make two tables look the same. A name is refused before anything is read or written.
"""

from __future__ import annotations

import unicodedata

from tidelake.errors import InvalidInputError, shortened

NAME_BYTES_MAX = 200
"""Leaves room for prefixes and suffixes within the 255 bytes of file systems."""

_BAD_CATEGORIES = {
    "Cc": "a control character",
    "Cf": "an invisible formatting character",
    "Cs": "half a surrogate pair",
    "Zl": "a line separator",
    "Zp": "a paragraph separator",
}
# a column's name is part of a path only if it partitions, and is escaped there
_FREE_OF_SLASHES = frozenset({"database", "table", "tag", "branch", "user", "consumer"})
_FREE_OF_DOTS = frozenset({"database", "table"})  # 'db.table' must split in one way only
_FREE_OF_DOLLARS = frozenset({"database", "table", "branch"})  # 'table$files' is a system table


def validate_name(name: str, what: str) -> str:
    """Return the name, or raise an error with its fault.

    Parameters
    ----------
    what : str
        Its use: ``"database"``, ``"table"``, ``"tag"``, ``"branch"``, ``"column"``,
        ``"user"``, ``"consumer"``.

    Returns
    -------
    str
        The same name.

    Raises
    ------
    InvalidInputError
        The name is empty, too long, not in Unicode normal form C, or holds characters that make
        it unsafe as a file name or unclear to the eye.

    Examples
    --------
    >>> validate_name("flights", "table")
    'flights'
    >>> validate_name("../flights", "table")
    Traceback (most recent call last):
    tidelake.errors.InvalidInputError: '../flights' is not a valid table name: it contains '/'. ...
    """
    problem = _problem(name, what)
    if problem is None:
        return name
    message = (
        f"{shortened(repr(name))} is not a valid {what} name: it {problem}. Choose another name."
    )
    raise InvalidInputError(message, kind="bad_name", name=name, what=what)


def _problem(name: object, what: str) -> str | None:
    if not isinstance(name, str):
        return f"is of type {type(name).__name__}, not a string"
    if not name:
        return "is empty"
    if len(name) > NAME_BYTES_MAX:
        return f"is longer than {NAME_BYTES_MAX} bytes"
    for character in name:
        if character in "/\\" and what in _FREE_OF_SLASHES:
            return f"contains '{character}'"
        bad = _BAD_CATEGORIES.get(unicodedata.category(character))
        if bad is not None:
            return f"contains {bad} (U+{ord(character):04X})"
    if len(name.encode()) > NAME_BYTES_MAX:
        return f"is longer than {NAME_BYTES_MAX} bytes"
    if unicodedata.normalize("NFC", name) != name:
        return "is not in Unicode normal form C, so an equal-looking name could exist"
    if name != name.strip():
        return "begins or ends with white space"
    return _reserved_problem(name, what)


def _reserved_problem(name: str, what: str) -> str | None:
    if name in {".", ".."} or (name.startswith(".") and what != "column"):
        return "begins with '.'"
    if what in _FREE_OF_DOTS and "." in name:
        return "contains '.', which separates database and table"
    if what in _FREE_OF_DOLLARS and "$" in name:
        return "contains '$', which separates a table and its system table"
    if what == "branch" and (name == "main" or name.isdecimal()):
        return "is 'main' or a number, which have a special meaning"
    return None
