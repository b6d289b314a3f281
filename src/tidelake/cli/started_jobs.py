"""The jobs that this program started: says when each begins and ends, and waits for them.

A bounded job may have ended before the statement that started it has answered. So a start is told
when it happens, by whoever starts it, and never found by a look at what still runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

__all__ = ["StartedJobs", "WatchedJob"]

LOOK_S = 0.5
WAITING = "Until they end: Ctrl-C stops all jobs, and the same file goes on from there."


class WatchedJob(Protocol):
    """What is asked of a job."""

    name: str

    @property
    def id(self) -> str:
        """Its id, which stays over restarts."""

    @property
    def status(self) -> str:
        """``RUNNING``, or how it ended."""

    @property
    def error(self) -> Exception | None:
        """Why it failed."""

    def stop(self) -> None:
        """Stop it, if it runs."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it ends."""


class StartedJobs:
    """The jobs that this program started.

    Parameters
    ----------
    notify : callable
        Takes a line for the user.
    """

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify = notify
        self._open: list[WatchedJob] = []  # their end was not told yet

    def add(self, job: WatchedJob) -> None:
        """Take a job that was started, and say so."""
        self._open.append(job)
        self._notify(f"Started: {job.name} ({job.id}).")

    def wait(self) -> None:
        """Wait until all have ended, one failed, or Ctrl-C; then stop those that run.

        Raises
        ------
        TidelakeError
            One failed.
        """
        if self._open:
            self._notify(WAITING)
        try:
            while self._open:
                self._tell_ends()
                running = [job for job in self._open if job.status == "RUNNING"]
                if running:
                    running[0].wait(LOOK_S)
        finally:
            self.stop()

    def stop(self) -> None:
        """Stop those that run, and say how all ended."""
        for job in self._open:
            job.stop()
        for job in self._open:
            self._tell(job)
        self._open = []

    def _tell_ends(self) -> None:
        """Say which ended.

        Raises
        ------
        TidelakeError
            One failed.
        """
        ended = [job for job in self._open if job.status != "RUNNING"]
        self._open = [job for job in self._open if job not in ended]
        for job in ended:
            self._tell(job)
        failed = next((job.error for job in ended if job.error is not None), None)
        if failed is not None:
            raise failed

    def _tell(self, job: WatchedJob) -> None:
        self._notify(f"Ended: {job.name} ({job.id}), {job.status}.")
