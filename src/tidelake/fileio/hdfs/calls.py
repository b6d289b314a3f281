"""Calls to a name node and its data nodes: each ends in time, and what may be sent again is.

The client sends a call again by itself when its connection broke, under another identity, so that
the name node cannot tell the copy. A rename that took effect may so be answered with "file not
found". Whoever must know looks afterwards (:mod:`tidelake.fileio.hdfs.publish`).

Nor can a call be taken back. One that took longer than ``hdfs.timeout`` goes on in its thread after
its caller has been told, and may reach the name node at any later time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeAlias, TypeVar

from tidelake.errors import StorageError, TidelakeError, UnsupportedError
from tidelake.fileio import _optional
from tidelake.fileio.hdfs.errors import CLIENT_ERRORS, refusal_of, translated
from tidelake.fileio.hdfs.settings import HdfsSettings, act_as_user
from tidelake.fileio.hdfs.workers import submit
from tidelake.fileio.location import Location
from tidelake.telemetry import Clock, PerProcess

PANIC = "PanicException"
"""What a failure inside the client is called; it is no ``Exception``."""

T = TypeVar("T")
Work: TypeAlias = Callable[[Any], T]
"""Takes the client."""

WAITS_MS = (100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000, 5_000, 5_000, 5_000, 5_000)
"""Between tries while no name node answers, or none is active: a failover takes up to a minute."""


class HdfsCalls:
    """Calls of one name node or name service."""

    def __init__(self, location: Location, settings: HdfsSettings, clock: Clock) -> None:
        self._url = settings.url(location.authority)
        self._authority = location.authority
        self._settings = settings
        self._clock = clock
        self._lock = PerProcess(threading.Lock)
        self._client: Any = None
        self._answered = False

    def shown(self, path: str) -> str:
        """A path as a URI."""
        return f"hdfs://{self._authority}{path}"

    def once(self, work: Work[T]) -> T:
        """Run a call once, in time.

        Raises
        ------
        OSError, RuntimeError, NotImplementedError, ValueError
            The client's.
        """
        _optional.check_not_forked()
        client = self._opened()
        return self._answer(submit(partial(work, client)))

    def together(self, works: Sequence[Work[T]], at_once: int) -> list[T]:
        """Run several calls side by side, so many at once; as :meth:`once`."""
        _optional.check_not_forked()
        client = self._opened()
        found: list[T] = []
        waiting: deque[Future[T]] = deque()
        for work in works:
            if len(waiting) == at_once:
                found.append(self._answer(waiting.popleft()))
            waiting.append(submit(partial(work, client)))
        return found + [self._answer(each) for each in waiting]

    def _answer(self, waiting: Future[T]) -> T:
        seconds = self._settings.timeout_s
        try:
            error = waiting.exception(seconds)
        except TimeoutError as late:
            message = f"{self._url} did not answer in {seconds:g} s"
            raise TimeoutError(message) from late
        if error is None:
            self._answered = True
            return waiting.result()
        self._answered = self._answered or bool(refusal_of(error).java)
        if type(error).__name__ == PANIC:
            message = f"the client failed: {error}"
            raise RuntimeError(message) from error
        raise error

    def steady(self, work: Work[T], path: str, verb: str, *, refused: bool = False) -> T:
        """Run a call that may be sent again; its errors become ours.

        Parameters
        ----------
        work : callable
            The call.
        refused : bool
            Whether a failure has changed nothing that anyone sees.
        """
        return self.steadily(partial(self.once, work), path, verb, refused=refused)

    def steadily(self, call: Callable[[], T], path: str, verb: str, *, refused: bool = False) -> T:
        """As :meth:`steady`, for calls that are made otherwise."""
        for wait_ms in (*WAITS_MS, None):
            try:
                return call()
            except TidelakeError:
                raise
            except CLIENT_ERRORS as error:
                if wait_ms is None or not self.may_try_again(error):
                    raise self.translated(error, path, verb, refused=refused) from error
                self._clock.sleep_ms(wait_ms)
        raise AssertionError("unreachable")

    def may_try_again(self, error: BaseException) -> bool:
        """Whether the next try may succeed.

        A name node that never answered has a wrong address. One that took all the time of a call
        had time enough.
        """
        is_late = isinstance(error, TimeoutError)
        return self._answered and not is_late and refusal_of(error).is_transient

    def translated(
        self, error: BaseException, path: str, verb: str, *, refused: bool = False
    ) -> TidelakeError:
        """An error of the client as ours."""
        return translated(error, self.shown(path), path, verb, refused=refused)

    def _opened(self) -> Any:
        if self._client is None:
            with self._lock.value:
                if self._client is None:
                    self._client = self._open()
        return self._client

    def _open(self) -> Any:
        settings = self._settings
        library = _optional.hdfs_native()
        if settings.is_secure and not _optional.has_gssapi():
            message = (
                f"{self._url} wants Kerberos, and the system has no libgssapi_krb5: install it"
                " (libgssapi-krb5-2 on Debian, krb5-libs on RHEL, krb5 on macOS)."
            )
            raise UnsupportedError(message, kind="library_missing", library="libgssapi_krb5")
        kerberos = {
            f"kerberos_{name}": settings.text(f"kerberos-{name}")
            for name in ("principal", "keytab", "cache")
            if settings.text(f"kerberos-{name}") is not None
        }
        if not settings.is_secure:
            act_as_user()
        try:
            return library.Client(
                self._url,
                settings.client_config(self._url.removeprefix("hdfs://")),
                settings.text("conf-dir"),
                **kerberos,
            )
        except CLIENT_ERRORS as error:
            found = refusal_of(error)
            message = f"{self._url} cannot be opened: {found.text.rstrip('.')}. Correct the keys."
            raise StorageError(message, kind="unreachable") from error
