from __future__ import annotations

import datetime
import itertools
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelake.cdc.postgres.catalogue import CatalogueColumn, match_numbers
from tidelake.cdc.postgres.log.relation import RelationColumn, RelationVersion
from tidelake.cdc.postgres.values.array_text import split_arrays
from tidelake.cdc.postgres.values.casts import cast_texts
from tidelake.types.data_type import parse_type_text


@pytest.mark.parametrize(
    ("data_type", "texts", "values"),
    [
        ("BOOLEAN", ["t", "f", None, "1", "x"], [True, False, None, True, "x"]),
        ("INT", ["1", None, "99999999999"], [1, None, "99999999999"]),
        ("DECIMAL(5, 2)", ["1.50", "NaN", "1000.00"], [Decimal("1.50"), "NaN", "1000.00"]),
        ("TIME(6)", ["03:04:05.1239", None, "24:00:00"], [datetime.time(3, 4, 5, 123000), None, "24:00:00"]),
        ("DATE", ["2024-01-01", "infinity"], [datetime.date(2024, 1, 1), "infinity"]),
        ("BYTES", ["\\x6869", None, "\\x", "\\xFF00"], [b"hi", None, b"", b"\xff\0"]),
        ("BINARY(2)", ["101", None, "100000001", "12"], [b"\5", None, b"\1\1", "12"]),
        ("ARRAY<INT>", ["{1,2,NULL}", None, "{}", "{{1},{2}}"], [[1, 2, None], None, [], "{{1},{2}}"]),
        ("ARRAY<BYTES>", ['{"\\\\x01",NULL}'], [[b"\1", None]]),
    ],
)  # fmt: skip
def test_values_and_faults(data_type, texts, values):
    kind = parse_type_text(data_type)
    # a text among the values stands for one that does not fit
    faults = {
        place: f"{value} is not a {kind}"
        for place, value in enumerate(values)
        if isinstance(value, str)
    }
    for before in ([], ["left out"], ["left", "out"]):
        column = pa.array([*before, *texts], pa.string()).slice(len(before))
        found, wrong = cast_texts(column, kind)
        found.validate(full=True)
        assert found.to_pylist() == [None if isinstance(v, str) else v for v in values]
        assert wrong == faults


@given(st.lists(st.one_of(st.none(), st.integers(-(2**33), 2**33)), max_size=60))
def test_misfits_are_found_wherever_they_stand(numbers):
    texts = pa.array([None if n is None else str(n) for n in numbers], pa.string())
    found, wrong = cast_texts(texts, parse_type_text("INT"))
    fits = [n is None or -(2**31) <= n < 2**31 for n in numbers]
    assert found.to_pylist() == [n if fit else None for n, fit in zip(numbers, fits, strict=True)]
    assert sorted(wrong) == [place for place, fit in enumerate(fits) if not fit]


def written(elements):
    quoted = [
        "NULL" if e is None else '"' + e.replace("\\", "\\\\").replace('"', '\\"') + '"'
        for e in elements
    ]
    return "{" + ",".join(quoted) + "}"


@given(st.lists(st.one_of(st.none(), st.lists(st.one_of(st.none(), st.text())))))
def test_arrays_of_texts(arrays):
    texts = pa.array([None if a is None else written(a) for a in arrays], pa.string())
    offsets, elements = split_arrays(texts)
    flat = elements.to_pylist()
    found = [flat[a:b] for a, b in itertools.pairwise(offsets)]
    assert found == [a or [] for a in arrays]


def column(number, name, *, dropped=False):
    return CatalogueColumn(number, name, 23, -1, "integer", False, False, "", None, dropped)


def numbers(names, *columns):
    described = tuple(RelationColumn(name, 23, -1, False) for name in names)
    return match_numbers(RelationVersion(1, "s", "t", "d", described), columns)


def test_numbers_of_columns():
    a, b, c = column(1, "a"), column(2, "b"), column(3, "c")
    gone = column(2, "........pg.dropped.2........", dropped=True)
    assert numbers("abc", a, b, c) == [1, 2, 3]
    assert numbers("ac", a, gone, c) == [1, 3]
    # of before the drop, of before a rename, of before an ADD COLUMN
    assert numbers("abc", a, gone, c) == [1, 2, 3]
    assert numbers("axc", a, b, c) == [1, 2, 3]
    assert numbers("ab", a, b, c) == [1, 2]
    # renamed, or dropped and another one added: unknown
    assert numbers("ax", a, gone, c) == [1, None]
    assert numbers("ab") == [None, None]
