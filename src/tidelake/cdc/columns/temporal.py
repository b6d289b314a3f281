"""``year`` to ``second`` and ``date_format``.

A number counts since 1970 in UTC; its unit is the argument `precision`, by default seconds. A date,
a timestamp or a text is read as a local time, unless a precision says that a text is a number.
Source: Paimon's ``Expression.TemporalExpressionBase``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.cdc.columns import date_fields, local_times
from tidelake.cdc.columns.date_pattern import DatePattern
from tidelake.cdc.columns.expression import (
    INT,
    INTEGERS,
    STRING,
    TEXTS,
    DefinitionError,
    Evaluated,
    Moment,
)
from tidelake.cdc.columns.local_times import LocalTimes
from tidelake.errors import shortened
from tidelake.types import DataType, TypeRoot

_FIELDS: dict[str, Callable[[LocalTimes], date_fields.Numbers]] = {
    "year": date_fields.year,
    "month": date_fields.month,
    "day": date_fields.day,
    "hour": date_fields.hour,
    "minute": date_fields.minute,
    "second": date_fields.second,
}
FIELD_FUNCTIONS = tuple(_FIELDS)
_LOCAL = frozenset({TypeRoot.DATE, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ}) | TEXTS
_WHOLE_NUMBER = r"^-?\d{1,38}$"
_DECIMAL = pa.decimal128(38, 0)
_BOUNDS = (pa.scalar(Decimal(-(2**63)), _DECIMAL), pa.scalar(Decimal(2**63 - 1), _DECIMAL))


@dataclass(frozen=True, slots=True)
class Times:
    """Local times of a column.

    Parameters
    ----------
    precision : int or None
        Digits of the second's fraction in a count since 1970; None reads values as local times.
    """

    reference: str
    source: DataType
    precision: int | None

    @classmethod
    def of(cls, reference: str, source: DataType, precision: int | None) -> Times:
        """Check that a column has local times.

        Raises
        ------
        DefinitionError
            It has not.
        """
        if precision is not None and precision not in local_times.EPOCH_PRECISIONS:
            raise DefinitionError(
                f"precision {precision} is none of 0 (seconds), 3 (milliseconds), 6 (microseconds)"
                " and 9 (nanoseconds): give one of them"
            )
        if source.root in INTEGERS:
            return cls(reference, source, precision or 0)
        counts = source.root in TEXTS or (source.root is TypeRoot.DECIMAL and source.scale == 0)
        if (counts and precision is not None) or (source.root in _LOCAL and precision is None):
            return cls(reference, source, precision)
        if source.root in _LOCAL:
            raise DefinitionError(
                f"column '{reference}' of type {source.as_nullable()} is no count since 1970: leave"
                " the precision out"
            )
        advice = "give a precision (0, 3, 6 or 9)" if counts else "take another column"
        raise DefinitionError(
            f"column '{reference}' of type {source.as_nullable()} has no dates: {advice}"
        )

    def evaluate(self, values: pa.Array, moment: Moment) -> tuple[LocalTimes, dict[int, str]]:
        """Read the column; the second is a fault for each value that is no time."""
        if self.precision is None:
            times = local_times.of_values(values, self.source, zone=moment.zone)
        else:
            times = local_times.of_epochs(_counts(values), self.precision)
        wrong = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False) & ~times.valid)
        form = "a date" if self.precision is None else "a count since 1970"
        faults = {
            int(row): f"{shortened(repr(str(values[int(row)].as_py())))} is not {form}"
            for row in wrong
        }
        return times, faults


def _counts(values: pa.Array) -> pa.Array:
    """Whole numbers of 64 bits; null where a text or decimal is none."""
    if pa.types.is_integer(values.type):
        return values
    numbers = values
    if not pa.types.is_decimal(values.type):
        texts = pc.replace_substring_regex(values.cast(pa.string()), r"^\+", "")
        whole = pc.match_substring_regex(texts, _WHOLE_NUMBER)
        numbers = pc.if_else(whole, texts, pa.scalar(None, pa.string())).cast(_DECIMAL)
    fits = pc.and_(pc.greater_equal(numbers, _BOUNDS[0]), pc.less_equal(numbers, _BOUNDS[1]))
    return pc.if_else(fits, numbers, pa.scalar(None, numbers.type)).cast(pa.int64())


@dataclass(frozen=True, slots=True)
class TimeField:
    """A field of a local time: ``year`` to ``second``."""

    function: str
    times: Times

    @property
    def reference(self) -> str:
        """The column that it reads."""
        return self.times.reference

    @property
    def type(self) -> DataType:
        """INT."""
        return INT

    def evaluate(self, values: pa.Array, moment: Moment) -> Evaluated:
        """Compute the field."""
        times, faults = self.times.evaluate(values, moment)
        numbers = _FIELDS[self.function](times).astype(np.int32)
        return Evaluated(pa.array(numbers, pa.int32(), mask=~times.valid), faults)


@dataclass(frozen=True, slots=True)
class DateFormat:
    """A local time as a text by a Java pattern."""

    pattern: DatePattern
    times: Times

    @property
    def reference(self) -> str:
        """The column that it reads."""
        return self.times.reference

    @property
    def type(self) -> DataType:
        """STRING."""
        return STRING

    def evaluate(self, values: pa.Array, moment: Moment) -> Evaluated:
        """Write the texts."""
        times, faults = self.times.evaluate(values, moment)
        return Evaluated(self.pattern.format(times), faults)
