"""Tables of many data files, made of metadata alone: what planning and committing look at.

No data file is there; their entries have the sizes, keys and statistics of eight columns.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa

import tidelake
from tidelake.codec.binary_row import serialize_row
from tidelake.metadata import CommitMessage, DataFileMeta, SimpleStats
from tidelake.metadata.data_file import EMPTY_ROW

SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("s20", pa.string()),
        ("s40", pa.string()),
        ("d", pa.float64()),
        ("i", pa.int32()),
        ("m", pa.decimal128(18, 2)),
        ("t", pa.timestamp("us")),
        ("b", pa.bool_()),
    ]
)
ROWS = 1_000
"""Rows of a file; a file holds the keys of one range of this length."""


def make(place: Path, files_count: int, *, buckets: int = 8, **options: str) -> tidelake.Table:
    """A primary-key table whose files are all on one level and do not overlap."""
    catalog = tidelake.open(str(place))
    given = {"bucket": str(buckets), "write-only": "true"} | options
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options=given)
    commit(table, range(files_count), buckets=buckets)
    return table


def commit(table: tidelake.Table, numbers: range, *, buckets: int = 8, level: int = 5) -> None:
    """Commit entries of as many files."""
    schema = table.table_schema
    types = [f.type for f in schema.fields]
    files: dict[int, list[DataFileMeta]] = {bucket: [] for bucket in range(buckets)}
    for number in numbers:
        files[number % buckets].append(_file(number, types, level))
    messages = [
        CommitMessage(EMPTY_ROW, bucket, buckets, tuple(own))
        for bucket, own in files.items()
        if own
    ]
    base = table.latest_snapshot_id or 0
    table.handle.committer().commit(messages, user="bench", base_snapshot_id=base)


def _file(number: int, types: list, level: int) -> DataFileMeta:
    rng = np.random.default_rng(number)
    low_key, high_key = ROWS * number, ROWS * (number + 1) - 1
    texts = [f"{v:020d}"[:16] for v in rng.integers(0, 10**15, 4).tolist()]
    low = (low_key, texts[0], texts[1], 0.25, 5, 1_00, 1_700_000_000_000_000_000, False)
    high = (high_key, texts[2], texts[3], 99.5, 995, 9_999_00, 1_800_000_000_000_000_000, True)
    keys = [serialize_row((k,), types[:1]) for k in (low_key, high_key)]
    name = f"data-{rng.bytes(4).hex()}-{rng.bytes(2).hex()}-4{rng.bytes(6).hex()}-{number}.parquet"
    return DataFileMeta(
        file_name=name,
        file_size_bytes=40_000 + number % 1_000,
        row_count=ROWS,
        min_key=keys[0],
        max_key=keys[1],
        key_stats=SimpleStats(keys[0], keys[1], (0,)),
        value_stats=SimpleStats(
            serialize_row(low, types), serialize_row(high, types), tuple(itertools.repeat(0, 8))
        ),
        min_sequence_number=low_key,
        max_sequence_number=high_key,
        schema_id=0,
        level=level,
        creation_time_ms=1_700_000_000_000 + number,
        delete_row_count=0,
        file_source=1,
    )
