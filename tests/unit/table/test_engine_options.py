"""What a merge engine cannot be asked for: refused with the table, before a byte is written."""

from __future__ import annotations

import dataclasses

import pytest

import tidelake
from tidelake import InvalidInputError, UnsupportedError
from tidelake.types import parse_type

COLUMNS = {"k": "INT", "v": "INT", "g": "INT", "s": "STRING"}
LINE = {"type": "ROW", "fields": [{"id": 20, "name": "item", "type": "STRING"}]}
WIDE = {
    **COLUMNS,
    "flag": "BOOLEAN",
    "raw": "BYTES",
    "eight": "BINARY(8)",
    "day": "DATE",
    "ints": {"type": "ARRAY", "element": "INT"},
    "lines": {"type": "ARRAY", "element": LINE},
    "line": LINE,
    "counts": {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"},
}
SUM, GROUP = {"fields.v.aggregate-function": "sum"}, {"fields.g.sequence-group": "v"}


def engine(name, **more):
    return {"merge-engine": name, **{k.replace("_", "-"): v for k, v in more.items()}}


def settings(column, **given):
    return {f"fields.{column}.{k.replace('_', '-')}": v for k, v in given.items()}


AGGREGATION, PARTIAL = engine("aggregation"), engine("partial-update")
LINES = {**AGGREGATION, **settings("lines", aggregate_function="nested_update")}
BOTH = "Set 'merge-engine' = 'aggregation' or 'partial-update', or leave the option out"
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
    "a function in capitals": (
        {**AGGREGATION, **settings("v", aggregate_function="SUM")},
        "'SUM', which is no aggregate function. Did you mean 'sum'.* Use one of bool_and,",
    ),
    "a default that is none": (
        {**AGGREGATION, "fields.default-aggregate-function": "mix"},
        "'fields.default-aggregate-function' is 'mix', .* Did you mean 'min' or 'max'",
    ),
    "a function of SQL": (
        {**AGGREGATION, **settings("v", aggregate_function="count")},
        "'fields.v.aggregate-function' is 'count', which is no aggregate function. Use one of",
    ),
    "a function of Paimon 2": (
        {**AGGREGATION, **settings("lines", aggregate_function="nested_partial_update")},
        "'nested_partial_update', which is no aggregate function. Did you mean 'nested_update'",
    ),
    "another function of Paimon 2": (
        {**AGGREGATION, **settings("counts", aggregate_function="merge_map_with_keytime")},
        "'merge_map_with_keytime', which is no aggregate function. .*merge_map, min",
    ),
    "a function of no column": (
        {**AGGREGATION, **settings("w", aggregate_function="sum")},
        "no column 'w', which its option 'fields.w.aggregate-function' names.* name one of them",
    ),
    "a function without a group": (
        PARTIAL | SUM,
        "column 'v' is aggregated by 'sum' but is in no sequence group: add it to one with"
        " 'fields.<sequence>.sequence-group', or unset 'fields.v.aggregate-function'",
    ),
    "a default without groups": (
        {**PARTIAL, "fields.default-aggregate-function": "max"},
        "column 'v' .*or unset 'fields.default-aggregate-function'",
    ),
    "a function of a sequence": (
        {**PARTIAL, **GROUP, **settings("g", aggregate_function="max")},
        "column 'g' is the sequence of a group .*'fields.g.aggregate-function': unset it",
    ),
    "a function of a sequence.field": (
        {**AGGREGATION, "sequence.field": "g", **settings("g", aggregate_function="max")},
        "column 'g' is a 'sequence.field' .*'fields.g.aggregate-function': unset it",
    ),
    "a column in two groups": (
        {**PARTIAL, **GROUP, **settings("s", sequence_group="v")},
        "column 'v' is in the groups 'fields.g.sequence-group' and 'fields.s.sequence-group':"
        " name it in one",
    ),
    "a key in a group": (
        {**PARTIAL, **settings("g", sequence_group="k")},
        "'fields.g.sequence-group' names 'k', a column of the primary key: leave it out",
    ),
    "a group under first-row": (engine("first-row") | GROUP, "Set 'merge-engine' = 'partial-up"),
    "a removal by what is no sequence": (
        {**PARTIAL, **GROUP, "partial-update.remove-record-on-sequence-group": "v"},
        "names 'v', which is the sequence of no group: name columns before '.sequence-group'",
    ),
    "a removal with groups": (
        {**PARTIAL, **GROUP, "partial-update.remove-record-on-delete": "true"},
        "'sequence-group' and 'partial-update.remove-record-on-delete' contradict .* unset one",
    ),
    "a removal of what is ignored": (
        {**PARTIAL, "ignore-delete": "true", "partial-update.remove-record-on-delete": "true"},
        "'ignore-delete' and 'partial-update.remove-record-on-delete' contradict .* unset one",
    ),
    "a removal under aggregation": (
        {**AGGREGATION, "partial-update.remove-record-on-delete": "true"},
        "on a table of 'aggregation'. Set 'merge-engine' = 'partial-update', or leave",
    ),
    "a removal by a group under aggregation": (
        {**AGGREGATION, "partial-update.remove-record-on-sequence-group": "g"},
        "on a table of 'aggregation'. Set 'merge-engine' = 'partial-update', or leave",
    ),
    "a removal of aggregation without it": (
        {"aggregation.remove-record-on-delete": "true"},
        "on a table of 'deduplicate'. Set 'merge-engine' = 'aggregation', or leave",
    ),
    "a removal under first-row": (
        engine("first-row") | {"aggregation.remove-record-on-delete": "true"},
        "on a table of 'first-row'. Set 'merge-engine' = 'aggregation', or leave",
    ),
    "a removal that a column ignores": (
        {**AGGREGATION, **SUM, "aggregation.remove-record-on-delete": "true"}
        | settings("v", ignore_retract="true"),
        "'fields.v.ignore-retract' and 'aggregation.remove-record-on-delete' contradict .* unset",
    ),
    "a removal that a column without a function ignores": (
        {**AGGREGATION, "aggregation.remove-record-on-delete": "true"}
        | settings("v", ignore_retract="true"),
        "'fields.v.ignore-retract' and 'aggregation.remove-record-on-delete' contradict .* unset",
    ),
    "a delimiter without an engine": (settings("s", list_agg_delimiter=";"), BOTH),
    "a nested key without an engine": (settings("lines", nested_key="item"), BOTH),
    "a limit without an engine": (settings("lines", count_limit="2"), BOTH),
    "distinct parts under first-row": (engine("first-row") | settings("s", distinct="true"), BOTH),
    "a nested key that is none": (
        LINES | settings("lines", nested_key="item,price"),
        r"column 'lines' .*: its rows have no field 'price' \(item\)\."
        " Set another 'fields.lines.nested-key'",
    ),
    "a limit in words": (
        LINES | settings("lines", count_limit="two"),
        "option 'fields.lines.count-limit' is 'two': give a number of rows",
    ),
    "a limit below nothing": (
        LINES | settings("lines", count_limit="-1"),
        "option 'fields.lines.count-limit' is '-1': give a number of rows",
    ),
    "distinct as a number": (
        {**AGGREGATION, **settings("ints", aggregate_function="collect", distinct="1")},
        "option 'fields.ints.distinct' is '1': use 'true' or 'false'",
    ),
    "ignore-retract in words": (
        {**AGGREGATION, **settings("v", ignore_retract="yes")},
        "option 'fields.v.ignore-retract' is 'yes': use 'true' or 'false'",
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


def make_wide(catalog, options):
    return catalog.create_table("db.t", WIDE, primary_keys=["k"], options={"bucket": 1, **options})


def files(place):
    return [path for path in place.rglob("*") if path.is_file()]


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_with_the_table(catalog, tmp_path, case):
    options, words = REFUSED[case]
    with pytest.raises(InvalidInputError, match=words):
        make_wide(catalog, options)
    assert not files(tmp_path)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("rbm64", "its bytes are a form of RoaringBitmap's own"),
        ("theta_sketch", "sketches are not covered"),
        ("hll_sketch", "sketches are not covered"),
    ],
)
@pytest.mark.parametrize(
    "options",
    [
        {**AGGREGATION, "fields.raw.aggregate-function": "{}"},
        {**PARTIAL, "fields.g.sequence-group": "raw", "fields.raw.aggregate-function": "{}"},
        {
            **PARTIAL,
            "fields.g.sequence-group": "raw,v,s,flag,eight,day,ints,lines,line,counts",
            "fields.default-aggregate-function": "{}",
        },
    ],
    ids=["aggregation", "in a group", "by default"],
)
def test_a_function_that_is_not_covered_is_refused_with_the_table(
    catalog, tmp_path, function, why, options
):
    text = rf"column '(raw|v)' cannot be aggregated: '{function}' is not covered .*{why}.*"
    with pytest.raises(
        UnsupportedError, match=rf"{text}Set another 'fields.\1.aggregate-function'"
    ):
        make_wide(catalog, {key: value.format(function) for key, value in options.items()})
    assert not files(tmp_path)


