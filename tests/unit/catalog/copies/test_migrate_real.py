"""Tables that the libraries of Delta and Iceberg wrote move in with the rows that those give."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.schema import PrimitiveType
from proving.iceberg_tables import memory_catalog
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, StructType

import tidelake
from tidelake import UnsupportedError

POINT = pa.struct([("x", pa.int32()), ("y", pa.string())])
SCHEMA = pa.schema(
    {
        "k": pa.int64(),
        "p": pa.string(),
        "n": pa.decimal128(12, 3),
        "d": pa.date32(),
        "t": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "s": POINT,
        "l": pa.list_(POINT),
        "m": pa.map_(pa.string(), pa.list_(pa.int64())),
    }
)


def rows(*keys):
    return pa.Table.from_pylist(
        [
            {
                "k": k,
                "p": None if k % 3 == 0 else f"a b/{k % 3}",
                "n": Decimal(k) / 8,
                "d": dt.date(2024, 1, 1) + dt.timedelta(k),
                "t": dt.datetime(2024, 1, 1, k % 24, tzinfo=dt.UTC),
                "local": None if k == 2 else dt.datetime(2024, 1, 1, k % 24),
                "s": None if k == 1 else {"x": k, "y": f"y{k}"},
                "l": [{"x": k, "y": None}] * (k % 3),
                "m": [("a", [k, None]), ("b", None)] if k % 2 else None,
            }
            for k in keys
        ],
        schema=SCHEMA,
    )


def shown(table):
    table = table.select(sorted(table.schema.names)).sort_by("k")
    return [repr(row) for row in table.to_pylist()]


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(tmp_path / "wh")


def test_a_table_of_deltalake_moves_in_with_its_rows(catalog, tmp_path):
    place = str(tmp_path / "delta")
    write_deltalake(place, rows(1, 2, 3, 4), partition_by=["p"])
    source = DeltaTable(place)
    source.delete("k = 2")
    source.update(updates={"n": "n + 1"}, predicate="k = 3")
    source.create_checkpoint()
    wide = rows(5, 6).append_column("z", pa.array([7, None], pa.int32()))
    write_deltalake(place, wide, mode="append", schema_mode="merge", partition_by=["p"])
    source = DeltaTable(place)
    source.alter.add_columns([Field("later", PrimitiveType("string"))])
    wanted = shown(pa.table(DeltaTable(place).to_pyarrow_table()))
    done = catalog.migrate_table("delta", place, "db.t")
    table = catalog.table("db.t")
    assert done.partition_keys == ("p",)
    assert done.linked_count == done.files_count
    assert shown(table.to_arrow()) == wanted
    assert table.to_arrow(where="p IS NULL")["k"].to_pylist() == [
        k for k in table.to_arrow()["k"].to_pylist() if k % 3 == 0
    ]
    assert table.count(where="n >= 1.3") == sum(
        n >= Decimal("1.3") for n in table.to_arrow()["n"].to_pylist()
    )
    table.compact(full=True)
    assert shown(table.to_arrow()) == wanted


def test_constraints_of_deltalake_are_named(catalog, tmp_path):
    place = str(tmp_path / "delta")
    columns = [
        Field("k", PrimitiveType("long"), nullable=False),
        Field("v", PrimitiveType("string")),
    ]
    DeltaTable.create(place, Schema(columns))
    write_deltalake(place, pa.table({"k": [1, 2], "v": ["a", None]}), mode="append")
    DeltaTable(place).alter.add_constraint({"positive": "k > 0"})
    done = catalog.migrate_table("delta", place, "db.t")
    assert (done.not_null, done.not_carried) == (("k",), ("CHECK positive: k > 0",))
    assert catalog.table("db.t").count() == 2


def test_a_delta_table_without_deleted_rows_gets_no_vectors(catalog, tmp_path):
    """deltalake names the features of vectors and variants for this option, and writes neither."""
    place = str(tmp_path / "delta")
    option = {"delta.enableDeletionVectors": "true"}
    write_deltalake(place, pa.table({"k": [1, 2, 3, 4]}), configuration=option)
    source = DeltaTable(place)
    assert "deletionVectors" in source.protocol().reader_features
    source.delete("k = 2")
    catalog.migrate_table("delta", place, "db.t")
    table = catalog.table("db.t")
    assert sorted(table.to_arrow()["k"].to_pylist()) == [1, 3, 4]
    assert "deletion-vectors.enabled" not in table.table_schema.options


def actions(place, version):
    text = Path(place, "_delta_log", f"{version:020}.json").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_names_of_columns_count_only_with_the_feature(catalog, tmp_path):
    """deltalake keeps the mode of mapped columns in the log, and writes files without it."""
    place = str(tmp_path / "delta")
    mode = {"delta.columnMapping.mode": "name"}
    write_deltalake(place, rows(1, 2), partition_by=["p"], configuration=mode)
    wanted = shown(pa.table(DeltaTable(place).to_pyarrow_table()))
    catalog.migrate_table("delta", place, "db.t")
    assert shown(catalog.table("db.t").to_arrow()) == wanted


def test_a_table_of_pyiceberg_moves_in_with_its_rows(catalog, tmp_path):
    source = memory_catalog(f"file://{tmp_path}/ice").create_table("t", schema=SCHEMA)
    with source.update_spec() as spec:
        spec.add_identity("p")
    source.append(rows(1, 2, 3, 4))
    with source.update_schema() as change:
        change.rename_column("n", "amount")
        change.rename_column(("s", "x"), "u")
        change.add_column(("l", "z"), LongType())
        change.delete_column("d")
    with source.update_schema() as change:
        change.add_column(("s", "x"), StringType())
    source.append(
        pa.Table.from_pylist(
            [
                {
                    "k": 9,
                    "p": "q",
                    "amount": Decimal(1),
                    "s": {"u": 1, "x": "new", "y": None},
                    "l": None,
                }
            ],
            schema=source.schema().as_arrow(),
        )
    )
    source.delete("k = 2")
    wanted = shown(source.scan().to_arrow())
    done = catalog.migrate_table("iceberg", source.metadata_location, "db.t")
    table = catalog.table("db.t")
    assert shown(table.to_arrow()) == wanted
    assert done.schemas_count > 1
    table.alter(tidelake.RenameColumn(("s", "x"), "x2"), tidelake.DropColumn(("l", "element", "z")))
    assert [row["s"] and row["s"]["x2"] for row in table.to_arrow(where="k = 9").to_pylist()] == [
        "new"
    ]
    table.compact(full=True)
    assert table.count() == len(wanted)


def test_files_that_were_added_to_iceberg_are_found_by_its_names(catalog, tmp_path):
    source = memory_catalog(f"file://{tmp_path}/ice").create_table(
        "t", schema=pa.schema({"k": pa.int64(), "s": POINT})
    )
    plain = rows(1, 2, 3).select(["k", "s"])
    pq.write_table(plain, tmp_path / "added.parquet")
    with source.transaction() as change:
        change.set_properties(
            {
                "schema.name-mapping.default": create_mapping_from_schema(
                    source.schema()
                ).model_dump_json()
            }
        )
        change.add_files([f"file://{tmp_path}/added.parquet"])
    with source.update_schema() as change:
        change.rename_column(("s", "x"), "u")
    wanted = shown(source.scan().to_arrow())
    catalog.migrate_table("iceberg", source.metadata_location, "db.t")
    assert shown(catalog.table("db.t").to_arrow()) == wanted


def test_what_iceberg_declares_is_named_and_deletes_are_refused(catalog, tmp_path):
    schema = IcebergSchema(
        NestedField(1, "k", LongType(), required=True),
        NestedField(2, "i", IntegerType()),
        NestedField(3, "s", StructType(NestedField(4, "x", LongType(), required=True))),
        identifier_field_ids=[1],
    )
    source = memory_catalog(f"file://{tmp_path}/ice").create_table("t", schema=schema)
    source.append(
        pa.Table.from_pylist([{"k": 1, "i": 2, "s": {"x": 3}}], schema=source.schema().as_arrow())
    )
    with source.update_spec() as spec:
        spec.add_field("k", "bucket[4]")
    done = catalog.migrate_table("iceberg", source.metadata_location, "db.t")
    assert done.not_null == ("k",)
    assert done.not_carried == (
        "NOT NULL inside s",
        "identifier fields k",
        "partition bucket[4] of k",
    )
    assert shown(catalog.table("db.t").to_arrow()) == shown(source.scan().to_arrow())
    (manifest,) = source.current_snapshot().manifests(source.io)
    path = manifest.manifest_path.removeprefix("file://")
    with open(path, "rb") as file:
        reader = fastavro.reader(file)
        entries, how = list(reader), reader.writer_schema
    entries[0]["data_file"]["content"] = 1
    with open(path, "wb") as file:
        fastavro.writer(file, how, entries)
    with pytest.raises(UnsupportedError, match="rows are deleted by delete files"):
        catalog.migrate_table("iceberg", source.metadata_location, "db.u")
