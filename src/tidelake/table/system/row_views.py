"""Views of a table's rows: ``$audit_log``, ``$binlog`` and ``$ro``.

- ``$audit_log``: a column ``rowkind`` (``+I``, ``-U``, ``+U``, ``-D``), then the table's columns.
  Its rows are those of the state, each with the kind it was written with; a delete stays until a
  compaction into the last level drops it. Its changes are those of the table.
- ``$binlog``: the same with each column as an array: of the one value, or for an update of the old
  and the new value, in one row of kind ``+U``.
- ``$ro``, read-optimised: for a primary-key table only the files of the last level, which need no
  merge: quick, and as old as the last full compaction. For an append table all files.
- ``$row_tracking``: the table's columns, then ``_ROW_ID`` and ``_SEQUENCE_NUMBER``.

Source: Paimon's ``AuditLogTable``, ``BinlogTable``, ``ReadOptimizedTable`` and ``RowTrackingTable``
(1.3.1). A ``-U``
without its ``+U`` stays a row of its own, where Java joins it with the next row.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tidelake.errors import UnsupportedError
from tidelake.foreign_names import with_hints
from tidelake.format import TRACKING_FIELDS
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.row_ids import tracks_rows
from tidelake.options import levels_count
from tidelake.scan import LocatedRows, ReadContext, ScanPlan, Split, plan_scan, read_split
from tidelake.table.changelog.changelog_files import ChangesMode
from tidelake.table.changelog.changelog_plan import changes_between
from tidelake.table.conversion.frame_methods import FrameMethods
from tidelake.table.conversion.inputs import row_kind_names
from tidelake.table.handle.arguments import known_columns, row_limit
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.read_hold import ReadHold
from tidelake.table.handle.time_travel import Moment, Time
from tidelake.table.read.other_branch import check_no_other_branch
from tidelake.table.read.scan_request import ScanRequest
from tidelake.table.read.table_scan import stream
from tidelake.table.system.system_table import (
    AUDIT_LOG,
    BINLOG,
    READ_OPTIMIZED,
    ROW_TRACKING,
    MetadataTable,
)
from tidelake.telemetry import Memory
from tidelake.types import DataField, DataType, RowKind, TypeRoot, parse_type
from tidelake.types.arrow import to_arrow_schema
from tidelake.types.predicate import (
    Predicate,
    bind,
    columns_of,
    conjoin,
    conjuncts,
    evaluate,
    parse_filter,
)

ROW_VIEWS = frozenset({AUDIT_LOG, BINLOG, READ_OPTIMIZED, ROW_TRACKING})

ROW_KIND = DataField(2**31 - 5, "rowkind", parse_type("STRING"))
"""The column of kinds; its name and its id are Paimon's."""


