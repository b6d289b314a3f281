"""ALTER: what is allowed, what follows, and what is said where it is not."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

import tidelake
from tidelake import (
    AddColumn,
    AlreadyExistsError,
    DropColumn,
    InvalidInputError,
    NotFoundError,
    Position,
    RemoveOption,
    RenameColumn,
    SetOption,
    UnsupportedError,
    UpdateColumnComment,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
)
from tidelake.types import parse_type

COLUMNS = pa.schema(
    {
        "p": pa.string(),
        "k": pa.int64(),
        "a": pa.int32(),
        "b": pa.string(),
        "r": pa.struct({"x": pa.int32(), "y": pa.string()}),
        "l": pa.list_(pa.struct({"z": pa.int32()})),
        "m": pa.map_(pa.string(), pa.int32()),
    }
)
ROW = {
    "p": "x",
    "k": 1,
    "a": 5,
    "b": "7",
    "r": {"x": 1, "y": "u"},
    "l": [{"z": 9}],
    "m": [("q", 3)],
}


@pytest.fixture
def table(catalog):
    made = catalog.create_table(
        "db.t",
        COLUMNS,
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": 2},
        comment="first",
    )
    made.write([ROW])
    return made


def types(table):
    return {f.name: str(f.type) for f in table.table_schema.fields}


def ids(table):
    return {f.name: f.id for f in table.table_schema.fields}


def only_row(table, **scan):
    (row,) = table.to_arrow(**scan).to_pylist()
    return row


# ---- columns


def test_a_column_is_added_where_it_is_wanted(table):
    table.add_column("z", "DECIMAL(10, 2)", comment="last")
    table.add_column("first", pa.int8(), first=True)
    table.add_column("after", parse_type("DATE"), after="k")
    table.add_column("before", pa.timestamp("us", "UTC"), before="k")
    names = ["first", "p", "before", "k", "after", "a", "b", "r", "l", "m", "z"]
    assert table.schema.names == names
    assert types(table)["before"] == "TIMESTAMP(6) WITH LOCAL TIME ZONE"
    assert table.table_schema.field("z").description == "last"
    assert table.table_schema.highest_field_id == 13
    assert [ids(table)[n] for n in ("z", "first", "after", "before")] == [10, 11, 12, 13]
    assert table.table_schema.id == 4
    assert only_row(table)["z"] is None


def test_ids_inside_a_new_column_come_after_its_own(table):
    row = pa.struct({"u": pa.int32(), "v": pa.struct({"w": pa.int32()})})
    table.add_column("n", row)
    n = table.table_schema.field("n")
    assert n.id == 10
    inner = n.type.children[1]
    assert sorted([i for i, _ in (*n.type.child_fields, *inner.child_fields)]) == [11, 12, 13]
    assert table.table_schema.highest_field_id == 13
    assert table.drop_column("n").add_column("n", "INT").table_schema.field("n").id == 14


def test_the_object_itself_has_the_new_schema_and_so_has_who_opens_the_table(table, catalog):
    other = catalog.table("db.t")
    assert table.rename_column("a", "c") is table
    assert table.schema.names == catalog.table("db.t").schema.names
    assert other.schema.names == COLUMNS.names
    assert pickle.loads(pickle.dumps(table)).schema.names == table.schema.names


def test_a_renamed_column_keeps_its_values_and_a_new_one_of_its_name_has_none(table):
    table.alter(RenameColumn("a", "c"), AddColumn("a", "INT"))
    assert only_row(table) == ROW | {"a": None, "c": 5}
    table.alter(DropColumn("a"), RenameColumn("c", "a"))
    assert only_row(table) == ROW


def test_a_primary_key_column_is_renamed_in_the_key(table):
    table.rename_column("k", "id")
    assert table.primary_keys == ("p", "id")
    table.write([{**{k: v for k, v in ROW.items() if k != "k"}, "id": 1, "a": 6}])
    assert only_row(table)["a"] == 6
    table.delete([{"p": "x", "id": 1}])
    assert table.count() == 0


def test_types_change_and_old_values_are_cast(table):
    table.alter(UpdateColumnType("a", "STRING"), UpdateColumnType("b", pa.int16()))
    assert (only_row(table)["a"], only_row(table)["b"]) == ("5", 7)
    table.retype_column("a", "TINYINT")
    assert only_row(table)["a"] == 5
    assert only_row(table, snapshot_id=1) == ROW
    table.compact(full=True)
    assert (only_row(table)["a"], only_row(table)["b"]) == (5, 7)


def test_what_lies_inside_columns_changes_by_path(table):
    table.add_column(("r", "new"), "INT", first=True)
    table.rename_column(("r", "x"), "xx")
    table.drop_column(("r", "y"))
    table.retype_column(("l", "element", "z"), "BIGINT")
    table.add_column(("l", "element", "more"), "STRING")
    table.retype_column(("m", "value"), "STRING")
    table.set_comment("deep", column=("r", "xx"))
    assert only_row(table) == ROW | {
        "r": {"new": None, "xx": 1},
        "l": [{"z": 9, "more": None}],
        "m": [("q", "3")],
    }
    assert table.table_schema.field("r").type.child_details == ((None, None), ("deep", None))
    ids_inside = table.table_schema.field("r").type.child_fields
    assert ids_inside == ((10, "new"), (5, "xx"))
    table.write([only_row(table)])
    assert table.count() == 1
    table.compact(full=True)
    assert only_row(table)["m"] == [("q", "3")]


@pytest.mark.parametrize(
    ("where", "names"),
    [
        (Position.first(), "akbr"),
        (Position.last(), "kbra"),
        (Position.after("b"), "kbar"),
        (Position.before("k"), "akbr"),
        (Position.before("r"), "kbar"),
    ],
)
def test_a_column_moves(catalog, where, names):
    table = catalog.create_table("db.m", pa.schema({c: pa.int32() for c in "kabr"}))
    table.write([{"k": 1, "a": 2, "b": 3, "r": 4}])
    table.alter(UpdateColumnPosition("a", where))
    assert "".join(table.schema.names) == names
    assert only_row(table) == {"k": 1, "a": 2, "b": 3, "r": 4}


def test_nullability_comments_and_defaults(table):
    table.set_options({"alter-column-null-to-not-null.disabled": False})
    table.set_nullable("a", nullable=False)
    assert types(table)["a"] == "INT NOT NULL"
    table.retype_column("a", "BIGINT")
    assert types(table)["a"] == "BIGINT NOT NULL"
    table.alter(UpdateColumnType("a", "BIGINT", keep_nullability=False))
    assert types(table)["a"] == "BIGINT"
    table.set_comment("now").set_comment("col", column="a").set_default("a", "5")
    assert table.table_schema.comment == "now"
    field = table.table_schema.field("a")
    assert (field.description, field.default_value) == ("col", "5")
    table.set_comment(None).set_comment(None, column="a").set_default("a", None)
    field = table.table_schema.field("a")
    assert (table.table_schema.comment, field.description, field.default_value) == (None,) * 3


def test_a_column_of_the_watermark_stays(catalog):
    """Without it Flink opens the table no more."""
    options = {
        "schema.watermark.0.rowtime": "at",
        "schema.watermark.0.strategy.expr": "`at` - INTERVAL '5' SECOND",
    }
    columns = pa.schema({"id": pa.int64(), "at": pa.timestamp("ms")})
    table = catalog.create_table("d.watched", columns, options=options)
    for change in (DropColumn("at"), RenameColumn("at", "time")):
        with pytest.raises(
            InvalidInputError, match=r"The watermark of table 'd\.watched' names column 'at'"
        ):
            table.alter(change)
    table.alter(*(RemoveOption(key) for key in options), RenameColumn("at", "time"))
    assert table.schema.names == ["id", "time"]


def test_a_default_stands_in_for_every_null_that_is_written_later(table):
    table.set_default("a", "'42'").set_default("b", "none")
    table.write([{**ROW, "k": 2, "a": None, "b": None}, {**ROW, "k": 3}])
    found = {r["k"]: (r["a"], r["b"]) for r in table.to_arrow().to_pylist()}
    assert found == {1: (5, "7"), 2: (42, "none"), 3: (5, "7")}
    table.add_column("new", "DATE").set_default("new", "2024-01-31")
    assert {r["new"] for r in table.to_arrow().to_pylist()} == {None}
    table.write([{**ROW, "k": 4, "new": None}])
    assert table.count(where="new = '2024-01-31'") == 1
    with pytest.raises(InvalidInputError, match="'forty' cannot be cast"):
        table.set_default("a", "forty")
    with pytest.raises(UnsupportedError, match="no cast"):
        table.set_default("r", "{}")


# ---- what is refused


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (AddColumn("a", "INT"), AlreadyExistsError, "has a column 'a' already"),
        (AddColumn("n", "INT NOT NULL"), InvalidInputError, "'n' cannot be added .* NOT NULL"),
        (AddColumn("n", "INT", None, Position.after("aa")), NotFoundError, "'aa'.*mean 'a'"),
        (AddColumn("n", "INTT"), InvalidInputError, "'n'.*'INTT' is not a Paimon type"),
        (AddColumn("n", 7), InvalidInputError, "7 is not a type for column 'n'"),
        (AddColumn("_KEY_n", "INT"), InvalidInputError, "data files reserve"),
        (AddColumn("", "INT"), InvalidInputError, "is not a column"),
        (AddColumn(("a", "n"), "INT"), NotFoundError, r"no column 'a\.n'"),
        (AddColumn(("r", "x"), "INT"), AlreadyExistsError, r"'r\.x' already"),
        (AddColumn(("l", "element"), "INT"), InvalidInputError, "is an element or a value"),
        (DropColumn("p"), UnsupportedError, "partition key.*cannot be dropped"),
        (DropColumn("k"), UnsupportedError, "primary key.*cannot be dropped"),
        (DropColumn("zz"), NotFoundError, "no column 'zz'.*There are: p, k, a"),
        (DropColumn(("l", "element", "z")), InvalidInputError, "its last column"),
        (DropColumn(("m", "value")), InvalidInputError, "is an element or a value"),
        (DropColumn(("m", "key")), NotFoundError, r"'m\.key'"),
        (RenameColumn("p", "q"), UnsupportedError, "partition key.*cannot be renamed"),
        (RenameColumn("a", "b"), AlreadyExistsError, "has a column 'b' already"),
        (RenameColumn("a", "rowkind"), InvalidInputError, "data files reserve"),
        (RenameColumn("A", "q"), NotFoundError, "mean 'a'"),
        (UpdateColumnType("p", "INT"), UnsupportedError, "partition key"),
        (UpdateColumnType("k", "STRING"), UnsupportedError, "primary key.*another type"),
        (UpdateColumnType("a", "DATE"), InvalidInputError, "cannot change from INT to DATE"),
        (UpdateColumnType("r", "STRING"), InvalidInputError, "values cannot be cast"),
        (UpdateColumnType("l", pa.list_(pa.int32())), InvalidInputError, "inside it"),
        (UpdateColumnNullability("a", nullable=False), InvalidInputError, "not-null.disabled"),
        (UpdateColumnNullability("k", nullable=True), UnsupportedError, "made nullable"),
        (UpdateColumnType("a", "BIGINT NOT NULL", keep_nullability=False), InvalidInputError,
         "cannot become NOT NULL"),
        (UpdateColumnComment(("m", "value"), "x"), InvalidInputError, "cannot have a comment"),
        (UpdateColumnComment("a", 5), InvalidInputError, "must be a text, not 5"),
        (UpdateColumnPosition("a", Position.after("a")), InvalidInputError, "next to itself"),
        (SetOption("bucket-key", "k"), UnsupportedError, "'bucket-key'.*is fixed"),
        (SetOption("merge-engine", "first-row"), UnsupportedError, "is fixed"),
        (SetOption("bucket", -1), UnsupportedError, "cannot become -1"),
        (RemoveOption("bucket"), UnsupportedError, "cannot be removed"),
        (SetOption("bukcet", 1), InvalidInputError, "unknown option.*'bucket'"),
        (SetOption("sequence.field", "zz"), InvalidInputError, "'zz'"),
        (SetOption("path", "/elsewhere"), InvalidInputError, "path"),
        ("rename a to b", InvalidInputError, "is not a change of table"),
    ],
)  # fmt: skip
def test_what_is_not_allowed_is_refused_and_nothing_is_written(
    table, catalog, change, error, words
):
    with pytest.raises(error, match=words):
        table.alter(change)
    with pytest.raises(error, match=words):  # nor does one after it make it right
        catalog.alter_table("db.t", [AddColumn("fine", "INT"), change])
    assert catalog.table("db.t").table_schema.id == 0
    assert only_row(table) == ROW


def test_the_last_column_stays(catalog):
    table = catalog.create_table("db.one", pa.schema({"a": pa.int32()}))
    with pytest.raises(InvalidInputError, match="its last column"):
        table.drop_column("a")
    table.alter(AddColumn("b", "INT"), DropColumn("a"))
    assert table.schema.names == ["b"]


def test_casts_that_lose_are_refused_where_the_table_says_so(table):
    table.set_options({"disable-explicit-type-casting": True})
    with pytest.raises(InvalidInputError, match=r"'disable-explicit-type-casting'.*forbids"):
        table.retype_column("a", "SMALLINT")
    table.retype_column("a", "BIGINT")


# ---- options


def test_options_follow_a_renamed_column(catalog):
    table = catalog.create_table(
        "db.o",
        pa.schema({"k": pa.int64(), "j": pa.int64(), "s": pa.int32()}),
        primary_keys=["k", "j"],
        options={"bucket": 2, "bucket-key": "j,k", "sequence.field": "s"},
    )
    table.write([{"k": 1, "j": 1, "s": 1}])
    table.alter(RenameColumn("j", "i"), RenameColumn("s", "t"), RenameColumn("t", "u"))
    assert table.table_schema.options["bucket-key"] == "i,k"
    assert table.table_schema.options["sequence.field"] == "u"
    table.write([{"k": 1, "i": 1, "u": 0}])
    assert only_row(table) == {"k": 1, "i": 1, "u": 1}
    assert only_row(table, snapshot_id=1) == {"k": 1, "j": 1, "s": 1}
    assert only_row(table, snapshot_id=2) == {"k": 1, "i": 1, "u": 1}
    assert table.changes(1).num_rows == 0
    with pytest.raises(InvalidInputError, match="'u'"):
        table.drop_column("u")


LINES = pa.list_(pa.struct({"item": pa.string(), "pieces": pa.int32()}))


def test_settings_of_a_function_follow_a_renamed_column(catalog):
    table = catalog.create_table(
        "db.o",
        pa.schema({"k": pa.int32(), "v": LINES}),
        primary_keys=["k"],
        options={
            "bucket": 1,
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "nested_update",
            "fields.v.nested-key": "item",
            "fields.v.count-limit": 2,
            "fields.v.ignore-retract": "true",
            "fields.v.stats-mode": "none",
        },
    )
    table.alter(RenameColumn("v", "w"))
    assert {key: v for key, v in table.table_schema.options.items() if "fields." in key} == {
        "fields.w.aggregate-function": "nested_update",
        "fields.w.nested-key": "item",
        "fields.w.count-limit": "2",
        "fields.w.ignore-retract": "true",
        "fields.w.stats-mode": "none",
    }


def test_a_nested_key_stays_when_a_column_of_its_name_is_renamed(catalog):
    table = catalog.create_table(
        "db.o",
        pa.schema({"k": pa.int32(), "item": pa.string(), "v": LINES}),
        primary_keys=["k"],
        options={
            "bucket": 1,
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "nested_update",
            "fields.v.nested-key": "item",
        },
    )
    table.alter(RenameColumn("item", "other"))
    assert table.table_schema.options["fields.v.nested-key"] == "item"
    for pieces in (1, 2):
        table.write([{"k": 1, "other": "", "v": [{"item": "a", "pieces": pieces}]}])
    assert only_row(table)["v"] == [{"item": "a", "pieces": 2}]


def test_options_are_set_for_all_and_those_of_one_use_stay(table, catalog):
    mine = table.copy({"write-only": True, "bucket": 2})
    mine.set_options({"num-sorted-run.compaction-trigger": 7, "snapshot.num-retained.max": 90})
    assert mine.options.raw["write-only"] == "true"
    stored = catalog.table("db.t")
    assert "write-only" not in stored.options.raw
    assert stored.options.raw["num-sorted-run.compaction-trigger"] == "7"
    assert mine.options.raw["num-sorted-run.compaction-trigger"] == "7"
    mine.reset_options(["num-sorted-run.compaction-trigger"])
    assert "num-sorted-run.compaction-trigger" not in catalog.table("db.t").options.raw
    assert mine.options.raw["write-only"] == "true"
    rows = {r["key"]: r["value"] for r in catalog.table("db.t$options").to_arrow().to_pylist()}
    assert rows["snapshot.num-retained.max"] == "90"


def test_before_the_first_write_every_option_may_change(catalog):
    table = catalog.create_table("db.n", COLUMNS, primary_keys=["k"], options={"bucket": 1})
    table.set_options({"bucket": 3, "bucket-key": "k"})
    table.write([ROW])
    with pytest.raises(UnsupportedError, match=r"'bucket-key'.*fixed"):
        table.reset_options("bucket-key")
    table.set_options({"bucket-key": "k"})  # as it is


def test_a_new_number_of_buckets_counts_after_an_overwrite(table):
    table.set_options({"bucket": 3})
    with pytest.raises(InvalidInputError, match="written with 2 buckets"):
        table.write([ROW])
    table.write([ROW], mode="overwrite")
    assert only_row(table) == ROW


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_files_of_every_format_are_read_by_id_and_cast(catalog, file_format):
    table = catalog.create_table(
        "db.f",
        pa.schema({"k": pa.int64(), "a": pa.int32(), "s": pa.string()}),
        primary_keys=["k"],
        options={"bucket": 1, "file.format": file_format},
    )
    table.write([{"k": 1, "a": 383, "s": "7"}])
    table.alter(
        RenameColumn("a", "b"), UpdateColumnType("b", "TINYINT"), UpdateColumnType("s", "INT"),
        RenameColumn("k", "id"), AddColumn("a", "DATE", None, Position.first()),
    )  # fmt: skip
    assert only_row(table, where="b = 127 AND s < 8") == {"a": None, "id": 1, "b": 127, "s": 7}
    assert table.count(where="s > 7") == 0
    assert only_row(table, snapshot_id=1) == {"k": 1, "a": 383, "s": "7"}
    table.set_options({"file.format": "parquet"})
    table.write([{"a": None, "id": 2, "b": 1, "s": 1}])
    table.compact(full=True)
    assert sorted(r["b"] for r in table.to_arrow().to_pylist()) == [1, 127]


def test_columns_that_files_of_the_table_cannot_hold_are_refused(catalog):
    fields = pa.schema(
        {"k": pa.int64(), "t": pa.timestamp("us"), "r": pa.struct({"x": pa.int32()})}
    )
    table = catalog.create_table("db.c", fields)
    with pytest.raises(UnsupportedError, match="would mix timestamps"):
        table.add_column("fine", pa.timestamp("ns"))
    with pytest.raises(UnsupportedError, match="would mix timestamps"):
        table.add_column(("r", "fine"), pa.timestamp("ns"))
    table.alter(DropColumn("t"), AddColumn("fine", pa.timestamp("ns")))


def test_schemas_are_listed(table, catalog):
    table.add_column("c", "INT").rename_column("c", "d")
    rows = catalog.table("db.t$schemas").to_arrow().to_pylist()
    assert [r["schema_id"] for r in rows] == [0, 1, 2]


# ---- who writes meanwhile


def test_a_writer_with_an_older_schema_goes_on_and_its_file_says_which(table, catalog):
    with table.writer() as out:
        out.write([{**ROW, "k": 2}])
        catalog.table("db.t").alter(
            AddColumn("c", "INT"), RenameColumn("a", "aa"), DropColumn("b"),
            UpdateColumnType(("r", "x"), "STRING"),
        )  # fmt: skip
        out.write([{**ROW, "k": 3}])
    now = catalog.table("db.t")
    rows = now.to_arrow(where="k > 1").to_pylist()
    assert [(r["aa"], r["c"], r["r"]["x"]) for r in rows] == [(5, None, "1")] * 2
    files = catalog.table("db.t$files").to_arrow().to_pylist()
    assert {f["schema_id"] for f in files} == {0}
    assert now.handle.snapshots.latest().schema_id == 1
    now.compact(full=True)
    # files that overlap nothing are only lifted to another level
    assert 1 in {f["schema_id"] for f in catalog.table("db.t$files").to_arrow().to_pylist()}
    assert sorted(r["k"] for r in now.to_arrow(where="aa = 5 AND c IS NULL").to_pylist()) == [
        1,
        2,
        3,
    ]


def test_a_table_altered_by_others_is_altered_from_its_newest_schema(table, catalog):
    catalog.table("db.t").add_column("c", "INT")
    table.add_column("d", "INT")
    assert table.schema.names == [*COLUMNS.names, "c", "d"]
    with pytest.raises(AlreadyExistsError):
        catalog.table("db.t").add_column("d", "INT")


def test_a_table_created_anew_is_not_altered(table, catalog):
    catalog.drop_table("db.t")
    with pytest.raises(NotFoundError, match="dropped"):
        table.add_column("c", "INT")
    catalog.create_table("db.t", pa.schema({"z": pa.int32()}))
    with pytest.raises(NotFoundError, match="recreated"):
        table.add_column("c", "INT")


def test_an_alter_of_nothing_does_nothing(table):
    table.alter().set_options({}).reset_options([])
    assert table.table_schema.id == 0


def test_every_change_class_is_public():
    for name in tidelake.types.schema_change.__all__:
        if not name.startswith(("Column", "SchemaChange")):
            assert hasattr(tidelake, name)
