"""Opens clients for threads and for coroutines. gRPC is loaded by the first call."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelake.engine.tables import Catalog, open_catalog
from tidelake.errors import CorruptError, NotFoundError
from tidelake.service._optional import load
from tidelake.service.client.connection.tls import tls_of
from tidelake.service.client.open_table import opened_table
from tidelake.service.client.settings import Settings
from tidelake.service.protocol.service_file import read_service_file

if TYPE_CHECKING:
    from tidelake.service.client.async_table_query import AsyncTableQuery
    from tidelake.service.client.table_query import TableQuery

ROOM = "tidelake.service.client"


def lookup_client(
    warehouse: str | Path | Catalog,
    table: str,
    *,
    deadline_seconds: float = 30.0,
    token: str | None = None,
    tls: object = None,
    fallback: bool = False,
    consistent: bool = True,
) -> TableQuery:
    """Open a client of a table's query service.

    Parameters
    ----------
    warehouse : str, Path or Catalog
        Where the table is: the service is found by a file in the table's directory. A catalog of
        :func:`tidelake.open` may have options, and keys of an object store.
    table : str
        ``"database.table"``.
    deadline_seconds : float
        How long one call may take. Until then, what fails is repeated.
    token : str, optional
        Says who the caller is, where the service asks for tokens.
    tls : str, Path, bool or Tls, optional
        PEM file of the authority that signed the servers' certificates; True for the system's
        authorities; a :class:`~tidelake.service.client.connection.tls.Tls` for mutual TLS. By
        default as the service says, with the system's authorities.
    fallback : bool
        Whether to read the table's files in this process where the service has stopped.
    consistent : bool
        Whether all keys of one :meth:`~tidelake.service.client.table_query.TableQuery.get_many` are
        answered from one snapshot.

    Raises
    ------
    NotFoundError
        The table does not exist; or no service is registered for it, and `fallback` is not set.
    UnsupportedError
        gRPC is not installed, the table has no primary key, or the service speaks another version
        of the protocol.

    Examples
    --------
    ``tidelake.lookup_client("/warehouse", "air.airports").get("JFK")`` gives a row as a dict.
    """
    module = load(f"{ROOM}.table_query", what="A client of the query service")
    settings = Settings(deadline_seconds, token, tls_of(tls), fallback, consistent)
    catalog = _registered(warehouse, table, settings)
    made: TableQuery = module.TableQuery(catalog, table, settings)
    return made


def lookup_client_async(
    warehouse: str | Path | Catalog,
    table: str,
    *,
    deadline_seconds: float = 30.0,
    token: str | None = None,
    tls: object = None,
    fallback: bool = False,
    consistent: bool = True,
) -> AsyncTableQuery:
    """Open a client for coroutines; everything else is as in :func:`lookup_client`.

    Examples
    --------
    ``await tidelake.lookup_client_async("/warehouse", "air.airports").get("JFK")``.
    """
    module = load(f"{ROOM}.async_table_query", what="A client of the query service")
    settings = Settings(deadline_seconds, token, tls_of(tls), fallback, consistent)
    catalog = _registered(warehouse, table, settings)
    made: AsyncTableQuery = module.AsyncTableQuery(catalog, table, settings)
    return made


def _registered(warehouse: str | Path | Catalog, table: str, settings: Settings) -> Any:
    """The catalog, after a look whether there is a service."""
    catalog = warehouse if isinstance(warehouse, Catalog) else open_catalog(warehouse)
    opened = opened_table(catalog, table)
    try:
        found = read_service_file(opened.fileio, opened.paths.log_dir)
    except CorruptError:
        if settings.fallback:
            return catalog  # a client reads the table's files until a service has registered anew
        raise
    if found is None and not settings.fallback:
        message = (
            f"No query service is registered for table '{table}'. Start one: tidelake serve"
            f" {table}; or read the table itself with fallback=True."
        )
        raise NotFoundError(message, kind="service_not_found", table=table)
    return catalog