@dataclass(frozen=True, slots=True)
class ViewRows:
    """Converts rows to rows of a view. Picklable.

    Parameters
    ----------
    below : Predicate, optional
        Bound; on the table's columns alone.
    above : Predicate, optional
        Bound; all other conditions on a row of the view.
    """

    context: ReadContext
    view: str
    columns: tuple[str, ...]
    below: Predicate | None
    above: Predicate | None

    @classmethod
    def of(
        cls, handle: TableHandle, context: ReadContext, view: str, columns: object, wanted: object
    ) -> ViewRows:
        """Take columns and a filter as users give them.

        Raises
        ------
        NotFoundError
            The view has no such column.
        InvalidInputError
            The filter is wrong.
        """
        identifier = f"{handle.identifier}${view}"
        fields = view_fields(context, view)
        known = [f.name for f in fields]
        names = known_columns(columns, known, table=identifier)  # type: ignore[arg-type]
        parsed = parse_filter(wanted)
        parts = () if parsed is None else conjuncts(bind(parsed, fields))
        added = {ROW_KIND.name, *(f.name for f in TRACKING_FIELDS)}
        own = [view == BINLOG or not added.isdisjoint(columns_of(part)) for part in parts]
        below = conjoin(part for part, is_own in zip(parts, own, strict=True) if not is_own)
        above = conjoin(part for part, is_own in zip(parts, own, strict=True) if is_own)
        return cls(context, view, names, below, above)

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns wanted."""
        by_name = {f.name: f for f in view_fields(self.context, self.view)}
        return tuple(by_name[name] for name in self.columns)

    @property
    def schema(self) -> pa.Schema:
        """The rows' Arrow schema."""
        return to_arrow_schema(self.fields)

    @property
    def table_columns(self) -> tuple[str, ...]:
        """The table's columns that are needed; those that only the filter uses come last."""
        looked_at = frozenset() if self.above is None else columns_of(self.above)
        names = dict.fromkeys((*self.columns, *sorted(looked_at)))
        names.pop(ROW_KIND.name, None)
        return tuple(names)

    def within(self, memory: Memory) -> ViewRows:
        """The same rows, read within such shares."""
        return replace(self, context=self.context.within(memory))

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of a split of the state."""
        names, keyed = self.table_columns, bool(self.context.schema.primary_keys)
        if self.view == ROW_TRACKING:
            for rows in LocatedRows(self.context, names, self.below).read(split):
                yield self._viewed(None, rows.columns)
            return
        if self.view == READ_OPTIMIZED:
            yield from read_split(self.context, split, columns=names, predicate=self.below)
            return
        for rows in read_split(
            self.context, split, columns=names, predicate=self.below, keep_kinds=keyed
        ):
            kinds = pa.array(np.full(rows.num_rows, RowKind.INSERT, np.int8))
            if keyed:
                kinds = rows.column(rows.num_columns - 1)
            yield self._viewed(row_kind_names(kinds), rows.columns[: len(names)])

    def follow(self, changes: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The view's rows of changes: batches of the kind, then :attr:`table_columns`."""
        if self.view != BINLOG:
            for batch in changes:
                yield self._viewed(batch.column(0), batch.columns[1:])
            return
        left: pa.RecordBatch | None = None  # a -U whose +U may come with the next batch
        for batch in changes:
            rows = batch
            if left is not None:
                both = pa.Table.from_batches([left, batch]).combine_chunks()
                [rows] = both.to_batches()
            whole = rows.num_rows - (rows.column(0)[-1].as_py() == str(RowKind.UPDATE_BEFORE))
            left = rows.slice(whole) if whole < rows.num_rows else None
            if whole:
                yield self._packed(rows.slice(0, whole))
        if left is not None:
            yield self._packed(left)

    def _packed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Join each -U with the +U behind it."""
        kinds = np.asarray(rows.column(0).to_pylist(), dtype=object)
        first = np.ones(rows.num_rows, np.bool_)
        pair = (kinds[:-1] == str(RowKind.UPDATE_BEFORE)) & (kinds[1:] == str(RowKind.UPDATE_AFTER))
        first[1:] = ~pair
        starts = np.flatnonzero(first)
        offsets = np.r_[starts, rows.num_rows].astype(np.int32)
        last = pa.array(offsets[1:].astype(np.int64) - 1)
        return self._viewed(rows.column(0).take(last), rows.columns[1:], offsets)

    def _viewed(
        self,
        kinds: pa.Array | None,
        columns: Sequence[pa.Array],
        offsets: np.ndarray | None = None,
    ) -> pa.RecordBatch:
        """Rows of the view from the table's columns."""
        if self.view == BINLOG:
            if offsets is None:
                assert kinds is not None, "a row of this view has a kind"
                offsets = np.arange(len(kinds) + 1, dtype=np.int32)
            bounds = pa.array(offsets, pa.int32())
            types = to_arrow_schema(view_fields(self.context, BINLOG))
            columns = [
                pa.ListArray.from_arrays(bounds, column, type=types.field(name).type)
                for name, column in zip(self.table_columns, columns, strict=True)
            ]
        by_name = dict(zip(self.table_columns, columns, strict=True))
        if kinds is not None:
            by_name = {ROW_KIND.name: kinds, **by_name}
        view = {f.name: f for f in view_fields(self.context, self.view)}
        fields = [view[name] for name in by_name]
        rows = pa.RecordBatch.from_arrays(list(by_name.values()), schema=to_arrow_schema(fields))
        if self.above is not None:
            rows = rows.filter(evaluate(self.above, rows, fields))
        return rows.select(list(self.columns))


