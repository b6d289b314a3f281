"""File indexes of tables: written with every data file, used by every plan, never at rows' cost."""

from __future__ import annotations

import dataclasses
import math
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelake
from tidelake import InvalidInputError, StorageError, UnsupportedError, col
from tidelake.format.file_index import list_indexes
from tidelake.metadata import SchemaLog
from tidelake.scan import live_buckets
from tidelake.types import DataField

SCHEMA = pa.schema(
    {"k": pa.int64(), "name": pa.string(), "kind": pa.string(), "n": pa.int32(), "x": pa.float64()}
)
ALL_KINDS = {
    "file-index.bloom-filter.columns": "k, name",
    "file-index.bloom-filter.k.items": "1000",
    "file-index.bloom-filter.name.items": "1000",
    "file-index.bitmap.columns": "kind",
    "file-index.range-bitmap.columns": "n,x",
    "metadata.stats-mode": "none",
}
WITHOUT_INDEX = {"file-index.read.enabled": "false"}


def live_files(table):
    snapshot = table.handle.snapshots.latest()
    buckets = live_buckets(table.handle.read_context(), snapshot, manifests=table.handle.manifests)
    return [(b, f) for b in buckets for f in b.files]


def written_rows(count, start=0):
    return [
        {"k": k, "name": f"name-{k}", "kind": f"kind-{k % 3}", "n": k * 10, "x": k / 2}
        for k in range(start, start + count)
    ]


def pruned(table, where):
    return table.plan(where=where).pruned.get("file index", 0)


THRESHOLDS = {"manifest": "1 mb", "file": "0 b"}


@pytest.fixture(params=THRESHOLDS)
def events(request, catalog):
    """Five files of 20 rows each, indexes in the manifest or beside the data."""
    threshold = THRESHOLDS[request.param]
    table = catalog.create_table(
        "db.events", SCHEMA, options={**ALL_KINDS, "file-index.in-manifest-threshold": threshold}
    )
    for start in range(0, 100, 20):
        table.write(written_rows(20, start))
    return table


def test_a_file_without_the_value_is_not_opened(events):
    for where, left in [
        ("k = 33", 1),
        ("name = 'name-77'", 1),
        ("name IN ('name-1', 'name-99')", 2),
        ("kind = 'kind-9'", 0),
        ("n < 200", 1),
        ("n >= 955 AND n < 970", 1),
        ("x > 49", 1),
        ("kind IS NULL", 0),
        ("NOT (n < 790)", 2),
        ("k = 5 OR k = 95", 2),
    ]:
        plan = events.plan(where=where)
        assert plan.files_read == left, where
        assert plan.pruned.get("file index", 0) == 5 - left, where
        without = events.copy(WITHOUT_INDEX).to_arrow(where=where)
        assert events.to_arrow(where=where).to_pylist() == without.to_pylist()
        assert events.copy(WITHOUT_INDEX).plan(where=where).files_read == 5


def test_the_plan_says_what_the_indexes_saved(events):
    text = str(events.explain(where="k = 33"))
    assert "4 by file index" in text


def test_indexes_lie_where_the_threshold_says(events):
    beside = events.options.raw["file-index.in-manifest-threshold"] == "0 b"
    for bucket, file in live_files(events):
        assert (file.embedded_index is None) == beside
        assert file.extra_files == ((file.file_name + ".index",) if beside else ())
        source = (
            events.paths.data_file(bucket.partition, bucket.bucket, file.extra_files[0])
            if beside
            else file.embedded_index
        )
        found = {(e.column, e.kind) for e in list_indexes(source, events.fileio)}
        assert found == {
            ("k", "bloom-filter"),
            ("name", "bloom-filter"),
            ("kind", "bitmap"),
            ("n", "range-bitmap"),
            ("x", "range-bitmap"),
        }


def test_the_system_table_lists_every_index(catalog, events):
    beside = events.options.raw["file-index.in-manifest-threshold"] == "0 b"
    rows = catalog.table("db.events$file_indexes").to_arrow().to_pylist()
    assert len(rows) == 25
    assert {row["storage_type"] for row in rows} == {"FILE" if beside else "EMBEDDED"}
    first = rows[0]
    assert (first["column_name"], first["index_type"]) == ("k", "bloom-filter")
    assert first["index_size_in_bytes"] == 4 + 600
    assert (first["index_file_path"] is not None) == beside
    assert first["index_container_size_in_bytes"] > first["index_size_in_bytes"]


def test_compacted_files_have_indexes_of_their_own(events):
    before = events.to_arrow().sort_by("k")
    events.compact(full=True)
    files = live_files(events)
    assert len(files) == 1
    assert files[0][1].extra_files or files[0][1].embedded_index
    assert pruned(events, "k = 1234") == 1
    assert events.to_arrow().sort_by("k") == before


