"""W6: planning and committing where there are many files or many commits.

Every line checks its answer before it is timed. Run by
`python bench/run.py planning [--size full]`.
"""

from __future__ import annotations

import io
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import fastavro
import many_files
import pyarrow as pa
from kernel import Line, scratch
from measure import Ratio, paired

import tidelake

ROUNDS = 5
TARGET_FILES = 20_000


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    files: tuple[int, ...]
    commits: int
    window: int
    rounds: int


SIZES = {
    "small": Size((300,), 12, 3, 1),
    "full": Size((1_000, 20_000, 100_000), 500, 50, ROUNDS),
}


def cpu_ms(work: Callable[[], object], rounds: int) -> float:
    """Median CPU of some calls."""
    found = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return 1_000 * statistics.median(found)


def plan_lines(count: int, rounds: int) -> Iterator[Line]:
    """Plans of a table of many files against fastavro's bare decode of its manifests."""
    with scratch() as place:
        table = many_files.make(place, count, buckets=1)
        manifests = [
            path.read_bytes()
            for path in (Path(table.paths.location) / "manifest").iterdir()
            if path.name.startswith("manifest-") and "list" not in path.name
        ]

        def bare() -> int:
            return sum(len(list(fastavro.reader(io.BytesIO(data)))) for data in manifests)

        def first() -> None:
            """A new catalog knows no manifest yet."""
            assert tidelake.open(str(place)).table("db.t").plan().files_read == count

        assert bare() == count
        one_key = f"k = {many_files.ROWS * (count // 2) + 7}"
        point = table.plan(where=one_key)
        assert (point.files_read, len(point.pruned_files)) == (1, count - 1)
        assert table.plan(where="i > 5000").files_read == 0
        against = "fastavro's bare decode of the manifests"
        ratio = paired(first, bare, rounds=rounds)
        yield Line("W6", f"first plan of {count:,} files", against, ratio, "<= 1.5")
        for what, target, work in [
            ("second plan of", "<= 30 ms" if count == TARGET_FILES else "", table.plan),
            ("plan, one key wanted, of", "", lambda: table.plan(where=one_key)),
            ("plan, no value matches, of", "", lambda: table.plan(where="i > 5000")),
            ("explain, one key wanted, of", "", lambda: str(table.explain(where=one_key))),
        ]:
            note = f"{cpu_ms(work, rounds):.0f} ms CPU"
            yield Line("W6", f"{what} {count:,} files", "", None, target, note=note)


def commit_lines(size: Size) -> Iterator[Line]:
    """One-row commits, the last against the fifth and its neighbours, each round a new table."""
    rounds = [_commits(size) for _ in range(size.rounds)]
    ratios = sorted(cpu for cpu, _ in rounds)
    wall = statistics.median(wall for _, wall in rounds)
    yield Line(
        "W6",
        f"one-row commits {size.commits - size.window + 1} to {size.commits}",
        f"commits 5 to {4 + size.window}",
        Ratio(statistics.median(ratios), ratios[0], ratios[-1], wall, 0, 0),
        "<= 1.3",
    )


def _commits(size: Size) -> tuple[float, float]:
    """CPU and wall time of the last commits to a new table, as ratios to the first."""
    with scratch() as place:
        schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
        catalog = tidelake.open(str(place))
        table = catalog.create_table("db.c", schema, primary_keys=["k"], options={"bucket": "1"})
        took: list[tuple[float, float]] = []
        for number in range(size.commits):
            began_cpu, began = time.process_time(), time.perf_counter()
            table.write([{"k": number % 50, "v": number}])
            took.append((time.process_time() - began_cpu, time.perf_counter() - began))
        rows = {row["k"]: row["v"] for row in table.to_arrow().to_pylist()}
        assert rows == {n % 50: n for n in range(size.commits)}
        # every fifth commit or so compacts: windows of whole rounds are compared
        early = took[5 - 1 :][: size.window]
        late = took[-size.window :]
        cpu = statistics.mean(c for c, _ in late) / statistics.mean(c for c, _ in early)
        return cpu, statistics.mean(w for _, w in late) / statistics.mean(w for _, w in early)


def large_commit_lines(size: Size) -> Iterator[Line]:
    """A commit of one file into a table of many against one of few."""
    few, many = size.files[0], size.files[-1]
    if few == many:
        return
    with scratch() as place:
        tables = {n: many_files.make(place / str(n), n) for n in (few, many)}
        numbers = iter(range(10_000_000, 11_000_000))

        def commit(count: int) -> None:
            number = next(numbers)
            many_files.commit(tables[count], range(number, number + 1))

        ratio = paired(lambda: commit(many), lambda: commit(few), rounds=4 * size.rounds)
        what = f"commit of one file into {many:,}"
        yield Line("W6", what, f"the same into {few:,}", ratio, "<= 1.3")


def lines(size_name: str) -> Iterator[Line]:
    """All lines of this file."""
    size = SIZES[size_name]
    for count in size.files:
        yield from plan_lines(count, size.rounds)
    yield from commit_lines(size)
    yield from large_commit_lines(size)
