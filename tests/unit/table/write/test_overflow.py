"""A result that does not fit its column: refused where rows meet, and what was there stays."""

from __future__ import annotations

import pytest

import tidelake
from tidelake import InvalidInputError

MAX = 2**31 - 1
AGGREGATION = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
ENGINES = {
    "aggregation": AGGREGATION,
    "partial-update": {
        "merge-engine": "partial-update",
        "fields.s.sequence-group": "v",
        "fields.v.aggregate-function": "sum",
    },
}
MERGES = {
    "inline": {"num-sorted-run.compaction-trigger": "2"},
    "lookup": {"changelog-producer": "lookup"},
    "full-compaction": {
        "changelog-producer": "full-compaction",
        "full-compaction.delta-commits": "1",
    },
    "deletion vectors": {"deletion-vectors.enabled": "true"},
}
"""Tables whose second write merges its rows with those that are there."""
WRITE_ONLY = {"write-only": "true"}
REFUSAL = (
    "Table 'db.t': the sum of column 'v' does not fit INT: widen the column's type, or write a row"
    " that brings it back. Rows not written yet can have other values."
)
COMPACTS = f"{REFUSAL} The error occurred in a compaction of {{place}}/db.db/t/bucket-0, which is"
COMPACTS += " unchanged."
OTHER_WAY = " Until the column is wider, rows of other keys can be written with 'write-only' ="
OTHER_WAY += " 'true'."


def table_at(place, **options: str):
    return tidelake.open(place).create_table(
        "db.t",
        {"k": "INT", "v": "INT", "s": "INT"},
        primary_keys=["k"],
        options={"bucket": "1", **options},
    )


def rows(*pairs):
    return [{"k": k, "v": v, "s": 1} for k, v in pairs]


def content(table, **scan):
    return {row["k"]: row["v"] for row in table.to_arrow(**scan).to_pylist()}


def files(place):
    return {path: path.is_dir() or path.read_bytes() for path in place.rglob("*")}


def assert_refused(place, act, text):
    before = files(place)
    with pytest.raises(InvalidInputError) as refused:
        act()
    assert files(place) == before
    assert str(refused.value) == text.format(place=place)
    assert refused.value.kind == "aggregate_overflow"
    assert refused.value.context == {"table": "db.t", "column": "v"}


def compacts(merges):
    """What a table says that cannot be compacted, by what makes it."""
    return COMPACTS if merges in ("lookup", "deletion vectors") else COMPACTS + OTHER_WAY


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("merges", MERGES)
def test_a_write_that_merges_refuses_a_sum_that_does_not_fit(tmp_path, merges, engine):
    table = table_at(tmp_path, **ENGINES[engine], **MERGES[merges])
    table.write(rows((1, MAX), (2, 5)))
    assert_refused(tmp_path, lambda: table.write(rows((3, 1), (1, 1))), compacts(merges))
    assert content(table) == {1: MAX, 2: 5}
    table.write(rows((2, 1)))
    assert content(table) == {1: MAX, 2: 6}

    wide = table.retype_column("v", "BIGINT")
    wide.write(rows((3, 1), (1, 1)))
    assert content(wide) == {1: MAX + 1, 2: 6, 3: 1}
    wide.compact(full=True)
    assert content(tidelake.open(tmp_path).table("db.t")) == {1: MAX + 1, 2: 6, 3: 1}
    if "changelog-producer" in MERGES[merges]:
        told = wide.changes(0, mode="auto", where="k = 1").to_pylist()
        changes = [(row["_row_kind"], row["v"]) for row in told]
        assert changes == [("+I", MAX), ("-U", MAX), ("+U", MAX + 1)]


@pytest.mark.parametrize("merges", MERGES)
def test_rows_that_were_accepted_are_read_and_compacted_in_a_wider_column(tmp_path, merges):
    table = table_at(tmp_path, **AGGREGATION, **MERGES[merges])
    writer = table.with_options(WRITE_ONLY)
    writer.write(rows((1, MAX), (2, 5)))
    writer.write(rows((1, 1)))
    for act in (lambda: table.write(rows((2, 1))), lambda: table.compact(full=True)):
        assert_refused(tmp_path, act, compacts(merges))
    # of a writer that does not compact nothing more is to be said
    assert_refused(tmp_path, lambda: writer.compact(full=True), COMPACTS)
    writer.write(rows((2, 1)))
    assert_refused(tmp_path, table.to_arrow, REFUSAL)
    assert content(table, where="k = 2") == {2: 6}

    wide = table.retype_column("v", "BIGINT")
    assert content(wide) == {1: MAX + 1, 2: 6}
    wide.write(rows((2, 1)))
    assert content(wide) == {1: MAX + 1, 2: 7}
    wide.compact(full=True)
    assert content(wide) == {1: MAX + 1, 2: 7}


