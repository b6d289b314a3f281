"""The tables of a change feed, made and checked; no session runs."""

import dataclasses

import pytest
from pyspark.sql import types as st

import tidelake
from tidelake.errors import InvalidInputError
from tidelake.spark.streams.applychanges.definition import FeedDefinition
from tidelake.spark.streams.applychanges.target_tables import target_tables

COLUMNS = st.StructType(
    [
        st.StructField("k", st.LongType()),
        st.StructField("v", st.StringType()),
        st.StructField("at", st.TimestampNTZType()),
        st.StructField("n", st.IntegerType()),
    ]
)
ONE = FeedDefinition(
    "d.t",
    ("k",),
    ("k", "v", "at"),
    ("at",),
    (st.TimestampNTZType(),),
    has_own_sequence=True,
    keeps_versions=False,
)
TWO = dataclasses.replace(
    ONE,
    sequence_names=("at", "n"),
    sequence_types=(st.TimestampNTZType(), st.IntegerType()),
    has_own_sequence=False,
    keeps_versions=True,
)


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(tmp_path)


def made(catalog, definition, **options):
    return target_tables(catalog, definition, COLUMNS, options)


def test_type_1_is_ordered_by_its_own_column_and_keeps_deletes(catalog):
    tables = made(catalog, ONE, bucket=2)
    assert tables.target.primary_keys == ("k",)
    assert tables.target.options.raw["sequence.field"] == "at"
    assert list(tables.target.schema.names) == ["k", "v", "at"]
    assert tables.kept.primary_keys == ("k",)
    assert list(tables.kept.schema.names) == ["k", "__SEQUENCE", "__OPERATION"]
    assert tables.kept.options.raw["sequence.field"] == "__SEQUENCE"
    assert tables.kept.options.raw["bucket"] == "2"


def test_type_1_has_a_column_for_a_sequence_that_is_left_out(catalog):
    of = dataclasses.replace(ONE, columns=("k", "v"), has_own_sequence=False)
    tables = made(catalog, of)
    assert list(tables.target.schema.names) == ["k", "v", "__SEQUENCE"]
    assert tables.target.options.raw["sequence.field"] == "__SEQUENCE"


def test_type_2_has_a_row_for_each_start(catalog):
    tables = made(catalog, TWO, bucket=2)
    assert tables.target.primary_keys == ("k", "__START_AT_at", "__START_AT_n")
    ends = ["__END_AT_at", "__END_AT_n"]
    starts = ["__START_AT_at", "__START_AT_n"]
    assert list(tables.target.schema.names) == ["k", "v", "at", *starts, *ends]
    assert tables.target.options.raw["bucket-key"] == "k"
    kept = ("k", "__SEQUENCE_at", "__SEQUENCE_n", "__OPERATION")
    assert tables.kept.primary_keys == kept


def test_all_changes_are_kept_where_rows_do_not_tell_them(catalog):
    for name, given in (("a", {"ignores_nulls": True}), ("b", {"tracked": ("v",)})):
        of = dataclasses.replace(TWO, table=f"d.{name}", **given)
        assert list(made(catalog, of).kept.schema.names)[-2:] == ["v", "at"]


def test_the_same_arguments_find_the_same_tables(catalog):
    made(catalog, ONE)
    again = made(catalog, ONE)
    assert again.target.handle.schema.id == again.kept.handle.schema.id == 0
    assert catalog.list_tables("d") == ["t", "t__apply_changes"]


MISFITS = [
    ({"columns": {"k": "BIGINT", "v": "STRING"}}, "has no column 'at'"),
    ({"primary_keys": ["v"]}, "primary key is v, not k"),
    ({"options": {}}, "'sequence.field' is not set, not at"),
    ({"options": {"merge-engine": "partial-update"}}, "merge engine is 'partial-update'"),
    ({"options": {"ignore-delete": True}}, "ignores deletes"),
    ({"options": {"bucket": -2}}, "postpone bucket"),
    ({"options": {"sequence.field.sort-order": "descending"}}, "descending"),
    ({"columns": {"at": "TIMESTAMP(3)"}}, "needs microseconds"),
    ({"columns": {"more": "INT"}}, "'more' is none of the changes"),
    ({"columns": {"v": "STRING NOT NULL"}}, "'v' is NOT NULL"),
    ({"partition_keys": ["v"], "options": {}}, "may change its partition"),
]


@pytest.mark.parametrize(("given", "message"), MISFITS, ids=[m for _, m in MISFITS])
def test_a_table_that_does_not_fit_is_refused(catalog, given, message):
    base = {"k": "BIGINT", "v": "STRING", "at": "TIMESTAMP(6)"}
    asked = given.get("columns", {})
    fields = asked if "no column" in message else {**base, **asked}
    options = given.get("options", {})
    if options or "options" not in given:
        options = {"bucket": 1, "sequence.field": "at", **options}
    if "at" not in fields:
        del options["sequence.field"]
    catalog.create_table(
        "d.t",
        fields,
        primary_keys=given.get("primary_keys", ["k"]),
        partition_keys=given.get("partition_keys", []),
        options=options,
    )
    with pytest.raises(InvalidInputError, match=message):
        made(catalog, ONE)
    assert not catalog.table_exists("d.t__apply_changes")


def test_kept_changes_are_for_one_table_and_one_set_of_arguments(catalog):
    made(catalog, ONE)
    with pytest.raises(InvalidInputError, match="ignore_null_updates was False, not True"):
        made(catalog, dataclasses.replace(ONE, ignores_nulls=True))
    catalog.drop_table("d.t")
    with pytest.raises(InvalidInputError, match="which was dropped"):
        made(catalog, ONE)
    assert not catalog.table_exists("d.t")
    catalog.create_table(
        "d.t",
        {"k": "BIGINT", "v": "STRING", "at": "TIMESTAMP(6)"},
        primary_keys=["k"],
        options={"sequence.field": "at"},
    )
    with pytest.raises(InvalidInputError, match="which was dropped"):
        made(catalog, ONE)


def test_rows_without_their_changes_are_refused_where_changes_are_needed(catalog):
    tables = made(catalog, ONE)
    catalog.drop_table("d.t__apply_changes")
    tables.target.write([{"k": 1, "v": "x", "at": None}])
    assert made(catalog, ONE).kept.primary_keys == ("k",)
    catalog.drop_table("d.t__apply_changes")
    with pytest.raises(InvalidInputError, match="begin with an empty table"):
        made(catalog, dataclasses.replace(ONE, ignores_nulls=True))
