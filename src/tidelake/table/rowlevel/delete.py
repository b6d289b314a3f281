"""Deletes rows: by predicate, or by primary key.

1. A predicate on partition columns alone (or one that is always true) drops whole partitions in the
   metadata, on any table: an overwrite, which has no changelog. With
   ``delete.force-produce-changelog`` a primary-key table deletes these rows one by one, as in 2.
2. On a primary-key table, other predicates read the matching rows of the newest snapshot and write
   them back as ``-D``.
3. Of given rows only the key columns count: they are written as ``-D`` rows, the other columns
   null. If that is impossible (a column is NOT NULL) or would have no effect (``sequence.field``: a
   null or an older value loses), the keys' current rows are read and written as ``-D`` instead;
   keys without a row need no delete. If a group's sequence decides whether a delete counts, a row
   without that sequence is refused: its ``-D`` would remove columns and leave the row.
4. An append table has no keys: matching rows are marked where they are, or their files are
   rewritten without them (:mod:`tidelake.table.rowlevel.append_change`).
5. Named partitions, or the whole table, are dropped in the metadata: an overwrite with no rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from tidelake.errors import InvalidInputError, UnsupportedError, near_names, shortened
from tidelake.merge import MergeSpec, deletes_remove
from tidelake.merge.spec import AGGREGATION, FIRST_ROW, PARTIAL_UPDATE
from tidelake.options import declared
from tidelake.table.conversion.inputs import record_batches
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.partition_spec import partitions_predicate
from tidelake.table.read.table_scan import scan_all_rows
from tidelake.table.rowlevel.append_change import change_rows
from tidelake.table.write.overwrite import Overwrite
from tidelake.table.write.result import CommitIdentity, RowCounts, WriteResult
from tidelake.table.write.transaction import RowBatches, WriteTransaction
from tidelake.types import DataField, RowKind
from tidelake.types.arrow import to_arrow_schema, to_arrow_type
from tidelake.types.conform import conform
from tidelake.types.predicate import (
    Predicate,
    among_keys,
    bind,
    columns_of,
    evaluate,
    parse_filter,
)


def is_filter(target: object) -> bool:
    """Whether the rows to delete are given as a predicate: text, a predicate, or tuples."""
    if isinstance(target, (str, Predicate)):
        return True
    if isinstance(target, tuple) and target and isinstance(target[0], str):
        return True  # one condition: ("v", ">", 1)
    return (
        isinstance(target, Sequence)
        and len(target) > 0
        and all(isinstance(part, (tuple, list)) for part in target)
    )


def delete_rows(handle: TableHandle, target: object, *, identity: CommitIdentity) -> WriteResult:
    """Delete; see :meth:`tidelake.table.Table.delete`."""
    transaction = WriteTransaction(handle, identity)
    if is_filter(target):
        return delete_matching(transaction, bind(_parsed(target), handle.schema.fields))
    check_deletes_count(handle)
    return transaction.write_batches(_key_deletes(handle, target))


def _parsed(target: object) -> Predicate:
    predicate = parse_filter(target)
    assert predicate is not None, "a given filter is not empty"
    return predicate


def deletes_by_row(handle: TableHandle) -> bool:
    """Whether a delete writes a -D for each row, also where a change of metadata would do."""
    forced = handle.options.get(declared.DELETE_FORCE_PRODUCE_CHANGELOG)
    return bool(handle.schema.primary_keys) and forced


def is_metadata_only(handle: TableHandle, predicate: Predicate) -> bool:
    """Whether a delete by a bound predicate reads no row.

    The predicate uses partition columns only, or is always false.
    """
    names = columns_of(predicate)
    if not names and not _is_true(predicate):
        return True
    return names <= frozenset(handle.schema.partition_keys) and not deletes_by_row(handle)


def check_deletes_count(handle: TableHandle) -> None:
    """Refuse a table in which a ``-D`` row does not delete.

    Raises
    ------
    InvalidInputError
        Its merge engine, or an option of it, ignores deletes.
    UnsupportedError
        It has no primary key.
    """
    if not handle.schema.primary_keys:
        message = (
            f"Table '{handle.identifier}' has no primary key, so rows cannot be deleted by keys:"
            ' delete by a predicate, as in "v > 10".'
        )
        raise UnsupportedError(message, kind="delete_append", table=handle.identifier)
    _check_deletes_remove(handle)
    if handle.options.get(declared.IGNORE_DELETE):
        message = (
            f"Table '{handle.identifier}' has 'ignore-delete' = 'true': a delete would change"
            " nothing. Remove the option first."
        )
        raise InvalidInputError(message, kind="delete_ignored", table=handle.identifier)


def _check_deletes_remove(handle: TableHandle) -> None:
    spec = MergeSpec.of(handle.schema, handle.options)
    if spec.ignore_delete or deletes_remove(spec):
        return
    if spec.engine == FIRST_ROW:
        message = (
            f"Table '{handle.identifier}' has the merge engine '{FIRST_ROW}', which never deletes a"
            " row. Drop whole partitions, or make the table with 'deduplicate'."
        )
        raise InvalidInputError(message, kind="no_delete", table=handle.identifier)
    advice = {
        PARTIAL_UPDATE: "'partial-update.remove-record-on-delete' = 'true', or name a sequence"
        " group in 'partial-update.remove-record-on-sequence-group'",
        AGGREGATION: "'aggregation.remove-record-on-delete' = 'true'; to take single values back,"
        " write rows with the kind -D",
    }[spec.engine]
    message = (
        f"Table '{handle.identifier}' has the merge engine '{spec.engine}'. With its options a"
        f" delete does not remove a row. Make it with {advice}."
    )
    raise InvalidInputError(message, kind="no_delete", table=handle.identifier)


def removing_columns(handle: TableHandle) -> tuple[str, ...]:
    """Find the columns in which a row needs one value, so that a -D of its own values removes it.

    Empty if any row can be removed. They are the sequences of groups that remove rows: a null
    sequence decides nothing for its group.
    """
    spec = MergeSpec.of(handle.schema, handle.options)
    return tuple(name for group in spec.groups if group.removes for name in group.columns)


def not_removed(handle: TableHandle, key: Mapping[str, object]) -> InvalidInputError:
    """The error of a row without any of the :func:`removing_columns`."""
    names = ", ".join(removing_columns(handle))
    message = (
        f"A delete from table '{handle.identifier}' would not remove the row of {dict(key)}: it has"
        f" no value in {names}, but 'partial-update.remove-record-on-sequence-group' lets only"
        " such a value delete. Nothing was written: give the row a value there first."
    )
    return InvalidInputError(message, kind="no_delete", table=handle.identifier)


def drop_partitions(
    handle: TableHandle, partitions: object, *, identity: CommitIdentity
) -> WriteResult:
    """Drop the files of some partitions; see :meth:`tidelake.table.Table.drop_partitions`."""
    static = partitions_predicate(handle.schema, partitions, table=handle.identifier)
    return _drop(handle, static, identity)


def truncate(handle: TableHandle, *, identity: CommitIdentity) -> WriteResult:
    """Drop all files; see :meth:`tidelake.table.Table.truncate`."""
    return _drop(handle, None, identity)


def _drop(handle: TableHandle, static: Predicate | None, identity: CommitIdentity) -> WriteResult:
    return WriteTransaction(handle, identity, overwrite=Overwrite(static)).write_batches(())


def delete_matching(transaction: WriteTransaction, predicate: Predicate) -> WriteResult:
    """Delete the rows that a bound predicate matches, in this process."""
    handle, identity = transaction.handle, transaction.identity
    is_all = not columns_of(predicate)
    if is_all and not _is_true(predicate):
        return WriteResult()
    if is_metadata_only(handle, predicate):
        return _drop(handle, None if is_all else predicate, identity)
    if not handle.schema.primary_keys:
        return change_rows(transaction, predicate)
    check_deletes_count(handle)
    deleted = transaction.write_batches(
        _as_deletes(handle, _rows(handle, None if is_all else predicate))
    )
    return deleted.with_counts(RowCounts(deleted=deleted.rows))


def _is_true(predicate: Predicate) -> bool:
    """The value of a predicate without columns, the same for every row."""
    return bool(evaluate(predicate, pa.record_batch({"": [0]}), ())[0].as_py())


def _rows(handle: TableHandle, predicate: Predicate | None) -> Iterator[pa.RecordBatch]:
    """All columns of the newest snapshot's rows that match, including rows on level 0."""
    with scan_all_rows(handle, handle.snapshots.latest(), predicate) as scan:
        yield from scan.batches()


