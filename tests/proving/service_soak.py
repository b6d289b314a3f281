"""A query service runs for minutes under 64 callers, and what its processes take does not grow.

Three programs: one serves, with two executors; one asks, by 64 threads that share four clients, and
opens a new client every few seconds; this one writes, compacts, expires and counts. The table has a
fixed set of keys, so that nothing grows but what leaks: memory, threads and open files of the
address server, of both executors and of the clients; files and bytes of the lookup directory;
snapshots.

After a warm-up a line is laid through each figure; what it rises by over the run must be within
:data:`LIMITS`. A caller checks each row: it is that of its key, and never older than one the caller
has seen. In the end all keys are those of a dict, and the service, when it is stopped, leaves no
process.

Usage: ``python -m proving.service_soak [SECONDS]``, by default as long as the size says; prints
each count on the standard error, and one line of JSON at last.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sizes import SIZE

import tidelake
from proving.growth import Samples, anonymous_mib, files_count, rises, threads_count

TABLE = "db.asked"
EXECUTORS = 2
CALLERS, CLIENTS = 64, 4
KEYS, MISSING = 2_000, 500
"""Keys that may have rows, and keys above them that never have."""
ROWS_PER_COMMIT = 50
BATCH = 100
COMMIT_PAUSE_S = 0.5
CALLER_PAUSE_S = (0.2, 0.8)
"""Of a caller between two calls: 64 of them are 130 calls a second, beside other work."""
VISITOR_PAUSE_S = 3.0
"""Between clients that come, ask once and go."""
FULL_EVERY, EXPIRE_EVERY = 25, 10
"""Commits between full compactions, and between expiries."""
SAMPLES = 60
WARM_UP = 0.35
"""The share of the time in which caches and memory pools fill."""
DEADLINE_S = 30.0
END_S_MAX = 60
OPTIONS = {
    "bucket": 4,
    "snapshot.num-retained.min": 1,
    "snapshot.num-retained.max": 10,
    "snapshot.time-retained": "1 s",
    "lookup.cache-file-retention": "10 s",
}
LIMITS: dict[str, float] = {
    "server_mib": 12,
    "executors_mib": 24,
    "client_mib": 12,
    "server_threads": 2,
    "executors_threads": 4,
    "client_threads": 3,
    "server_files": 4,
    "executors_files": 10,
    "client_files": 6,
    "lookup_files": 12,
    "lookup_mib": 2,
    "snapshots": 6,
}
"""What each figure may rise by: noise, and what is not freed yet."""


# ---- the program that serves


def serve(work: Path) -> None:
    """Serve until the standard input ends; tell the executors' processes."""
    with tidelake.serve(
        work / "warehouse", [TABLE], parallelism=EXECUTORS, directory=work / "lookup"
    ) as service:
        service.wait_ready(END_S_MAX)
        told = sorted(service.executor_pids.values())
        sys.stdout.write(f"{json.dumps(told)}\n")
        sys.stdout.flush()
        sys.stdin.read()
        assert service.restarts_count == 0, "an executor died"


# ---- the program that asks


@dataclass
class Asked:
    """What the callers of one program asked and saw."""

    stop: threading.Event = field(default_factory=threading.Event)
    counts: list[int] = field(default_factory=lambda: [0] * (CALLERS + 1))
    wrong: list[str] = field(default_factory=list)

    def call(self, client: Any, number: int) -> None:
        """Ask until told to stop; each row is checked."""
        rng = random.Random(number)
        seen: dict[int, int] = {}
        while not self.stop.wait(rng.uniform(*CALLER_PAUSE_S)):
            size = 1 if rng.random() < 0.8 else BATCH
            keys = [rng.randrange(KEYS + MISSING) for _ in range(size)]
            try:
                rows = client.get_many(keys) if size > 1 else [client.get(keys[0])]
            except tidelake.TidelakeError as error:
                self.wrong.append(f"{error.kind}: {error.message}")
                continue
            self.counts[number] += 1
            for key, row in zip(keys, rows, strict=True):
                self._check(key, row, seen)

    def visit(self, warehouse: Path) -> None:
        """Come with a new client, ask once, and go."""
        while not self.stop.wait(VISITOR_PAUSE_S):
            with tidelake.query(warehouse, TABLE, deadline_seconds=DEADLINE_S) as client:
                self._check(7, client.get(7), {})
            self.counts[CALLERS] += 1

    def _check(self, key: int, row: dict[str, Any] | None, seen: dict[int, int]) -> None:
        if row is None:
            return
        if row["k"] != key or row["v"] < seen.get(key, 0) or row["text"] != text_of(row["v"]):
            self.wrong.append(f"key {key}: {row} after {seen.get(key)}")
        seen[key] = row["v"]


def ask(work: Path) -> None:
    """Let 64 callers ask until the standard input ends; tell what they saw."""
    asked = Asked()
    with contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(
                tidelake.query(work / "warehouse", TABLE, deadline_seconds=DEADLINE_S)
            )
            for _ in range(CLIENTS)
        ]
        threads = [
            threading.Thread(target=asked.call, args=(clients[number % CLIENTS], number))
            for number in range(CALLERS)
        ]
        threads.append(threading.Thread(target=asked.visit, args=(work / "warehouse",)))
        for thread in threads:
            thread.start()
        sys.stdin.read()
        asked.stop.set()
        for thread in threads:
            thread.join()
    told = {"calls": sum(asked.counts), "visits": asked.counts[CALLERS], "wrong": asked.wrong}
    sys.stdout.write(f"{json.dumps(told)}\n")


