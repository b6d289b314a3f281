"""``tidelake.serve``: the entry to the service, which loads gRPC only when it is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelake.engine.tables import open_catalog
from tidelake.errors import InvalidInputError, near_names
from tidelake.service._optional import load

if TYPE_CHECKING:
    from tidelake.service.local.query_service import QueryService


def serve(
    warehouse: str | Path | None,
    tables: Sequence[str],
    *,
    catalog: Mapping[str, object] | None = None,
    storage: Mapping[str, object] | None = None,
    parallelism: int = 2,
    directory: str | Path | None = None,
    memory: int | str | None = None,
    limits: Mapping[str, float] | None = None,
    **connection: Any,
) -> QueryService:
    """Serve tables by key to clients on this machine or the network, from processes of this one.

    Parameters
    ----------
    warehouse : str or Path
        As for :func:`tidelake.open`.
    tables : sequence of str
        Names ``"database.table"``; each has a primary key. More can be added while it runs.
    catalog, storage : mapping, optional
        As for :func:`tidelake.open`. Executors get them by a pipe, where nobody sees them.
    parallelism : int
        Number of executors; each is a process and owns a share of the buckets.
    directory : str or Path, optional
        Where executors keep lookup files, by default in the system's directory of temporary files.
    memory : int or str, optional
        What each executor may hold to build lookup files, as for :func:`tidelake.open`.
    limits : mapping, optional
        What one executor takes on: ``request_bytes``, ``keys``, ``calls``, ``answer_bytes``,
        ``flight_bytes``, ``slow_reader_seconds``, ``wait_seconds``.
    **connection
        ``bind`` is where to listen, by default ``"127.0.0.1"``; the address server takes a port
        that follows, as in ``"127.0.0.1:9090"``. ``tls_cert``, ``tls_key`` are paths of the
        certificate and its key; ``tls_ca`` of the authority whose clients may connect (mutual TLS);
        ``tls_server_name`` the name in the certificate if it is not the host's. ``tokens`` is the
        path of the file of tokens. Listening elsewhere than at the loopback interface takes a
        certificate and tokens, or ``insecure=True``.

    Returns
    -------
    QueryService
        Runs until its :meth:`~tidelake.service.local.query_service.QueryService.stop`, or the end
        of its ``with`` block.

    Raises
    ------
    ConflictError
        A table is served already.
    NotFoundError, InvalidInputError
        A table does not exist, cannot be read by key, or an argument is wrong.
    UnsupportedError
        A library of the extra ``service`` is not installed.
    """
    local = load("tidelake.service.local.query_service")
    own = None if directory is None else Path(directory).absolute()
    options = options_of(connection, limits, parallelism=parallelism, directory=own, memory=memory)
    opened = open_catalog(warehouse, catalog=catalog, storage=storage, memory=memory)
    options = replace(options, catalog_options=catalog or {}, storage=storage or {})
    return local.serve_locally(opened, tables, options)


def options_of(
    connection: Mapping[str, Any],
    limits: Mapping[str, float] | None,
    *,
    parallelism: int,
    directory: str | Path | None,
    memory: int | str | None,
) -> Any:
    """The arguments of a ``serve`` as one value, a ``ServeOptions``.

    Raises
    ------
    InvalidInputError
        There is no such argument or limit, or one is wrong.
    """
    bind, security = _connection_of(connection)
    return load("tidelake.service.local.serve_options").ServeOptions(
        parallelism=parallelism,
        bind=bind,
        security=security,
        limits=_limits_of(limits),
        directory=None if directory is None else str(directory),
        memory=memory,
    )


def _connection_of(given: Mapping[str, Any]) -> tuple[str, Any]:
    """Where to listen, and how connections are protected."""
    security = load("tidelake.service.address.security")
    names = ("bind", *security.Security.__slots__)
    _check_names(given, names, "argument of serve")
    paths = {k: v for k, v in given.items() if k != "bind" and v is not None}
    texts = {k: v if isinstance(v, bool) else str(v) for k, v in paths.items()}
    return str(given.get("bind") or security.LOOPBACK), security.Security(**texts)


def _limits_of(given: Mapping[str, float] | None) -> Any:
    """The limits of an executor."""
    limits = load("tidelake.service.executor.config").Limits
    _check_names(given or {}, limits.__slots__, "limit")
    return limits(**(given or {}))


def _check_names(given: Mapping[str, Any], names: Sequence[str], what: str) -> None:
    for name in given:
        if name not in names:
            message = f"There is no {what} '{name}'.{near_names(name, names)}"
            raise InvalidInputError(message, kind="service_argument")