def _as_deletes(handle: TableHandle, rows: Iterator[pa.RecordBatch]) -> RowBatches:
    removing = removing_columns(handle)
    for batch in rows:
        if removing:
            _check_removed(handle, batch, removing)
        yield batch, np.full(batch.num_rows, RowKind.DELETE, dtype=np.int8)


def _check_removed(handle: TableHandle, rows: pa.RecordBatch, removing: Sequence[str]) -> None:
    stays = np.ones(rows.num_rows, np.bool_)
    for name in removing:
        stays &= np.asarray(rows.column(name).is_null())
    if stays.any():
        keys = rows.select(handle.schema.primary_keys)
        raise not_removed(handle, keys.slice(int(stays.argmax()), 1).to_pylist()[0])


def _key_deletes(handle: TableHandle, keys: object) -> RowBatches:
    schema = handle.schema
    key_fields = [schema.field(name) for name in schema.primary_keys]
    others = [f for f in schema.fields if f.name not in schema.primary_keys]
    spec = MergeSpec.of(schema, handle.options)
    needed = frozenset(spec.sequence_columns).union(*(group.columns for group in spec.groups))
    present = schema.keys_may_move or any(not f.type.nullable or f.name in needed for f in others)
    not_keys = frozenset(f.name for f in others)
    table = handle.identifier
    for batch in record_batches(keys, schema.fields, table=table, optional=not_keys):
        own = batch.select([name for name in batch.schema.names if name not in not_keys])
        _check_keys_given(handle, own.schema.names)
        rows = conform(own, key_fields, table=table)
        if present:
            yield from _as_deletes(handle, _present_rows(handle, rows, key_fields))
        else:
            yield from _as_deletes(handle, iter([_with_nulls(rows, schema.fields)]))


