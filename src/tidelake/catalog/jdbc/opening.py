"""Opens a JDBC catalog by its options."""

from __future__ import annotations

from tidelake.catalog.catalog_options import CatalogOptions
from tidelake.catalog.jdbc import options as declared
from tidelake.catalog.jdbc.database import Database
from tidelake.catalog.jdbc.dialect import Dialect
from tidelake.catalog.jdbc.lock import TableLock, WarehousePutLock
from tidelake.catalog.jdbc.metastore import JdbcMetastore
from tidelake.catalog.jdbc.postgresql import POSTGRESQL_URI, PostgresqlDialect
from tidelake.catalog.jdbc.sqlite import SQLITE_URI, SqliteDialect
from tidelake.catalog.warehouse import Warehouse
from tidelake.errors import InvalidInputError, shortened
from tidelake.fileio import FileIO
from tidelake.fileio.object_store import ObjectStoreFileIO
from tidelake.telemetry import Env

SCHEME_SHOWN_MAX = 2
"""Parts of a URI that a message repeats; the others may hold a password."""


def jdbc_metastore(
    warehouse: str, options: CatalogOptions, fileio: FileIO, env: Env
) -> JdbcMetastore:
    """Open the catalog, and create its tables in the database if they are missing.

    Parameters
    ----------
    warehouse : str
        Absolute path.
    options : CatalogOptions
        Of :data:`tidelake.catalog.jdbc.options.JDBC_OPTIONS`, and ``jdbc.`` properties.

    Raises
    ------
    InvalidInputError
        An option is missing or wrong.
    StorageError
        The database cannot be reached, or refuses.
    """
    uri = options.need(declared.URI, declared.URI.description)
    database = Database(_dialect(uri, options.with_prefix(declared.PROPERTY_PREFIX)))
    key = options.get(declared.CATALOG_KEY)
    is_locking = options.get(declared.LOCK_ENABLED)
    needs_lock = options.get(declared.COMMIT_LOCK) == "catalog"
    if needs_lock and is_locking is False:
        message = "'commit.lock' = 'catalog' needs the lock: leave out 'lock.enabled' = 'false'."
        raise InvalidInputError(message, kind="catalog_option", option="commit.lock")
    lock = TableLock(
        database,
        key,
        enabled=needs_lock or (fileio.is_remote if is_locking is None else is_locking),
        timeout_ms=options.get(declared.LOCK_ACQUIRE_TIMEOUT),
        sleep_ms_max=options.get(declared.LOCK_CHECK_MAX_SLEEP),
        clock=env.clock,
    )
    if needs_lock and isinstance(fileio, ObjectStoreFileIO):  # other storages need none
        fileio = fileio.with_put_lock(WarehousePutLock(lock, warehouse))
    metastore = JdbcMetastore(Warehouse(warehouse, fileio, env.ids), database, key, lock)
    return metastore.prepare(lock_key_length=options.get(declared.LOCK_KEY_MAX_LENGTH))


def _dialect(uri: str, properties: dict[str, str]) -> Dialect:
    if uri.startswith(SQLITE_URI):
        return SqliteDialect(uri, properties)
    if uri.startswith(POSTGRESQL_URI):
        return PostgresqlDialect(uri, properties)
    scheme = ":".join(uri.split(":")[:SCHEME_SHOWN_MAX])
    message = (
        f"Catalog option 'uri' begins with '{shortened(scheme)}:': databases of catalogs are"
        f" '{SQLITE_URI}/path/of/catalog.db' and '{POSTGRESQL_URI}//host:port/database'."
    )
    raise InvalidInputError(message, kind="catalog_option", option="uri")
