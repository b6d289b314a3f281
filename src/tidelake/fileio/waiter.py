"""Waits until a directory may hold something new.

With local files and the machine's clock the system wakes the waiter: ``inotify``, through
:mod:`ctypes`, reports new names in the directory. A poll every :data:`NET_MS` catches what it does
not report, such as a file that another machine made on a network disk. Otherwise, and with a test's
clock, it waits by the clock: :data:`POLL_MS` at first, twice as long each time, up to the caller's
cap.

The caller checks the directory before the first wait and after each, and so finds names that came
before the directory was watched.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import sys
from typing import Protocol

from tidelake.fileio.file_io import FileIO
from tidelake.fileio.local import LocalFileIO
from tidelake.telemetry import Clock, SystemClock

POLL_MS = 10
NET_MS = 1_000
_IN_MOVED_TO, _IN_CREATE = 0x80, 0x100
_EVENT_BYTES = 64 << 10


class Waiter(Protocol):
    """Waits; for one thread. Must be closed."""

    def wait(self, wait_ms_max: float) -> None:
        """Wait until something may be new, at most so many ms."""
        ...

    def reset(self) -> None:
        """Poll often again, because something was new."""
        ...

    def close(self) -> None:
        """Release its resources; may be called several times."""
        ...


class PollingWaiter:
    """Waits by the clock, longer each time.

    Parameters
    ----------
    poll_ms_max : float
        The longest wait.

    Examples
    --------
    >>> from tidelake.telemetry import ManualClock
    >>> clock = ManualClock(0)
    >>> waiter = PollingWaiter(clock, 50)
    >>> for _ in range(5):
    ...     waiter.wait(1_000)
    >>> clock.now_ms()  # 10 + 20 + 40 + 50 + 50
    170
    """

    def __init__(self, clock: Clock, poll_ms_max: float) -> None:
        self._clock = clock
        self._poll_ms_max = max(1, poll_ms_max)
        self._poll_ms: float = POLL_MS

    def wait(self, wait_ms_max: float) -> None:
        """Sleep."""
        self._clock.sleep_ms(max(1, min(self._poll_ms, self._poll_ms_max, wait_ms_max)))
        self._poll_ms = min(2 * self._poll_ms, self._poll_ms_max)

    def reset(self) -> None:
        """Begin with short waits again."""
        self._poll_ms = POLL_MS

    def close(self) -> None:
        """Do nothing: no resource is held."""


class _InotifyWaiter:
    """Woken by the system; polls while the directory does not exist."""

    def __init__(self, directory: str, polling: PollingWaiter, poll_ms_max: float) -> None:
        self._directory = directory
        self._polling = polling
        self._net_ms = max(1, min(NET_MS, poll_ms_max))
        self._descriptor = _inotify()
        self._is_watching = False
        self._poll = select.poll()
        if self._descriptor >= 0:
            self._poll.register(self._descriptor, select.POLLIN)
            self._watch()

    def wait(self, wait_ms_max: float) -> None:
        """Wait for a new name in the directory."""
        if not self._is_watching:
            self._polling.wait(wait_ms_max)
            self._watch()
            return
        if self._poll.poll(max(1, min(self._net_ms, wait_ms_max))):
            with contextlib.suppress(BlockingIOError):
                os.read(self._descriptor, _EVENT_BYTES)

    def reset(self) -> None:
        """Poll often again, if it polls."""
        self._polling.reset()

    def close(self) -> None:
        """Close the descriptor."""
        descriptor, self._descriptor = self._descriptor, -1
        self._is_watching = False
        if descriptor >= 0:
            os.close(descriptor)

    def _watch(self) -> None:
        if self._descriptor >= 0:
            self._is_watching = _add_watch(self._descriptor, self._directory)


def waiter_of(fileio: FileIO, clock: Clock, directory: str, *, poll_ms_max: float) -> Waiter:
    """The best way to wait for new names in a directory.

    Parameters
    ----------
    directory : str
        Its path; it need not exist yet.
    poll_ms_max : float
        The longest wait between two polls, ms.
    """
    polling = PollingWaiter(clock, poll_ms_max)
    is_local = isinstance(fileio, LocalFileIO) and isinstance(clock, SystemClock)
    if is_local and sys.platform == "linux":
        return _InotifyWaiter(directory, polling, poll_ms_max)
    return polling


def _inotify() -> int:
    """A nonblocking descriptor that children do not inherit; -1 if unavailable."""
    try:
        return int(ctypes.CDLL(None, use_errno=True).inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    except (OSError, AttributeError):
        return -1


def _add_watch(descriptor: int, directory: str) -> bool:
    # a hard link, by which snapshots are published, counts as created
    add = ctypes.CDLL(None, use_errno=True).inotify_add_watch
    return int(add(descriptor, os.fsencode(directory), _IN_CREATE | _IN_MOVED_TO)) >= 0
