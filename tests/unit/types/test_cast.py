"""Casts against what Java Paimon 1.3.1 made of the same values (tests/golden/casts.jsonl)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from interop.cast_vectors import CASTS, PAIRS, VALUES, as_held, column, known_refusal
from interop.cells import column_cells

from tidelake import InvalidInputError, UnsupportedError
from tidelake.types import parse_type
from tidelake.types.cast import can_cast, cast_values, keeps_order, needs_zone
from tidelake.types.cast.float_text import float_text


@pytest.mark.parametrize("name", VALUES)
def test_casts_give_what_java_gives(name):
    """Good values together, so that a column is cast as one; bad ones each by itself."""
    source = parse_type(name)
    wrong = []
    for line in (c for c in CASTS if c["from"] == name):
        target = parse_type(line["to"])
        pairs = [(g, as_held(e, target)) for g, e in zip(VALUES[name], line["cells"], strict=True)]
        bad = [g for g, e in pairs if e == "!" or known_refusal(source, target, g)]
        good = [(g, e) for g, e in pairs if g not in bad]
        if good:
            given = column([g for g, _ in good], source)
            both = pa.concat_arrays([given, pa.nulls(1, given.type)])
            cast = cast_values(both, source, target, zone=line["zone"])
            found = column_cells(pa.chunked_array([cast]))
            expected = [*(e for _, e in good), None]
            triples = zip([*(g for g, _ in good), None], found, expected, strict=True)
            wrong += [(line["to"], *t) for t in triples if t[1] != t[2]]
        for cell in bad:
            with pytest.raises(InvalidInputError, match="cannot be cast"):
                cast_values(column([cell], source), source, target, zone=line["zone"])
    assert not wrong


def test_the_casts_allowed_are_javas():
    wrong = []
    for line in PAIRS:
        source, target = parse_type(line["from"]), parse_type(line["to"])
        same = source == target  # Java has no code for some types to themselves
        for explicit in (False, True):
            rule = line["rule"] == "implicit" or (explicit and line["rule"] == "explicit")
            allowed = rule and ("cells" in line or same)
            if can_cast(source, target, explicit=explicit) != allowed:
                wrong.append((line["from"], line["to"], explicit))
    assert not wrong


def test_a_cast_needs_the_zone_if_java_gives_another_answer_elsewhere():
    answers = {}
    for line in CASTS:
        answers.setdefault((line["from"], line["to"]), set()).add(str(line["cells"]))
    for (source, target), told in answers.items():
        needs = needs_zone(parse_type(source), parse_type(target))
        assert needs or len(told) == 1, f"{source} to {target}"


def test_a_cast_that_needs_an_unknown_zone_is_refused():
    ltz, date = parse_type("TIMESTAMP(3) WITH LOCAL TIME ZONE"), parse_type("DATE")
    with pytest.raises(UnsupportedError, match=r"local time zone.*TZ"):
        cast_values(pa.array([0], pa.timestamp("ms", "UTC")), ltz, date)


def test_a_cast_that_there_is_not_is_refused():
    with pytest.raises(UnsupportedError, match="no cast from DATE to INT"):
        cast_values(pa.array([0], pa.date32()), parse_type("DATE"), parse_type("INT"))


def test_casts_that_keep_the_order_do():
    """Statistics may be cast by these: the values between two stay between them."""
    kept = 0
    for line in CASTS:
        source, target = parse_type(line["from"]), parse_type(line["to"])
        if not keeps_order(source, target):
            continue
        values = column(VALUES[line["from"]], source)
        if pa.types.is_floating(values.type):
            values = values.filter(pc.invert(pc.is_nan(values)))
        values = values.take(pc.sort_indices(values))
        try:
            cast = cast_values(values, source, target, zone="UTC")
        except InvalidInputError:
            continue  # of timestamps that nanoseconds cannot hold
        assert cast.null_count == 0
        assert pc.all(pc.less_equal(cast[:-1], cast[1:])).as_py(), f"{source} to {target}"
        kept += 1
    assert kept > 20


@given(st.floats(allow_nan=True, width=64))
def test_a_double_reads_back_from_its_text(number):
    text = float_text(number, digits=64).replace("Infinity", "inf")
    assert repr(float(text)) == repr(number)


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_a_float_reads_back_from_its_text(number):
    text = float_text(number, digits=32)
    assert repr(np.float32(text)) == repr(np.float32(number))
    assert len(text) <= len("-1.17549435E-38")
