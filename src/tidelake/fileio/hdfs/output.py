"""A file being written to HDFS, under its own name from the beginning.

A writer that dies leaves an open file. Nobody reads it, since its name is unique and in no
snapshot; the name node closes it when the writer's lease has run out (an hour at most).
"""

from __future__ import annotations

from typing import Any

from tidelake.errors import StorageError, TidelakeError
from tidelake.fileio.files import PartedOutput
from tidelake.fileio.hdfs.calls import HdfsCalls, T, Work
from tidelake.fileio.hdfs.errors import CLIENT_ERRORS
from tidelake.fileio.hdfs.jobs import close_file

PART_BYTES = 1 << 20
"""Of one call, so that none takes long."""


class HdfsOutputFile(PartedOutput):
    """A new file; synced when closed. For one thread."""

    def __init__(self, path: str, writer: Any, calls: HdfsCalls) -> None:
        super().__init__(path, PART_BYTES)
        self._writer = writer
        self._calls = calls

    def _send(self, part: bytes) -> None:
        def write(_: Any) -> None:
            self._writer.write(part)

        self._run(write)

    def _finish(self, rest: bytes) -> None:
        def close(_: Any) -> None:
            close_file(self._writer, rest, self._length)

        self._run(close)
        self._writer = None

    def _discard(self, *, is_here: bool) -> None:
        self._writer = None  # the client stops renewing its lease
        if not is_here:
            return

        def delete(client: Any) -> None:
            client.delete(self._path, False)

        try:
            self._calls.once(delete)
        except (*CLIENT_ERRORS, StorageError):
            return  # it is open or half: unread, under a name of its own

    def _run(self, work: Work[T]) -> T:
        try:
            return self._calls.once(work)
        except TidelakeError:
            raise
        except CLIENT_ERRORS as error:
            raise self._calls.translated(error, self._path, "write") from error
