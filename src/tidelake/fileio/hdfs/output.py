"""A file being written to HDFS, under its own name from the beginning.

A writer that dies leaves an open file. Nobody reads it, since its name is unique and in no
snapshot; the name node closes it when the writer's lease has run out (an hour at most).
"""

from __future__ import annotations

from typing import Any

from tidelake.errors import ClosedError, StorageError, TidelakeError
from tidelake.fileio.hdfs.calls import HdfsCalls, T, Work
from tidelake.fileio.hdfs.errors import CLIENT_ERRORS
from tidelake.fileio.hdfs.jobs import close_file
from tidelake.telemetry import ProcessMark

__all__ = ["HdfsOutputFile"]

BUFFER_BYTES = 1 << 20


class HdfsOutputFile:
    """A new file; buffered, synced when closed. For one thread.

    Parameters
    ----------
    path : str
        Its path.
    writer : AsyncFileWriter
        The client's.
    calls : HdfsCalls
        The name node.
    """

    def __init__(self, path: str, writer: Any, calls: HdfsCalls) -> None:
        self._path = path
        self._writer = writer
        self._calls = calls
        self._waiting = bytearray()
        self._length = 0
        self._closed = False
        self._failed: BaseException | None = None
        self._mark = ProcessMark()

    @property
    def closed(self) -> bool:
        """Whether the file was closed or aborted."""
        return self._closed

    def write(self, data: bytes) -> int:
        """Append bytes."""
        if self._closed:
            message = f"File {self._path} was closed; nothing can be written to it any more."
            raise ClosedError(message, kind="file_closed", path=self._path)
        self._mark.check(f"File {self._path}")
        length = memoryview(data).nbytes
        if len(self._waiting) + length > BUFFER_BYTES:
            self._send(bytes(self._waiting))
            self._waiting.clear()
        if length > BUFFER_BYTES:
            self._send(bytes(data))
        else:
            self._waiting += data
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
        self._mark.check(f"File {self._path}")
        if self._failed is not None:  # a part of it may be written: it can only be aborted
            raise self._error(self._failed) from self._failed
        rest = bytes(self._waiting)

        def close(_: Any) -> None:
            close_file(self._writer, rest, self._length)

        self._run(close)
        self._closed = True
        self._waiting.clear()
        self._writer = None

    def abort(self) -> None:
        """Remove the file."""
        if self._closed:
            return
        self._closed = True
        self._waiting.clear()
        self._writer = None  # the client stops renewing its lease
        if not self._mark.is_here:  # it is the parent's
            return

        def delete(client: Any) -> None:
            client.delete(self._path, False)

        try:
            self._calls.once(delete)
        except (*CLIENT_ERRORS, StorageError):
            return  # it is open or half: unread, under a name of its own

    def _send(self, data: bytes) -> None:
        if not data:
            return

        def write(_: Any) -> None:
            self._writer.write(data)

        self._run(write)

    def _run(self, work: Work[T]) -> T:
        try:
            return self._calls.once(work)
        except TidelakeError:
            raise
        except CLIENT_ERRORS as error:
            self._failed = error
            raise self._error(error) from error

    def _error(self, error: BaseException) -> TidelakeError:
        return self._calls.translated(error, self._path, "write")
