"""Errors about names, with the position of the name in the text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidelake.engine.tables import Catalog
from tidelake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    TidelakeError,
    UnsupportedError,
    near_names,
)
from tidelake.sql.execution.session import SqlSession
from tidelake.sql.syntax.ast import Statement
from tidelake.sql.syntax.name import TableName
from tidelake.sql.syntax.tokens import TokenKind, error_at, split_statements, tokenize

DATABASES_SEARCHED_MAX = 100

_SHOWN = " At line "
_NAMED = ("column", "option", "tag", "snapshot", "version")
"""What errors are about, by the name in their context."""
_ABOUT_NAMES = frozenset(
    {"column_not_found", "column_exists", "column_ambiguous", "bad_partition", "bad_schema"}
    | {"unknown_option", "option_value", "tag_not_found", "tag_exists", "snapshot_not_found"}
)
"""Kinds of errors about a name that a statement gives, and not about a row."""
_NO_TABLE = frozenset({"table_not_found", "database_not_found"})
_FILE_FORMATS = frozenset(
    {"parquet", "orc", "csv", "json", "text", "avro", "binaryfile", "global_temp"}
)


@contextmanager
def positioned_errors(text: str, statement: Statement) -> Iterator[None]:
    """Add the position of what an error is about: a column, an option, a tag or the table."""
    try:
        yield
    except (NotFoundError, AlreadyExistsError, InvalidInputError, UnsupportedError) as error:
        position = None if _SHOWN in error.message else _position(error, text, statement)
        if position is None:
            raise
        raise error_at(
            text, position, error.message, kind=error.kind, error=type(error), **error.context
        ) from error


def _position(error: TidelakeError, text: str, statement: Statement) -> int | None:
    """Offset of the name that an error is about; None if the text does not have it."""
    name = getattr(statement, "name", None)
    table = name.start if isinstance(name, TableName) else None
    start = getattr(statement, "start", table)
    about = {str(error.context[key]).casefold() for key in _NAMED if key in error.context}
    if error.kind in _ABOUT_NAMES and about and isinstance(start, int):
        statements = split_statements(tokenize(text))
        own = next((w for w in statements if w[0].start <= start < w[-1].end), [])
        for token in own:
            is_behind = table is None or token.start > table
            if is_behind and token.kind is not TokenKind.SIGN and token.text.casefold() in about:
                return token.start
    return table if isinstance(error, NotFoundError | AlreadyExistsError) else None


def is_file_format(name: TableName) -> bool:
    """True for Spark's names of files: ``parquet.`/data/orders```."""
    return len(name.parts) == 2 and name.parts[0].lower() in _FILE_FORMATS


def _elsewhere(table: str, catalog: Catalog, database: str) -> str | None:
    """Another database of the catalog with a table of that name."""
    others = [name for name in catalog.list_databases() if name != database]
    for other in others[:DATABASES_SEARCHED_MAX]:
        if table in catalog.list_tables(other):
            return other
    return None


def unknown_table_error(
    error: NotFoundError, name: TableName, text: str, session: SqlSession
) -> NotFoundError:
    """Make the error for an unknown table in a query."""
    message = error.message
    if len(name.parts) == 1 and error.kind in _NO_TABLE:
        catalog, database = session.catalog, session.database
        tables = catalog.list_tables(database) if database in catalog.list_databases() else []
        known = [*session.temporary, *(full[-1] for full in session.qualified_temporary), *tables]
        message = (
            f"There is no table or view '{name}' in database '{database}' or in"
            f" the session.{near_names(name.parts[0], known)}"
        )
        there = _elsewhere(name.parts[0].partition("$")[0], catalog, database)
        if there is not None:
            message += f" Database '{there}' has one: write {there}.{name}, or USE {there}."
    raised = error_at(
        text, name.start, message, kind=error.kind, error=NotFoundError, **error.context
    )
    assert isinstance(raised, NotFoundError)
    return raised
