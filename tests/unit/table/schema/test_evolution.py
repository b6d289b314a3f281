"""Tables whose schema another engine changed: old files are read with the columns of today."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidelake import CorruptError, InvalidInputError, UnsupportedError
from tidelake.commit.conflicts.live_buckets import live_in
from tidelake.metadata import CommitMessage, SchemaLog
from tidelake.types import DataField, parse_type


def rows(table, **scan):
    return sorted(table.to_arrow(**scan).to_pylist(), key=repr)


@pytest.fixture(params=["keyed", "append"])
def evolved(request, catalog):
    """Renamed, added, dropped and widened columns, with files before and after."""
    schema = pa.schema({"k": pa.int64(), "a": pa.int32(), "b": pa.string(), "c": pa.int32()})
    keyed = {"primary_keys": ["k"], "options": {"bucket": 1}} if request.param == "keyed" else {}
    table = catalog.create_table("db.e", schema, **keyed)
    table.write([{"k": k, "a": k, "b": f"b{k}", "c": k} for k in range(5)])
    k, a, b, _ = table.table_schema.fields
    fields = (
        k,
        DataField(b.id, "renamed", b.type),
        DataField(a.id, "a", parse_type("BIGINT")),
        DataField(4, "added", parse_type("STRING")),
        DataField(5, "c", parse_type("STRING")),  # another column by the name of the dropped one
    )
    log = SchemaLog(table.fileio, table.paths)
    assert log.create(
        dataclasses.replace(table.table_schema, id=1, fields=fields, highest_field_id=5)
    )
    now = catalog.table("db.e")
    now.write([{"k": 10, "renamed": "new", "a": 2**40, "added": "x", "c": "y"}])
    return now


def test_old_and_new_files_read_alike(evolved):
    assert rows(evolved)[0] == {"k": 0, "renamed": "b0", "a": 0, "added": None, "c": None}
    assert rows(evolved)[-1]["k"] in {4, 10}
    assert rows(evolved, where="k = 10") == [
        {"k": 10, "renamed": "new", "a": 2**40, "added": "x", "c": "y"}
    ]


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ("renamed = 'b3'", {3}),
        ("a > 3", {4, 10}),
        ("a = 1099511627776", {10}),
        ("added IS NULL", {0, 1, 2, 3, 4}),
        ("added = 'x'", {10}),
        ("c IS NULL AND k < 2", {0, 1}),
        ("c = '3'", set()),
    ],
)
def test_filters_and_statistics_go_by_field_id(evolved, where, keys):
    assert {r["k"] for r in rows(evolved, where=where)} == keys


def test_time_travel_reads_with_the_columns_of_then(evolved):
    assert rows(evolved, snapshot_id=1)[0] == {"k": 0, "a": 0, "b": "b0", "c": 0}
    assert rows(evolved, snapshot_id=1, where="b = 'b2'", columns=["c"]) == [{"c": 2}]


def test_changes_show_both_states_with_the_columns_of_today(evolved):
    assert evolved.changes(1).to_pylist() == [
        {"_row_kind": "+I", "k": 10, "renamed": "new", "a": 2**40, "added": "x", "c": "y"}
    ]


def test_compaction_rewrites_old_files_with_the_columns_of_today(evolved):
    before = rows(evolved)
    evolved.compact(full=True)
    assert rows(evolved) == before


def test_a_missing_schema_file_is_named(evolved, catalog):
    evolved.fileio.delete(evolved.paths.schema(0))
    with pytest.raises(CorruptError, match="schema-0"):
        catalog.table("db.e").to_arrow()


def test_a_mix_of_timestamps_that_another_engine_made_is_refused_before_a_file_is(catalog):
    table = catalog.create_table("db.mixed", pa.schema({"k": pa.int64(), "a": pa.timestamp("ns")}))
    table.write([{"k": 1, "a": None}])
    coarse = DataField(2, "b", parse_type("TIMESTAMP(6)"))
    schema = dataclasses.replace(
        table.table_schema,
        id=1,
        fields=(*table.table_schema.fields, coarse),
        highest_field_id=2,
    )
    assert SchemaLog(table.fileio, table.paths).create(schema)
    now = catalog.table("db.mixed")
    assert now.to_arrow().to_pylist() == [{"k": 1, "a": None, "b": None}]
    with pytest.raises(UnsupportedError, match=r"'db.mixed' would mix.*'a'.*'b'"):
        now.write([{"k": 2, "a": None, "b": None}])


@pytest.mark.parametrize("trigger", [2, 5])
def test_a_table_opened_before_an_alter_keeps_the_columns_of_newer_files(catalog, trigger):
    """A compaction writes the columns that it knows: it must not touch files that have more."""
    options = {"bucket": 1, "num-sorted-run.compaction-trigger": trigger}
    stale = catalog.create_table(
        "db.s", pa.schema({"k": pa.int64(), "a": pa.int32()}), primary_keys=["k"], options=options
    )
    stale.write([{"k": 0, "a": 0}])
    added = DataField(2, "added", parse_type("STRING"))
    schema = dataclasses.replace(
        stale.table_schema, id=1, fields=(*stale.table_schema.fields, added), highest_field_id=2
    )
    assert SchemaLog(stale.fileio, stale.paths).create(schema)
    now = catalog.table("db.s").copy({"write-only": True})
    now.write([{"k": 1, "a": 1, "added": "x"}])
    for number in range(2, 8):
        stale.write([{"k": number, "a": number}])
    assert rows(now, where="k = 1") == [{"k": 1, "a": 1, "added": "x"}]
    with pytest.raises(InvalidInputError, match=r"altered table 'db.s'.*open it again"):
        stale.compact(full=True)
    assert rows(now, where="k = 1") == [{"k": 1, "a": 1, "added": "x"}]
    catalog.table("db.s").compact(full=True)
    assert rows(now, where="k = 1") == [{"k": 1, "a": 1, "added": "x"}]
    assert now.count() == 8


def test_compacting_a_file_without_a_column_of_its_schema_is_refused(catalog):
    """Read as null, the column's values would be gone for good."""
    for name, keys in (("keyed", ["k"]), ("append", [])):
        table = catalog.create_table(
            f"db.{name}",
            pa.schema({"k": pa.int64(), "v": pa.string()}),
            primary_keys=keys,
            options={"bucket": 1, "bucket-key": "k"},
        )
        table.write([{"k": 1, "v": "a"}])
        table.write([{"k": 1, "v": "b"}])
        plan = table.plan()
        (partition, bucket, total) = (plan.splits[0].partition, 0, 1)
        snapshot = table.handle.snapshots.latest()
        entries = live_in(table.handle.commit_context(), snapshot).to_entries()
        file = entries[-1].file
        path = table.paths.data_file(partition, bucket, file)
        rows_there = pq.read_table(path).drop_columns(["v"])
        other = table.paths.data_file(partition, bucket, "data-short.parquet")
        pq.write_table(rows_there, other)
        short = dataclasses.replace(
            file,
            file_name="data-short.parquet",
            file_size_bytes=table.fileio.size(other),
            min_sequence_number=5,
            max_sequence_number=5,
        )
        message = CommitMessage(partition, bucket, total, new_files=(short,))
        table.handle.committer().commit([message], user="u", identifier=1)
        with pytest.raises(CorruptError, match=r"data-short.*'v' is missing"):
            table.to_arrow()
        with pytest.raises(CorruptError, match=r"data-short.*'v' is missing"):
            table.compact(full=True)
