"""Updates rows: sets some columns of the rows that match to new values, in one commit.

An upsert of some columns does the same for rows found by their keys (:func:`upsert_columns`); rows
of new keys are inserted in the same commit.

1. An append table: :mod:`tidelake.table.rowlevel.append_change`.
2. A primary-key table: the matching rows of the newest snapshot are read, computed, and written
   back whole with the kind ``+U``; the merge does the rest. If another commit wrote to their keys
   meanwhile, its values would be lost. That is a conflict, and everything is repeated on the newest
   snapshot.
3. The merge engine must show a row as written. ``deduplicate`` does, and ``partial-update`` for
   most rows; ``aggregation`` would add the new values to the old, and ``first-row`` keeps the old.
   Source of this rule: Paimon's ``RowLevelOp`` (1.3.1) for Spark.
4. Even so a row may lose: by a ``sequence.field`` set to an older value, a null that
   ``partial-update`` takes for "not given", a column of a sequence group whose sequence is null, a
   column that a group aggregates. Such an update is refused: each batch of rows is merged with its
   old rows, and must come out unchanged. Paimon accepts such updates, without effect.

Rows in a postpone bucket may be newer than the rows read, so they must be compacted first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tidelake.codec.row_codes import rows_differ
from tidelake.codec.sorted_keys import SortedKeys
from tidelake.commit.conflicts.concurrent_changes import EMPTY_TABLE
from tidelake.errors import InvalidInputError, UnsupportedError, near_names, shortened
from tidelake.format import KIND_FIELD, SEQUENCE_FIELD
from tidelake.merge import MergeSpec, merge_buffer
from tidelake.merge.spec import AGGREGATION, DEDUPLICATE, PARTIAL_UPDATE
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.paths import POSTPONE_BUCKET
from tidelake.options import declared
from tidelake.scan import live_buckets
from tidelake.table.conversion.inputs import record_batches
from tidelake.table.handle.arguments import column_names
from tidelake.table.handle.handle import TableHandle
from tidelake.table.read.table_scan import scan_all_rows
from tidelake.table.rowlevel.append_change import change_rows
from tidelake.table.rowlevel.assignments import Assignments
from tidelake.table.rowlevel.key_lookup import KeyLookup, LookedUpRows
from tidelake.table.write.result import CommitIdentity, RowCounts, WriteResult
from tidelake.table.write.transaction import WriteTransaction
from tidelake.types import DataField, RowKind
from tidelake.types.arrow import to_arrow_schema, to_arrow_type
from tidelake.types.conform import conform
from tidelake.types.default_value import default_scalars, filled_in
from tidelake.types.predicate import Always, Predicate, bind, parse_filter


def update_rows(
    handle: TableHandle, values: object, where: object, *, identity: CommitIdentity
) -> WriteResult:
    """Update; see :meth:`tidelake.table.Table.update`."""
    transaction = WriteTransaction(handle, identity)
    check_updatable(handle)
    assignments = Assignments.of(handle, values)
    given = parse_filter(where)
    predicate = Always(value=True) if given is None else bind(given, handle.schema.fields)
    if not handle.schema.primary_keys:
        return change_rows(transaction, predicate, assignments)
    return transaction.run(_KeyedUpdate(transaction, predicate, assignments))


def check_updatable(handle: TableHandle) -> None:
    """Refuse a table whose merge engine does not show rows as written.

    Raises
    ------
    UnsupportedError
        Its engine does not update rows.
    """
    engine = handle.options.get(declared.MERGE_ENGINE)
    if not handle.schema.primary_keys or engine in {DEDUPLICATE, PARTIAL_UPDATE}:
        return
    reason = (
        "which would aggregate the new values with the old: write rows that hold the difference"
        if engine == AGGREGATION
        else "which keeps the first row of a key: no update would show"
    )
    message = f"Table '{handle.identifier}' has the merge engine '{engine}', {reason}."
    raise UnsupportedError(message, kind="update_engine", table=handle.identifier)


def check_none_wait(handle: TableHandle, snapshot: Snapshot) -> None:
    """Refuse a table that has rows in the postpone bucket.

    Raises
    ------
    UnsupportedError
        Some do.
    """
    if handle.options.get(declared.BUCKET) != POSTPONE_BUCKET:
        return
    buckets = live_buckets(handle.read_context(), snapshot, manifests=handle.manifests)
    if any(b.bucket == POSTPONE_BUCKET for b in buckets):
        message = (
            f"Rows wait in the postpone bucket of table '{handle.identifier}'. An update made from"
            " older rows of their keys would hide them: call compact() first."
        )
        raise UnsupportedError(message, kind="update_postponed", table=handle.identifier)


class ShownRows:
    """Checks that a merge shows new rows of a primary-key table as written. Picklable."""

    def __init__(self, handle: TableHandle, columns: Collection[str]) -> None:
        schema = handle.schema
        spec = MergeSpec.of(schema, handle.options)
        keys = schema.primary_keys  # a batch may hold rows of several partitions
        self._table = handle.identifier
        self._spec = replace(
            spec, key_columns=keys, key_types=tuple(schema.field(k).type for k in keys)
        )
        self.may_be_lost = spec.engine == PARTIAL_UPDATE or not frozenset(
            spec.sequence_columns
        ).isdisjoint(columns)
        """Whether there is anything to check."""

    def check(self, before: pa.RecordBatch, after: pa.RecordBatch) -> None:
        """Refuse rows that would be lost, wholly or partly.

        Requires: rows of different keys; each new row at the position of the old one.

        Raises
        ------
        InvalidInputError
            Some rows would be lost.
        """
        if not self.may_be_lost:
            return
        old = _versioned(before.cast(after.schema), 0, RowKind.INSERT)
        new = _versioned(after, 1, RowKind.UPDATE_AFTER)
        wanted = _merged([new], self._spec, after)
        shown = _merged([old, new], self._spec, after)
        differ = rows_differ(wanted, shown)
        if not differ.any():
            return
        first = int(np.flatnonzero(differ)[0])
        columns = [
            name
            for name in after.schema.names
            if rows_differ(wanted.select([name]), shown.select([name])).any()
        ]
        key = {name: wanted.column(name)[first].as_py() for name in self._spec.key_columns}
        message = (
            f"An update of table '{self._table}' would have no effect in {int(differ.sum())} rows,"
            f" such as {key}, in the columns {', '.join(columns)}: {self._reason()} Nothing was"
            " changed."
        )
        raise InvalidInputError(message, kind="update_lost", table=self._table)

    def _reason(self) -> str:
        if self._spec.engine == PARTIAL_UPDATE:
            return (
                "the merge engine 'partial-update' ignores nulls, aggregates columns that have a"
                " function, and takes a sequence group's columns only with a sequence that is"
                " neither null nor older."
            )
        return (
            f"their sequence ({', '.join(self._spec.sequence_columns)}) would be older than now,"
            " and the older row of a key loses."
        )


def _versioned(rows: pa.RecordBatch, number: int, kind: RowKind) -> pa.RecordBatch:
    count = rows.num_rows
    numbers = pa.array(np.full(count, number, np.int64))
    kinds = pa.array(np.full(count, kind, np.int8))
    return pa.RecordBatch.from_arrays(
        [*rows.columns, numbers, kinds], [*rows.schema.names, SEQUENCE_FIELD.name, KIND_FIELD.name]
    )


def _merged(batches: list[pa.RecordBatch], spec: MergeSpec, like: pa.RecordBatch) -> pa.RecordBatch:
    """Merged rows in key order, with the columns of `like`."""
    merged = merge_buffer(batches, spec).select(like.schema.names)
    return merged.combine_chunks().to_batches()[0]


@dataclass(frozen=True, slots=True)
class _KeyedUpdate:
    """An update of a primary-key table."""

    transaction: WriteTransaction
    predicate: Predicate
    assignments: Assignments

    def attempt(self) -> WriteResult:
        """Run it on the newest snapshot."""
        handle = self.transaction.handle
        handle.schemas.check_same(handle.schema, table=handle.identifier)
        snapshot = handle.snapshots.latest()
        if snapshot is None:
            return WriteResult()
        check_none_wait(handle, snapshot)
        # rows on level 0 are committed: an update of older ones would hide them
        shown = ShownRows(handle, self.assignments.columns)
        with scan_all_rows(handle, snapshot, self.predicate) as scan, self.transaction as out:
            writer = out.open_writer(base_snapshot_id=snapshot.id, fills_defaults=False)
            for batch in scan.batches():
                if batch.num_rows:
                    new = self.assignments(batch)
                    shown.check(batch, new)
                    writer.write(new, np.full(new.num_rows, RowKind.UPDATE_AFTER, np.int8))
            counts = RowCounts(updated=writer.rows_count)
            return out.commit(read_snapshot=snapshot, counts=counts)


def upsert_columns(
    handle: TableHandle, data: object, columns: Sequence[str], *, identity: CommitIdentity
) -> WriteResult:
    """Upsert some columns; see :meth:`tidelake.table.Table.upsert`.

    Costs a read of the rows of the keys given; memory: the rows given, and the old ones.
    """
    transaction = WriteTransaction(handle, identity)
    chosen = _chosen_columns(handle, columns)
    given = _rows_of_columns(handle, data, chosen)
    if not given.num_rows:
        return transaction.replayed() or WriteResult()
    return transaction.run(_ColumnUpsert(transaction, given, chosen))


def _chosen_columns(handle: TableHandle, columns: Sequence[str]) -> tuple[DataField, ...]:
    """The columns to set, in the table's order."""
    schema, table = handle.schema, handle.identifier
    engine = handle.options.get(declared.MERGE_ENGINE)
    if engine != DEDUPLICATE:
        message = (
            f"Table '{table}' has the merge engine '{engine}', but columns= needs 'deduplicate',"
            " which replaces whole rows: write all columns, with None for values to keep."
        )
        raise UnsupportedError(message, kind="upsert_columns", table=table)
    names = column_names(columns, schema.field_names, table=table)
    for name in names:
        if name not in schema.field_names:
            message = (
                f"columns= names '{shortened(name)}', which is not a column of table '{table}'."
                f"{near_names(name, schema.field_names)} Its columns are:"
                f" {', '.join(schema.field_names)}."
            )
            raise InvalidInputError(message, kind="column_unknown", table=table, column=name)
    keys = schema.primary_keys
    chosen = tuple(f for f in schema.fields if f.name in names and f.name not in keys)
    if not chosen:
        message = f"columns= names no column of table '{table}' besides its key: name some."
        raise InvalidInputError(message, kind="bad_argument", table=table)
    return chosen


