"""Where a test run spends its time: minutes and CPU minutes by folder, printed at its end.

1. Each process that runs tests measures the CPU time of itself and of all processes below it (a
   JVM, Python workers, racing writers), from ``/proc``, where one folder ends and the next begins:
   a JVM has a hundred threads, and to ask for each of them at each test takes half of the run.
2. The figures travel to the process that prints, of all workers alike.
3. Runs that share a file (``TIDELAKE_MINUTES``, as the calls of ``make test`` do, at the same time)
   add to what others left there, so that the last table is that of all.

The minutes of a folder are its share of its call's: what its tests took, divided by the number of
workers. CPU minutes are not divided: on two cores they may be twice as many. They leave out what
outlives the process that started it, as the JVM of a program does that Python began and left.
"""

from __future__ import annotations

import collections
import contextlib
import fcntl
import json
import os
import time
from pathlib import Path

import pytest

KEY = "cpu_seconds"
FILE = "TIDELAKE_MINUTES"
TICKS = os.sysconf("SC_CLK_TCK")
SHOWN_APART = "tests/unit"
"""Its folders are shown one by one."""
LONGEST_FIRST = (
    "test_stream_kills",
    "test_interop",
    "test_sql_beside_java",
    "test_local_cluster",
    "test_connect",
    "test_older_sparks",
    "test_dbt",
    "test_stream_filters",
    "test_stream_source",
    "test_stream_sql",
    "test_sql",
    "test_spark_catalog",
    "test_demo_sql",
    "test_store_on_cluster",
    "test_kafka_stream",
    "test_merge_by_bucket",
    "test_merge",
    "test_engines_on_executors",
    "test_cli",
    "test_fuzz",
    "test_session",
)
"""Modules that take long, where each is given to one worker whole: both then end together."""
HEAD = ("folder", "tests", "minutes", "CPU min")


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread ended meanwhile
            found += map(int, task.read_text().split())
    return found


def _ticks(pid: int) -> int:
    """CPU of a process, of the ones that it waited for, and of all that run below it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it ended meanwhile, or this system has no /proc
        return 0
    return sum(map(int, fields[11:15])) + sum(map(_ticks, _children(pid)))


def cpu_seconds() -> float:
    """CPU that this process and those below it have used so far; 0 without ``/proc``."""
    return _ticks(os.getpid()) / TICKS


def folder_of(nodeid: str) -> str:
    """The folder that a test counts for."""
    parts = nodeid.partition("::")[0].split("/")[:-1]
    return "/".join(parts[: 3 if "/".join(parts).startswith(SHOWN_APART) else 2]) or "."


class Minutes:
    """The measuring and the table; one per pytest process."""

    def __init__(self) -> None:
        self.by_folder: dict[str, list[float]] = collections.defaultdict(lambda: [0, 0.0, 0.0])
        self.by_worker: dict[str, float] = collections.defaultdict(float)
        self._began = time.time()
        self._folder: str | None = None
        self._cpu_before = 0.0

    def pytest_runtest_setup(self, item):
        self._enter(folder_of(item.nodeid))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session):
        self._enter(None)
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[KEY] = {name: sums[2] for name, sums in self.by_folder.items()}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        for folder, seconds in getattr(node, "workeroutput", {}).get(KEY, {}).items():
            self.by_folder[folder][2] += seconds

    def _enter(self, folder):
        """Begin a folder; what was used since the last one began is that one's."""
        if folder == self._folder:
            return
        now = cpu_seconds()
        if self._folder is not None:
            self.by_folder[self._folder][2] += max(0.0, now - self._cpu_before)
        self._folder, self._cpu_before = folder, now

    def pytest_runtest_logreport(self, report):
        sums = self.by_folder[folder_of(report.nodeid)]
        sums[0] += report.when == "call"
        sums[1] += report.duration
        worker = getattr(report, "node", None)
        self.by_worker[worker.gateway.id if worker else "main"] += report.duration

    def pytest_terminal_summary(self, terminalreporter, config):
        if hasattr(config, "workerinput") or not self.by_folder:
            return
        ended = time.time()
        workers = len(self.by_worker)
        folders = {name: [n, s / workers, cpu] for name, (n, s, cpu) in self.by_folder.items()}
        kept = {"began": self._began, "ended": ended, "folders": folders}
        if os.environ.get(FILE):
            kept = merged(Path(os.environ[FILE]), kept)
        terminalreporter.section("minutes by folder")
        for line in table(kept):
            terminalreporter.write_line(line)
        busy = ", ".join(f"{name} {s / 60:.1f}" for name, s in sorted(self.by_worker.items()))
        took = (ended - self._began) / 60
        terminalreporter.write_line(f"this call: {took:.1f} minutes; in tests: {busy}")


def merged(file: Path, kept: dict) -> dict:
    """What other runs left in the file and what this one adds; the file holds both then."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+") as shared:
        fcntl.flock(shared, fcntl.LOCK_EX)  # until it is closed
        shared.seek(0)
        text = shared.read()
        if text:
            others = json.loads(text)
            kept["began"] = min(kept["began"], others["began"])
            kept["ended"] = max(kept["ended"], others["ended"])
            for folder, sums in others["folders"].items():
                mine = kept["folders"].get(folder, [0, 0.0, 0.0])
                kept["folders"][folder] = [a + b for a, b in zip(mine, sums, strict=True)]
        shared.truncate(0)
        shared.write(json.dumps(kept))
    return kept


def table(kept: dict) -> list[str]:
    """The lines of the table, longest first."""
    rows = sorted(kept["folders"].items(), key=lambda row: -row[1][1])
    rows.append(("all", [sum(column) for column in zip(*(sums for _, sums in rows), strict=True)]))
    lines = ["{:32}{:>8}{:>10}{:>10}".format(*HEAD)]
    lines += [f"{name:32}{n:8.0f}{s / 60:10.1f}{cpu / 60:10.1f}" for name, (n, s, cpu) in rows]
    lines.append(f"wall: {(kept['ended'] - kept['began']) / 60:.1f} minutes")
    return lines
