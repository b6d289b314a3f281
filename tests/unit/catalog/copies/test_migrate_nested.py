"""Nested columns and timestamps of INT96 that move in, and what is said of constraints."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelake
from tidelake import CorruptError, InvalidInputError, UnsupportedError
from tidelake.format.parquet.thrift import inner_structs, read_struct, write_struct

STRUCT = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])
ROWS = pa.table(
    {
        "k": [1, 2, 3],
        "s": pa.array([{"x": 1, "y": ["a", None]}, None, {"x": None, "y": []}], STRUCT),
        "m": pa.array(
            [[("a", {"z": 1})], [], None], pa.map_(pa.string(), pa.struct({"z": "int64"}))
        ),
        "l": pa.array([[[1], None], [], None], pa.list_(pa.list_(pa.int16()))),
        "after": ["x", "y", None],
    }
)


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(tmp_path / "wh")


@pytest.fixture
def source(tmp_path):
    place = tmp_path / "src"
    place.mkdir()
    return place


def rows_of(table):
    return table.to_arrow().sort_by("k").to_pylist()


def test_nested_columns_move_in_and_are_evolved(catalog, source):
    pq.write_table(ROWS, source / "a.parquet")
    catalog.migrate_table("parquet", source, "db.t")
    table = catalog.table("db.t")
    assert rows_of(table) == ROWS.to_pylist()
    assert table.count(where="after = 'x'") == 1  # statistics are those of its own column
    table.alter(tidelake.RenameColumn(("s", "x"), "u"), tidelake.AddColumn(("s", "x"), "STRING"))
    new = {"u": 9, "y": None, "x": "new"}
    table.write([{"k": 4, "s": new, "m": None, "l": None, "after": None}])
    wanted = [
        None if s is None else {"u": s["x"], "y": s["y"], "x": None} for s in ROWS["s"].to_pylist()
    ]
    assert [row["s"] for row in rows_of(table)] == [*wanted, new]
    table.compact(full=True)
    assert [row["s"] for row in rows_of(table)] == [*wanted, new]


def test_rows_inside_columns_of_files_are_joined_by_names(catalog, source):
    one = pa.table(
        {"k": [1], "s": pa.array([{"a": 1, "b": 2}], pa.struct({"a": "int32", "b": "int64"}))}
    )
    two = pa.table(
        {"k": [2], "s": pa.array([{"c": "x", "a": 5}], pa.struct({"c": "string", "a": "int64"}))}
    )
    pq.write_table(one, source / "1.parquet")
    pq.write_table(two, source / "2.parquet")
    done = catalog.migrate_table("parquet", source, "db.t")
    assert done.schemas_count == 3
    assert [row["s"] for row in rows_of(catalog.table("db.t"))] == [
        {"a": 1, "b": 2, "c": None},
        {"a": 5, "b": None, "c": "x"},
    ]
    pq.write_table(pa.table({"k": [3], "s": pa.array([{"a": "text"}])}), source / "3.parquet")
    with pytest.raises(InvalidInputError, match=r"3\.parquet|1\.parquet"):
        catalog.migrate_table("parquet", source, "db.u")


def spark_file(path, values, version="4.0.1", **keys):
    """A file as Spark writes it: INT96, which its footer tells the meaning of."""
    said = {"org.apache.spark.version": version, **keys}
    row = {"t": pa.timestamp("us")}
    schema = pa.schema({"k": pa.int64(), **row, "n": pa.struct(row)})
    rows = {"k": range(len(values)), "t": values, "n": [{"t": one} for one in values]}
    how = {"use_deprecated_int96_timestamps": True, "store_schema": False}
    with pq.ParquetWriter(path, schema, **how) as writer:
        writer.write_table(
            pa.table({k: pa.array(v, schema.field(k).type) for k, v in rows.items()})
        )
        writer.add_key_value_metadata(said)


def test_int96_of_spark_counts_in_utc(catalog, source):
    days = [
        dt.datetime(1970, 1, 2, 3, 4, 5, 678901),
        dt.datetime(9999, 12, 31),
        dt.datetime(1, 1, 1),
        None,
    ]
    spark_file(source / "a.parquet", days)
    catalog.migrate_table("parquet", source, "db.t")
    table = catalog.table("db.t")
    wanted = [None if day is None else day.replace(tzinfo=dt.UTC) for day in days]
    found = rows_of(table)
    assert [row["t"] for row in found] == wanted
    assert [row["n"]["t"] for row in found] == wanted
    assert table.count(where="t > TIMESTAMP '9000-01-01 00:00:00Z'") == 1
    assert str(table.table_schema.field("t").type) == "TIMESTAMP(6) WITH LOCAL TIME ZONE"


@pytest.mark.parametrize(
    ("keys", "match"),
    [
        ({"version": "3.0.3"}, r"INT96, by Spark 3\.0\.3"),
        ({"org.apache.spark.legacyINT96": ""}, "calendar of Spark 2"),
    ],
)
def test_int96_in_an_older_calendar_is_refused(catalog, source, keys, match):
    spark_file(source / "a.parquet", [dt.datetime(2024, 1, 1)], **keys)
    with pytest.raises(UnsupportedError, match=match):
        catalog.migrate_table("parquet", source, "db.t", dry_run=True)


def test_a_list_of_an_older_form_is_refused(catalog, source):
    """Two levels: a repeated column in the list itself, as parquet-avro wrote it."""
    schema = pa.schema(
        {"k": pa.int64(), "l": pa.list_(pa.field("element", pa.int32(), nullable=False))}
    )
    pq.write_table(
        pa.table({"k": [1], "l": [[1]]}, schema=schema), source / "a.parquet", store_schema=False
    )
    catalog.migrate_table("parquet", source, "db.ok", dry_run=True)
    _write_two_levels(source / "a.parquet")
    with pytest.raises(
        UnsupportedError, match=r"column 'l\.\w+' is in a list or map of an older form"
    ):
        catalog.migrate_table("parquet", source, "db.t")


def _write_two_levels(path):
    """Take the group ``list`` out of a file's footer: the repeated column stands alone then."""
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    footer = read_struct(data[-8 - length : -8])
    elements = inner_structs(footer, 2)
    repeated, element = elements[3], elements[4]
    element[:] = [field if field[0] != 3 else (3, field[1], b"\x04") for field in element]
    elements.remove(repeated)
    out = write_struct(footer)
    path.write_bytes(data[: -8 - length] + out + len(out).to_bytes(4, "little") + b"PAR1")


