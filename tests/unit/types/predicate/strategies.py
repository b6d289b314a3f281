"""Random tables and bound predicates, a plain-Python reading of them, and honest column ranges."""

from __future__ import annotations

import math

from hypothesis import strategies as st
from unit.types.strategies import SCALARS, cells, values

from tidelake.types import DataField, TypeRoot, parse_type
from tidelake.types.predicate import (
    Always,
    And,
    ColumnRange,
    Compare,
    In,
    IsNull,
    Not,
    NotNull,
    Or,
    StartsWith,
)

STRINGS = {TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY}
FLOATS = {TypeRoot.FLOAT, TypeRoot.DOUBLE}
OPERATORS = ["==", "!=", "<", "<=", ">", ">="]
LAST_CODE_POINT = 0x10FFFF


FEW_VALUES = {
    "DOUBLE": st.sampled_from([math.nan, -math.inf, -0.0, 0.0, 1.0, math.inf]),
    "INT": st.integers(-2, 2),
    "STRING": st.text("ab\U0010ffff", max_size=4),
    "BYTES": st.text("ab", max_size=4).map(str.encode),
}


@st.composite
def few_valued_columns(draw, type_text):
    """One column of few different values, and one comparison or its negation: edges meet often."""
    fields = [DataField(0, "a", parse_type(type_text))]
    literals = FEW_VALUES[type_text]
    column = draw(st.lists(st.none() | literals, max_size=4))
    leaf = leaves_of(fields[0], literals)
    return fields, {"a": column}, draw(leaf | leaf.map(Not))


@st.composite
def filtered_tables(draw):
    """Fields, columns of storage values, and a predicate over them."""
    names = ["a", "b", "c"][: draw(st.integers(1, 3))]
    fields = [
        DataField(i, n, parse_type(draw(st.sampled_from(SCALARS)))) for i, n in enumerate(names)
    ]
    count = draw(st.integers(0, 6))
    columns = {
        f.name: draw(st.lists(cells(f.type), min_size=count, max_size=count)) for f in fields
    }
    return fields, columns, draw(predicates(fields, columns))


def predicates(fields, columns):
    return st.recursive(
        st.sampled_from(fields).flatmap(lambda f: leaves(f, columns[f.name])),
        lambda inner: (
            st.lists(inner, max_size=3).map(lambda p: And(tuple(p)))
            | st.lists(inner, max_size=3).map(lambda p: Or(tuple(p)))
            | inner.map(Not)
        ),
        max_leaves=6,
    )


def leaves(field, column):
    known = [v for v in column if v is not None]
    literals = values(field.type)
    if known:  # half of the literals occur in the column
        literals = st.sampled_from(known) | literals
    return leaves_of(field, literals)


def leaves_of(field, literals):
    choices = [
        st.builds(Compare, st.sampled_from(OPERATORS), st.just(field.name), literals),
        st.builds(In, st.just(field.name), st.lists(literals | st.none(), max_size=3).map(tuple)),
        st.just(IsNull(field.name)),
        st.just(NotNull(field.name)),
        st.booleans().map(Always),
    ]
    if field.type.root in STRINGS:
        prefixes = st.tuples(literals, st.integers(0, 9)).map(lambda p: p[0][: p[1]])
        choices.append(prefixes.map(lambda p: StartsWith(field.name, p)))
    return st.one_of(choices)


def order(value):
    """Python's order of these is the columns' order: NaN last, -0.0 equal to 0.0."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


def holds(predicate, row):
    """True, False or None (unknown), by SQL's rules."""
    match predicate:
        case Always(value):
            return value
        case And(parts):
            results = [holds(p, row) for p in parts]
            return False if False in results else None if None in results else True
        case Or(parts):
            results = [holds(p, row) for p in parts]
            return True if True in results else None if None in results else False
        case Not(part):
            result = holds(part, row)
            return None if result is None else not result
        case IsNull(name):
            return row[name] is None
        case NotNull(name):
            return row[name] is not None
    value = row[predicate.column]
    if value is None:
        return None
    match predicate:
        case StartsWith(_, prefix):
            return value.startswith(prefix)
        case In(_, literals):
            if any(order(v) == order(value) for v in literals if v is not None):
                return True
            return None if None in literals else False
        case Compare(op, _, literal):
            a, b = order(value), order(literal)
            return {
                "==": a == b,
                "!=": a != b,
                "<": a < b,
                "<=": a <= b,
                ">": a > b,
                ">=": a >= b,
            }[op]
    raise AssertionError(predicate)


@st.composite
def ranges_of(draw, fields, columns):
    """Ranges as writers give them: truncated, without NaN, unknown in part, or not at all."""
    ranges = {}
    for field in fields:
        column = columns[field.name]
        known = [v for v in column if v is not None]
        numbers = [v for v in known if v == v]  # Parquet's bounds leave NaN out
        if draw(st.booleans()) and len(numbers) < len(known):
            numbers = []  # or the writer gives no bounds at all
        low = min(numbers, key=order, default=None)
        high = max(numbers, key=order, default=None)
        if field.type.root in STRINGS and numbers and draw(st.booleans()):
            length = draw(st.integers(1, 3))
            low, high = low[:length], raised(high, length)
        if field.type.root in FLOATS and numbers:
            low = draw(st.sampled_from([low, -0.0 if low == 0 else low]))
            high = draw(st.sampled_from([high, 0.0 if high == 0 else high]))
            if len(numbers) < len(known) and draw(st.booleans()):
                high = math.nan  # a writer that orders NaN as Java does
        nulls = column.count(None)
        if draw(st.integers(0, 9)) > 0:
            ranges[field.name] = ColumnRange(
                draw(st.sampled_from([low, low, low, None])),
                draw(st.sampled_from([high, high, high, None])),
                draw(st.sampled_from([nulls, nulls, None])),
                len(column),
            )
    return ranges


def raised(value, length):
    """The prefix, its last sign incremented, of a maximum longer than `length`; None if none is."""
    if len(value) <= length:
        return value
    if isinstance(value, bytes):
        prefix = value[:length].rstrip(b"\xff")
        return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None
    prefix = value[:length]
    while prefix:
        code = ord(prefix[-1]) + 1
        if code == 0xD800:
            code = 0xE000  # behind the surrogates, which no UTF-8 text holds
        if code <= LAST_CODE_POINT:
            return prefix[:-1] + chr(code)
        prefix = prefix[:-1]
    return None
