"""Load (W1), merge on read (W3) and compaction (W4) without Spark, beside pyarrow.

Every line checks its answer before it is timed. Run by `python bench/run.py kernel [--size full]`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import rows
from measure import Ratio, paired
from pyarrow import orc

import tidelake


@dataclass(frozen=True)
class Line:
    """One line of the table of results."""

    workload: str
    what: str
    against: str
    ratio: Ratio | None
    target: str
    note: str = ""


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    load_rows: int
    upsert_rows: int
    merge_rows: int
    rounds: int


SIZES = {"small": Size(20_000, 400, 20_000, 1), "full": Size(2_000_000, 40_000, 2_000_000, 5)}
KEYS = {"int64 key": ["k"], "(string, int) key": ["k1", "k2"]}


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory that is gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix="tidelake-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def make(key_name: str, keys: np.ndarray, seed: int) -> pa.Table:
    """Rows for the int or the composite key."""
    return (
        rows.with_key(keys, seed)
        if key_name == "int64 key"
        else rows.with_composite_key(keys, seed)
    )


def load_lines(size: Size) -> Iterator[Line]:
    """Load of a new table against pyarrow's Parquet write of the same rows."""
    for key_name, key in KEYS.items():
        data = make(key_name, rows.shuffled_keys(size.load_rows, 1), 2)
        for buckets in (1, 8):
            with scratch() as place:
                catalog = tidelake.open(str(place / "warehouse"))
                numbers = iter(range(1_000_000))

                def load(buckets=buckets, catalog=catalog, numbers=numbers, data=data, key=key):
                    name = f"db.t{next(numbers)}"
                    options = {"bucket": str(buckets)}
                    table = catalog.create_table(
                        name, data.schema, primary_keys=key, options=options
                    )
                    table.write(data)
                    return table

                def plain(place=place, data=data) -> None:
                    pq.write_table(data, place / "plain.parquet", compression="zstd")

                answer = rows.digest(load().to_arrow(), key[0])
                assert answer == rows.digest(data, key[0]), "a loaded table reads differently"
                ratio = paired(load, plain, rounds=size.rounds)
                what = f"load {size.load_rows:,} rows, {key_name}, {buckets} bucket(s)"
                yield Line("W1", what, "pyarrow write_table, zstd", ratio, "<= 1.3")


