"""Jobs as calls of Python, with Paimon's names and arguments."""

from __future__ import annotations

import os
from pathlib import Path

from tidelake.cdc.command.job_file import read_job_file
from tidelake.cdc.command.secret_text import SecretWays
from tidelake.cdc.command.sync import Sync
from tidelake.cdc.command.sync_config import config_of
from tidelake.cdc.command.values import given_of
from tidelake.engine.env import Env


def sync(command: str, **arguments: object) -> Sync:
    """Make a job that keeps tables equal to those of a source.

    Nothing is read or written before one of its methods is called.

    Parameters
    ----------
    command : str
        ``postgres_sync_table``, ``postgres_sync_database``, ``mysql_sync_table``,
        ``mysql_sync_database``, ``kafka_sync_table`` or ``kafka_sync_database``.
    **arguments : object
        Those of the command line, with underscores: ``warehouse="lake"``, ``database="ods"``.
        Pairs are dicts: ``table_conf={"bucket": 4}``. A password may be ``env:NAME`` or
        ``file:PATH``.

    Returns
    -------
    Sync

    Raises
    ------
    InvalidInputError
        An argument is unknown, missing or wrong; the message has near names.

    Examples
    --------
    >>> job = sync(
    ...     "postgres_sync_database",
    ...     warehouse="lake",
    ...     database="ods",
    ...     postgres_conf={
    ...         "hostname": "localhost",
    ...         "username": "reader",
    ...         "password": "env:PGPASSWORD",
    ...         "database-name": "shop",
    ...         "slot.name": "tidelake",
    ...     },
    ... )
    >>> job
    Sync(postgres_sync_database, job='ods')
    """
    return Sync(config_of(command, given_of(command, arguments)), _ways(), Env.system())


def from_file(path: str | Path) -> Sync:
    """Make the job that a TOML file describes.

    Raises
    ------
    InvalidInputError
        There is no such file, or it is no TOML, or a key is unknown or wrong.
    """
    return Sync(config_of(*read_job_file(path)), _ways(), Env.system())


def postgres_sync_table(**arguments: object) -> Sync:
    """Keep one table equal to tables of PostgreSQL; arguments as of :func:`sync`."""
    return sync("postgres_sync_table", **arguments)


def postgres_sync_database(**arguments: object) -> Sync:
    """Keep tables equal to those of a PostgreSQL database; arguments as of :func:`sync`."""
    return sync("postgres_sync_database", **arguments)


def mysql_sync_table(**arguments: object) -> Sync:
    """Keep one table equal to tables of MySQL or MariaDB; arguments as of :func:`sync`."""
    return sync("mysql_sync_table", **arguments)


def mysql_sync_database(**arguments: object) -> Sync:
    """Keep tables equal to those of MySQL or MariaDB; arguments as of :func:`sync`."""
    return sync("mysql_sync_database", **arguments)


def _ways() -> SecretWays:
    return SecretWays(os.environ, lambda path: Path(path).read_text(encoding="utf-8"))
