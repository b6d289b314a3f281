"""Merges whose source goes to the buckets do what the joins do, and others are left to these."""

from __future__ import annotations

import functools

import pytest
from proving.fsck import check_table
from sizes import FULL, SIZE

from tidelake.errors import InvalidInputError
from tidelake.fileio import LocalFileIO
from tidelake.spark.rowlevel import merge_by_bucket, merge_by_join
from tidelake.spark.rowlevel.merge_by_bucket import by_bucket
from tidelake.spark.rowlevel.merge_cardinality import KeysOnce

SHARE = 1 if SIZE is FULL else 3
"""Every so manieth kind of clauses, each of which is two merges."""
NESTED = "named_struct('a', {0}, 'b', array('x', NULL))"


@pytest.fixture
def ways(monkeypatch):
    """Whether each merge went by bucket, in order; and whether the next ones may."""
    gone = []
    allowed = [True]

    def watched(*given, **named):
        rows = by_bucket(*given, **named) if allowed[-1] else None
        gone.append(rows is not None)
        return rows

    monkeypatch.setattr(merge_by_join, "by_bucket", watched)
    return gone, allowed


def twins(lake, columns, options):
    """Two tables of one kind."""
    for name in ("one", "two"):
        lake.sql(f"CREATE TABLE {name} ({columns}) WITH ({options})")
    return ("one", "two")


def rows(lake, name):
    return sorted((tuple(row) for row in lake.sql(f"SELECT * FROM {name}").collect()), key=repr)


def both_ways(lake, ways, text):
    """The same merge by bucket and by joins: the same table, and the same error."""
    gone, allowed = ways
    said = []
    for name, by in (("one", True), ("two", False)):
        allowed.append(by)
        gone.clear()
        try:
            lake.sql(text.format(name))
        except InvalidInputError as error:
            said.append((error.kind, str(error).replace(f"'default.{name}'", "")))
        else:
            said.append(None)
        assert by in gone, "the merge went the other way"
    assert said[0] == said[1]
    assert rows(lake, "one") == rows(lake, "two")
    return said[0]


def test_every_clause_by_composite_keys_and_partitions(lake, ways):
    twins(
        lake,
        "day STRING, code STRING, n INT, v INT, w STRING, s STRUCT<a: INT, b: ARRAY<STRING>>,"
        " PRIMARY KEY (day, code, n) NOT ENFORCED) PARTITIONED BY (day",
        "'bucket' = '2'",
    )
    base = (
        "INSERT INTO {} SELECT concat('d', id % 3), repeat('c', id % 5), id, id * 10, 'old',"
        f" {NESTED.format('id')} FROM range(60)"
    )
    for name in ("one", "two"):
        lake.sql(base.format(name))
        lake.sql(f"DELETE FROM {name} WHERE n BETWEEN 10 AND 12")
        lake.sql(f"UPDATE {name} SET w = 'newer' WHERE n % 7 = 0")
    source = (
        "(SELECT concat('d', id % 4) AS day, repeat('c', id % 5) AS code,"
        " CAST(IF(id % 9 = 8, NULL, id) AS INT) AS n, CAST(id % 6 AS INT) AS v, 'new' AS w,"
        f" {NESTED.format('-id')} AS s, IF(id % 4 = 0, '-D', '+I') AS op FROM range(5, 90)) AS s"
    )
    on = "ON t.day = s.day AND s.code = t.code AND t.n = s.n"
    merging = f"MERGE INTO {{}} AS t USING {source} {on} "
    for clauses in (
        "WHEN MATCHED AND op = '-D' AND t.w <> 'newer' THEN DELETE WHEN MATCHED THEN UPDATE SET"
        " v = t.v + s.v, w = concat(t.w, s.w) WHEN NOT MATCHED AND s.n IS NOT NULL AND op = '+I'"
        " THEN INSERT *",
        "WHEN MATCHED AND t.v % 20 = 0 THEN UPDATE SET *",
        "WHEN MATCHED THEN UPDATE SET s.a = s.v",
        "WHEN NOT MATCHED AND s.n > 50 THEN INSERT (day, code, n, w) VALUES (s.day, s.code, s.n,"
        " upper(w)) WHEN NOT MATCHED AND s.n > 40 THEN INSERT (day, code, n) VALUES (s.day,"
        " s.code, s.n)",
        # it fails for rows that it is not about
        "WHEN MATCHED AND s.v > 0 THEN UPDATE SET v = 60 DIV s.v"
        " WHEN NOT MATCHED AND s.v = 0 AND s.n IS NOT NULL THEN INSERT *",
        "WHEN MATCHED AND s.w = 'nothing' THEN DELETE",
    )[::SHARE]:
        assert both_ways(lake, ways, merging + clauses) is None, clauses
    assert both_ways(lake, ways, merging + "WHEN NOT MATCHED THEN INSERT *") is not None  # nulls
    found = rows(lake, "one")
    assert {row[4] for row in found} > {"old", "new", None}
    check_table(LocalFileIO(), lake.catalog.table("default.one").paths.location)