def _rows_of_columns(
    handle: TableHandle, data: object, chosen: Sequence[DataField]
) -> pa.RecordBatch:
    """The keys and the columns to set, as stored; other columns are left out."""
    schema, table = handle.schema, handle.identifier
    keys = list(schema.primary_keys)
    wanted = [schema.field(name) for name in keys] + list(chosen)
    names = {f.name for f in wanted}
    others = [f.name for f in schema.fields if f.name not in names]
    defaults = default_scalars(wanted, zone=handle.env.zone)
    # each column to set must be given, even if it has a default
    required = [replace(f, default_value=None) for f in wanted]
    read = [*required, *(schema.field(name) for name in others)]
    parts: list[pa.RecordBatch] = []
    count = 0
    for batch in record_batches(data, read, table=table, optional=others):
        kept = [name for name in batch.schema.names if name not in others]
        rows = conform(batch.select(kept), required, table=table, first_row=count)
        parts.append(filled_in(rows, defaults))
        count += batch.num_rows
    if not count:
        return pa.RecordBatch.from_pylist([], schema=to_arrow_schema(wanted))
    (given,) = pa.Table.from_batches(parts).combine_chunks().to_batches()
    types = [schema.field(name).type for name in keys]
    repeated = SortedKeys([given.column(name) for name in keys], types).repeated()
    if repeated is not None:
        key = given.select(keys).slice(repeated, 1).to_pylist()[0]
        message = (
            f"The rows for table '{table}' have {shortened(str(key))} more than once, and columns="
            " does not define which of them is the last: give each key once."
        )
        raise InvalidInputError(message, kind="key_twice", table=table)
    return given


