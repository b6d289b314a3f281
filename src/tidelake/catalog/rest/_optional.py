"""The HTTP library of the REST catalog; loaded at first use."""

from __future__ import annotations

import importlib
from types import ModuleType

from tidelake.errors import UnsupportedError


def load_httpx() -> ModuleType:
    """Import httpx.

    Raises
    ------
    UnsupportedError
        It is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module("httpx")
    except ImportError as error:
        message = "A REST catalog needs the library httpx: pip install 'tidelake[rest]'."
        raise UnsupportedError(message, kind="library_missing", library="httpx") from error
