"""Which tables agree on the bucket of a key; and the files that Spark need not look for."""

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
from tidelake.spark.read.buckets import buckets_of
from tidelake.spark.read.native_split import native_and_merged
from tidelake.telemetry import Env
from tidelake.types import DataField, TableSchema, parse_type


def context_of(columns, *, keys=("k",), partitions=(), fileio=None, **options):
    fields = tuple(
        DataField(i, name, parse_type(text)) for i, (name, text) in enumerate(columns.items())
    )
    options = {"bucket": "4", **{key.replace("_", "-"): text for key, text in options.items()}}
    schema = TableSchema(
        0, fields, len(fields), partition_keys=partitions, primary_keys=keys, options=options
    )
    return ReadContext(
        fileio or MemoryFileIO(), TablePaths.of("/w/t", schema), schema, Options.parse(options),
        Env.seeded(1), MappingProxyType({0: schema}),
    )  # fmt: skip


def split_of(bucket=0, total=4):
    file = DataFileMeta(
        f"data-{bucket}.parquet", 10, 1, b"", b"", EMPTY_STATS, EMPTY_STATS, 0, 0,
        schema_id=0, level=5,
    )  # fmt: skip
    return Split(7, serialize_row((), ()), bucket, total, (((file,),),), raw=True)


def function_of(columns, **how):
    found = buckets_of(context_of(columns, **how), [split_of(), split_of(3)])
    return None if found is None else found.function


def test_tables_agree_by_function_and_types_of_keys():
    longs = function_of({"k": "BIGINT NOT NULL", "v": "STRING"})
    assert longs is not None
    assert function_of({"v": "STRING", "id": "BIGINT"}, keys=(), bucket_key="id") == longs
    ints = function_of({"k": "INT NOT NULL"})
    by_mod = function_of({"k": "BIGINT NOT NULL"}, **{"bucket-function.type": "mod"})
    times = [function_of({"k": f"TIMESTAMP({n}) NOT NULL"}) for n in (3, 6)]
    assert len({longs, ints, by_mod, *times}) == 5


@pytest.mark.parametrize(
    ("columns", "how"),
    [
        ({"k": "DOUBLE NOT NULL"}, {}),  # -0.0 and 0.0
        ({"k": "BIGINT NOT NULL", "n": "INT NOT NULL"}, {"keys": ("k", "n")}),
        ({"k": "BIGINT NOT NULL"}, {"bucket": "1"}),
        ({"k": "BIGINT NOT NULL"}, {"bucket": "-1"}),
        ({"k": "BIGINT NOT NULL"}, {"bucket": "-2"}),
        ({"k": "BIGINT"}, {"keys": (), "bucket": "-1"}),
        ({"p": "INT", "k": "BIGINT NOT NULL"}, {"partitions": ("p",), "bucket": "-1"}),
    ],
)
def test_other_tables_have_no_buckets(columns, how):
    assert function_of(columns, **how) is None


def test_files_of_another_number_of_buckets_have_none():
    context = context_of({"k": "BIGINT NOT NULL"})
    assert buckets_of(context, [split_of(), split_of(1, total=2)]) is None


def test_a_key_that_had_another_type_has_none_whatever_schema_its_files_have():
    """A compaction writes rows under the new type into the bucket of the old one's hash."""
    context = context_of({"k": "BIGINT", "v": "STRING"}, keys=(), bucket_key="k")
    now = dataclasses.replace(context.schema, id=1)
    for column, kept in ((0, False), (1, True)):
        fields = list(now.fields)
        fields[column] = dataclasses.replace(fields[column], type=parse_type("INT"))
        schemas = {0: dataclasses.replace(context.schema, fields=tuple(fields)), 1: now}
        altered = dataclasses.replace(context, schema=now, schemas=MappingProxyType(schemas))
        assert (buckets_of(altered, [split_of()]) is not None) == kept


def test_files_hold_to_the_buckets_while_their_keys_are_those_of_the_table():
    found = buckets_of(context_of({"k": "BIGINT NOT NULL", "v": "STRING"}), [])
    key = DataField(0, "k", parse_type("BIGINT"))
    value = DataField(1, "v", parse_type("STRING"))
    assert found.hold_for(["v", "k"], [None, key])
    assert not found.hold_for(["v"], [value])
    assert not found.hold_for(["k"], [None])
    assert not found.hold_for(["k"], [DataField(0, "old", parse_type("BIGINT"))])
    assert not found.hold_for(["k"], [DataField(0, "k", parse_type("INT"))])


def test_a_scan_knows_the_bucket_of_each_file():
    context = context_of({"k": "BIGINT NOT NULL"})
    parts = native_and_merged(
        context, [split_of(3), split_of(1)], context.schema.fields, case_sensitive=False
    )
    (group,) = parts.native
    assert [(file.path[-14:], file.bucket) for file in group.listed] == [
        ("data-3.parquet", 3),
        ("data-1.parquet", 1),
    ]


def test_buckets_are_in_order_where_no_two_files_of_one_overlap():
    context = context_of({"k": "BIGINT NOT NULL", "v": "STRING"})
    (key,) = context.fields(("k",))

    def file(name, low, high):
        first, last = (serialize_row((end,), (key.type,)) for end in (low, high))
        return DataFileMeta(
            name, 10, 1, first, last, EMPTY_STATS, EMPTY_STATS, 0, 0, schema_id=0, level=5
        )

    def found(*files, bucket=1):
        splits = [Split(7, serialize_row((), ()), bucket, 4, ((files,),), raw=True), split_of()]
        return buckets_of(context, splits)

    later, sooner = file("a", 10, 20), file("b", 0, 9)
    ordered = found(later, sooner)
    assert ordered.sort_keys == (key,)
    assert ordered.position("/w/b") < ordered.position("/w/a")
    assert found(later, file("c", 20, 30)).sort_keys == ()
    assert found(later, sooner, *[file(f"d{n}", n, n) for n in range(256)]).sort_keys == ()
    assert not ordered.hold_for(["v"], [DataField(1, "k", parse_type("STRING"))])
