"""Rows that the log sent for one version of a table, to :class:`SourceRows`.

What the log sends with an update depends on the table's replica identity:

====================  =======================================================================
DEFAULT               the new row; in front the old key (others null) if the key changed
FULL                  the whole old row, then the new one
====================  =======================================================================

A large value that was stored out of line and did not change is never in the new row. With FULL it
is in the old row and is taken from there. Otherwise it is not sent at all: the row is marked.

Each message gives up to two rows of the result: -D of the old row at order ``2 * index``, and the
new row at ``2 * index + 1``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidelake.cdc.postgres.log.log_messages import INSERT
from tidelake.cdc.postgres.log.relation import RelationVersion
from tidelake.cdc.postgres.log.tuple_columns import TextColumn
from tidelake.cdc.postgres.values.casts import cast_texts
from tidelake.cdc.source.changes import Rejected, SourceRows
from tidelake.cdc.source.source_table import SourceTable
from tidelake.types import RowKind
from tidelake.types.arrow import to_arrow_type


@dataclass(frozen=True, slots=True)
class SentRows:
    """Row messages of one version of a table, `n` in the order of the log.

    Parameters
    ----------
    new, old : sequence of TextColumn
        Columns of the new rows, which all messages but deletes have, and of the old rows.
    has_new, has_old, is_old_whole : numpy.ndarray
        ``[n]``: whether a message has a new row, an old row, and all columns of an old row.
    kinds, lsn, index, committed_ms : numpy.ndarray
        ``[n]``: as of :class:`~tidelake.cdc.postgres.log.log_messages.LogMessages`.
    """

    new: Sequence[TextColumn]
    old: Sequence[TextColumn]
    has_new: NDArray[np.bool_]
    has_old: NDArray[np.bool_]
    is_old_whole: NDArray[np.bool_]
    kinds: NDArray[np.uint8]
    lsn: NDArray[np.int64]
    index: NDArray[np.int64]
    committed_ms: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Texts:
    """Rows of the result as texts.

    Parameters
    ----------
    columns : dict of str to TextColumn
        ``[m]``.
    message : numpy.ndarray
        ``[m]``: the message of each row.
    is_deleted : numpy.ndarray
        ``[m]``: whether a row is a -D.
    """

    columns: dict[str, TextColumn]
    message: NDArray[np.int64]
    is_deleted: NDArray[np.bool_]


def row_changes(
    sent: SentRows,
    relation: RelationVersion,
    table: SourceTable,
    others: frozenset[str] = frozenset(),
) -> SourceRows:
    """Give the rows their kinds, cast them, and take out those that do not fit.

    Parameters
    ----------
    others : frozenset of str
        Columns that count as the key's; the log has whole old rows then.
    """
    texts = _with_old_values(sent, relation)
    rows = _rows(sent, texts, table, others)
    kinds = np.where(
        rows.is_deleted,
        RowKind.DELETE,
        np.where(sent.kinds[rows.message] == INSERT, RowKind.INSERT, RowKind.UPDATE_AFTER),
    ).astype(np.int8)
    order = np.column_stack(
        (sent.lsn[rows.message], 2 * sent.index[rows.message] + ~rows.is_deleted)
    )
    changed_ms = sent.committed_ms[rows.message]
    values, faults = cast_rows(rows.columns, table, is_deleted=rows.is_deleted, others=others)
    unchanged = {
        name: column.unchanged
        for name, column in rows.columns.items()
        if column.unchanged is not None and name in values.schema.names
    }
    old_keys = _old_keys(rows, table, values) if unchanged else None
    if faults:
        kept = np.ones(len(kinds), bool)
        kept[list(faults)] = False
        rejected = _rejected(rows, table, kinds, order, faults)
        values = values.filter(pa.array(kept))
        kinds, order, changed_ms = kinds[kept], order[kept], changed_ms[kept]
        unchanged = {name: mask[kept] for name, mask in unchanged.items() if mask[kept].any()}
        old_keys = old_keys.filter(pa.array(kept)) if old_keys is not None and unchanged else None
    else:
        rejected = ()
    return SourceRows(table, values, kinds, order, changed_ms, unchanged, old_keys, rejected)


def joined(parts: Sequence[SourceRows]) -> SourceRows:
    """Join the rows of one version of a table; there must be some."""
    first = parts[0]
    if len(parts) == 1:
        return first
    names = dict.fromkeys(name for part in parts for name in part.unchanged)
    unchanged = {
        name: np.concatenate(
            [part.unchanged.get(name, np.zeros(len(part.kinds), bool)) for part in parts]
        )
        for name in names
    }
    old_keys = None
    if unchanged:
        keys = list(first.table.keys)
        old_keys = pa.concat_batches(
            [part.rows.select(keys) if part.old_keys is None else part.old_keys for part in parts]
        )
    return SourceRows(
        first.table,
        pa.concat_batches([part.rows for part in parts]),
        np.concatenate([part.kinds for part in parts]),
        np.concatenate([part.order for part in parts]),
        np.concatenate([part.changed_ms for part in parts]),
        unchanged,
        old_keys,
        tuple(rejected for part in parts for rejected in part.rejected),
    )


def cast_rows(
    columns: Mapping[str, TextColumn],
    table: SourceTable,
    *,
    is_deleted: NDArray[np.bool_] | None = None,
    others: frozenset[str] = frozenset(),
) -> tuple[pa.RecordBatch, dict[int, str]]:
    """Cast rows of texts to the columns of a table.

    Parameters
    ----------
    is_deleted : numpy.ndarray, optional
        Rows of which only the key must fit, or all without a key; of them another value that does
        not fit is null.
    others : frozenset of str
        Columns that must fit as the key, and may be null.

    Returns
    -------
    rows : pyarrow.RecordBatch
        ``[m]``: a row that does not fit too, with nulls.
    faults : dict of int to str
        What does not fit, by the number of its row.
    """
    arrays, fields = [], []
    faults: dict[int, str] = {}
    for field in table.fields:
        values, wrong = cast_texts(columns[field.name].texts, field.type)
        is_key = field.name in table.keys
        for row, clause in wrong.items():
            tells_row = is_key or not table.keys or field.name in others
            if tells_row or is_deleted is None or not is_deleted[row]:
                faults.setdefault(row, f"column '{field.name}': {clause}")
        if is_key and values.null_count > len(wrong):
            for row in np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).tolist():
                faults.setdefault(row, f"column '{field.name}': the key was not sent")
        arrays.append(values)
        fields.append(pa.field(field.name, to_arrow_type(field.type)))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)), faults


def _with_old_values(sent: SentRows, relation: RelationVersion) -> list[TextColumn]:
    """The new rows' columns, with unchanged values from the old rows where those have them."""
    has_both = (sent.has_old & sent.has_new)[sent.has_new]
    if not any(column.unchanged is not None for column in sent.new) or not has_both.any():
        return list(sent.new)
    # the number of each new row's old row
    old_number = (np.cumsum(sent.has_old) - 1)[sent.has_new]
    is_whole = sent.is_old_whole[sent.has_new]
    filled = []
    for new, old, described in zip(sent.new, sent.old, relation.columns, strict=True):
        if new.unchanged is None:
            filled.append(new)
            continue
        known = new.unchanged & has_both & (is_whole | described.is_identity)
        take = np.arange(len(known))
        take[known] = len(known) + old_number[known]
        texts = pa.concat_arrays([new.texts, old.texts]).take(pa.array(take))
        left = new.unchanged & ~known
        filled.append(TextColumn(texts, left if left.any() else None))
    return filled


