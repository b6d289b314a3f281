"""Connections to PostgreSQL, and its refusals in our words.

All connections set what decides how values are written as text, so that the casts do not depend on
the server's or the role's settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tidelake.cdc import _optional
from tidelake.cdc.postgres.settings import PostgresSettings
from tidelake.errors import (
    ConflictError,
    NotFoundError,
    StorageError,
    StorageRefusedError,
    TidelakeError,
    shortened,
)

CONNECT_SECONDS = 15
_VALUE_SETTINGS = {
    "datestyle": "ISO",
    "timezone": "UTC",
    "intervalstyle": "iso_8601",
    "extra_float_digits": "3",
    "bytea_output": "hex",
}


def connect(settings: PostgresSettings, *, replication: bool = False) -> Any:
    """Open a connection of psycopg, which commits each statement by itself.

    Parameters
    ----------
    replication : bool
        Whether it speaks the replication protocol; it takes plain statements too.

    Raises
    ------
    StorageRefusedError
        The server refused: password, database, right to replicate.
    StorageError
        The server was not reached.
    """
    more = {"replication": "database"} if replication else {}
    with translated(settings):
        return _optional.psycopg().connect(
            host=settings.hostname,
            port=settings.port,
            user=settings.username,
            password=settings.password or None,
            dbname=settings.database,
            client_encoding="UTF8",
            application_name="tidelake-cdc",
            connect_timeout=CONNECT_SECONDS,
            options=" ".join(f"-c {key}={value}" for key, value in _VALUE_SETTINGS.items()),
            autocommit=True,
            **settings.tls,
            **more,
        )


@contextmanager
def translated(settings: PostgresSettings) -> Iterator[None]:
    """Give errors of psycopg as ours."""
    errors = _optional.psycopg()
    try:
        yield
    except errors.Error as error:
        raise refusal(str(error), error.sqlstate, settings) from error


def refusal(said: str, sqlstate: str | None, settings: PostgresSettings) -> TidelakeError:
    """Make the error for what the server said.

    Parameters
    ----------
    said : str
        Its message, with or without details.
    sqlstate : str or None
        Its code; libpq has none for a connection that was refused.
    """
    text = shortened(" ".join(said.split()), 400)
    where = f"PostgreSQL at {settings.hostname}:{settings.port}"
    slot, role = settings.slot, settings.username
    if "password authentication failed" in said or "no password supplied" in said:
        message = (
            f"{where} refuses the role '{role}' with this password: correct 'password'. It said:"
            f" {text}"
        )
        return StorageRefusedError(message, kind="cdc_login")
    if "no pg_hba.conf entry" in said:
        message = (
            f"{where} does not let '{role}' in: add a line to its pg_hba.conf. It said: {text}"
        )
        return StorageRefusedError(message, kind="cdc_login")
    if 'database "' in said and "does not exist" in said:
        message = (
            f"{where} has no database '{settings.database}': correct 'database-name'. It said:"
            f" {text}"
        )
        return StorageRefusedError(message, kind="cdc_login")
    if "is active for PID" in said:
        message = (
            f"Another reader holds the slot '{slot}'. One job has one slot: stop the other one, or"
            f" give this job a slot.name of its own. It said: {text}"
        )
        return ConflictError(message, kind="cdc_position_in_use", slot=slot)
    if "replication slot" in said and (
        "can no longer" in said or "has been invalidated" in said or "does not exist" in said
    ):
        return position_lost(settings, text)
    if "wal_level" in said:
        message = (
            f"{where} does not log enough: ALTER SYSTEM SET wal_level = 'logical', then restart it."
            f" It said: {text}"
        )
        return StorageRefusedError(message, kind="cdc_wal_level")
    if "all replication slots are in use" in said:
        message = (
            f"{where} has no free slot: drop one, or raise max_replication_slots and restart it. It"
            f" said: {text}"
        )
        return StorageRefusedError(message, kind="cdc_no_free_slot")
    if "max_wal_senders" in said:
        message = (
            f"{where} has no free WAL sender: raise max_wal_senders and restart it. It said: {text}"
        )
        return StorageRefusedError(message, kind="cdc_no_free_sender")
    if _is_right_to_replicate(said):
        message = (
            f"The role may not replicate: ALTER ROLE {quote_name(role)} REPLICATION. {where} said:"
            f" {text}"
        )
        return StorageRefusedError(message, kind="cdc_no_replication_right")
    if sqlstate == "42501" or "permission denied" in said:
        message = f"The role '{role}' lacks a right: GRANT it. {where} said: {text}"
        return StorageRefusedError(message, kind="cdc_no_right")
    if "publication" in said and "does not exist" in said:
        message = (
            f"The publication '{settings.publication}' is not there, or was not when the change"
            f" was logged. Copy the tables again with a new slot. {where} said: {text}"
        )
        return NotFoundError(message, kind="cdc_publication_missing", slot=slot)
    message = f"{where} did not do what was asked. Try again when it answers. It said: {text}"
    return StorageError(message, kind="cdc_unreachable")


def result_refusal(result: Any, settings: PostgresSettings) -> TidelakeError:
    """Make the error for a result of libpq that is not the one that was asked for."""
    if result is None:
        return refusal("the connection ended", None, settings)
    state = result.error_field(_optional.psycopg_pq().DiagnosticField.SQLSTATE)
    said = result.error_message.decode(errors="replace")
    return refusal(said, state.decode() if state else None, settings)


def position_lost(settings: PostgresSettings, said: str) -> NotFoundError:
    """Make the error for a position that the server no longer has."""
    message = (
        f"PostgreSQL no longer keeps the log from our position (slot '{settings.slot}'): changes"
        " are missing, so the tables must be copied again. --on-lost-position resnapshot does it."
        f" The server said: {said}"
    )
    return NotFoundError(message, kind="cdc_position_lost", slot=settings.slot)


def _is_right_to_replicate(said: str) -> bool:
    # 16 and later name the attribute; before, "must be superuser or replication role"
    return "replication role" in said or (
        "permission denied to" in said and ("replication" in said or "start WAL sender" in said)
    )


def is_broken(connection: Any) -> bool:
    """Whether a connection of psycopg can no longer be used."""
    return bool(connection.closed or connection.broken)


def quote_name(name: str) -> str:
    """Write a name in SQL.

    Examples
    --------
    >>> quote_name('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """Write a text in SQL.

    Examples
    --------
    >>> quote_text("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"
