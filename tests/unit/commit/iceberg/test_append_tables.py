"""Iceberg metadata of append tables, read back by pyiceberg row by row."""

import datetime as dt
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from unit.commit.iceberg.iceberg_lake import IcebergLake, assert_same_rows, rows_of

from tidelake.commit.iceberg.manifest_changes import Changed
from tidelake.commit.iceberg.metadata_document import summary_of

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
WIDE = pa.schema(
    [
        ("day", pa.date32()),
        ("k", pa.int64()),
        ("flag", pa.bool_()),
        ("small", pa.int32()),
        ("price", pa.decimal128(12, 2)),
        ("huge", pa.decimal128(38, 4)),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("raw", pa.binary()),
        ("at", pa.timestamp("us")),
        ("instant", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.struct([("n", pa.int32()), ("s", pa.string())]))),
        ("weights", pa.map_(pa.string(), pa.float64())),
        ("place", pa.struct([("x", pa.float64()), ("names", pa.list_(pa.string()))])),
    ]
)
DAY = dt.date(2024, 2, 29)


def wide_row(i):
    if i % 5 == 4:
        # pyiceberg 0.12 makes an empty list of a null list of structs
        return dict.fromkeys(WIDE.names) | {"day": DAY, "k": i, "tags": []}
    moment = dt.datetime(1969, 12, 31, 23, 59, 59, 999999) + dt.timedelta(hours=i)
    return {
        "day": DAY + dt.timedelta(days=i % 3),
        "k": i,
        "flag": i % 2 == 0,
        "small": -i,
        "price": Decimal(i) / 4 - 100,
        "huge": Decimal(10) ** 30 - i,
        "f": i / 2,
        "d": float("nan") if i == 3 else i / 3,
        "raw": bytes([i, 255]),
        "at": moment,
        "instant": moment.replace(tzinfo=dt.UTC),
        "tags": [{"n": i, "s": f"s{i}"}, None],
        "weights": {"a": i / 7},
        "place": {"x": 1.5, "names": ["ü", None]},
    }


def test_every_type_is_read_back(tmp_path):
    lake = IcebergLake(tmp_path, WIDE)
    lake.table.write([wide_row(i) for i in range(12)])
    lake.table.write([wide_row(i) for i in range(12, 30)])
    assert_same_rows(lake)
    table = lake.iceberg()
    files = {f: len(list(table.scan(row_filter=f).plan_files())) for f in ("k < 5", "k > 99")}
    assert files == {"k < 5": 1, "k > 99": 0}
    for where in ("price >= -98", "at < '1970-01-01T00:00:00'", "huge = 1"):
        found = table.scan(row_filter=where).to_arrow()
        assert found.num_rows == lake.table.to_arrow(where=where.replace("T", " ")).num_rows


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("s", ["a", "ü b/c", None, ""]),
        ("day", [DAY, DAY + dt.timedelta(days=9), None]),
        ("n", [1, -7, None]),
        ("b", [True, False, None]),
        ("größe 1", ["x", "y"]),
    ],
)
def test_partitions_are_pruned_and_read_back(tmp_path, column, values):
    types = {"s": pa.string(), "day": pa.date32(), "n": pa.int64(), "b": pa.bool_()}
    schema = pa.schema([(column, types.get(column, pa.string())), ("k", pa.int64())])
    lake = IcebergLake(tmp_path, schema, partition_keys=[column])
    for round_ in range(2):
        lake.table.write([{column: v, "k": 10 * round_ + i} for i, v in enumerate(values)])
    assert_same_rows(lake)
    table = lake.iceberg()
    assert str(table.spec()) == f"[\n  1000: {column}: identity(0)\n]"
    tasks = list(table.scan(row_filter=EqualTo(column, value=values[0])).plan_files())
    assert len(tasks) == 2


def test_decimal_partitions_are_read_back(tmp_path):
    schema = pa.schema([("p", pa.decimal128(9, 2)), ("k", pa.int64())])
    lake = IcebergLake(tmp_path, schema, partition_keys=["p"])
    lake.table.write([{"p": Decimal(v), "k": i} for i, v in enumerate(("-1.25", "0", "70000.01"))])
    assert_same_rows(lake)
    (manifest,) = lake.manifests()
    (bounds,) = manifest["partitions"]
    assert (bounds["lower_bound"].hex(), bounds["upper_bound"].hex()) == ("83", "6acfc1")


