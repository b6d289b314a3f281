"""One table in the lake that a job keeps equal to its source.

An epoch is one commit to a target, whatever number of source tables and versions go into it:

1. ask whether the commit is made: then nothing is looked at again;
2. prepare: fill in the values that the source did not send, give the rows the target's columns
   (what the source lacks is null), and find those that do not fit
   (:mod:`tidelake.cdc.target.row_check`);
3. commit with the epoch's identity.

Between 2 and 3 the job writes the rows that do not fit into its quarantine. So an epoch that comes
again after a crash loses none of them.

Deletes of a source that sends keys alone have null in the other columns. A column that may not be
null gets a value of its type there, which nobody reads: a delete counts by its key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidelake.cdc.columns.order_columns import ORDER_FIELDS
from tidelake.cdc.evolution.target_engine import engine_notes
from tidelake.cdc.target.epoch_step import EpochStep
from tidelake.cdc.target.row_check import RowCheck
from tidelake.cdc.target.unchanged import fill_unchanged
from tidelake.engine.schemas import alter_table, with_newest_schema
from tidelake.engine.streams import MadeCommit
from tidelake.engine.tables import Table, TableHandle
from tidelake.engine.write import (
    ROW_KIND_COLUMN,
    WriteResult,
    WriteTransaction,
    write_target,
)
from tidelake.options import declared
from tidelake.types import DataField, RowKind
from tidelake.types.arrow import to_arrow_schema, to_arrow_type
from tidelake.types.conform import conform
from tidelake.types.schema_change import SchemaChange

_ORDER = ",".join(field.name for field in ORDER_FIELDS)
WHOLE_TABLE: Mapping[str, str] = {"dynamic-partition-overwrite": "false"}


@dataclass(frozen=True, slots=True)
class TargetRows:
    """Rows of one epoch for one target, in the order of the source.

    Parameters
    ----------
    rows : pyarrow.Table
        Some of the target's columns, by their names, all of the key among them.
    kinds : numpy.ndarray
        Numbers of the row kinds, int8.
    unchanged : mapping of str to numpy.ndarray
        For some columns: whether a row's value was not sent.
    old_keys : pyarrow.Table or None
        With `unchanged`: the key columns before each change.
    """

    rows: pa.Table
    kinds: NDArray[np.int8]
    unchanged: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    old_keys: pa.Table | None = None

    def taken(self, indices: NDArray[np.int64]) -> TargetRows:
        """Some of the rows."""
        places = pa.array(indices)
        return TargetRows(
            self.rows.take(places),
            self.kinds[indices],
            {name: mask[indices] for name, mask in self.unchanged.items()},
            None if self.old_keys is None else self.old_keys.take(places),
        )


@dataclass(frozen=True, slots=True)
class Prepared:
    """Rows that fit a target.

    Parameters
    ----------
    left_out : mapping of int to str
        Indices of the given rows that are not among them, and why: a value that was not sent was
        found nowhere, one does not fit its column, or the row violates a constraint.
    """

    rows: pa.Table
    kinds: NDArray[np.int8]
    left_out: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of an epoch at one target.

    Parameters
    ----------
    made : MadeCommit or None
        The commit; the one before where this epoch made none.
    rows_count : int
        Rows written.
    was_done : bool
        Whether the commit had been made before.
    """

    made: MadeCommit | None
    rows_count: int = 0
    was_done: bool = False


