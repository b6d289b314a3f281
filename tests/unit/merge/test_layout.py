"""Keys with several rows, laid out: both ways through them give the same."""

import decimal
import math

import numpy as np
import pyarrow as pa
import pytest

from tidelake.errors import InvalidInputError
from tidelake.merge import layout as layouts
from tidelake.merge.functions import ColumnFunction, fold
from tidelake.merge.layout import Action, layout_of
from tidelake.merge.segments import Segments
from tidelake.types import parse_type
from tidelake.types.arrow import to_arrow_type


def drawn_layout(seed, *, longest=6, keys=40):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, keys)
    first = np.zeros(int(lengths.sum()), np.bool_)
    first[np.cumsum(lengths) - lengths] = True
    order = rng.permutation(len(first))
    return layout_of(Segments(order, first, np.zeros(len(first), np.int8))), rng


def spans(layout):
    return [range(s, s + n) for s, n in zip(layout.starts, layout.lengths, strict=True)]


@pytest.mark.parametrize("longest", [40, 255, 256, 300, 70_000])
def test_keys_with_more_rows_come_first(longest):
    lengths = np.array([2, longest, 1, 38, 2, longest, longest - 1, 3])
    first = np.zeros(int(lengths.sum()), np.bool_)
    first[np.cumsum(lengths) - lengths] = True
    order = np.arange(len(first))
    layout = layout_of(Segments(order, first, np.zeros(len(first), np.int8)))
    wanted = sorted(
        (k for k in range(len(lengths)) if lengths[k] > 1), key=lambda k: (-lengths[k], k)
    )
    assert layout.keys.tolist() == wanted
    assert layout.lengths.tolist() == lengths[wanted].tolist()
    ends = np.cumsum(lengths)[wanted]
    assert layout.rows[layout.last].tolist() == (ends - 1).tolist()


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_last_of_and_sums(flat, seed, monkeypatch):
    monkeypatch.setattr(layouts, "FLAT_ROWS_MAX", 32 if flat else 1)
    layout, rng = drawn_layout(seed)
    assert (layout.by_rank is not None) == flat
    mask = rng.random(len(layout.rows)) < 0.4
    terms = rng.integers(-9, 9, len(layout.rows))
    wanted = [max((at for at in span if mask[at]), default=-1) for span in spans(layout)]
    assert layout.last_of(mask).tolist() == wanted
    assert layout.sums(terms).tolist() == [sum(int(terms[at]) for at in s) for s in spans(layout)]


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("INT", [3, 3, -1, None, 7]),
        ("DOUBLE", [0.0, -0.0, float("nan"), None, -2.5]),
        ("STRING", ["a", "ab", "", None, "b"]),
    ],
)
def test_extremes_are_those_of_a_loop(flat, name, type_, values, monkeypatch):
    monkeypatch.setattr(layouts, "FLAT_ROWS_MAX", 32 if flat else 1)
    layout, rng = drawn_layout(11)
    column = pa.array([values[at] for at in rng.integers(0, len(values), len(layout.rows) + 40)])
    actions = rng.choice([Action.SKIP, Action.ADD, Action.OLDER], len(layout.rows)).astype(np.int8)
    folded = fold(ColumnFunction("c", name, parse_type(type_)), layout, actions, column)
    if isinstance(folded, np.ndarray):
        found = [None if at < 0 else column[int(at)].as_py() for at in folded]
    else:
        found = folded.to_pylist()
    for number, span in enumerate(spans(layout)):
        rows = [int(layout.rows[at]) for at in span if actions[at] != Action.SKIP]
        own = [v for row in rows if (v := column[row].as_py()) is not None]
        best = {"max": max, "min": min}[name](own, key=total_order, default=None)
        assert repr(found[number]) == repr(best)


@pytest.mark.parametrize("seed", range(5))
def test_the_last_rising_sequence_is_that_of_a_loop(seed):
    layout, rng = drawn_layout(seed)
    sequences = rng.integers(-1, 4, len(layout.rows))
    wanted = []
    for span in spans(layout):
        highest, chosen = -1, -1
        for at in span:
            if sequences[at] != -1 and sequences[at] >= highest:
                highest, chosen = sequences[at], int(layout.rows[at])
        wanted.append(chosen)
    found = layout.by_rank.last_rising(sequences[layout.rank_positions], np.int64(-1))
    assert found.tolist() == wanted


def test_ranks_are_those_of_the_layout():
    layout, _ = drawn_layout(4)
    assert layout.rows[layout.rank_positions].tolist() == layout.by_rank.rows.tolist()
    assert layout.newest_rows.tolist() == layout.rows[layout.last].tolist()


def total_order(value):
    if not isinstance(value, float):
        return value
    bits = int(np.float64(value).view(np.int64))
    return bits if bits >= 0 else bits ^ 0x7FFF_FFFF_FFFF_FFFF


