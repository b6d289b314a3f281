"""Which tables of a catalog are meant: by names with ``*``, or by Paimon's regular expressions."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from tidelake.errors import InvalidInputError, NotFoundError

ALL_TABLES = "*.*"
_WILD = re.compile(r"[*?\[]")


class Names(Protocol):
    """The names of a catalog."""

    def list_databases(self) -> list[str]:
        """All databases."""
        ...

    def list_tables(self, database: str) -> list[str]:
        """The tables of one; ``NotFoundError`` if it is not there."""
        ...


@dataclass(frozen=True, slots=True)
class TablePatterns:
    """Tables by patterns.

    Parameters
    ----------
    databases : re.Pattern
        Matches the whole name of a database.
    including : re.Pattern
        Matches the whole name ``database.table``.
    excluding : re.Pattern, optional
        The same, of tables that are not meant.
    exact : tuple of str
        Names without a pattern, which must be there at first.
    words : str
        The names as they were given, for messages.

    Examples
    --------
    >>> found = TablePatterns.of_names(["shop.*", "log.clicks"])
    >>> [found.match(name) for name in ("shop.orders", "log.clicks", "log.views")]
    [True, True, False]
    """

    databases: re.Pattern[str]
    including: re.Pattern[str]
    excluding: re.Pattern[str] | None = None
    exact: tuple[str, ...] = ()
    words: str = ""

    def __str__(self) -> str:
        return self.words or self.including.pattern

    @classmethod
    def of_names(cls, names: Sequence[str]) -> TablePatterns:
        """Tables by names such as ``"db.t"``, ``"db.*"``, ``"db.order_?"``, ``"*.*"``.

        Raises
        ------
        InvalidInputError
            A name is not ``database.table``, or there is none.
        """
        for name in names:
            if isinstance(name, str) and "$" in name:
                raise _no_table(name)
            if not isinstance(name, str) or name.count(".") != 1 or not all(name.split(".")):
                raise _bad_name(name)
        if not names:
            raise _bad_name("")
        return cls(
            _any_of(name.partition(".")[0] for name in names),
            _any_of(names),
            exact=tuple(name for name in names if not _WILD.search(name)),
            words=", ".join(names),
        )

    @classmethod
    def of_paimon(
        cls,
        including_databases: str | None = None,
        including_tables: str | None = None,
        excluding_tables: str | None = None,
    ) -> TablePatterns:
        """Tables by regular expressions, as Paimon's ``compact_database`` takes them.

        Parameters
        ----------
        including_databases : str, optional
            Matches the whole name of a database; all by default.
        including_tables, excluding_tables : str, optional
            Match the whole name ``database.table``; all and none by default.

        Raises
        ------
        InvalidInputError
            One is no regular expression.
        """
        return cls(
            _compiled(including_databases or ".*", "including_databases"),
            _compiled(including_tables or ".*", "including_tables"),
            _compiled(excluding_tables, "excluding_tables") if excluding_tables else None,
        )

    def match(self, name: str) -> bool:
        """Whether a table ``database.table`` is meant."""
        if not self.databases.fullmatch(name.partition(".")[0]):
            return False
        is_excluded = self.excluding is not None and self.excluding.fullmatch(name)
        return bool(self.including.fullmatch(name)) and not is_excluded

    def names(self, catalog: Names) -> list[str]:
        """The tables that are meant and there, sorted. One listing for each database."""
        found: list[str] = []
        for database in catalog.list_databases():
            if self.databases.fullmatch(database):
                with suppress(NotFoundError):  # dropped meanwhile
                    found += [f"{database}.{table}" for table in catalog.list_tables(database)]
        return sorted(name for name in found if self.match(name))


def _any_of(globs: Iterable[str]) -> re.Pattern[str]:
    parts = dict.fromkeys(fnmatch.translate(glob) for glob in globs)
    return re.compile("|".join(parts))


def _compiled(text: str, argument: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        message = (
            f"{argument} is '{text}', which is no regular expression: {error}. Write 'db1|db2' for"
            " two names and '.*' for all."
        )
        raise InvalidInputError(message, kind="bad_argument", argument=argument) from error


def _bad_name(name: object) -> InvalidInputError:
    message = (
        f"'{name}' names no tables: give 'database.table', where * stands for anything, as in"
        f" 'shop.*' or '{ALL_TABLES}'."
    )
    return InvalidInputError(message, kind="bad_name", name=str(name))


def _no_table(name: str) -> InvalidInputError:
    message = (
        f"'{name}' is a branch or a system table, and a maintenance job works on tables. A branch"
        ' is compacted by catalog.table("db.t").branch("b").compact().'
    )
    return InvalidInputError(message, kind="bad_name", name=name)
