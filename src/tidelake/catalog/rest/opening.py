"""Makes a REST catalog of the options that a user gives."""

from __future__ import annotations

from tidelake.catalog.catalog_options import CatalogRequest
from tidelake.catalog.rest.client import RestClient
from tidelake.catalog.rest.metastore import RestMetastore
from tidelake.catalog.rest.settings import OPTIONS, PREFIXES, RestSettings
from tidelake.errors import UnsupportedError, shortened

__all__ = ["rest_metastore"]


def rest_metastore(request: CatalogRequest) -> RestMetastore:
    """Open a REST catalog; asks the server for its configuration.

    Raises
    ------
    InvalidInputError, UnsupportedError
        An option is missing, malformed or not supported; httpx is not installed.
    StorageError
        The server cannot be reached, or refuses.
    """
    if request.storage:
        key = shortened(str(min(request.storage, key=str)))
        message = (
            f"A REST catalog reads local files only, so the storage's key '{key}' has no use: leave"
            " it out."
        )
        raise UnsupportedError(message, kind="table_storage", key=key)
    given: dict[str, object] = {option.key: request.options.get(option) for option in OPTIONS}
    for prefix in PREFIXES:
        for name, value in request.options.with_prefix(prefix).items():
            given[f"{prefix}{name}"] = value
    given["warehouse"] = request.warehouse
    client = RestClient(RestSettings.of(given), env=request.env)
    metastore = RestMetastore(client, env=request.env, fileio=request.fileio)
    metastore.options()  # a wrong address or token is found now
    return metastore