def test_conditions_beside_the_key_and_what_comes_twice(lake, ways):
    twins(lake, "k BIGINT, v INT, w STRING, PRIMARY KEY (k) NOT ENFORCED", "'bucket' = '2'")
    for name in ("one", "two"):
        lake.sql(f"INSERT INTO {name} SELECT id, CAST(id AS INT), 'old' FROM range(8)")
    twice = "(VALUES (3L, 1, 'a'), (3L, 2, 'b'), (7L, 3, 'c'), (9L, 4, 'd')) AS s (k, v, w)"
    merging = f"MERGE INTO {{}} AS t USING {twice} ON t.k = s.k "
    for clauses, kind in (
        ("WHEN MATCHED THEN UPDATE SET *", "merge_row_twice"),
        ("WHEN MATCHED AND s.v = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET *", "merge_row_twice"),
        ("AND s.v = t.v - 2 WHEN MATCHED THEN UPDATE SET w = s.w"
         " WHEN NOT MATCHED AND s.v > 2 THEN INSERT *", None),
        ("AND s.v = 2 WHEN MATCHED AND s.w = 'b' THEN DELETE WHEN NOT MATCHED THEN INSERT *",
         "merge_key_twice"),
        ("AND s.v = 2 WHEN MATCHED AND s.w = 'b' THEN DELETE"
         " WHEN NOT MATCHED AND s.v > 3 THEN INSERT *", None),
        ("AND t.v > 100 WHEN NOT MATCHED AND s.v > 1 THEN INSERT *", None),  # an upsert
        ("WHEN MATCHED AND s.v = 2 THEN UPDATE SET w = t.w || s.w", None),
    )[::SHARE]:  # fmt: skip
        before = lake.catalog.table("default.one").latest_snapshot_id
        said = both_ways(lake, ways, merging + clauses)
        assert (said and said[0]) == kind, clauses
        after = lake.catalog.table("default.one").latest_snapshot_id
        assert (after == before) == (kind is not None), clauses
    empty = "(SELECT 1L AS k, 1 AS v, '' AS w WHERE false) AS s"
    before = lake.catalog.table("default.one").latest_snapshot_id
    text = f"MERGE INTO {{}} AS t USING {empty} ON t.k = s.k WHEN MATCHED THEN UPDATE SET *"
    assert both_ways(lake, ways, text + " WHEN NOT MATCHED THEN INSERT *") is None
    assert lake.catalog.table("default.one").latest_snapshot_id == before


@pytest.mark.parametrize("bound", ["source", "keys"])
def test_bounds_of_memory_change_no_row(lake, ways, monkeypatch, bound):
    twins(lake, "k STRING, v INT, PRIMARY KEY (k) NOT ENFORCED", "'bucket' = '2'")
    for name in ("one", "two"):
        lake.sql(f"INSERT INTO {name} SELECT concat('k', id), CAST(id AS INT) FROM range(300)")
    if bound == "source":  # looked up batch by batch
        look_up = functools.partial(merge_by_bucket._LookUp, bytes_max=1)
        monkeypatch.setattr(merge_by_bucket, "_LookUp", look_up)
        lake.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "16")
    else:  # left to the joins when a task has too many
        monkeypatch.setattr(merge_by_join, "KeysOnce", functools.partial(KeysOnce, bytes_max=1))
    text = (
        "MERGE INTO {} AS t USING (SELECT concat('k', id * 3) AS k, 7 AS v FROM range(150)) AS s"
        " ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED THEN INSERT *"
    )
    try:
        assert both_ways(lake, ways, text) is None
    finally:
        lake.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")
    expected = {(f"k{n}", n + 7 if n % 3 == 0 else n) for n in range(300)}
    expected |= {(f"k{n}", 7) for n in range(300, 450, 3)}
    assert set(rows(lake, "one")) == expected


