"""How keys are hashed and compared: as whole numbers, or as bytes.

1. A key of one integer-like column (whole numbers, dates, times, timestamps, BOOLEAN, DECIMAL up to
   18 digits) is its number. Its hash is that of SplitMix64.
2. Any other key is its **image**, bytes that are equal exactly if the keys are: one text or binary
   column is its own bytes. Of several columns each adds 8 bytes (little-endian; 16 for wide
   decimals), or the length (u32, little-endian) and the bytes of a text. The hash is XXH3.

A hash has 32 bits, the upper half of the 64. One key hashed in plain Python and many hashed in
numpy give the same. The parts of a key are compared as Paimon compares them: -0.0 is not 0.0, and
NaN is NaN.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_64_intdigest

from tidelake.codec.arrow_memory import contiguous, fixed_values
from tidelake.codec.binary_row import is_wide_decimal
from tidelake.codec.key_order import FLOAT_DTYPES, INTEGER_DTYPES, float_ranks
from tidelake.types import DataType, TypeRoot

Image: TypeAlias = int | bytes
"""One key."""
Images: TypeAlias = npt.NDArray[np.int64] | pa.Array
"""Keys: whole numbers, or a binary column."""
Hashes: TypeAlias = npt.NDArray[np.uint64]
"""Hashes below 2^32."""

_WORD = (1 << 64) - 1
_MIX_1, _MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_U30, _U27, _U32 = np.uint64(30), np.uint64(27), np.uint64(32)
_STRINGS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY})
_TEXTS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_LONG, _LENGTH = struct.Struct("<q"), struct.Struct("<I")
_WIDE_BYTES = 16


def integer_hash(number: int) -> int:
    """Hash one whole number.

    Examples
    --------
    >>> integer_hash(7) == int(_integer_hashes(np.array([7]))[0])
    True
    """
    word = number & _WORD
    word = ((word ^ (word >> 30)) * _MIX_1) & _WORD
    return ((word ^ (word >> 27)) * _MIX_2 >> 32) & 0xFFFFFFFF


def bytes_hash(image: bytes) -> int:
    """Hash one image."""
    return xxh3_64_intdigest(image) >> 32


def _integer_hashes(numbers: npt.NDArray[np.int64]) -> Hashes:
    words = np.ascontiguousarray(numbers).view(np.uint64)
    words = (words ^ (words >> _U30)) * np.uint64(_MIX_1)
    return ((words ^ (words >> _U27)) * np.uint64(_MIX_2)) >> _U32


def some_images(images: Images, keys: npt.NDArray[np.int64] | slice) -> Images:
    """Take the images of some keys."""
    if isinstance(images, np.ndarray):
        return images[keys]
    if isinstance(keys, slice):
        return images.slice(keys.start, keys.stop - keys.start)
    return pc.take(images, pa.array(keys), boundscheck=False)


def is_integer_like(data_type: DataType) -> bool:
    """Whether values of a type are whole numbers of 64 bits at most."""
    return data_type.root in INTEGER_DTYPES and not is_wide_decimal(data_type)


@dataclass(frozen=True, slots=True)
class KeyForm:
    """The form of a table's keys. Picklable.

    Parameters
    ----------
    types : tuple of DataType
        Those of the key columns, in key order; none is null.
    """

    types: tuple[DataType, ...]

    @property
    def is_integer(self) -> bool:
        """Whether keys are whole numbers."""
        return len(self.types) == 1 and is_integer_like(self.types[0])

    @property
    def is_own_column(self) -> bool:
        """Whether the key column's memory is what keys are compared with."""
        if len(self.types) != 1:
            return False
        root = self.types[0].root
        packed = root in {TypeRoot.BOOLEAN, TypeRoot.DECIMAL}
        return root in _STRINGS or (root in INTEGER_DTYPES and not packed)

    @property
    def image_type(self) -> pa.DataType:
        """The Arrow type of a column of images."""
        return pa.int64() if self.is_integer else pa.binary()

    def image(self, values: Sequence[object]) -> Image:
        """Give one key's image.

        Parameters
        ----------
        values : sequence
            The memory form of each part: whole numbers as Arrow holds them, text, bytes, floats.
        """
        if self.is_integer:
            number = values[0]
            assert isinstance(number, int)
            return int(number)
        parts = [_part(value, kind) for value, kind in zip(values, self.types, strict=True)]
        if len(parts) == 1:
            return parts[0]
        return b"".join(
            _LENGTH.pack(len(part)) + part if kind.root in _STRINGS else part
            for part, kind in zip(parts, self.types, strict=True)
        )

    def images(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> Images:
        """Give many keys' images.

        Parameters
        ----------
        columns : sequence of pyarrow.Array [n]
            The key columns, without nulls.
        """
        arrays = [contiguous(c, t) for c, t in zip(columns, self.types, strict=True)]
        if self.is_integer:
            return _numbers(arrays[0], self.types[0])
        if len(arrays) == 1:
            return _bytes_of(arrays[0], self.types[0])
        parts: list[pa.Array] = []
        for array, kind in zip(arrays, self.types, strict=True):
            if kind.root in _STRINGS:
                lengths = pc.binary_length(array).to_numpy(zero_copy_only=False)
                parts.append(_fixed(lengths.astype("<u4"), _LENGTH.size))
            parts.append(_bytes_of(array, kind))
        large = [part.cast(pa.large_binary()) for part in parts]
        return pc.binary_join_element_wise(*large, pa.scalar(b"", pa.large_binary()))

    def hash_of(self, image: Image) -> int:
        """Hash one key."""
        return integer_hash(image) if isinstance(image, int) else bytes_hash(image)

    def hashes(self, images: Images) -> Hashes:
        """Hash many keys.

        Examples
        --------
        >>> from tidelake.types import parse_type
        >>> form = KeyForm((parse_type("STRING"), parse_type("INT")))
        >>> images = form.images([pa.array(["a", "bc"]), pa.array([1, 2], pa.int32())])
        >>> form.hash_of(form.image(("bc", 2))) == form.hashes(images)[1]
        np.True_
        """
        if isinstance(images, np.ndarray):
            return _integer_hashes(images)
        # 0.3 us a key: Arrow makes the bytes, xxhash hashes them; no Python code runs per key
        digests = map(xxh3_64_intdigest, images.to_pylist())
        return np.fromiter(digests, np.uint64, len(images)) >> _U32


def _part(value: Any, kind: DataType) -> bytes:
    if kind.root in _TEXTS:
        return str(value).encode()
    if kind.root in _STRINGS:
        return bytes(value)
    if kind.root in FLOAT_DTYPES:
        number = np.array([value], FLOAT_DTYPES[kind.root])
        return _LONG.pack(int(float_ranks(number)[0]))
    if is_wide_decimal(kind):
        return int(value).to_bytes(_WIDE_BYTES, "little", signed=True)
    return _LONG.pack(value)


def _bytes_of(array: pa.Array, kind: DataType) -> pa.Array:
    if kind.root in _STRINGS:
        is_large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
        return array.cast(pa.large_binary() if is_large else pa.binary())
    if kind.root in FLOAT_DTYPES:
        ranks = float_ranks(fixed_values(array, FLOAT_DTYPES[kind.root]))
        return _fixed(ranks.astype("<i8"), _LONG.size)
    if is_wide_decimal(kind):
        return _fixed(fixed_values(array, np.int64, per_row=2), _WIDE_BYTES)
    return _fixed(_numbers(array, kind), _LONG.size)


def _numbers(array: pa.Array, kind: DataType) -> npt.NDArray[np.int64]:
    if kind.root is TypeRoot.DECIMAL:
        return np.ascontiguousarray(fixed_values(array, np.int64, per_row=2)[::2])
    return fixed_values(array, INTEGER_DTYPES[kind.root]).astype(np.int64, copy=False)


def _fixed(values: npt.NDArray[Any], width: int) -> pa.Array:
    """Values of fixed width as a binary column."""
    memory = np.ascontiguousarray(values)
    count = memory.nbytes // width
    fixed = pa.Array.from_buffers(pa.binary(width), count, [None, pa.py_buffer(memory)])
    return fixed.cast(pa.binary())
