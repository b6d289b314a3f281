"""What a new table may not be: each refusal names the table and what to do, and writes nothing."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidelake import InvalidInputError, TidelakeError, UnsupportedError
from tidelake.types import DataField, DataType, TypeRoot

SCHEMA = pa.schema(
    {
        "p": pa.string(),
        "k": pa.int64(),
        "v": pa.string(),
        "f": pa.bool_(),
        "ts": pa.int64(),
        "b": pa.binary(),
    }
)


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"primary_keys": ["kk"], "options": {"bucket": 1}}, InvalidInputError, "Did you mean 'k'"),
        ({"primary_keys": ["k", "k"], "options": {"bucket": 1}}, InvalidInputError, "twice"),
        ({"partition_keys": ["x"]}, InvalidInputError, "no column 'x'"),
        ({"partition_keys": ["b"]}, UnsupportedError, "partitioned by 'b' of type BYTES"),
        (
            {"primary_keys": ["k"], "partition_keys": ["p"], "options": {"bucket": 1}},
            InvalidInputError,
            "add 'p' to the primary key",
        ),
        (
            {"primary_keys": ["p"], "partition_keys": ["p"], "options": {"bucket": 1}},
            InvalidInputError,
            "partition columns only",
        ),
        ({"options": {"bukcet": 1}}, InvalidInputError, "Did you mean 'bucket'"),
        ({"options": {"path": "/elsewhere/t"}}, InvalidInputError, "Leave the option out"),
        ({"options": {"file.compression": "brotli"}}, UnsupportedError, "file.compression"),
        ({"options": {"file.compression": "lzo"}}, UnsupportedError, "file.compression"),
        (
            {"options": {"fields.vv.aggregate-function": "sum"}},
            InvalidInputError,
            "no column 'vv'.*Did you mean 'v'",
        ),
        ({"options": {"fields.v,tss.sequence-group": "k"}}, InvalidInputError, "no column 'tss'"),
        ({"options": {"fields.ts.sequence-group": "kk"}}, InvalidInputError, "no column 'kk'"),
        ({"options": {"fields.vv.stats-mode": "none"}}, InvalidInputError, "no column 'vv'"),
        (
            {"options": {"fields.v.aggregate-function": "summ"}},
            InvalidInputError,
            "Did you mean 'sum'",
        ),
        (
            {"options": {"fields.default-aggregate-function": "lastvalue"}},
            InvalidInputError,
            "Did you mean 'last_value'",
        ),
        ({"options": {"bucket": "many"}}, InvalidInputError, "'bucket'"),
        ({"options": {"bucket": 0}}, InvalidInputError, "bucket"),
        ({"options": {"bucket": 3}}, InvalidInputError, "bucket-key"),
        ({"options": {"bucket-key": "k"}}, InvalidInputError, "set 'bucket' to their number"),
        ({"options": {"bucket": 3, "bucket-key": "kk"}}, InvalidInputError, "Did you mean 'k'"),
        (
            {"partition_keys": ["p"], "options": {"bucket": 3, "bucket-key": "p"}},
            InvalidInputError,
            "partition column 'p'",
        ),
        (
            {"primary_keys": ["k"], "options": {"bucket": 3, "bucket-key": "v"}},
            InvalidInputError,
            "not part of its primary key",
        ),
        (
            {"primary_keys": ["k"], "options": {"bucket": 1, "sequence.field": "t"}},
            InvalidInputError,
            "no column 't'",
        ),
        (
            {"primary_keys": ["k"], "options": {"bucket": 1, "sequence.field": "f"}},
            InvalidInputError,
            "cannot order rows by 'f'",
        ),
        ({"options": {"sequence.field": "ts"}}, InvalidInputError, "without a primary key"),
        (
            {
                "primary_keys": ["k"],
                "options": {"bucket": 1, "merge-engine": "first-row", "sequence.field": "ts"},
            },
            InvalidInputError,
            "'sequence.field' under 'merge-engine' = 'first-row'",
        ),
        (
            {
                "primary_keys": ["k"],
                "options": {"merge-engine": "first-row", "changelog-producer": "input"},
            },
            InvalidInputError,
            "'changelog-producer' = 'input' under 'merge-engine' = 'first-row'",
        ),
        (
            {"options": {"changelog-producer": "full-compaction"}},
            InvalidInputError,
            "'changelog-producer' = 'full-compaction' without a primary key",
        ),
        (
            {
                "primary_keys": ["k"],
                "options": {
                    "changelog-producer": "full-compaction",
                    "deletion-vectors.enabled": True,
                },
            },
            InvalidInputError,
            "'full-compaction' with 'deletion-vectors.enabled' = 'true'.*take 'lookup'",
        ),
        (
            {
                "primary_keys": ["k"],
                "options": {"merge-engine": "first-row", "deletion-vectors.enabled": True},
            },
            InvalidInputError,
            "'deletion-vectors.enabled' under 'merge-engine' = 'first-row'",
        ),
        ({"options": {"file.format": "orc", "file.compression": "gzip"}}, UnsupportedError, "gzip"),
    ],
)
def test_a_wrong_table_is_refused_before_anything_is_written(
    catalog, tmp_path, arguments, error, says
):
    with pytest.raises(error, match=says) as caught:
        catalog.create_table("db.wrong", SCHEMA, **arguments)
    assert "db.wrong" in str(caught.value)
    assert not (tmp_path / "warehouse").exists()


@pytest.mark.parametrize(
    ("columns", "error", "says"),
    [
        (pa.schema([]), InvalidInputError, "has no columns"),
        (pa.schema([("a", pa.int64()), ("a", pa.int64())]), InvalidInputError, "'a' twice"),
        (pa.schema({"_KEY_a": pa.int64()}), InvalidInputError, "data files reserve"),
        (pa.schema({"_SEQUENCE_NUMBER": pa.int64()}), InvalidInputError, "data files reserve"),
        (pa.schema({"rowkind": pa.string()}), InvalidInputError, "data files reserve"),
        (pa.schema({"_row_kind": pa.string()}), InvalidInputError, "data files reserve"),
        (pa.schema({"a\nb": pa.string()}), InvalidInputError, "not a valid column name"),
        (
            pa.schema({"a": pa.timestamp("ns"), "b": pa.int8(), "c": pa.timestamp("us")}),
            UnsupportedError,
            r"'db.wrong' would mix .*\('a' TIMESTAMP\(9\)\).*\('c' TIMESTAMP\(6\)\).*make all",
        ),
        (
            pa.schema({"a": pa.timestamp("ms", "UTC"), "b": pa.timestamp("ns", "UTC")}),
            UnsupportedError,
            "'b' .*'a' ",
        ),
        (pa.schema({"a": pa.null()}), TidelakeError, "'a'"),
        (pa.schema({"a": pa.list_(pa.duration("s"))}), UnsupportedError, "'a.element'"),
        (pa.schema({"a": pa.struct([])}), InvalidInputError, "'a' .*has no fields"),
        (
            [DataField(0, "a", DataType(TypeRoot.DECIMAL, precision=39, scale=0))],
            InvalidInputError,
            "1 to 38",
        ),
        (pa.schema({"a": pa.duration("s")}), TidelakeError, "'a'"),
        (42, InvalidInputError, "pyarrow.Schema"),
    ],
)
def test_wrong_columns_are_refused(catalog, tmp_path, columns, error, says):
    with pytest.raises(error, match=says):
        catalog.create_table("db.wrong", columns)
    assert not (tmp_path / "warehouse").exists()


def test_columns_are_taken_from_many_things(catalog):
    import polars as pl

    table = pa.table({"a": pa.array([1], pa.int64()), "b": ["x"]})
    sources = [
        table.schema,
        table,
        table.to_batches()[0],
        table.to_pandas(),
        pl.from_arrow(table),
        [("a", pa.int64()), ("b", pa.string())],
        {"a": pa.int64(), "b": pa.string()},
    ]
    for number, source in enumerate(sources):
        made = catalog.create_table(f"db.t{number}", source)
        assert made.schema.names == ["a", "b"]
        assert made.write(table).rows == 1
        assert made.to_arrow().to_pylist() == [{"a": 1, "b": "x"}]


def test_options_of_columns_that_are_there_are_kept(catalog):
    options = {
        "merge-engine": "partial-update",
        "fields.v.aggregate-function": "max",
        "fields.ts,f.sequence-group": "v",
        "fields.v.stats-mode": "none",
        "fields.default-aggregate-function": "last_non_null_value",
    }
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options=options)
    assert dict(table.options.raw) == options


def test_an_option_that_is_none_is_not_set(catalog):
    options = {"bucket": None, "write-only": True, "bucket-key": None}
    table = catalog.create_table("db.t", SCHEMA, options=options)
    assert dict(table.options.raw) == {"write-only": "true"}
    assert dict(table.copy({"write-only": None}).options.raw) == {}


def test_the_path_of_the_table_itself_may_be_given(catalog):
    path = f"{catalog.warehouse}/db.db/t"
    for name, given in {"t": path, "u": "file:" + path[:-1] + "u/"}.items():
        table = catalog.create_table(f"db.{name}", SCHEMA, options={"path": given})
        assert table.copy({"path": given}).count() == 0
        with pytest.raises(InvalidInputError, match="Leave the option out"):
            table.copy({"path": "/elsewhere"})