def _rows(
    sent: SentRows, new: Sequence[TextColumn], table: SourceTable, others: frozenset[str]
) -> _Texts:
    """Put old and new rows in the order of the result."""
    names = _names(table)
    is_deleted = ~sent.has_new | _changed_keys(sent, new, table, others)
    count = len(is_deleted)
    if not is_deleted.any():
        message = np.arange(count)
        columns = dict(zip(names, new, strict=True))
        return _Texts(columns, message, np.zeros(count, bool))
    # two places for each message, the old row's first; some stay empty
    is_there = np.column_stack((is_deleted, sent.has_new)).reshape(-1)
    new_number = np.cumsum(sent.has_new) - 1
    old_number = np.cumsum(sent.has_old) - 1
    new_count = int(sent.has_new.sum())
    numbers = np.column_stack((new_count + old_number, new_number)).reshape(-1)[is_there]
    take = pa.array(numbers)
    deleted = np.tile([True, False], count)[is_there]
    columns = {}
    for place, name in enumerate(names):
        both = [part[place].texts for part in (new, sent.old) if part]
        unchanged = new[place].unchanged if new else None
        mask = None
        if unchanged is not None:
            mask = np.zeros(len(numbers), bool)
            mask[~deleted] = unchanged[numbers[~deleted]]
        texts = pa.concat_arrays(both) if len(both) > 1 else both[0]
        columns[name] = TextColumn(texts.take(take), mask)
    return _Texts(columns, np.repeat(np.arange(count), 2)[is_there], deleted)


