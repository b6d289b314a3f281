"""Pruning never changes an answer: rules against brute force."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelake.codec.binary_row import serialize_row
from tidelake.codec.bucket import buckets_of
from tidelake.metadata.data_file import EMPTY_ROW, EMPTY_STATS, DataFileMeta, SimpleStats
from tidelake.scan.pruning.prune import (
    StatsReader,
    buckets_named,
    matching_partitions,
    prune_section,
    scan_filter,
)
from tidelake.types import DataField, TableSchema, parse_type
from tidelake.types.predicate import Always, ColumnRange, Compare, In, IsNull, Not, Or, bind, col

INT, STRING = parse_type("INT"), parse_type("STRING")
FIELDS = (
    DataField(0, "p", STRING.not_null()),
    DataField(1, "k", INT.not_null()),
    DataField(2, "v", INT),
)
SCHEMA = TableSchema(0, FIELDS, 2, partition_keys=("p",), primary_keys=("p", "k"))


def make_file(name, *, keys, values, sequences=(0, 0), schema_id=0, **changes):
    """A file whose statistics are those of the given values (None counts as null)."""
    known = [v for v in values if v is not None]
    bounds = [(min(known), max(known))] if known else [(None, None)]
    low_key, high_key = (serialize_row((k,), [INT]) for k in (min(keys), max(keys)))
    types = [f.type for f in FIELDS]
    return DataFileMeta(
        file_name=name,
        file_size_bytes=100,
        row_count=len(values),
        min_key=low_key,
        max_key=high_key,
        key_stats=SimpleStats(low_key, high_key, (0,)),
        value_stats=SimpleStats(
            serialize_row(("p", min(keys), bounds[0][0]), types),
            serialize_row(("p", max(keys), bounds[0][1]), types),
            (0, 0, len(values) - len(known)),
        ),
        min_sequence_number=sequences[0],
        max_sequence_number=sequences[1],
        schema_id=schema_id,
        level=0,
        **changes,
    )


def bound(predicate):
    return bind(predicate, FIELDS)


def test_a_filter_is_taken_apart_by_what_its_parts_can_prune():
    on_p, on_k, on_v = bound(col("p") == "x"), bound(col("k") > 3), bound(col("v") < 5)
    mixed = bound((col("p") == "y") | (col("k") == 1))
    parts = scan_filter(SCHEMA, on_p & on_k & on_v & mixed)
    assert parts.partition == on_p
    assert parts.key == on_k & mixed
    assert parts.above_merge == on_v
    assert scan_filter(SCHEMA, None).rest is None
    append = dataclasses.replace(SCHEMA, primary_keys=())
    assert scan_filter(append, on_k & on_v).key is None


row = st.tuples(st.integers(0, 5), st.integers(0, 3), st.booleans())


@given(
    st.lists(st.lists(row, min_size=1, max_size=6), min_size=1, max_size=5),
    st.permutations(range(5)),
    st.integers(0, 3),
    st.booleans(),
)
def test_leaving_files_out_never_changes_the_merged_answer(contents, ages, wanted, interleaved):
    """Files of rows (key, value, is delete); the larger sequence number of a key wins."""
    files, rows_of = [], {}
    for number, content in enumerate(contents):
        keyed = {key: (value, gone) for key, value, gone in content}
        rank = ages[number] if number < len(ages) else number
        # interleaved files share a range of sequence numbers, as two concurrent writers do
        step = 3 if interleaved else 100
        sequences = {key: rank * step + i * len(ages) for i, key in enumerate(keyed)}
        name = f"f{number}"
        rows_of[name] = [(k, sequences[k], v, gone) for k, (v, gone) in keyed.items()]
        files.append(
            make_file(
                name,
                keys=list(keyed),
                values=[v for v, _ in keyed.values()],
                sequences=(min(sequences.values()), max(sequences.values())),
            )
        )
    stats = StatsReader(SCHEMA, {0: SCHEMA})
    predicate = bound(col("v") == wanted)

    def matches(file):
        from tidelake.types.predicate import may_match

        return may_match(predicate, stats.value_ranges(file, ["v"]))

    def answer(chosen):
        newest = {}
        for file in chosen:
            for key, sequence, value, gone in rows_of[file.file_name]:
                at = (sequence, file.file_name)
                if key not in newest or at > newest[key][0]:
                    newest[key] = (at, value, gone)
        return {k for k, (_, v, gone) in newest.items() if v == wanted and not gone}

    for by_sequence in (True, False):
        kept = prune_section(files, matches, by_sequence=by_sequence)
        if by_sequence or kept:
            assert answer(kept) == answer(files)
        else:
            assert answer(files) == set()
        if kept and not by_sequence:
            assert kept == files


def test_the_oldest_file_without_a_match_is_left_out_and_a_newer_one_is_not():
    old = make_file("old", keys=[1, 9], values=[1, 2], sequences=(0, 1))
    mid = make_file("mid", keys=[1, 9], values=[7, 7], sequences=(2, 3))
    new = make_file("new", keys=[1, 9], values=[1, 2], sequences=(4, 5))

    def sevens(file):
        return file.file_name == "mid"

    assert prune_section([old, mid, new], sevens, by_sequence=True) == [mid, new]
    assert prune_section([old, mid, new], sevens, by_sequence=False) == [old, mid, new]
    assert prune_section([old, new], sevens, by_sequence=True) == []


@pytest.mark.parametrize(
    ("predicate", "keys"),
    [
        (col("k") == 5, [5]),
        (col("k").isin([5, 6]), [5, 6]),
        ((col("k") == 5) | (col("k") == 9), [5, 9]),
        ((col("k").isin([1, 2, 3])) & (col("k").isin([2, 3, 4])), [2, 3]),
        ((col("k") == 5) & (col("v") > 3), [5]),
    ],
)
def test_buckets_are_those_of_the_keys_named(predicate, keys):
    named = buckets_named(SCHEMA, bound(predicate))
    hashed = buckets_of([pa.array(keys, pa.int32())], [INT], 7)
    assert named(7) == frozenset(hashed.tolist())
    assert named(-1) is None


@pytest.mark.parametrize(
    "predicate",
    [col("k") > 5, (col("k") == 5) | (col("v") == 1), Not(col("k") == 5), IsNull("k")],
)
def test_predicates_that_name_no_keys_leave_all_buckets(predicate):
    assert buckets_named(SCHEMA, bound(predicate))(4) is None
    assert buckets_named(SCHEMA, None)(4) is None


def test_a_key_with_contradicting_values_has_no_bucket():
    named = buckets_named(SCHEMA, bound((col("k") == 1) & (col("k") == 2)))
    assert named(4) == frozenset()


def test_floating_keys_do_not_prune_buckets():
    fields = (DataField(0, "k", parse_type("DOUBLE NOT NULL")),)
    schema = TableSchema(0, fields, 0, primary_keys=("k",))
    assert buckets_named(schema, bind(col("k") == 0.0, fields))(4) is None


def test_composite_bucket_keys_need_all_columns():
    fields = (DataField(0, "a", INT.not_null()), DataField(1, "b", STRING.not_null()))
    schema = TableSchema(0, fields, 1, primary_keys=("a", "b"))
    assert buckets_named(schema, bind(col("a") == 1, fields))(4) is None
    both = bind((col("a").isin([1, 2])) & (col("b") == "x"), fields)
    hashed = buckets_of([pa.array([1, 2], pa.int32()), pa.array(["x", "x"])], [INT, STRING], 4)
    assert buckets_named(schema, both)(4) == frozenset(hashed.tolist())


def test_partitions_are_evaluated_exactly():
    fields = [FIELDS[0]]
    values = [("a",), ("b",), (None,)]
    assert matching_partitions(values, fields, bound(col("p") == "b")).tolist() == [
        False,
        True,
        False,
    ]
    assert matching_partitions(values, fields, IsNull("p")).tolist() == [False, False, True]
    assert matching_partitions([], fields, Always(True)).tolist() == []


def test_key_ranges_come_from_key_statistics_or_else_from_the_bounds():
    stats = StatsReader(SCHEMA, {0: SCHEMA})
    file = make_file("f", keys=[3, 8], values=[1, 1])
    by_stats = stats.key_ranges(file, ["k"])["k"]
    assert (by_stats.min, by_stats.max, by_stats.null_count) == (3, 8, 0)
    bare = dataclasses.replace(file, key_stats=EMPTY_STATS)
    by_bounds = stats.key_ranges(bare, ["k"])["k"]
    assert (by_bounds.min, by_bounds.max) == (3, 8)
    assert stats.key_ranges(dataclasses.replace(bare, min_key=EMPTY_ROW), ["k"]) == {}


def test_statistics_of_older_schemas_are_found_by_field_id():
    now = TableSchema(
        1,
        (
            FIELDS[0],
            FIELDS[1],
            DataField(2, "renamed", INT),
            DataField(3, "added", INT),
            DataField(4, "retyped", parse_type("BIGINT")),
        ),
        4,
        partition_keys=("p",),
        primary_keys=("p", "k"),
    )
    before = dataclasses.replace(
        SCHEMA, fields=(*FIELDS, DataField(4, "retyped", INT)), highest_field_id=4
    )
    file = make_file("f", keys=[1], values=[5, None])
    types = [*(f.type for f in FIELDS), INT]
    low = serialize_row(("p", 1, 5, 7), types)
    file = dataclasses.replace(file, value_stats=SimpleStats(low, low, (0, 0, 1, 0)))
    ranges = StatsReader(now, {0: before, 1: now}).value_ranges(
        file, ["renamed", "added", "retyped"]
    )
    assert (ranges["renamed"].min, ranges["renamed"].null_count) == (5, 1)
    assert (ranges["added"].min, ranges["added"].null_count) == (None, file.row_count)
    assert ranges["retyped"] == ColumnRange(7, 7, None, file.row_count)
    text = dataclasses.replace(now, fields=(*now.fields[:-1], DataField(4, "retyped", STRING)))
    assert not StatsReader(text, {0: before, 1: now}).value_ranges(file, ["retyped"])


@pytest.mark.parametrize(
    ("old", "new", "low", "known"),
    [
        ("INT", "BIGINT", 7, 7),
        ("BIGINT", "INT", 7, None),
        ("DECIMAL(5, 2)", "DECIMAL(10, 4)", 123, 12300),
        ("DECIMAL(10, 4)", "DECIMAL(5, 2)", 123, None),
        ("FLOAT", "DOUBLE", 1.5, 1.5),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", 5_000_000, 5_000_000),
        ("VARCHAR(5)", "STRING", "a", "a"),
        ("VARCHAR(5)", "CHAR(9)", "a", None),
        ("DATE", "STRING", 1, None),
    ],
)
def test_statistics_of_a_retyped_column_count_where_the_order_stays(old, new, low, known):
    field, now = DataField(0, "a", parse_type(old)), DataField(0, "b", parse_type(new))
    schemas = {0: TableSchema(0, (field,), 0), 1: TableSchema(1, (now,), 0)}
    row = serialize_row((low,), [field.type])
    file = dataclasses.replace(
        make_file("f", keys=[1], values=[1]), value_stats=SimpleStats(row, row, (0,)), schema_id=0
    )
    ranges = StatsReader(schemas[1], schemas).value_ranges(file, ["b"])
    expected = {} if known is None else {"b": ColumnRange(known, known, None, file.row_count)}
    assert ranges == expected


def test_dense_statistics_name_their_columns():
    file = make_file("f", keys=[1], values=[5])
    low, high = serialize_row((4,), [INT]), serialize_row((6,), [INT])
    dense = dataclasses.replace(
        file, value_stats=SimpleStats(low, high, (0,)), value_stats_cols=("v",)
    )
    ranges = StatsReader(SCHEMA, {0: SCHEMA}).value_ranges(dense, ["v", "k"])
    assert (ranges["v"].min, ranges["v"].max) == (4, 6)
    assert "k" not in ranges


def test_in_with_nulls_names_no_bucket_for_them():
    named = buckets_named(SCHEMA, In("k", (None, 5)))
    assert named(7) == frozenset(buckets_of([pa.array([5], pa.int32())], [INT], 7).tolist())
    assert named(7) == buckets_named(SCHEMA, Or((Compare("==", "k", 5),)))(7)
