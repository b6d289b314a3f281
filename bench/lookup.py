"""Rows by key (W5): gets from lookup files, and what it takes to follow a table.

A table of one bucket: a compacted file and three files of level 0; values of 72 bytes in four
columns. A third of the keys asked for is not there. Every line checks its answers against a batch
read before it is timed. The reference of single gets and batches is a dict of the same rows in
memory, asked key by key: what Python can do at best. Run by
`python bench/run.py lookup [--size full]`.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from engines import started_java
from kernel import Line, scratch
from measure import paired, ratio, timed

import tidelake
from tidelake.table.query import LocalTableQuery

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

from interop.cells import table_cells

WARM_ROUNDS = 4
"""Of Java, in which it compiles."""
SPARSE = 3
"""Keys are multiples of this number."""
LEVEL_0_FILES = 3
BATCH = 1_000
SINGLE_PER_SECOND, BATCHED_PER_SECOND = 150_000, 800_000
REFRESH_MS, REOPEN_S = 100, 2
GROWTH_MAX = 1.3


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    rows: int
    larger_rows: int
    level_0_rows: int
    asked: int
    rounds: int


SIZES = {
    "small": Size(20_000, 60_000, 500, 3_000, 1),
    "full": Size(2_000_000, 10_000_000, 50_000, 100_000, 5),
}
LOAD_ROWS = 1_000_000
MAPPED, MAPPED_AGAIN = "4 gb", "5 gb"
"""Another limit has files of its own, so a second query opens and checks them again."""


def rows_of(numbers: np.ndarray, seed: int) -> pa.Table:
    """Rows of some numbers: a key, and 72 bytes in four columns."""
    draw = np.random.default_rng(seed)
    texts = pa.array(numbers).cast(pa.string())
    return pa.table(
        {
            "id": numbers * SPARSE,
            "n": draw.integers(0, 1 << 40, len(numbers)),
            "d": draw.random(len(numbers)),
            "s40": pc.utf8_lpad(texts, 40, "-"),
            "s16": pc.utf8_lpad(texts, 16, str(seed % 10)),
        }
    )


def make(place: Path, count: int, size: Size) -> tidelake.Table:
    """The table: one compacted file, and three of level 0."""
    catalog = tidelake.open(place / f"warehouse-{count}")
    table = catalog.create_table(
        "db.t",
        rows_of(np.arange(1), 0).schema,
        primary_keys=["id"],
        options={"bucket": "1", "target-file-size": "8 gb", "write-only": "true"},
    )
    for start in range(0, count, LOAD_ROWS):
        table.write(rows_of(np.arange(start, min(count, start + LOAD_ROWS)), start + 1))
    table.with_options({"write-only": "false"}).compact(full=True)
    for number in range(LEVEL_0_FILES):
        write_level_0(table, count, size, number)
    return table


def write_level_0(table: tidelake.Table, count: int, size: Size, seed: int) -> None:
    """One more file of level 0 over keys that are there."""
    draw = np.random.default_rng(seed)
    numbers = np.sort(draw.choice(count, size.level_0_rows, replace=False))
    table.write(rows_of(numbers, 101 + seed))


def keys_of(count: int, size: Size) -> list[int]:
    """Keys, a third of them not there."""
    draw = random.Random(1)
    return [SPARSE * draw.randrange(count) + (draw.random() < 1 / 3) for _ in range(size.asked)]


def opened(table: tidelake.Table, place: Path, mapped: str = MAPPED) -> LocalTableQuery:
    """A query over the files of a directory."""
    asked = table.with_options({"lookup.cache-max-memory-size": mapped})
    query = asked.local_query(directory=place / "lookup")
    query.refresh()
    return query


def per_second(count: int, seconds: float) -> str:
    """A rate for people."""
    return f"{count / seconds / 1000:,.0f} k/s"


def get_lines(
    table: tidelake.Table, query: LocalTableQuery, keys: list[int], size: Size
) -> Iterator[Line]:
    """Single gets and batches, beside a dict."""
    held = read_rows(table, set(keys))
    wanted = [held.get(key) for key in keys]
    batches = [
        pa.record_batch({"id": pa.array(keys[at : at + BATCH])})
        for at in range(0, len(keys), BATCH)
    ]
    assert [query.get(key) for key in keys] == wanted, "a get differs from a read"
    found = [row for batch in batches for row in query.lookup(batch).table().to_pylist()]
    none = dict.fromkeys(query.schema.names)
    assert found == [row or none for row in wanted], "a batch differs from a read"

    def singly() -> None:
        ask_all(query, keys)

    def together() -> None:
        for batch in batches:
            query.lookup(batch)

    def from_dict() -> None:
        for key in keys:
            row = held.get(key)
            if row is not None:
                dict(row)

    against = "a dict of the rows found, copied"
    for what, work, goal in (
        ("single gets", singly, SINGLE_PER_SECOND),
        (f"batches of {BATCH:,} keys", together, BATCHED_PER_SECOND),
    ):
        ratio = paired(work, from_dict, rounds=size.rounds)
        rate = per_second(len(keys), ratio.a_cpu_seconds)
        told = f"{what}, {size.rows:,} rows: {rate} of CPU, goal {goal // 1000:,} k/s"
        yield Line("W5", told, against, ratio, "")


def java_lines(
    table: tidelake.Table, query: LocalTableQuery, keys: list[int], size: Size
) -> Iterator[Line]:
    """Single gets beside Java Paimon's `LocalTableQuery`, one thread each; rounds not in turn."""
    peer = started_java()
    if peer is None:
        return
    with peer:
        found, figures = peer.lookup(
            Path(table.paths.location),
            [(str(key),) for key in keys],
            snapshot=query.snapshot_id,
            times=WARM_ROUNDS + size.rounds,
        )
    ours = table_cells(query.get_many(pa.table({"id": keys})))
    assert [row if any(row) else None for row in ours] == found, "Java finds other rows"
    ask_all(query, keys)
    taken = [timed(lambda: ask_all(query, keys), time.process_time) for _ in range(size.rounds)]
    cpu, wall = figures["cpu"][WARM_ROUNDS:], figures["wall"][WARM_ROUNDS:]
    walls = [one[1] / other for one, other in zip(taken, wall, strict=True)]
    found_ratio = ratio([one[0] for one in taken], cpu, walls)
    own = per_second(len(keys), found_ratio.a_cpu_seconds)
    theirs = per_second(len(keys), found_ratio.b_cpu_seconds)
    what = f"single gets, {size.rows:,} rows: {own} of CPU"
    yield Line("W5", what, f"Java Paimon's LocalTableQuery: {theirs} of CPU", found_ratio, "<= 1.0")


