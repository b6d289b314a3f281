"""Values that the source did not send because they did not change: taken from the table.

PostgreSQL leaves out large values that an update did not touch. Such a value stands

1. in an earlier row of the same key in the same batch, if that row has it or was itself filled;
2. else in the table, under the key before the update.

A row whose value is in neither is not whole: it is left out, and reported.

Cost: a Python loop over the rows with such a value, about 1 us each, and one lookup of their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelake.types import RowKind

FindRows = Callable[[pa.Table, Sequence[str]], pa.Table]
"""Gives the rows of keys, in their order: all columns null for a key that is not there."""


@dataclass(frozen=True, slots=True)
class Filled:
    """Rows with the values that were not sent.

    Parameters
    ----------
    missing : numpy.ndarray
        Indices of rows of which a value was found nowhere, int64, ascending.
    """

    rows: pa.Table
    missing: NDArray[np.int64]


def fill_unchanged(
    rows: pa.Table,
    kinds: NDArray[np.int8],
    unchanged: Mapping[str, NDArray[np.bool_]],
    old_keys: pa.Table,
    find: FindRows,
) -> Filled:
    """Fill in what the source did not send.

    Parameters
    ----------
    rows : pyarrow.Table
        In the order of the source.
    unchanged : mapping of str to numpy.ndarray
        For some columns: whether a row's value was not sent.
    old_keys : pyarrow.Table
        The key columns, of each row as it was before the change.
    """
    keys = old_keys.column_names
    wanted = np.flatnonzero(np.logical_or.reduce(list(unchanged.values())))
    if not len(wanted):
        return Filled(rows, wanted)
    before = _earlier_rows(rows, kinds, old_keys, wanted)
    names = list(unchanged)
    outside = [row for row, earlier in zip(wanted.tolist(), before, strict=True) if earlier is None]
    found = find(old_keys.take(pa.array(outside, pa.int64())), names) if outside else None
    is_there = (
        []
        if found is None
        else (~np.asarray(found.column(keys[0]).is_null().combine_chunks())).tolist()
    )
    missing = {row for row, there in zip(outside, is_there, strict=True) if not there}
    columns = {}
    for name, masks in unchanged.items():
        place = {row: number for number, row in enumerate(outside)}
        # indices into the rows' own values, then the values found outside
        taken = np.arange(rows.num_rows, dtype=np.int64)
        for row, earlier in zip(wanted.tolist(), before, strict=True):
            if not masks[row]:
                continue
            if earlier is None:
                taken[row] = rows.num_rows + place[row]
            elif earlier < 0 or earlier in missing:
                missing.add(row)
            else:
                taken[row] = taken[earlier]
        own = rows.column(name).combine_chunks()
        pool = own
        if found is not None:
            stored = found.column(name).combine_chunks().cast(own.type)
            pool = pa.concat_arrays([own, stored])
        columns[name] = pool.take(pa.array(taken))
    for name, values in columns.items():
        rows = rows.set_column(rows.column_names.index(name), rows.schema.field(name), values)
    return Filled(rows, np.array(sorted(missing), np.int64))


def _earlier_rows(
    rows: pa.Table, kinds: NDArray[np.int8], old_keys: pa.Table, wanted: NDArray[np.int64]
) -> list[int | None]:
    """For each row wanted: the row before it under its old key; -1 if that one is a delete."""
    names = old_keys.column_names
    new = zip(*(rows.column(name).to_pylist() for name in names), strict=True)
    old = zip(*(old_keys.column(name).to_pylist() for name in names), strict=True)
    deletes = (kinds == int(RowKind.DELETE)).tolist()
    wants = set(wanted.tolist())
    newest: dict[tuple[Any, ...], int] = {}
    deleted: dict[tuple[Any, ...], int | None] = {}
    """By key of a delete: the row before it. An update of the key is a delete and a new row."""
    found: list[int | None] = []
    for row, (key, before, is_delete) in enumerate(zip(new, old, deletes, strict=True)):
        if row in wants:
            moves = key != before and before in deleted
            found.append(deleted[before] if moves else newest.get(before))
        if is_delete:
            deleted[key] = newest.get(key)
        newest[key] = -1 if is_delete else row
    return found