class Target:
    """A target table. For one thread.

    Parameters
    ----------
    made : MadeCommit, optional
        The job's last commit to it.
    """

    def __init__(self, table: Table, made: MadeCommit | None = None) -> None:
        self._handle: TableHandle = table.handle
        self.made = made

    @property
    def identifier(self) -> str:
        """``database.table``."""
        return self._handle.identifier

    @property
    def handle(self) -> TableHandle:
        """The table with the newest schema that is known."""
        return self._handle

    @property
    def is_empty(self) -> bool:
        """Whether it has no row; then rows are added, as readers of changes do not see others."""
        latest = self._handle.snapshots.latest()
        return latest is None or latest.total_record_count == 0

    @property
    def logs_replaced(self) -> bool:
        """Whether rows that are replaced are deleted one by one: it has a log of its changes.

        A commit that overwrites puts nothing into that log. A delete stands at its row's own order.
        So rows that come after it must not be before that: not where a column of the user's orders
        them. And all rows must be seen: not where some wait for a compaction.
        """
        options, own = self._handle.options, self._handle.schema.options
        producer = options.get(declared.CHANGELOG_PRODUCER)
        waits = options.get(declared.WRITE_ONLY) or producer != "lookup"
        return (
            bool(self._handle.schema.primary_keys)
            and producer != "none"
            and own.get(declared.SEQUENCE_FIELD.key, _ORDER) == _ORDER
            and not (options.get(declared.DELETION_VECTORS_ENABLED) and waits)
            and not next(engine_notes(self.identifier, own), "")
            and not self.is_empty
        )

    def alter(self, changes: Sequence[SchemaChange]) -> None:
        """Change the schema; what is already so is left alone."""
        self._handle = alter_table(self._handle, changes)

    def refresh(self) -> None:
        """Look for a schema that others changed."""
        self._handle = with_newest_schema(self._handle)

    def is_done(self, step: EpochStep) -> bool:
        """Whether the commit of an epoch is made; then it is the last one made.

        Raises
        ------
        InvalidInputError
            The table and the journal do not belong together: one of them was restored, or the table
            was rolled back.
        """
        transaction = self._transaction(step)
        is_done = transaction.replayed() is not None
        self.made = transaction.made or self.made
        return is_done

    def prepare(self, given: TargetRows) -> Prepared:
        """Make an epoch's rows ready: nothing is written yet.

        A delete counts by its key, so a value beside the key that does not fit is left out of it.
        """
        filled, left_out = self._filled(given)
        rows, kinds = self._conformed(filled, given.kinds), given.kinds
        check = RowCheck.of(self._handle)
        misfits = check.misfits(rows, kinds)
        deletes = [row for row in misfits if kinds[row] == int(RowKind.DELETE)]
        if deletes and self._handle.schema.primary_keys:
            rows = self._conformed(self._with_bare(filled, deletes), kinds)
            misfits = check.misfits(rows, kinds)
        left_out = {**misfits, **left_out}
        if left_out:
            kept = np.ones(len(kinds), np.bool_)
            kept[list(left_out)] = False
            rows, kinds = rows.filter(pa.array(kept)), kinds[kept]
        return Prepared(rows, kinds, left_out)

    def commit(self, step: EpochStep, prepared: Prepared) -> Applied:
        """Commit an epoch's rows, unless its commit is made."""
        if not prepared.rows.num_rows:
            return Applied(self.made)
        transaction = self._transaction(step)
        result = transaction.write(prepared.rows, row_kinds=prepared.kinds)
        self.made = transaction.made or self.made
        return Applied(self.made, result.rows, result.already_committed)

    def truncate(self, step: EpochStep) -> Applied:
        """Commit that all rows went."""
        return self.replace(step, ())

    def add(self, step: EpochStep, batches: Iterable[pa.RecordBatch]) -> Applied:
        """Commit rows beside those that are there; arguments as of :meth:`replace`."""
        return self.copied(step, lambda add: add.write(self._whole(batches)), replaces=False)

    def replace(
        self,
        step: EpochStep,
        batches: Iterable[pa.RecordBatch],
        order: tuple[int, int] | None = None,
    ) -> Applied:
        """Commit other rows in place of all rows.

        Parameters
        ----------
        batches : iterable of pyarrow.RecordBatch
            As :attr:`TargetRows.rows`, all inserts; read once.
        order : tuple of int, optional
            The order of the rows.
        """
        if self.logs_replaced and not (order is not None and self._has_later(order)):
            return self.copied(
                step, lambda change: change.write(self._instead(batches)), replaces=False
            )
        return self.copied(step, lambda change: change.write(self._whole(batches)), replaces=True)

    def copied(
        self, step: EpochStep, write: Callable[[WriteTransaction], WriteResult], *, replaces: bool
    ) -> Applied:
        """Commit rows that a function writes, in place of all rows or beside them.

        Parameters
        ----------
        write : callable
            Writes to the transaction and commits it, unless it is committed.
        """
        adds = not replaces or self.is_empty
        transaction = self._transaction(step) if adds else self._overwrite(step)
        result = write(transaction)
        if adds and replaces and not result.rows and not result.already_committed:
            # no row came: a commit says that there is none
            transaction = self._overwrite(step)
            result = transaction.write(())
        self.made = transaction.made or self.made
        return Applied(self.made, result.rows, result.already_committed)

    def _overwrite(self, step: EpochStep) -> WriteTransaction:
        handle = self._handle.with_options(self._handle.options.updated(WHOLE_TABLE))
        return WriteTransaction(
            handle,
            step.identity(handle, self.made),
            overwrite=write_target(handle, "overwrite", None),
            is_wanted_empty=True,
        )

    def _has_later(self, order: tuple[int, int]) -> bool:
        """Whether a row has a later order: the source's log began anew."""
        names = _ORDER.split(",")
        if not set(names) <= {f.name for f in self._handle.schema.fields}:
            return False
        for batch in Table(self._handle).to_batches(columns=names):
            high, low = (batch.column(name).fill_null(-1) for name in names)
            first = pc.max(high).as_py()
            if first is None or first < order[0]:
                continue
            same = low.filter(pc.equal(high, first))
            if (first, pc.max(same).as_py()) > order:
                return True
        return False

    def _instead(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Deletes of all rows that are there, and then other rows.

        A delete has its row's own order, behind which it stands in the commit.
        """
        for batch in Table(self._handle).to_batches():
            yield _of_kind(batch, RowKind.DELETE)
        for batch in self._whole(batches):
            yield _of_kind(batch, RowKind.INSERT)

    def _whole(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows with all columns; no reader of Arrow, which hides the class of an error."""
        return whole_rows(batches, self._handle.schema.fields, table=self.identifier)

    def _transaction(self, step: EpochStep) -> WriteTransaction:
        return WriteTransaction(self._handle, step.identity(self._handle, self.made))

    def _filled(self, given: TargetRows) -> tuple[pa.Table, dict[int, str]]:
        """The rows with the values that were not sent, and which rows lack one."""
        if not given.unchanged:
            return given.rows, {}
        assert given.old_keys is not None, "keys to find what was not sent"
        filled = fill_unchanged(
            given.rows, given.kinds, given.unchanged, given.old_keys, self._rows_of
        )
        reason = "a value that the source did not send is not in the table"
        return filled.rows, dict.fromkeys(filled.missing.tolist(), reason)

    def _with_bare(self, rows: pa.Table, places: Sequence[int]) -> pa.Table:
        """The rows with nothing but keys and what orders them at some places."""
        schema = self._handle.schema
        ordering = schema.options.get("sequence.field", "").split(",")
        kept = {*schema.primary_keys, *schema.partition_keys, *(name.strip() for name in ordering)}
        mask = np.zeros(rows.num_rows, np.bool_)
        mask[list(places)] = True
        for place, one in enumerate(rows.schema):
            if one.name not in kept:
                values = rows.column(place).combine_chunks()
                bare = pc.if_else(pa.array(mask), pa.scalar(None, values.type), values)
                rows = rows.set_column(place, one.name, bare)
        return rows

    def _rows_of(self, keys: pa.Table, columns: Sequence[str]) -> pa.Table:
        table = Table(self._handle)
        names = list(self._handle.schema.primary_keys)
        types = {f.name: to_arrow_type(f.type) for f in self._handle.schema.fields}
        wanted = pa.table([keys.column(n).cast(types[n]) for n in names], names)
        return table.get_many(wanted, columns=[*names, *columns])

    def _conformed(self, rows: pa.Table, kinds: NDArray[np.int8]) -> pa.Table:
        """The rows with all columns of the target."""
        schema = self._handle.schema
        return with_all_columns(rows, kinds, schema.fields, schema.primary_keys)


def whole_rows(
    batches: Iterable[pa.RecordBatch], fields: Sequence[DataField], *, table: str
) -> Iterator[pa.RecordBatch]:
    """Give copied rows all columns of a target.

    Raises
    ------
    InvalidInputError
        A value does not fit its column.
    """
    for batch in batches:
        kinds = np.zeros(batch.num_rows, np.int8)
        rows = with_all_columns(pa.Table.from_batches([batch]), kinds, fields)
        yield from conform(rows, fields, table=table).to_batches()


def with_all_columns(
    rows: pa.Table, kinds: NDArray[np.int8], fields: Sequence[DataField], keys: Sequence[str] = ()
) -> pa.Table:
    """Rows with all columns of a target, where a value fits its column as that column's type."""
    schema = to_arrow_schema(fields)
    deletes = pa.array(kinds == int(RowKind.DELETE))
    columns = []
    for one in schema:
        if one.name not in rows.column_names:
            values = pa.nulls(rows.num_rows, one.type)
        else:
            values = _cast(rows.column(one.name).combine_chunks(), one.type)
        if not one.nullable and values.null_count and one.name not in keys:
            values = pc.if_else(pc.and_(deletes, values.is_null()), _some_value(one), values)
        columns.append(values)
    return pa.table(columns, schema.names)


def _of_kind(batch: pa.RecordBatch, kind: RowKind) -> pa.RecordBatch:
    kinds = pa.repeat(pa.scalar(int(kind), pa.int8()), batch.num_rows)
    return batch.append_column(ROW_KIND_COLUMN, kinds)


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast values, or leave them as they are if one does not fit: they are looked at one by one."""
    try:
        return values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return values


def _some_value(column: pa.Field) -> pa.Scalar:
    """A value of a type, the same each time: zero, false or empty."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pa.scalar("" if pa.types.is_string(kind) else b"", kind)
    if pa.types.is_nested(kind):
        empty = {f.name: None for f in kind} if pa.types.is_struct(kind) else []
        return pa.scalar(empty, kind)
    if pa.types.is_boolean(kind):
        return pa.scalar(False, kind)
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.scalar(0, width).cast(kind)
    return pa.scalar(Decimal(0), kind) if pa.types.is_decimal(kind) else pa.scalar(0, kind)
