"""What columns of statistics decide is what each file's statistics decide."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
from unit.metadata.made import UNHURRIED, added, data_file
from unit.types.predicate.strategies import few_valued_columns, filtered_tables, ranges_of

from tidelake.codec.binary_row import is_wide_decimal, serialize_row
from tidelake.errors import CorruptError
from tidelake.metadata import EntryTable, SimpleStats
from tidelake.metadata.data_file import EMPTY_STATS
from tidelake.scan.pruning import prune_columns
from tidelake.scan.pruning.prune import StatsReader
from tidelake.scan.pruning.prune_columns import NO, UNKNOWN, YES, verdicts
from tidelake.types import DataField, TableSchema, parse_type
from tidelake.types.predicate import ColumnRange, In, bind, col, columns_of, may_match

INT = parse_type("INT")


@st.composite
def files_and_filter(draw):
    """Schemas of a table, files with honest statistics, and a predicate."""
    fields, columns, predicate = draw(
        filtered_tables() | st.sampled_from(["INT", "DOUBLE", "STRING"]).flatmap(few_valued_columns)
    )
    now = TableSchema(1, tuple(fields), 9)
    renamed = [dataclasses.replace(f, name=f"old_{f.name}") for f in fields]
    other = DataField(9, "other", INT)
    # the last column was added later, the others renamed; of one schema the first was retyped
    before = dataclasses.replace(now, id=0, fields=(other, *renamed[: len(fields) - 1]))
    retyped = dataclasses.replace(fields[0], type=parse_type("VARBINARY(7)"))
    last = dataclasses.replace(now, id=2, fields=(retyped, *fields[1:]))
    schemas = {0: before, 1: now, 2: last}
    files = [draw(files_of(schemas, now, columns)) for _ in range(draw(st.integers(1, 4)))]
    return now, schemas, files, predicate


@st.composite
def files_of(draw, schemas, now, columns):
    """A file of one of the schemas; statistics of all columns, of some, or none."""
    ranges = draw(ranges_of(now.fields, columns))
    schema = schemas[draw(st.sampled_from([0, 1, 1, 2]))]
    current = {f.id: f for f in now.fields}
    stats_cols = None
    if draw(st.booleans()):
        stats_cols = tuple(draw(st.lists(st.sampled_from(schema.field_names), unique=True)))
    names = schema.field_names if stats_cols is None else stats_cols
    low, high, nulls = [], [], []
    rows = len(next(iter(columns.values())))
    for name in names:
        own = schema.field(name)
        at = current.get(own.id)
        known = ranges.get(at.name) if at is not None and at.type == own.type else None
        known = known or ColumnRange(None, None, None, rows)
        low.append(known.min)
        high.append(known.max)
        nulls.append(known.null_count)
    types = [schema.field(n).type for n in names]
    stats = SimpleStats(serialize_row(low, types), serialize_row(high, types), tuple(nulls))
    if draw(st.integers(0, 5)) == 0:
        stats = dataclasses.replace(stats, null_counts=())
    if draw(st.integers(0, 5)) == 0:
        stats = EMPTY_STATS
    return data_file(rows=rows, schema_id=schema.id, value_stats=stats, value_stats_cols=stats_cols)


def entries_of(files):
    return EntryTable.of(dataclasses.replace(added(), file=f) for f in files)


@settings(UNHURRIED, max_examples=examples(120))
@given(files_and_filter())
def test_a_verdict_is_that_of_the_file(case):
    now, schemas, files, predicate = case
    reader = StatsReader(now, schemas)
    found = verdicts(reader, entries_of(files), predicate, stats="value", partitions=[()])
    for file, verdict in zip(files, found.tolist(), strict=True):
        ranges = reader.value_ranges(file, columns_of(predicate))
        expected = YES if may_match(predicate, ranges) else NO
        assert verdict in {expected, UNKNOWN}
    if all(f.schema_id == 1 for f in files) and not any(
        is_wide_decimal(f.type) or "TIMESTAMP" in str(f.type) for f in now.fields
    ):
        assert UNKNOWN not in found.tolist(), "columns of the table's own types are decided"


KEYED = TableSchema(
    0,
    (
        DataField(0, "p", parse_type("STRING").not_null()),
        DataField(1, "k", INT.not_null()),
        DataField(2, "l", parse_type("STRING").not_null()),
        DataField(3, "v", INT),
    ),
    3,
    partition_keys=("p",),
    primary_keys=("p", "k", "l"),
)


def keyed_file(low, high, *, stats=True, **changes):
    types = [f.type for f in KEYED.fields[1:3]]
    keys = [serialize_row(k, types) for k in (low, high)]
    own = SimpleStats(*keys, (0, 0)) if stats else EMPTY_STATS  # type: ignore[call-arg]
    return data_file(min_key=keys[0], max_key=keys[1], key_stats=own, **changes)


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (col("k") == 5, [YES, NO, UNKNOWN]),
        (col("l") == "c", [NO, YES, UNKNOWN]),
        ((col("k") == 5) | (col("p") == "x"), [YES, YES, YES]),
        ((col("k") == 50) & (col("p") == "y"), [NO, NO, NO]),
        ((col("k") == 5) & ~(col("p") == "y"), [YES, NO, UNKNOWN]),
    ],
)
def test_keys_and_partitions_decide_together(predicate, expected):
    files = [
        keyed_file((1, "a"), (9, "b")),
        keyed_file((10, "a"), (19, "z")),
        keyed_file((1, "a"), (9, "b"), stats=False),
    ]
    reader = StatsReader(KEYED, {0: KEYED})
    bound = bind(predicate, KEYED.fields)
    found = verdicts(reader, entries_of(files), bound, stats="key", partitions=[("x",)])
    assert found.tolist() == expected


def test_many_literals_are_decided_by_the_smallest_and_the_largest():
    files = [keyed_file((1, "a"), (9, "b")), keyed_file((1000, "a"), (1001, "z"))]
    literals = tuple(range(100, 100 + prune_columns.LITERALS_MAX + 1))
    reader = StatsReader(KEYED, {0: KEYED})
    for predicate, expected in [
        (In("k", literals), [NO, NO]),
        (In("k", (*literals, 5)), [UNKNOWN, NO]),
        (bind(~col("k").isin(literals), KEYED.fields), [UNKNOWN, UNKNOWN]),
    ]:
        found = verdicts(reader, entries_of(files), predicate, stats="key", partitions=[("x",)])
        assert found.tolist() == expected


def test_damaged_statistics_and_unknown_schemas_are_left_to_the_file():
    damaged = data_file(value_stats=SimpleStats(b"\0\0\0\4", b"junk", (0, 0, 0, 0)))
    strange = data_file(schema_id=77)
    reader = StatsReader(KEYED, {0: KEYED})
    predicate = bind(col("v") == 1, KEYED.fields)
    found = verdicts(
        reader, entries_of([damaged, strange]), predicate, stats="value", partitions=[("x",)]
    )
    assert found.tolist() == [UNKNOWN, UNKNOWN]
    for file in (damaged, strange):
        with pytest.raises(CorruptError):
            reader.value_ranges(file, ["v"])
    assert found.dtype == np.int8
