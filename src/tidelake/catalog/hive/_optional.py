"""The libraries of these catalogs, loaded at first use: ``thriftpy2`` and ``boto3``."""

from __future__ import annotations

import importlib
from types import ModuleType

from tidelake.errors import UnsupportedError

_NEEDED_BY = {
    "thriftpy2": ("A catalog in a Hive Metastore", "hive"),
    "boto3": ("A catalog in AWS Glue", "glue"),
}


def load(module: str) -> ModuleType:
    """Import a library, or a module of it.

    Raises
    ------
    UnsupportedError
        It is not installed; the message says how to install it.
    """
    library = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        what, extra = _NEEDED_BY.get(library, _NEEDED_BY["boto3"])
        message = f"{what} needs the library {library}: pip install 'tidelake[{extra}]'."
        raise UnsupportedError(message, kind="library_missing", library=library) from error