NEEDED = {
    "a number": {"sum": ("s", "flag", "day", "raw", "ints"), "product": ("s", "flag", "day")},
    "a type with an order": dict.fromkeys(("max", "min"), ("flag", "ints", "line", "counts")),
    "BOOLEAN": {"bool_and": ("v", "s"), "bool_or": ("v", "ints")},
    "STRING or VARCHAR": {"listagg": ("v", "raw", "ints")},
    "an ARRAY": {"collect": ("v", "s", "counts")},
    "a MAP": {"merge_map": ("v", "ints", "line")},
    "an ARRAY of ROW": {"nested_update": ("v", "ints", "line", "counts")},
    "VARBINARY": {"rbm32": ("v", "s", "eight")},
}


@pytest.mark.parametrize(
    ("function", "needed", "column"),
    [
        (function, needed, column)
        for needed, functions in NEEDED.items()
        for function, columns in functions.items()
        for column in columns
    ],
)
def test_a_function_on_a_column_of_another_type_is_refused_with_the_table(
    catalog, tmp_path, function, needed, column
):
    with pytest.raises(InvalidInputError) as refusal:
        make_wide(catalog, {**AGGREGATION, **settings(column, aggregate_function=function)})
    assert str(refusal.value) == (
        f"Table db.t: column '{column}' cannot be aggregated: '{function}' needs {needed}, not"
        f" {parse_type(WIDE[column])}. Set another 'fields.{column}.aggregate-function'."
    )
    assert refusal.value.kind == "aggregate_function"
    assert not files(tmp_path)


@pytest.mark.parametrize(
    ("function", "column"),
    [
        ("max", "s"),
        ("min", "day"),
        ("max", "raw"),
        ("collect", "lines"),
        ("nested_update", "lines"),
        ("last_value", "line"),
        ("first_value", "counts"),
        ("rbm32", "raw"),
    ],
)
def test_a_function_on_a_column_of_its_type_is_taken(catalog, function, column):
    table = make_wide(catalog, {**AGGREGATION, **settings(column, aggregate_function=function)})
    assert table.count() == 0


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