# ---- the program that writes and counts


def text_of(number: int) -> str:
    """What a row of a commit holds beside its number."""
    return f"commit {number} " + "x" * (number % 50)


def program(what: str, work: Path) -> subprocess.Popen[str]:
    """Start one of the other programs."""
    return subprocess.Popen(
        [sys.executable, "-m", "proving.service_soak", what, str(work)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def end(child: subprocess.Popen[str]) -> str:
    """Let a program end by itself; what it said last."""
    said, _ = child.communicate(timeout=END_S_MAX)
    assert child.returncode == 0, f"a program ended with {child.returncode}"
    return said


def commit(table: tidelake.Table, model: dict[int, int], number: int) -> None:
    """One small commit; deletes, compactions and expiries too."""
    keys = [(number * 37 + i * 41) % KEYS for i in range(ROWS_PER_COMMIT)]
    if number % 6 == 5:
        gone = [k for k in keys if k in model]
        table.write([row(k, model.pop(k)) for k in gone], row_kinds=["-D"] * len(gone))
    else:
        model.update(dict.fromkeys(keys, number))
        table.write([row(k, number) for k in keys])
    if number % FULL_EVERY == FULL_EVERY - 1:
        table.compact(full=True)
    if number % EXPIRE_EVERY == EXPIRE_EVERY - 1:
        table.expire_snapshots(retain_max=5, retain_min=1)


def row(key: int, number: int) -> dict[str, Any]:
    """A row of a commit."""
    return {"k": key, "v": number, "text": text_of(number)}


@dataclass
class Counter:
    """Counts what the processes take."""

    work: Path
    server: int
    executors: list[int]
    client: int

    def __call__(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, pids in (
            ("server", [self.server]),
            ("executors", self.executors),
            ("client", [self.client]),
        ):
            found[f"{name}_mib"] = sum(map(anonymous_mib, pids))
            found[f"{name}_threads"] = sum(map(threads_count, pids))
            found[f"{name}_files"] = sum(map(files_count, pids))
        lookup = [sizes for sizes in map(size_of, (self.work / "lookup").rglob("*")) if sizes]
        found["lookup_files"] = len(lookup)
        found["lookup_mib"] = sum(lookup) / 2**20
        found["snapshots"] = len(list(self.work.glob("warehouse/*/*/snapshot/snapshot-*")))
        return found


def size_of(path: Path) -> int:
    """Bytes of a file; 0 where it is none any more."""
    with contextlib.suppress(OSError):
        return path.stat().st_size if path.is_file() else 0
    return 0


def soak(work: Path, *, seconds: float) -> dict[str, object]:
    """Let the service run; the figures, or AssertionError where something grew or was wrong."""
    table = tidelake.open(work / "warehouse").create_table(
        TABLE,
        {"k": "BIGINT", "v": "BIGINT", "text": "STRING"},
        primary_keys=["k"],
        options=OPTIONS,
    )
    model: dict[int, int] = {}
    commit(table, model, 0)
    server = program("serve", work)
    assert server.stdout is not None
    executors = json.loads(server.stdout.readline())
    asker = program("ask", work)
    counter = Counter(work, server.pid, executors, asker.pid)
    samples: Samples = []
    began, commits = time.monotonic(), 1
    try:
        while (spent := time.monotonic() - began) < seconds:
            commit(table, model, commits)
            commits += 1
            assert server.poll() is None, "the service ended"
            assert asker.poll() is None, "the clients ended"
            if spent >= seconds * (len(samples) + 1) / SAMPLES:
                samples.append((spent, counter()))
                sys.stderr.write(f"{spent:.0f} s: {json.dumps(samples[-1][1])}\n")
            time.sleep(COMMIT_PAUSE_S)
        told = json.loads(end(asker))
        with tidelake.query(work / "warehouse", TABLE, deadline_seconds=DEADLINE_S) as client:
            rows = client.get_many(list(range(KEYS)), min_snapshot=table.latest_snapshot_id)
        end(server)
    finally:
        for child in (asker, server):
            child.kill()
    assert not told["wrong"], told["wrong"][:5]
    assert rows == [row(k, model[k]) if k in model else None for k in range(KEYS)]
    assert not [pid for pid in executors if Path(f"/proc/{pid}").exists()], "executors stay"
    late = [one for one in samples if one[0] >= WARM_UP * seconds]
    found = rises(late, LIMITS)
    grown = {name: by for name, by in found.items() if by > LIMITS[name]}
    figures = {
        "check": "service soak",
        "minutes": round((time.monotonic() - began) / 60, 1),
        "commits": commits,
        "calls": told["calls"],
        "visits": told["visits"],
        "last": {name: round(value, 1) for name, value in samples[-1][1].items()},
        "rises": found,
        "violations": len(grown),
    }
    assert not grown, json.dumps(figures)
    return figures


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(Path(sys.argv[2]))
    elif sys.argv[1:2] == ["ask"]:
        ask(Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as directory:
            given = float(sys.argv[1]) if sys.argv[1:] else SIZE.service_soak_s
            sys.stdout.write(f"{json.dumps(soak(Path(directory), seconds=given))}\n")
