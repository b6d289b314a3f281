"""Small histories whose outcome real Java Paimon 1.3.1 printed (research notes, section 13.1).

A row is written ``kind values``, commits are parted by ``|``; text is a plain word, an array is
``a+b``. Each history runs with a full compaction after no commit, after each, and at the end.
"""

from __future__ import annotations

import random

import pytest
from proving.one_key import merged

import tidelake
from tidelake import InvalidInputError
from tidelake.fileio import MemoryFileIO
from tidelake.telemetry import Env

PARTIAL = {"merge-engine": "partial-update"}
AGGREGATION = {"merge-engine": "aggregation"}


def partial(**groups):
    return {**PARTIAL, **{f"fields.{k}.sequence-group": v for k, v in groups.items()}}


def functions(**names):
    given = {f"fields.{k}.aggregate-function": v for k, v in names.items()}
    return {**AGGREGATION, **given}


REMOVE = {"partial-update.remove-record-on-delete": "true"}
GROUPS = partial(g1="a", g2="b")
FIVE = "k int, a int, g1 int, b int, g2 int"
K_V = "k int, v int"
K_A_B = "k int, a int, b int"
VECTORS = {
    "multi seq group": (
        "k int, a int, g1 int, g2 int",
        {**PARTIAL, "fields.g1,g2.sequence-group": "a"},
        "+I1,1,1,5|+I1,2,1,4|+I1,3,2,null",
        [(1, 3, 2, None)],
    ),
    "lone -D sum then +I": (K_V, functions(v="sum"), "-D1,5|+I1,3", [(1, -2)]),
    "lone -D sum x2": (K_V, functions(v="sum"), "-D1,5|-D1,6", [(1, -11)]),
    "agg retract first (no acc)": (K_V, functions(v="sum"), "-D1,5", []),
    "seed partial-update": (
        "k int, a double, b int, c string",
        PARTIAL,
        "+I1,23.0,10,null +I1,null,null,Thisisabook +I1,25.2,null,null",
        [(1, 25.2, 10, "Thisisabook")],
    ),
    "partial-update ignore-delete": (
        K_A_B,
        {**PARTIAL, "ignore-delete": "true"},
        "+I1,1,null|-D1,1,null|+I1,null,2",
        [(1, 1, 2)],
    ),
    "legacy key partial-update.ignore-delete": (
        K_A_B,
        {**PARTIAL, "partial-update.ignore-delete": "true"},
        "+I1,1,null|-D1,1,null|+I1,null,2",
        [(1, 1, 2)],
    ),
    "remove-record-on-delete": (K_A_B, {**PARTIAL, **REMOVE}, "+I1,1,2|-D1,1,2", []),
    "... then insert": (
        K_A_B,
        {**PARTIAL, **REMOVE},
        "+I1,1,2|-D1,9,null|+I1,null,7",
        [(1, None, 7)],
    ),
    "... -U ignored": (
        K_A_B,
        {**PARTIAL, **REMOVE},
        "+I1,1,2|-U1,1,2|+U1,5,null",
        [(1, 5, 2)],
    ),
    "sequence-group": (
        FIVE,
        GROUPS,
        "+I1,1,1,1,1|+I1,2,2,2,null|+I1,3,1,3,3",
        [(1, 2, 2, 3, 3)],
    ),
    "sequence-group null overwrites": (
        "k int, a int, g1 int",
        partial(g1="a"),
        "+I1,1,1|+I1,null,2",
        [(1, None, 2)],
    ),
    "sequence-group delete": (FIVE, GROUPS, "+I1,1,1,1,1|-D1,1,2,1,null", [(1, None, 2, 1, 1)]),
    "sequence-group remove-record": (
        FIVE,
        {**GROUPS, "partial-update.remove-record-on-sequence-group": "g1"},
        "+I1,1,1,1,1|-D1,1,2,1,null",
        [],
    ),
    "sequence-group first_value older": (
        "k int, a int, g1 int",
        {**partial(g1="a"), "fields.a.aggregate-function": "first_value"},
        "+I1,1,2|+I1,10,1",
        [(1, 10, 2)],
    ),
    "seed aggregation": (
        "k int, price double, sales int",
        functions(price="max", sales="sum"),
        "+I1,23.0,15|+I1,30.2,20",
        [(1, 30.2, 35)],
    ),
    "agg default fn": (K_A_B, AGGREGATION, "+I1,1,2|+I1,null,5", [(1, 1, 5)]),
    "agg retract sum": (K_V, functions(v="sum"), "+I1,10|-U1,10 +U1,15|-D1,15", [(1, 0)]),
    "agg ignore-retract": (
        K_V,
        {**functions(v="max"), "fields.v.ignore-retract": "true"},
        "+I1,10|-D1,10",
        [(1, 10)],
    ),
    "agg remove-record-on-delete": (
        K_V,
        {**functions(v="sum"), "aggregation.remove-record-on-delete": "true"},
        "+I1,10|-D1,99|+I1,3",
        [(1, 3)],
    ),
    "agg remove-record-on-delete end": (
        K_V,
        {**functions(v="sum"), "aggregation.remove-record-on-delete": "true"},
        "+I1,10|-D1,99",
        [],
    ),
    "agg last_value null": (K_V, functions(v="last_value"), "+I1,10|+I1,null", [(1, None)]),
    "agg last_non_null retract": (
        "k int, v int, w int",
        functions(v="last_non_null_value", w="last_value"),
        "+I1,10,20|-D1,10,null",
        [(1, None, None)],
    ),
    "agg first_value null": (
        "k int, v int, w int",
        functions(v="first_value", w="first_non_null_value"),
        "+I1,null,null|+I1,3,4",
        [(1, None, 4)],
    ),
    "agg listagg": (
        "k int, v string",
        functions(v="listagg"),
        "+I1,a|+I1,null|+I1,b +I1,a",
        [(1, "a,b,a")],
    ),
    "agg bool": (
        "k int, v boolean, w boolean",
        functions(v="bool_and", w="bool_or"),
        "+I1,true,false|+I1,null,true|+I1,false,null",
        [(1, False, True)],
    ),
    "agg collect": (
        "k int, v array",
        functions(v="collect"),
        "+I1,a+b|+I1,a|-D1,a",
        [(1, ["b", "a"])],
    ),
    "agg product": (K_V, functions(v="product"), "+I1,3|+I1,4|-D1,3", [(1, 4)]),
    "agg with sequence.field": (
        "k int, v int, ts int",
        {**functions(v="last_value"), "sequence.field": "ts"},
        "+I1,1,10|+I1,2,5",
        [(1, 1, 10)],
    ),
}
ORDER_OF_MERGES_COUNTS = {
    "agg retract first (no acc)",
    "lone -D sum then +I",
    "lone -D sum x2",
}
"""A lone -D that a full compaction meets is gone, in Java too."""

