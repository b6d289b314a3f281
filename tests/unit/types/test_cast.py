"""Casts against what Java Paimon 1.3.1 made of the same values (tests/golden/casts.jsonl)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from interop.cells import column_cells

from tidelake import InvalidInputError, UnsupportedError
from tidelake.types import TypeRoot, parse_type
from tidelake.types.arrow import to_arrow_type
from tidelake.types.cast import can_cast, cast_values, keeps_order, needs_zone
from tidelake.types.cast.float_text import float_text
from tidelake.types.values import storage_to_arrow

LINES = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "golden/casts.jsonl").read_text().splitlines()
]
VALUES = {line["from"]: line["values"] for line in LINES if "values" in line}
PAIRS = [line for line in LINES if "to" in line]
CASTS = [line for line in PAIRS if "cells" in line]
TEXTS = {TypeRoot.CHAR, TypeRoot.VARCHAR}
TIMES = {TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ}


def column(cells, data_type):
    """The Arrow column of some cells."""
    arrow_type = to_arrow_type(data_type)
    if pa.types.is_floating(arrow_type):
        width, kind = (">u4", np.float32) if arrow_type == pa.float32() else (">u8", np.float64)
        bits = b"".join(bytes.fromhex(c[2:]) for c in cells)
        return pa.array(np.frombuffer(bits, width).astype(width[1:]).view(kind), arrow_type)
    if data_type.root is TypeRoot.DECIMAL:
        return pa.array([c[2:] for c in cells]).cast(arrow_type)
    if data_type.root is TypeRoot.BOOLEAN:
        return pa.array([c == "true" for c in cells])
    if data_type.root in {TypeRoot.CHAR, TypeRoot.VARCHAR}:
        return pa.array([c[2:] for c in cells])
    if data_type.root in {TypeRoot.BINARY, TypeRoot.VARBINARY}:
        return pa.array([bytes.fromhex(c[2:]) for c in cells], pa.binary())
    return storage_to_arrow([int(c.rpartition(":")[2]) for c in cells], data_type)


def as_held(cell, target):
    """Java's cell as the type can hold it; "!" for what is refused here and only here."""
    if cell in {None, "!"}:
        return cell
    if target.root is TypeRoot.TIME and not 0 <= int(cell[3:]) < 86_400_000:
        return "!"  # a time of day beyond the day
    if target.root in TIMES:
        unit = {"ms": 10**6, "us": 10**3, "ns": 1}[to_arrow_type(target).unit]
        nanos = int(cell[3:]) // unit  # Java carries nanoseconds that the file cannot keep
        return f"ns:{nanos * unit}" if abs(nanos) < 2**63 else "!"
    return cell


def known_refusal(source, target, cell):
    """Values that Java casts and this library does not: they are refused, never cast wrongly."""
    if source.root is TypeRoot.DATE and target.root in {TypeRoot.VARCHAR}:
        return int(cell[4:]) < -719_528  # before the year 0
    if source.root in TEXTS and target == parse_type("TIMESTAMP(0)"):
        digits = cell[2:].lstrip("-")  # seconds that are no long in milliseconds
        return digits.isdecimal() and int(digits) > 2**63 // 1000
    if source.root in {TypeRoot.BINARY, TypeRoot.VARBINARY} and target.root in TEXTS:
        return b"\xff" in bytes.fromhex(cell[2:])  # no UTF-8
    return False


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
