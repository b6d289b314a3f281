"""Converts given rows to rows of the table: columns, defaults, row kinds, rows left out.

1. Columns get the table's order and types (:mod:`tidelake.types.conform`); nulls of columns with a
   default become the default.
2. The row kinds are checked, or taken from the column ``rowkind.field``.
3. Rows that come are checked by the table's constraints (:mod:`tidelake.table.schema.constraints`).
4. Rows that the options leave out are dropped (:mod:`tidelake.table.write.row_kind_filter`): the
   stores never get them.

Nothing is kept between calls.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tidelake.errors import InvalidInputError
from tidelake.merge import batch_parts
from tidelake.options import Options
from tidelake.table.schema.constraints import Constraints
from tidelake.table.write.row_kind_filter import RowKindFilter
from tidelake.telemetry import Env
from tidelake.types import TableSchema
from tidelake.types.conform import conform
from tidelake.types.default_value import default_scalars, filled_in

Ingested = tuple[pa.RecordBatch, np.ndarray | None, np.ndarray | None]


class Ingest:
    """The rules for rows of one table.

    Parameters
    ----------
    env : Env
        The session's time zone, and how much memory a batch may take.
    fills_defaults : bool
        Whether nulls become their columns' defaults; not for existing rows.
    """

    def __init__(
        self,
        schema: TableSchema,
        options: Options,
        env: Env,
        *,
        table: str,
        fills_defaults: bool = True,
    ) -> None:
        self._table = table
        self._fields = schema.fields
        self._memory = env.memory
        filled = self._fields if fills_defaults else ()
        self._defaults = default_scalars(filled, zone=env.zone)
        self._keys_may_move = schema.keys_may_move
        self._kinds = RowKindFilter(schema, options, table=table)
        self._constraints = Constraints.of(schema, options, table=table)

    def batches(
        self,
        given: pa.RecordBatch | pa.Table,
        kinds: np.ndarray | None,
        buckets: np.ndarray | None = None,
        *,
        first_row: int | None = None,
    ) -> Iterator[Ingested]:
        """Convert given rows to rows of the table.

        Parameters
        ----------
        given : RecordBatch or Table [n]
            The table's columns in any order, of their types or safely castable to them.
        kinds : int8 array [n], optional
            Row kinds; by default from the column ``rowkind.field``, or inserts.
        buckets : int32 array [n], optional
            The rows' buckets, if another task chose them.
        first_row : int, optional
            The number of the first row in the caller's data, for messages.

        Yields
        ------
        (RecordBatch, int8 array or None, int32 array or None)
            Rows, kinds (None if all are inserts) and buckets, in the order given; cut if the copy
            that routing makes would be large.

        Raises
        ------
        InvalidInputError
            A column is missing, unknown or of another type, a key is null, the table cannot take a
            kind, or a row violates a constraint.
        """
        if not isinstance(given, (pa.RecordBatch, pa.Table)):
            message = (
                f"An object of type {type(given).__name__} does not hold rows for a writer of table"
                f" '{self._table}': give an Arrow table or record batch."
            )
            raise InvalidInputError(message, kind="not_rows", table=self._table)
        rows = conform(given, self._fields, table=self._table, first_row=first_row)
        if buckets is None or not self._keys_may_move:
            # else the rows are whole: the null partition of a delete is its key's
            rows = filled_in(rows, self._defaults)
        kinds = self._kinds.kinds_of(rows, kinds)
        begin = 0
        for batch in self._parts(rows):
            end = begin + batch.num_rows
            own = batch, _part(kinds, begin, end), _part(buckets, begin, end)
            at = None if first_row is None else first_row + begin
            self._constraints.check(batch, own[1], first_row=at)
            begin = end
            yield self._stored(*own)

    def _parts(self, rows: pa.RecordBatch | pa.Table) -> Iterator[pa.RecordBatch]:
        for batch in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
            if self._memory.is_limited:
                yield from batch_parts(batch, bytes_max=self._memory.batch_bytes)
            else:
                yield batch

    def _stored(
        self, rows: pa.RecordBatch, kinds: np.ndarray | None, buckets: np.ndarray | None
    ) -> Ingested:
        """The rows that the options do not leave out."""
        if kinds is None or (stays := self._kinds.stored(kinds)) is None:
            return rows, kinds, buckets
        return (
            rows.filter(pa.array(stays)),
            kinds[stays],
            None if buckets is None else buckets[stays],
        )


def _part(values: np.ndarray | None, begin: int, end: int) -> np.ndarray | None:
    return None if values is None else values[begin:end]
