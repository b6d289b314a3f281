"""Table names in statements."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableName:
    """A name of one to three parts.

    Parameters
    ----------
    parts : tuple of str
        ``(table,)``, ``(database, table)`` or ``(catalog, database, table)``.
    """

    parts: tuple[str, ...]
    start: int = 0

    def __str__(self) -> str:
        return ".".join(self.parts)


def quoted_name(name: str) -> str:
    """Quote a name in backticks.

    Examples
    --------
    >>> quoted_name("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"
