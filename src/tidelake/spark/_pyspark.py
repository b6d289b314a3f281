"""Says that PySpark is missing, before another module needs it."""

from __future__ import annotations

import importlib

from tidelake.errors import UnsupportedError


class LibraryMissingError(UnsupportedError, ImportError):
    """A library is not installed; also an ``ImportError``, for it comes while a module loads."""


try:
    importlib.import_module("pyspark")
except ModuleNotFoundError as error:
    _MESSAGE = "tidelake.spark needs PySpark: pip install 'tidelake[spark]'."
    raise LibraryMissingError(_MESSAGE, kind="library_missing", library="pyspark") from error
