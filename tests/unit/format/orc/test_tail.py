"""Parts of an ORC file as its compressions write them."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from tidelake.errors import CorruptError
from tidelake.format.orc.tail import OrcTail, decompressed

CODES = {"snappy": 2, "lz4_raw": 4}


def packed(data, codec):
    chunk = pa.compress(data, codec=codec, asbytes=True)
    return (len(chunk) << 1).to_bytes(3, "little") + chunk


@pytest.mark.parametrize("codec", CODES)
def test_a_part_is_as_long_as_it_was_and_no_longer(codec):
    tail = OrcTail(CODES[codec], 1 << 18, (), ())
    rng = random.Random(4)
    for size in (0, 1, 14, 15, 16, 19, 20, 269, 270, 271, 4_000, 200_000):
        for data in (
            bytes(size),
            rng.randbytes(size),
            (rng.randbytes(30) * (size // 30 + 1))[:size],
        ):
            assert decompressed(packed(data, codec), tail, path="x") == data


def test_a_damaged_block_is_damage():
    tail = OrcTail(CODES["lz4_raw"], 1 << 18, (), ())
    with pytest.raises(CorruptError, match="cut short"):
        decompressed((2 << 1).to_bytes(3, "little") + b"\xff\xff", tail, path="x")