@dataclass(frozen=True, slots=True)
class _ColumnUpsert:
    """An upsert of some columns."""

    transaction: WriteTransaction
    given: pa.RecordBatch
    chosen: Sequence[DataField]

    def attempt(self) -> WriteResult:
        """Run it on the newest snapshot."""
        handle, given = self.transaction.handle, self.given
        handle.schemas.check_same(handle.schema, table=handle.identifier)
        snapshot = handle.snapshots.latest()
        changed, added = None, given
        if snapshot is not None:
            check_none_wait(handle, snapshot)
            finder = KeyLookup(
                handle.read_context(all_rows=True),
                snapshot,
                manifests=handle.manifests,
                columns=handle.schema.field_names,
            )
            with handle.hold(snapshot):
                found = finder.find(given.select(list(handle.schema.primary_keys)))
            added = given.filter(pa.array(~found.is_found))
            if found.rows.num_rows:
                changed = _with_columns(found, given, self.chosen)
                ShownRows(handle, [f.name for f in self.chosen]).check(found.rows, changed)
        new = _new_rows(handle, added)
        base_id = 0 if snapshot is None else snapshot.id
        with self.transaction as out:
            writer = out.open_writer(base_snapshot_id=base_id, fills_defaults=False)
            for rows, kind in ((changed, RowKind.UPDATE_AFTER), (new, RowKind.INSERT)):
                if rows is not None:
                    writer.write(rows, np.full(rows.num_rows, kind, np.int8))
            counts = RowCounts(inserted=added.num_rows, updated=given.num_rows - added.num_rows)
            return out.commit(read_snapshot=snapshot or EMPTY_TABLE, counts=counts)


