"""Curves: words in the order of values, interleaved bits, Hilbert's curve."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from tidelake.errors import UnsupportedError
from tidelake.store.append.curve import (
    ColumnFrame,
    Curve,
    Strategy,
    check_curve_type,
    column_range,
    hilbert_transposed,
    interleaved,
)
from tidelake.types import parse_type
from tidelake.types.arrow import to_arrow_type

RNG = np.random.default_rng(7)


def reference(columns, size):
    """Paimon's loop, bit after bit, for one row of bytes of each column."""
    bits = []
    places = [(c, byte, bit) for byte in range(max(map(len, columns))) for bit in range(8)
              for c in range(len(columns))]  # fmt: skip
    for column, byte, bit in places:
        if byte < len(columns[column]):
            bits.append(columns[column][byte] >> (7 - bit) & 1)
    return np.packbits(np.array(bits[: size * 8], np.uint8)).tobytes()


@pytest.mark.parametrize("widths", [(8,), (8, 8), (8, 3, 8), (1,) * 8, (8,) * 9, (2, 4, 1)])
def test_bits_are_interleaved_as_paimon_does(widths):
    columns = [RNG.integers(0, 256, (20, w)).astype(np.uint8) for w in widths]
    found = interleaved(columns)
    for row in range(20):
        expected = reference([c[row].tolist() for c in columns], sum(widths))
        assert found[row].tobytes() == expected


@pytest.mark.parametrize(("dimensions", "bits"), [(2, 1), (2, 4), (3, 3), (4, 2), (5, 2)])
def test_hilberts_curve_visits_every_cell_once_and_never_jumps(dimensions, bits):
    cells = np.array(list(itertools.product(range(1 << bits), repeat=dimensions)), np.uint32)
    places = hilbert_transposed(list(cells.T), bits=bits)
    position = np.zeros(len(cells), np.uint64)
    for bit in range(bits - 1, -1, -1):
        for place in places:
            position = position << np.uint64(1) | (place >> np.uint32(bit) & np.uint32(1))
    assert sorted(position.tolist()) == list(range(len(cells)))
    path = cells[np.argsort(position)].astype(np.int64)
    assert (np.abs(np.diff(path, axis=0)).sum(axis=1) == 1).all()


VALUES = {
    "BOOLEAN": [False, True],
    "TINYINT": [-128, -1, 0, 5, 127],
    "SMALLINT": [-(2**15), -1, 0, 2**15 - 1],
    "INT": [-(2**31), -7, 0, 7, 2**31 - 1],
    "BIGINT": [-(2**63), -7, 0, 7, 2**63 - 1],
    "FLOAT": [float("-inf"), -1.5, -0.0, 0.0, 1e-30, 2.5, float("inf"), float("nan")],
    "DOUBLE": [float("-inf"), -1.5, 0.0, 1e-300, 2.5, float("inf"), float("nan")],
    "DATE": [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2026, 1, 1)],
    "TIME(3)": [dt.time(0), dt.time(12, 30), dt.time(23, 59, 59)],
    "TIMESTAMP(6)": [dt.datetime(1900, 1, 1), dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 2)],
    "DECIMAL(9, 2)": [Decimal("-9999999.99"), Decimal("-0.01"), Decimal(0), Decimal("9999999.99")],
    "DECIMAL(38, 10)": [Decimal(-(10**27)), Decimal(-1), Decimal(0), Decimal(1), Decimal(10**27)],
    "DECIMAL(19, 0)": [Decimal(-(10**18)), Decimal(0), Decimal(10**18), Decimal(5 * 10**18)],
    "STRING": ["", "a", "aa", "b", "ba", "z", "é"],
    "BYTES": [b"", b"\0", b"\1", b"\xff", b"\xff\xff"],
}  # fmt: skip


@pytest.mark.parametrize("framed", [False, True])
@pytest.mark.parametrize("strategy", [Strategy.ZORDER, Strategy.HILBERT])
@pytest.mark.parametrize("text", VALUES)
def test_one_column_is_ordered_by_value_with_nulls_first(text, strategy, framed):
    data_type = parse_type(text)
    values = [None, *VALUES[text]]
    column = pa.array(values, to_arrow_type(data_type))
    found = column_range(column, data_type).frame() if framed else ColumnFrame()
    keys = Curve(strategy, (data_type,), (found,)).keys([column])
    table = keys.view(np.uint8).reshape(len(values), -1)
    texts = [row.tobytes() for row in table]
    assert texts == sorted(texts)
    if strategy is Strategy.ZORDER:
        distinct = len(set(texts[1:]))
        # the bytes of "" and b"\0" are the same once filled; a wide decimal loses its last bits
        assert distinct >= len(values) - 1 - (text in ("BYTES",)) - 2 * ("38" in text)


def test_a_frame_lets_columns_of_any_size_decide_alike():
    ids = pa.array(RNG.integers(0, 1000, 4000))
    times = pa.array(1_700_000_000_000_000 + RNG.integers(0, 10**13, 4000))
    types = (parse_type("BIGINT"), parse_type("BIGINT"))
    frames = tuple(column_range(c, t).frame() for c, t in zip((ids, times), types, strict=True))
    columns = [ids, times]

    def spread(curve):
        """How much of each column's range a sixteenth of the rows covers, on average."""
        order = np.argsort(curve.keys(columns), kind="stable")
        parts = [np.array_split(c.to_numpy()[order], 16) for c in columns]
        return [np.mean([np.ptp(p) for p in own]) / np.ptp(c) for own, c in zip(
            parts, [c.to_numpy() for c in columns], strict=True)]  # fmt: skip

    with_frames = spread(Curve(Strategy.ZORDER, types, frames))
    without = spread(Curve(Strategy.ZORDER, types, (ColumnFrame(), ColumnFrame())))
    assert max(with_frames) < 0.6
    assert max(without) > 0.9  # the times alone decide


def test_texts_count_from_where_they_differ():
    texts = pa.array([f"customer-number-{n:06}" for n in (5, 3, 9, 7)])
    data_type = parse_type("STRING")
    found = column_range(texts, data_type).frame()
    assert found.prefix_bytes == len("customer-number-00000")
    keys = Curve(Strategy.ZORDER, (data_type,), (found,)).keys([texts])
    assert np.argsort(keys).tolist() == [1, 0, 3, 2]


@pytest.mark.parametrize("text_bytes", [1, 5, 8, 9, 20])
def test_as_many_bytes_of_a_text_count_as_are_asked_for(text_bytes):
    texts = ["a" * n + "b" for n in range(24)]
    data_type = parse_type("STRING")
    curve = Curve(Strategy.ZORDER, (data_type,), (ColumnFrame(),), text_bytes)
    keys = curve.keys([pa.array(texts)])
    expected = [t.encode()[:text_bytes].ljust(text_bytes, b"\0").rstrip(b"\0") for t in texts]
    assert keys.tolist() == expected
    assert curve.key_bytes == text_bytes


def test_columns_of_nulls_have_no_range():
    assert column_range(pa.array([None, None], pa.int32()), parse_type("INT")) is None
    assert column_range(pa.array([], pa.string()), parse_type("STRING")) is None


ARRAY = {"type": "ARRAY", "element": "INT"}
MAP = {"type": "MAP", "key": "INT", "value": "INT"}
ROW = {"type": "ROW", "fields": [{"id": 0, "name": "a", "type": "INT"}]}


@pytest.mark.parametrize("form", [ARRAY, MAP, ROW, "VARIANT"])
def test_types_without_an_order_are_refused(form):
    with pytest.raises(UnsupportedError, match="has no order"):
        check_curve_type(parse_type(form), column="c")
