"""``truncate``: the largest multiple of a width that is not above a number, or a text's begin.

``v - (((v % W) + W) % W)`` with Java's ``%``; of a decimal the width counts units of its last
digit. A result that its type cannot hold, which Java wraps around, is a fault. Source: Paimon's
``Expression.TruncateComputer``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidelake.cdc.columns.expression import INTEGERS, TEXTS, DefinitionError, Evaluated, Moment
from tidelake.cdc.columns.texts import cut_texts
from tidelake.types import DataType, TypeRoot
from tidelake.types.arrow import to_arrow_type
from tidelake.types.values import arrow_to_storage, storage_to_arrow

_INT64_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Truncation:
    """A number or text that is cut."""

    reference: str
    type: DataType
    width: int

    @classmethod
    def of(cls, reference: str, source: DataType, width: int) -> Truncation:
        """Check column and width.

        Raises
        ------
        DefinitionError
            They do not fit.
        """
        if source.root in INTEGERS or source.root is TypeRoot.DECIMAL:
            if width == 0:
                raise DefinitionError("a number has no multiples of width 0: give another")
        elif source.root not in TEXTS:
            raise DefinitionError(
                f"column '{reference}' of type {source.as_nullable()} is neither a whole number, a"
                " decimal nor a text: take another column"
            )
        elif width < 0:
            raise DefinitionError(f"a text has no width {width}: give 0 or more")
        return cls(reference, source.as_nullable(), width)

    def evaluate(self, values: pa.Array, moment: Moment) -> Evaluated:  # noqa: ARG002
        """Cut the values."""
        if self.type.root in TEXTS:
            return cut_texts(values, 0, self.width, needed=self.width)
        if self.type.root is TypeRoot.DECIMAL:
            return self._decimals(values)
        numbers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False).astype(np.int64)
        cut = _multiples(numbers, self.width)
        bounds = np.iinfo(to_arrow_type(self.type).to_pandas_dtype())
        # a sum beyond 64 bits is on the other side of the number
        beyond = (cut > numbers) if self.width > 0 else (cut < numbers)
        beyond |= (cut < bounds.min) | (cut > bounds.max)
        kept = np.where(beyond, 0, cut)
        return self._result(values, pa.array(kept).cast(to_arrow_type(self.type)), beyond)

    def _decimals(self, values: pa.Array) -> Evaluated:
        precision = self.type.precision or 0
        if precision > _INT64_DIGITS:
            return self._large_decimals(values)
        pairs = np.frombuffer(values.buffers()[1], np.int64).reshape(-1, 2)
        unscaled = pairs[values.offset : values.offset + len(values), 0]
        cut = _multiples(unscaled, self.width)
        beyond = np.abs(cut) >= 10**precision
        kept = np.where(beyond, 0, cut)
        whole = np.ascontiguousarray(np.stack([kept, kept >> 63], axis=1))
        made = pa.Array.from_buffers(values.type, len(values), [None, pa.py_buffer(whole)])
        return self._result(values, made, beyond)

    def _large_decimals(self, values: pa.Array) -> Evaluated:
        # numbers of more than 64 bits, row by row: about 1 us each
        limit = 10 ** (self.type.precision or 0)
        numbers: list[Any] = arrow_to_storage(values, self.type)
        cut = [
            # Python's % is what ((v % W) + W) % W is in Java
            None if n is None else n - n % self.width
            for n in numbers
        ]
        beyond = np.array([n is not None and abs(n) >= limit for n in cut], bool)
        kept = [None if n is None or abs(n) >= limit else n for n in cut]
        return self._result(values, storage_to_arrow(kept, self.type), beyond)

    def _result(self, values: pa.Array, made: pa.Array, beyond: NDArray[np.bool_]) -> Evaluated:
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        faults = {
            int(row): f"{values[int(row)].as_py()} truncated by {self.width} is no {self.type}"
            for row in np.flatnonzero(beyond & valid)
        }
        shown = pa.array(valid & ~beyond)
        return Evaluated(pc.if_else(shown, made, pa.scalar(None, made.type)), faults)


def _multiples(numbers: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    with np.errstate(over="ignore"):
        rest = np.fmod(np.fmod(numbers, width) + width, width)
        cut: NDArray[np.int64] = numbers - rest
    return cut
