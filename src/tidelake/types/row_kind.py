"""The effect of a changelog row on its key."""

from __future__ import annotations

import enum

from tidelake.errors import InvalidInputError


class RowKind(enum.IntEnum):
    """The four kinds of rows; the number is the byte on disk (never renumber).

    Examples
    --------
    >>> RowKind.parse("-D").value, str(RowKind.INSERT)
    (3, '+I')
    """

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return ("+I", "-U", "+U", "-D")[self]

    @classmethod
    def parse(cls, text: str) -> RowKind:
        """Read '+I', '-U', '+U' or '-D'."""
        try:
            return cls(("+I", "-U", "+U", "-D").index(text.upper()))
        except ValueError:
            message = f"'{text}' is not a row kind; use one of +I, -U, +U, -D."
            raise InvalidInputError(message, kind="row_kind") from None