def test_a_commit_reuses_the_manifests_of_the_one_before(tmp_path):
    lake = IcebergLake(tmp_path, SCHEMA)
    lake.table.write([{"k": 1, "v": "a"}])
    first = {m["manifest_path"] for m in lake.manifests()}
    lake.table.write([{"k": 2, "v": "b"}])
    second = lake.manifests()
    assert [m["manifest_path"] in first for m in second] == [True, False]
    assert [(m["added_snapshot_id"], m["added_rows_count"]) for m in second] == [(1, 1), (2, 1)]
    assert lake.names(".json") == ["v2.metadata.json"]
    assert lake.document()["snapshots"][-1]["parent-snapshot-id"] == 1


def test_older_snapshots_are_there_for_time_travel(tmp_path):
    lake = IcebergLake(tmp_path, SCHEMA)
    for k in range(4):
        lake.table.write([{"k": k, "v": None}])
    table = lake.iceberg()
    assert [s.snapshot_id for s in table.snapshots()] == [1, 2, 3, 4]
    for snapshot in table.snapshots():
        found = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        assert rows_of(found) == rows_of(lake.table.to_arrow(snapshot_id=snapshot.snapshot_id))
        assert snapshot.summary["total-records"] == str(snapshot.snapshot_id)


def test_properties_of_a_snapshot_leave_the_summarys_own_keys(tmp_path):
    lake = IcebergLake(tmp_path, SCHEMA)
    lake.table.write([{"k": 1, "v": "a"}])
    snapshot = lake.table.handle.snapshots.latest()
    given = {"operation": "mine", "total-records": "x", "added-records": "x", "mine": "kept"}
    found = summary_of(
        replace(snapshot, properties=given),
        Changed(),
        lake.manifests(),
        operation="append",
        before={},
    )
    assert {key: found[key] for key in given} == {
        "operation": "append",
        "total-records": "1",
        "added-records": "0",
        "mine": "kept",
    }


def test_many_small_manifests_are_merged(tmp_path):
    lake = IcebergLake(tmp_path, SCHEMA, options={"metadata.iceberg.compaction.max.file-num": "4"})
    counts = []
    for k in range(6):
        lake.table.write([{"k": k, "v": str(k)}])
        counts.append(len(lake.manifests()))
    assert counts == [1, 2, 3, 1, 2, 3]
    entries = lake.records(lake.manifests()[0]["manifest_path"])
    assert [(e["status"], e["sequence_number"]) for e in entries] == [
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 4),
    ]
    assert_same_rows(lake)
    assert len(list(lake.directory.glob("*-m*.avro"))) == 6, "merged ones stay for time travel"


def test_an_overwrite_and_a_compaction_replace_files(tmp_path):
    schema = pa.schema([("p", pa.string()), *SCHEMA])
    lake = IcebergLake(tmp_path, schema, partition_keys=["p"])
    for k in range(3):
        lake.table.write([{"p": p, "k": k, "v": p} for p in "ab"])
    lake.table.compact(full=True)
    assert_same_rows(lake)
    last = lake.document()["snapshots"][-1]["summary"]
    assert (last["operation"], last["deleted-data-files"], last["total-data-files"]) == (
        "replace",
        "6",
        "2",
    )
    lake.table.write([{"p": "a", "k": 9, "v": None}], mode="overwrite", partition={"p": "a"})
    assert_same_rows(lake)
    assert lake.document()["snapshots"][-1]["summary"]["operation"] == "overwrite"
    lake.table.truncate()
    assert lake.iceberg().scan().to_arrow().num_rows == 0
    lake.table.write([{"p": "c", "k": 1, "v": None}])
    assert_same_rows(lake)
    assert len(lake.manifests()) == 1, "manifests without live files are left out"


def test_files_of_older_schemas_are_read_by_field_ids(tmp_path):
    lake = IcebergLake(
        tmp_path, pa.schema([("k", pa.int32()), ("v", pa.string()), ("f", pa.float32())])
    )
    lake.table.write([{"k": 1, "v": "a", "f": 0.5}])
    table = lake.table.rename_column("v", "text")
    table = table.add_column("more", pa.int64())
    table = table.retype_column("k", pa.int64())
    table.write([{"k": 2**40, "text": "b", "f": 1.5, "more": 7}])
    table = table.drop_column("f")
    table.write([{"k": 3, "text": "c", "more": None}])
    assert_same_rows(lake, table)
    document = lake.document()
    assert document["current-schema-id"] == table.handle.schema.id
    assert [s["schema-id"] for s in document["snapshots"]] == [0, 3, 4]
    assert document["last-column-id"] == 3
    found = lake.iceberg().scan(row_filter="k >= 3").to_arrow()
    assert sorted(found["k"].to_pylist()) == [3, 2**40]
