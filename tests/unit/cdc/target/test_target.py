"""A target takes each epoch once, fills in what was not sent, and leaves out what does not fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import tidelake
from tidelake.cdc.target.epoch_step import EpochStep
from tidelake.cdc.target.target import Target, TargetRows
from tidelake.errors import InvalidInputError
from tidelake.types import DataField, RowKind, parse_type

SCHEMA = pa.schema(
    [pa.field("k", pa.int64()), pa.field("v", pa.string()), pa.field("n", pa.int32())]
)


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(tmp_path)


def table(catalog, schema=SCHEMA, **given):
    given = {"primary_keys": ["k"], "options": {"bucket": "1"}, **given}
    return catalog.create_table("lake.t", schema, **given)


def step(epoch, start=None, end=None):
    return EpochStep("cdc-job", epoch, start or f"{epoch}", end or f"{epoch + 1}")


def rows(*changes, **masks):
    keys, values, numbers, kinds = zip(*changes, strict=True)
    columns = {
        "k": pa.array(keys, pa.int64()),
        "v": pa.array(values, pa.string()),
        "n": pa.array(numbers, pa.int32()),
    }
    return TargetRows(
        pa.table(columns),
        np.array([int(kind) for kind in kinds], np.int8),
        {name: np.array(mask) for name, mask in masks.items()},
        pa.table({"k": pa.array(keys, pa.int64())}) if masks else None,
    )


def apply(target, at, given):
    prepared = target.prepare(given)
    return target.commit(at, prepared), prepared.left_out


UP, GONE = RowKind.UPDATE_AFTER, RowKind.DELETE


def content(table):
    found = table.to_arrow().sort_by("k").to_pylist()
    return [tuple(row.values()) for row in found]


def test_an_epoch_is_written(catalog):
    made = table(catalog)
    target = Target(made)
    applied, _ = apply(target, step(1), rows((1, "a", 1, UP), (2, "b", 2, UP)))
    assert applied.rows_count == 2
    assert not applied.was_done
    assert applied.made.identifier == 1
    apply(target, step(2), rows((1, None, None, GONE), (3, "c", 3, UP)))
    assert content(made) == [(2, "b", 2), (3, "c", 3)]


def test_a_delete_counts_by_its_key_alone(catalog):
    schema = pa.schema(
        [pa.field("k", pa.int64()), pa.field("v", pa.string(), nullable=False),
         pa.field("n", pa.int32())]
    )  # fmt: skip
    made = table(catalog, schema)
    target = Target(made)
    apply(target, step(1), rows((1, "a", 1, UP), (2, "b", 2, UP), (0, "c", 3, UP)))
    given = rows((1, "a", 1, GONE), (2, None, 2, GONE), (None, "x", 1, GONE), (4, "d", 4, UP))
    wide = given.rows.set_column(2, "n", pa.array([2**40, 2, 1, 2**40], pa.int64()))
    _, left_out = apply(target, step(2), replace(given, rows=wide))
    # a key that is not known deletes nothing, and no other row
    assert sorted(left_out) == [2, 3]
    assert "'k'" in left_out[2]
    assert content(made) == [(0, "c", 3)]


def test_an_epoch_takes_effect_once(catalog):
    made = table(catalog)
    first, again = Target(made), Target(made)
    assert not first.is_done(step(1))
    applied, _ = apply(first, step(1), rows((1, "a", 1, UP)))
    assert again.is_done(step(1))
    assert again.made == applied.made
    assert apply(again, step(1), rows((1, "b", 1, UP)))[0].was_done
    assert made.latest_snapshot_id == 1
    assert content(made) == [(1, "a", 1)]


def test_the_same_epoch_with_other_positions_is_refused(catalog):
    made = table(catalog)
    apply(Target(made), step(1), rows((1, "a", 1, UP)))
    with pytest.raises(InvalidInputError) as caught:
        apply(Target(made), step(1, end="9"), rows((1, "b", 1, UP)))
    assert caught.value.kind == "checkpoint_behind"
    assert content(made) == [(1, "a", 1)]


def test_a_table_that_was_rolled_back_is_refused(catalog):
    made = table(catalog)
    target = Target(made)
    apply(target, step(1), rows((1, "a", 1, UP)))
    apply(target, step(2), rows((1, "b", 1, UP)))
    made.rollback_to(1)
    with pytest.raises(InvalidInputError) as caught:
        apply(Target(made, target.made), step(3), rows((1, "c", 1, UP)))
    assert caught.value.kind == "target_rolled_back"


def test_what_was_not_sent_is_taken_from_the_table(catalog):
    made = table(catalog)
    target = Target(made)
    apply(target, step(1), rows((1, "a", 1, UP), (2, "b", 2, UP)))
    apply(target, step(2), rows((2, None, 20, UP), (1, None, 10, UP), v=[False, True]))
    assert content(made) == [(1, "a", 10), (2, None, 20)]


def test_a_row_without_the_value_is_left_out_and_the_others_are_written(catalog):
    made = table(catalog)
    _, left_out = apply(
        Target(made), step(1), rows((1, None, 10, UP), (2, "b", 20, UP), v=[True, False])
    )
    assert list(left_out) == [0]
    assert "did not send" in left_out[0]
    assert content(made) == [(2, "b", 20)]


def test_a_value_that_does_not_fit_leaves_its_row_out(catalog):
    schema = pa.schema([("k", pa.int64()), ("v", pa.string()), ("n", pa.int8())])
    made = table(catalog, schema)
    many = [(key, "x", key, UP) for key in range(200)]
    _, left_out = apply(Target(made), step(1), rows(*many))
    assert sorted(left_out) == list(range(128, 200))
    assert "200" not in left_out[128]
    assert made.count() == 128


def test_a_delete_by_key_fits_columns_that_are_never_null(catalog):
    schema = pa.schema(
        [
            pa.field("k", pa.int64()),
            pa.field("v", pa.string(), nullable=False),
            pa.field("n", pa.decimal128(5, 2), nullable=False),
            pa.field("d", pa.date32(), nullable=False),
            pa.field("at", pa.timestamp("us"), nullable=False),
            pa.field("t", pa.time32("ms"), nullable=False),
            pa.field("b", pa.bool_(), nullable=False),
            pa.field("l", pa.list_(pa.int32()), nullable=False),
            pa.field("x", pa.binary(), nullable=False),
            pa.field("f", pa.float32(), nullable=False),
        ]
    )
    made = table(catalog, schema)
    one = {"k": 1, "v": "a", "n": 1, "d": 0, "at": 0, "t": 0, "b": True, "l": [1], "x": b"", "f": 1}
    apply(Target(made), step(1), TargetRows(
        pa.Table.from_pylist([one], schema), np.array([int(UP)], np.int8)
    ))  # fmt: skip
    assert made.count() == 1
    gone = pa.table({"k": pa.array([1], pa.int64())})
    _, left_out = apply(Target(made), step(2), TargetRows(gone, np.array([int(GONE)], np.int8)))
    assert not left_out
    assert made.count() == 0


def test_a_null_in_a_column_that_is_never_null_leaves_its_row_out(catalog):
    schema = pa.schema([("k", pa.int64()), pa.field("v", pa.string(), nullable=False),
                        ("n", pa.int32())])  # fmt: skip
    made = table(catalog, schema)
    _, left_out = apply(Target(made), step(1), rows((1, None, 1, UP), (2, "b", 1, UP)))
    assert list(left_out) == [0]
    assert content(made) == [(2, "b", 1)]


def test_a_row_that_violates_a_constraint_is_left_out(catalog):
    constraints = {"constraint.small": "n < 10", "constraint.named": "v IS NOT NULL"}
    made = table(catalog, options={"bucket": "1", **constraints})
    target = Target(made)
    _, left_out = apply(target, step(1), rows((1, "a", 1, UP), (2, "b", 10, UP), (3, None, 1, UP)))
    assert sorted(left_out) == [1, 2]
    assert left_out[1] == "it violates the constraint 'small' (n < 10): k = 2, n = 10"
    assert "constraint 'named'" in left_out[2]
    # a delete is not checked, and a row of an unknown value fulfils the condition
    _, left_out = apply(target, step(2), rows((1, None, 99, GONE), (4, "d", None, UP)))
    assert not left_out
    assert content(made) == [(4, "d", None)]


def test_a_default_stands_in_before_a_constraint_is_asked(catalog):
    schema = [
        DataField(0, "k", parse_type("BIGINT")),
        DataField(1, "v", parse_type("STRING"), default_value="x"),
        DataField(2, "n", parse_type("INT")),
    ]
    options = {"bucket": "1", "constraint.named": "v IS NOT NULL"}
    made = table(catalog, schema, options=options)
    _, left_out = apply(Target(made), step(1), rows((1, None, 1, UP)))
    assert not left_out
    assert content(made) == [(1, "x", 1)]


@pytest.mark.parametrize("partition_keys", [[], ["n"]])
def test_a_copy_replaces_all_rows_of_all_partitions(catalog, partition_keys):
    made = table(catalog, partition_keys=partition_keys, primary_keys=["k", *partition_keys])
    target = Target(made)
    apply(target, step(1), rows((1, "a", 1, UP), (2, "b", 2, UP)))
    batches = iter(rows((3, "c", 3, UP), (4, None, 4, UP)).rows.to_batches())
    applied = target.replace(step(2), batches)
    assert applied.rows_count == 2
    assert content(made) == [(3, "c", 3), (4, None, 4)]
    assert target.replace(step(2), iter(())).was_done
    assert content(made) == [(3, "c", 3), (4, None, 4)]


def test_an_empty_copy_and_a_truncation_remove_all_rows(catalog):
    made = table(catalog)
    target = Target(made)
    apply(target, step(1), rows((1, "a", 1, UP)))
    target.truncate(step(2))
    assert content(made) == []
    assert target.truncate(step(2)).was_done


def test_a_schema_that_grows_takes_rows_of_both(catalog):
    made = table(catalog)
    target = Target(made)
    apply(target, step(1), rows((1, "a", 1, UP)))
    target.alter([tidelake.AddColumn("extra", "INT")])
    apply(
        target,
        step(2),
        TargetRows(
            pa.table({"k": pa.array([2], pa.int64()), "extra": pa.array([5], pa.int32())}),
            np.array([int(UP)], np.int8),
        ),
    )
    assert content(catalog.table("lake.t")) == [(1, "a", 1, None), (2, None, None, 5)]


def test_a_delete_needs_its_key_alone(catalog):
    schema = pa.schema([pa.field("k", pa.int64()), pa.field("n", pa.int32(), nullable=False)])
    target = Target(table(catalog, schema))
    kept = pa.table({"k": [1, 2], "n": [10, 20]})
    insert, delete = int(RowKind.INSERT), int(RowKind.DELETE)
    target.commit(step(1), target.prepare(TargetRows(kept, np.array([insert] * 2, np.int8))))
    wide = pa.table({"k": [1, 2, 3], "n": [1 << 40, 21, 1 << 40]})
    kinds = np.array([delete, insert, insert], np.int8)
    prepared = target.prepare(TargetRows(wide, kinds))
    assert list(prepared.left_out) == [2]
    target.commit(step(2), prepared)
    assert catalog.table("lake.t").to_arrow().to_pylist() == [{"k": 2, "n": 21}]
