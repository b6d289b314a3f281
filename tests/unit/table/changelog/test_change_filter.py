"""What leaves a filter of changes is a delete, by every way to read them without an engine."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

import tidelake
from tidelake.fileio import MemoryFileIO
from tidelake.format import KIND_FIELD
from tidelake.table.changelog.change_filter import UpdateFilter
from tidelake.telemetry import Env
from tidelake.types import DataField, RowKind, parse_type
from tidelake.types.predicate import bind, parse_filter

WANTED = "v > 5"
REMOVE_AT_DELETE = {
    "partial-update": {"partial-update.remove-record-on-delete": True},
    "aggregation": {
        "aggregation.remove-record-on-delete": True,
        "fields.default-aggregate-function": "last_value",
    },
}


@pytest.fixture
def catalog():
    return tidelake.open("/w", fileio=MemoryFileIO(), env=Env.seeded(1))


def made(catalog, name, **options):
    return catalog.create_table(
        f"db.{name}",
        {"k": "INT NOT NULL", "v": "INT"},
        primary_keys=["k"],
        options={"bucket": 1, **options},
    )


@pytest.fixture
def source(catalog):
    table = made(catalog, "s", **{"changelog-producer": "lookup"})
    for rows in ({1: 9, 2: 9, 3: 1}, {1: 1, 2: 8, 3: 7}, {1: 2}):
        table.write([{"k": k, "v": v} for k, v in rows.items()])
    return table


def shown(rows):
    return [(row["_row_kind"], row["k"], row["v"]) for row in rows.to_pylist()]


def streamed(table):
    return pa.Table.from_batches([b.data for b in table.stream(start=1, where=WANTED, timeout=0)])


@pytest.mark.parametrize(
    "read", [streamed, lambda table: table.changes(0, where=WANTED, mode="changelog")]
)
def test_issue_36_an_update_that_leaves_a_filter_is_a_delete_of_its_old_row(source, read):
    assert shown(read(source)) == [
        *(("+I", 1, 9), ("+I", 2, 9)),
        *(("-D", 1, 9), ("-U", 2, 9), ("+U", 2, 8), ("+U", 3, 7)),
    ]


@pytest.mark.parametrize("engine", REMOVE_AT_DELETE)
def test_issue_36_a_target_that_removes_at_deletes_alone_has_the_filtered_rows(
    catalog, source, engine
):
    target = made(catalog, "t", **{"merge-engine": engine, **REMOVE_AT_DELETE[engine]})
    for batch in source.stream(start=1, where=WANTED, timeout=0):
        target.write(batch.data)
    assert target.to_arrow().to_pylist() == [{"k": 2, "v": 8}, {"k": 3, "v": 7}]


def test_an_update_is_seen_as_one_across_batches():
    fields = (DataField(0, "v", parse_type("INT")),)
    kinds = [RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER] * 2 + [RowKind.UPDATE_BEFORE]
    rows = pa.record_batch(
        {"v": pa.array([9, 1, 9, 8, 9], pa.int32()), KIND_FIELD.name: pa.array(kinds, pa.int8())}
    )
    wanted = UpdateFilter(bind(parse_filter(WANTED), fields), None)
    for cuts in ([0, 5], [0, 1, 5], [0, 3, 4, 5], [0, 1, 2, 3, 4, 5], [0, 0, 5]):
        batches = [rows.slice(a, b - a) for a, b in itertools.pairwise(cuts)]
        found = pa.Table.from_batches(wanted.rows(iter(batches), fields))
        assert found["v"].to_pylist() == [9, 9, 8, 9], cuts
        assert found[KIND_FIELD.name].to_pylist() == [
            RowKind.DELETE, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.UPDATE_BEFORE,
        ], cuts  # fmt: skip
