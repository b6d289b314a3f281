"""A place in the log of PostgreSQL: :class:`LogPosition`.

The log sends a transaction at its commit. So transactions are ordered by the LSN at which their
commit record begins, and the changes of one transaction by their number in it, from 1.

A position ``(lsn, index)`` means: everything of the transactions that committed before `lsn` has
been read, and of the one that committed at `lsn` the first `index` changes. After a whole
transaction the position is the end of its commit record with index 0; no other transaction can
have committed before that and be read later. The server sends from ``lsn`` on, and a reader leaves
the first `index` changes out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidelake.errors import InvalidInputError

_TEXT = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})(?::([0-9]+))?")


@dataclass(frozen=True, slots=True, order=True)
class LogPosition:
    """A place between two changes of the log.

    Parameters
    ----------
    lsn : int
        A byte of the write-ahead log.
    index : int
        How many changes of the transaction that committed at `lsn` are before it.

    Examples
    --------
    >>> str(LogPosition(0x16B3748, 12))
    '0/16B3748:12'
    >>> LogPosition.parse("0/16B3748:12") < LogPosition.parse("0/16B37A0")
    True
    """

    lsn: int
    index: int = 0

    @classmethod
    def parse(cls, text: str) -> LogPosition:
        """Read a position's text.

        Raises
        ------
        InvalidInputError
            It is none.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            message = f"'{text}' is not a position of PostgreSQL, such as 0/16B3748 or 0/16B3748:3."
            raise InvalidInputError(message, kind="cdc_position")
        return cls((int(match[1], 16) << 32) | int(match[2], 16), int(match[3] or 0))

    def __str__(self) -> str:
        return f"{lsn_text(self.lsn)}:{self.index}" if self.index else lsn_text(self.lsn)


class LogPositions:
    """What positions of the log say of each other."""

    def is_position(self, text: str) -> bool:
        """Whether a text is one."""
        try:
            LogPosition.parse(text)
        except InvalidInputError:
            return False
        return True

    def is_before(self, left: str, right: str) -> bool:
        """Whether one position is before another."""
        return LogPosition.parse(left) < LogPosition.parse(right)

    def is_between_transactions(self, position: str) -> bool | None:
        """Whether no transaction is cut at a position."""
        return LogPosition.parse(position).index == 0


def lsn_text(lsn: int) -> str:
    """Write an LSN as PostgreSQL does.

    Examples
    --------
    >>> lsn_text(0x1_0000_00FF)
    '1/FF'
    """
    return f"{lsn >> 32:X}/{lsn & 0xFFFF_FFFF:X}"
