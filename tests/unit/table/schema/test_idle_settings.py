"""A setting of a function that its column does not have: refused where a user gives it.

Java Paimon takes such tables and looks at none of these settings; they are opened, read, written
and altered here.
"""

from __future__ import annotations

import dataclasses

import pytest

import tidelake
from tidelake import InvalidInputError

LINE = {"type": "ROW", "fields": [{"id": 20, "name": "item", "type": "STRING"}]}
COLUMNS = {
    "k": "INT",
    "p": "STRING",
    "v": "INT",
    "g": "INT",
    "s": "STRING",
    "ints": {"type": "ARRAY", "element": "INT"},
    "lines": {"type": "ARRAY", "element": LINE},
    "counts": {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"},
}
ROW = {"k": 1, "p": "a", "v": 1, "g": 0, "s": "", "ints": [], "lines": [], "counts": {}}
AGGREGATION, PARTIAL = {"merge-engine": "aggregation"}, {"merge-engine": "partial-update"}
GROUP = {**PARTIAL, "fields.g.sequence-group": "v,s,ints,lines,counts"}
IS_FOR = {
    "list-agg-delimiter": "'listagg'",
    "distinct": "'collect' or 'listagg'",
    "nested-key": "'nested_update'",
    "count-limit": "'nested_update'",
}
VALUES = {"list-agg-delimiter": ";", "distinct": "true", "nested-key": "item", "count-limit": "2"}
COLUMN_OF = {
    "sum": "v",
    "product": "v",
    "max": "v",
    "min": "s",
    "first_value": "s",
    "last_non_null_value": "lines",
    "listagg": "s",
    "collect": "ints",
    "nested_update": "lines",
    "merge_map": "counts",
}
USED = {
    ("listagg", "list-agg-delimiter"),
    ("listagg", "distinct"),
    ("collect", "distinct"),
    ("nested_update", "nested-key"),
    ("nested_update", "count-limit"),
}
PAIRS = [(function, setting) for function in COLUMN_OF for setting in VALUES]
IN_A_GROUP = "the option is for any function of a column in a sequence group. Leave the option out."


def key(column, setting):
    return f"fields.{column}.{setting}"


def function(column, name):
    return {key(column, "aggregate-function"): name}


def create(catalog, options, partition_keys=()):
    return catalog.create_table(
        "db.t",
        COLUMNS,
        primary_keys=["k"],
        partition_keys=partition_keys,
        options={"bucket": -1 if partition_keys else 1, **options},
    )


def files(place):
    return [path for path in place.rglob("*") if path.is_file()]


def as_java_makes_it(catalog, options):
    """The table with options that would not be taken here."""
    table = create(catalog, AGGREGATION)
    schema = dataclasses.replace(
        table.handle.schema, id=1, options={"bucket": "1", **AGGREGATION, **options}
    )
    table.handle.schemas.create(schema)
    return catalog.table("db.t")


@pytest.mark.parametrize(
    ("name", "setting"), [pair for pair in PAIRS if pair not in USED], ids="-".join
)
@pytest.mark.parametrize("engine", [AGGREGATION, GROUP], ids=["aggregation", "in a group"])
def test_a_setting_of_another_function_is_refused_with_the_table(
    catalog, tmp_path, engine, name, setting
):
    column = COLUMN_OF[name]
    with pytest.raises(InvalidInputError) as refusal:
        create(catalog, {**engine, **function(column, name), key(column, setting): VALUES[setting]})
    assert str(refusal.value) == (
        f"Table 'db.t': option 'fields.{column}.{setting}' would do nothing: column '{column}' is"
        f" aggregated by '{name}', and the option is for {IS_FOR[setting]}. Leave the option out,"
        f" or set 'fields.{column}.aggregate-function'."
    )
    assert refusal.value.kind == "merge_options"
    assert not files(tmp_path)


@pytest.mark.parametrize(("name", "setting"), sorted(USED), ids="-".join)
@pytest.mark.parametrize("engine", [AGGREGATION, GROUP], ids=["aggregation", "in a group"])
@pytest.mark.parametrize("by", ["own", "default"])
def test_a_setting_of_the_columns_function_is_taken(catalog, engine, name, setting, by):
    column = COLUMN_OF[name]
    options = {**engine, key(column, setting): VALUES[setting]}
    if by == "own":
        options |= function(column, name)
    else:  # every other column has one that fits it
        options["fields.default-aggregate-function"] = name
        for other in COLUMNS:
            if other not in ("k", "g", column):
                options |= function(other, "last_non_null_value")
        if engine is GROUP:
            options |= {"fields.g.sequence-group": "p,v,s,ints,lines,counts"}
        else:
            options |= function("g", "max")
    assert create(catalog, options).options.raw[key(column, setting)] == VALUES[setting]


REFUSED = {
    "no function": (
        {**AGGREGATION, "fields.s.distinct": "true"},
        "column 's' has no function but 'last_non_null_value', and the option is for 'collect' or"
        " 'listagg'. Leave the option out, or set 'fields.s.aggregate-function'.",
    ),
    "no function of a group's member": (
        {**GROUP, "fields.s.list-agg-delimiter": ";"},
        "column 's' has no function, and the option is for 'listagg'. Leave the option out, or",
    ),
    "another default": (
        {**AGGREGATION, "fields.default-aggregate-function": "last_value"}
        | {"fields.lines.nested-key": "item"},
        "column 'lines' is aggregated by 'last_value', and the option is for 'nested_update'.",
    ),
    "a default that another function takes the place of": (
        {**AGGREGATION, "fields.default-aggregate-function": "first_value"}
        | {**function("s", "listagg"), "fields.s.count-limit": "2"},
        "column 's' is aggregated by 'listagg', and the option is for 'nested_update'.",
    ),
    "a sequence.field": (
        {**AGGREGATION, "sequence.field": "s", "fields.s.distinct": "true"},
        "column 's' is a 'sequence.field', aggregated by 'last_value', and the option is for"
        " 'collect' or 'listagg'. Leave the option out.",
    ),
    "the sequence of a group": (
        {**GROUP, "fields.g.count-limit": "3"},
        "column 'g' is the sequence of a group, which no function merges, and the option is for"
        " 'nested_update'. Leave the option out.",
    ),
    "ignore-retract of a sequence of a group": (
        {**GROUP, "fields.g.ignore-retract": "true"},
        f"column 'g' is the sequence of a group, which no function merges, and {IN_A_GROUP}",
    ),
    "ignore-retract without a function in a group": (
        {**GROUP, "fields.v.ignore-retract": "true"},
        f"column 'v' has no function, and {IN_A_GROUP}",
    ),
    "ignore-retract without a group": (
        {**GROUP, **function("p", "last_non_null_value"), "fields.p.ignore-retract": "true"},
        f"column 'p' is aggregated by 'last_non_null_value' in no sequence group, and {IN_A_GROUP}",
    ),
    "ignore-retract without anything": (
        {**PARTIAL, "fields.p.ignore-retract": "true"},
        f"column 'p' has no function, and {IN_A_GROUP}",
    ),
    "a function of the key": (
        {**AGGREGATION, **function("k", "sum")},
        "option 'fields.k.aggregate-function' would do nothing: column 'k' is in the primary key,"
        " which no function merges, and the option is for other columns. Leave the option out.",
    ),
    "ignore-retract of the key": (
        {**AGGREGATION, "fields.k.ignore-retract": "true"},
        "column 'k' is in the primary key, which no function merges, and the option is for other",
    ),
    "a setting of the key": (
        {**AGGREGATION, "fields.k.distinct": "true"},
        "column 'k' is in the primary key, which no function merges, and the option is for"
        " 'collect' or 'listagg'. Leave the option out.",
    ),
    "a flag in capitals": (
        {**AGGREGATION, **function("v", "sum"), "fields.v.distinct": "TRUE"},
        "option 'fields.v.distinct' would do nothing",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_setting_that_can_do_nothing_is_refused_with_the_table(catalog, tmp_path, case):
    options, words = REFUSED[case]
    with pytest.raises(InvalidInputError) as refusal:
        create(catalog, options)
    assert words in str(refusal.value)
    assert not files(tmp_path)


TAKEN = {
    "a flag that asks for nothing": {
        **AGGREGATION,
        **function("v", "sum"),
        "fields.v.distinct": "False",
        "fields.k.ignore-retract": "false",
    },
    "ignore-retract of whatever is aggregated": {**AGGREGATION, "fields.v.ignore-retract": "true"},
    "ignore-retract of a sequence.field": {
        **AGGREGATION,
        "sequence.field": "g",
        "fields.g.ignore-retract": "true",
    },
    "ignore-retract of a function in a group": {
        **GROUP,
        **function("v", "sum"),
        "fields.v.ignore-retract": "true",
    },
}


@pytest.mark.parametrize("case", TAKEN)
def test_a_setting_that_does_something_or_asks_for_nothing_is_taken(catalog, case):
    assert create(catalog, TAKEN[case]).count() == 0


def test_ignore_retract_of_a_partition_is_taken_for_java_needs_it(catalog):
    """Java shows a row that was taken from without its partition, else."""
    create(catalog, {**AGGREGATION, "fields.p.ignore-retract": "true"}, partition_keys=["p"])


def test_what_a_table_of_javas_does_nothing_with_is_read_written_and_altered(catalog):
    table = as_java_makes_it(
        catalog, {**function("v", "sum"), "fields.v.distinct": "true", "fields.k.count-limit": "1"}
    )
    for _ in range(2):
        table.write([ROW])
    assert table.to_arrow(columns=["v"]).to_pylist() == [{"v": 2}]
    catalog.alter_table("db.t", [tidelake.AddColumn("more", "INT")])
    catalog.alter_table("db.t", [tidelake.RenameColumn("v", "w")])
    catalog.alter_table("db.t", [tidelake.SetOption("fields.w.aggregate-function", "product")])
    table = catalog.table("db.t")
    assert table.options.raw["fields.w.distinct"] == "true"
    assert table.to_arrow(columns=["w", "more"]).to_pylist() == [{"w": 1, "more": None}]
    catalog.alter_table("db.t", [tidelake.RemoveOption("fields.w.distinct")])
    with pytest.raises(InvalidInputError, match=r"'fields\.w\.distinct' would do nothing"):
        catalog.alter_table("db.t", [tidelake.SetOption("fields.w.distinct", "true")])


def test_another_setting_is_not_added_to_a_table_of_javas(catalog):
    as_java_makes_it(catalog, {**function("s", "max"), "fields.s.list-agg-delimiter": ";"})
    for change in (
        tidelake.SetOption("fields.s.list-agg-delimiter", "-"),
        tidelake.SetOption("fields.v.list-agg-delimiter", ";"),
    ):
        with pytest.raises(InvalidInputError, match=r"'fields\..\.list-agg-delimiter' would do"):
            catalog.alter_table("db.t", [change])
    catalog.alter_table("db.t", [tidelake.SetOption("fields.s.aggregate-function", "listagg")])
    catalog.alter_table("db.t", [tidelake.SetOption("fields.s.list-agg-delimiter", "-")])


def test_an_alter_that_leaves_a_setting_without_its_function_is_refused(catalog):
    options = {**function("s", "listagg"), "fields.s.list-agg-delimiter": ";"}
    create(catalog, {**AGGREGATION, **options})
    function_gone = tidelake.RemoveOption("fields.s.aggregate-function")
    with pytest.raises(InvalidInputError, match=r"has no function but 'last_non_null_value', and"):
        catalog.alter_table("db.t", [function_gone])
    assert catalog.table("db.t").table_schema.id == 0
    setting_gone = tidelake.RemoveOption("fields.s.list-agg-delimiter")
    catalog.alter_table("db.t", [function_gone, setting_gone])
    assert catalog.table("db.t").table_schema.id == 1


def test_the_message_of_a_column_whose_name_has_dots_names_it(catalog):
    columns = {"k": "INT", "a.b": "INT"}
    with pytest.raises(InvalidInputError, match=r"column 'a\.b' is aggregated by 'sum', and"):
        catalog.create_table(
            "db.t",
            columns,
            primary_keys=["k"],
            options={"bucket": 1, **AGGREGATION, **function("a.b", "sum")}
            | {"fields.a.b.distinct": "true"},
        )
