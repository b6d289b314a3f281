"""A query service runs for minutes under 64 callers, and what its processes take does not grow.

Three programs: one serves, with two executors; one asks, by 48 threads that share three clients and
by 16 coroutines of a fourth, and opens a new client every few seconds; this one writes, compacts,
expires and counts. The table has a
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

import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sizes import SIZE

import tidelake
from proving.growth import Samples, anonymous_mib, files_count, rises, threads_count

TABLE = "db.asked"
EXECUTORS = 2
CALLERS, COROUTINES, CLIENTS = 64, 16, 3
"""Callers, how many of them are coroutines of one client, and clients that threads share."""
KEYS, MISSING = 600, 150
"""Keys that may have rows, and keys above them that never have."""
MEMORY = "64 mb"
"""Of each process that serves: its caches are full before the warm-up is over."""
ROWS_PER_COMMIT = 50
BATCH = 100
COMMIT_PAUSE_S = 0.5
CALLER_PAUSE_S = (0.2, 0.8)
"""Of a caller between two calls: 64 of them are 130 calls a second, beside other work."""
CALLS_AT_ONCE = 30
"""Of each caller without a pause, at first: pools of threads grow to the most calls at once."""
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
        work / "warehouse",
        [TABLE],
        parallelism=EXECUTORS,
        directory=work / "lookup",
        memory=MEMORY,
    ) as service:
        service.wait_ready(END_S_MAX)
        told = sorted(service.executor_pids.values())
        sys.stdout.write(f"{json.dumps(told)}\n")
        sys.stdout.flush()
        sys.stdin.read()
        assert service.restarts_count == 0, "an executor died"


# ---- the program that asks


@dataclass
class Caller:
    """One who asks for drawn keys, and what it saw."""

    rng: random.Random
    wrong: list[str]
    seen: dict[int, int] = field(default_factory=dict)
    calls: int = 0

    def draw(self) -> list[int]:
        """The keys of the next call: mostly one."""
        size = 1 if self.rng.random() < 0.8 else BATCH
        return [self.rng.randrange(KEYS + MISSING) for _ in range(size)]

    def pause(self) -> float:
        """Seconds until the next call; none at first, when pools grow to their size."""
        return 0.0 if self.calls < CALLS_AT_ONCE else self.rng.uniform(*CALLER_PAUSE_S)

    def check(self, keys: Sequence[int], rows: Sequence[dict[str, Any] | None]) -> None:
        """Compare rows with their keys, and with those seen before."""
        self.calls += 1
        for key, row in zip(keys, rows, strict=True):
            if row is None:
                continue
            value = row["v"]
            if row["k"] != key or value < self.seen.get(key, 0) or row["text"] != text_of(value):
                self.wrong.append(f"key {key}: {row} after {self.seen.get(key)}")
            self.seen[key] = value

    def failed(self, error: tidelake.TidelakeError) -> None:
        """A call that failed is wrong too."""
        self.wrong.append(f"{error.kind}: {error.message}")


def call(client: Any, caller: Caller, stop: threading.Event) -> None:
    """Ask by a thread until told to stop."""
    while not stop.wait(caller.pause()):
        keys = caller.draw()
        try:
            caller.check(keys, [client.get(keys[0])] if len(keys) == 1 else client.get_many(keys))
        except tidelake.TidelakeError as error:
            caller.failed(error)


async def call_async(client: Any, caller: Caller, stop: threading.Event) -> None:
    """Ask by a coroutine until told to stop."""
    while not stop.is_set():
        await asyncio.sleep(caller.pause())
        keys = caller.draw()
        try:
            single = len(keys) == 1
            rows = [await client.get(keys[0])] if single else await client.get_many(keys)
            caller.check(keys, rows)
        except tidelake.TidelakeError as error:
            caller.failed(error)


async def call_all(warehouse: Path, callers: Sequence[Caller], stop: threading.Event) -> None:
    """Ask by coroutines that share a client."""
    async with tidelake.lookup_client_async(
        warehouse, TABLE, deadline_seconds=DEADLINE_S
    ) as client:
        await asyncio.gather(*(call_async(client, caller, stop) for caller in callers))


def visit(warehouse: Path, caller: Caller, stop: threading.Event) -> None:
    """Come with a new client, ask once, and go, until told to stop."""
    while not stop.wait(VISITOR_PAUSE_S):
        with tidelake.lookup_client(warehouse, TABLE, deadline_seconds=DEADLINE_S) as client:
            caller.check([7], [client.get(7)])


def ask(work: Path) -> None:
    """Let 64 callers ask until the standard input ends; tell what they saw."""
    stop, wrong, warehouse = threading.Event(), [], work / "warehouse"
    callers = [Caller(random.Random(number), wrong) for number in range(CALLERS)]
    visitor = Caller(random.Random(), wrong)
    with contextlib.ExitStack() as stack:
        threads = [
            threading.Thread(
                target=asyncio.run, args=(call_all(warehouse, callers[:COROUTINES], stop),)
            ),
            threading.Thread(target=visit, args=(warehouse, visitor, stop)),
        ]
        clients = [
            stack.enter_context(
                tidelake.lookup_client(warehouse, TABLE, deadline_seconds=DEADLINE_S)
            )
            for _ in range(CLIENTS)
        ]
        threads += [
            threading.Thread(target=call, args=(clients[number % CLIENTS], caller, stop))
            for number, caller in enumerate(callers[COROUTINES:])
        ]
        for thread in threads:
            thread.start()
        sys.stdin.read()
        stop.set()
        for thread in threads:
            thread.join()
    calls = sum(caller.calls for caller in callers)
    sys.stdout.write(f"{json.dumps({'calls': calls, 'visits': visitor.calls, 'wrong': wrong})}\n")


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
        table.maintenance.expire_snapshots(retain_max=5, retain_min=1)


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


def is_running(pid: int) -> bool:
    """Whether there is a process."""
    return Path(f"/proc/{pid}/status").exists()


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
            assert all(map(is_running, executors)), "an executor ended"
            if spent >= seconds * (len(samples) + 1) / SAMPLES:
                samples.append((spent, counter()))
                sys.stderr.write(f"{spent:.0f} s: {json.dumps(samples[-1][1])}\n")
            time.sleep(COMMIT_PAUSE_S)
        told = json.loads(end(asker))
        with tidelake.lookup_client(
            work / "warehouse", TABLE, deadline_seconds=DEADLINE_S
        ) as client:
            rows = client.get_many(list(range(KEYS)), min_snapshot=table.latest_snapshot_id)
        end(server)
    finally:
        for child in (asker, server):
            child.kill()
    assert not told["wrong"], told["wrong"][:5]
    assert rows == [row(k, model[k]) if k in model else None for k in range(KEYS)]
    assert not any(map(is_running, executors)), "executors stay"
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
