"""The memory contract: what writing, reading, compacting and planning take beside the interpreter.

The pieces of work run in processes of their own (at the small size, all of one shape of rows in
one), on input as large as the memory that the catalog is opened with, or 20 times as large,
``tidelake.open(place, memory=...)``. A process does a little of
everything first, so that libraries are loaded and threads have their stacks; from there its address
space may grow by the memory given and no more (RLIMIT_AS), so that a step too far is a failed
allocation and not a figure. ``--plant 8`` opens the catalog with eight times what the process has:
then every piece of work must fail, or it proves nothing.

Shapes of rows: *narrow*, 100 bytes; *broad*, 1,000 bytes, for the full size; *wide*, narrow
ones with a text of 1 MB every so often; *nested*, arrays, maps and rows; *buckets*, narrow ones
spread over 64 buckets. Each is read and compacted out of :data:`RUNS` overlapping runs in every
bucket (of *nested* 12, of *buckets* 8).

Address space is counted, not resident memory, because only it can be limited. mimalloc, Arrow's
default pool, reserves a GiB of it at once, each malloc arena of a thread 64 MiB and each BLAS
thread some more, whether they are used or not; so the processes run with Arrow's system pool, two
arenas and one BLAS thread.

Usage: python scripts/memory.py [--size small|full] [--shape NAME] [--only NAME] [--plant N]
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
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE.parent / "bench")]

import many_files  # noqa: E402  (the path comes first)
import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402

import tidelake  # noqa: E402

MIB = 1 << 20
BATCH_ROWS = 65_536
RUNS = 33
ENVIRONMENT = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
ODD = 0x9E37_79B9_7F4A_7C15
WIDE_BYTES = 1_000_000
WIDE_EVERY = 2_000
TEXT_BYTES = 80
FILE_BYTES = 600
"""What an entry of a manifest takes in memory, about."""


SHIFTS = 4_096


def texts(letters: np.ndarray, count: int, size: int, number: int) -> pa.Array:
    """Letters that compress little; those of another batch are others."""
    first = number % SHIFTS
    offsets = np.arange(first, first + (count + 1) * size, size, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(letters)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def narrow(keys: np.ndarray, some: pa.Array) -> list[pa.Array]:
    """A key, a text, a number."""
    return [pa.array(keys.view(np.int64)), some, pa.array(keys * 1.0)]


def wide(keys: np.ndarray, some: pa.Array) -> list[pa.Array]:
    """One text in :data:`WIDE_EVERY` has a megabyte."""
    large = "w" * WIDE_BYTES
    parts = [
        part
        for start in range(0, len(keys), WIDE_EVERY)
        for part in (some.slice(start, WIDE_EVERY - 1), pa.array([f"{start}{large}"]))
    ]
    return narrow(keys, pa.concat_arrays(parts).slice(0, len(keys)))


def nested(keys: np.ndarray, some: pa.Array) -> list[pa.Array]:
    """An array of texts, a map to numbers, a row of both."""
    count = len(keys)
    ends = pa.array(np.minimum(np.arange(0, 2 * count + 1, 2), count).astype(np.int32))
    lists = pa.ListArray.from_arrays(ends, some)
    maps = pa.MapArray.from_arrays(ends, some, pa.array(keys.view(np.int64)))
    rows = pa.StructArray.from_arrays([some, lists], names=["s", "a"])
    return [pa.array(keys.view(np.int64)), lists, maps, rows]


@dataclass(frozen=True)
class Shape:
    """How rows look, and about how many bytes they have."""

    columns: Callable[[np.ndarray, pa.Array], list[pa.Array]]
    schema: pa.Schema
    row_bytes: int
    batch_rows: int = BATCH_ROWS
    text_bytes: int = TEXT_BYTES
    buckets: int = 1
    runs: int = RUNS


_NARROW = pa.schema({"k": pa.int64(), "s": pa.string(), "d": pa.float64()})
_LISTS = pa.list_(pa.string())
_NESTED = pa.schema(
    {
        "k": pa.int64(),
        "a": _LISTS,
        "m": pa.map_(pa.string(), pa.int64()),
        "r": pa.struct({"s": pa.string(), "a": _LISTS}),
    }
)
SHAPES = {
    "broad": Shape(narrow, _NARROW, 1_000, batch_rows=8_192, text_bytes=976),
    "narrow": Shape(narrow, _NARROW, 100),
    "wide": Shape(wide, _NARROW, 100 + WIDE_BYTES // WIDE_EVERY, batch_rows=8_000),
    "nested": Shape(nested, _NESTED, 360, batch_rows=20_000, runs=12),
    "buckets": Shape(narrow, _NARROW, 100, buckets=64, runs=8),
}
SIZES = {
    "small": (64, {"narrow": 1.0, "wide": 1.0, "nested": 0.3, "buckets": 0.3}, 12_000),
    "full": (256, {"broad": 20.0}, 100_000),
}
"""Memory in MiB, how many times as large the input of each shape is, files to plan."""
LIMIT_PLANTED = ("write append", "plan")
"""What no larger share makes larger: an append writer holds a row group of 32 MiB, and a plan takes
what its files take. Planted is less memory than the catalog is told of."""
PLANNED = ("narrow", "broad")
"""The shapes whose place gets the table of many files too."""


def status(name: str) -> int:
    """A line of /proc/self/status in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) << 10
    raise LookupError(name)


