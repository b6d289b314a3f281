"""The difference of two sets of rows, by key or as multisets, as rows with kinds.

:func:`diff_sorted` joins two streams that are sorted by a unique key:

1. The buffered batches of both sides are cut at the smaller of their last keys, so that every key
   lies in one pair of chunks; keys compare as order-preserving integers or bytes.
2. In a pair, keys only before give ``-D``, keys only after ``+I``; keys on both sides whose rows
   differ give ``-U`` and ``+U``, next to each other.

:func:`diff_multiset` compares two bags of rows without a key: a row with n copies before and m
copies after gives ``m - n`` inserts or ``n - m`` deletes.

Memory: one batch of each side; for bags, what the caller gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidelake.codec.key_order import encode_keys, key_widths
from tidelake.codec.row_codes import row_codes, rows_differ
from tidelake.types import DataType, RowKind


@dataclass(slots=True)
class _Side:
    """One stream: its current batch, the position in it, and its encoded keys."""

    batches: Iterator[pa.RecordBatch]
    batch: pa.RecordBatch | None = None
    keys: np.ndarray | None = None
    widths: tuple[int, ...] = ()

    def fetch(self) -> None:
        self.batch, self.keys = None, None
        for batch in self.batches:
            if batch.num_rows:
                self.batch = batch
                return

    def drop(self, count: int) -> None:
        assert self.batch is not None
        if count == self.batch.num_rows:
            self.fetch()
        elif count:
            self.batch = self.batch.slice(count)
            self.keys = None if self.keys is None else self.keys[count:]


def diff_sorted(
    before: Iterator[pa.RecordBatch],
    after: Iterator[pa.RecordBatch],
    *,
    key_columns: Sequence[str],
    key_types: Sequence[DataType],
) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
    """Difference of two keyed states.

    Requires: both streams are sorted by the key, their keys are unique, their schemas are equal.

    Yields
    ------
    (RecordBatch, ndarray of int8)
        Changed rows in key order and their kinds; ``-U`` before its ``+U``.
    """
    old, new = _Side(before), _Side(after)
    old.fetch()
    new.fetch()
    while old.batch is not None and new.batch is not None:
        _encode(old, new, key_columns, key_types)
        assert old.keys is not None
        assert new.keys is not None
        cut = min(old.keys[-1], new.keys[-1])
        old_end = int(np.searchsorted(old.keys, cut, side="right"))
        new_end = int(np.searchsorted(new.keys, cut, side="right"))
        yield from _diff_chunk(
            old.batch.slice(0, old_end),
            old.keys[:old_end],
            new.batch.slice(0, new_end),
            new.keys[:new_end],
        )
        old.drop(old_end)
        new.drop(new_end)
    while old.batch is not None:
        yield old.batch, np.full(old.batch.num_rows, RowKind.DELETE, dtype=np.int8)
        old.fetch()
    while new.batch is not None:
        yield new.batch, np.full(new.batch.num_rows, RowKind.INSERT, dtype=np.int8)
        new.fetch()


def _encode(
    old: _Side, new: _Side, key_columns: Sequence[str], key_types: Sequence[DataType]
) -> None:
    """Encode the keys of both buffered batches with the same widths."""
    sides = (old, new)
    needed = []
    for side in sides:
        assert side.batch is not None
        needed.append(key_widths([side.batch.column(c) for c in key_columns], key_types))
    known = [side.widths for side in sides if side.widths]
    widths = tuple(max(column) for column in zip(*needed, *known, strict=True))
    for side in sides:
        assert side.batch is not None
        if side.keys is None or side.widths != widths:
            side.keys = encode_keys([side.batch.column(c) for c in key_columns], key_types, widths)
            side.widths = widths


def _diff_chunk(
    old: pa.RecordBatch, old_keys: np.ndarray, new: pa.RecordBatch, new_keys: np.ndarray
) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
    at = np.searchsorted(old_keys, new_keys)
    clipped = np.minimum(at, max(len(old_keys) - 1, 0))
    both = (old_keys[clipped] == new_keys) if len(old_keys) else np.zeros(len(new_keys), bool)
    old_both, new_both = clipped[both], np.flatnonzero(both)
    differ = rows_differ(old.take(pa.array(old_both)), new.take(pa.array(new_both)))
    old_removed = np.ones(len(old_keys), bool)
    old_removed[old_both] = False
    # (position among the old keys, side) orders all changed rows by key, -U before +U
    old_rows = np.r_[np.flatnonzero(old_removed), old_both[differ]]
    old_kinds = np.r_[
        np.full(int(old_removed.sum()), RowKind.DELETE, dtype=np.int8),
        np.full(int(differ.sum()), RowKind.UPDATE_BEFORE, dtype=np.int8),
    ]
    new_rows = np.r_[np.flatnonzero(~both), new_both[differ]]
    new_kinds = np.r_[
        np.full(int((~both).sum()), RowKind.INSERT, dtype=np.int8),
        np.full(int(differ.sum()), RowKind.UPDATE_AFTER, dtype=np.int8),
    ]
    if not len(old_rows) and not len(new_rows):
        return
    keys = np.r_[old_keys[old_rows], new_keys[new_rows]]
    order = np.argsort(keys, kind="stable")  # old rows come first, so -U stays before +U
    taken = pa.Table.from_batches([old.take(pa.array(old_rows)), new.take(pa.array(new_rows))])
    rows = taken.take(pa.array(order)).combine_chunks().to_batches()[0]
    yield rows, np.r_[old_kinds, new_kinds][order]


def diff_multiset(before: pa.Table, after: pa.Table) -> tuple[pa.Table, np.ndarray]:
    """Difference of two bags of rows.

    Returns
    -------
    (Table, ndarray of int8)
        The rows with more copies before (``-D``) or after (``+I``), once for each extra copy.
    """
    names = before.column_names
    both = pa.concat_tables([before, after])
    # floats are compared by their bits, so that NaN equals NaN and -0.0 is not 0.0
    signs = np.r_[np.full(before.num_rows, -1), np.full(after.num_rows, 1)]
    codes = row_codes(both)
    balance = np.bincount(codes, weights=signs).astype(np.int64)
    # of each distinct row, keep as many copies from the surplus side as the difference says
    surplus = balance[codes] * signs > 0
    candidates = np.flatnonzero(surplus)
    order = np.argsort(codes[candidates], kind="stable")
    ordered = codes[candidates][order]
    starts = np.r_[True, ordered[1:] != ordered[:-1]] if len(ordered) else np.zeros(0, bool)
    run_start = np.maximum.accumulate(np.where(starts, np.arange(len(ordered)), 0))
    nth = np.arange(len(ordered)) - run_start
    kept = np.sort(candidates[order[nth < np.abs(balance[ordered])]])
    kinds = np.where(signs[kept] < 0, RowKind.DELETE, RowKind.INSERT).astype(np.int8)
    return both.take(pa.array(kept)).select(names), kinds
