"""Loads what needs a library of the extra ``ui``, at its first use."""

from __future__ import annotations

import importlib
from types import ModuleType

from tidelake.errors import UnsupportedError

PIP_NAMES = {"jinja2": "jinja2", "prometheus_client": "prometheus-client"}


def load(library: str, *, what: str) -> ModuleType:
    """Import a library.

    Raises
    ------
    UnsupportedError
        It is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module(library)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in PIP_NAMES:
            raise  # a bug
        message = f"{what} needs the library '{PIP_NAMES[missing]}': pip install 'tidelake[ui]'."
        raise UnsupportedError(message, kind="library_missing", library=missing) from error


def prometheus() -> ModuleType:
    """The library ``prometheus_client``; ``UnsupportedError`` where it is not installed."""
    return load("prometheus_client", what="The page of metrics")