def batches(shape: Shape, rows_count: int, start: int = 0) -> Iterator[pa.RecordBatch]:
    """Rows in no order of their keys, each key once."""
    size = shape.text_bytes
    letters = np.random.default_rng(1).integers(
        97, 123, (shape.batch_rows + 1) * size + SHIFTS, np.uint8
    )
    for number, at in enumerate(range(start, start + rows_count, shape.batch_rows)):
        count = min(shape.batch_rows, start + rows_count - at)
        keys = np.arange(at, at + count, dtype=np.uint64) * np.uint64(ODD)
        columns = shape.columns(keys, texts(letters, count, size, number))
        yield pa.RecordBatch.from_arrays(columns, schema=shape.schema)


def create(catalog: tidelake.Catalog, name: str, shape: Shape, *, keyed: bool) -> tidelake.Table:
    """A new table; writers do not compact, so that it keeps its runs."""
    buckets = {"bucket": str(shape.buckets)} if keyed else {}
    if not keyed and shape.buckets > 1:
        buckets = {"bucket": str(shape.buckets), "bucket-key": "k"}
    return catalog.create_table(
        f"db.{name}",
        shape.schema,
        primary_keys=["k"] if keyed else [],
        options={"write-only": "true", **buckets},
    )


def write(catalog: tidelake.Catalog, name: str, shape: Shape, rows_count: int, commits: int) -> int:
    """Write all rows in so many commits; gives their number."""
    table = create(catalog, name, shape, keyed=name != "append")
    for start, stop in itertools.pairwise(
        [rows_count * part // commits for part in range(commits + 1)]
    ):
        rows = batches(shape, stop - start, start)
        table.write(pa.RecordBatchReader.from_batches(shape.schema, rows))
    files = catalog.table(f"db.{name}$files").to_arrow()
    return sum(files["record_count"].to_pylist())


def read(catalog: tidelake.Catalog) -> int:
    """Read a table of overlapping runs as a stream."""
    return sum(b.num_rows for b in catalog.table("db.runs").to_batches())


def compact(catalog: tidelake.Catalog) -> int:
    """Compact it fully."""
    table = catalog.table("db.runs")
    before = table.latest_snapshot_id
    table.compact(full=True)
    assert table.latest_snapshot_id != before, "there was nothing to compact"
    return table.count()


def plan(catalog: tidelake.Catalog) -> int:
    """Plan it twice."""
    table = catalog.table("db.t")
    return [table.plan().files_read for _ in range(2)][-1]


WORKS = ("write append", "write primary key", "write runs", "merge read", "compact", "plan")
"""In this order: the runs that are written are read, then compacted."""


def work_of(
    name: str, catalog: tidelake.Catalog, shape: Shape, rows_count: int
) -> Callable[[], int]:
    """The piece of work of a name, on the tables that the others left."""
    works: dict[str, Callable[[], int]] = {
        "write append": lambda: write(catalog, "append", shape, rows_count, 1),
        "write primary key": lambda: write(catalog, "keyed", shape, rows_count, 1),
        "write runs": lambda: write(catalog, "runs", shape, rows_count, shape.runs),
        "merge read": lambda: read(catalog),
        "compact": lambda: compact(catalog),
        "plan": lambda: plan(catalog),
    }
    return works[name]


def warm(place: str, shape: Shape, memory: int) -> None:
    """Do a little of everything, so that what comes later is the work's own."""
    catalog = tidelake.open(place, memory=memory)
    for keyed in (False, True):
        table = create(catalog, f"warm{keyed}", shape, keyed=keyed)
        for _ in range(3):
            table.write(pa.Table.from_batches(list(batches(shape, 1_000))))
        table.compact(full=True)
        assert sum(b.num_rows for b in table.to_batches()) == (1_000 if keyed else 3_000)
    pa.array([1]).take(pa.array([0]))


def run_works(arguments: argparse.Namespace) -> None:
    """In this process: pieces of work under one limit; prints what each took."""
    shape, memory, plant = SHAPES[arguments.shape[0]], arguments.memory * MIB, arguments.plant
    with tempfile.TemporaryDirectory() as other:
        warm(other, shape, memory)
    base = status("VmSize")
    planted = plant > 1 and arguments.only[0] in LIMIT_PLANTED
    limit = base + (memory // plant if planted else memory)
    catalog = tidelake.open(arguments.place, memory=memory if planted else memory * plant)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for name in arguments.only:
        before = time.process_time()
        found = work_of(name, catalog, shape, arguments.rows)()
        took = {"found": found, "base": base, "peak": status("VmPeak") - base}
        took |= {"resident": status("VmHWM"), "cpu_s": time.process_time() - before}
        print(json.dumps(took), flush=True)


def measure(
    works: Sequence[str], place: str, shape: str, memory: int, rows_count: int, *, plant: int = 1
) -> bool:
    """Run pieces of work in a fresh process, say what they took; whether they stayed inside."""
    command = [sys.executable, __file__, "--place", place, "--shape", shape]
    command += [part for name in works for part in ("--only", name)]
    command += ["--memory", str(memory), "--rows", str(rows_count), "--plant", str(plant)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | ENVIRONMENT, check=False
    )
    for name, line in zip(works, done.stdout.splitlines(), strict=False):
        took = json.loads(line)
        # reading and compacting count the rows; what was written twice would be merged away
        if name != "plan" and took["found"] != rows_count:
            sys.exit(f"{shape}, {name}: {took['found']} rows instead of {rows_count}")
        print(
            f"{shape}, {name}: {took['peak'] / MIB:.0f} of {memory} MiB beside the"
            f" {took['base'] / MIB:.0f} MiB of the interpreter (resident at most"
            f" {took['resident'] / MIB:.0f} MiB); {took['found']:,} rows or files,"
            f" {took['cpu_s']:.1f} CPU seconds",
            flush=True,
        )
    if done.returncode == 0:
        return True
    failed = works[len(done.stdout.splitlines())]
    last = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
    print(f"{shape}, {failed}: does not fit {memory} MiB: {last[:200]}", flush=True)
    if not any(sign in done.stderr for sign in NO_MEMORY):
        sys.exit(f"and not for want of memory:\n{done.stderr}")
    return False


NO_MEMORY = ("MemoryError", "malloc of size", "Cannot allocate memory", "bad_alloc")
"""What a process says that was refused memory."""


def main() -> None:
    """Run all pieces of work and say what each took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(SIZES), default="small")
    parser.add_argument("--shape", choices=list(SHAPES), action="append")
    parser.add_argument("--only", choices=WORKS, action="append")
    parser.add_argument("--plant", type=int, default=1)
    parser.add_argument("--memory", type=int, help="MiB")
    parser.add_argument("--place", help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.place:
        run_works(arguments)
        return
    kept = [check(shape, arguments) for shape in arguments.shape or SIZES[arguments.size][1]]
    if not all(kept):
        sys.exit("the memory contract is broken")


def check(name: str, arguments: argparse.Namespace) -> bool:
    """All pieces of work with rows of one shape; whether each did what it should."""
    mib, times, files_count = SIZES[arguments.size]
    memory, shape, plant = arguments.memory or mib, SHAPES[name], arguments.plant
    rows_count = int(times.get(name, 1.0) * memory * MIB) // shape.row_bytes
    works = [w for w in arguments.only or WORKS if w != "plan" or name in PLANNED]
    place = tempfile.mkdtemp(prefix="tidelake-memory-")
    try:
        if "plan" in works:
            many_files.make(Path(place), files_count)
        if plant > 1:
            measure(["write runs"], place, name, memory, rows_count)
            found_out = [
                not measure([work], place, name, memory, rows_count, plant=plant)
                for work in works
                if work != "write runs"  # commits too small to need it; the writer is the same
            ]
            return all(found_out)
        # at the small size in one process: its start costs more than the work
        groups = [works] if arguments.size == "small" else [[work] for work in works]
        kept = [measure(group, place, name, memory, rows_count) for group in groups]
        return all(kept)
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
