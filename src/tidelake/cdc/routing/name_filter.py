"""Which tables are kept equal: patterns that include and exclude, and tables of migrations.

A pattern must match a whole name; an excluding one wins. Source: Paimon's
``RichCdcMultiplexRecordEventParser`` and ``MySqlSyncDatabaseAction``. Of PostgreSQL, whose source
is one database, the patterns of databases are those of its schemas.

Tools that change a large MySQL table copy it into a table beside it, and swap the two: gh-ost's
``_x_gho``, ``_x_ghc`` and ``_x_del``, pt-online-schema-change's ``_x_new`` and ``_x_old``. Where
there is a table ``x``, those are left out, unless the including pattern has the name itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tidelake.cdc.source.source_table import SourceName
from tidelake.errors import InvalidInputError

ALL = ".*"
_MIGRATION = re.compile(r"_(?P<table>.+)_(?:gho|ghc|del|new|old)")


@dataclass(frozen=True, slots=True)
class NameFilter:
    """Patterns of names, as regular expressions.

    Examples
    --------
    >>> wanted = NameFilter(including_tables="orders|item.*", excluding_tables="items_old")
    >>> [wanted.takes(SourceName("shop", "", t)) for t in ("orders", "items", "items_old", "a")]
    [True, True, False, False]
    """

    including_tables: str = ALL
    excluding_tables: str | None = None
    including_dbs: str = ALL
    excluding_dbs: str | None = None

    def __post_init__(self) -> None:
        for name in self.__slots__:
            _check_pattern(getattr(self, name), name)

    def takes(self, name: SourceName) -> bool:
        """Whether patterns let a table through; what a message does not name passes."""
        return _passes(shard_of(name), self.including_dbs, self.excluding_dbs) and _passes(
            name.table, self.including_tables, self.excluding_tables
        )

    def taken(self, names: Iterable[SourceName]) -> list[SourceName]:
        """Of all tables those that are kept equal: without the tables of migrations."""
        known = list(names)
        tables = {(name.database, name.schema, name.table) for name in known}
        literal = set(self.including_tables.split("|"))

        def is_migration(name: SourceName) -> bool:
            found = _MIGRATION.fullmatch(name.table)
            return (
                found is not None
                and name.table not in literal
                and (name.database, name.schema, found["table"]) in tables
            )

        return [name for name in known if self.takes(name) and not is_migration(name)]


def shard_of(name: SourceName) -> str:
    """The database of a table, or its schema where the source is one database."""
    return name.schema or name.database


def _passes(text: str, including: str, excluding: str | None) -> bool:
    if not text:
        return True
    if excluding is not None and re.fullmatch(excluding, text):
        return False
    return re.fullmatch(including, text) is not None


def _check_pattern(pattern: str | None, option: str) -> None:
    try:
        re.compile(pattern or "")
    except re.error as error:
        message = (
            f"The pattern '{pattern}' of {option} is no regular expression: {error}. Write it as"
            " Python's re takes it, such as 'a|b.*'."
        )
        raise InvalidInputError(message, kind="option_value", option=option) from error
