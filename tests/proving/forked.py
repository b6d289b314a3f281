"""Work in a forked child, with a bound on its time: what hangs is killed and named."""

from __future__ import annotations

import os
import pickle
import select
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

SECONDS_MAX = 30
"""A child that has not answered after so many seconds hangs."""


@dataclass(frozen=True)
class Child:
    """A forked child that runs, and the pipe that its answer comes through."""

    pid: int
    answers: int


def fork(work: Callable[[], object]) -> Child:
    """Begin work in a forked child."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():  # from Python 3.12 on a fork beside threads is warned of
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        os.close(writing)
        return Child(pid, reading)
    os.close(reading)
    try:
        answer = True, work()
    except BaseException as error:  # noqa: BLE001 - told to the parent
        answer = False, f"{error!r}\n{traceback.format_exc()}"
    with os.fdopen(writing, "wb") as pipe:
        pickle.dump(answer, pipe)
    os._exit(0)


def answer_of(child: Child, *, seconds: float = SECONDS_MAX) -> object:
    """What a child found; AssertionError where it failed or hangs."""
    data, until = b"", time.monotonic() + seconds
    try:
        while True:
            ready, _, _ = select.select([child.answers], [], [], max(0, until - time.monotonic()))
            if not ready:
                os.kill(child.pid, signal.SIGKILL)
                raise AssertionError(f"a forked child hangs: no answer in {seconds} seconds")
            part = os.read(child.answers, 1 << 16)
            if not part:
                break
            data += part
    finally:
        os.close(child.answers)
        os.waitpid(child.pid, 0)
    if not data:
        raise AssertionError("a forked child died without an answer")
    done, found = pickle.loads(data)
    if not done:
        raise AssertionError(f"a forked child failed: {found}")
    return found


def answers(works: Sequence[Callable[[], object]], *, seconds: float = SECONDS_MAX) -> list[object]:
    """What children found that ran side by side."""
    children = [fork(work) for work in works]
    found: list[object] = []
    for child in children:
        try:
            found.append(answer_of(child, seconds=seconds))
        except AssertionError as error:  # the others are waited for all the same
            found.append(error)
    for each in found:
        if isinstance(each, AssertionError):
            raise each
    return found
