"""A test that hangs ends its process, which first says where each thread is.

The time-out by a signal raises an error in the test; a wait that goes on after errors, or a report
that catches them, swallows it, and the run never ends. The time-out by a thread
(``--timeout-method thread``) ends the process: the run says which test it was, starts another
process and goes on. Here the stacks are written, that of the test first, equal ones once.
"""

from __future__ import annotations

import collections
import os
import sys
import threading
import traceback

import pytest


class Stuck:
    """The time-out by a thread; one per pytest process."""

    def pytest_configure(self) -> None:
        self._error = os.dup(2)  # what a test prints is captured

    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_set_timer(self, item, settings) -> bool | None:
        if settings.method != "thread":
            return None
        told = (item.nodeid, settings.timeout, threading.get_ident())
        timer = threading.Timer(settings.timeout, self._end, told)
        timer.daemon = True
        timer.start()
        item.cancel_timeout = timer.cancel
        return True

    def _end(self, name: str, seconds: float, thread: int) -> None:
        try:
            os.write(self._error, stacks(name, seconds, thread).encode())
        finally:
            os._exit(1)


def stacks(name: str, seconds: float, thread: int) -> str:
    """Where all threads are: first that of the test, last the most alike."""
    frames = sys._current_frames()
    own = "".join(traceback.format_stack(frames.pop(thread)))
    frames.pop(threading.get_ident(), None)
    others = collections.Counter("".join(traceback.format_stack(f)) for f in frames.values())
    parts = [f"\n{name} has not ended after {seconds:g} s:\n{own}"]
    parts += (f"{n} other thread(s):\n{stack}" for stack, n in reversed(others.most_common()))
    return "\n".join(parts)
