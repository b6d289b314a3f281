"""What a merge engine cannot be asked for: refused with the table, before a byte is written."""

from __future__ import annotations

import dataclasses

import pytest

import tidelake
from tidelake import InvalidInputError

COLUMNS = {"k": "INT", "v": "INT", "g": "INT", "s": "STRING"}
SUM, GROUP = {"fields.v.aggregate-function": "sum"}, {"fields.g.sequence-group": "v"}


def engine(name, **more):
    return {"merge-engine": name, **{k.replace("_", "-"): v for k, v in more.items()}}


REFUSED = {
    "a function without an engine": (SUM, "Set 'merge-engine' = 'aggregation' or"),
    "a default without one": ({"fields.default-aggregate-function": "max"}, "'aggregation'"),
    "its setting without one": ({"fields.v.ignore-retract": "true"}, "'aggregation'"),
    "a function under first-row": (engine("first-row") | SUM, "on a table of 'first-row'"),
    "a group without an engine": (GROUP, "Set 'merge-engine' = 'partial-update'"),
    "a group under aggregation": (engine("aggregation") | GROUP, "'partial-update'"),
    "a removal without an engine": (
        {"partial-update.remove-record-on-delete": "true"},
        "on a table of 'deduplicate'",
    ),
    "a removal by a group without one": (
        {"partial-update.remove-record-on-sequence-group": "g"},
        "'partial-update'",
    ),
    "a removal of another engine": (
        {**engine("partial-update"), "aggregation.remove-record-on-delete": "true"},
        "Set 'merge-engine' = 'aggregation'",
    ),
    "a sum of texts": (
        {**engine("aggregation"), "fields.s.aggregate-function": "sum"},
        "column 's' .*'sum' needs a number, not STRING",
    ),
    "a sum of texts by default": (
        {**engine("aggregation"), "fields.default-aggregate-function": "sum"},
        "column 's' .*'sum' needs a number, not STRING",
    ),
    "a truth of numbers": (
        {**engine("aggregation"), "fields.v.aggregate-function": "bool_or"},
        "'bool_or' needs BOOLEAN, not INT",
    ),
    "a list of numbers": (
        {**engine("aggregation"), "fields.v.aggregate-function": "collect"},
        "'collect' needs an ARRAY, not INT",
    ),
    "a function that is none": (
        {**engine("aggregation"), "fields.v.aggregate-function": "summ"},
        "no aggregate function. Did you mean 'sum'",
    ),
    "input under first-row": (
        engine("first-row", changelog_producer="input"),
        "take 'lookup', which tells each first row once",
    ),
    "full compactions under first-row": (
        engine("first-row", changelog_producer="full-compaction"),
        "take 'lookup'",
    ),
    "a sequence under first-row": ({**engine("first-row"), "sequence.field": "g"}, "leave"),
    "full compactions with vectors": (
        {"deletion-vectors.enabled": "true", "changelog-producer": "full-compaction"},
        "take 'lookup'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_with_the_table(catalog, tmp_path, case):
    options, words = REFUSED[case]
    with pytest.raises(InvalidInputError, match=words):
        catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options={"bucket": 1, **options})
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_functions_of_an_append_table_are_refused(catalog):
    with pytest.raises(InvalidInputError, match="on a table without a primary key"):
        catalog.create_table("db.t", COLUMNS, options=SUM)


def test_an_option_is_not_added_to_another_engine(catalog):
    catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options={"bucket": 1})
    with pytest.raises(InvalidInputError, match="Set 'merge-engine' = 'aggregation'"):
        catalog.alter_table("db.t", [tidelake.SetOption("fields.v.aggregate-function", "sum")])


def test_a_table_that_has_such_options_is_used_and_altered(catalog):
    table = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options={"bucket": 1})
    handle = table.handle
    other = dataclasses.replace(handle.schema, id=1, options={"bucket": "1", **SUM, **GROUP})
    handle.schemas.create(other)  # as Java Paimon makes it
    table = catalog.table("db.t")
    for v in (1, 2):
        table.write([{"k": 1, "v": v, "g": 0, "s": ""}])
    assert table.to_arrow(columns=["v"]).to_pylist() == [{"v": 2}]
    catalog.alter_table("db.t", [tidelake.AddColumn("more", "INT")])
    assert catalog.table("db.t").to_arrow(columns=["v", "more"]).num_rows == 1
