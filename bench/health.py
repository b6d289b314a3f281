"""What a doctor takes of a table of many files, and what a diff reads of two close snapshots.

The doctor's table has one file in ten on level 0, and so findings. The files of the diff are real:
99 of 100 are shared, and the new one has keys of all of their ranges.
"""

from __future__ import annotations

from collections.abc import Iterator

import many_files
import numpy as np
import pyarrow as pa
from indexes import CountingFileIO
from kernel import Line, scratch
from measure import in_turn

import tidelake

FILES = {"small": 2_000, "full": 100_000}
ROUNDS = {"small": 1, "full": 5}
ROWS = {"small": 200, "full": 20_000}
"""Of a file of the diff."""
SHARED = 99
BUCKETS = {"small": 16, "full": 64}


def lines(size: str) -> Iterator[Line]:
    """The lines of these questions."""
    yield _doctor(size)
    yield from _diffs(size)


def _doctor(size: str) -> Line:
    with scratch() as place:
        count = FILES[size]
        made = many_files.make(place, count * 9 // 10, buckets=BUCKETS[size])
        many_files.commit(made, range(count * 9 // 10, count), buckets=BUCKETS[size], level=0)

        def doctor() -> None:
            """A new catalog knows no manifest yet."""
            found = tidelake.open(str(place)).table("db.t").doctor()
            assert found.of("too_many_runs") is not None
            assert found.figures["files_count"] == count

        taken = in_turn({"doctor": doctor}, rounds=ROUNDS[size])
        median = sorted(one.cpu for one in taken["doctor"])[ROUNDS[size] // 2]
        wall = sorted(one.wall for one in taken["doctor"])[ROUNDS[size] // 2]
        note = f"{wall:.2f} s, {median:.2f} s of CPU"
        return Line("W6", f"doctor of {count:,} files", "", None, "<= 2 s", note=note)


def _diffs(size: str) -> Iterator[Line]:
    rows = ROWS[size]
    for what, keys in (
        ("keys of one file", range(5 * rows, 5 * rows + rows, 7)),
        ("ten keys from all over", range(3, SHARED * rows, SHARED * rows // 10 + 1)),
    ):
        with scratch() as place:
            counter = CountingFileIO()
            catalog = tidelake.open(str(place / "warehouse"), fileio=counter)
            table = catalog.create_table(
                "db.t", COLUMNS, primary_keys=["k"], options={"bucket": "1", "write-only": "true"}
            )
            for number in range(SHARED):
                table.write(_rows(range(number * rows, (number + 1) * rows)))
            table.write(_rows(keys))
            newest = table.latest_snapshot_id
            total = sum(table.system_table("files").to_arrow()["file_size_in_bytes"].to_pylist())
            counter.bytes_read = 0
            assert table.diff(newest - 1).counts().changed == len(keys)
            share = counter.bytes_read / total
        said = f"diff of snapshots that share 99 of 100 files: {what}"
        note = f"{share:.1%} of {total / 1e6:.0f} MB"
        if size == "full" and what in TARGETS:
            assert share <= SHARE_MAX, f"{said}: {note}"
        yield Line("W6", said, "all bytes of a snapshot", None, TARGETS.get(what, ""), note=note)


SHARE_MAX = 0.02
TARGETS = {"keys of one file": "<= 2 %"}
COLUMNS = pa.schema({"k": pa.int64(), "v": pa.string(), "n": pa.float64()})


def _rows(keys: range) -> pa.Table:
    draw = np.random.default_rng(len(keys) + keys[0])
    numbers = np.asarray(keys)
    texts = [f"{v:032x}" for v in draw.integers(0, 1 << 62, len(keys)).tolist()]
    return pa.table({"k": numbers, "v": texts, "n": draw.random(len(keys))}, schema=COLUMNS)