@pytest.mark.parametrize("merges", MERGES)
def test_a_row_that_makes_the_sum_fit_again_is_taken(tmp_path, merges):
    table = table_at(tmp_path, **AGGREGATION, **MERGES[merges])
    writer = table.with_options(WRITE_ONLY)
    writer.write(rows((1, MAX), (2, 5)))
    writer.write(rows((1, 1)))
    table.write(rows((1, -3)))
    assert content(table) == {1: MAX - 2, 2: 5}


def test_rows_that_wait_for_a_bucket_wait_until_they_fit(tmp_path):
    table = table_at(tmp_path, **AGGREGATION, bucket="-2")
    table.write(rows((1, MAX), (2, 5)))
    table.compact()
    table.write(rows((1, 1)))
    assert_refused(tmp_path, lambda: table.compact(full=True), COMPACTS + OTHER_WAY)
    assert content(table) == {1: MAX, 2: 5}
    wide = table.retype_column("v", "BIGINT")
    wide.compact(full=True)
    assert content(wide) == {1: MAX + 1, 2: 5}


OLD_ROWS = {"sum": (-100, MAX, 50, MAX - 50), "product": (0, MAX, 2, 0)}
"""Of a key, the oldest first: the newer two have no result of their own; and what all give."""


@pytest.fixture(params=OLD_ROWS)
def deep(request, tmp_path):
    """A table with a large file at the bottom, whose compactions take newer files alone."""
    name = request.param
    options = {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": name,
        "num-sorted-run.compaction-trigger": "3",
    }
    table = table_at(tmp_path, **options)
    oldest, newer, newest, result = OLD_ROWS[name]
    table.write(rows((1, oldest), *((k, k) for k in range(2, 3000))))
    table.compact(full=True)
    table.write(rows((1, newer)))
    return table, rows((1, newest)), result


def levels(table):
    return sorted(table.system_table("files").to_arrow()["level"].to_pylist())


def test_a_part_of_the_rows_that_does_not_fit_is_compacted_with_the_others(deep):
    table, newest, result = deep
    table.write(newest)
    assert levels(table) == [3]
    assert content(table, where="k = 1") == {1: result}


def test_a_compaction_by_itself_takes_the_others_along_too(deep):
    table, newest, result = deep
    table.with_options(WRITE_ONLY).write(newest)
    assert levels(table) == [0, 0, 3]
    table.compact()
    assert levels(table) == [3]
    assert content(table, where="k = 1") == {1: result}


def test_a_part_that_fits_is_compacted_alone(deep):
    table, _, _ = deep
    table.write(rows((2, 1)))
    assert levels(table) == [2, 3]


def test_a_sum_that_does_not_fit_with_the_others_either_is_refused(tmp_path):
    table = table_at(tmp_path, **AGGREGATION, **{"num-sorted-run.compaction-trigger": "3"})
    table.write(rows((1, -100), *((k, k) for k in range(2, 3000))))
    table.compact(full=True)
    table.write(rows((1, MAX)))
    assert_refused(tmp_path, lambda: table.write(rows((1, 101))), COMPACTS + OTHER_WAY)
    assert content(table, where="k = 1") == {1: MAX - 100}


def test_a_delete_by_key_takes_a_row_away_that_has_no_result(tmp_path):
    options = {**AGGREGATION, **WRITE_ONLY, "aggregation.remove-record-on-delete": "true"}
    table = table_at(tmp_path, **options)
    table.write(rows((1, MAX), (2, 5)))
    table.write(rows((1, 1)))
    assert_refused(tmp_path, table.to_arrow, REFUSAL)
    assert_refused(tmp_path, lambda: table.delete("k = 1"), REFUSAL)  # it reads the row
    table.delete([{"k": 1}])
    assert content(table) == {2: 5}
    table.compact(full=True)
    assert content(table) == {2: 5}


def test_a_product_that_does_not_fit_is_not_brought_back(tmp_path):
    table = table_at(tmp_path, **{**AGGREGATION, "fields.v.aggregate-function": "product"})
    text = (
        "Table 'db.t': the product of column 'v' does not fit INT: widen the column's type. Rows"
        " not written yet can have other values."
    )
    assert_refused(tmp_path, lambda: table.write(rows((1, MAX), (1, 2), (1, 0))), text)
    table.write(rows((1, MAX), (1, 0)))
    assert content(table) == {1: 0}