def log(place, *lines):
    (place / "_delta_log").mkdir(parents=True, exist_ok=True)
    (place / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, lines)))


def test_the_answer_names_constraints_that_are_kept_and_that_are_not(catalog, source):
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", None], "c": [1, 2]}), source / "f.parquet")
    fields = [
        {"name": "a", "type": "long", "nullable": False, "metadata": {}},
        {"name": "b", "type": "string", "nullable": False, "metadata": {}},
        {
            "name": "c",
            "type": "long",
            "nullable": True,
            "metadata": {"delta.generationExpression": "a", "comment": "as a"},
        },
        {"name": "d", "type": "long", "nullable": True, "metadata": {"CURRENT_DEFAULT": "7"}},
    ]
    log(
        source,
        {"protocol": {"minReaderVersion": 1}},
        {
            "metaData": {
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "configuration": {"delta.constraints.positive": "a > 0"},
            }
        },
        {"add": {"path": "f.parquet", "size": (source / "f.parquet").stat().st_size}},
    )
    done = catalog.migrate_table("delta", source, "db.t", dry_run=True)
    assert done.not_null == ("a",)
    assert done.not_carried == (
        "NOT NULL of b",
        "CHECK positive: a > 0",
        "generation of c: a",
        "DEFAULT of d: 7",
    )
    assert "NOT NULL as there: a; not carried: NOT NULL of b, CHECK positive: a > 0" in str(done)
    catalog.migrate_table("delta", source, "db.t")
    table = catalog.table("db.t")
    assert [row["a"] for row in table.to_arrow().to_pylist()] == [1, 2]
    assert table.table_schema.field("c").description == "as a"
    with pytest.raises(InvalidInputError, match="'a'"):
        table.write([{"a": None, "b": "z", "c": 1, "d": 1}])


def iceberg(place, *names, document=None):
    (place / "metadata").mkdir(parents=True, exist_ok=True)
    made = document or {
        "format-version": 2,
        "schema": {"fields": [{"id": 1, "name": "k", "type": "long"}]},
    }
    for name in names:
        (place / "metadata" / name).write_text(json.dumps(made))


def test_a_file_of_metadata_that_may_have_lost_is_not_taken(catalog, tmp_path):
    uuid = "c0ffee00-1111-2222-3333-4444444444"
    first, newest = f"00000-{uuid}01.metadata.json", f"00001-{uuid}02.metadata.json"
    one = tmp_path / "one"
    iceberg(one, first)
    assert catalog.migrate_table("iceberg", one, "db.one").rows_count == 0
    iceberg(one, newest)
    with pytest.raises(
        InvalidInputError, match=rf"2 files of metadata.*{newest}.*commit that lost"
    ):
        catalog.migrate_table("iceberg", one, "db.t")
    catalog.migrate_table("iceberg", one / "metadata" / first, "db.named")


def test_a_table_of_hadoop_is_at_its_newest_version(catalog, tmp_path):
    place = tmp_path / "hadoop"
    iceberg(place, "v1.metadata.json", "12345678-1111-2222-3333-444444444444.metadata.json")
    two = {"format-version": 2, "schema": {"fields": [{"id": 1, "name": "two", "type": "long"}]}}
    iceberg(place, "v2.metadata.json", document=two)
    (place / "metadata" / "version-hint.text").write_text("1")
    catalog.migrate_table("iceberg", place, "db.t")
    assert catalog.table("db.t").table_schema.field_names == ("two",)
    (place / "metadata" / "version-hint.text").write_text("3")
    with pytest.raises(CorruptError, match="names version 3"):
        catalog.migrate_table("iceberg", place, "db.u")
