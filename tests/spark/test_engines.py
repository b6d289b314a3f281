"""Merge engines that combine rows, written and read on executors, against loops in Python."""

from __future__ import annotations

import random

import pytest
from proving.one_key import merged

from tidelake.errors import InvalidInputError

PARTIAL = {
    "merge-engine": "partial-update",
    "bucket": "2",
    "fields.g.sequence-group": "a",
    "fields.a.aggregate-function": "sum",
    "partial-update.remove-record-on-sequence-group": "g",
}
AGGREGATION = {
    "merge-engine": "aggregation",
    "bucket": "2",
    "fields.a.aggregate-function": "sum",
    "fields.g.aggregate-function": "max",
    "fields.g.ignore-retract": "true",
    "fields.s.aggregate-function": "listagg",
    "fields.s.ignore-retract": "true",
}
COLUMNS = ("k", "a", "g", "s")


def commits_of(rng, *, deletes):
    """Rows of several commits, one per key and commit, so that their order is known."""
    for number in range(4):
        keys = rng.sample(range(40), 25) if number else range(40)
        yield [
            (
                k,
                rng.choice([None, rng.randrange(100)]),
                rng.choice([None, rng.randrange(6)]),
                rng.choice([None, f"s{number}"]),
                "-D" if deletes and number == 2 and k % 4 == 0 else "+I",
            )
            for k in keys
        ]


@pytest.mark.parametrize("options", [PARTIAL, AGGREGATION], ids=["partial-update", "aggregation"])
def test_rows_are_combined_on_executors(spark, lake, options):
    rng = random.Random(7)
    schema = "k int, a bigint, g int, s string, _row_kind string"
    history = {}
    for number, rows in enumerate(commits_of(rng, deletes=True)):
        frame = spark.createDataFrame(rows, schema)
        if not number:
            lake.create_table("db.t", frame.drop("_row_kind"), primary_keys=["k"], options=options)
        lake.write(frame, "db.t")
        for row in rows:
            values = dict(zip(COLUMNS, row[:4], strict=True))
            history.setdefault(row[0], []).append((row[4], values))
    folded = [merged(own, options, keys=("k",)) for own in history.values()]
    expected = sorted(tuple(v.values()) for kind, v in folded if kind in ("+I", "+U"))
    found = lake.table("db.t")
    assert sorted(map(tuple, found.collect())) == expected
    assert found.count() == len(expected)
    sums = [row[1] for row in expected if row[1] is not None]
    largest = max(sums)
    assert found.where(f"a = {largest}").count() == sums.count(largest)
    kernel = lake.catalog.table("db.t").to_arrow().to_pylist()
    assert sorted(tuple(r.values()) for r in kernel) == expected


def test_a_kind_that_the_engine_cannot_take_is_refused(spark, lake):
    options = {"merge-engine": "partial-update", "bucket": "1"}
    frame = spark.createDataFrame([(1, 2)], "k int, a int")
    lake.create_table("db.p", frame, primary_keys=["k"], options=options)
    lake.write(frame, "db.p")
    deletes = spark.createDataFrame([(1, 2, "-D")], "k int, a int, _row_kind string")
    with pytest.raises(InvalidInputError, match="cannot take rows back"):
        lake.write(deletes, "db.p")
    assert [tuple(r) for r in lake.table("db.p").collect()] == [(1, 2)]
