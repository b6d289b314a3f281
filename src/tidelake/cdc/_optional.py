"""Loads the client libraries of the databases at their first use."""

from __future__ import annotations

import importlib
from types import ModuleType

from tidelake.errors import UnsupportedError


def psycopg() -> ModuleType:
    """Load PostgreSQL's client.

    Raises
    ------
    UnsupportedError
        It is not installed; the message says how to install it.
    """
    return _load("psycopg", "psycopg", "PostgreSQL")


def psycopg_pq() -> ModuleType:
    """Load the part of PostgreSQL's client that speaks libpq, and so the replication protocol."""
    return _load("psycopg.pq", "psycopg", "PostgreSQL")


def pymysql() -> ModuleType:
    """Load the client of MySQL and MariaDB.

    Raises
    ------
    UnsupportedError
        It is not installed; the message says how to install it.
    """
    return _load("pymysql", "pymysql", "MySQL")


def prometheus() -> ModuleType:
    """Load the library of Prometheus.

    Raises
    ------
    UnsupportedError
        It is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module("prometheus_client")
    except ModuleNotFoundError as error:
        message = "A port with metrics needs the library 'prometheus-client': pip install it."
        library = "prometheus-client"
        raise UnsupportedError(message, kind="library_missing", library=library) from error


def _load(module: str, library: str, database: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != library:
            raise
        message = (
            f"A sync of {database} needs the library '{library}': pip install 'tidelake[cdc]'."
        )
        raise UnsupportedError(message, kind="library_missing", library=library) from error
