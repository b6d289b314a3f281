"""Names of tables as statements write them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TableName", "quoted_name"]


@dataclass(frozen=True, slots=True)
class TableName:
    """A name of one to three parts, and where it stands.

    Parameters
    ----------
    parts : tuple of str
        ``(table,)``, ``(database, table)`` or ``(catalog, database, table)``.
    start : int
        Its place in the statement's text.
    """

    parts: tuple[str, ...]
    start: int = 0

    def __str__(self) -> str:
        return ".".join(self.parts)


def quoted_name(name: str) -> str:
    """A name in backticks.

    Examples
    --------
    >>> quoted_name("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"