def merge_table(
    place: Path, key_name: str, size: Size, *, runs: int = 4, file_format: str = "parquet"
) -> tidelake.Table:
    """One big run and `runs` overlapping ones of 10 %."""
    catalog = tidelake.open(str(place / "warehouse"))
    base = make(key_name, rows.shuffled_keys(size.merge_rows, 1), 2)
    options = {"bucket": "1", "write-only": "true", "target-file-size": "1 gb"}
    options["file.format"] = file_format
    table = catalog.create_table("db.m", base.schema, primary_keys=KEYS[key_name], options=options)
    table.write(base)
    for run in range(runs):
        keys = rows.upsert_keys(size.merge_rows, size.merge_rows // 10, 10 + run, inserts=0.04)
        table.write(make(key_name, keys, 20 + run))
    return table


def expected_digest(key_name: str, size: Size, *, runs: int = 4) -> tuple[int, int, int]:
    """The answer, computed from the generated rows with a dict's rule: the last write wins."""
    keys = [rows.shuffled_keys(size.merge_rows, 1)]
    keys += [
        rows.upsert_keys(size.merge_rows, size.merge_rows // 10, 10 + run, inserts=0.04)
        for run in range(runs)
    ]
    seeds = [2, *(20 + run for run in range(runs))]
    all_keys = np.concatenate(keys)
    numbers = np.concatenate(
        [rows.values(len(k), s)[3].to_numpy() for k, s in zip(keys, seeds, strict=True)]
    )
    # the last position of every key
    unique, last = np.unique(all_keys[::-1], return_index=True)
    chosen = numbers[::-1][last].astype(np.int64)
    key_sum = int(unique.sum()) if key_name == "int64 key" else 12 * len(unique)
    return len(unique), key_sum, int(chosen.sum())


def merge_lines(size: Size) -> Iterator[Line]:
    """Scans with merge against reading the same files without one."""
    for key_name, key in KEYS.items():
        with scratch() as place:
            table = merge_table(place, key_name, size)
            files = sorted((place / "warehouse").rglob("data-*.parquet"))
            columns = table.schema.names
            wanted = [c for c in columns if c not in key] + [f"_KEY_{k}" for k in key]
            wanted += ["_SEQUENCE_NUMBER", "_VALUE_KIND"]

            def merged(table=table) -> pa.Table:
                return table.to_arrow()

            def streamed(table=table) -> int:
                return sum(batch.num_rows for batch in table.to_batches())

            def decode(files=files, wanted=wanted) -> list[pa.Table]:
                return [pq.read_table(f, columns=wanted) for f in files]

            assert rows.digest(merged(), key[0]) == expected_digest(key_name, size)
            target = "<= 1.3" if key_name == "int64 key" else "<= 1.5"
            against = "read_table of the same files"
            what = f"scan with merge, {key_name}, 1 + {len(files) - 1} runs"
            yield Line(
                "W3",
                f"{what}, streamed",
                against,
                paired(streamed, decode, rounds=size.rounds),
                target,
            )
            yield Line(
                "W3",
                f"{what}, to_arrow",
                against,
                paired(merged, decode, rounds=size.rounds),
                target,
            )
            yield Line(
                "control",
                f"the reference itself, {key_name}",
                against,
                paired(decode, decode, rounds=size.rounds),
                "1.00",
            )
            two = ["i", "d"]
            narrow = [f"_KEY_{k}" for k in key] + ["_SEQUENCE_NUMBER", "_VALUE_KIND", *two]

            def two_columns(table=table, two=two) -> int:
                return sum(b.num_rows for b in table.to_batches(columns=two))

            def decode_two(files=files, narrow=narrow) -> list[pa.Table]:
                return [pq.read_table(f, columns=narrow) for f in files]

            yield Line(
                "W3",
                f"two columns, {key_name}",
                against,
                paired(two_columns, decode_two, rounds=size.rounds),
                target,
            )
            table.compact(full=True)
            live = table.system_table("files").to_arrow()["file_path"].to_pylist()

            def decode_compacted(live=live, columns=columns) -> list[pa.Table]:
                return [pq.read_table(f, columns=columns) for f in live]

            yield Line(
                "W3",
                f"scan after full compaction, {key_name}",
                against,
                paired(streamed, decode_compacted, rounds=size.rounds),
                "<= 1.05",
            )


def compaction_lines(size: Size) -> Iterator[Line]:
    """A full compaction against reading its input and writing that again."""
    for key_name, key in KEYS.items():
        with scratch() as place:
            merge_table(place, key_name, size)
            warehouse = place / "warehouse"
            files = sorted(warehouse.rglob("data-*.parquet"))
            numbers = iter(range(1_000_000))

            def compact(place=place, warehouse=warehouse, numbers=numbers) -> tidelake.Table:
                copy = place / f"copy-{next(numbers)}"
                shutil.copytree(warehouse, copy, copy_function=os.link)
                table = tidelake.open(str(copy)).table("db.m")
                assert table.compact(full=True).files == 1, "five runs become one"
                return table

            def plain(place=place, files=files) -> None:
                read = pa.concat_tables([pq.read_table(f) for f in files])
                pq.write_table(read, place / "plain.parquet", compression="zstd")

            assert rows.digest(compact().to_arrow(), key[0]) == expected_digest(key_name, size)
            ratio = paired(compact, plain, rounds=size.rounds)
            what = f"full compaction, {key_name}, 1 + {len(files) - 1} runs"
            yield Line(
                "W4", what, "read_table and write_table of its input, zstd", ratio, "<= 1.15"
            )


def orc_lines(size: Size) -> Iterator[Line]:
    """A scan of ORC files with merge against pyarrow's read of the same files."""
    key_name = "int64 key"
    with scratch() as place:
        table = merge_table(place, key_name, size, file_format="orc")
        files = sorted((place / "warehouse").rglob("data-*.orc"))
        wanted = [*table.schema.names, "_SEQUENCE_NUMBER", "_VALUE_KIND"]

        def streamed() -> int:
            return sum(batch.num_rows for batch in table.to_batches())

        def decode() -> list[pa.Table]:
            return [orc.ORCFile(str(file)).read(columns=wanted) for file in files]

        assert rows.digest(table.to_arrow(), "k") == expected_digest(key_name, size)
        what = f"ORC scan with merge, {key_name}, 1 + {len(files) - 1} runs"
        ratio = paired(streamed, decode, rounds=size.rounds)
        yield Line("W9", what, "pyarrow's ORC read of the same files", ratio, "<= 1.3")


def lines(size_name: str) -> Iterator[Line]:
    """All lines of this file."""
    size = SIZES[size_name]
    yield from load_lines(size)
    yield from merge_lines(size)
    yield from compaction_lines(size)
    yield from orc_lines(size)