def _with_columns(
    found: LookedUpRows, given: pa.RecordBatch, chosen: Sequence[DataField]
) -> pa.RecordBatch:
    """The rows found, with the given columns of their keys."""
    known = np.flatnonzero(found.is_found)
    order = np.empty(len(known), np.intp)
    order[found.positions[known]] = known
    new = given.take(pa.array(order))
    names = {f.name for f in chosen}
    old = found.rows
    columns = [(new if name in names else old).column(name) for name in old.schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=old.schema)


def _new_rows(handle: TableHandle, given: pa.RecordBatch) -> pa.RecordBatch | None:
    """Whole rows of new keys: other columns have their default, or are null."""
    schema, table = handle.schema, handle.identifier
    if not given.num_rows:
        return None
    defaults = default_scalars(schema.fields, zone=handle.env.zone)
    columns = []
    for index, field in enumerate(schema.fields):
        if field.name in given.schema.names:
            columns.append(given.column(field.name))
        elif index in defaults:
            columns.append(pa.repeat(defaults[index], given.num_rows))
        elif field.type.nullable:
            columns.append(pa.nulls(given.num_rows, to_arrow_type(field.type)))
        else:
            key = given.select(list(schema.primary_keys)).slice(0, 1).to_pylist()[0]
            message = (
                f"{given.num_rows} keys are new in table '{table}', such as {shortened(str(key))},"
                f" but its column '{field.name}' is NOT NULL without a default: give it too, in"
                " columns= and in the rows."
            )
            raise InvalidInputError(message, kind="null_value", table=table, column=field.name)
    return pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(schema.fields))
