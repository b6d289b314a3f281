"""System tables: Paimon's names and columns, and what they say after a few commits."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from tidelake import NotFoundError


@pytest.fixture
def table(catalog):
    made = catalog.create_table(
        "db.t",
        pa.schema({"p": pa.string(), "k": pa.int64(), "v": pa.float64()}),
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": 1},
    )
    made.write([{"p": "a", "k": k, "v": None} for k in range(3)])
    made.write([{"p": "b", "k": 1, "v": 1.5}], commit_user="me", commit_identifier=4)
    made.create_tag("t1", snapshot_id=1)
    return made


def test_snapshots_tell_every_commit(catalog, table):
    got = catalog.table("db.t$snapshots").to_arrow()
    assert got.schema.names[:6] == [
        "snapshot_id",
        "schema_id",
        "commit_user",
        "commit_identifier",
        "commit_kind",
        "commit_time",
    ]
    picked = got.select(
        ["snapshot_id", "schema_id", "commit_kind", "total_record_count", "delta_record_count"]
    ).to_pylist()
    assert [tuple(r.values()) for r in picked] == [(1, 0, "APPEND", 3, 3), (2, 0, "APPEND", 4, 1)]
    assert got["commit_user"][1].as_py() == "me"
    assert got["commit_identifier"].to_pylist() == [2**63 - 1, 4]
    assert table.history() == got


def test_files_tell_what_is_live(catalog, table):
    got = catalog.table("db.t$files").to_arrow(filter="partition = '{a}'").to_pylist()
    assert len(got) == 1
    file = got[0]
    assert file["file_path"].startswith(f"{table.paths.location}/p=a/bucket-0/data-")
    assert (file["bucket"], file["level"], file["record_count"]) == (0, 0, 3)
    assert (file["min_key"], file["max_key"]) == ("[0]", "[2]")
    assert (file["min_sequence_number"], file["max_sequence_number"]) == (0, 2)
    assert file["null_value_counts"] == "{k=0, p=0, v=3}"
    assert file["max_value_stats"] == "{k=2, p=a, v=null}"
    assert (file["file_format"], file["file_source"], file["deleteRowCount"]) == (
        "parquet",
        "APPEND",
        0,
    )


def test_schemas_and_options_tell_the_definition(catalog, table):
    row = catalog.table("db.t$schemas").to_arrow().to_pylist()[0]
    assert json.loads(row["fields"])[0] == {"id": 0, "name": "p", "type": "STRING NOT NULL"}
    assert json.loads(row["primary_keys"]) == ["p", "k"]
    assert catalog.table("db.t$options").to_arrow().to_pylist() == [{"key": "bucket", "value": "1"}]


def test_tags_and_partitions(catalog, table):
    tags = catalog.table("db.t$tags")
    assert tags.to_arrow(columns=["tag_name", "snapshot_id", "record_count"]).to_pylist() == [
        {"tag_name": "t1", "snapshot_id": 1, "record_count": 3}
    ]
    parts = catalog.table("db.t$partitions").to_arrow().sort_by("partition").to_pylist()
    assert [(p["partition"], p["record_count"], p["file_count"]) for p in parts] == [
        ("p=a", 3, 1),
        ("p=b", 1, 1),
    ]


def test_system_tables_go_where_tables_go(catalog, table):
    system = catalog.table("db.t$snapshots")
    assert system.count() == len(system.to_pandas()) == len(system.to_polars()) == 2
    assert pa.table(system) == system.to_arrow()
    assert "snapshot_id" in repr(system)
    assert "<td>APPEND</td>" in system._repr_html_()
    with pytest.raises(NotFoundError, match="Did you mean 'commit_user'"):
        system.to_arrow(columns=["commit_usr"])
