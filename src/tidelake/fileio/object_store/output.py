"""A file being written to a store: nothing is visible before it is whole.

1. Up to :data:`PART_BYTES` are kept in memory. If the file ends there, it is put at once, by one
   conditional request.
2. Otherwise a thread uploads it in parts while the writer goes on. The writer waits once
   :data:`PARTS_WAITING_MAX` parts are waiting, so memory is bounded: those, the one being filled,
   and :data:`UPLOADS_MAX` on their way.
3. ``close`` completes the upload. If the answer is lost, the object's length decides: the name is
   the writer's alone.
4. ``abort``, or a failure, makes the client abort the upload. A process that dies leaves the parts
   of an unfinished upload, which no one sees; a bucket's rule should clear them after some days.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NoReturn

from tidelake.errors import StorageError, TidelakeError
from tidelake.fileio.file_io import name_taken
from tidelake.fileio.files import PartedOutput
from tidelake.fileio.object_store.client import Clients
from tidelake.fileio.object_store.errors import Bucket, translated

PART_BYTES = 8 << 20
PARTS_WAITING_MAX = 1
UPLOADS_MAX = 2
POLL_S = 0.5
"""How often a waiting writer looks whether its upload has failed."""


class _AbortedError(Exception):
    """Ends the upload of an aborted file."""


class ObjectOutputFile(PartedOutput):
    """A new object. For one thread.

    Parameters
    ----------
    put : callable
        Puts a small file if its name is free; False if it is not.
    """

    def __init__(
        self, path: str, clients: Clients, bucket: Bucket, put: Callable[[str, bytes], bool]
    ) -> None:
        super().__init__(path, PART_BYTES)
        self._clients = clients
        self._bucket = bucket
        self._put = put
        self._upload: _Upload | None = None

    def _send(self, part: bytes) -> None:
        if self._upload is None:
            self._check_free()
            self._upload = _Upload(self._path, self._clients)
        failure = self._upload.send(part)
        if failure is not None:
            self._fail(failure)

    def _finish(self, rest: bytes) -> None:
        if self._upload is None:
            if not self._put(self._path, rest):
                raise name_taken(self._path)
            return
        if rest:
            self._send(rest)
        failure = self._upload.finish()
        if failure is not None and not self._is_whole():
            self._fail(failure)

    def _discard(self, *, is_here: bool) -> None:
        if self._upload is not None and is_here:
            self._upload.abort()

    def _check_free(self) -> None:
        """An upload in parts overwrites; one request more is nothing beside its size."""
        obstore = self._clients.calls
        try:
            obstore.head(self._clients.steady, self._path[1:])
        except FileNotFoundError:
            return
        except (obstore.exceptions.BaseError, OSError) as error:
            self._fail(error)
        raise name_taken(self._path)

    def _is_whole(self) -> bool:
        obstore = self._clients.calls
        try:
            found = obstore.head(self._clients.steady, self._path[1:])
        except (obstore.exceptions.BaseError, OSError):
            return False
        return bool(found["size"] == self._length)

    def _fail(self, failure: BaseException) -> NoReturn:
        if isinstance(failure, (TidelakeError, MemoryError)):
            raise failure
        made = translated(failure, self._bucket, self._path, "write")
        raise made from self._bucket.cause(failure)


class _Upload:
    """An upload in parts, by a thread that the parts are handed to."""

    def __init__(self, path: str, clients: Clients) -> None:
        self._path = path
        self._clients = clients
        self._parts: queue.Queue[bytes | None] = queue.Queue(PARTS_WAITING_MAX)
        self._is_aborted = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="tidelake-upload", daemon=True)
        self._thread.start()

    def send(self, part: bytes | None) -> BaseException | None:
        """Hand over a part, or the end; returns why the upload has failed, if it has."""
        while self._thread.is_alive():
            try:
                self._parts.put(part, timeout=POLL_S)
            except queue.Full:
                continue
            return None
        return self._failure or StorageError(
            f"The upload of {self._path} has ended before its file.", path=self._path
        )

    def finish(self) -> BaseException | None:
        """Complete the upload; what failed."""
        failure = self.send(None)
        self._thread.join()
        return self._failure or failure

    def abort(self) -> None:
        """End it without an object."""
        self._is_aborted = True
        self.send(None)
        self._thread.join()

    def _run(self) -> None:
        """Upload until the end comes. Whatever ends it before is a failure: no object is there."""
        with suppress(BaseException):  # the writer gets it
            try:
                self._clients.calls.put(
                    self._clients.steady,
                    self._path[1:],
                    self._iterate(),
                    use_multipart=True,
                    chunk_size=PART_BYTES,
                    max_concurrency=UPLOADS_MAX,
                )
            except BaseException as error:
                self._failure = error
                raise

    def _iterate(self) -> Iterator[bytes]:
        while (part := self._parts.get()) is not None:
            yield part
        if self._is_aborted:
            raise _AbortedError
