"""Makes a REST catalog of the options that a user gives."""

from __future__ import annotations

from tidelake.catalog.catalog_options import CatalogRequest
from tidelake.catalog.rest.client import RestClient
from tidelake.catalog.rest.metastore import RestMetastore
from tidelake.catalog.rest.settings import OPTIONS, PREFIXES, RestSettings
from tidelake.catalog.rest.table_storages import TableStorages
from tidelake.fileio.local_cache import local_cache
from tidelake.fileio.object_store import is_storage_key, parse_settings


def rest_metastore(request: CatalogRequest) -> RestMetastore:
    """Open a REST catalog; asks the server for its configuration.

    Raises
    ------
    InvalidInputError, UnsupportedError
        An option is missing, malformed or not supported; httpx is not installed.
    StorageError
        The server cannot be reached, or refuses.
    """
    for scheme in ("s3", "gs", "az"):
        own = {key: value for key, value in request.storage.items() if is_storage_key(key)}
        parse_settings(scheme, own)  # a misspelt key is found now, not with the first table
    local_cache(request.storage)
    given: dict[str, object] = {option.key: request.options.get(option) for option in OPTIONS}
    for prefix in PREFIXES:
        for name, value in request.options.with_prefix(prefix).items():
            given[f"{prefix}{name}"] = value
    given["warehouse"] = request.warehouse
    client = RestClient(RestSettings.of(given), env=request.env)
    metastore = RestMetastore(
        client,
        env=request.env,
        fileio=request.fileio,
        open_storage=TableStorages(client, request.storage, env=request.env),
    )
    metastore.options()  # a wrong address or token is found now
    return metastore
