"""Filters changes that do not say what a row was before, so that no row is left behind.

The files of ``changelog-producer`` ``none`` and ``input`` hold rows as they were written: an update
has no old row, and a delete by key has null in the other columns. There a plain filter on values
never shows that a row has left it. So in a table with a primary key

1. conditions on the primary key alone are a plain filter: all changes of a key pass, or none;
2. of the rest, a new row (``+I``, ``+U``) that does not satisfy it becomes ``-D``. Its key is not,
   or no longer, among the rows wanted;
3. a retraction (``-U``, ``-D``) always passes.

The reader gets ``-D`` of keys that it never had. It needs the key, so all key columns must be
read.

The other producers log old rows, each update as ``-U`` and then ``+U``. A plain filter shows there
which rows leave it, as ``-U`` without ``+U``. But a target that removes rows at ``-D`` alone
(``partial-update.remove-record-on-delete``) passes over ``-U``. So :class:`UpdateFilter` makes such
a ``-U`` a ``-D``, and so does the net change. It reads the rows of a file in order, which a scan of
Spark's does not promise: there the tasks read such files by this module. Under ``first-row``, which
has no updates, a plain filter is right.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidelake.errors import UnsupportedError
from tidelake.format import KIND_FIELD
from tidelake.merge.spec import FIRST_ROW
from tidelake.options import declared
from tidelake.table.handle.handle import TableHandle
from tidelake.types import DataField, RowKind
from tidelake.types.predicate import Predicate, columns_of, conjoin, conjuncts, evaluate

INCOMPLETE = "incomplete_changes"
"""The kind of the error of changes that lose rows."""
WITHOUT_OLD_ROWS = frozenset({"none", "input"})
"""Values of ``changelog-producer`` whose changes do not say what a row was before."""


def knows_old_rows(handle: TableHandle, *, of_changelog: bool = True) -> bool:
    """Whether the changes of a table say what each row was before, or nothing is ever replaced.

    Parameters
    ----------
    of_changelog : bool
        Whether changelog files hold the changes, where the table has any; else its data files.
    """
    if not handle.schema.primary_keys or handle.options.get(declared.MERGE_ENGINE) == FIRST_ROW:
        return True
    producer = handle.options.get(declared.CHANGELOG_PRODUCER)
    return of_changelog and producer not in WITHOUT_OLD_ROWS


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """A filter that turns the new rows that it drops into deletes. Picklable.

    Parameters
    ----------
    predicate : Predicate
        Bound; the rows wanted.
    of_keys : Predicate, optional
        The part of it that needs the primary key alone; other rows are left out.
    """

    predicate: Predicate
    of_keys: Predicate | None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it needs."""
        return tuple(sorted(columns_of(self.predicate)))

    def kinds(
        self, rows: pa.RecordBatch, kinds: pa.Array, fields: Collection[DataField]
    ) -> pa.Array:
        """Give the kinds of rows: ``-D`` for each new row that the filter drops.

        Parameters
        ----------
        rows : pyarrow.RecordBatch [n]
            Rows that satisfy `of_keys`; with :attr:`columns`.
        kinds : pyarrow.Array [n]
            Their kinds as bytes.
        """
        found = np.asarray(kinds)
        is_new = (found == RowKind.INSERT) | (found == RowKind.UPDATE_AFTER)
        is_wanted = np.asarray(evaluate(self.predicate, rows, tuple(fields)))
        return pa.array(np.where(is_new & ~is_wanted, np.int8(RowKind.DELETE), found), pa.int8())


@dataclass(frozen=True, slots=True)
class UpdateFilter:
    """A filter of changes with old rows that shows an update which leaves it as ``-D``.

    Parameters
    ----------
    predicate : Predicate
        Bound; the rows wanted.
    """

    predicate: Predicate
    of_keys: Predicate | None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it needs."""
        return tuple(sorted(columns_of(self.predicate)))

    def rows(
        self, batches: Iterator[pa.RecordBatch], fields: Collection[DataField]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows wanted.

        Parameters
        ----------
        batches : iterator of pyarrow.RecordBatch
            Rows of one file in order, with :attr:`columns` and the column of kinds.
        """
        left: pa.RecordBatch | None = None  # a -U whose +U comes with the next batch
        for batch in batches:
            rows = batch
            if left is not None:
                [rows] = pa.Table.from_batches([left, batch]).combine_chunks().to_batches()
            kinds = np.asarray(rows.column(KIND_FIELD.name))
            whole = rows.num_rows - int(kinds.size and kinds[-1] == RowKind.UPDATE_BEFORE)
            left = rows.slice(whole) if whole < rows.num_rows else None
            if whole:
                yield self._kept(rows, kinds, whole, tuple(fields))
        if left is not None:
            yield self._kept(left, np.asarray(left.column(KIND_FIELD.name)), 1, tuple(fields))

    def _kept(
        self, rows: pa.RecordBatch, kinds: np.ndarray, whole: int, fields: tuple[DataField, ...]
    ) -> pa.RecordBatch:
        """Keep the rows wanted of the first `whole` ones."""
        is_wanted = np.asarray(evaluate(self.predicate, rows, fields))
        told = pa.array(left_by_update(kinds, is_wanted), pa.int8())
        place = rows.schema.get_field_index(KIND_FIELD.name)
        shown = rows.set_column(place, rows.schema.field(place), told)
        return shown.slice(0, whole).filter(pa.array(is_wanted[:whole]))


def left_by_update(kinds: np.ndarray, is_wanted: np.ndarray) -> np.ndarray:
    """Give the kinds of rows: ``-D`` for each ``-U`` whose ``+U`` behind it is not wanted."""
    is_left = np.zeros(len(kinds), np.bool_)
    is_left[:-1] = (
        (kinds[:-1] == RowKind.UPDATE_BEFORE) & (kinds[1:] == RowKind.UPDATE_AFTER) & ~is_wanted[1:]
    )
    return np.where(is_left, np.int8(RowKind.DELETE), kinds)


def change_filter(
    handle: TableHandle,
    predicate: Predicate | None,
    columns: Collection[str],
    *,
    of_changelog: bool = True,
) -> ChangeFilter | UpdateFilter | None:
    """Make the filter of changes; None where a plain filter is right.

    Parameters
    ----------
    of_changelog : bool
        As of :func:`knows_old_rows`.

    Raises
    ------
    UnsupportedError
        The changes have no old rows, and the reader does not get the primary key, so that it
        cannot apply a delete.
    """
    keys = frozenset(handle.schema.primary_keys)
    if predicate is None or not keys or handle.options.get(declared.MERGE_ENGINE) == FIRST_ROW:
        return None
    own = [part for part in conjuncts(predicate) if columns_of(part) <= keys]
    if len(own) == len(conjuncts(predicate)):
        return None
    of_keys = conjoin(own)
    if knows_old_rows(handle, of_changelog=of_changelog):
        return UpdateFilter(predicate, of_keys)
    missing = [key for key in handle.schema.primary_keys if key not in columns]
    if missing:
        producer = handle.options.get(declared.CHANGELOG_PRODUCER)
        names = ", ".join(f"'{name}'" for name in missing)
        message = (
            f"Changes of table '{handle.identifier}' with the filter {predicate} need the primary"
            f" key, and the columns wanted lack {names}: 'changelog-producer' is '{producer}', so a"
            " row that leaves the filter comes as -D of its key. Read the key too, or set"
            " 'changelog-producer' to 'lookup' or 'full-compaction'."
        )
        raise UnsupportedError(message, kind=INCOMPLETE, table=handle.identifier)
    return ChangeFilter(predicate, of_keys)
