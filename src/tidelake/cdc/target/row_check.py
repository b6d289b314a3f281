"""Which rows a target takes: values that fit its columns, and rows that fulfil its constraints.

Rows that are not taken go into the quarantine, each with its reason; the others are written. A
column's default stands in for a null before constraints are asked, as it does in a write.

Cost: one pass over all rows where all fit; else columns are searched by halving, log2 n passes for
each row that does not fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelake.engine.schemas import Constraints
from tidelake.engine.tables import TableHandle
from tidelake.errors import InvalidInputError
from tidelake.types import DataField
from tidelake.types.conform import conform
from tidelake.types.default_value import default_scalars, filled_in


@dataclass(frozen=True, slots=True)
class RowCheck:
    """The columns and constraints of a target. Picklable."""

    table: str
    fields: tuple[DataField, ...]
    constraints: Constraints
    zone: str | None

    @classmethod
    def of(cls, handle: TableHandle) -> RowCheck:
        """The check of a table with the schema that its handle has."""
        name, schema = handle.identifier, handle.schema
        constraints = Constraints.of(schema, handle.options, table=name)
        return cls(name, schema.fields, constraints, handle.env.zone)

    def misfits(self, rows: pa.Table, kinds: NDArray[np.int8]) -> dict[int, str]:
        """The rows that are not taken, and why; of deletes the columns alone are looked at.

        Parameters
        ----------
        rows : pyarrow.Table [n]
            All columns of the target.
        kinds : int8 array [n]
            Numbers of the row kinds.
        """
        found = self._of_other_types(rows)
        if not self.constraints.every:
            return found
        fit = np.ones(rows.num_rows, np.bool_)
        fit[list(found)] = False
        taken = conform(rows.filter(pa.array(fit)), self.fields, table=self.table)
        taken = filled_in(taken, default_scalars(self.fields, zone=self.zone))
        places, first = np.flatnonzero(fit), 0
        for batch in taken.to_batches():
            own = places[first : first + batch.num_rows]
            for row, reason in self.constraints.violations(batch, kinds[own]).items():
                found[int(own[row])] = reason
            first += batch.num_rows
        return found

    def _of_other_types(self, rows: pa.Table) -> dict[int, str]:
        """The rows with a value that does not fit its column, and why."""
        found: dict[int, str] = {}
        parts = [(0, rows)]
        while parts:
            first, part = parts.pop()
            try:
                conform(part, self.fields, table=self.table)
            except InvalidInputError as error:
                if part.num_rows == 1:
                    found[first] = error.message
                    continue
                half = part.num_rows // 2
                parts += [(first, part.slice(0, half)), (first + half, part.slice(half))]
        return found
