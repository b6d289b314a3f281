"""The memory contract: what writing, reading, compacting and planning take beside the interpreter.

The pieces of work run in processes of their own (at the small size, all of one shape of rows in
one), on input as large as the memory that the catalog is opened with, or 20 times as large,
``tidelake.open(place, memory=...)``. A process does a little of
everything first, so that libraries are loaded and threads have their stacks; from there its address
space may grow by three quarters of the memory and no more (RLIMIT_AS), so that a step too far is a
failed allocation and not a figure. The last quarter is for what an allocator keeps of freed memory.
``--plant 8`` opens the catalog with eight times what the process has: then every piece of work must
fail, or it proves nothing.

Shapes of rows: *narrow*, 100 bytes; *broad*, 1,000 bytes, for the full size; *wide*, narrow
ones with a text of 1 MB every so often; *nested*, arrays, maps and rows; *buckets*, narrow ones
spread over 64 buckets. Each is read and compacted out of :data:`RUNS` overlapping runs in every
bucket (of *nested* 12, of *buckets* 8).

Broad rows, too, have the tables with a merge engine, *partial* and *aggregated*, and those with a
changelog, *logged* by full compactions and *searched* by lookups: in as many runs that have each
key four times. Those with a changelog are changed once more when they are compacted, a new row for
half of the keys, so that old rows are found and told of. So is *marked*, with deletion vectors,
where the old rows are marked, and a quarter of the keys is deleted by a condition at last; and
*first*, of first-row with lookups, where half of the keys that come then are new. Reads see what is
compacted of these two, so they are compacted before they are read.

Address space is counted, not resident memory, because only it can be limited. What is reserved and
never used is kept out of it: mimalloc, Arrow's default pool, reserves a GiB at once, each malloc
arena of a thread 64 MiB and each BLAS thread some more; so the processes run with Arrow's system
pool, one arena and one BLAS thread. So is freed memory that malloc keeps: once a large block is
freed it takes blocks up to that size (32 MiB) from its heap, where holes stay, twice what is in use
and more, as it happens. With ``MALLOC_MMAP_THRESHOLD_`` set it never does, and what is measured is
what the engine holds. ``--resident`` measures what a user has instead, with Arrow's and malloc's
defaults: resident memory, which may take all of the memory, and is looked at when the work is done.

Usage: python scripts/memory.py [--size small|full] [--shape NAME] [--only NAME] [--plant N]
[--resident]
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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(128 << 10),
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
ODD = 0x9E37_79B9_7F4A_7C15
QUARTER = 2.0**62
"""Below it is a quarter of the keys."""
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
    repeats: int = 1
    """So many rows has each key."""
    options: tuple[tuple[str, str], ...] = ()
    """Of the table; where there are any only one with a key is made."""

    @property
    def works(self) -> tuple[str, ...]:
        """What is done with the rows."""
        of_runs = ("write runs", "merge read", "compact")
        if self.marks:
            return ("write runs", "compact", "change", "merge read", "delete")
        if self.keeps_first:
            return ("write runs", "compact", "merge read", "change")
        if not self.options:
            return ("write append", "write primary key", *of_runs)
        return (*of_runs, "change") if self.producer else of_runs

    @property
    def producer(self) -> str | None:
        """What makes the changelog."""
        return dict(self.options).get("changelog-producer")

    @property
    def marks(self) -> bool:
        """Whether compactions mark the older rows."""
        return "deletion-vectors.enabled" in dict(self.options)

    @property
    def keeps_first(self) -> bool:
        """Whether the oldest row of a key stays."""
        return dict(self.options).get("merge-engine") == "first-row"

    @property
    def looks_up(self) -> bool:
        """Whether compactions look the older rows up."""
        return self.marks or self.producer == "lookup"


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
_BROAD = Shape(narrow, _NARROW, 1_000, batch_rows=8_192, text_bytes=976)


def _often(*options: tuple[str, str]) -> Shape:
    """Broad rows, several of each key, in a table with options."""
    return replace(_BROAD, batch_rows=2_048, repeats=4, options=options)


SHAPES = {
    "broad": _BROAD,
    "narrow": Shape(narrow, _NARROW, 100),
    "wide": Shape(wide, _NARROW, 100 + WIDE_BYTES // WIDE_EVERY, batch_rows=8_000),
    "nested": Shape(nested, _NESTED, 360, batch_rows=20_000, runs=12),
    "buckets": Shape(narrow, _NARROW, 100, buckets=64, runs=8),
    "partial": _often(("merge-engine", "partial-update"), ("fields.d.sequence-group", "s")),
    "aggregated": _often(("merge-engine", "aggregation"), ("fields.d.aggregate-function", "sum")),
    "logged": _often(("changelog-producer", "full-compaction")),
    "searched": _often(("changelog-producer", "lookup")),
    "marked": _often(("deletion-vectors.enabled", "true")),
    "first": _often(("merge-engine", "first-row"), ("changelog-producer", "lookup")),
}
OF_ENGINES = tuple(name for name, shape in SHAPES.items() if shape.options)
SIZES = {
    "small": (
        64,
        {"narrow": 1.0, "wide": 1.0, "nested": 0.3, "buckets": 0.3}
        | dict.fromkeys(OF_ENGINES, 1.0),
        12_000,
    ),
    "full": (256, dict.fromkeys(("broad", *OF_ENGINES), 20.0), 100_000),
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


def batches(
    shape: Shape, rows_count: int, start: int = 0, *, keys_count: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows in no order of their keys; after `keys_count` rows the keys come again."""
    size = shape.text_bytes
    letters = np.random.default_rng(1).integers(
        97, 123, (shape.batch_rows + 1) * size + SHIFTS, np.uint8
    )
    for number, at in enumerate(range(start, start + rows_count, shape.batch_rows)):
        count = min(shape.batch_rows, start + rows_count - at)
        keys = np.arange(at, at + count, dtype=np.uint64)
        if keys_count is not None:
            keys %= np.uint64(keys_count)
        keys *= np.uint64(ODD)
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
        options={"write-only": "true", **buckets, **(dict(shape.options) if keyed else {})},
    )


