"""The rows of the benchmarks: generated from a seed, never downloaded (workload W1)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

VALUE_FIELDS = [
    pa.field("s20", pa.string()),
    pa.field("s40", pa.string()),
    pa.field("d", pa.float64()),
    pa.field("i", pa.int32()),
    pa.field("m", pa.decimal128(18, 2)),
    pa.field("t", pa.timestamp("us")),
    pa.field("b", pa.bool_()),
]


def _hex_strings(rng: np.random.Generator, count: int, width: int) -> pa.Array:
    alphabet = np.frombuffer(b"0123456789abcdef", np.uint8)
    data = alphabet[rng.integers(0, 16, (count, width), dtype=np.uint8)]
    offsets = np.arange(count + 1, dtype=np.int32) * width
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(data.tobytes()))


def _cents(rng: np.random.Generator, count: int) -> pa.Array:
    # a decimal128 is two little-endian words; these values fit the low one
    words = np.zeros((count, 2), np.int64)
    words[:, 0] = rng.integers(0, 10**9, count)
    return pa.Array.from_buffers(pa.decimal128(18, 2), count, [None, pa.py_buffer(words)])


def values(count: int, seed: int) -> list[pa.Array]:
    """The seven value columns."""
    rng = np.random.default_rng(seed)
    return [
        _hex_strings(rng, count, 20),
        _hex_strings(rng, count, 40),
        pa.array(rng.random(count)),
        pa.array(rng.integers(-(2**31), 2**31, count, dtype=np.int32)),
        _cents(rng, count),
        pa.array(rng.integers(0, 2 * 10**15, count)).cast(pa.timestamp("us")),
        pa.array(rng.random(count) < 0.5),
    ]


def with_key(keys: np.ndarray, seed: int) -> pa.Table:
    """Rows of the given int64 keys."""
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), *VALUE_FIELDS])
    return pa.Table.from_arrays([pa.array(keys), *values(len(keys), seed)], schema=schema)


def with_composite_key(keys: np.ndarray, seed: int) -> pa.Table:
    """Rows whose key is (12-character string, int32), made from the int64 keys."""
    text = pc.utf8_lpad(pa.array(keys // 7).cast(pa.string()), 12, padding="0")
    fields = [
        pa.field("k1", pa.string(), nullable=False),
        pa.field("k2", pa.int32(), nullable=False),
    ]
    small = pa.array((keys % 7).astype(np.int32))
    return pa.Table.from_arrays(
        [text, small, *values(len(keys), seed)], schema=pa.schema([*fields, *VALUE_FIELDS])
    )


def shuffled_keys(count: int, seed: int) -> np.ndarray:
    """The keys 0, 2, 4, ... in random order (odd keys are left for inserts)."""
    return np.random.default_rng(seed).permutation(count).astype(np.int64) * 2


def upsert_keys(table_rows: int, count: int, seed: int, *, inserts: float = 0.2) -> np.ndarray:
    """Keys of an upsert: known ones and, for the given share, new ones."""
    rng = np.random.default_rng(seed)
    fresh = int(count * inserts)
    known = rng.choice(table_rows, count - fresh, replace=False).astype(np.int64) * 2
    new = rng.choice(table_rows, fresh, replace=False).astype(np.int64) * 2 + 1
    keys = np.concatenate([known, new])
    rng.shuffle(keys)
    return keys


def digest(table: pa.Table, key: str = "k") -> tuple[int, int, int]:
    """Rows, sum of keys and sum of `i`: the answer a read must give."""
    keys = table[key] if pa.types.is_integer(table[key].type) else pc.binary_length(table[key])
    return table.num_rows, pc.sum(keys).as_py() or 0, pc.sum(table["i"]).as_py() or 0
