"""A target's columns from a source's rows: its own, computed ones, metadata, and the order.

One maker serves one version of a source table. A row of which a value cannot be computed is left
out, and reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelake.cdc.columns.computed_columns import ComputedColumns
from tidelake.cdc.columns.expression import Moment
from tidelake.cdc.columns.metadata_columns import MetadataColumns
from tidelake.cdc.columns.order_columns import order_values
from tidelake.cdc.source.changes import Rejected, SourceRows
from tidelake.cdc.source.source_table import SourceTable
from tidelake.cdc.target.quarantine import payload_of
from tidelake.cdc.target.target import TargetRows
from tidelake.types import RowKind


@dataclass(frozen=True, slots=True)
class AddedColumns:
    """Which columns a job adds to those of the source.

    Parameters
    ----------
    computed : tuple of str
        Definitions: ``"day=date_format(at, yyyyMMdd)"``.
    metadata : MetadataColumns
        What the source says of a row besides its values.
    has_order : bool
        Whether the target has the order columns.
    case_sensitive : bool
        If not, names are in lower case in the lake.
    zone : str
        Where instants are read as local times.
    """

    computed: tuple[str, ...] = ()
    metadata: MetadataColumns = field(default_factory=MetadataColumns)
    has_order: bool = True
    case_sensitive: bool = True
    zone: str = "UTC"

    def maker(self, table: SourceTable) -> RowMaker:
        """Make the maker of one version of a source table."""
        computed = ComputedColumns.of(
            self.computed, table.fields, case_sensitive=self.case_sensitive, zone=self.zone
        )
        return RowMaker(self, table, computed)

    def name(self, column: str) -> str:
        """A source column's name in the lake."""
        return column if self.case_sensitive else column.lower()


@dataclass(frozen=True, slots=True)
class Made:
    """Rows for a target, and those left out."""

    rows: TargetRows
    order: NDArray[np.int64]
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True, slots=True)
class RowMaker:
    """Makes rows of one version of a source table."""

    rules: AddedColumns
    table: SourceTable
    computed: ComputedColumns

    def changes(self, part: SourceRows, keys: Sequence[str], now_ms: int) -> Made:
        """Make the rows of changes.

        Parameters
        ----------
        keys : sequence of str
            The target's primary key.
        """
        made, faults = self._columns(part, keys, now_ms)
        masks = self._masks(part)
        old_keys = None
        if masks:
            old_keys, unknown = self._old_keys(part, made, keys, masks)
            faults = {**dict.fromkeys(unknown, _UNKNOWN_KEY), **faults}
        rows = TargetRows(made, part.kinds, masks, old_keys)
        if not faults:
            return Made(rows, part.order)
        rejected = tuple(
            Rejected(
                self.table.name,
                (int(part.order[row, 0]), int(part.order[row, 1])),
                int(part.kinds[row]),
                reason,
                payload_of(part.rows.slice(row, 1).to_pylist()[0]),
            )
            for row, reason in sorted(faults.items())
        )
        kept = np.ones(len(part.kinds), np.bool_)
        kept[list(faults)] = False
        return Made(rows.taken(np.flatnonzero(kept)), part.order[kept], rejected)

    def copied(
        self, rows: pa.RecordBatch, order: tuple[int, int], now_ms: int
    ) -> tuple[pa.Table, tuple[Rejected, ...]]:
        """Make the rows of a first copy, all inserts at one order."""
        count = rows.num_rows
        orders = np.tile(np.array(order, np.int64), (count, 1))
        kinds = np.full(count, int(RowKind.INSERT), np.int8)
        part = SourceRows(self.table, rows, kinds, orders, np.zeros(count, np.int64))
        made = self.changes(part, (), now_ms)
        return made.rows.rows, made.rejected

    def _columns(
        self, part: SourceRows, keys: Sequence[str], now_ms: int
    ) -> tuple[pa.Table, Mapping[int, str]]:
        rules, given = self.rules, part.rows
        rows = given.rename_columns([rules.name(name) for name in given.schema.names])
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        deletes = np.flatnonzero(part.kinds == RowKind.DELETE).tolist() if keys else []
        computed = self.computed.evaluate(
            rows, Moment(now_ms, rules.zone), of_key=keys, by_key=frozenset(deletes)
        )
        columns |= computed.columns
        columns |= rules.metadata.evaluate(self.table.name, part.changed_ms, part.metadata)
        if rules.has_order:
            columns |= order_values(part.order)
        return pa.table(columns), computed.faults

    def _masks(self, part: SourceRows) -> dict[str, NDArray[np.bool_]]:
        """The masks of what was not sent, of the columns computed from it too."""
        masks = {self.rules.name(name): mask for name, mask in part.unchanged.items() if mask.any()}
        for column in self.computed.columns:
            reference = column.expression.reference
            if reference in masks:
                masks[column.name] = masks[reference]
        return masks

    def _old_keys(
        self,
        part: SourceRows,
        made: pa.Table,
        keys: Sequence[str],
        masks: Mapping[str, NDArray[np.bool_]],
    ) -> tuple[pa.Table, list[int]]:
        """The target's key before each change, and the rows of which it is not known."""
        given = part.old_keys
        known = {} if given is None else {self.rules.name(n): given.column(n) for n in
                                          given.schema.names}  # fmt: skip
        if set(keys) <= set(known):
            return pa.table({name: known[name] for name in keys}), []
        wanted = np.logical_or.reduce(list(masks.values()))
        return made.select(list(keys)), np.flatnonzero(wanted).tolist()


_UNKNOWN_KEY = (
    "a value was not sent, and the target's key is not the source's: set REPLICA IDENTITY FULL"
)
