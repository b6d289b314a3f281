"""The answer to a batch of keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.arrow_memory import take_rows
from tidelake.lookup import KeyRows, RawColumn, gathered, gathered_bytes


@dataclass(frozen=True, slots=True)
class RowsOfKeys:
    """Where the rows of some keys are; as Arrow, or as bytes to send on.

    Parameters
    ----------
    snapshot_id : int or None
        The snapshot that answers; None for a table without one.
    found : bool array [n]
        Whether each key has a row.
    """

    snapshot_id: int | None
    found: npt.NDArray[np.bool_]
    rows_count: int
    parts: list[KeyRows]
    schema: pa.Schema

    def rows(self) -> pa.RecordBatch:
        """The rows in the order of the keys."""
        return gathered(self.parts, self.rows_count, self.schema)

    def columns(self) -> list[RawColumn | pa.Array]:
        """The same by columns: bytes, or Arrow where that is cheaper."""
        return gathered_bytes(self.parts, self.rows_count, self.schema)


@dataclass(frozen=True, slots=True)
class LookupResult:
    """The rows found for some keys.

    Parameters
    ----------
    snapshot_id : int or None
        The snapshot that answers; None for a table without one.
    found : bool array [n]
        Whether each key has a row.
    rows : RecordBatch [m]
        The rows of the keys that have one, in the order of the keys.
    """

    snapshot_id: int | None
    found: npt.NDArray[np.bool_]
    rows: pa.RecordBatch

    def table(self) -> pa.Table:
        """One row for each key; all null where the key has none."""
        fields = [field.with_nullable(True) for field in self.rows.schema]
        places = np.where(self.found, np.cumsum(self.found) - 1, -1)
        if self.found.all():
            columns = self.rows.columns
        else:
            columns = [take_rows(c, places, or_null=True) for c in self.rows.columns]
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))

    def dicts(self) -> list[dict[str, object] | None]:
        """A dict for each key, None where the key has no row."""
        rows = iter(self.rows.to_pylist())
        return [next(rows) if is_found else None for is_found in self.found.tolist()]
