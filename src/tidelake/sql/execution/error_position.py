"""Errors about names, shown where the name stands in the text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidelake.catalog import Catalog
from tidelake.errors import AlreadyExistsError, NotFoundError, near_names
from tidelake.sql.execution.session import SqlSession
from tidelake.sql.syntax.ast import Statement
from tidelake.sql.syntax.name import TableName
from tidelake.sql.syntax.tokens import fault

DATABASES_SEARCHED_MAX = 100

__all__ = ["is_file_format", "placed", "unknown_table"]

_SHOWN = " At line "
_NO_TABLE = frozenset({"table_not_found", "database_not_found"})
_FILE_FORMATS = frozenset(
    {"parquet", "orc", "csv", "json", "text", "avro", "binaryfile", "global_temp"}
)


@contextmanager
def placed(text: str, statement: Statement) -> Iterator[None]:
    """Show the name that a statement's error is about, where nothing is shown yet.

    Parameters
    ----------
    text : str
        The whole text.
    statement : Statement
        The one that runs.
    """
    try:
        yield
    except (NotFoundError, AlreadyExistsError) as error:
        name = getattr(statement, "name", None)
        if not isinstance(name, TableName) or _SHOWN in error.message:
            raise
        raise fault(
            text, name.start, error.message, kind=error.kind, error=type(error), **error.context
        ) from error


def is_file_format(name: TableName) -> bool:
    """Whether a name is one of Spark's for files: ``parquet.`/data/orders```."""
    return len(name.parts) == 2 and name.parts[0].lower() in _FILE_FORMATS


def _elsewhere(table: str, catalog: Catalog, database: str) -> str | None:
    """Another database of the catalog that has a table of that name."""
    others = [name for name in catalog.list_databases() if name != database]
    for other in others[:DATABASES_SEARCHED_MAX]:
        if table in catalog.list_tables(other):
            return other
    return None


def unknown_table(
    error: NotFoundError, name: TableName, text: str, session: SqlSession
) -> NotFoundError:
    """Make the error for a table that a query names and nobody knows.

    Parameters
    ----------
    error : NotFoundError
        What the catalog said.
    name : TableName
        As the query has it.
    text : str
        The whole text.
    session : SqlSession
        Whose tables and views are offered.
    """
    message = error.message
    if len(name.parts) == 1 and error.kind in _NO_TABLE:
        catalog, database = session.catalog, session.database
        tables = catalog.list_tables(database) if database in catalog.list_databases() else []
        known = [*session.temporary, *(full[-1] for full in session.qualified), *tables]
        message = (
            f"There is no table or view '{name}' in database '{database}', nor in"
            f" the session.{near_names(name.parts[0], known)}"
        )
        there = _elsewhere(name.parts[0].partition("$")[0], catalog, database)
        if there is not None:
            message += f" Database '{there}' has one: write {there}.{name}, or USE {there}."
    raised = fault(text, name.start, message, kind=error.kind, error=NotFoundError, **error.context)
    assert isinstance(raised, NotFoundError)
    return raised
