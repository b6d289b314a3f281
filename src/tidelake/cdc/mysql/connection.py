"""Connections to the server: PyMySQL's, with errors in our own classes."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tidelake.cdc._optional import pymysql
from tidelake.cdc.mysql.settings import MySqlSettings, SslMode
from tidelake.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    StorageRefusedError,
    TidelakeError,
    UnsupportedError,
    shortened,
)

ACCESS_DENIED = frozenset({1045, 1698})
NO_RIGHT = frozenset({1044, 1142, 1143, 1227, 1370})
CONNECTION_LOST = frozenset({2006, 2013, 2055, 1053, 1927, 4031})
LOG_READ_ERRORS = frozenset({1236, 4052})  # MariaDB has a number of its own for a server id in use
NO_SUCH_TABLE = frozenset({1146, 1049, 1051})
UNKNOWN_VARIABLE = 1193


def connect(settings: MySqlSettings) -> Any:
    """Open a connection, on which times are in UTC and text is UTF-8.

    Raises
    ------
    InvalidInputError
        The server does not take user or password.
    StorageError
        It does not answer.
    """
    library = pymysql()
    with our_errors(settings):
        return library.connect(
            host=settings.hostname,
            port=settings.port,
            user=settings.username,
            password=settings.password.encode(),  # the library would make it latin1
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=max(1, settings.connect_timeout_ms // 1000),
            init_command="SET SESSION time_zone = '+00:00', sql_mode = ''",
            program_name="tidelake-cdc",
            **_ssl(settings),
        )


def _ssl(settings: MySqlSettings) -> dict[str, Any]:
    mode = settings.ssl_mode
    if mode is SslMode.DISABLED:
        return {"ssl_disabled": True}
    if mode is SslMode.PREFERRED and not settings.ssl_ca:
        return {}
    context = ssl.create_default_context(cafile=settings.ssl_ca or None)
    context.check_hostname = mode is SslMode.VERIFY_IDENTITY
    if mode not in {SslMode.VERIFY_CA, SslMode.VERIFY_IDENTITY}:
        context.verify_mode = ssl.CERT_NONE
    if settings.ssl_cert:
        context.load_cert_chain(settings.ssl_cert, settings.ssl_key or None)
    return {"ssl": context}


@contextmanager
def our_errors(settings: MySqlSettings) -> Iterator[None]:
    """Turn the library's errors into ours."""
    library = pymysql()
    try:
        yield
    except (library.err.MySQLError, OSError) as error:
        raise error_of(error, settings) from error
    except RuntimeError as error:
        if "cryptography" not in str(error):
            raise
        message = (
            "This login without TLS needs the library 'cryptography': pip install cryptography,"
            " or let the server offer TLS."
        )
        raise UnsupportedError(message, kind="library_missing", library="cryptography") from error


def error_of(error: BaseException, settings: MySqlSettings) -> TidelakeError:
    """Give the error that the caller can do something with."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    said = shortened(str(error.args[1] if len(error.args) > 1 else error))
    where = f"{settings.hostname}:{settings.port}"
    if code in ACCESS_DENIED:
        message = (
            f"The server {where} refused the user '{settings.username}': {said}."
            " See 'username' and 'password'."
        )
        return InvalidInputError(message, kind="cdc_login", server=where)
    if code in NO_RIGHT:
        message = (
            f"The user '{settings.username}' lacks a right on {where}: {said}. A source needs"
            f" GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {settings.username}."
        )
        return StorageRefusedError(message, kind="cdc_rights", server=where)
    if code in LOG_READ_ERRORS:
        return _log_error(said, where, settings)
    if code in NO_SUCH_TABLE:
        return NotFoundError(f"{where}: {said}.", kind="cdc_table_not_found", server=where)
    if code == 0 or code in CONNECTION_LOST or 2000 <= code < 3000:
        message = f"The server {where} does not answer: {said}."
        return StorageError(message, kind="cdc_unreachable", server=where)
    message = f"The server {where} refused: {said} ({code})."
    return StorageRefusedError(message, kind="cdc_server_refused", server=where)


def _log_error(said: str, where: str, settings: MySqlSettings) -> TidelakeError:
    lower = said.lower()
    if "same server_uuid" in lower or "same server_id" in lower:
        message = (
            f"Another reader of {where} took the server id {settings.server_id}: give each job a"
            f" 'server-id' of its own. The server said: {said}"
        )
        return ConflictError(message, kind="cdc_position_in_use", server=where)
    if "max_allowed_packet" in lower:
        message = f"An event of the log of {where} is too large for max_allowed_packet: {said}"
        return StorageRefusedError(message, kind="cdc_event_size", server=where)
    message = (
        f"The log of {where} no longer has the position of this job: {said} Changes since then"
        " cannot be read. Copy the tables again, and keep the log for longer"
        " (binlog_expire_logs_seconds)."
    )
    return NotFoundError(message, kind="cdc_position_lost", server=where)


@dataclass(slots=True)
class ServerSession:
    """A connection for questions, opened at the first and again when the server went away."""

    settings: MySqlSettings
    _connection: Any = None

    def rows(self, statement: str, arguments: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Ask, and give all rows of the answer.

        Raises
        ------
        TidelakeError
            As :func:`connect`, or the server refused.
        """
        library = pymysql()
        for attempt in (1, 2):
            if self._connection is None:
                self._connection = connect(self.settings)
            try:
                with self._connection.cursor() as cursor:
                    cursor.execute(statement, arguments or None)
                    return list(cursor.fetchall())
            except (library.err.MySQLError, OSError) as error:
                code = error.args[0] if error.args else 0
                is_lost = isinstance(error, OSError) or code in CONNECTION_LOST or code == 0
                if is_lost:
                    self.close()
                if not is_lost or attempt == 2:
                    raise error_of(error, self.settings) from error
        raise AssertionError

    def variable(self, name: str) -> str | None:
        """Give a global variable; None where the server has none of that name."""
        rows = self.rows("SHOW GLOBAL VARIABLES LIKE %s", [name])
        return str(rows[0][1]) if rows else None

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            close_quietly(self._connection)
            self._connection = None


def close_quietly(connection: Any) -> None:
    """End a connection, whether or not the server still takes part."""
    connection._force_close()  # close() would send a word and wait for the server
