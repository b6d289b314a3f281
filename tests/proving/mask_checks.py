"""Checks of masks: rows read by masks are those of the merge, at every moment of a table."""

from __future__ import annotations

import dataclasses
import random
from unittest import mock

import numpy as np
import pyarrow as pa

from proving.masked_reads import MaskedReader
from tidelake import UpdateColumnType
from tidelake.catalog import open_catalog
from tidelake.fileio import MemoryFileIO
from tidelake.store.lsm import keyed_file
from tidelake.telemetry import Env
from tidelake.types import DataField, parse_type

__all__ = [
    "CHECKS",
    "check_long_masks",
    "check_long_masks_of_engines",
    "check_masks",
    "check_masks_after_alter",
    "check_masks_after_rollback",
    "check_masks_of_engines",
]

SEEDS = 4
COMMITS = 6
LONG_ROWS = 150_000
"""Rows of a file that its reader gives in several batches."""


def _table(**options):
    fields = [
        DataField(0, "a", parse_type("STRING NOT NULL")),
        DataField(1, "b", parse_type("INT NOT NULL")),
        DataField(2, "v", parse_type("INT")),
    ]
    catalog = open_catalog("/w", fileio=MemoryFileIO(), env=Env.seeded(5))
    return catalog.create_table(
        "db.t",
        fields,
        primary_keys=["a", "b"],
        options={"bucket": 1, "write-only": "true", **options},
    )


def _write(table, numbers, value, kinds=None):
    rows = {
        "a": ["x" * (n % 7) for n in numbers],
        "b": pa.array([n // 7 for n in numbers], pa.int32()),
        "v": pa.array([value * 1000 + n for n in numbers], pa.int32()),
    }
    table.write(pa.table(rows), row_kinds=kinds)


def _check(reader, table, **scan):
    expected = sorted(tuple(row.values()) for row in table.to_arrow(**scan).to_pylist())
    assert sorted(reader.rows(table, **scan)) == expected, "masks and merge differ"


def check_masks() -> None:
    """Read small tables after every commit, and at every snapshot."""
    for seed in range(SEEDS):
        rng = random.Random(seed)
        options = {"deletion-vectors.enabled": "true"} if seed % 2 else {}
        reader, table = MaskedReader(), _table(**options)
        for number in range(COMMITS):
            numbers = rng.sample(range(60), rng.randint(5, 40))
            kinds = [rng.choice(["+I", "+U", "+I", "-D"]) for _ in numbers]
            _write(table, numbers, number, kinds)
            _check(reader, table)
            if number == COMMITS // 2:
                table.compact(full=True)
                _check(reader, table)
        late = MaskedReader()  # it meets the largest sets of newer files first
        for snapshot in range(table.latest_snapshot_id, 0, -1):
            _check(late, table, snapshot_id=snapshot)
        assert reader.masked_count > COMMITS, "nothing was read by masks"


def check_masks_after_rollback() -> None:
    """Read a table whose newest run was rolled back and has a successor of the same numbers."""
    reader, table = MaskedReader(), _table()
    _write(table, range(60), 0)
    _write(table, range(10), 1)
    _check(reader, table)
    table.rollback_to(snapshot_id=1)
    _check(reader, table)
    _write(table, range(30, 40), 2)
    _check(reader, table)


def check_masks_after_alter() -> None:
    """Read a table whose rows were ordered by numbers, and are by texts."""
    reader, table = MaskedReader(), _table(**{"sequence.field": "v"})
    _write(table, range(10), 1)
    _write(table, range(10), 0)  # 9 is below 1009, and '9' above '1009'
    _check(reader, table)
    table.alter(UpdateColumnType("v", parse_type("STRING")))
    _check(reader, table)
    _check(reader, table, snapshot_id=2)  # with the columns of then
    assert reader.masked_count == 3, "the section is read by its masks"


def check_long_masks() -> None:
    """Read a file that is longer than a batch."""
    reader, table = MaskedReader(), _table()
    _write(table, np.arange(LONG_ROWS).tolist(), 0)
    _write(table, np.arange(0, LONG_ROWS, 997).tolist(), 1)
    _check(reader, table)
    assert reader.masked_count == 1, "the file is read by its mask"


ENGINES = (
    {"merge-engine": "first-row", "ignore-delete": "true"},
    {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "deletion-vectors.enabled": "true",
        "write-only": "false",
    },
)


def check_masks_of_engines() -> None:
    """Read tables whose engines choose the first row or combine rows."""
    for seed, options in enumerate(ENGINES):
        rng = random.Random(seed)
        table = _table(**options)
        reader = MaskedReader()
        for number in range(COMMITS):
            numbers = rng.sample(range(60), rng.randint(5, 40))
            _write(table, numbers, number, [rng.choice(["+I", "+U", "-D"]) for _ in numbers])
            _check(reader, table)
            if number == COMMITS // 2:
                table.compact(full=True)
        late = MaskedReader()
        for snapshot in range(table.latest_snapshot_id, 0, -1):
            _check(late, table, snapshot_id=snapshot)
        assert reader.masked_count > 0, "nothing was read by masks"
        combines = options["merge-engine"] != "first-row"
        assert (late.rows_merged > 0) == combines, "rows that several files have are merged"


def check_long_masks_of_engines() -> None:
    """Read a file of many row groups, of which a few rows are merged."""
    small = keyed_file.format_options

    def of_small_groups(options, **how):
        return dataclasses.replace(small(options, **how), row_group_rows=100)

    reader, table = MaskedReader(), _table(**ENGINES[2])
    with mock.patch.object(keyed_file, "format_options", of_small_groups):
        _write(table, range(2_000), 0)
        _write(table, [450, 1_203, 1_950], 1)
    _check(reader, table)
    assert reader.rows_merged == 6, "the others are read as they are"


CHECKS = (
    check_masks,
    check_masks_after_rollback,
    check_masks_after_alter,
    check_long_masks,
    check_masks_of_engines,
    check_long_masks_of_engines,
)