def _names(table: SourceTable) -> list[str]:
    return [column.name for column in table.columns]


def _changed_keys(
    sent: SentRows, new: Sequence[TextColumn], table: SourceTable, others: frozenset[str]
) -> NDArray[np.bool_]:
    """Whether each message is an update that moved the row to another key."""
    changed = np.zeros(len(sent.kinds), bool)
    both = sent.has_old & sent.has_new
    if not both.any():
        return changed
    if not table.keys:
        # nothing says which row it was but the whole old row
        return both & sent.is_old_whole
    of_new = pa.array(np.flatnonzero(both[sent.has_new]))
    of_old = pa.array(np.flatnonzero(both[sent.has_old]))
    differs = np.zeros(int(both.sum()), bool)
    is_whole = sent.is_old_whole[both]
    for place, name in enumerate(_names(table)):
        if name not in table.keys and name not in others:
            continue
        before, after = sent.old[place].texts.take(of_old), new[place].texts.take(of_new)
        one = pc.fill_null(pc.not_equal(before, after), False).to_numpy(zero_copy_only=False)
        nulls = pc.xor(before.is_null(), after.is_null()).to_numpy(zero_copy_only=False)
        # what only a part of an old row lacks is not known
        differs |= one | (nulls & is_whole)
    changed[both] = differs
    return changed


def _old_keys(rows: _Texts, table: SourceTable, values: pa.RecordBatch) -> pa.RecordBatch:
    """The key under which each row stood before its change."""
    take = np.arange(len(rows.message))
    # the -D of a key change stands right before its new row
    follows = np.zeros(len(take), bool)
    follows[1:] = (rows.message[1:] == rows.message[:-1]) & rows.is_deleted[:-1]
    take[follows] -= 1
    return values.select(list(table.keys)).take(pa.array(take))


def _rejected(
    rows: _Texts,
    table: SourceTable,
    kinds: NDArray[np.int8],
    order: NDArray[np.int64],
    faults: Mapping[int, str],
) -> tuple[Rejected, ...]:
    found = []
    for row in sorted(faults):
        position = int(order[row, 0]), int(order[row, 1])
        payload = payload_of(rows.columns, row)
        found.append(Rejected(table.name, position, int(kinds[row]), faults[row], payload))
    return tuple(found)


def payload_of(columns: Mapping[str, TextColumn], row: int) -> str:
    """One row as JSON; values that were not sent are left out."""
    shown = {
        name: column.texts[row].as_py()
        for name, column in columns.items()
        if column.unchanged is None or not column.unchanged[row]
    }
    return json.dumps(shown, ensure_ascii=False)