TYPES = {
    "int": "INT",
    "double": "DOUBLE",
    "string": "STRING",
    "boolean": "BOOLEAN",
    "array": {"type": "ARRAY", "element": "STRING"},
}
PARSERS = {
    "int": int,
    "double": float,
    "string": str,
    "boolean": lambda text: text == "true",
    "array": lambda text: text.split("+"),
}


def table_of(tmp_path, columns, options):
    kinds = dict(column.split() for column in columns.split(", "))
    table = tidelake.open(tmp_path).create_table(
        "db.t",
        {name: TYPES[kind] for name, kind in kinds.items()},
        primary_keys=["k"],
        options={"bucket": 1, **options},
    )
    return table, kinds


def write(table, kinds, commit):
    rows, row_kinds = [], []
    for text in commit.split():
        values = zip(kinds.items(), text[2:].split(","), strict=True)
        rows.append({name: None if v == "null" else PARSERS[kind](v) for (name, kind), v in values})
        row_kinds.append(text[:2])
    table.write(rows, row_kinds=row_kinds)


RUNS = [
    (name, compacted)
    for name in VECTORS
    for compacted in ("never", "each", "at the end")
    if compacted != "each" or name not in ORDER_OF_MERGES_COUNTS
]


@pytest.mark.parametrize(("name", "compacted"), RUNS, ids=[" ".join(run) for run in RUNS])
def test_the_outcome_is_javas(tmp_path, name, compacted):
    columns, options, commits, expected = VECTORS[name]
    table, kinds = table_of(tmp_path, columns, options)
    for commit in commits.split("|"):
        write(table, kinds, commit)
        if compacted == "each":
            table.compact(full=True)
    if compacted == "at the end":
        table.compact(full=True)
    assert [tuple(row.values()) for row in table.to_arrow().to_pylist()] == expected
    assert table.count() == len(expected)
    for column in kinds:
        read = table.to_arrow(columns=[column]).column(0).to_pylist()
        assert read == [row[list(kinds).index(column)] for row in expected]


