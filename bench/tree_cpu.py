"""CPU seconds of a process and all that it started: for Spark the JVM and its Python workers.

The standard library alone: the peers' virtualenvs run it too.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
LOOK_SECONDS = 0.5


class TreeCpu:
    """CPU seconds of this process and all that descend from it, those that have ended included.

    PySpark's daemon ignores SIGCHLD, so the time of a Python worker that ends (Spark ends idle ones
    after a minute) is in nobody's account: a thread looks again and again and remembers.
    """

    def __init__(self) -> None:
        self.used: dict[int, float] = {}
        self.lock = threading.Lock()
        threading.Thread(target=self._watch, daemon=True).start()

    def seconds(self) -> float:
        """Used up to now."""
        with self.lock:
            self._look()
            return sum(self.used.values())

    def _watch(self) -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            self.seconds()

    def _look(self) -> None:
        parents: dict[int, int] = {}
        used: dict[int, float] = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except (OSError, IndexError):
                continue
            parents[int(entry.name)] = int(fields[1])
            used[int(entry.name)] = (int(fields[11]) + int(fields[12])) / TICKS
        mine = {os.getpid()}
        grown = True
        while grown:
            more = {pid for pid, parent in parents.items() if parent in mine} - mine
            grown = bool(more)
            mine |= more
        for pid in mine:
            self.used[pid] = max(used.get(pid, 0.0), self.used.get(pid, 0.0))
