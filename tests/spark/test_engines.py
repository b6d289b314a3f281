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
    with pytest.raises(InvalidInputError, match="cannot retract rows"):
        lake.write(deletes, "db.p")
    assert [tuple(r) for r in lake.table("db.p").collect()] == [(1, 2)]


DELETES = {
    "partial-update": "partial-update.remove-record-on-delete",
    "aggregation": "aggregation.remove-record-on-delete",
    "first-row": None,
}


@pytest.mark.parametrize("engine", DELETES)
def test_a_statement_deletes_where_the_engine_can_and_is_refused_else(lake, engine):
    def make(name, **options):
        given = ", ".join(
            f"'{k}' = '{v}'" for k, v in {"merge-engine": engine, "bucket": 1, **options}.items()
        )
        lake.sql(f"CREATE TABLE {name} (k INT, a INT, PRIMARY KEY (k) NOT ENFORCED) WITH ({given})")
        lake.sql(f"INSERT INTO {name} VALUES (1, 10), (2, 20)")
        return lake.catalog.table(f"default.{name}")

    table = make("t")
    snapshots = table.history().num_rows
    with pytest.raises(InvalidInputError, match=f"'default.t'.*merge engine '{engine}'"):
        lake.sql("DELETE FROM t WHERE a = 10")
    assert table.history().num_rows == snapshots
    assert lake.table("default.t").count() == 2
    if (option := DELETES[engine]) is not None:
        make("u", **{option: "true"})
        lake.sql("DELETE FROM u WHERE a = 10")
        assert [tuple(row) for row in lake.table("default.u").collect()] == [(2, 20)]


BY_DELETE = (
    "DELETE FROM p WHERE b < 10",
    "MERGE INTO p USING (SELECT 1 AS k UNION SELECT 2) AS s ON p.k = s.k WHEN MATCHED THEN DELETE",
)


def test_a_row_without_the_sequence_that_deletes_count_by_is_not_half_deleted(lake):
    lake.sql(
        "CREATE TABLE p (k INT, a INT, g INT, b INT, h INT, PRIMARY KEY (k) NOT ENFORCED) WITH ("
        "'merge-engine' = 'partial-update', 'bucket' = '1', 'fields.g.sequence-group' = 'a',"
        " 'fields.h.sequence-group' = 'b',"
        " 'partial-update.remove-record-on-sequence-group' = 'g')"
    )
    there = [(1, 10, 5, 1, 5), (2, None, None, 2, 5)]
    for delete in BY_DELETE:
        lake.sql("INSERT INTO p VALUES (1, 10, 5, 1, 5), (2, NULL, NULL, 2, 5)")
        with pytest.raises(InvalidInputError, match=r"row of \{'k': 2\}: .*no value in g, but"):
            lake.sql(delete)
        assert sorted(map(tuple, lake.table("default.p").collect())) == there
        lake.sql("INSERT INTO p VALUES (2, NULL, 0, NULL, NULL)")
        lake.sql(delete)
        assert lake.table("default.p").count() == 0
