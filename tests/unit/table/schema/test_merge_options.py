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
        "not an aggregate function. Did you mean 'sum'",
    ),
    "a function in capitals": (
        {**AGGREGATION, **settings("v", aggregate_function="SUM")},
        "'SUM', which is not an aggregate function. Did you mean 'sum'.* Use one of bool_and,",
    ),
    "a default that is none": (
        {**AGGREGATION, "fields.default-aggregate-function": "mix"},
        "'fields.default-aggregate-function' is 'mix', .* Did you mean 'min' or 'max'",
    ),
    "a function of SQL": (
        {**AGGREGATION, **settings("v", aggregate_function="count")},
        "'fields.v.aggregate-function' is 'count', which is not an aggregate function. Use one of",
    ),
    "a function of Paimon 2": (
        {**AGGREGATION, **settings("lines", aggregate_function="nested_partial_update")},
        "'nested_partial_update', which is not an aggregate function. Did you mean 'nested_update'",
    ),
    "another function of Paimon 2": (
        {**AGGREGATION, **settings("counts", aggregate_function="merge_map_with_keytime")},
        "'merge_map_with_keytime', which is not an aggregate function. .*merge_map, min",
    ),
    "a function of no column": (
        {**AGGREGATION, **settings("w", aggregate_function="sum")},
        "no column 'w', which its option 'fields.w.aggregate-function' names.* name one of them",
    ),
    "a function without a group": (
        PARTIAL | SUM,
        "column 'v' is aggregated by 'sum' but is not in a sequence group: add it to one with"
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
        "names 'v', which is not the sequence of a group: name columns before '.sequence-group'",
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
        "take 'lookup', which reports each first row once",
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
        ("rbm64", "its bytes have RoaringBitmap's own format"),
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
        for function, columns in functions.items()  # type: ignore[attr-defined]
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


DEDUPLICATE, IGNORED = (
    f"changelog-producer.row-deduplicate{more}" for more in ("", "-ignore-fields")
)
COMPARING = "'lookup' or 'full-compaction'"
UNUSED = {
    **{
        f"{name} without a key": (
            {"merge-engine": name},
            "merge-engine",
            "on a table without a primary key. Give it one",
        )
        for name in ("aggregation", "partial-update", "first-row")
    },
    "a function without a key": (
        SUM,
        "fields.v.aggregate-function",
        "on a table without a primary key. Give it one and set 'merge-engine' = 'aggregation' or"
        " 'partial-update'",
    ),
    "a comparison without a key": (
        {DEDUPLICATE: "true"},
        DEDUPLICATE,
        "on a table without a primary key. Give it one",
    ),
    **{
        f"a comparison under {producer}": (
            {"changelog-producer": producer, DEDUPLICATE: "true"},
            DEDUPLICATE,
            f"with 'changelog-producer' = '{producer}'. Set that to {COMPARING}",
        )
        for producer in ("none", "input")
    },
    "columns to leave out of none": (
        {DEDUPLICATE: "false", IGNORED: "v"},
        IGNORED,
        f"with 'changelog-producer' = 'none'. Set that to {COMPARING}",
    ),
    "columns to leave out of no comparison": (
        {"changelog-producer": "lookup", IGNORED: "v"},
        IGNORED,
        f"with '{DEDUPLICATE}' = 'false'. Set that to 'true'",
    ),
}
"""Options that would do nothing, which one is named, and why."""


def is_keyed(case):
    return not case.endswith("without a key")


def make_plain(catalog, options, *, keyed):
    layout = {"primary_keys": ["k"], "options": {"bucket": 1, **options}}
    return catalog.create_table("db.t", COLUMNS, **(layout if keyed else {"options": options}))


def assert_unused(place, act, key, why):
    before = files(place)
    with pytest.raises(InvalidInputError) as refusal:
        act()
    assert str(refusal.value) == (
        f"Table 'db.t': option '{key}' would do nothing {why}, or leave the option out."
    )
    assert refusal.value.kind == "merge_options"
    assert refusal.value.context == {"table": "db.t", "option": key}
    assert files(place) == before


@pytest.mark.parametrize("case", UNUSED)
def test_an_option_that_would_do_nothing_is_refused_with_the_table(catalog, tmp_path, case):
    options, key, why = UNUSED[case]
    make = lambda: make_plain(catalog, options, keyed=is_keyed(case))  # noqa: E731
    assert_unused(tmp_path, make, key, why)
    assert not files(tmp_path)


@pytest.mark.parametrize("case", UNUSED)
@pytest.mark.parametrize("written", [False, True])
def test_an_option_that_would_do_nothing_is_not_added(catalog, tmp_path, case, written):
    options, key, why = UNUSED[case]
    table = make_plain(catalog, {}, keyed=is_keyed(case))
    if written and not {"merge-engine", "changelog-producer"} & set(options):
        table.write([{"k": 1, "v": 1, "g": 0, "s": ""}])
    changes = [tidelake.SetOption(*option) for option in options.items()]
    assert_unused(tmp_path, lambda: catalog.alter_table("db.t", changes), key, why)


def test_an_alter_that_leaves_a_comparison_without_its_changelog_is_refused(catalog, tmp_path):
    options = {"changelog-producer": "lookup", DEDUPLICATE: "true", IGNORED: "v"}
    table = make_plain(catalog, options, keyed=True)
    _, key, why = UNUSED["a comparison under none"]
    assert_unused(tmp_path, lambda: table.reset_options(["changelog-producer"]), key, why)
    _, key, why = UNUSED["columns to leave out of no comparison"]
    assert_unused(tmp_path, lambda: table.set_options({DEDUPLICATE: "false"}), key, why)
    assert table.reset_options(list(options)).options.raw == {"bucket": "1"}


@pytest.mark.parametrize(
    ("keyed", "options"),
    [
        (False, {"merge-engine": "deduplicate", DEDUPLICATE: "false", IGNORED: ""}),
        (True, {DEDUPLICATE: "false"}),
        (True, {"changelog-producer": "lookup", DEDUPLICATE: "true", IGNORED: "v"}),
        (True, {"changelog-producer": "full-compaction", DEDUPLICATE: "true"}),
    ],
)
def test_an_option_that_does_something_or_asks_for_nothing_is_taken(catalog, keyed, options):
    assert make_plain(catalog, options, keyed=keyed).count() == 0


def as_java_makes_it(catalog, options, *, keyed):
    handle = make_plain(catalog, {}, keyed=keyed).handle
    made = {**handle.schema.options, **options}
    handle.schemas.create(dataclasses.replace(handle.schema, id=1, options=made))
    return catalog.table("db.t")


@pytest.mark.parametrize("case", UNUSED)
def test_a_table_of_javas_with_an_option_that_does_nothing_is_used_and_altered(
    catalog, tmp_path, case
):
    options, key, _ = UNUSED[case]
    table = as_java_makes_it(catalog, options, keyed=is_keyed(case))
    for v in (1, 2):
        table.write([{"k": 1, "v": v, "g": 0, "s": ""}])
    values = [2] if is_keyed(case) else [1, 2]
    assert sorted(table.to_arrow()["v"].to_pylist()) == values
    assert table.count() == len(values)
    catalog.alter_table("db.t", [tidelake.AddColumn("more", "INT"), tidelake.DropColumn("g")])
    table = catalog.table("db.t")
    assert sorted(table.to_arrow()["v"].to_pylist()) == values
    other, why = UNUSED["a function without a key"][1:]
    if is_keyed(case):
        why = "on a table of 'deduplicate'. Set 'merge-engine' = 'aggregation' or 'partial-update'"
    if key != other:  # beside what is there, another is not added
        assert_unused(tmp_path, lambda: table.set_options(SUM), other, why)


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


def test_a_second_option_that_does_nothing_is_not_added_to_a_table_of_javas(catalog, tmp_path):
    table = as_java_makes_it(catalog, SUM, keyed=True)
    why = "on a table of 'deduplicate'. Set 'merge-engine' = 'aggregation' or 'partial-update'"
    for option in ("fields.v.aggregate-function", "fields.s.aggregate-function"):
        change = tidelake.SetOption(option, "max")  # another value of the first one, too
        assert_unused(tmp_path, lambda c=change: table.alter(c), option, why)
    table.alter(tidelake.RemoveOption("fields.v.aggregate-function"))
    assert table.options.raw == {"bucket": "1"}


ROW = {**dict.fromkeys(WIDE), "k": 1, "v": 1, "g": 1, "s": "a", "raw": b"a"}


def assert_not_altered(place, table, change, error, text):
    """Before the table is written to and afterwards."""
    for _ in range(2):
        before = files(place)
        with pytest.raises(error) as refusal:
            table.alter(change)
        assert (str(refusal.value), files(place)) == (text, before)
        table.write([ROW])
    assert table.to_arrow(columns=["v"]).to_pylist() == [{"v": 2}]


def test_a_column_of_sums_does_not_become_a_text(catalog, tmp_path):
    table = make_wide(catalog, {**AGGREGATION, **SUM})
    text = (
        "Table db.t: column 'v' cannot be aggregated: 'sum' needs a number, not STRING. Set another"
        " 'fields.v.aggregate-function'."
    )
    change = tidelake.UpdateColumnType("v", "STRING")
    assert_not_altered(tmp_path, table, change, InvalidInputError, text)


@pytest.mark.parametrize(
    ("column", "function", "error", "why"),
    [
        ("v", "bool_or", InvalidInputError, "'bool_or' needs BOOLEAN, not INT"),
        ("s", "sum", InvalidInputError, "'sum' needs a number, not STRING"),
        (
            "raw",
            "hll_sketch",
            UnsupportedError,
            "'hll_sketch' is not covered by this version (sketches are not covered)",
        ),
    ],
)
def test_a_function_that_does_not_fit_is_not_set(catalog, tmp_path, column, function, error, why):
    table = make_wide(catalog, {**AGGREGATION, **SUM})
    option = f"fields.{column}.aggregate-function"
    text = f"Table db.t: column '{column}' cannot be aggregated: {why}. Set another '{option}'."
    assert_not_altered(tmp_path, table, tidelake.SetOption(option, function), error, text)


@pytest.mark.parametrize("name", ["partial-update", "deduplicate", "first-row"])
def test_the_engine_of_a_table_that_was_written_to_stays(catalog, tmp_path, name):
    table = make_wide(catalog, AGGREGATION)
    table.write([ROW])
    before = files(tmp_path)
    for change in (tidelake.SetOption("merge-engine", name), tidelake.RemoveOption("merge-engine")):
        with pytest.raises(UnsupportedError) as refusal:
            table.alter(change)
        assert str(refusal.value) == (
            "Option 'merge-engine' of table 'db.t' defines how files are laid out or merged and is"
            " fixed since the first write to the table: make a new table with it."
        )
    assert files(tmp_path) == before


ENGINES = "deduplicate, partial-update, aggregation, first-row"
PRODUCERS = "none, input, full-compaction, lookup"


@pytest.mark.parametrize(
    ("option", "value", "choices"),
    [
        ("merge-engine", "aggregate", ENGINES),
        ("merge-engine", "replace", ENGINES),
        ("merge-engine", "", ENGINES),
        ("changelog-producer", "lookups", PRODUCERS),
        ("changelog-producer", "full_compaction", PRODUCERS),
    ],
)
def test_an_engine_or_a_producer_that_is_none_is_refused_with_those_there_are(
    catalog, tmp_path, option, value, choices
):
    text = f"Table db.t: option '{option}' is '{value}' but must be one of {choices}."
    with pytest.raises(InvalidInputError) as refusal:
        make_wide(catalog, {option: value})
    assert str(refusal.value) == text
    assert not files(tmp_path)
    table = make_wide(catalog, {})
    before = files(tmp_path)
    with pytest.raises(InvalidInputError) as refusal:
        table.set_options({option: value})
    assert (str(refusal.value), files(tmp_path)) == (text, before)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("hll_sketch", "sketches are not covered"),
        ("theta_sketch", "sketches are not covered"),
        ("rbm64", "its bytes have RoaringBitmap's own format"),
    ],
)
def test_a_table_of_javas_with_a_function_that_is_not_covered_opens(
    catalog, tmp_path, function, why
):
    handle = make_wide(catalog, AGGREGATION).handle
    for _ in range(2):
        catalog.table("db.t").write([ROW])
    option = "fields.raw.aggregate-function"
    made = {**handle.schema.options, option: function}
    handle.schemas.create(dataclasses.replace(handle.schema, id=1, options=made))
    before = files(tmp_path)
    table = catalog.table("db.t")
    assert table.schema.names == list(WIDE)
    assert sum(catalog.table("db.t$files").to_arrow()["record_count"].to_pylist()) == 2
    for act in (
        table.to_arrow,
        lambda: table.to_arrow(columns=["v"]),
        table.count,
        lambda: table.write([ROW]),
        lambda: table.compact(full=True),
    ):
        with pytest.raises(UnsupportedError) as refusal:
            act()
        assert str(refusal.value) == (
            f"Table db.t: column 'raw' cannot be aggregated: '{function}' is not covered by this"
            f" version ({why}). Set another '{option}'."
        )
    assert files(tmp_path) == before
    table.set_options({option: "last_value"})
    assert catalog.table("db.t").count() == 1