def _check_keys_given(handle: TableHandle, given: Sequence[str]) -> None:
    schema = handle.schema
    keys = schema.primary_keys
    missing = [name for name in keys if name not in given]
    unknown = [name for name in given if name not in keys]
    if unknown:
        shown = shortened(unknown[0])
        wrong = f"'{shown}' is not a column of the table.{near_names(unknown[0], keys)}"
    elif missing:
        wrong = f"'{missing[0]}' is missing."
    else:
        return
    column = (unknown or missing)[0]
    message = (
        f"A delete by keys from table '{handle.identifier}' takes rows with the columns of its"
        f" primary key: {', '.join(keys)}. {wrong} To delete by other"
        ' columns give a condition, as in table.delete("v > 10").'
    )
    kind = "column_unknown" if unknown else "column_missing"
    raise InvalidInputError(message, kind=kind, table=handle.identifier, column=column)


def _with_nulls(rows: pa.RecordBatch, fields: Sequence[DataField]) -> pa.RecordBatch:
    columns = [
        rows.column(f.name)
        if f.name in rows.schema.names
        else pa.nulls(rows.num_rows, to_arrow_type(f.type))
        for f in fields
    ]
    return pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(fields))


def _present_rows(
    handle: TableHandle, keys: pa.RecordBatch, key_fields: Sequence[DataField]
) -> Iterator[pa.RecordBatch]:
    """The newest snapshot's rows of these keys."""
    names = [f.name for f in key_fields]
    wanted = pa.table(keys)
    for batch in _rows(handle, among_keys(keys, key_fields)):
        # Arrow cannot join nested columns, so only keys and row numbers are joined
        rows = pa.array(np.arange(batch.num_rows))
        numbered = pa.Table.from_batches([batch.select(names).append_column("", rows)])
        found = numbered.join(wanted, keys=names, join_type="left semi").column("")
        yield batch.take(found.combine_chunks().sort())
