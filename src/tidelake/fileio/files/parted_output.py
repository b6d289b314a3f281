"""A file being written that goes out in parts of one length; memory holds one of them.

What a storage does with a part, with the rest and with a file that is given up is its own. What is
the same everywhere: bytes after the end are refused, a child process does not write its parent's
file, a file of which a part failed can only be given up, and an abort is done once.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelake.fileio.file_io import file_closed
from tidelake.telemetry import ProcessMark


class PartedOutput:
    """A new file. For one thread.

    Parameters
    ----------
    part_bytes : int
        Length of each part but the last.
    """

    def __init__(self, path: str, part_bytes: int) -> None:
        self._path = path
        self._part_bytes = part_bytes
        self._waiting = bytearray()
        self._length = 0
        self._closed = False
        self._failure: BaseException | None = None
        self._mark = ProcessMark()

    @property
    def closed(self) -> bool:
        """Whether the file was closed or aborted."""
        return self._closed

    def write(self, data: bytes) -> int:
        """Append bytes."""
        if self._closed:
            raise file_closed(self._path)
        self._check()
        view = memoryview(data).cast("B")
        length = len(view)
        while len(self._waiting) + len(view) > self._part_bytes:
            room = self._part_bytes - len(self._waiting)
            self._waiting += view[:room]
            view = view[room:]
            part, self._waiting = bytes(self._waiting), bytearray()
            self._take(part, self._send)
        self._waiting += view
        self._length += length
        return length

    def tell(self) -> int:
        """Bytes written so far."""
        return self._length

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Make the file whole and durable."""
        if self._closed:
            return
        self._check()
        self._take(bytes(self._waiting), self._finish)
        self._closed = True
        self._waiting = bytearray()

    def abort(self) -> None:
        """Give the file up and remove it."""
        if self._closed:
            return
        self._closed = True
        self._waiting = bytearray()
        self._discard(is_here=self._mark.is_here)

    def _check(self) -> None:
        self._mark.check(f"File {self._path}")
        if self._failure is not None:
            raise self._failure

    def _take(self, part: bytes, take: Callable[[bytes], None]) -> None:
        try:
            take(part)
        except BaseException as failure:  # a part of it may be there
            self._failure = failure
            raise

    def _send(self, part: bytes) -> None:
        """Take a part that is full."""
        raise NotImplementedError

    def _finish(self, rest: bytes) -> None:
        """Take what is left, and make the file whole."""
        raise NotImplementedError

    def _discard(self, *, is_here: bool) -> None:
        """Leave nothing; in a forked child (not `is_here`) the file is the parent's."""
        raise NotImplementedError
