"""Keeps processes running: starts each one again that ends, after waits that grow.

A process that ran for :data:`STEADY_SECONDS` is started again at once; of one that keeps failing
the waits double from :data:`WAIT_SECONDS_MIN` to :data:`WAIT_SECONDS_MAX`. It never gives up: a
full disk is cleared some day, and meanwhile the other executors answer for their buckets.

A process that runs but hangs is killed, which ends it like any other.

**Spare** processes, two where there are several executors, have loaded their modules, which takes a
second of CPU, and wait for the configuration of whichever executor ends next.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from tidelake.engine.env import Clock
from tidelake.service.address.liveness import Hang
from tidelake.service.executor.config import ExecutorConfig

_LOG = logging.getLogger("tidelake.service")

LOOK_SECONDS = 0.05
STEADY_SECONDS = 10.0
WAIT_SECONDS_MIN = 0.1
WAIT_SECONDS_MAX = 10.0
KILL_AFTER_SECONDS = 5.0
ENDS_SECONDS = 1.0
"""How long a killed process is waited for; one that waits for a disk may take longer."""
SPARE_AFTER_SECONDS = 2.0
"""A spare is started when no other process has been started for so long."""
SPARES_MAX = 2
"""Two executors that end at once, as by a lack of memory, are both replaced at once."""


@dataclass
class _Child:
    """One index: its process, and how often it failed."""

    index: int
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    attempts: int = 0
    failures: int = 0
    not_before: float = 0.0


class Supervisor:
    """Starts executors as processes and starts them again. Must be stopped.

    Parameters
    ----------
    ended : callable
        Called with the index whose process has ended.
    hang : Hang
        Asked again and again of each process that runs.
    """

    def __init__(
        self, config: ExecutorConfig, ended: Callable[[int], None], hang: Hang, clock: Clock
    ) -> None:
        self._config = config
        self._ended = ended
        self._hang = hang
        self._now = clock.monotonic_seconds
        self._children = [_Child(index) for index in range(config.executors_count)]
        self._spares: list[subprocess.Popen[bytes]] = []
        self._spared = 0.0
        self._stop = threading.Event()
        try:
            for child in self._children:
                self._start(child)
        except BaseException:
            self._end_all(0)
            raise
        self._thread = threading.Thread(target=self._watch, name="tidelake-supervisor", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether processes run, or will be started again."""
        return not self._stop.is_set()

    @property
    def restarts_count(self) -> int:
        """How often a process was started again."""
        return sum(max(0, c.attempts - 1) for c in self._children)

    def stop(self, *, timeout_s: float = KILL_AFTER_SECONDS) -> bool:
        """Start none again; wait for those that run, then kill them."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._end_all(timeout_s)
        return True

    def _end_all(self, timeout_s: float) -> None:
        running = [child.process for child in self._children if child.process is not None]
        for process in running:
            process.terminate()  # they finish what they answer, and say that they leave
        for spare in self._spares:
            _close_pipes(spare)  # the end of its input ends it
            running.append(spare)
        end = self._now() + timeout_s
        for process in running:
            try:
                process.wait(max(0.0, end - self._now()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            _close_pipes(process)

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            for child in self._children:
                try:
                    self._look(child)
                except OSError as error:  # no memory, no more processes: wait, and try again
                    _LOG.warning("executor %d cannot be started: %s", child.index, error)
                    child.failures += 1
                    child.not_before = self._now() + WAIT_SECONDS_MAX
            with contextlib.suppress(OSError):
                self._keep_spare()

    def _look(self, child: _Child) -> None:
        process = child.process
        if process is not None and process.poll() is None:
            self._end_hung(child, process)
        if process is not None and process.poll() is not None:
            lasted = self._now() - child.started
            child.failures = 0 if lasted >= STEADY_SECONDS else child.failures + 1
            wait = min(WAIT_SECONDS_MAX, WAIT_SECONDS_MIN * 2 ** (child.failures - 1))
            child.not_before = self._now() + (wait if child.failures > 1 else 0.0)
            _LOG.warning(
                "executor %d (process %d) ended with %s after %.1f s; it is started again",
                child.index,
                process.pid,
                process.returncode,
                lasted,
            )
            _close_pipes(process)
            child.process = None
            self._ended(child.index)
        if child.process is None and self._now() >= child.not_before:
            self._start(child)

    def _end_hung(self, child: _Child, process: subprocess.Popen[bytes]) -> None:
        """Kill a process that hangs: it may be stopped, so nothing gentler reaches it."""
        why = self._hang(child.index, attempt=child.attempts - 1, started=child.started)
        if why is None:
            return
        _LOG.warning("executor %d (process %d) %s: it is killed", child.index, process.pid, why)
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # killed again when it is asked next
            process.wait(ENDS_SECONDS)

    def _start(self, child: _Child) -> None:
        self._drop_ended_spares()
        process = self._spares.pop() if self._spares else _spawned()
        config = replace(self._config, index=child.index, attempt=child.attempts)
        assert process.stdin is not None
        try:
            process.stdin.write(config.to_json() + b"\n")
            process.stdin.close()
        except BrokenPipeError:
            _LOG.warning("executor %d ended at its start", child.index)
        child.process = process
        child.started = self._now()
        child.attempts += 1

    def _keep_spare(self) -> None:
        """Have spares, one after the other, once the processes that started recently are up."""
        self._drop_ended_spares()
        if len(self._spares) >= min(SPARES_MAX, len(self._children)):
            return
        newest = max(self._spared, *(child.started for child in self._children))
        if self._now() - newest >= SPARE_AFTER_SECONDS:
            self._spares.append(_spawned())
            self._spared = self._now()

    def _drop_ended_spares(self) -> None:
        for spare in self._spares:
            if spare.poll() is not None:
                _close_pipes(spare)
        self._spares = [spare for spare in self._spares if spare.poll() is None]


def _spawned() -> subprocess.Popen[bytes]:
    """A process that waits for its configuration."""
    return subprocess.Popen(
        # -P: a file in the caller's directory may be named as a module of some library
        [sys.executable, "-P", "-m", "tidelake.service.executor"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=_environment(),
        start_new_session=True,  # an interrupt of the terminal is the parent's to handle
    )


def _environment() -> dict[str, str]:
    """The environment of this process, with its path of modules."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return {**os.environ, "PYTHONPATH": path}


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
