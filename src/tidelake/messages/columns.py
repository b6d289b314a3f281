"""Makes columns of decoded values: by Arrow as a whole, else value by value.

1. ``fast`` converts the whole column. It raises or returns None if a value does not fit.
2. Then each value is converted by itself. A value that does not fit is null and has a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidelake.errors import shortened
from tidelake.format.avro.values import column_of
from tidelake.types import DataType

VALUE_SHOWN_MAX = 60
_MISFIT = (ValueError, TypeError, OverflowError, AttributeError, pa.ArrowException)


@dataclass(frozen=True, slots=True)
class ColumnReader:
    """Makes one column of decoded values.

    Parameters
    ----------
    fast : callable, optional
        From the values to the column, or None.
    value : callable
        From one value that is not None to what
        :func:`~tidelake.format.avro.values.column_of` takes; raises ``ValueError`` or
        ``TypeError``.
    """

    name: str
    data_type: DataType
    fast: Callable[[Sequence[Any]], pa.Array | None] | None
    value: Callable[[Any], Any]

    def read(self, values: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
        """Make the column; return the reason for each value that does not fit, too."""
        if self.fast is not None:
            try:
                column = self.fast(values)
            except _MISFIT:
                column = None
            if column is not None:
                return column, {}
        bad: dict[int, str] = {}
        converted: list[Any] = []
        for position, value in enumerate(values):
            try:
                converted.append(None if value is None else self.value(value))
            except _MISFIT:
                bad[position] = self._reason(value)
                converted.append(None)
        return column_of(converted, self.data_type), bad

    def _reason(self, value: Any) -> str:
        shown = shortened(value if isinstance(value, str) else str(value), VALUE_SHOWN_MAX)
        return (
            f"column '{self.name}': '{shown}' is not a value of type {self.data_type.as_nullable()}"
        )
