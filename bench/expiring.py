"""The expiry of many snapshots that each removed files: its CPU beside that of the deletes alone.

Each commit overwrites all partitions of an append table, so each snapshot that expires takes the
files of the one before with it. The deletes alone are ``os.unlink`` of as many files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from kernel import Line, scratch
from measure import in_turn

import tidelake

SNAPSHOTS = {"small": 20, "full": 1_000}
ROUNDS = {"small": 1, "full": 3}
PARTITIONS = 20


def lines(size: str) -> Iterator[Line]:
    """The line of this question."""
    count = SNAPSHOTS[size]
    with scratch() as place:
        _make(place / "made", count)
        copies = [place / f"turn-{turn}" for turn in range(2 * (ROUNDS[size] + 1) + 1)]
        for where in copies:
            shutil.copytree(place / "made", where, copy_function=os.link)
        before = _files(copies[0])
        _expire(copies[0], count)
        removed = sorted(before - _files(copies[0]))
        turns = iter(copies[1:])

        def expire() -> None:
            _expire(next(turns), count)

        def unlink() -> None:
            where = next(turns)
            for name in removed:
                os.unlink(where / name)

        taken = in_turn({"expire": expire, "unlink": unlink}, rounds=ROUNDS[size])
        ours = sorted(one.cpu for one in taken["expire"])[ROUNDS[size] // 2]
        bare = sorted(one.cpu for one in taken["unlink"])[ROUNDS[size] // 2]
        yield Line(
            "W6",
            f"expiry of {count:,} snapshots that removed {len(removed):,} files",
            "the bare deletes",
            None,
            "<= 1 s of CPU besides the deletes",
            note=f"{ours - bare:.2f} s ({ours:.2f} s, of which the deletes have {bare:.2f} s)",
        )


def _make(place: Path, count: int) -> None:
    columns = pa.schema({"p": pa.int32(), "v": pa.int64()})
    table = tidelake.open(str(place)).create_table(
        "db.t", columns, partition_keys=["p"], options={"write-only": "true"}
    )
    for number in range(count):
        rows = {"p": list(range(PARTITIONS)), "v": [number] * PARTITIONS}
        table.write(pa.table(rows, schema=columns), mode="overwrite")


def _expire(place: Path, count: int) -> None:
    """By a new catalog, which knows no manifest yet."""
    table = tidelake.open(str(place)).table("db.t")
    found = table.maintenance.expire_snapshots(retain_max=1, retain_min=1, max_deletes=count)
    assert len(found.ids) == count - 1


def _files(place: Path) -> set[str]:
    """Names of files below a directory."""
    found = (os.path.join(top, name) for top, _, names in os.walk(place) for name in names)
    return {os.path.relpath(path, place) for path in found}
