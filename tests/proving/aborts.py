"""A process is interrupted at random moments while its threads work; nothing half-done stays."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

import tidelake
from proving.fsck import check_table
from tidelake.errors import ConflictError
from tidelake.table.handle.handle import TableHandle

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
ROWS = 1_500
SPANS = 1.5
"""An interrupt comes within so many times what the last operation took that was not interrupted:
before the commit mostly, and sometimes too late."""
SECONDS_MIN, SECONDS_MAX = 1e-4, 2.0


@contextmanager
def _commits_noted() -> Iterator[list[TableHandle]]:
    """Notes whether a commit began: from then on what an interrupt leaves may be visible."""
    noted: list[TableHandle] = []
    committer = TableHandle.committer

    def told(handle: TableHandle) -> object:
        noted.append(handle)
        return committer(handle)

    TableHandle.committer = told
    try:
        yield noted
    finally:
        TableHandle.committer = committer


def _files(table: tidelake.Table) -> set[str]:
    home = Path(table.paths.location)
    return {str(p) for p in home.rglob("*") if p.is_file() and "bucket-" in str(p)}


def _operation(
    rng: random.Random, table: tidelake.Table, number: int
) -> tuple[str, Callable[[], object]]:
    rows = pa.table({"k": range(ROWS), "v": [str(number)] * ROWS}, schema=SCHEMA)
    chance = rng.random()
    if chance < 0.5:
        return "write", lambda: table.write(rows)
    if chance < 0.65:
        return "compact", lambda: table.compact(full=True)
    if chance < 0.8:
        return "update", lambda: table.update({"v": f"u{number}"}, "k >= 0")
    return "overwrite", lambda: table.write(rows, mode="overwrite")


def _interrupted(work: Callable[[], object], after_s: float) -> bool:
    """Whether work was interrupted; any other error is raised."""
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, after_s)
            work()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        return True
    except ConflictError:
        pass  # nothing to compact any more
    return False


def aborts(directory: Path, *, count: int, seed: int) -> dict:
    """Interrupt `count` operations; the figures, or AssertionError where a promise broke."""
    assert threading.current_thread() is threading.main_thread(), "interrupts come to it"
    rng = random.Random(seed)
    catalog = tidelake.open(str(directory / "warehouse"))
    tables = [
        catalog.create_table(
            f"db.{name}",
            SCHEMA,
            primary_keys=keys,
            options={"bucket": "4", "bucket-key": "k", **options},
        )
        for name, keys, options in (
            ("keyed", ["k"], {}),
            ("lookup", ["k"], {"changelog-producer": "lookup"}),
            ("marked", ["k"], {"deletion-vectors.enabled": "true"}),
            ("rows", [], {}),
        )
    ]
    for table in tables:
        table.write(pa.table({"k": range(ROWS), "v": ["0"] * ROWS}, schema=SCHEMA))
    spans: dict[tuple[str, str], float] = {}
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    interrupted = published = 0
    try:
        with _commits_noted() as noted:
            for number in range(count):
                table = rng.choice(tables)
                files = _files(table)
                kind, work = _operation(rng, table, number)
                noted.clear()
                began = time.perf_counter()
                place = table.identifier, kind
                known = spans.get(place, SECONDS_MAX)
                after_s = max(SECONDS_MIN, SPANS * known * rng.random() ** 1.5)
                if not _interrupted(work, after_s):
                    took = time.perf_counter() - began
                    # an operation with nothing to do takes no time and says nothing of the next
                    spans[place] = max(took, 0.8 * spans.get(place, 0.0))
                    continue
                interrupted += 1
                published += bool(noted)
                left = _files(table) - files
                assert noted or not left, f"interrupt {number} left {sorted(left)[:4]}"
                assert table.count() % ROWS == 0, f"half a commit is seen after {number}"
    finally:
        signal.signal(signal.SIGALRM, before)
    files_count = sum(
        check_table(t.fileio, t.paths.location, newest_only=count > 100) for t in tables
    )
    return {
        "operations": count,
        "interrupted": interrupted,
        "of_them_while_published": published,
        "files": files_count,
        "left_behind": 0,
    }
