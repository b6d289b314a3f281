"""``format("tidelake")`` without Spark: its options, and what an overwrite replaces."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

import tidelake
from tidelake.errors import InvalidInputError
from tidelake.spark.source.data_source import TidelakeSource
from tidelake.spark.source.source_options import SourceReadOptions, SourceWriteOptions

SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.int64())])


def rows_of(*rows):
    return pa.table({"k": [k for k, _ in rows], "p": [p for _, p in rows]}, SCHEMA)


@pytest.fixture
def table(tmp_path):
    """Snapshot 1 has one row, snapshot 2 three in two partitions."""
    catalog = tidelake.open(tmp_path)
    table = catalog.create_table(
        "db.t", SCHEMA, primary_keys=["k", "p"], partition_keys=["p"], options={"bucket": 1}
    )
    table.write(rows_of((1, 0)))
    table.tags.create("first")
    table.write(rows_of((2, 0), (3, 1)))
    return table


@pytest.fixture
def place(table, tmp_path):
    return str(tmp_path / "db.db" / "t")


def read(place, **options):
    """What Spark does, driver and executors: keys come in lower case, the reader is shipped."""
    given = {key.lower(): value for key, value in options.items()}
    source = TidelakeSource({"path": place, **given})
    reader = source.reader(source.schema())
    splits = reader.partitions()
    shipped = pickle.loads(pickle.dumps(reader))
    return sorted(r["k"] for s in splits for b in shipped.read(s) for r in b.to_pylist())


def write(place, rows, *, overwrite=False, **options):
    given = {key.lower(): value for key, value in options.items()}
    source = TidelakeSource({"path": place, **given})
    writer = source.writer(from_arrow_schema(rows.schema), overwrite)
    shipped = pickle.loads(pickle.dumps(writer))
    messages = [shipped.write(iter([batch])) for batch in rows.to_batches()]
    writer.commit(messages)


@pytest.mark.parametrize(
    "key",
    [
        "snapshot_id",
        "snapshotId",
        "tagg",
        "snapshots-id",
        "scan.snapshotid",
        "version",
        "commit-user",
        "paths",
    ],
)
def test_a_read_refuses_an_option_it_does_not_know(place, key):
    with pytest.raises(InvalidInputError) as caught:
        read(place, **{key: "1"})
    assert caught.value.kind == "source_options"


@pytest.mark.parametrize(
    ("key", "meant"), [("snapshot_id", "snapshot-id"), ("tagg", "tag"), ("Colums", "columns")]
)
def test_a_misspelt_option_is_told_the_near_one(place, key, meant):
    with pytest.raises(InvalidInputError, match=f"Did you mean .*'{meant}'"):
        read(place, **{key: "1"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("snapshot-id", "1"),
        ("Snapshot-Id", "1"),
        ("scan.snapshot-id", "1"),
        ("versionAsOf", "1"),
        ("versionAsOf", "first"),
        ("tag", "first"),
        ("scan.tag-name", "first"),
    ],
)
def test_every_name_of_a_moment_reads_that_moment(place, key, value):
    assert read(place) == [1, 2, 3]
    assert read(place, **{key: value}) == [1]


def test_a_moment_may_be_a_time(table, place):
    ms = table.handle.snapshots.load(1).time_ms
    assert read(place, **{"scan.timestamp-millis": str(ms)}) == [1]
    text = "1970-01-01T00:00:00Z"
    for key in ("timestamp", "timestampAsOf", "scan.timestamp"):
        with pytest.raises(tidelake.errors.NotFoundError, match="lies before"):
            read(place, **{key: text})


def test_two_moments_are_refused(place):
    with pytest.raises(InvalidInputError, match="snapshot-id, versionAsOf"):
        read(place, **{"snapshot-id": "1", "versionAsOf": "2"})


@pytest.mark.parametrize("value", ["first", "-1", "1.5", "", "²"])
def test_a_snapshot_id_is_a_number(place, value):
    with pytest.raises(InvalidInputError, match="'snapshot-id' must be a number"):
        read(place, **{"snapshot-id": value})


def test_options_that_spark_adds_itself_are_left_alone(place):
    assert SourceReadOptions.of({"path": place, "__partition_columns": '["p"]'}).columns is None
    assert (
        SourceWriteOptions.of({"path": place, "__partition_columns": '["p"]'}).commit_user is None
    )


@pytest.mark.parametrize("key", ["snapshot-id", "columns", "versionAsOf", "commit_user", "mode"])
def test_a_write_refuses_an_option_it_does_not_know(place, key):
    with pytest.raises(InvalidInputError) as caught:
        write(place, rows_of((9, 0)), **{key: "1"})
    assert caught.value.kind == "source_options"
    assert read(place) == [1, 2, 3]


def test_an_overwrite_replaces_the_partitions_that_rows_come_for(place):
    write(place, rows_of((9, 1)), overwrite=True)
    assert read(place) == [1, 2, 9]


def test_an_overwrite_replaces_all_where_it_is_told_so(place):
    write(place, rows_of((9, 1)), overwrite=True, **{"Dynamic-Partition-Overwrite": "false"})
    assert read(place) == [9]


def test_an_overwrite_obeys_the_option_of_the_table(tmp_path):
    catalog = tidelake.open(tmp_path)
    options = {"bucket": 1, "dynamic-partition-overwrite": False}
    table = catalog.create_table(
        "db.u", SCHEMA, primary_keys=["k", "p"], partition_keys=["p"], options=options
    )
    table.write(rows_of((1, 0), (2, 1)))
    write(str(tmp_path / "db.db" / "u"), rows_of((9, 1)), overwrite=True)
    assert table.to_arrow()["k"].to_pylist() == [9]


def test_an_overwrite_of_a_table_without_partitions_replaces_all(tmp_path):
    table = tidelake.open(tmp_path).create_table("db.u", SCHEMA)
    table.write(rows_of((1, 0), (2, 1)))
    write(str(tmp_path / "db.db" / "u"), rows_of((9, 1)), overwrite=True)
    assert table.to_arrow()["k"].to_pylist() == [9]


def test_a_commit_identity_is_committed_once(table, place):
    identity = {"commit-user": "nightly", "commit-identifier": "7"}
    write(place, rows_of((9, 0)), **identity)
    before = table.latest_snapshot_id
    write(place, rows_of((10, 0)), **identity)
    assert (table.latest_snapshot_id, read(place)) == (before, [1, 2, 3, 9])
    with pytest.raises(InvalidInputError, match="together"):
        write(place, rows_of((9, 0)), **{"commit-user": "nightly"})


def test_options_of_the_table_may_be_given_for_one_read_or_write(place, table):
    assert read(place, **{"source.split.target-size": "1 mb"}) == [1, 2, 3]
    write(place, rows_of((4, 0)), **{"target-file-size": "1 mb"})
    assert read(place) == [1, 2, 3, 4]
    assert (
        "target-file-size" not in tidelake.open(place.rsplit("/", 2)[0]).table("db.t").options.raw
    )
    for options, says in (
        ({"merge-engine": "first-row"}, "cannot be set for one use"),
        ({"source.split.target-size": "big"}, "must be"),
        ({"target-file-sise": "1"}, "Did you mean"),
    ):
        with pytest.raises(InvalidInputError, match=says):
            read(place, **options)
