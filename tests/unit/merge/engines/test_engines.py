"""The engines against the loops of one_key.py, over many keys at once."""

from __future__ import annotations

import math
from decimal import Decimal
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proving.one_key import Refused, aggregated, float32, partially_updated

from tidelake.codec.roaring import encode_one
from tidelake.errors import InvalidInputError
from tidelake.merge import layout as layouts
from tidelake.merge.column_rules import SequenceGroup
from tidelake.merge.engines.aggregation import Aggregation
from tidelake.merge.engines.partial_update import PartialUpdate
from tidelake.merge.functions import NEWEST, ColumnFunction, check_function
from tidelake.merge.segments import Segments
from tidelake.options.key_pattern import AGGREGATE_FUNCTIONS
from tidelake.types import parse_type
from tidelake.types.arrow import to_arrow_type

KINDS = ("+I", "-U", "+U", "-D")
ROW = {
    "type": "ROW",
    "fields": [{"id": 0, "name": "i", "type": "INT"}, {"id": 1, "name": "s", "type": "STRING"}],
}
SMALL_ROWS = st.fixed_dictionaries({"i": st.integers(0, 2), "s": st.sampled_from(["x", "y", None])})
FLOATS = st.sampled_from([0.1, 0.2, 0.3, -0.0, 0.0, 1e30, -1e30, math.inf, math.nan, 7.5])
TEXTS = st.sampled_from(["a", "b", "", " ", "a,b", "é", "longer than eight bytes"])
VALUES = {
    "INT": (parse_type("INT"), st.integers(-4, 4) | st.sampled_from([2**31 - 1, -(2**31)])),
    "DOUBLE": (parse_type("DOUBLE"), FLOATS),
    "FLOAT": (parse_type("FLOAT"), FLOATS.map(float32)),
    "DECIMAL": (
        parse_type("DECIMAL(5, 2)"),
        st.sampled_from([Decimal("1.25"), Decimal("-0.50"), Decimal("999.99"), Decimal("0.03")]),
    ),
    "STRING": (parse_type("STRING"), TEXTS),
    "BOOLEAN": (parse_type("BOOLEAN"), st.booleans()),
    "ARRAY": (
        parse_type({"type": "ARRAY", "element": "INT"}),
        st.lists(st.integers(0, 3) | st.none(), max_size=4),
    ),
    "MAP": (
        parse_type({"type": "MAP", "key": "INT NOT NULL", "value": "STRING"}),
        st.dictionaries(st.integers(0, 3), TEXTS | st.none(), max_size=3),
    ),
    "ROWS": (
        parse_type({"type": "ARRAY", "element": ROW}),
        st.lists(SMALL_ROWS | st.none(), max_size=3),
    ),
}
ANY_TYPE = ("last_value", "last_non_null_value", "first_value", "first_non_null_value")
ORDERED = ("INT", "DOUBLE", "FLOAT", "DECIMAL", "STRING")
CASES = [
    *[(name, kind, {}) for name in ANY_TYPE for kind in VALUES],
    *[(name, kind, {}) for name in ("max", "min") for kind in ORDERED],
    *[("sum", kind, {}) for kind in ("INT", "DOUBLE", "FLOAT", "DECIMAL")],
    *[("product", kind, {}) for kind in ("INT", "DOUBLE", "FLOAT", "DECIMAL")],
    ("bool_and", "BOOLEAN", {}),
    ("bool_or", "BOOLEAN", {}),
    ("listagg", "STRING", {}),
    ("listagg", "STRING", {"delimiter": "; "}),
    ("collect", "ARRAY", {}),
    ("collect", "ARRAY", {"distinct": True}),
    ("merge_map", "MAP", {}),
    ("nested_update", "ROWS", {}),
    ("nested_update", "ROWS", {"nested_key": ("i",)}),
    ("nested_update", "ROWS", {"count_limit": 3}),
    ("nested_update", "ROWS", {"nested_key": ("i",), "count_limit": 2}),
]
IDS = ["-".join([name, kind, *map(str, settings)]) for name, kind, settings in CASES]  # type: ignore[call-overload]


