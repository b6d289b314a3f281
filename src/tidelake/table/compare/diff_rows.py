"""Changed rows with their kinds, as rows of a diff: a key, its row before and after.

A change comes as ``-D``, ``+I``, or ``-U`` and right after it ``+U``. Vectorised: a batch costs a
take of its rows for each side, and a comparison of each column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.codec.row_codes import row_codes, rows_differ
from tidelake.errors import counted
from tidelake.scan import ReadContext
from tidelake.table.changelog.snapshot_diff import diff_multiset
from tidelake.table.conversion.inputs import ROW_KIND_COLUMN, row_kind_names
from tidelake.types.arrow import to_arrow_schema

ADDED, REMOVED, CHANGED = "added", "removed", "changed"
Places = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class DiffCounts:
    """How many rows differ between two versions.

    Parameters
    ----------
    columns : mapping of str to int
        By column, how many of the changed rows differ in it; only those that are not zero.
    """

    added: int = 0
    removed: int = 0
    changed: int = 0
    columns: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        text = f"{self.added} added, {self.removed} removed, {self.changed} changed"
        if self.columns:
            text += f" ({', '.join(f'{name} {n}' for name, n in self.columns.items())})"
        return text

    def __repr__(self) -> str:
        total = self.added + self.removed + self.changed
        return f"<DiffCounts: {counted(total, 'row')}, {self}>"


def counted_changes(batches: Iterable[pa.RecordBatch]) -> DiffCounts:
    """Count the rows of a diff."""
    kinds = {ADDED: 0, REMOVED: 0, CHANGED: 0}
    columns: dict[str, int] = {}
    for batch in batches:
        for counts, name in ((kinds, "change"), (columns, "columns")):
            values = batch.column(name)
            flat = values.flatten() if name == "columns" else values
            for found in pc.value_counts(flat).to_pylist():
                value = found["values"]
                counts[value] = counts.get(value, 0) + found["counts"]
    return DiffCounts(
        kinds[ADDED],
        kinds[REMOVED],
        kinds[CHANGED],
        MappingProxyType(dict(sorted(columns.items()))),
    )


@dataclass(frozen=True, slots=True)
class DiffShape:
    """The columns of a diff of one table."""

    context: ReadContext

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns of the primary key; none for a table without one."""
        return self.context.schema.primary_keys

    @property
    def others(self) -> tuple[str, ...]:
        """The columns that are not the key's."""
        return tuple(n for n in self.context.schema.field_names if n not in self.keys)

    @property
    def schema(self) -> pa.Schema:
        """Of the rows of a diff; see :attr:`tidelake.table.compare.diff.TableDiff.schema`."""
        keys = to_arrow_schema(self.context.fields(self.keys))
        others = to_arrow_schema(self.context.fields(self.others))
        row = pa.struct([field.with_nullable(True) for field in others])  # there may be no row
        return pa.schema(
            [
                pa.field("change", pa.string(), nullable=False),
                *keys,
                pa.field("before", row),
                pa.field("after", row),
                pa.field("columns", pa.list_(pa.string()), nullable=False),
            ]
        )

    def rows(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a diff.

        Requires: each ``-U`` has its ``+U`` right after it.

        Parameters
        ----------
        changes : RecordBatch
            ``_row_kind`` and the columns of the table.
        """
        kinds = changes.column(ROW_KIND_COLUMN)
        is_after = pc.is_in(kinds, pa.array(["+I", "+U"])).to_numpy(zero_copy_only=False)
        is_update = pc.equal(kinds, "+U").to_numpy(zero_copy_only=False)
        starts_update = pc.equal(kinds, "-U").to_numpy(zero_copy_only=False)
        own = np.flatnonzero(~starts_update)  # one for each row of the diff
        after = np.where(is_after[own], own, -1)
        before = np.where(is_update[own], own - 1, np.where(is_after[own], -1, own))
        return self._rows(changes, before, after)

    def paired(self, changes: pa.Table) -> list[pa.RecordBatch]:
        """Changes whose rows of one key, or equal rows, are brought together; equal ones cancel."""
        kinds = changes.column(ROW_KIND_COLUMN)
        is_after = pc.is_in(kinds, pa.array(["+I", "+U"])).combine_chunks()
        rows = changes.select(self.context.schema.field_names)
        old, new = rows.filter(pc.invert(is_after)), rows.filter(is_after)
        if not self.keys:
            left, signs = diff_multiset(old, new)
            return self._with_kinds(left, row_kind_names(pa.array(signs)))
        both = pa.concat_tables([old, new])
        codes = row_codes(both.select(self.keys))
        order = np.lexsort((np.arange(len(codes)) >= old.num_rows, codes))
        ordered = codes[order]
        is_first = np.flatnonzero(ordered[:-1] == ordered[1:]) if len(ordered) else order
        pairs = both.take(pa.array(order)).combine_chunks()
        names = np.where(order >= old.num_rows, "+I", "-D").astype(object)
        names[is_first], names[is_first + 1] = "-U", "+U"
        kept = np.ones(len(order), np.bool_)
        if len(is_first):
            left, right = (_one(pairs.take(pa.array(is_first + at))) for at in (0, 1))
            same = ~rows_differ(left, right)
            kept[is_first[same]] = kept[is_first[same] + 1] = False
        chosen = pa.array(np.flatnonzero(kept))
        return self._with_kinds(pairs.take(chosen), pa.array(names, pa.string()).take(chosen))

    def _with_kinds(self, rows: pa.Table, kinds: pa.Array) -> list[pa.RecordBatch]:
        if not rows.num_rows:
            return []
        return [_one(rows.add_column(0, ROW_KIND_COLUMN, kinds))]

    def _rows(self, changes: pa.RecordBatch, before: Places, after: Places) -> pa.RecordBatch:
        either = pa.array(np.where(after >= 0, after, before))
        both = (before >= 0) & (after >= 0)
        names = np.where(both, CHANGED, np.where(after >= 0, ADDED, REMOVED))
        schema = self.schema
        row = schema.field("after").type
        sides = [self._side(changes, places, row) for places in (before, after)]
        return pa.RecordBatch.from_arrays(
            [
                pa.array(names, pa.string()),
                *(changes.column(name).take(either) for name in self.keys),
                *sides,
                self._differing(changes, before, after, both),
            ],
            schema=schema,
        )

    def _side(self, changes: pa.RecordBatch, places: Places, row: pa.StructType) -> pa.Array:
        is_missing = places < 0
        taken = pa.array(places, mask=is_missing)
        children = [changes.column(name).take(taken) for name in self.others]
        if not children:
            return pa.array([None if gone else {} for gone in is_missing], row)
        fields = [row.field(at) for at in range(row.num_fields)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=pa.array(is_missing))

    def _differing(
        self, changes: pa.RecordBatch, before: Places, after: Places, both: npt.NDArray[np.bool_]
    ) -> pa.Array:
        """Names of the columns that differ, for each row of the diff."""
        at = np.flatnonzero(both)
        flags = np.zeros((len(both), len(self.others)), np.bool_)
        for number, name in enumerate(self.others if len(at) else ()):
            column = changes.select([name])
            old, new = (column.take(pa.array(places[at])) for places in (before, after))
            flags[at, number] = rows_differ(old, new)
        offsets = np.r_[0, np.cumsum(flags.sum(axis=1))].astype(np.int32)
        names = pa.array(self.others, pa.string()).take(pa.array(np.nonzero(flags)[1]))
        return pa.ListArray.from_arrays(pa.array(offsets), names)


def _one(rows: pa.Table) -> pa.RecordBatch:
    """A table as one batch."""
    batches = rows.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)
