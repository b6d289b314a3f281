"""The memory contract: what writing, reading, compacting and planning take beside the interpreter.

Each piece of work runs in a process of its own, on input twenty times as large as the memory it is
given. The process does a little of everything first, so that libraries are loaded and threads have
their stacks; from there its address space may grow by the memory given and no more (RLIMIT_AS), so
that a step too far is a failed allocation and not a figure.

Address space is counted, not resident memory, because only it can be limited. mimalloc, Arrow's
default pool, reserves a GiB of it at once, each malloc arena of a thread 64 MiB and each BLAS
thread some more, whether they are used or not; so the processes run with Arrow's system pool, two
arenas and one BLAS thread.

Usage: python scripts/memory.py [--size small|full] [--memory MIB] [--only NAME]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE.parent / "bench")]

import many_files  # noqa: E402  (the path comes first)
import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402

import tidelake  # noqa: E402

MIB = 1 << 20
BATCH_ROWS = 65_536
ROW_BYTES = 100
TIMES = 20
SIZES = {"small": (256, 1), "full": (256, TIMES)}
"""Memory in MiB, and how many times as large the input is."""
WRITE_BUFFER_SHARE = 4
"""``write-buffer-size`` is this part of the memory: a full buffer is sorted, gathered and encoded
beside itself."""
ENVIRONMENT = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string()), ("d", pa.float64())])
COMMITS = 4
"""So many overlapping runs are read and compacted."""
ODD = 0x9E37_79B9_7F4A_7C15
FILE_BYTES = 600
"""What an entry of a manifest takes in memory, about."""


def status(name: str) -> int:
    """A line of /proc/self/status in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) << 10
    raise LookupError(name)


def batches(rows_count: int) -> Iterator[pa.RecordBatch]:
    """Rows of :data:`ROW_BYTES` in no order of their keys, each key once."""
    letters = np.random.default_rng(1).integers(97, 123, (BATCH_ROWS, ROW_BYTES - 20), np.uint8)
    texts = pa.array(np.ascontiguousarray(letters).view(f"S{ROW_BYTES - 20}")[:, 0]).cast(
        pa.string()
    )
    for start in range(0, rows_count, BATCH_ROWS):
        count = min(BATCH_ROWS, rows_count - start)
        keys = np.arange(start, start + count, dtype=np.uint64) * np.uint64(ODD)
        columns = [pa.array(keys.view(np.int64)), texts.slice(0, count), pa.array(keys * 1.0)]
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def table_of(place: str, name: str, memory: int, *, keyed: bool, **options: str) -> tidelake.Table:
    """A new table of one bucket that keeps to the memory."""
    given = {"write-buffer-size": f"{memory // WRITE_BUFFER_SHARE} b"} | options
    keys = {"primary_keys": ["k"]} if keyed else {}
    if keyed:
        given["bucket"] = "1"
    return tidelake.open(place).create_table(f"db.{name}", SCHEMA, options=given, **keys)


def write(place: str, name: str, memory: int, rows_count: int, **options: str) -> int:
    """Write rows in a few large commits; gives their number."""
    table = table_of(place, name, memory, keyed=name != "append", **options)
    written = batches(rows_count)
    share = -(-rows_count // BATCH_ROWS // COMMITS)
    while part := next(written, None):
        more = itertools.islice(written, share - 1)
        reader = pa.RecordBatchReader.from_batches(SCHEMA, itertools.chain([part], more))
        table.write(reader)
    return table.count() if name == "append" else rows_count


def read(place: str, name: str) -> int:
    """Read a table of overlapping runs as a stream."""
    return sum(b.num_rows for b in tidelake.open(place).table(f"db.{name}").to_batches())


def compact(place: str, name: str) -> int:
    """Compact it fully."""
    table = tidelake.open(place).table(f"db.{name}")
    before = table.latest_snapshot_id
    table.compact(full=True)
    assert table.latest_snapshot_id != before, "there was nothing to compact"
    return table.count()


def plan(place: str, name: str) -> int:
    """Plan it twice."""
    table = tidelake.open(place).table(f"db.{name}")
    return [table.plan().files_read for _ in range(2)][-1]


def work_of(name: str, place: str, memory: int, rows_count: int) -> Callable[[], int]:
    """The piece of work of a name, on the tables that the others left in `place`."""
    works: dict[str, Callable[[], int]] = {
        "write append": lambda: write(place, "append", memory, rows_count),
        "write primary key": lambda: write(place, "runs", memory, rows_count, **RUNS),
        "merge read": lambda: read(place, "runs"),
        "compact": lambda: compact(place, "runs"),
        "plan": lambda: plan(place, "t"),
    }
    return works[name]


RUNS = {"write-only": "true", "write-buffer-spillable": "true"}
WORKS = ("write append", "write primary key", "merge read", "compact", "plan")


def warm(place: str, memory: int) -> None:
    """Do a little of everything, so that what comes later is the work's own."""
    table = table_of(place, "warm", memory, keyed=True)
    for _ in range(3):
        table.write(pa.Table.from_batches(list(batches(1_000))))
    table.compact(full=True)
    assert sum(b.num_rows for b in table.to_batches()) == 1_000
    pa.array([1]).take(pa.array([0]))


def run_one(name: str, place: str, memory: int, rows_count: int) -> None:
    """In this process: the work under its limit; prints what it took."""
    with tempfile.TemporaryDirectory() as other:
        warm(other, memory)
    work = work_of(name, place, memory, rows_count)
    base = status("VmSize")
    resource.setrlimit(resource.RLIMIT_AS, (base + memory, base + memory))
    found = work()
    print(
        json.dumps(
            {
                "found": found,
                "base": base,
                "base_resident": status("VmRSS"),
                "peak": status("VmPeak") - base,
                "peak_resident": status("VmHWM"),
            }
        )
    )


def main() -> None:
    """Run all pieces of work and say what each took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(SIZES), default="small")
    parser.add_argument("--memory", type=int, help="MiB")
    parser.add_argument("--only", choices=WORKS)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        name, place, memory, rows_count = arguments.one
        run_one(name, place, int(memory), int(rows_count))
        return
    mib, times = SIZES[arguments.size]
    memory = (arguments.memory or mib) * MIB
    rows_count = times * memory // ROW_BYTES
    place = tempfile.mkdtemp(prefix="tidelake-memory-")
    try:
        files_count = times * memory // FILE_BYTES
        many_files.make(Path(place), min(files_count, 100_000 if times == TIMES else 2_000))
        for name in WORKS:
            if arguments.only in {None, name}:
                measure(name, place, memory, rows_count, times)
    finally:
        shutil.rmtree(place)


def measure(name: str, place: str, memory: int, rows_count: int, times: int) -> None:
    """Run one piece of work in a fresh process."""
    command = [sys.executable, __file__, "--one", name, place, str(memory), str(rows_count)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | ENVIRONMENT, check=False
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["killed"]
        sys.exit(f"{name}: more than {memory // MIB} MiB, or an error: {last[0]}\n{done.stderr}")
    took = json.loads(done.stdout.splitlines()[-1])
    # reading and compacting count the rows; what was written twice would be merged away
    if name != "plan" and took["found"] != rows_count:
        sys.exit(f"{name}: {took['found']} rows instead of {rows_count}")
    print(
        f"{name}: {took['peak'] / MIB:.0f} of {memory // MIB} MiB beside the"
        f" {took['base'] / MIB:.0f} MiB of the interpreter (resident at most"
        f" {took['peak_resident'] / MIB:.0f} MiB); input {times} x, {took['found']:,} rows/files",
        flush=True,
    )


if __name__ == "__main__":
    main()
