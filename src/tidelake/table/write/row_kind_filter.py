"""The kinds of given rows: taken from a column, checked, and filtered.

1. With ``rowkind.field`` a text column of the table holds the kind of each row (``+I``, ``-U``,
   ``+U``, ``-D``), unless kinds are given beside the rows: a delete gives them.
2. Kinds that the merge engine cannot take are refused (:mod:`tidelake.merge.engines.retractions`).
3. ``ignore-delete`` leaves out rows that retract, ``ignore-update-before`` those of kind -U.

Source: Paimon's ``RowKindGenerator`` and ``RowKindFilter`` (1.3.1).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import InvalidInputError, shortened
from tidelake.merge import MergeSpec, check_retractions
from tidelake.options import Options, declared
from tidelake.types import RowKind, TableSchema

Kinds = npt.NDArray[np.int8]

_KIND_TEXTS = pa.array([str(kind) for kind in RowKind])


class RowKindFilter:
    """A table's rules for the kinds of its rows."""

    def __init__(self, schema: TableSchema, options: Options, *, table: str) -> None:
        self._table = table
        self._has_keys = bool(schema.primary_keys)
        self._column = options.get(declared.ROWKIND_FIELD) if self._has_keys else None
        self._spec = MergeSpec.of(schema, options) if self._has_keys else None
        self._drops_updates_before = options.get(declared.IGNORE_UPDATE_BEFORE)

    def kinds_of(self, rows: pa.RecordBatch | pa.Table, kinds: Kinds | None) -> Kinds | None:
        """Give the kinds of rows; None where all are inserts.

        Parameters
        ----------
        rows : RecordBatch or Table [n]
            The table's columns.
        kinds : int8 array [n], optional
            Kinds that were given beside the rows.

        Raises
        ------
        InvalidInputError
            A kind is invalid, or the table cannot take it.
        """
        if kinds is None and self._column is not None:
            kinds = self._from_column(rows.column(self._column))
        if kinds is None:
            return None
        if self._spec is not None:
            check_retractions(self._spec, rows, kinds, table=self._table)
        elif (kinds != RowKind.INSERT).any():
            message = (
                f"Table '{self._table}' has no primary key, so it takes only inserts (+I): give"
                " rows without other row kinds."
            )
            raise InvalidInputError(message, kind="row_kind", table=self._table)
        return kinds

    def stored(self, kinds: Kinds) -> npt.NDArray[np.bool_] | None:
        """Find the rows to store; None if all are."""
        out = np.zeros(len(kinds), np.bool_)
        if self._spec is not None and self._spec.ignore_delete:
            out |= (kinds & 1) != 0
        if self._drops_updates_before:
            out |= kinds == RowKind.UPDATE_BEFORE
        return ~out if out.any() else None

    def _from_column(self, column: pa.Array | pa.ChunkedArray) -> Kinds:
        numbers = pc.index_in(pc.utf8_upper(column), value_set=_KIND_TEXTS)
        if numbers.null_count:
            wrong = column.filter(pc.is_null(numbers))[0].as_py()
            message = (
                f"Column '{self._column}' of table '{self._table}' holds row kinds"
                f" ('rowkind.field'), but has the value {shortened(repr(wrong))}: write one of"
                f" {', '.join(map(str, RowKind))}."
            )
            raise InvalidInputError(
                message, kind="row_kind", table=self._table, column=self._column
            )
        kinds: Kinds = numbers.to_numpy(zero_copy_only=False).astype(np.int8)
        return kinds