@pytest.mark.parametrize("events", ["file"], indirect=True)
def test_a_damaged_or_missing_index_costs_time_and_no_row(events):
    paths = sorted(Path(events.paths.location).rglob("*.index"))
    paths[0].unlink()
    data = bytearray(paths[1].read_bytes())
    data[-3] ^= 4
    paths[1].write_bytes(bytes(data))
    paths[2].write_bytes(b"not an index")
    for where in ("x = 33", "x >= 0", "kind = 'kind-1'", "k = 1000"):
        rows = events.to_arrow(where=where).sort_by("k")
        assert rows == events.copy(WITHOUT_INDEX).to_arrow(where=where).sort_by("k")
    plan = events.plan(where="x = 1000")
    assert len(plan.unused_indexes) == 3
    assert plan.files_read == 3
    assert "3, so their files are read" in str(events.explain(where="x = 1000"))


@pytest.fixture
def accounts(catalog):
    """Primary-key table of one bucket whose level-0 files overlap."""
    table = catalog.create_table(
        "db.accounts",
        SCHEMA,
        primary_keys=["k"],
        options={**ALL_KINDS, "bucket": "1", "write-only": "true"},
    )
    table.write(written_rows(20))
    table.write([{**row, "kind": "changed"} for row in written_rows(20)])
    return table


def test_a_newer_row_without_a_match_still_hides_the_older(accounts):
    assert accounts.to_arrow(where="kind = 'kind-1'").num_rows == 0
    assert accounts.to_arrow(where="kind = 'changed'").num_rows == 20
    # the file with the match is the older one: the newer must be read with it
    assert accounts.plan(where="kind = 'kind-1'").files_read == 2
    # neither has one
    assert pruned(accounts, "kind = 'none of them'") == 2


def test_an_index_on_the_key_prunes_single_files_that_overlap(accounts):
    accounts.write(written_rows(1, 0) + written_rows(1, 40))
    plan = accounts.plan(where="k = 7")
    assert plan.pruned.get("file index") == 1
    assert accounts.to_arrow(where="k = 7").column("kind").to_pylist() == ["changed"]


def test_a_delete_is_not_pruned_away(accounts):
    accounts.delete([{"k": 3}])
    assert accounts.to_arrow(where="k = 3").num_rows == 0
    assert accounts.to_arrow(where="name = 'name-3'").num_rows == 0


def test_merged_levels_are_pruned_file_by_file(catalog):
    table = catalog.create_table(
        "db.levels", SCHEMA, primary_keys=["k"], options={**ALL_KINDS, "bucket": "4"}
    )
    table.write(written_rows(400))
    table.compact(full=True)
    plan = table.plan(where="name = 'name-7'")
    assert plan.files_read == 1
    assert plan.pruned["file index"] == 3
    assert table.to_arrow(where="name = 'name-7'").column("k").to_pylist() == [7]


def test_columns_are_found_by_the_file_s_own_name(catalog):
    table = catalog.create_table("db.r", SCHEMA, options=ALL_KINDS)
    table.write(written_rows(10))
    k, name, kind, n, x = table.table_schema.fields
    fields = (k, DataField(name.id, "kind", name.type), DataField(kind.id, "name", kind.type), n, x)
    log = SchemaLog(table.fileio, table.paths)
    assert log.create(dataclasses.replace(table.table_schema, id=1, fields=fields))
    now = catalog.table("db.r")
    assert now.plan(where="kind = 'name-3'").files_read == 1
    assert now.plan(where="kind = 'kind-1'").files_read == 0
    assert now.plan(where="name = 'kind-1'").files_read == 1
    assert now.to_arrow(where="name = 'kind-1'").num_rows == 3


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_files_of_every_format_have_indexes(catalog, file_format):
    options = {**ALL_KINDS, "file.format": file_format}
    table = catalog.create_table("db.f", SCHEMA, options=options)
    for start in (0, 20):
        table.write(written_rows(20, start))
    assert pruned(table, "name = 'name-33'") == 1
    assert table.to_arrow(where="name = 'name-33'").column("k").to_pylist() == [33]


def test_a_write_that_is_given_up_leaves_no_index_behind(catalog):
    table = catalog.create_table(
        "db.g", SCHEMA, options={**ALL_KINDS, "file-index.in-manifest-threshold": "0 b"}
    )

    def write_and_fail():
        with table.writer() as out:
            out.write(written_rows(10))
            message = "no more"
            raise StorageError(message)

    with pytest.raises(StorageError):
        write_and_fail()
    assert not list(Path(table.paths.location).rglob("*.index"))
    assert not list(Path(table.paths.location).rglob("*.parquet"))