KEYED = "k INT, v INT, w STRING, PRIMARY KEY (k) NOT ENFORCED"
SET_ALL = "ON t.k = s.k WHEN MATCHED THEN UPDATE SET *"
FIXED = "'bucket' = '1'"


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("columns", "options", "said", "by"),
    [
        (KEYED, FIXED, SET_ALL, True),
        (KEYED, FIXED, "ON s.k = t.k AND t.v < s.v WHEN MATCHED THEN DELETE"
         " WHEN NOT MATCHED THEN INSERT *", False),  # a sole DELETE may meet a row twice
        (KEYED, "'bucket' = '-1'", SET_ALL, False),
        (KEYED, f"{FIXED}, 'merge-engine' = 'partial-update'", SET_ALL, None),
        (KEYED, f"{FIXED}, 'merge-engine' = 'first-row'",
         "ON t.k = s.k WHEN NOT MATCHED THEN INSERT *", False),
        (KEYED, f"{FIXED}, 'sequence.field' = 'v'", SET_ALL, None),
        (KEYED, f"{FIXED}, 'sequence.field' = 'v'",
         "ON t.k = s.k WHEN NOT MATCHED THEN INSERT *", True),
        (KEYED, FIXED, "ON t.v = s.v WHEN MATCHED THEN UPDATE SET w = s.w", False),
        (KEYED, FIXED, "ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k + 1)", False),
        (KEYED, FIXED, f"{SET_ALL} WHEN NOT MATCHED BY SOURCE THEN DELETE", False),
        (KEYED, FIXED, "ON t.k = s.k WHEN MATCHED AND t.v IN (SELECT v FROM more) THEN"
         " UPDATE SET *", False),
        (KEYED, FIXED, "ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = (SELECT max(v) FROM more)",
         False),
        ("k CHAR(3), v INT, w STRING, PRIMARY KEY (k) NOT ENFORCED", FIXED,
         "ON t.k = CAST(s.k AS STRING) WHEN MATCHED THEN UPDATE SET v = s.v", False),
        ("k DOUBLE, v INT, w STRING, PRIMARY KEY (k) NOT ENFORCED", FIXED,
         "ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v", False),
        ("k INT, v INT, w STRING", "'bucket' = '-1'", "ON t.k = s.k WHEN MATCHED THEN"
         " UPDATE SET v = s.v", None),
    ],
)  # fmt: skip
def test_which_merges_go_by_bucket(lake, ways, columns, options, said, by):
    gone, _ = ways
    lake.sql(f"CREATE TABLE t ({columns}) WITH ({options})")
    lake.sql("INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b')")
    lake.spark.sql("SELECT 20 AS v").createOrReplaceTempView("more")
    lake.sql(f"MERGE INTO t USING (VALUES (2, 21, 'c'), (3, 30, 'd')) AS s (k, v, w) {said}")
    assert gone == ([] if by is None else [by])


def test_partitions_that_wait_to_be_rescaled_are_left_to_the_joins(lake, ways):
    gone, _ = ways
    lake.sql(f"CREATE TABLE t ({KEYED}) WITH ('bucket' = '2')")
    lake.sql("INSERT INTO t SELECT CAST(id AS INT), 1, 'a' FROM range(20)")
    lake.sql("ALTER TABLE t SET ('bucket' = '3')")
    text = f"MERGE INTO t USING (VALUES (2, 21, 'c')) AS s (k, v, w) {SET_ALL}"
    with pytest.raises(InvalidInputError, match="rescale"):
        lake.sql(text)
    assert gone == [False]


def test_types_that_do_not_go_through_arrow_are_left_to_the_joins(spark, lake, ways):
    gone, _ = ways
    lake.sql(f"CREATE TABLE t ({KEYED}) WITH ({FIXED})")
    lake.sql("INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b')")
    for value, expected in (("INTERVAL 1 DAY", False), ("map(1, struct(2L))", True)):
        source = spark.sql(f"SELECT 2 AS k, 22 AS v, {value} AS odd")
        merging = lake.merge("default.t", source, "t.k = s.k AND s.odd IS NOT NULL")
        merging.when_matched_update({"v": "s.v"}).execute()
        assert gone[-1] is expected
    assert rows(lake, "t") == [(1, 10, "a"), (2, 22, "b")]
