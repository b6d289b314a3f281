from __future__ import annotations

import dataclasses
from types import MappingProxyType

import pytest

from tidelake.codec.binary_row import serialize_row
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.data_file import EMPTY_STATS, DataFileMeta
from tidelake.metadata.paths import TablePaths
from tidelake.options import Options
from tidelake.scan import ReadContext, Split
from tidelake.spark.read.native_split import native_and_merged
from tidelake.telemetry import Env
from tidelake.types import DataField, TableSchema, parse_type


class Remote(MemoryFileIO):
    is_remote = True


def schema_of(schema_id, *columns):
    fields = tuple(DataField(i, name, parse_type(text)) for i, name, text in columns)
    return TableSchema(schema_id, fields, highest_field_id=9)


NOW = schema_of(1, (0, "k", "BIGINT"), (1, "v", "STRING"), (3, "new", "INT"))


def context_of(*older, location="/w/db.db/t"):
    schemas = {s.id: s for s in (*older, NOW)}
    return ReadContext(
        MemoryFileIO(), TablePaths.of(location, NOW), NOW, Options.parse({}), Env.seeded(1),
        MappingProxyType(schemas),
    )  # fmt: skip


def file_of(name="data-1.parquet", schema_id=1):
    return DataFileMeta(
        name, 10, 1, b"", b"", EMPTY_STATS, EMPTY_STATS, 0, 0, schema_id=schema_id, level=0
    )


def split_of(*files, raw=True):
    return Split(7, serialize_row((), ()), 0, 1, ((tuple(files),),), raw=raw)


def native(context, *splits, names=("k", "v", "new"), case_sensitive=False):
    parts = native_and_merged(context, splits, context.fields(names), case_sensitive=case_sensitive)
    return parts.native, parts.merged


def test_raw_parquet_files_of_the_same_schema_are_one_group():
    one, two = file_of("data-1.parquet"), file_of("data-2.parquet")
    groups, rest = native(context_of(), split_of(one), split_of(two))
    assert [g.paths for g in groups] == [
        ("/w/db.db/t/bucket-0/data-1.parquet", "/w/db.db/t/bucket-0/data-2.parquet")
    ]
    assert rest == []


def test_a_storage_that_spark_does_not_read_keeps_all_files():
    context = dataclasses.replace(context_of(), fileio=Remote())
    groups, rest = native(context, split_of(file_of()))
    assert (groups, len(rest)) == ([], 1)


@pytest.mark.parametrize(
    "name", ["data-1.orc", "_data-1.parquet", ".data-1.parquet", "d[1].parquet", "d*.parquet",
             "d:1.parquet", "d{1}.parquet", "d_COPYING_1.parquet"],
)  # fmt: skip
def test_names_that_spark_would_skip_or_take_for_patterns_stay(name):
    split = split_of(file_of(name))
    assert native(context_of(), split) == ([], [split])


def test_a_location_with_a_pattern_keeps_all_files_from_spark():
    split = split_of(file_of())
    assert native(context_of(location="/w/[x]/t"), split) == ([], [split])


def test_a_split_may_be_parted():
    good, odd = file_of("data-1.parquet"), file_of("_2.parquet")
    groups, rest = native(context_of(), split_of(good, odd))
    assert groups[0].paths == ("/w/db.db/t/bucket-0/data-1.parquet",)
    assert rest == [split_of(odd)]


def test_columns_are_found_by_id_and_may_be_missing():
    old = schema_of(0, (0, "k", "INT"), (1, "old_name", "STRING"))
    groups, rest = native(context_of(old), split_of(file_of(schema_id=0)), split_of(file_of()))
    assert [[f and f.name for f in g.source] for g in groups] == [
        ["k", "old_name", None],
        ["k", "v", "new"],
    ]
    assert rest == []


@pytest.mark.parametrize(
    ("then", "reads_natively"),
    [
        ("TINYINT", True), ("INT", True), ("DOUBLE", False), ("DECIMAL(5, 0)", False),
        ("STRING", False),
    ],
)  # fmt: skip
def test_only_types_that_widen_are_cast_by_spark(then, reads_natively):
    old = schema_of(0, (0, "k", then), (1, "v", "STRING"))
    groups, rest = native(context_of(old), split_of(file_of(schema_id=0)))
    assert (len(groups), len(rest)) == ((1, 0) if reads_natively else (0, 1))


@pytest.mark.parametrize(
    ("then", "now", "reads_natively"),
    [
        ("CHAR(3)", "CHAR(5)", False),
        ("CHAR(3)", "VARCHAR(5)", True),
        ("VARCHAR(5)", "VARCHAR(3)", False),
        ("VARCHAR(5)", "STRING", True),
        ("BINARY(3)", "BINARY(5)", False),
        ("INT", "STRING", False),
        ("FLOAT", "DOUBLE", True),
        ("DECIMAL(5, 2)", "DECIMAL(7, 2)", False),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", False),
        ("STRING", "STRING NOT NULL", False),
        ("STRING NOT NULL", "STRING", True),
    ],
)
def test_a_file_older_than_a_type_goes_to_spark_where_it_casts_alike(then, now, reads_natively):
    old, new = schema_of(0, (0, "k", then)), schema_of(1, (0, "k", now))
    context = dataclasses.replace(context_of(), schema=new, schemas={0: old, 1: new})
    groups, rest = native(context, split_of(file_of(schema_id=0)), names=("k",))
    assert (len(groups), len(rest)) == ((1, 0) if reads_natively else (0, 1))


def test_a_file_with_none_of_the_columns_stays():
    old = schema_of(0, (5, "dropped", "INT"))
    split = split_of(file_of(schema_id=0))
    assert native(context_of(old), split) == ([], [split])


@pytest.mark.parametrize("text", ["TIMESTAMP(9)", "TIME(3)"])
def test_types_that_spark_reads_otherwise_stay(text):
    context = context_of()
    schema = schema_of(1, (0, "k", "BIGINT"), (1, "t", text))
    context = dataclasses.replace(context, schema=schema, schemas={1: schema})
    split = split_of(file_of())
    assert native(context, split, names=("k", "t")) == ([], [split])
    groups, _ = native(context, split, names=("k",))
    assert len(groups) == 1


def test_names_that_differ_in_case_only_need_a_case_sensitive_session():
    schema = schema_of(1, (0, "k", "BIGINT"), (1, "K", "STRING"))
    context = dataclasses.replace(context_of(), schema=schema, schemas={1: schema})
    split = split_of(file_of())
    assert native(context, split, names=("k",)) == ([], [split])
    groups, _ = native(context, split, names=("k",), case_sensitive=True)
    assert len(groups) == 1
