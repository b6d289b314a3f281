"""Modules that need a library of an extra, loaded when they are needed."""

from __future__ import annotations

import importlib
from types import ModuleType

from tidelake.errors import UnsupportedError

__all__ = ["load"]


def load(module: str, *, what: str, extra: str) -> ModuleType:
    """Import a module of this package that needs a library of an extra.

    Parameters
    ----------
    module : str
        Its full name.
    what : str
        What needs the library: the beginning of the message.
    extra : str
        The extra that brings the library.

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
            raise  # a fault of ours
        message = f"{what} needs the library '{library}': pip install 'tidelake[{extra}]'."
        raise UnsupportedError(message, kind="library_missing", library=library) from error
