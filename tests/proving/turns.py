"""Several processes in turns: who goes on at each call to the storage, the seed decides.

Each process is a thread of its own that waits whenever it is about to call the storage (or to close
a file that it writes); of all threads one runs at a time, so the same choices give the same run.
A process may be killed at a call: then it makes no more of them, also none of its clean-up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from tidelake.fileio import FileIO, OutputFile
from tidelake.testing import SimulatedCrash

CALLS_MAX = 20_000
"""Calls of one process, before it counts as one that never ends."""
SILENT = frozenset({"sync_dir", "size", "read_range"})
"""Calls before which nobody else acts: they change nothing, and follow others."""


class NeverEnds(AssertionError):
    """A process calls the storage for ever."""


class Process:
    """One thing that somebody does, in the midst of which others act."""

    def __init__(self, name: str, inner: FileIO, act: Callable[[Process], Any]) -> None:
        self.name = name
        self.files = Stopping(inner, self)
        self.calls = 0
        self.about: tuple[str, str] = ("", "")
        """The call that it is about to make: operation and path."""
        self.before: tuple[str, str] = ("", "")
        """The call before that one."""
        self.dies = False
        self.is_done = False
        self.is_dead = False
        self.result: Any = None
        self.error: BaseException | None = None
        self._act = act
        self._go, self._stopped = threading.Lock(), threading.Lock()  # each given by the other
        self._go.acquire()
        self._stopped.acquire()
        self._thread = threading.Thread(target=self._run, daemon=True, name=name)
        self._is_started = False

    def go_on(self) -> None:
        """Let it make its call, and run until it is about to make the next one, or is done."""
        if not self._is_started:
            self._is_started = True
            self._thread.start()
        self._go.release()
        self._stopped.acquire()

    def _run(self) -> None:
        self._go.acquire()
        try:
            self.result = self._act(self)
        except BaseException as error:  # noqa: BLE001 - whatever ends it is judged by others
            self.error = error
        self.is_done = True
        self._stopped.release()

    def stop(self, op: str, path: str) -> None:
        """Wait for the turn, as the process; nobody gives one to who shows its objects later."""
        if not self.is_dead and not self.is_done:
            self.calls += 1
            if self.calls > CALLS_MAX:
                raise NeverEnds(f"{self.name} has made {CALLS_MAX} calls, now {op} of {path}")
            self.before, self.about = self.about, (op, path)
            self._stopped.release()
            self._go.acquire()
            self.is_dead = self.dies
        if self.is_dead:
            raise SimulatedCrash(f"{self.name} is dead")


class Stopping:
    """The storage of one process, which waits for its turn before each call."""

    def __init__(self, inner: FileIO, process: Process) -> None:
        self._inner, self._process = inner, process

    def __getattr__(self, name: str) -> Callable:
        inner = getattr(self._inner, name)
        if name in SILENT:
            return inner

        def call(path: str, *rest: object, **named: object) -> object:
            self._process.stop(name, path)
            held = named.get("within")
            if isinstance(held, _Directory):
                named["within"] = held.inner
            return inner(path, *rest, **named)

        return call

    def open_dir(self, path: str, **named: object) -> _Directory:
        self._process.stop("open_dir", path)
        return _Directory(self._inner.open_dir(path, **named), self._process)

    def open_output(self, path: str) -> OutputFile:
        self._process.stop("open_output", path)
        return _Output(self._inner.open_output(path), path, self._process)


class _Directory:
    """A directory that a process holds, each use of which waits too."""

    def __init__(self, inner: Any, process: Process) -> None:
        self.inner, self._process = inner, process

    @property
    def path(self) -> str:
        return self.inner.path

    @property
    def has_late_put(self) -> bool:
        return self.inner.has_late_put

    def exists(self, name: str) -> bool:
        self._process.stop("exists", f"{self.path}/{name}")
        return self.inner.exists(name)

    def delete(self, name: str) -> bool:
        self._process.stop("delete", f"{self.path}/{name}")
        return self.inner.delete(name)

    def close(self) -> None:
        self.inner.close()

    def __enter__(self) -> _Directory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Output:
    """A file that is there when it is closed."""

    def __init__(self, inner: OutputFile, path: str, process: Process) -> None:
        self._inner, self._path, self._process = inner, path, process

    @property
    def closed(self) -> bool:
        return self._inner.closed

    def write(self, data: bytes) -> int:
        return self._inner.write(data)

    def tell(self) -> int:
        return self._inner.tell()

    def flush(self) -> None:
        self._inner.flush()

    def close(self) -> None:
        if not self._inner.closed:
            self._process.stop("close", self._path)
        self._inner.close()

    def abort(self) -> None:
        if not self._process.is_dead:
            self._inner.abort()


def take_turns(
    processes: Sequence[Process],
    choose: Callable[[Sequence[Process]], Process],
    after: Callable[[Process], None],
) -> None:
    """Run processes until all are done.

    Parameters
    ----------
    choose : callable
        Who of those that are not done goes on.
    after : callable
        Looks around after each call.
    """
    try:
        while waiting := [p for p in processes if not p.is_done]:
            process = choose(waiting)
            process.go_on()
            after(process)
    finally:
        for process in processes:  # only where a check failed is there one left
            process.dies = True
            while not process.is_done:
                process.go_on()