def test_what_cannot_be_written_is_refused_before_anything_is(catalog):
    for options, error, word in [
        ({"file-index.bsi.columns": "n"}, UnsupportedError, "range-bitmap"),
        ({"file-index.bitmap.columns": "m[a]"}, UnsupportedError, "inside a map"),
        ({"file-index.bitmap.columns": "nme"}, InvalidInputError, "nme"),
        ({"file-index.bitmap.columns": "n,"}, InvalidInputError, "comma"),
        ({"file-index.bloom-filter.n.items": "5"}, InvalidInputError, "does not name"),
        (
            {"file-index.bloom-filter.columns": "n", "file-index.bloom-filter.n.fpp": "2"},
            InvalidInputError,
            "between 0 and 1",
        ),
        (
            {"file-index.bloom-filter.columns": "n", "file-index.bloom-filter.n.items": "0"},
            InvalidInputError,
            "from 1 on",
        ),
        (
            {
                "file-index.bloom-filter.columns": "n",
                "file-index.bloom-filter.n.items": "2147483647",
            },
            InvalidInputError,
            "bits",
        ),
        (
            {"file-index.bitmap.columns": "n", "file-index.bitmap.n.version": "3"},
            InvalidInputError,
            "1 or 2",
        ),
    ]:
        with pytest.raises(error, match=word):
            catalog.create_table("db.refused", SCHEMA, options=options)
    with pytest.raises(tidelake.NotFoundError):
        catalog.table("db.refused")


def test_a_table_of_java_with_all_kinds_is_pruned_and_not_written(oracle_dir, tmp_path):
    shutil.copytree(
        oracle_dir / "fixtures" / "warehouse_1_3_1.db" / "append_idx", tmp_path / "db.db" / "t"
    )
    table = tidelake.open(tmp_path).table("db.t")
    (_, file), *_ = live_files(table)
    assert file.extra_files
    column = table.table_schema.fields[0].name
    rows = table.to_arrow().column(column).to_pylist()
    for value in {v for v in rows if v is not None}:
        assert table.to_arrow(where=col(column) == value).num_rows == rows.count(value)
    with pytest.raises(UnsupportedError, match="bsi"):
        table.write(table.to_arrow())


VALUE_OF = {
    "name": st.sampled_from(["a", "b", "ab", ""]),
    "kind": st.sampled_from(["u", "v"]),
    "n": st.sampled_from([-(2**31), -1, 0, 1, 2**31 - 1]),
    "x": st.sampled_from([0.0, -0.0, math.nan, math.inf, -1.5]),
    "k": st.integers(0, 6),
}
ROW = st.fixed_dictionaries(
    {name: values | st.none() if name != "k" else values for name, values in VALUE_OF.items()}
)


def conditions():
    def leaf(name):
        values = VALUE_OF[name]
        column = col(name)
        return st.one_of(
            values.map(lambda v: column == v),
            values.map(lambda v: column != v),
            values.map(lambda v: column < v),
            values.map(lambda v: column >= v),
            st.lists(values, min_size=1, max_size=2).map(column.isin),
            st.just(column.is_null()),
            st.just(column.is_not_null()),
        )

    leaves = st.sampled_from(list(VALUE_OF)).flatmap(leaf)
    return st.recursive(
        leaves,
        lambda c: (
            st.builds(lambda a, b: a & b, c, c)
            | st.builds(lambda a, b: a | b, c, c)
            | c.map(lambda a: ~a)
        ),
        max_leaves=3,
    )


@settings(max_examples=25)
@given(
    keyed=st.booleans(),
    embedded=st.booleans(),
    writes=st.lists(st.lists(ROW, min_size=1, max_size=4), min_size=1, max_size=3),
    asked=st.lists(conditions(), min_size=4, max_size=4),
)
def test_a_read_with_indexes_equals_one_without(tmp_path_factory, keyed, embedded, writes, asked):
    catalog = tidelake.open(tmp_path_factory.mktemp("w"))
    options = {**ALL_KINDS, "file-index.in-manifest-threshold": "1 mb" if embedded else "0 b"}
    keys = {"primary_keys": ["k"]} if keyed else {}
    table = catalog.create_table(
        "db.t", SCHEMA, options={**options, **({"bucket": "1"} if keyed else {})}, **keys
    )
    for rows in writes:
        table.write(rows)
    plain = table.copy(WITHOUT_INDEX)
    for condition in asked:
        with_index = table.to_arrow(where=condition).to_pylist()
        assert sorted(map(repr, with_index)) == sorted(
            map(repr, plain.to_arrow(where=condition).to_pylist())
        )
