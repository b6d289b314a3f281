"""A server that is a program of its own: found in the project's cache, started, waited for, ended.

``make stores`` puts the programs into ``.stores`` of the checkout, each below its version. Tests
that need one which is not there are skipped, by :class:`AbsentError`.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

CACHE = Path(os.environ.get("TIDELAKE_STORES_CACHE", Path(__file__).parents[2] / ".stores"))
START_SECONDS_MAX = 90
FETCH_SECONDS_MAX = 3600


class AbsentError(Exception):
    """A server is not on this machine; the message says how to get it."""


def tool(name: str, what: str) -> str:
    """A program of the machine.

    Raises
    ------
    AbsentError
        It is missing.
    """
    found = shutil.which(name)
    if found is None:
        message = f"there is no {name} on this machine, and {what} needs it"
        raise AbsentError(message)
    return found


def fetch(place: Path, command: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run a package manager that fills a directory, whole or not at all."""
    fresh = place.with_name(f"{place.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    done = subprocess.run(
        [part.replace("{place}", str(fresh)) for part in command],
        env={**os.environ, **{k: v.replace("{place}", str(fresh)) for k, v in environ.items()}},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=FETCH_SECONDS_MAX,
        check=False,
    )
    if done.returncode:
        message = f"{' '.join(command)} failed: {done.stdout[-600:]}"
        raise RuntimeError(message)
    fresh.rename(place)


@dataclass
class Program:
    """A server's process, which may be killed and started again on the same port and data.

    Parameters
    ----------
    command : sequence of str
        Starts it.
    port : int
        Where it listens once it is up.
    place : Path
        Its directory: data, and ``log`` with what it says.
    environ : mapping
        Beside this process's.
    """

    command: Sequence[str]
    port: int
    place: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        with (self.place / "log").open("ab") as log:
            self.process = subprocess.Popen(
                list(self.command),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.place,
                env={**os.environ, **self.environ},
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline and self.process.poll() is None:
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        self.kill()
        said = (self.place / "log").read_text(errors="replace")[-2000:]
        message = f"{self.command[0]} did not start: {said}"
        raise AssertionError(message)

    def kill(self) -> None:
        """Kill it, as a crash of its machine does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextmanager
def running(
    command: Sequence[str], *, port: int, environ: Mapping[str, str] | None = None
) -> Iterator[Program]:
    """Run a program until the block ends; ``{place}`` in its words is its own directory."""
    place = Path(tempfile.mkdtemp(prefix="tidelake-store-"))
    words = [word.replace("{place}", str(place)) for word in command]
    program = Program(words, port, place, environ or {})
    try:
        program.start()
        yield program
    finally:
        program.kill()  # nothing of it is kept
        shutil.rmtree(place, ignore_errors=True)
