"""The jobs of this program: reports the start and end of each, and waits for them.

A bounded job may end before its statement returns. So the code that starts a job reports the start;
a look at running jobs could miss it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

LOOK_S = 0.5
WAITING = "Until they end: Ctrl-C stops all jobs, and the same file goes on from there."


class WatchedJob(Protocol):
    """The methods of a job that this module uses."""

    name: str

    @property
    def id(self) -> str:
        """Its id, which a restart keeps."""

    @property
    def status(self) -> str:
        """``RUNNING``, or the way it ended."""

    @property
    def error(self) -> Exception | None:
        """The error, if it failed."""

    def stop(self) -> None:
        """Stop it, if it runs."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it ends."""


class StartedJobs:
    """The jobs of this program.

    Parameters
    ----------
    notify : callable
        Takes a line for the user.
    """

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify = notify
        self._open: list[WatchedJob] = []  # jobs whose end was not reported yet

    def add(self, job: WatchedJob) -> None:
        """Add a started job, and report its start."""
        self._open.append(job)
        self._notify(f"Started: {job.name} ({job.id}).")

    def wait(self) -> None:
        """Wait until all have ended, one has failed, or Ctrl-C; then stop the others.

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
        """Stop running jobs, and report the end of all."""
        for job in self._open:
            job.stop()
        for job in self._open:
            self._tell(job)
        self._open = []

    def _tell_ends(self) -> None:
        """Report the jobs that have ended.

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