@dataclass(frozen=True, slots=True)
class ViewScan(FrameMethods):
    """A planned read of a view.

    Parameters
    ----------
    identifier : str
        ``"database.table$view"``.
    rows : ViewRows
        What is read of each split.
    limit : int, optional
        The most rows wanted.
    """

    identifier: str
    rows: ViewRows
    plan: ScanPlan
    limit: int | None = None
    hold: ReadHold = field(default_factory=ReadHold, compare=False)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, split by split."""
        yield from stream(self.rows, self.plan.splits, self.limit)

    def reader(self) -> pa.RecordBatchReader:
        """The rows as a stream."""
        return pa.RecordBatchReader.from_batches(self.rows.schema, self.batches())

    def to_arrow(self) -> pa.Table:
        """All rows in memory."""
        return self.reader().read_all()

    def count(self) -> int:
        """Number of rows; all are read."""
        return sum(batch.num_rows for batch in self.batches())

    def _typed(self) -> tuple[Sequence[DataField], str]:
        return self.rows.fields, self.identifier


class RowView(MetadataTable):
    """One view of a table's rows; every call reads it again.

    Parameters
    ----------
    name : str
        The part of the name after ``$``.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        assert self.name in ROW_VIEWS, self.name

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return to_arrow_schema(view_fields(self.handle.read_context(), self.name))

    def __repr__(self) -> str:
        return f"View {self.identifier} of {', '.join(self.schema.names)}"

    def _repr_html_(self) -> str:
        return (
            f"<b>{html.escape(self.identifier)}</b> of {html.escape(', '.join(self.schema.names))}"
        )

    def _frames(self, **scan: Any) -> FrameMethods:
        return self.scan(**scan)

    @with_hints
    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: object = None,
        limit: int | None = None,
        snapshot_id: int | None = None,
        timestamp: Time | None = None,
        tag: str | None = None,
    ) -> ViewScan:
        """Plan a read; arguments as of :meth:`tidelake.Table.scan`.

        ``$binlog`` can be filtered by ``rowkind`` only.
        """
        handle = self.handle
        check_no_other_branch(handle, f"${self.name}")
        limit = row_limit(limit, table=self.identifier)

        request = ScanRequest(columns, where, limit, snapshot_id, timestamp, tag)

        def plan(snapshot: Snapshot | None, schema_of: Snapshot | None, hold: ReadHold) -> ViewScan:
            context = request.context(handle, schema_of)
            rows = ViewRows.of(handle, context, self.name, columns, where)
            last = self.name == READ_OPTIMIZED and bool(context.schema.primary_keys)
            planned = plan_scan(
                context,
                snapshot,
                manifests=handle.manifests,
                predicate=rows.below,
                level=levels_count(context.options) - 1 if last else None,
            )
            return ViewScan(self.identifier, rows, planned, limit, hold)

        return request.planned_held(handle, plan)

    def to_arrow(self, **scan: Any) -> pa.Table:
        """The rows as an Arrow table; arguments as of :meth:`scan`."""
        planned = self.scan(**scan)
        with planned.hold:
            return planned.to_arrow()

    def to_batches(self, **scan: Any) -> pa.RecordBatchReader:
        """The rows as a stream of batches; arguments as of :meth:`scan`."""
        return self.scan(**scan).reader()

    def count(self, **scan: Any) -> int:
        """Number of rows; arguments as of :meth:`scan`."""
        planned = self.scan(**scan)
        with planned.hold:
            return planned.count()

    @with_hints
    def changes(
        self,
        start: Moment,
        end: Moment | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: object = None,
        mode: ChangesMode = "auto",
    ) -> pa.Table:
        """Return the changes after `start`, up to and with `end`; see :meth:`changes_batches`."""
        return self.changes_batches(start, end, columns=columns, where=where, mode=mode).read_all()

    @with_hints
    def changes_batches(
        self,
        start: Moment,
        end: Moment | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: object = None,
        mode: ChangesMode = "auto",
    ) -> pa.RecordBatchReader:
        """The change after `start`, up to and with `end`, as a stream.

        Parameters
        ----------
        start, end, where, mode
            As of :meth:`tidelake.Table.changes_batches`; but by default each snapshot gives its own
            changes. The filter may name ``rowkind``; for ``$binlog`` it may name nothing else.

        Raises
        ------
        UnsupportedError
            The view has no changes: ``$ro`` and ``$row_tracking``.
        """
        if self.name in {READ_OPTIMIZED, ROW_TRACKING}:
            self._only_read()
        rows = ViewRows.of(self.handle, self.handle.read_context(), self.name, columns, where)
        changes = changes_between(
            self.handle, start, end, columns=rows.table_columns, predicate=rows.below, mode=mode
        )
        return pa.RecordBatchReader.from_batches(rows.schema, rows.follow(changes.reader()))


def view_fields(context: ReadContext, view: str) -> tuple[DataField, ...]:
    """The columns of a view."""
    fields = context.schema.fields
    if view == READ_OPTIMIZED:
        return fields
    if view == ROW_TRACKING:
        if not tracks_rows(context.options):
            message = (
                f"Table '{context.options.table}' has no row tracking, so its rows have no ids:"
                " make a new table with 'row-tracking.enabled' = 'true'."
            )
            raise UnsupportedError(message, kind="row_tracking", table=context.options.table)
        return (*fields, *TRACKING_FIELDS)
    if view == BINLOG:
        fields = tuple(
            DataField(f.id, f.name, DataType(TypeRoot.ARRAY, children=(f.type.as_nullable(),)))
            for f in fields
        )
    return (ROW_KIND, *fields)
