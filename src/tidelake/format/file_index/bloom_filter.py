"""The bloom filter index: a value is surely not in the file, or perhaps is.

Layout (on disk: never renumber)::

    hash functions  i32 BIG endian
    bits            bit i is bit (i % 8) of byte i / 8

1. The number of bits m follows from the number of values n that the filter is made for (``items``)
   and the share of false answers wanted (``fpp``): ``m = int(-n ln fpp / ln2 ** 2)``, then up to
   the next multiple of 8 (a multiple of 8 gets 8 more); ``k = max(1, round(m / n ln2))``.
2. A hash h (:mod:`tidelake.format.file_index.fast_hash`) sets the bits ``c mod m`` for ``i`` from
   1 to k, where ``c = low32(h) + i * high32(h)`` in 32 bits, ``~c`` if negative.
3. The filter has no nulls and does not answer for ranges.

Source: Paimon's ``BloomFilterFileIndex`` and ``BloomFilter64`` (1.3.1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.errors import CorruptError, InvalidInputError
from tidelake.format.file_index.fast_hash import Hashes, hash_bytes, hash_numbers
from tidelake.format.file_index.index_key import IndexKey, IndexKeyForm, float_bits
from tidelake.types import TypeRoot

BLOOM_FILTER = "bloom-filter"

_BITS_MAX = 2**31 - 8
_FUNCTIONS_MAX = 1 << 10
_UNHASHED = frozenset({TypeRoot.BOOLEAN, TypeRoot.DECIMAL})


def bloom_covers(form: IndexKeyForm) -> bool:
    """Whether values of a type have a hash in Paimon."""
    return form.root not in _UNHASHED


def bloom_shape(items: int, fpp: float) -> tuple[int, int]:
    """Compute the number of bits and of hash functions.

    Raises
    ------
    InvalidInputError
        The filter would have too many bits.

    Examples
    --------
    >>> bloom_shape(1_000_000, 0.1)
    (4792536, 3)
    """
    bits = int(-items * math.log(fpp) / (math.log(2) * math.log(2)))
    if not 0 <= bits < _BITS_MAX:
        message = (
            f"A bloom filter for {items} items with a share of {fpp} false answers would need"
            f" {bits} bits, more than {_BITS_MAX}. Give fewer items or a larger fpp."
        )
        raise InvalidInputError(message, kind="option_value")
    bits += 8 - bits % 8
    return bits, max(1, math.floor(bits / items * math.log(2) + 0.5))


class BloomFilterWriter:
    """Gathers the values of one column of one file. Memory: the filter.

    Parameters
    ----------
    fpp : float
        Share of false answers with so many values.
    """

    def __init__(self, form: IndexKeyForm, *, items: int, fpp: float) -> None:
        assert bloom_covers(form), f"{form.root} has no hash"
        self._form = form
        bits_count, self._functions = bloom_shape(items, fpp)
        self._bits = np.zeros(bits_count // 8, np.uint8)

    def add(self, values: pa.Array) -> None:
        """Add values."""
        hashes = _hashes(self._form, values.drop_null())
        for bits in _bits_of(hashes, self._functions, 8 * len(self._bits)):
            np.bitwise_or.at(self._bits, bits >> 3, np.uint8(1) << (bits & 7).astype(np.uint8))

    def finish(self) -> bytes:
        """Return the bytes of the index."""
        return self._functions.to_bytes(4, "big") + self._bits.tobytes()


class BloomFilterReader:
    """Tests keys by the bytes of a filter.

    Raises
    ------
    CorruptError
        The bytes are not a filter.
    """

    def __init__(self, form: IndexKeyForm, data: bytes) -> None:
        self._form = form
        self._functions = int.from_bytes(data[:4], "big")
        self._bits = np.frombuffer(data, np.uint8)[4:]
        if not len(self._bits) or not 1 <= self._functions <= _FUNCTIONS_MAX:
            message = (
                f"A bloom filter is damaged: {len(self._bits)} bytes and {self._functions} hash"
                " functions."
            )
            raise CorruptError(message, kind="file_index")

    def may_hold(self, keys: Sequence[IndexKey]) -> bool:
        """Whether one of the keys may be in the file."""
        form = self._form
        if form.is_bytes:
            hashes = _hashes(form, pa.array(keys, pa.binary()))
        else:
            numbers = np.array(keys, np.int64)
            hashes = hash_numbers(form.bits_to_keys(numbers) if form.is_floating else numbers)
        held = np.ones(len(hashes), np.bool_)
        for bits in _bits_of(hashes, self._functions, 8 * len(self._bits)):
            held &= (self._bits[bits >> 3] >> (bits & 7).astype(np.uint8)) & 1 != 0
        return bool(held.any())


def _hashes(form: IndexKeyForm, values: pa.Array) -> Hashes:
    """Hash a column without nulls."""
    if not form.is_bytes:
        return hash_numbers(float_bits(values) if form.is_floating else form.keys(values))
    wide = values.cast(pa.large_binary())
    _, offsets, data = wide.buffers()
    places = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
    return hash_bytes(np.frombuffer(data or b"", np.uint8), places)


def _bits_of(hashes: Hashes, functions: int, bits_count: int) -> list[npt.NDArray[np.int64]]:
    """Compute each hash's bits, one array per hash function."""
    low, high = hashes.astype(np.uint32), (hashes >> np.uint64(32)).astype(np.uint32)
    found = []
    for i in range(1, functions + 1):
        combined = (low + np.uint32(i) * high).view(np.int32)
        found.append(np.where(combined < 0, ~combined, combined).astype(np.int64) % bits_count)
    return found
