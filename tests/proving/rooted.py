"""The local file system below one directory, as a storage whose paths begin there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidelake.fileio import LocalFileIO
from tidelake.telemetry import SeededIds


class RootedFileIO:
    """Local files; every path is taken below a directory, so that worlds have the same names."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._inner = LocalFileIO(SeededIds(1))

    def move_dir(self, source: str, target: str) -> None:
        self._inner.move_dir(self._root + source, self._root + target)

    @property
    def storage_id(self) -> str:
        return self._inner.storage_id + self._root

    def copy_within(self, source: str, target: str) -> bool:
        return self._inner.copy_within(self._root + source, self._root + target)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._inner, name)
        return lambda path, *rest, **named: method(self._root + path, *rest, **named)
