"""Imports modules that need a library of an extra."""

from __future__ import annotations

import importlib
from types import ModuleType

from tidelake.errors import UnsupportedError


def load(module: str, *, what: str, extra: str) -> ModuleType:
    """Import a module of this package that needs a library of an extra.

    Raises
    ------
    UnsupportedError
        The library is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library == "tidelake" or not library:
            raise  # a bug
        message = f"{what} needs the library '{library}': pip install 'tidelake[{extra}]'."
        raise UnsupportedError(message, kind="library_missing", library=library) from error
