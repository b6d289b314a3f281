"""Hypothesis strategies: types, storage values of a type, columns."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st

from tidelake.types import DataType, TypeRoot, parse_type
from tidelake.types.arrow import child_types, to_arrow_type
from tidelake.types.nested import list_parts, struct_children
from tidelake.types.values import storage_to_arrow
from tidelake.types.variant.variant import variants

SCALARS = (
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(9, 2)",
    "DECIMAL(18, 0)",
    "DECIMAL(19, 4)",
    "DECIMAL(38, 10)",
    "CHAR(300)",
    "STRING",
    "BINARY(300)",
    "BYTES",
    "DATE",
    "TIME(3)",
    "TIMESTAMP(0)",
    "TIMESTAMP(3)",
    "TIMESTAMP(6)",
    "TIMESTAMP(9)",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "TIMESTAMP(9) WITH LOCAL TIME ZONE",
)
_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}
# short, around the inline limit, and beyond; few letters, so that equal and prefix values occur
_TEXT = st.text("ab\0é€\U0001f600", max_size=9) | st.integers(0, 3).map(lambda n: "a" * 8 * n)
_LONG_TEXT = st.builds(lambda t, n: (t * n)[:250], _TEXT, st.integers(1, 60))

data_types = st.sampled_from(SCALARS).map(parse_type)


def values(data_type: DataType) -> st.SearchStrategy[object]:
    """Storage values of a type, without null."""
    match data_type.root:
        case TypeRoot.BOOLEAN:
            return st.booleans()
        case root if root in _BITS:
            limit = 1 << (_BITS[root] - 1)
            return st.integers(-limit, limit - 1) | st.integers(-3, 3)
        case TypeRoot.FLOAT:
            return st.floats(width=32) | st.sampled_from([0.0, -0.0, 1.0])
        case TypeRoot.DOUBLE:
            return st.floats() | st.sampled_from([0.0, -0.0, 1.0])
        case TypeRoot.DECIMAL:
            limit = 10**data_type.precision - 1
            edges = [s * (2**b) + d for b in range(0, 127, 7) for s in (1, -1) for d in (0, -1)]
            near = [e for e in edges if -limit <= e <= limit]
            return st.integers(-limit, limit) | st.sampled_from(near) | st.integers(-3, 3)
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return _TEXT | _LONG_TEXT
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return (_TEXT | _LONG_TEXT).map(lambda t: t.encode()[:290])
        case TypeRoot.DATE:
            return st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(-3, 3)
        case TypeRoot.TIME:
            return st.integers(0, 86_399_999)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            step = 10**6 if data_type.precision <= 3 else 10**3 if data_type.precision <= 6 else 1
            # within the range of every timestamp unit, so that ms columns cast to ns in Arrow too
            ticks = st.integers(-(1 << 62) // step, (1 << 62) // step) | st.integers(-3, 3)
            return ticks.map(lambda n: n * step)
    raise AssertionError(data_type)


def cells(data_type: DataType) -> st.SearchStrategy[object]:
    """Storage values of a type, null where it may be."""
    return st.none() | values(data_type) if data_type.nullable else values(data_type)


@st.composite
def tables(draw, *, columns_max: int = 4, rows_max: int = 12, nullable: bool | None = None):
    """Types and rows of storage values."""
    types = draw(st.lists(data_types, min_size=1, max_size=columns_max))
    types = [
        t if (draw(st.booleans()) if nullable is None else nullable) else t.not_null()
        for t in types
    ]
    rows = draw(st.lists(st.tuples(*(cells(t) for t in types)), max_size=rows_max))
    if rows:
        rows += draw(st.lists(st.sampled_from(rows), max_size=2))
    return tuple(types), rows


def types_of(element):
    """Types built of others."""
    rows = st.lists(element, min_size=1, max_size=3).map(
        lambda types: DataType(
            TypeRoot.ROW,
            children=tuple(types),
            child_fields=tuple((0, f"f{i}") for i in range(len(types))),
        )
    )
    return st.one_of(
        element.map(lambda t: DataType(TypeRoot.ARRAY, children=(t,))),
        st.tuples(_KEYS, element).map(lambda p: DataType(TypeRoot.MAP, children=p)),
        _KEYS.map(lambda t: DataType(TypeRoot.MULTISET, children=(t,))),
        rows,
    )


_KEYS = st.sampled_from(["INT", "STRING", "DATE", "DECIMAL(38, 10)"]).map(
    lambda text: parse_type(text).not_null()
)
# INT96, and so a timestamp finer than microseconds, is a matter of whole files
_MIXED = [*(t for t in SCALARS if "(9)" not in t), "VARIANT"]
any_types = st.recursive(
    st.sampled_from(_MIXED).flatmap(
        lambda text: st.sampled_from([parse_type(text), parse_type(text).not_null()])
    ),
    lambda inner: types_of(inner).flatmap(lambda t: st.sampled_from([t, t.not_null()])),
    max_leaves=5,
)


@st.composite
def columns(draw, data_type: DataType, count: int) -> pa.Array:
    """An Arrow column of a type, nested or not."""
    arrow_type = to_arrow_type(data_type)
    valid = [not data_type.nullable or draw(st.integers(0, 3)) > 0 for _ in range(count)]
    if data_type.root is TypeRoot.VARIANT:
        texts = [f"v{draw(st.integers(0, 9))}" if v else None for v in valid]
        return variants(texts)
    if not data_type.is_nested:
        return storage_to_arrow([draw(values(data_type)) if v else None for v in valid], data_type)
    nulls = pa.array([not v for v in valid], pa.bool_())
    inside = child_types(data_type)
    if data_type.root is TypeRoot.ROW:
        children = [draw(columns(t, count)) for _, t in inside]
        return pa.StructArray.from_arrays(children, fields=list(arrow_type), mask=nulls)
    lengths = [draw(st.integers(0, 2)) if v else 0 for v in valid]
    offsets = pa.array([sum(lengths[:i]) for i in range(count + 1)], pa.int32())
    children = [draw(columns(t, sum(lengths))) for _, t in inside]
    made = pa.ListArray if data_type.root is TypeRoot.ARRAY else pa.MapArray
    return made.from_arrays(offsets, *children, type=arrow_type, mask=nulls)


def assert_same_columns(a: pa.Array, b: pa.Array) -> None:
    """Equal values bit by bit, but for what is under a null."""
    assert a.type == b.type
    assert a.is_null().equals(b.is_null())
    if pa.types.is_struct(a.type):
        for left, right in zip(struct_children(a), struct_children(b), strict=True):
            assert_same_columns(left, right)
    elif pa.types.is_nested(a.type):
        mine, other = list_parts(a), list_parts(b)
        assert mine.offsets.equals(other.offsets)
        for left, right in zip(mine.children, other.children, strict=True):
            assert_same_columns(left, right)
    elif pa.types.is_floating(a.type):
        bits = pa.int32() if a.type.bit_width == 32 else pa.int64()
        assert a.drop_null().view(bits).equals(b.drop_null().view(bits))
    else:
        assert a.equals(b)
