"""Loads the driver of PostgreSQL, ``psycopg``, at its first use."""

from __future__ import annotations

import importlib
from types import ModuleType

from tidelake.errors import UnsupportedError


def psycopg() -> ModuleType:
    """Load the driver.

    Raises
    ------
    UnsupportedError
        It is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module("psycopg")
    except ImportError as error:  # also where its library libpq is missing
        message = (
            "Catalogs in PostgreSQL need the library 'psycopg' 3 with libpq: pip install"
            " 'tidelake[postgres]'."
        )
        raise UnsupportedError(message, kind="library_missing", library="psycopg") from error
