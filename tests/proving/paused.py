"""Local files that stop at a chosen moment until they are let go, and may fail at another."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tidelake.errors import StorageError
from tidelake.fileio import OutputFile
from tidelake.fileio.local import LocalFileIO

SECONDS_MAX = 20


class PausedFileIO(LocalFileIO):
    """Opens some new files only when it is let go; others fail to open while it waits.

    Parameters
    ----------
    pauses, fails : callable
        Whether the opening of a path pauses, or fails.
    """

    def __init__(
        self, pauses: Callable[[str], bool], fails: Callable[[str], bool] = lambda _: False
    ) -> None:
        super().__init__()
        self._pauses, self._fails = pauses, fails
        self.reached, self.released = threading.Event(), threading.Event()

    def open_output(self, path: str) -> OutputFile:
        """Open a new file, perhaps later, or not at all."""
        if self._pauses(path):
            self.reached.set()
            assert self.released.wait(SECONDS_MAX), "nobody let it go"
        elif self._fails(path):
            assert self.reached.wait(SECONDS_MAX), "the other file was not opened"
            message = f"Could not create {path}: a test says so."
            raise StorageError(message, path=path)
        return super().open_output(path)
