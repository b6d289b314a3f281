"""System tables: Paimon's names and columns, and what they say after a few commits."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import tidelake
from tidelake import (
    CorruptError,
    InvalidInputError,
    NotFoundError,
    TidelakeError,
    UnsupportedError,
)


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
    made.tags.create("t1", snapshot_id=1)
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
    got = catalog.table("db.t$files").to_arrow(where="partition = '{a}'").to_pylist()
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


def test_system_tables_take_the_arguments_of_tables(catalog, table):
    import duckdb

    system = catalog.table("db.t$snapshots")
    wanted = {"columns": ["snapshot_id"], "where": "total_record_count > 3"}
    assert system.to_arrow(**wanted).to_pylist() == [{"snapshot_id": 2}]
    assert system.to_arrow(columns="snapshot_id", limit=1).to_pylist() == [{"snapshot_id": 1}]
    assert system.head(1).num_rows == 1
    assert system.head(columns=["schema_id"]).to_pylist() == [{"schema_id": 0}] * 2
    assert system.count(where="snapshot_id = 1") == 1
    assert system.to_pandas(**wanted)["snapshot_id"].tolist() == [2]
    assert system.to_polars(**wanted)["snapshot_id"].to_list() == [2]
    assert system.to_batches(**wanted).read_all().to_pylist() == [{"snapshot_id": 2}]
    assert system.to_duckdb(**wanted).fetchall() == [(2,)]
    with duckdb.connect() as connection:
        relation = system.to_duckdb(connection)
        assert relation.aggregate("max(snapshot_id)").fetchall() == [(2,)]
    assert catalog.table("db.t$files").count(where=[("record_count", "=", 3)]) == 1


@pytest.mark.parametrize(
    ("scan", "says"),
    [
        ({"limit": -1}, "limit must be"),
        ({"limit": "x"}, "limit must be"),
        ({"columns": ["bucket", "bucket"]}, "more than once"),
        ({"columns": ["buckets"]}, "Did you mean 'bucket'"),
        ({"where": "buckets = 1"}, "Did you mean 'bucket'"),
        ({"where": "bucket >"}, "ends where a value"),
    ],
)
def test_wrong_arguments_are_refused_whether_there_are_rows_or_not(catalog, table, scan, says):
    catalog.create_table("db.empty", table.schema)
    for name in ("db.t$files", "db.empty$files"):
        with pytest.raises(TidelakeError, match=says):
            catalog.table(name).to_arrow(**scan)


def test_a_system_table_shows_itself_in_lines(catalog, table):
    lines = repr(catalog.table("db.t$tags")).splitlines()
    assert lines[0] == "System table db.t$tags, 1 row"
    assert lines[1].split() == [
        "tag_name", "snapshot_id", "schema_id", "commit_time", "record_count", "create_time",
        "time_retained",
    ]  # fmt: skip
    assert lines[2].split()[:3] == ["t1", "1", "0"]
    many = repr(catalog.create_table("db.m", table.schema).system_table("options"))
    assert many == "System table db.m$options, 0 rows\n  key  value"
    for number in range(25):
        table.tags.create(f"x{number:02}")
    assert repr(catalog.table("db.t$tags")).endswith("and 6 more (see to_arrow())")


def test_a_system_table_that_cannot_be_read_still_shows(catalog, table, tmp_path):
    (tmp_path / "warehouse/db.db/t/tag/tag-t1").write_text("{")
    tags = catalog.table("db.t$tags")
    assert "cannot be read" in repr(tags)
    assert "cannot be read" in tags._repr_html_()


def test_the_history_of_a_table_that_lost_a_snapshot_names_it(keyed):
    for k in range(5):
        keyed.write([{"k": k, "v": "x", "n": k}])
    keyed.fileio.delete(keyed.paths.snapshot(3))
    with pytest.raises(CorruptError, match="snapshot-3 is missing"):
        keyed.history()
    keyed.fileio.delete(keyed.paths.snapshot(5))  # the newest: as a rollback leaves it
    assert sorted(keyed.to_arrow()["k"].to_pylist()) == [0, 1, 2, 3]
    keyed.write([{"k": 9, "v": "x", "n": 9}])
    assert sorted(keyed.to_arrow()["k"].to_pylist()) == [0, 1, 2, 3, 9]


@pytest.mark.parametrize("name", ["files", "partitions", "buckets", "manifests"])
def test_what_a_snapshot_holds_can_be_seen_at_any_moment(catalog, table, name):
    system = catalog.table(f"db.t${name}")
    assert (system.count(), system.count(snapshot_id=1), system.count(tag="t1")) == (2, 1, 1)
    assert table.copy({"scan.snapshot-id": 1}).system_table(name).count() == 1
    with pytest.raises(InvalidInputError, match="Give one of"):
        system.to_arrow(snapshot_id=1, tag="t1")


@pytest.mark.parametrize("name", ["snapshots", "schemas", "options", "tags"])
def test_what_is_of_no_moment_says_so(catalog, table, name):
    with pytest.raises(InvalidInputError, match="does not show one moment"):
        catalog.table(f"db.t${name}").to_arrow(snapshot_id=1)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.write([{"a": 1}]),
        lambda t: t.writer(),
        lambda t: t.delete("a = 1"),
        lambda t: t.compact(full=True),
        lambda t: t.scan(columns=["a"]),
        lambda t: t.explain(),
        lambda t: t.changes(1),
        lambda t: t.copy({}),
        lambda t: t.update({"bucket": 1}),
        lambda t: t.rollback_to(1),
        lambda t: t.maintenance.analyze(),
        lambda t: t.maintenance.purge_files(),
    ],
)
def test_a_system_table_is_only_read(catalog, table, call):
    with pytest.raises(UnsupportedError, match=r"db\.t\$files' is a system table.*open 'db\.t'"):
        call(catalog.table("db.t$files"))


def test_files_say_that_all_rows_are_null_in_a_column_that_came_later(catalog, table):
    catalog.table("db.t").alter(tidelake.AddColumn("later", "INT"))
    for file in catalog.table("db.t$files").to_arrow().to_pylist():
        assert f"later={file['record_count']}, " in file["null_value_counts"]
        assert "later=null, " in file["min_value_stats"]


def test_branches_and_consumers_of_paimon_are_shown(catalog, table):
    location, files = table.paths.location, table.fileio
    assert catalog.table("db.t$branches").count() == catalog.table("db.t$consumers").count() == 0
    for name in ("b", "a-1"):
        files.write_once(f"{location}/branch/branch-{name}/schema/schema-0", b"{}")
    files.write_once(f"{location}/branch/note", b"")
    branches = catalog.table("db.t$branches").to_arrow()
    assert branches["branch_name"].to_pylist() == ["a-1", "b"]
    assert branches["create_time"].null_count == 0
    files.write_once(f"{location}/consumer/consumer-x.y", b'{"nextSnapshot" : 3}')
    files.write_once(f"{location}/consumer/.consumer-z.tmp", b"")
    consumers = catalog.table("db.t$consumers")
    assert consumers.to_arrow().to_pylist() == [{"consumer_id": "x.y", "next_snapshot_id": 3}]
    files.write_once(f"{location}/consumer/consumer-bad", b'{"nextSnapshot" : "3"}')
    with pytest.raises(CorruptError, match="consumer-bad has no nextSnapshot"):
        consumers.to_arrow()


def test_aggregation_fields_show_the_options_of_each_column(catalog):
    columns = pa.schema({"k": pa.int64(), "v": pa.int32(), "w": pa.string()})
    options = {
        "bucket": 1,
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "fields.v.ignore-retract": "true",
        "fields.default-aggregate-function": "last_value",
    }
    made = catalog.create_table("db.agg", columns, primary_keys=["k"], options=options)
    made.set_comment("a note", column="w")
    shown = made.system_table("aggregation_fields").to_arrow()
    rows = [tuple(row.values()) for row in shown.to_pylist()]
    assert rows == [
        ("k", "BIGINT NOT NULL", "[]", "[]", None),
        (
            "v",
            "INT",
            "[sum, true]",
            "[fields.v.aggregate-function, fields.v.ignore-retract]",
            None,
        ),
        ("w", "STRING", "[]", "[]", "a note"),
    ]


def test_table_indexes_show_hashes_and_deletion_vectors(catalog):
    columns = pa.schema({"k": pa.int64()})
    dynamic = catalog.create_table("db.dynamic", columns, primary_keys=["k"])
    dynamic.write([{"k": k} for k in range(3)])
    [row] = dynamic.system_table("table_indexes").to_arrow().to_pylist()
    assert (row["partition"], row["bucket"], row["index_type"]) == ("{}", 0, "HASH")
    assert (row["file_size"], row["row_count"], row["dv_ranges"]) == (12, 3, None)
    marked = catalog.create_table("db.m", columns, options={"deletion-vectors.enabled": "true"})
    marked.write([{"k": k} for k in range(4)])
    marked.delete("k = 1 or k = 3")
    shown = marked.system_table("table_indexes")
    [row] = shown.to_arrow(where="index_type = 'DELETION_VECTORS'").to_pylist()
    [vector] = row["dv_ranges"]
    assert list(vector) == ["f0", "f1", "f2", "_CARDINALITY"]
    assert vector["f0"] in marked.system_table("files").to_arrow()["file_path"][0].as_py()
    assert (vector["f1"], vector["_CARDINALITY"]) == (1, 2)
    assert (shown.count(), shown.count(snapshot_id=1)) == (1, 0)


def test_the_manifests_of_a_changelog_are_shown_too(catalog):
    options = {"bucket": 1, "changelog-producer": "input"}
    made = catalog.create_table("db.l", pa.schema({"k": pa.int64()}), primary_keys=["k"],
                                options=options)  # fmt: skip
    made.write([{"k": 1}])
    made.write([{"k": 2}])
    shown = made.system_table("manifests")
    assert (shown.count(snapshot_id=1), shown.count()) == (2, 3)
    assert shown.to_arrow()["num_added_files"].to_pylist() == [1, 1, 1]


def test_a_table_without_partition_keys_is_one_partition(catalog):
    made = catalog.create_table("db.one", pa.schema({"k": pa.int64()}))
    assert made.system_table("partitions").count() == 0
    made.write([{"k": 1}])
    made.write([{"k": 2}])
    [row] = made.system_table("partitions").to_arrow().to_pylist()
    assert (row["partition"], row["record_count"], row["file_count"]) == ("{}", 2, 2)
