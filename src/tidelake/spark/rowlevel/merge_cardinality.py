"""Checks the changes of each key in one merge: one change, or inserted rows, not both.

A merge must not change a row twice, or insert a key that it changes. A task writes all rows of its
keys, so it can check this: it keeps the keys and sorts them before its files count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.engine.codec import encode_keys, key_widths
from tidelake.engine.write import ROW_KIND_COLUMN
from tidelake.errors import InvalidInputError, UnsupportedError, shortened
from tidelake.types import DataField, RowKind

KEYS_BYTES_MAX = 256 << 20
"""Keys that one task keeps; Spark joins run a merge with more of them."""
TOO_MANY_KEYS = "merge_keys_kept"
"""The error kind of a task with more keys; only the driver sees it."""


@dataclass(frozen=True, slots=True)
class KeysOnce:
    """Checks that no key is changed twice, or inserted and changed. Picklable.

    Parameters
    ----------
    bytes_max : int
        The most memory for a task's keys.
    """

    table: str
    keys: Sequence[DataField]
    bytes_max: int = KEYS_BYTES_MAX

    def through(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass the rows on, and check them all after the last one.

        Parameters
        ----------
        batches : iterator of RecordBatch
            The table's columns and ``_row_kind``. Requires: all rows of their keys, without nulls
            in the keys.

        Raises
        ------
        InvalidInputError
            A key occurs twice, and one of the rows is a change.
        UnsupportedError
            They are too many to keep (:data:`TOO_MANY_KEYS`).
        """
        kept: list[pa.RecordBatch] = []
        size_bytes = 0
        names = [f.name for f in self.keys]
        for batch in batches:
            yield batch
            # a copy: the columns are parts of one buffer, which a slice would keep alive
            own = batch.select([*names, ROW_KIND_COLUMN]).take(pa.array(np.arange(batch.num_rows)))
            size_bytes += own.nbytes
            if size_bytes > self.bytes_max:
                message = f"A task of a merge into '{self.table}' has too many keys to keep."
                raise UnsupportedError(message, kind=TOO_MANY_KEYS, table=self.table)
            kept.append(own)
        if kept:
            self._check(pa.Table.from_batches(kept))

    def _check(self, rows: pa.Table) -> None:
        columns = [rows[f.name] for f in self.keys]
        types = [f.type for f in self.keys]
        keys = encode_keys(columns, types, key_widths(columns, types))
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]][: len(keys)])
        if len(starts) == len(keys):
            return
        is_added = rows[ROW_KIND_COLUMN].to_numpy()[order] == int(RowKind.INSERT)
        added: npt.NDArray[np.int64] = np.add.reduceat(is_added, starts, dtype=np.int64)
        changed = np.diff(np.r_[starts, len(keys)]) - added
        wrong = np.flatnonzero((changed > 1) | ((changed > 0) & (added > 0)))
        if not len(wrong):
            return
        index = int(order[starts[wrong[0]]])
        key = {f.name: rows[f.name][index].as_py() for f in self.keys}
        raise once_fault(self.table, key, changed_count=int(changed[wrong[0]]))


def once_fault(table: str, key: Mapping[str, object], *, changed_count: int) -> InvalidInputError:
    """A row that would be changed twice, or a key that would be inserted and changed.

    Parameters
    ----------
    key : mapping of str to object
        The primary key; empty for a table without one.
    changed_count : int
        How many rows of the source would change the row.
    """
    shown = f" {shortened(str(dict(key)))}" if key else ""
    if changed_count > 1:
        message = (
            f"{changed_count} rows of the source match one row{shown} of table '{table}', and all"
            " of them would change it: give the source one row for each, for example by GROUP BY,"
            " or let conditions of the clauses choose. Nothing was changed."
        )
        return InvalidInputError(message, kind="merge_row_twice", table=table)
    message = (
        f"The key{shown} of table '{table}' would be inserted by one row of the source, and changed"
        " for another row or for none: let ON compare the whole primary key, and nothing else."
        " Nothing was changed."
    )
    return InvalidInputError(message, kind="merge_key_twice", table=table)
