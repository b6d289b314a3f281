"""Which changes are files that Spark gives as they are."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest

from tidelake.codec.binary_row import serialize_row
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.data_file import EMPTY_STATS, DataFileMeta
from tidelake.metadata.index.deletion_file import DeletionRange
from tidelake.metadata.paths import TablePaths
from tidelake.options import Options
from tidelake.scan import ReadContext, Split
from tidelake.spark.read.native_changes import plain_units
from tidelake.telemetry import Env
from tidelake.types import DataField, TableSchema, parse_type

APPEND = TableSchema(
    1,
    (DataField(0, "k", parse_type("BIGINT")), DataField(1, "v", parse_type("STRING"))),
    highest_field_id=1,
)
KEYED = replace(
    APPEND,
    fields=(replace(APPEND.fields[0], type=parse_type("BIGINT NOT NULL")), APPEND.fields[1]),
    primary_keys=("k",),
)


def context_of(schema):
    old = replace(schema, id=0, fields=(schema.fields[0], replace(schema.fields[1], name="w")))
    return ReadContext(
        MemoryFileIO(), TablePaths.of("/w/t", schema), schema, Options.parse({}), Env.seeded(1),
        MappingProxyType({0: old, 1: schema}),
    )  # fmt: skip


def file(name, *, size=10, schema_id=1):
    return DataFileMeta(
        name, size, 5, b"", b"", EMPTY_STATS, EMPTY_STATS, 0, 4, schema_id=schema_id, level=0
    )


def split(*files, bucket=0, deletions=None):
    made = Split(7, serialize_row((), ()), bucket, 1, (tuple((f,) for f in files),), raw=True)
    return replace(made, deletions=deletions or {})


def units_of(schema, *parts, ordered):
    context = context_of(schema)
    found = plain_units(
        context, parts, context.schema.fields, case_sensitive=False, ordered=ordered
    )
    if found is None:
        return None
    return [([f.path.rsplit("/", 1)[1] for f in unit.files], unit.may_cut) for unit in found]


A, B, C = file("a.parquet"), file("b.parquet"), file("c.parquet", size=1 << 40)


def test_files_of_an_append_table_are_cut_as_spark_likes():
    assert units_of(APPEND, (split(A),), (split(B, C),), ordered=False) == [
        (["a.parquet"], True),
        (["b.parquet", "c.parquet"], True),
    ]


@pytest.mark.parametrize("schema", [APPEND, KEYED])
def test_a_bucket_in_order_is_one_unit_however_large(schema):
    parts = [(split(A),), (split(B, bucket=1),), (split(C),)]
    assert units_of(schema, *parts, ordered=True) == [
        (["a.parquet", "c.parquet"], False),
        (["b.parquet"], False),
    ]


def test_the_changes_of_one_commit_to_a_key_are_not_torn_apart():
    assert units_of(KEYED, (split(A, B),), ordered=False) == [(["a.parquet", "b.parquet"], False)]


def test_a_state_is_plain_where_no_key_is_merged():
    state = (split(), split(A))
    assert units_of(APPEND, state, ordered=False) == [(["a.parquet"], True)]
    assert units_of(KEYED, state, ordered=False) is None
    assert units_of(APPEND, (split(B), split(A)), ordered=False) is None


@pytest.mark.parametrize(
    "part",
    [
        (split(A, file("d.orc")),),
        (split(A, file("old.parquet", schema_id=0)),),
        (split(A, deletions={"a.parquet": DeletionRange("i", 0, 9, 2, 20)}),),
    ],
    ids=["another format", "a renamed column", "deleted rows"],
)
def test_other_files_are_for_others(part):
    assert units_of(APPEND, part, ordered=False) is None