def read_rows(table: tidelake.Table, keys: set[int]) -> dict[int, dict[str, object]]:
    """The rows of some keys out of a whole read."""
    held = {}
    for batch in table.scan().batches():
        mask = pc.is_in(batch.column("id"), pa.array(sorted(keys)))
        held.update({row["id"]: row for row in batch.filter(mask).to_pylist()})
    return held


def ask_all(query: LocalTableQuery, keys: list[int]) -> None:
    """Single gets of keys."""
    for key in keys:
        query.get(key)


def follow_lines(
    table: tidelake.Table, query: LocalTableQuery, place: Path, count: int, size: Size
) -> Iterator[Line]:
    """A new file of level 0, and a query that is opened again."""
    taken = []
    for number in range(size.rounds):
        write_level_0(table, count, size, 10 + number)
        began = time.process_time()
        query.refresh()
        taken.append(1000 * (time.process_time() - began))
    what = f"refresh by a level-0 file of {size.level_0_rows:,} rows, {count:,} rows"
    note = f"{sorted(taken)[len(taken) // 2]:.0f} ms of CPU, goal {REFRESH_MS} ms"
    yield Line("W5", what, "", None, "", note)
    began = time.process_time()
    again = opened(table, place, MAPPED_AGAIN)
    seconds = time.process_time() - began
    assert again.snapshot_id == query.snapshot_id
    assert again.get(0) == query.get(0)
    note = f"{seconds:.2f} s of CPU for {again.stats.disk_bytes / 1e6:,.0f} MB, goal {REOPEN_S} s"
    yield Line("W5", f"a query opened again, {count:,} rows", "", None, "", note)


def lines(size_name: str) -> Iterator[Line]:
    """All lines of this file."""
    size = SIZES[size_name]
    with scratch() as place:
        table = make(place, size.rows, size)
        began = time.process_time()
        query = opened(table, place)
        built = time.process_time() - began
        keys = keys_of(size.rows, size)
        yield from get_lines(table, query, keys, size)
        if size_name == "full":
            yield from java_lines(table, query, keys, size)
        note = f"{1e6 * built / size.rows:.2f} s of CPU a million rows, "
        note += f"{query.stats.disk_bytes / size.rows:.0f} bytes a row"
        yield Line("W5", f"lookup files built, {size.rows:,} rows", "", None, "", note)
        larger = make(place, size.larger_rows, size)
        big = opened(larger, place)
        more = keys_of(size.larger_rows, size)
        ratio = paired(
            lambda b=big, m=more: ask_all(b, m), lambda: ask_all(query, keys), rounds=size.rounds
        )
        bytes_growth = (big.stats.disk_bytes / size.larger_rows) / (
            query.stats.disk_bytes / size.rows
        )
        assert bytes_growth <= GROWTH_MAX, f"{bytes_growth:.2f} times the bytes a row"
        what = f"single gets, {size.larger_rows:,} rows"
        note = f"bytes a row x {bytes_growth:.2f}"
        yield Line("W5", what, f"{size.rows:,} rows", ratio, f"<= {GROWTH_MAX}", note)
        yield from follow_lines(table, query, place, size.rows, size)
        yield from follow_lines(larger, big, place, size.larger_rows, size)
