"""What the settings of a column's function do to a table, however it is compacted.

The limit of ``nested_update``, by Java's rule: the first array of a key is taken whole; one that
has as many rows as the limit takes no more; else the newer array adds as many rows, counted before
the nested key is looked at, as are missing.
"""

from __future__ import annotations

import itertools
import random

import pyarrow as pa
import pytest

LINES = pa.list_(pa.struct({"item": pa.string(), "pieces": pa.int32()}))
COMPACTED = ("never", "each", "at the end")
BY_KEY = {"fields.v.nested-key": "item"}


def of_lines(catalog, limit, **more):
    options = {
        "bucket": 1,
        "merge-engine": "aggregation",
        "write-only": "true",
        "fields.v.aggregate-function": "nested_update",
        "fields.v.count-limit": limit,
    }
    columns = pa.schema({"k": pa.int32(), "v": LINES})
    return catalog.create_table("db.t", columns, primary_keys=["k"], options=options | more)


def lines(text):
    """``a1 b2``: one piece of a, two of b; ``-``: null."""
    if text == "-":
        return None
    return [{"item": part[0], "pieces": int(part[1:])} for part in text.split()]


def write(table, *arrays, kind="+I"):
    table.write([{"k": 1, "v": lines(text)} for text in arrays], row_kinds=[kind] * len(arrays))


def shown(table):
    (value,) = table.to_arrow(where="k = 1")["v"].to_pylist()
    return " ".join(f"{row['item']}{row['pieces']}" for row in value)


LIMITED = {
    "one more each": (3, {}, ["a1", "b1", "c1", "d1"], "a1 b1 c1"),
    "as many as are missing": (3, {}, ["a1 b1", "c1 d1 e1", "f1"], "a1 b1 c1"),
    "equal rows count": (3, {}, ["a1", "a1", "a1", "a1"], "a1 a1 a1"),
    "null says nothing": (2, {}, ["-", "a1", "-", "b1", "c1"], "a1 b1"),
    "the first is taken whole": (2, {}, ["a1 b1 c1", "d1"], "a1 b1 c1"),
    "none but the first": (0, {}, ["a1", "b1"], "a1"),
    "a newer row of a key": (2, BY_KEY, ["a1", "a2", "b1"], "a2 b1"),
    "not of a key in a full array": (2, BY_KEY, ["a1", "b1", "a2"], "a1 b1"),
    "a row of a key fills a place": (2, BY_KEY, ["a1", "a2 b1"], "a2"),
}


@pytest.mark.parametrize("compacted", COMPACTED)
@pytest.mark.parametrize("case", LIMITED)
def test_an_array_that_has_its_limit_of_rows_takes_no_more(catalog, case, compacted):
    limit, options, arrays, expected = LIMITED[case]
    table = of_lines(catalog, limit, **options)
    for text in arrays:
        write(table, text)
        if compacted == "each":
            table.compact(full=True)
    if compacted == "at the end":
        table.compact(full=True)
    assert shown(table) == expected


@pytest.mark.parametrize("parted", list(itertools.product([True, False], repeat=3)))
def test_without_a_key_the_limit_is_the_same_however_rows_are_committed(catalog, parted):
    table = of_lines(catalog, 3)
    commit = ["a1"]
    for begins, text in zip(parted, ["b1", "c1 d1", "e1"], strict=True):
        if begins:
            write(table, *commit)
            commit = []
        commit.append(text)
    write(table, *commit)
    assert shown(table) == "a1 b1 c1"
    table.compact(full=True)
    assert shown(table) == "a1 b1 c1"


def over_an_older_file(catalog, arrays, **options):
    """A table whose newer arrays were compacted without the file beneath."""
    table = of_lines(catalog, 2, **options, **{"num-sorted-run.compaction-trigger": 2})
    table.write([{"k": k, "v": [{"item": "a", "pieces": k}]} for k in range(5_000)])
    table.compact(full=True)
    for text in arrays:
        write(table, text)
    before = shown(table)
    table.compact()
    counts = table.system_table("files").to_arrow()["record_count"].to_pylist()
    assert sorted(counts) == [1, 5_000]
    return before, shown(table)


def test_without_a_key_the_limit_is_the_same_when_newer_files_are_merged_first(catalog):
    assert over_an_older_file(catalog, ["b2", "c3"]) == ("a1 b2", "a1 b2")


def test_with_a_key_what_is_merged_first_counts_as_one_array(catalog):
    """docs/merge-engines.md, "What depends on when rows are merged"."""
    assert over_an_older_file(catalog, ["a2", "b1"], **BY_KEY) == ("a2 b1", "a2")


@pytest.mark.parametrize("compacted", COMPACTED)
@pytest.mark.parametrize("options", [{}, BY_KEY], ids=["equal rows", "by key"])
def test_a_row_that_is_taken_back_makes_room(catalog, options, compacted):
    table = of_lines(catalog, 2, **options)
    for text, kind in [("a1", "+I"), ("b1", "+I"), ("a1", "-U"), ("c1", "+I"), ("d1", "+I")]:
        write(table, text, kind=kind)
        if compacted == "each":
            table.compact(full=True)
    if compacted == "at the end":
        table.compact(full=True)
    assert shown(table) == "b1 c1"


@pytest.mark.parametrize("compacted", COMPACTED)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"fields.default-aggregate-function": "last_non_null_value"},
        {"fields.v.aggregate-function": "last_value"},
        {"sequence.field": "v"},
    ],
    ids=["without a function", "by default", "of its own", "of the sequence"],
)
def test_a_column_that_ignores_retractions_stays_whichever_its_function(
    catalog, options, compacted
):
    table = catalog.create_table(
        "db.t",
        {"k": "INT", "v": "INT", "w": "INT"},
        primary_keys=["k"],
        options={
            "bucket": 1,
            "merge-engine": "aggregation",
            "write-only": "true",
            "fields.v.ignore-retract": "true",
            **options,
        },
    )
    for kind in ("+I", "-U"):
        table.write([{"k": 1, "v": 5, "w": 6}], row_kinds=[kind])
        if compacted == "each":
            table.compact(full=True)
    if compacted == "at the end":
        table.compact(full=True)
    assert table.to_arrow().to_pylist() == [{"k": 1, "v": 5, "w": None}]


@pytest.mark.parametrize("function", ["sum", "last_value"])
def test_a_group_gives_back_the_same_when_rows_that_retract_are_merged_first(catalog, function):
    """Two rows that take back make one of kind -D, whose sum says what is left, not what went."""
    numbers = random.Random(1)
    options = {
        "bucket": 1,
        "num-sorted-run.compaction-trigger": 3,
        "num-levels": 5,
        "merge-engine": "partial-update",
        "fields.g.sequence-group": "v",
        "fields.v.aggregate-function": function,
    }
    columns = {"k": "INT", "v": "INT", "g": "INT"}
    table = catalog.create_table("db.t", columns, primary_keys=["k"], options=options)
    others = [
        {"k": k, "v": numbers.randrange(2**30), "g": numbers.randrange(2**30)}
        for k in range(2, 4_000)
    ]
    table.write([{"k": 1, "v": 100, "g": 1}, *others])
    table.compact(full=True)
    found = []
    for sequence in (2, 3, 4, 5):
        table.write([{"k": 1, "v": 1, "g": sequence}], row_kinds=["-D"])
        found += table.to_arrow(columns=["v"], where="k = 1")["v"].to_pylist()
    assert found == ([99, 98, 97, 96] if function == "sum" else [None] * 4)
