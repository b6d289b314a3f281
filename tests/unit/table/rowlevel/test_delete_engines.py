"""``Table.delete`` on engines that combine rows or keep the first: done right, or refused whole."""

from __future__ import annotations

import pytest

import tidelake
from tidelake import InvalidInputError

PARTIAL = {"merge-engine": "partial-update"}
GROUP = {**PARTIAL, "fields.g.sequence-group": "v"}
BY_GROUP = "partial-update.remove-record-on-sequence-group"
REMOVING_GROUP = {**GROUP, BY_GROUP: "g"}
AGGREGATION = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
FIRST_ROW = {"merge-engine": "first-row"}
IGNORE = {"ignore-delete": "true"}

PARTIAL_ADVICE = f"'partial-update.remove-record-on-delete' = 'true', or name .*'{BY_GROUP}'"
REFUSED = {
    "partial-update": (PARTIAL, "no_delete", PARTIAL_ADVICE),
    "partial-update, ignore-delete": (PARTIAL | IGNORE, "delete_ignored", "change nothing"),
    "partial-update, its own ignore-delete": (
        {**PARTIAL, "partial-update.ignore-delete": "true"},
        "delete_ignored",
        "change nothing",
    ),
    "partial-update, groups": (GROUP, "no_delete", PARTIAL_ADVICE),
    "aggregation": (AGGREGATION, "no_delete", "'aggregation.remove-record-on-delete' = 'true'"),
    "aggregation, functions that retract": (
        {**AGGREGATION, "fields.default-aggregate-function": "last_value"},
        "no_delete",
        "write rows with the kind -D",
    ),
    "aggregation, ignore-delete": (AGGREGATION | IGNORE, "delete_ignored", "change nothing"),
    "first-row": (FIRST_ROW, "no_delete", "'first-row', which never deletes a row"),
    "first-row, ignore-delete": (FIRST_ROW | IGNORE, "delete_ignored", "change nothing"),
}
DONE = {
    "partial-update": {**PARTIAL, "partial-update.remove-record-on-delete": "true"},
    "partial-update, sequence.field": {
        **PARTIAL,
        "partial-update.remove-record-on-delete": "true",
        "sequence.field": "g",
    },
    "partial-update, a group": REMOVING_GROUP,
    "partial-update, a group that sums": {**REMOVING_GROUP, "fields.v.aggregate-function": "sum"},
    "partial-update, a group beside one of max": {
        **REMOVING_GROUP,
        "fields.h.sequence-group": "w",
        "fields.w.aggregate-function": "max",
    },
    "aggregation": {**AGGREGATION, "aggregation.remove-record-on-delete": "true"},
    "aggregation, sequence.field": {
        **AGGREGATION,
        "aggregation.remove-record-on-delete": "true",
        "sequence.field": "g",
    },
}
MERGES = {
    "none": {},
    "lookup": {"changelog-producer": "lookup"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
}
TARGETS = {"keys": [{"k": 1}, {"k": 2}, {"k": 9}], "condition": "w < 30"}
"""What takes the keys 1 and 2 out of the rows below."""
COLUMNS = ("k", "v", "g", "w", "h")
ROWS = [(1, 1, 5, 10, 5), (2, 2, 5, 20, None), (3, 3, 5, 30, 5)]


def table_at(place, options):
    return tidelake.open(place).create_table(
        "db.t",
        dict.fromkeys((*COLUMNS, "p"), "INT"),
        primary_keys=["k", "p"],
        partition_keys=["p"],
        options={"bucket": "1", **options},
    )


def rows(values, p=0):
    return [{**dict(zip(COLUMNS, row, strict=True)), "p": p} for row in values]


def target(how):
    given = TARGETS[how]
    return given if isinstance(given, str) else [{**key, "p": 0} for key in given]


def content(table):
    found = table.to_arrow().select(COLUMNS).to_pylist()
    return sorted(tuple(row.values()) for row in found)


def files(place):
    return {path: path.is_dir() or path.read_bytes() for path in place.rglob("*")}


@pytest.mark.parametrize("how", TARGETS)
@pytest.mark.parametrize("case", REFUSED)
def test_a_delete_that_would_not_remove_rows_is_refused(tmp_path, case, how):
    options, kind, words = REFUSED[case]
    table = table_at(tmp_path, options)
    table.write(rows(ROWS))
    before = files(tmp_path)
    with pytest.raises(InvalidInputError, match=f"'db.t'.*{words}") as refused:
        table.delete(target(how))
    assert refused.value.kind == kind
    assert files(tmp_path) == before
    assert content(table) == ROWS


@pytest.mark.parametrize("options", [PARTIAL, AGGREGATION, FIRST_ROW | IGNORE])
def test_whole_partitions_go_from_any_engine(tmp_path, options):
    table = table_at(tmp_path, options)
    table.write(rows(ROWS) + rows(ROWS[:1], p=1))
    table.delete("p = 0")
    assert content(table) == ROWS[:1]
    table.delete("TRUE")
    assert content(table) == []


@pytest.mark.parametrize(
    ("how", "merges"),
    [
        ("keys", "none"),
        ("condition", "none"),
        ("keys", "deletion vectors"),
        ("condition", "lookup"),
    ],
)
@pytest.mark.parametrize("case", DONE)
def test_deleted_rows_are_gone_and_what_comes_later_begins_anew(tmp_path, case, how, merges):
    table = table_at(tmp_path, DONE[case] | MERGES[merges])
    table.write(rows(ROWS))
    deleted = table.delete(target(how))
    assert content(table) == ROWS[2:]
    table.write(rows([(1, 7, 6, None, None)]))
    expected = [(1, 7, 6, None, None), *ROWS[2:]]
    assert content(table) == expected
    table.compact(full=True)
    assert content(table) == expected
    if merges == "lookup":
        told = table.changes(deleted.snapshot_ids[-1] - 1, deleted.snapshot_ids[-1], mode="auto")
        assert sorted((c["_row_kind"], c["k"], c["v"]) for c in told.to_pylist()) == [
            ("-D", 1, 1),
            ("-D", 2, 2),
        ]


TWO_GROUPS = {**REMOVING_GROUP, "fields.h.sequence-group": "w"}


@pytest.mark.parametrize("merges", MERGES)
@pytest.mark.parametrize("how", TARGETS)
def test_a_row_without_the_sequence_that_deletes_count_by_is_not_half_deleted(
    tmp_path, how, merges
):
    table = table_at(tmp_path, TWO_GROUPS | MERGES[merges])
    late = (2, None, None, 20, 5)
    table.write(rows([ROWS[0], late]))
    before = files(tmp_path)
    with pytest.raises(InvalidInputError, match=r"row of \{'k': 2, 'p': 0\}: .*no value in g, but"):
        table.delete(target(how))
    assert files(tmp_path) == before
    assert content(table) == [ROWS[0], late]
    table.write(rows([(2, None, 0, None, None)]))
    table.delete(target(how))
    assert content(table) == []


@pytest.mark.parametrize(
    "options",
    [
        {**PARTIAL, "fields.g,h.sequence-group": "v,w", BY_GROUP: "g"},
        {**TWO_GROUPS, BY_GROUP: "g,h"},
    ],
    ids=["a group of two columns", "two groups"],
)
def test_one_value_in_the_sequences_that_remove_is_enough(tmp_path, options):
    table = table_at(tmp_path, options)
    table.write(rows([(1, 1, 5, 10, None), (2, 2, None, 20, 5), *ROWS[2:]]))
    table.delete(target("condition"))
    assert content(table) == ROWS[2:]
