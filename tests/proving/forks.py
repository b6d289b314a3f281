"""A process forks at random moments of its work; its children read, write, compact and fork."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa

import tidelake
from proving.forked import answer_of, answers, fork
from proving.fsck import check_table
from tidelake.errors import ClosedError, ConflictError
from tidelake.table.write.write_session import WriteSession

SCHEMA = pa.schema([("who", pa.string()), ("i", pa.int64()), ("v", pa.string())])
ROWS = 40
WRITES_MAX = 100
"""Times that rows are written; a commit whose attempts all lose their race says so."""
SIDE_BY_SIDE_MAX = 3
PAUSE_S_MAX = 0.02

Commit = tuple[str, int]


def rows_of(who: str, number: int) -> pa.Table:
    """The rows of one commit."""
    rows = [{"who": who, "i": ROWS * number + i, "v": f"{who}-{number}"} for i in range(ROWS)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _write(table: tidelake.Table, who: str, number: int) -> Commit:
    for _ in range(WRITES_MAX):
        try:
            table.write(rows_of(who, number), commit_user=who, commit_identifier=number)
        except ConflictError:
            continue
        return who, number
    raise AssertionError(f"commit {number} of {who} never got through")


def _work(table: tidelake.Table, who: str, seed: int, depth: int) -> list[Commit]:
    """What a child does; the commits that it and its own children were told are done."""
    rng = random.Random(seed)
    done: list[Commit] = []
    for number in range(rng.randint(1, 3)):
        chance = rng.random()
        if chance < 0.3:
            assert table.to_arrow().num_rows % ROWS == 0, "half a commit is seen"
        elif chance < 0.4:
            with contextlib.suppress(ConflictError):  # others compacted all of it
                table.compact(full=True)
        elif chance < 0.55 and depth:
            inner = f"{who}-{number}"
            child = fork(partial(_work, table, inner, seed + 1, depth - 1))
            done += answer_of(child)
        else:
            done.append(_write(table, who, number))
    return done


def _refused(session: WriteSession) -> list[Commit]:
    """A session of the parent's: it is refused in the child, and given up there without harm."""
    try:
        session.write(rows_of("stolen", 0))
    except ClosedError as error:
        kind = error.kind
    else:
        kind = "written"
    assert kind == "forked", f"a child of a session's process: {kind}"
    session.abort()
    return []


def forks(directory: Path, *, count: int, seed: int) -> dict:
    """Fork `count` times; the figures, or AssertionError where a child hangs or a promise broke."""
    rng = random.Random(seed)
    warehouse = str(directory / "warehouse")
    options = {"bucket": "4", "num-sorted-run.compaction-trigger": "4"}
    table = tidelake.open(warehouse).create_table(
        "db.fork", SCHEMA, primary_keys=["who", "i"], options=options
    )
    acknowledged = [_write(table, "parent", 0)]
    stop = threading.Event()
    beside: list[Commit] = []

    def busy() -> None:
        number = 0
        while not stop.is_set():
            table.to_arrow()
            beside.append(_write(table, "thread", number))
            number += 1

    thread = threading.Thread(target=busy)
    thread.start()
    forked = 0
    try:
        while forked < count:
            time.sleep(rng.uniform(0, PAUSE_S_MAX))
            together = min(rng.randint(1, SIDE_BY_SIDE_MAX), count - forked)
            works: list[Callable[[], object]] = [
                partial(_work, table, f"child{n}", rng.randrange(2**32), 2)
                for n in range(forked, forked + together)
            ]
            with table.writer(commit_user=f"session{forked}", commit_identifier=1) as session:
                session.write(rows_of(f"session{forked}", 0))
                if rng.random() < 0.3:
                    works.append(partial(_refused, session))
                for found in answers(works):
                    acknowledged += found
            acknowledged.append((f"session{forked}", 0))
            forked += together
    finally:
        stop.set()
        thread.join()
    acknowledged += beside
    wanted = {(who, ROWS * n + i) for who, n in acknowledged for i in range(ROWS)}
    found = [(r["who"], r["i"]) for r in table.to_arrow(columns=["who", "i"]).to_pylist()]
    assert len(found) == len(set(found)), f"{len(found) - len(set(found))} rows are there twice"
    assert set(found) == wanted, f"{len(wanted - set(found))} lost, {len(set(found) - wanted)} more"
    files = check_table(table.fileio, f"{warehouse}/db.db/fork", newest_only=count > 100)
    return {"forks": forked, "commits": len(acknowledged), "files": files, "lost": 0, "hung": 0}
