"""The optional libraries that a table can convert its rows to; loaded at first use."""

from __future__ import annotations

import importlib
from types import ModuleType

from tidelake.errors import UnsupportedError


def load(name: str, *, for_what: str) -> ModuleType:
    """Import an optional library.

    Raises
    ------
    UnsupportedError
        It is not installed; the message says how to install it.

    Examples
    --------
    >>> load("json", for_what="to_json()").__name__
    'json'
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        message = f"{for_what} needs the library '{name}': pip install {name}."
        raise UnsupportedError(message, kind="library_missing", library=name) from error