REFUSED = {
    "partial-update delete default": (K_A_B, PARTIAL, "+I1,1,null|-D1,1,null", "remove-record"),
    "agg retract max": (K_V, functions(v="max"), "+I1,10|-D1,10", "fields.v.ignore-retract"),
    "agg sum overflow": (K_V, functions(v="sum"), "+I1,2147483647 +I1,1", "does not fit INT"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_engine_cannot_take_is_refused_before_a_byte_is_written(tmp_path, name):
    columns, options, commits, words = REFUSED[name]
    table, kinds = table_of(tmp_path, columns, options)
    *before, last = commits.split("|")
    for commit in before:
        write(table, kinds, commit)
    files = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidInputError, match=words):
        write(table, kinds, last)
    assert sorted(tmp_path.rglob("*")) == files


def test_a_member_needs_a_sequence_group_for_its_function(tmp_path):
    """Java: "Must use sequence group for aggregation functions but not found for field c"."""
    options = {**partial(g1="a"), "fields.c.aggregate-function": "max"}
    with pytest.raises(InvalidInputError, match=r"'c'.*not in a sequence group"):
        table_of(tmp_path, "k int, a int, g1 int, c int", options)


def test_a_value_that_is_in_no_file_is_found(tmp_path):
    table, kinds = table_of(tmp_path, K_A_B, functions(a="sum", b="max"))
    for _ in range(3):
        write(table, kinds, "+I1,5,1 +I2,1,1")
    assert table.to_arrow(where="a = 15").to_pylist() == [{"k": 1, "a": 15, "b": 1}]
    assert table.to_arrow(where="a = 5").num_rows == 0
    assert table.count(where="a > 5") == 1


HISTORY_OPTIONS = {
    **functions(a="sum", b="product", c="last_non_null_value", d="collect"),
    "num-sorted-run.compaction-trigger": "2",
    "compaction.max-size-amplification-percent": "100000",
}


@pytest.mark.parametrize("seed", range(3))
def test_compactions_of_some_runs_change_no_answer_of_retractions(tmp_path, seed):
    """A row that is taken back must meet the older ones, which lie in runs that were not due."""
    rng = random.Random(seed)
    columns = "k int, a int, b int, c int, d array"
    table, kinds = table_of(tmp_path, columns, HISTORY_OPTIONS)
    history = {}
    for number in range(8):
        rows, row_kinds = [], []
        # the first run is much larger than the others, so that these are compacted without it
        for k in range(6000) if not number else rng.sample(range(60), 9):
            values = (rng.randrange(9), rng.choice([1, -1]), rng.choice([None, 5]), ["x"])
            row = dict(zip(kinds, (k, *values), strict=True))
            kind = rng.choice(["+I", "-U", "+U"]) if number else "+I"
            rows.append(row)
            row_kinds.append(kind)
            history.setdefault(k, []).append((kind, row))
        table.write(rows, row_kinds=row_kinds)
    expected = [merged(own, HISTORY_OPTIONS, keys=("k",))[1] for own in history.values()]
    found = table.to_arrow().sort_by("k").to_pylist()
    assert found == sorted(expected, key=lambda row: row["k"])


ORDERED = {
    "sum and last value": functions(a="sum", b="last_value", g="last_value"),
    "removal": {**PARTIAL, **REMOVE},
    "groups": partial(g="b"),
    "groups of the table's own sequence": partial(g="s,b"),
}


@pytest.mark.parametrize("rules", ORDERED)
def test_compactions_of_some_runs_leave_a_retraction_newer_than_what_it_meets(rules):
    """A row that retracts may empty the column by which its merged row would be ordered."""
    options = {
        **ORDERED[rules],
        "bucket": "1",
        "sequence.field": "s",
        "num-sorted-run.compaction-trigger": "2",
        "compaction.max-size-amplification-percent": "100000",
    }
    columns = dict.fromkeys("kabsg", "INT")
    catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=Env.seeded(1))
    table = catalog.create_table("db.t", columns, primary_keys=["k"], options=options)
    rng = random.Random(rules)
    history = {}
    for number in range(9):
        rows, row_kinds = [], []
        for k in range(6000) if not number else rng.sample(range(60), 40):
            values = (k, rng.randrange(9), rng.randrange(9), number, number // 3)
            rows.append(dict(zip(columns, values, strict=True)))
            own = history.setdefault(k, [])
            there = own and own[-1][0] != "-D"
            row_kinds.append(rng.choice(["+I", "-U", "-D"]) if there else "+I")
            own.append((row_kinds[-1], rows[-1]))
        table.write(rows, row_kinds=row_kinds)
        if not number:
            table.compact(full=True)
        expected = [merged(history[k], options, keys=("k",)) for k in range(60)]
        shown = [row for kind, row in expected if kind == "+I"]
        assert table.to_arrow(where="k < 60").sort_by("k").to_pylist() == shown


@pytest.mark.parametrize(("name", "then"), [("first_value", None), ("first_non_null_value", 1)])
def test_what_took_back_before_the_first_value_of_a_group_may_count_as_it(name, then):
    """docs/merge-engines.md, "Before the first value of a group"."""
    options = {
        **partial(g="m"),
        "fields.m.aggregate-function": name,
        "fields.m.ignore-retract": "true",
        "bucket": "1",
        "write-only": "true",
    }
    catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=Env.seeded(1))
    for compacts, found in ((False, 1), (True, then)):
        table = catalog.create_table(
            f"db.t{compacts}", dict.fromkeys("kgm", "INT"), primary_keys=["k"], options=options
        )
        table.write([{"k": 1, "g": None, "m": None}])
        table.write([{"k": 1, "g": 5, "m": 7}], row_kinds=["-D"])
        if compacts:
            table.compact(full=True)
        table.write([{"k": 1, "g": 6, "m": 1}])
        assert table.to_arrow().to_pylist() == [{"k": 1, "g": 6, "m": found}]


def test_conditions_that_no_single_row_meets(tmp_path):
    table, kinds = table_of(tmp_path, K_A_B, PARTIAL)
    for commit in ("+I1,7,null +I2,7,null", "+I1,null,8", "+I3,1,1"):
        write(table, kinds, commit)
    found = table.to_arrow(where="a = 7 and b = 8").to_pylist()
    assert found == [{"k": 1, "a": 7, "b": 8}]
