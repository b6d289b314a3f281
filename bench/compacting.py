"""Compaction of an append table by a round of the maintenance job, beside bare input and output.

The input is many small files. One reference decodes each with pyarrow and encodes all rows into one
file, with pyarrow's own encodings; the other decodes and encodes as tables do. Each round compacts
a table of its own, whose files are copies: planning, claim and commit count.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import rows
from kernel import Line, scratch
from measure import paired

import tidelake

FILES = {"small": 10, "full": 40}
FILE_ROWS = {"small": 1_000, "full": 50_000}
ROUNDS = {"small": 1, "full": 5}
OPTIONS = {"write-only": "true", "maintenance.tasks": "compaction"}


def lines(size: str) -> Iterator[Line]:
    """The line of this question."""
    with scratch() as place:
        model = place / "model"
        catalog = tidelake.open(str(model))
        count = FILES[size]
        first = rows.with_key(rows.shuffled_keys(FILE_ROWS[size], 1), 2)
        table = catalog.create_table("db.log", first.schema, options=OPTIONS)
        for number in range(count):
            table.write(rows.with_key(rows.shuffled_keys(FILE_ROWS[size], number), number))
        digest = rows.digest(table.to_arrow(), "k")
        files = sorted((model / "db.db" / "log").rglob("data-*.parquet"))
        assert len(files) == count
        numbers = iter(range(1_000))

        copies = iter(range(0))

        def compact() -> None:
            """One round of the job on a copy, which is made before."""
            here = tidelake.open(str(place / f"copy-{next(copies)}"))
            done = here.maintain("db.log", rounds=1)
            assert done.tables[0].tasks[0].figures["files"] == 1

        def plain() -> None:
            """Decode and encode."""
            with pq.ParquetWriter(place / "plain.parquet", first.schema, compression="zstd") as out:
                for file in files:
                    out.write_table(pq.read_table(file).cast(first.schema))

        def own() -> None:
            """Decode and encode as tables do."""
            out = catalog.create_table(f"db.out{next(numbers)}", first.schema, options=OPTIONS)
            out.write(table.to_arrow())

        for reference, words in (
            (own, "read and write of a table"),
            (plain, "decode and encode by pyarrow, zstd"),
        ):
            copies = iter(range(1_000))
            for number in range(ROUNDS[size] + 1):
                shutil.rmtree(place / f"copy-{number}", ignore_errors=True)
                shutil.copytree(place / "model", place / f"copy-{number}")
            ratio = paired(compact, reference, rounds=ROUNDS[size])
            _check(place / "copy-0", digest)
            what = f"append compaction of {count} files of {FILE_ROWS[size]:,} rows, by the job"
            yield Line("W4", what, words, ratio, "<= 1.15")


def _check(place: Path, digest: object) -> None:
    table = tidelake.open(str(place)).table("db.log")
    assert rows.digest(table.to_arrow(), "k") == digest
    assert table.system_table("files").to_arrow().num_rows == 1
