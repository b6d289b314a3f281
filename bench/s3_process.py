"""The S3 server of the tests in a process of its own, so that its work is not the reader's.

It waits before each answer, as a store over a network does. Commands go to its standard input, a
line each; each is answered by a line of JSON: ``latency MS``, ``forget``, ``counts``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

TESTS = Path(__file__).resolve().parent.parent / "tests"


class S3Process:
    """A server; ends with the ``with`` block."""

    def __init__(self) -> None:
        program = [sys.executable, str(Path(__file__).resolve())]
        self._process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.storage: dict[str, str] = self._answer()["storage"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def latency(self, ms: float) -> None:
        """Wait so long before each answer from now on."""
        self._ask(f"latency {ms}")

    def forget(self) -> None:
        """Count from 0 again."""
        self._ask("forget")

    def counts(self) -> dict[str, int]:
        """Requests, most of them in flight at once, and the rounds that they took."""
        return self._ask("counts")

    def _ask(self, command: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found


def serve() -> None:
    """Answer until the standard input ends."""
    sys.path.insert(0, str(TESTS))
    from servers.s3 import S3Server

    with S3Server() as s3:
        print(json.dumps({"storage": s3.storage()}), flush=True)
        for line in sys.stdin:
            command, *words = line.split()
            answer: dict[str, int] = {}
            if command == "latency":
                s3.latency_ms = float(words[0])
            elif command == "forget":
                s3.forget()
            else:
                answer = {
                    "requests": s3.count(),
                    "in_flight": s3.in_flight_max,
                    "rounds": s3.rounds,
                }
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