def model_settings(settings):
    keys = settings.get("nested_key")
    return {**settings, "nested_key": keys[0]} if keys else settings


def shown(value):
    """A value that compares as Java's equals does: NaN equals NaN, -0.0 is not 0.0."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list):
        return [shown(x) for x in value]
    return value


def table_of(groups, types):
    """Rows of several keys, shuffled; and their segments."""
    flat = [(key, row) for key, rows in enumerate(groups) for row in rows]
    places = np.random.default_rng(len(flat)).permutation(len(flat))
    stored = [None] * len(flat)  # row i of the segments lies at places[i]
    for number, place in enumerate(places):
        stored[place] = flat[number][1]
    kinds = np.array([KINDS.index(kind) for kind, _ in stored], np.int8)
    columns = {
        name: pa.array([values[name] for _, values in stored], to_arrow_type(data_type))
        for name, data_type in types.items()
    }
    first = np.array([i == 0 or flat[i - 1][0] != key for i, (key, _) in enumerate(flat)])
    half = len(flat) // 2
    whole = pa.table(columns)
    rows = pa.concat_tables([whole.slice(0, half), whole.slice(half)])
    return rows, Segments(places.astype(np.int64), first, kinds)


def merged_rows(engine, groups, types):
    rows, segments = table_of(groups, types)
    merged = engine.merge(rows, segments)
    found = []
    lists = {name: column.to_pylist() for name, column in merged.columns.items()}
    for number, kind in enumerate(merged.kinds.tolist()):
        values = {name: lists[name][number] for name in types if name in lists}
        if not lists:
            values = rows.take([int(merged.rows[number])]).to_pylist()[0]
        found.append((KINDS[kind], values))
    return found


def normal(pairs, types):
    return [
        (
            kind,
            {
                name: shown(dict(v) if "MAP" in str(types[name]) and v is not None else v)
                for name, v in values.items()
            },
        )
        for kind, values in pairs
    ]


@pytest.mark.parametrize(("name", "kind", "given_settings"), CASES, ids=IDS)
@settings(max_examples=25)
@given(data=st.data())
def test_aggregation_is_the_loop(name, kind, given_settings, data):
    data_type, values = VALUES[kind]
    ignore = data.draw(st.booleans())
    removes = not ignore and data.draw(st.booleans())
    kinds = st.sampled_from(KINDS if ignore or data.draw(st.booleans()) else KINDS[::2])
    row = st.tuples(kinds, st.fixed_dictionaries({"v": values | st.none()}))
    groups = data.draw(st.lists(st.lists(row, min_size=1, max_size=6), min_size=1, max_size=5))
    model = {"name": name, "kind": kind, "ignore_retract": ignore, **model_settings(given_settings)}
    function = ColumnFunction("v", name, data_type, ignore_retract=ignore, **given_settings)
    engine = Aggregation((function,), remove_on_delete=removes)
    check(
        engine,
        groups,
        {"v": data_type},
        lambda rows: aggregated(rows, {"v": model}, remove_on_delete=removes),
    )


IN_PARTS = [
    (name, kind, settings)
    for name, kind, settings in CASES
    if kind not in ("FLOAT", "DOUBLE") and "count_limit" not in settings  # docs/merge-engines.md
]


@pytest.mark.parametrize(
    ("name", "kind", "given_settings"), IN_PARTS, ids=["-".join(c[:2]) for c in IN_PARTS]
)
@settings(max_examples=15)
@given(data=st.data())
def test_newer_rows_may_be_merged_first(name, kind, given_settings, data):
    """What a compaction of some runs relies on; retractions by MergeSpec.deletes_need_all."""
    data_type, values = VALUES[kind]
    if kind == "INT":
        values = st.integers(-2, 2)
    if name == "product" and kind == "DECIMAL":
        values = st.sampled_from([Decimal("1.00"), Decimal("-1.00"), Decimal("0.00")])
    if name == "sum" and kind == "DECIMAL":
        values = st.sampled_from([Decimal("1.25"), Decimal("-0.50")])
    function = ColumnFunction("v", name, data_type, **given_settings)
    kinds = KINDS if function.retracts and not function.forgets_retractions else KINDS[::2]
    row = st.tuples(st.sampled_from(kinds), st.fixed_dictionaries({"v": values | st.none()}))
    older = data.draw(st.lists(row, min_size=1, max_size=4))
    newer = data.draw(st.lists(row, min_size=2, max_size=4))
    engine, types = Aggregation((function,)), {"v": data_type}
    at_once = merged_rows(engine, [older + newer], types)
    in_parts = merged_rows(engine, [older + merged_rows(engine, [newer], types)], types)
    assert normal(in_parts, types) == normal(at_once, types)


@pytest.mark.parametrize("name", ["product", "last_non_null_value", "collect", "merge_map"])
def test_what_forgets_retractions_does(name):
    kind, value = {
        "product": ("INT", 2),
        "last_non_null_value": ("INT", 2),
        "collect": ("ARRAY", [2]),
        "merge_map": ("MAP", {2: "a"}),
    }[name]
    function = ColumnFunction("v", name, VALUES[kind][0])
    engine, types = Aggregation((function,)), {"v": VALUES[kind][0]}
    older, newer = [("+I", {"v": value})], [("-U", {"v": value}), ("+U", {"v": None})]
    in_parts = merged_rows(engine, [older + merged_rows(engine, [newer], types)], types)
    assert function.forgets_retractions
    assert in_parts != merged_rows(engine, [older + newer], types)


def check(engine, groups, types, expected_of):
    try:
        expected = [expected_of(rows) for rows in groups]
    except Refused:
        with pytest.raises(InvalidInputError):
            merged_rows(engine, groups, types)
        return
    except NotImplementedError:
        return
    assert normal(merged_rows(engine, groups, types), types) == normal(expected, types)


def test_not_null_columns_begin_again_with_the_row_that_removes():
    function = ColumnFunction("v", "sum", parse_type("INT NOT NULL"))
    rows = [("+I", {"v": 5}), ("-D", {"v": 9}), ("+I", {"v": 1})]
    engine = Aggregation((function,), remove_on_delete=True, not_null=frozenset("v"))
    found = merged_rows(engine, [rows], {"v": parse_type("INT")})
    assert found == [aggregated(rows, {"v": {"name": "sum"}}, remove_on_delete=True, not_null="v")]
    assert found == [("+I", {"v": 10})]


@pytest.mark.parametrize("count", [17, 40, 3000])
def test_a_double_is_summed_from_left_to_right_however_many_rows_there_are(count):
    values = np.random.default_rng(count).normal(0, 1e6, count).tolist()
    groups = [[("+I", {"v": v}) for v in values], *[[("+I", {"v": v})] * 2 for v in values[:20]]]
    engine = Aggregation((ColumnFunction("v", "sum", parse_type("DOUBLE")),))
    total = 0.0
    for v in values:
        total += v
    assert merged_rows(engine, groups, {"v": parse_type("DOUBLE")})[0] == ("+I", {"v": total})


def test_infinities_take_each_other_back_without_a_word():
    rows = [("+I", {"v": math.inf}), ("-U", {"v": math.inf})]
    for kind in ("DOUBLE", "FLOAT"):
        engine = Aggregation((ColumnFunction("v", "sum", parse_type(kind)),))
        ((_, values),) = merged_rows(engine, [rows], {"v": parse_type(kind)})
        assert math.isnan(values["v"])


def test_sums_of_wide_decimals_and_of_bigints_are_exact():
    wide = parse_type("DECIMAL(38, 2)")
    engine = Aggregation((ColumnFunction("v", "sum", wide),))
    half = Decimal("5" + "0" * 35 + ".00")
    less = Decimal("-4" + "9" * 35 + ".99")  # half and half and a cent less
    fits = [("+I", {"v": half}), ("-D", {"v": less}), ("+I", {"v": None})]
    small = [("+I", {"v": Decimal("-1.00")}), ("+I", {"v": Decimal("0.25")})]
    with pytest.raises(InvalidInputError, match="does not fit DECIMAL"):
        merged_rows(engine, [[("+I", {"v": half})] * 2], {"v": wide})
    found = merged_rows(engine, [fits, small], {"v": wide})
    assert found == [("+I", {"v": Decimal("9" * 36 + ".99")}), ("+I", {"v": Decimal("-0.75")})]
    big = parse_type("BIGINT")
    engine = Aggregation((ColumnFunction("v", "sum", big),))
    rows = [("+I", {"v": 2**63 - 1}), ("+I", {"v": 2**63 - 1}), ("-U", {"v": 2**63 - 1})]
    assert merged_rows(engine, [rows], {"v": big}) == [("+I", {"v": 2**63 - 1})]
    with pytest.raises(InvalidInputError, match="does not fit BIGINT"):
        merged_rows(engine, [rows[:2]], {"v": big})


GROUPED_TYPES = {
    "a": "INT",
    "g1": "INT",
    "b": "STRING",
    "c": "INT",
    "h1": "INT",
    "h2": "STRING",
    "d": "STRING",
}
SEQUENCES = st.integers(-1, 3) | st.none()
GROUPED_VALUES = st.fixed_dictionaries(
    {
        "a": st.integers(-3, 3) | st.none(),
        "g1": SEQUENCES,
        "b": TEXTS | st.none(),
        "c": st.integers(-3, 3) | st.none(),
        "h1": SEQUENCES,
        "h2": st.sampled_from(["p", "q", None]),
        "d": TEXTS | st.none(),
    }
)
MEMBER_FUNCTIONS = {
    "a": (None, "sum", "first_value", "first_non_null_value", "last_non_null_value", "product"),
    "b": (None, "first_value", "listagg", "max"),
    "c": (None, "min", "sum", "last_value"),
}


def filled(value):
    return 0 if value is None else value


@pytest.mark.parametrize("flat", [True, False])
@given(data=st.data())
def test_sequence_groups_are_the_loop(flat, data):
    removes = data.draw(st.sampled_from([(), ("g",), ("h",), ("g", "h")]))
    groups = (
        SequenceGroup(("g1",), (parse_type("INT"),), ("a", "b"), removes="g" in removes),
        SequenceGroup(
            ("h1", "h2"),
            (parse_type("INT"), parse_type("STRING")),
            ("c",),
            removes="h" in removes,
        ),
    )
    types = {name: parse_type(text) for name, text in GROUPED_TYPES.items()}
    functions, models = [], {}
    only_chooses = data.draw(st.booleans())
    for name, data_type in types.items():
        offered = (None,) if only_chooses else MEMBER_FUNCTIONS.get(name, (None,))
        chosen = data.draw(st.sampled_from(offered))
        ignore = chosen is not None and data.draw(st.booleans())
        default = NEWEST if name != "d" else "last_non_null_value"
        functions.append(ColumnFunction(name, chosen or default, data_type, ignore_retract=ignore))
        if chosen is not None:
            models[name] = {"name": chosen, "ignore_retract": ignore, "kind": "INT"}
    kinds = st.sampled_from(KINDS if data.draw(st.booleans()) else KINDS[::2])
    rows = st.lists(st.tuples(kinds, GROUPED_VALUES), min_size=1, max_size=6)
    not_null = data.draw(st.sets(st.sampled_from(["g1", "h1"])))
    keys = [
        [
            (kind, {n: filled(v) if n in not_null else v for n, v in row.items()})
            for kind, row in own
        ]
        for own in data.draw(st.lists(rows, min_size=1, max_size=5))
    ]
    described = [(g.columns, g.members, g.removes) for g in groups]
    with mock.patch.object(layouts, "FLAT_ROWS_MAX", 32 if flat else 1):
        check(
            PartialUpdate(tuple(functions), groups, not_null=frozenset(not_null)),
            keys,
            types,
            lambda own: partially_updated(own, models, described, not_null=not_null),
        )


@given(data=st.data())
def test_partial_update_is_the_loop(data):
    ignores, removes = data.draw(st.sampled_from([(False, False), (True, False), (False, True)]))
    types = {name: parse_type(GROUPED_TYPES[name]) for name in ("a", "b", "d")}
    functions = tuple(ColumnFunction(n, "last_non_null_value", t) for n, t in types.items())
    kinds = st.sampled_from(KINDS)
    rows = st.lists(st.tuples(kinds, GROUPED_VALUES), min_size=1, max_size=6)
    keys = [
        [(kind, {n: values[n] for n in types}) for kind, values in own]
        for own in data.draw(st.lists(rows, min_size=1, max_size=5))
    ]
    engine = PartialUpdate(functions, ignore_delete=ignores, remove_on_delete=removes)
    settings = {"ignore_delete": ignores, "remove_on_delete": removes}
    check(engine, keys, types, lambda own: partially_updated(own, {}, **settings))


def test_a_removal_by_one_group_empties_the_sequences_of_the_others():
    types = {n: parse_type("INT") for n in ("g", "h1", "h2", "b")}
    types["h1"] = parse_type("INT NOT NULL")
    groups = (
        SequenceGroup(("g",), (types["g"],), (), removes=True),
        SequenceGroup(("h1", "h2"), (types["h1"], types["h2"]), ("b",)),
    )
    functions = tuple(ColumnFunction(n, NEWEST, t) for n, t in types.items())
    rows = [
        ("+I", {"g": 1, "h1": 1, "h2": 5, "b": 1}),
        ("-D", {"g": 2, "h1": 1, "h2": 5, "b": None}),
        ("+I", {"g": 3, "h1": 1, "h2": 2, "b": 7}),  # h2 is null since the removal, below 2
    ]
    engine = PartialUpdate(functions, groups, not_null=frozenset({"h1"}))
    assert merged_rows(engine, [rows], types) == [("+I", {"g": 3, "h1": 1, "h2": 2, "b": 7})]


def test_the_sequence_columns_that_hold_no_null_stay_after_a_removal():
    types = {"g": parse_type("INT NOT NULL"), "h": parse_type("INT"), "v": parse_type("INT")}
    group = SequenceGroup(("g", "h"), (types["g"], types["h"]), ("v",), removes=True)
    functions = tuple(ColumnFunction(n, NEWEST, t) for n, t in types.items())
    engine = PartialUpdate(functions, (group,), not_null=frozenset("g"))
    rows = [
        ("+I", {"g": 1, "h": 1, "v": 1}),
        ("-D", {"g": 2, "h": 7, "v": 1}),
        ("+I", {"g": 2, "h": 3, "v": 4}),
        ("+I", {"g": 1, "h": 9, "v": 5}),
    ]
    expected = partially_updated(rows, {}, [(("g", "h"), ("v",), True)], not_null=("g",))
    assert expected == ("+I", {"g": 2, "h": 3, "v": 4})
    assert merged_rows(engine, [rows], types) == [expected]


@pytest.mark.parametrize("order", [("u", "v"), ("v", "u")])
def test_a_first_row_that_takes_from_a_column_without_nulls_is_refused(order):
    types = {name: parse_type("INT") for name in ("g", *order)} | {"v": parse_type("INT NOT NULL")}
    group = SequenceGroup(("g",), (types["g"],), order)
    functions = tuple(ColumnFunction(n, NEWEST, t) for n, t in types.items())
    engine = PartialUpdate(functions, (group,), not_null=frozenset("v"))
    added, taken = ("+I", {"g": 1, "u": None, "v": 3}), ("-U", {"g": 1, "u": 2, "v": 4})
    assert merged_rows(engine, [[added, added]], types) == [added]
    with pytest.raises(InvalidInputError, match="Column 'v' is NOT NULL"):
        merged_rows(engine, [[taken, added]], types)
    with pytest.raises(InvalidInputError, match="Column 'v' is NOT NULL"):
        merged_rows(engine, [[added, taken]], types)


def test_every_function_of_paimon_is_made_or_refused():
    made = {name for name, *_ in CASES} | {"primary-key", "first_not_null_value", "rbm32"}
    refused = {n for n in AGGREGATE_FUNCTIONS if "not covered" in (refusal_of(n) or "")}
    assert refused == {"rbm64", "theta_sketch", "hll_sketch"}
    assert made | refused == set(AGGREGATE_FUNCTIONS)


def refusal_of(name):
    return check_function(name, parse_type("BYTES"))


def test_a_primary_key_function_takes_what_the_newest_row_has():
    rows = [("+I", {"v": 1}), ("-D", {"v": 2})]
    engine = Aggregation((ColumnFunction("v", "primary-key", parse_type("INT")),))
    assert merged_rows(engine, [rows], {"v": parse_type("INT")}) == [("+I", {"v": 2})]


def test_the_old_name_of_first_non_null_value():
    rows = [("+I", {"v": None}), ("+I", {"v": 2}), ("+I", {"v": 3})]
    engine = Aggregation((ColumnFunction("v", "first_not_null_value", parse_type("INT")),))
    assert merged_rows(engine, [rows], {"v": parse_type("INT")}) == [("+I", {"v": 2})]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["a", "b", "a"], "a,b"),
        (["a,a", "b,a,c"], "a,a,b,c"),  # the first text stays as it is
        ([None, " ", "a", "", "b,,a"], "a,b"),
        ([None, " "], None),
    ],
)
def test_distinct_parts_of_texts(texts, expected):
    function = ColumnFunction("v", "listagg", parse_type("STRING"), distinct=True)
    rows = [("+I", {"v": text}) for text in texts]
    found = merged_rows(Aggregation((function,)), [rows], {"v": parse_type("STRING")})
    assert found == [("+I", {"v": expected})]


BITMAP_NUMBERS = st.sets(st.integers(0, 2**32 - 1) | st.integers(0, 50), max_size=20)


@given(st.lists(st.lists(BITMAP_NUMBERS | st.none(), min_size=1, max_size=5), min_size=1))
def test_bitmaps_are_united(groups):
    def bitmap(numbers):
        return None if numbers is None else encode_one(np.array(sorted(numbers), np.int64))

    engine = Aggregation((ColumnFunction("v", "rbm32", parse_type("BYTES")),))
    rows = [[("+I", {"v": bitmap(n)}) for n in own] for own in groups]
    found = [values["v"] for _, values in merged_rows(engine, rows, {"v": parse_type("BYTES")})]
    known = [[n for n in own if n is not None] for own in groups]
    assert found == [bitmap(set().union(*own)) if own else None for own in known]


def test_bytes_that_are_no_bitmap_are_refused():
    engine = Aggregation((ColumnFunction("v", "rbm32", parse_type("BYTES")),))
    rows = [[("+I", {"v": b"no"}), ("+I", {"v": b"bitmap"})]]
    with pytest.raises(InvalidInputError, match="'v' is aggregated by 'rbm32', but a value is not"):
        merged_rows(engine, rows, {"v": parse_type("BYTES")})
