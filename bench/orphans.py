"""The search for orphan files in a table of many files: its CPU beside that of the listing alone.

The files are real and empty, on the local disk; their entries are metadata alone. One in a hundred
is an orphan. The store's own time is that of ``os.scandir`` with a ``stat`` of each file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import many_files
from kernel import Line, scratch
from measure import in_turn

import tidelake
from tidelake.metadata.manifest.snapshot_entries import live_entries
from tidelake.metadata.snapshot_files import data_files

FILES = {"small": 2_000, "full": 100_000}
ROUNDS = {"small": 1, "full": 5}
BUCKETS = 64
ORPHANS_EVERY = 100
OLD_S = 5 * 86_400


def lines(size: str) -> Iterator[Line]:
    """The line of this question."""
    with scratch() as place:
        count = FILES[size]
        orphans = _made(place, count)

        def search() -> None:
            """A new catalog knows no manifest yet."""
            table = tidelake.open(str(place)).table("db.t")
            found = table.maintenance.remove_orphan_files(dry_run=True)
            assert found.quarantined_count == orphans

        def listing() -> None:
            assert _scanned(str(place / "db.db" / "t")) >= count + orphans

        taken = in_turn({"search": search, "listing": listing}, rounds=ROUNDS[size])
        ours = sorted(one.cpu for one in taken["search"])[ROUNDS[size] // 2]
        bare = sorted(one.cpu for one in taken["listing"])[ROUNDS[size] // 2]
        yield Line(
            "W6",
            f"search for orphans among {count:,} files",
            "the bare listing",
            None,
            "<= 2 s of CPU besides the listing",
            note=f"{ours - bare:.2f} s ({ours:.2f} s, of which the listing has {bare:.2f} s)",
        )


def _made(place: Path, count: int) -> int:
    """Make the table and its files; how many of them are orphans."""
    handle = many_files.make(place, count, buckets=BUCKETS).handle
    snapshot = handle.snapshots.latest()
    assert snapshot is not None
    live = live_entries(handle.fileio, handle.paths, snapshot, handle.manifests)
    made, old = 0, time.time() - OLD_S
    for number, path in enumerate(data_files(handle, live)):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _put(path, old)
        if number % ORPHANS_EVERY == 0:
            _put(path.replace("data-", "data-orphan-"), old)
            made += 1
    return made


def _put(path: str, modified_s: float) -> None:
    Path(path).touch()
    os.utime(path, (modified_s, modified_s))


def _scanned(place: str) -> int:
    """List every file below a directory with its size and time, and do nothing else."""
    count, waiting = 0, [place]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    waiting.append(entry.path)
                else:
                    entry.stat()
                    count += 1
    return count