@pytest.mark.parametrize("type_", ["TINYINT", "INT", "BIGINT", "DECIMAL(9, 2)", "DECIMAL(38, 2)"])
def test_sums_fit_to_the_last_unit(type_):
    data_type = parse_type(type_)
    layout, _ = drawn_layout(3, longest=2, keys=9)
    largest = {"TINYINT": 127, "INT": 2**31 - 1, "BIGINT": 2**63 - 1}.get(type_)
    if largest is None:
        largest = 10 ** (9 if "(9" in type_ else 38) - 1
    for one in (-1, 0, 1):
        values = [0] * 30
        oldest, newest = layout.rows[layout.starts[0]], layout.rows[layout.last[0]]
        values[oldest], values[newest] = largest, one
        column = decimals(values, type_) if "DEC" in type_ else pa.array(values, ARROW[type_])
        actions = np.full(len(layout.rows), Action.ADD, np.int8)
        function = ColumnFunction("c", "sum", data_type)
        if one == 1:
            with pytest.raises(InvalidInputError, match=r"does not fit"):
                fold(function, layout, actions, column)
            actions[layout.last[0]] = Action.RETRACT
            wanted = largest - 1
        else:
            wanted = largest + one
        found = fold(function, layout, actions, column)[0].as_py()
        assert (unscaled(found) if "DEC" in type_ else found) == wanted


ARROW = {"TINYINT": pa.int8(), "INT": pa.int32(), "BIGINT": pa.int64()}


def unscaled(value):
    with decimal.localcontext(prec=60):
        return int(value.scaleb(2))


def decimals(values, type_):
    digits = 9 if "(9" in type_ else 38
    with decimal.localcontext(prec=60):
        return pa.array([decimal.Decimal(v).scaleb(-2) for v in values], pa.decimal128(digits, 2))


def python_fold(name, values):
    """The function over one key's values, oldest first; none of them retracts."""
    known = [value for value in values if value is not None]
    match name:
        case "last_value":
            return values[-1]
        case "last_non_null_value":
            return known[-1] if known else None
        case "first_non_null_value":
            return known[0] if known else None
    if not known:
        return None
    match name:
        case "sum":
            total = known[0]
            for value in known[1:]:
                total += value
            return total
        case "bool_or":
            return any(known)
        case "bool_and":
            return all(known)
    order = [(value != value, value, math.copysign(1, value)) for value in known]
    return known[order.index(max(order) if name == "max" else min(order))]


ADDED = [
    *[(name, "INT", [3, -1, 7, 2**30]) for name in ("max", "min", "sum")],
    *[(name, "DATE", [3, -1, 7]) for name in ("max", "min")],
    *[(name, "DOUBLE", [0.0, -0.0, 0.1, 0.7, -2.5, 1e300]) for name in ("max", "min", "sum")],
    *[(name, "DOUBLE", [math.inf, math.nan, 0.5]) for name in ("max", "min")],
    *[(name, "FLOAT", [0.5, -0.25, 8.0]) for name in ("max", "min", "sum")],
    *[
        (name, "DECIMAL(9, 2)", [decimal.Decimal("-1.50"), decimal.Decimal("2.25")])
        for name in ("max", "min", "sum")
    ],
    *[(name, "BOOLEAN", [True, False]) for name in ("bool_or", "bool_and")],
    *[
        (name, "STRING", ["a", "b", ""])
        for name in ("last_value", "last_non_null_value", "first_non_null_value")
    ],
]


@pytest.mark.parametrize("nulls", [True, False])
@pytest.mark.parametrize("ranked", [True, False])
@pytest.mark.parametrize(("name", "type_", "values"), ADDED)
def test_rows_that_all_add(name, type_, values, ranked, nulls, monkeypatch):
    monkeypatch.setattr(layouts, "FLAT_ROWS_MAX", 32 if ranked else 1)
    layout, rng = drawn_layout(7, longest=5, keys=200)
    actions = np.full(len(layout.rows), Action.ADD, np.int8)
    assert (layout.if_all_add(actions) is not None) == ranked
    if type_ == "INT" and name == "sum":
        values = values[:-1]
    given = [*values, None, None] if nulls else values
    arrow_type = to_arrow_type(parse_type(type_))
    rows = [given[at] for at in rng.integers(0, len(given), int(layout.rows.max()) + 1)]
    column = pa.array(rows, arrow_type)
    rows = column.to_pylist() if type_ != "DATE" else rows
    folded = fold(ColumnFunction("c", name, parse_type(type_)), layout, actions, column)
    if isinstance(folded, np.ndarray):
        found = [None if at < 0 else rows[at] for at in folded]
    else:
        found = (folded.cast(pa.int32()) if type_ == "DATE" else folded).to_pylist()
    wanted = [python_fold(name, [rows[layout.rows[at]] for at in span]) for span in spans(layout)]
    assert [repr(value) for value in found] == [repr(value) for value in wanted]