def write(catalog: tidelake.Catalog, name: str, shape: Shape, rows_count: int, commits: int) -> int:
    """Write all rows in so many commits; gives their number."""
    table = create(catalog, name, shape, keyed=name != "append")
    append(table, shape, rows_count, commits, keys_count=rows_count // shape.repeats)
    files = catalog.table(f"db.{name}$files").to_arrow()
    return sum(files["record_count"].to_pylist())


def append(
    table: tidelake.Table,
    shape: Shape,
    rows_count: int,
    commits: int,
    *,
    keys_count: int,
    first: int = 0,
) -> None:
    """Write rows to a table in so many commits, from the first key on."""
    for start, stop in itertools.pairwise(
        [first + rows_count * part // commits for part in range(commits + 1)]
    ):
        rows = batches(shape, stop - start, start, keys_count=keys_count)
        table.write(pa.RecordBatchReader.from_batches(shape.schema, rows))


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


def change(catalog: tidelake.Catalog, shape: Shape, rows_count: int) -> int:
    """Give half of the keys another row and compact: fully, or by lookups in what is there.

    Where the oldest row stays half of these keys are new ones.
    """
    table = catalog.table("db.runs")
    keys_count = rows_count // shape.repeats
    half = keys_count // 2
    new_count = half // 2 if shape.keeps_first else 0
    first = keys_count + new_count - half if shape.keeps_first else 0
    append(table, shape, half, shape.runs, keys_count=keys_count + new_count, first=first)
    last = {file["file_path"] for file in files_of(catalog) if file["level"]}
    table.compact(full=shape.producer == "full-compaction")
    snapshot = catalog.table("db.runs$snapshots").to_arrow().to_pylist()[-1]
    wanted = 0 if shape.producer is None else new_count or 2 * half
    told = snapshot["changelog_record_count"] or 0
    assert told == wanted, f"{told} changes of {keys_count} keys"
    is_kept = last <= {file["file_path"] for file in files_of(catalog)}
    assert is_kept == shape.looks_up, "old rows were not looked up but merged"
    if shape.marks:
        marked_count = sum(file["record_count"] for file in files_of(catalog)) - table.count()
        assert marked_count == half, f"{marked_count} old rows are marked"
    return table.count() - new_count


def delete(catalog: tidelake.Catalog, shape: Shape, rows_count: int) -> int:
    """Delete a quarter of the keys, which a condition finds, and compact by lookups."""
    table = catalog.table("db.runs")
    keys = np.arange(rows_count // shape.repeats, dtype=np.uint64) * np.uint64(ODD)
    gone_count = int((keys * 1.0 < QUARTER).sum())
    table.delete(f"d < {QUARTER:.0f}")
    table.compact(full=False)
    assert table.count() == len(keys) - gone_count, "other rows were deleted"
    return table.count() + gone_count


def files_of(catalog: tidelake.Catalog) -> list[dict[str, Any]]:
    """The live files of the table of runs."""
    return catalog.table("db.runs$files").to_arrow().to_pylist()


def plan(catalog: tidelake.Catalog) -> int:
    """Plan it twice."""
    table = catalog.table("db.t")
    return [table.plan().files_read for _ in range(2)][-1]


WORKS = (
    "write append",
    "write primary key",
    "write runs",
    "merge read",
    "compact",
    "change",
    "delete",
    "plan",
)
MERGES = ("merge read", "compact", "change", "delete")
"""What finds each key once."""


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
        "change": lambda: change(catalog, shape, rows_count),
        "delete": lambda: delete(catalog, shape, rows_count),
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
    shape = replace(SHAPES[arguments.shape[0]], runs=arguments.runs)
    memory, plant, resident = arguments.memory * MIB, arguments.plant, arguments.resident
    with tempfile.TemporaryDirectory() as other:
        warm(other, shape, memory)
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins here
    base = status("VmRSS" if resident else "VmSize")
    planted = plant > 1 and arguments.only[0] in LIMIT_PLANTED
    catalog = tidelake.open(arguments.place, memory=memory if planted else memory * plant)
    if not resident:
        limit = base + held_at_most(memory // plant if planted else memory)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for name in arguments.only:
        before = time.process_time()
        found = work_of(name, catalog, shape, arguments.rows)()
        peak = status("VmHWM" if resident else "VmPeak") - base
        took = {"found": found, "base": base, "peak": peak}
        took |= {"resident": status("VmHWM"), "cpu_s": time.process_time() - before}
        print(json.dumps(took), flush=True)


def held_at_most(memory: int) -> int:
    """What the engine may hold of the memory; the rest is for what the allocator keeps."""
    return memory * 3 // 4


@dataclass(frozen=True)
class Input:
    """What the pieces of work of one shape are done with; the memory is in MiB."""

    place: str
    shape: str
    memory: int
    rows_count: int
    runs: int
    resident: bool

    @property
    def arguments(self) -> list[str]:
        """The same for a process."""
        given = {"place": self.place, "shape": self.shape, "memory": self.memory}
        given |= {"rows": self.rows_count, "runs": self.runs}
        parts = [part for name, value in given.items() for part in (f"--{name}", str(value))]
        return [*parts, "--resident"] if self.resident else parts


def measure(works: Sequence[str], given: Input, *, plant: int = 1) -> bool:
    """Run pieces of work in a fresh process, say what they took; whether they stayed inside."""
    shape, rows_count = given.shape, given.rows_count
    limit = given.memory if given.resident else held_at_most(given.memory)
    command = [sys.executable, __file__, *given.arguments, "--plant", str(plant)]
    command += [part for name in works for part in ("--only", name)]
    environment = os.environ | ({} if given.resident else ENVIRONMENT)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    fits = True
    for name, line in zip(works, done.stdout.splitlines(), strict=False):
        took = json.loads(line)
        # reading and compacting count the rows; what was written twice would be merged away
        wanted = rows_count // SHAPES[shape].repeats if name in MERGES else rows_count
        if name != "plan" and took["found"] != wanted:
            sys.exit(f"{shape}, {name}: {took['found']} rows instead of {wanted}")
        print(
            f"{shape}, {name}: {took['peak'] / MIB:.0f} of {limit} MiB beside the"
            f" {took['base'] / MIB:.0f} MiB of the interpreter (resident at most"
            f" {took['resident'] / MIB:.0f} MiB); {took['found']:,} rows or files,"
            f" {took['cpu_s']:.1f} CPU seconds",
            flush=True,
        )
        fits &= took["peak"] <= limit * MIB
    if done.returncode == 0:
        return fits
    failed = works[len(done.stdout.splitlines())]
    last = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
    print(f"{shape}, {failed}: does not fit {limit} MiB: {last[:200]}", flush=True)
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
    parser.add_argument("--runs", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--resident", action="store_true", help="what allocators as they are take")
    arguments = parser.parse_args()
    if arguments.resident and arguments.plant > 1:
        parser.error("--plant needs the limit that --resident leaves out")
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
    if shape.repeats > 1:
        rows_count -= rows_count % (2 * shape.repeats * shape.runs)  # no run has a key twice
    doable = (*shape.works, "plan") if name in PLANNED else shape.works
    works = [w for w in arguments.only or doable if w in doable]
    place = tempfile.mkdtemp(prefix="tidelake-memory-")
    given = Input(place, name, memory, rows_count, shape.runs, arguments.resident)
    try:
        if "plan" in works:
            many_files.make(Path(place), files_count)
        if plant > 1:
            measure(["write runs"], given)
            found_out = [
                not measure([work], given, plant=plant)
                for work in works
                # commits too small to need it; the writer is the same. Nor can what comes after a
                # compaction that failed be done where reads see what is compacted
                if work == "compact"
                or not (work == "write runs" or shape.marks or shape.keeps_first)
            ]
            return all(found_out)
        # at the small size in one process: its start costs more than the work; but what one piece
        # of work leaves resident would be counted for the next
        together = arguments.size == "small" and not arguments.resident
        groups = [works] if together else [[work] for work in works]
        kept = [measure(group, given) for group in groups]
        return all(kept)
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
