"""Keys: the form of values in file indexes.

=========================================  ============================================
type                                       key
=========================================  ============================================
BOOLEAN                                    0 or 1
TINYINT .. BIGINT, DATE, TIME              the number
DECIMAL to precision 18                    the unscaled number
FLOAT, DOUBLE                              the IEEE bits, moved so that keys are in order
TIMESTAMP, TIMESTAMP_LTZ                   ms to precision 3, else us: above 6 digits *coarse*
CHAR, VARCHAR, BINARY, VARBINARY           the bytes
=========================================  ============================================

Keys are in the order of Java's ``compare``: -0.0 lies below 0.0, NaN above all. A predicate takes
both zeros for equal, so a literal stands for an interval of keys. Where keys are coarse, different
values may have equal keys: an index does not answer "not equal", and bounds count as included.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.types import DataType, TypeRoot
from tidelake.types.arrow import NANOS_PER_UNIT, timestamp_unit

IndexKey = int | bytes

_WIDTHS = {
    TypeRoot.BOOLEAN: 1,
    TypeRoot.TINYINT: 1,
    TypeRoot.SMALLINT: 2,
    TypeRoot.INT: 4,
    TypeRoot.BIGINT: 8,
    TypeRoot.FLOAT: 4,
    TypeRoot.DOUBLE: 8,
    TypeRoot.DATE: 4,
    TypeRoot.TIME: 4,
    TypeRoot.DECIMAL: 8,
    TypeRoot.TIMESTAMP: 8,
    TypeRoot.TIMESTAMP_LTZ: 8,
}
_FLOATING = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_TEXT = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_BYTES = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
_LONG_DIGITS = 18
_NANOS_PER_MICRO = 1_000


@dataclass(frozen=True, slots=True)
class IndexKeyForm:
    """The conversion of values of one type to keys.

    Parameters
    ----------
    width : int
        Bytes of a key on disk; 0 for byte strings.
    coarse : bool
        Whether different values may have one key.
    """

    root: TypeRoot
    width: int
    nanos: int = 1
    coarse: bool = False

    @property
    def is_bytes(self) -> bool:
        """Whether keys are byte strings."""
        return self.width == 0

    @property
    def is_floating(self) -> bool:
        """Whether keys are moved IEEE bits."""
        return self.root in _FLOATING

    def interval(self, literal: Any) -> tuple[IndexKey, IndexKey]:
        """Return the smallest and the largest key of values that equal a storage value."""
        if self.root in _TEXT:
            key = literal.encode()
            return key, key
        if self.root in _TIMESTAMPS:
            key = literal // self.nanos
            return key, key
        if not self.is_floating:
            key = literal if self.is_bytes else int(literal)
            return key, key
        if literal == 0:
            return -1, 0  # the keys of -0.0 and 0.0
        if literal != literal:
            literal = float("nan")  # the only NaN that Java writes
        bits = struct.unpack(*((">i", struct.pack(">f", literal)) if self.width == 4
                               else (">q", struct.pack(">d", literal))))[0]  # fmt: skip
        return self._moved(bits), self._moved(bits)

    def _moved(self, bits: int) -> int:
        return bits if bits >= 0 else bits ^ ((1 << (8 * self.width - 1)) - 1)

    def keys(self, values: pa.Array) -> npt.NDArray[np.int64]:
        """Convert a column without nulls to keys. Requires: keys are not byte strings."""
        match self.root:
            case TypeRoot.BOOLEAN:
                return values.cast(pa.int8()).to_numpy().astype(np.int64)
            case TypeRoot.DECIMAL:
                words = np.frombuffer(values.buffers()[1], np.int64)
                return words[2 * values.offset : 2 * (values.offset + len(values)) : 2].copy()
            case TypeRoot.FLOAT | TypeRoot.DOUBLE:
                return self.bits_to_keys(float_bits(values))
            case TypeRoot.DATE | TypeRoot.TIME:
                return values.cast(pa.int32()).to_numpy().astype(np.int64)
            case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
                units = values.cast(pa.int64()).to_numpy().astype(np.int64)
                return units // _NANOS_PER_MICRO if self.coarse else units
        return values.to_numpy().astype(np.int64)

    def bits_to_keys(self, bits: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Convert IEEE bits of floats to keys; also converts keys to bits."""
        mask = np.int64((1 << (8 * self.width - 1)) - 1)
        return np.where(bits >= 0, bits, bits ^ mask)

    def to_disk(self, keys: npt.NDArray[np.int64]) -> npt.NDArray[np.generic]:
        """Encode keys as big-endian numbers of the type's width."""
        bits = self.bits_to_keys(keys) if self.is_floating else keys
        return bits.astype(f">i{self.width}")

    def from_disk(self, data: bytes, count: int, start: int = 0) -> npt.NDArray[np.int64]:
        """Decode `count` keys; the reverse of :meth:`to_disk`."""
        bits = np.frombuffer(data, f">i{self.width}", count, start).astype(np.int64)
        if not self.is_floating:
            return bits
        mask = np.int64((1 << (8 * self.width - 1)) - 1)
        nan = np.int64(0x7FC00000 if self.width == 4 else 0x7FF8000000000000)
        infinity = np.int64(0x7F800000 if self.width == 4 else 0x7FF0000000000000)
        return self.bits_to_keys(np.where((bits & mask) > infinity, nan, bits))


def float_bits(values: pa.Array) -> npt.NDArray[np.int64]:
    """Convert a FLOAT or DOUBLE column without nulls to IEEE bits; all NaN are one value."""
    numbers = values.to_numpy(zero_copy_only=False)
    numbers = np.where(np.isnan(numbers), np.array(np.nan, numbers.dtype), numbers)
    return numbers.view(np.int32 if numbers.dtype == np.float32 else np.int64).astype(np.int64)


def key_form(data_type: DataType) -> IndexKeyForm | None:
    """Find the key form of a type; None for a type that no index covers."""
    root = data_type.root
    if root in _TEXT | _BYTES:
        return IndexKeyForm(root, 0)
    width = _WIDTHS.get(root)
    if width is None or (root is TypeRoot.DECIMAL and (data_type.precision or 0) > _LONG_DIGITS):
        return None
    if root in _TIMESTAMPS:
        unit = timestamp_unit(data_type)
        nanos = max(_NANOS_PER_MICRO, NANOS_PER_UNIT[unit])
        return IndexKeyForm(root, width, nanos, coarse=unit == "ns")
    return IndexKeyForm(root, width)
