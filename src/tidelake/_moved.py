"""Old paths of public modules: they work for one release, with a warning that names the new one.

Source of the mechanism: finders on ``sys.meta_path`` (Python's import reference).
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["MOVED", "install"]

MOVED = {
    "tidelake.metadata.statistics": "tidelake.metadata",
    "tidelake.spark.merge_builder": "tidelake.spark",
    "tidelake.table.purge": "tidelake.table",
    "tidelake.table.rollback": "tidelake.table",
    "tidelake.table.versions": "tidelake.table",
}
"""Modules that the reference of 0.1 named, and the packages that hold their classes today."""


class MovedModules(MetaPathFinder, Loader):
    """Finds a module under its old path and fills it with the names of the new one."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Say that a moved module is here; all others are looked for elsewhere."""
        del path, target
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        """Warn, and hand on what the new place exports."""
        new = MOVED[module.__name__]
        message = f"The module {module.__name__} has moved: import its names from {new}."
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        found = importlib.import_module(new)
        vars(module).update({name: getattr(found, name) for name in found.__all__})


def install() -> None:
    """Put the finder behind all others, once."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules())


install()
