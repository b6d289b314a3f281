"""Names of tables: ``"database.table"``."""

from __future__ import annotations

from typing import NamedTuple

from tidelake.errors import InvalidInputError, shortened
from tidelake.fileio.name import validate_name

NAME_REPEATED_MAX = 40  # characters of a name that a message says twice


class Identifier(NamedTuple):
    """A table's database and name, both valid.

    Examples
    --------
    >>> Identifier.of("shop.orders")
    Identifier(database='shop', table='orders')
    >>> str(Identifier.of("shop.orders"))
    'shop.orders'
    """

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"

    @staticmethod
    def of(text: object) -> Identifier:
        """Split ``"database.table"``.

        Raises
        ------
        InvalidInputError
            It is no name of a table.
        """
        if not isinstance(text, str) or text.count(".") != 1:
            shown = shortened(repr(text))
            simple = isinstance(text, str) and text.isidentifier()
            simple = simple and len(str(text)) <= NAME_REPEATED_MAX
            such = f", such as 'default.{text}', SQL's default database" if simple else ""
            message = f"{shown} is not a table name: write it as 'database.table'{such}."
            raise InvalidInputError(message, kind="bad_identifier", table=text)
        database, _, name = text.partition(".")
        return Identifier(validate_name(database, "database"), validate_name(name, "table"))
