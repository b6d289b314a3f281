"""Orders of merges that a catalog keeps: sections read before need no keys again.

A merge of immutable files gives the same rows in the same order, as long as the same columns
decide. Where it gives rows as they are, its order is noted during the first read
(:mod:`tidelake.merge.runs.merged_order`) and kept under the names of all files of the section, each
with its deletion vector, and what decides. Later reads decode the wanted columns alone. Nothing
invalidates an order: a commit, a compaction or a time travel reads other files.

A filter on key columns is applied to the files, before the merge, so such a read neither notes nor
uses an order. The same holds for engines that combine rows or look at levels, for reads of row
kinds, and for sections of few rows.

Memory: at most :attr:`~tidelake.telemetry.Memory.merge_orders_bytes`, and as much again for orders
that are being noted; about a byte a row. The orders unused for longest go first. The option
``read.mask-cache-size`` bounds a table's own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from tidelake.format import orc_zone_moves
from tidelake.merge import MergedOrder, MergeSpec, order_bytes
from tidelake.metadata.manifest.lazy_file_list import rows_of
from tidelake.options import declared
from tidelake.scan.context import ReadContext
from tidelake.scan.split import Section, Split
from tidelake.telemetry import PerProcess, RecentlyUsed

DIGEST_BYTES = 20
ROWS_MIN = 16_384
"""Fewer rows are merged again at once."""


class MergedOrders:
    """Orders by section. Thread-safe.

    A forked child begins with what was there, behind a lock of its own.
    """

    def __init__(self) -> None:
        self._kept: RecentlyUsed[bytes, tuple[str, MergedOrder]] = RecentlyUsed()
        self._noted = PerProcess(_Noted)

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return self._kept.nbytes

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: bytes) -> MergedOrder | None:
        """The order of a section; None if none is kept."""
        found = self._kept.get(key)
        return None if found is None else found[1]

    def keep(
        self,
        key: bytes,
        order: MergedOrder,
        *,
        bytes_max: int,
        table: str = "",
        table_bytes_max: int | None = None,
    ) -> None:
        """Keep the order of a section, unless it is larger than a whole bound.

        Parameters
        ----------
        bytes_max : int
            The bound of all orders.
        table_bytes_max : int, optional
            The bound of its orders.
        """
        own_max = bytes_max if table_bytes_max is None else min(bytes_max, table_bytes_max)
        if order.nbytes > own_max:
            return
        with self._kept.lock:
            self._kept.pop(key)
            if own_max < bytes_max:
                self._drop_own(table, own_max - order.nbytes)
            self._kept.keep(key, (table, order), order.nbytes, bytes_max=bytes_max)

    def _drop_own(self, table: str, bytes_max: int) -> None:
        own = [(key, nbytes) for key, (owner, _), nbytes in self._kept.sizes() if owner == table]
        own_bytes = sum(nbytes for _, nbytes in own)
        for key, nbytes in own:
            if own_bytes <= bytes_max:
                return
            self._kept.pop(key)
            own_bytes -= nbytes

    @contextmanager
    def room(self, nbytes: int, *, bytes_max: int) -> Iterator[bool]:
        """Whether an order may take so much while it is noted, besides others that are noted."""
        noted = self._noted.value
        with self._kept.lock:
            has_room = noted.nbytes + nbytes <= bytes_max
            if has_room:
                noted.nbytes += nbytes
        try:
            yield has_room
        finally:
            if has_room:
                with self._kept.lock:
                    noted.nbytes -= nbytes


class _Noted:
    """What the orders take that are being noted."""

    nbytes = 0


def noted_bytes(section: Section) -> int:
    """What the order of a section takes at most."""
    return order_bytes(sum(map(rows_of, section)), len(section))


def orders_bytes_max(context: ReadContext) -> int:
    """The bound of the orders of one table that its catalog keeps."""
    option = context.options.get(declared.READ_MASK_CACHE_SIZE)
    return min(context.env.memory.merge_orders_bytes, option)


def order_key(
    context: ReadContext, split: Split, section: Section, spec: MergeSpec
) -> bytes | None:
    """What a section's order is kept under; None if its merge has none, or it is not worth it."""
    # files without order are sorted by their keys, which a read by the order leaves out
    if len(section) < 2 or spec.combines or spec.looks_at_levels or spec.clustered:
        return None
    if noted_bytes(section) > orders_bytes_max(context):
        return None
    if sum(map(rows_of, section)) < ROWS_MIN:
        return None
    names = [[_name(split, file.file_name) for file in run] for run in section]
    where = (context.uri, split.partition.hex(), split.bucket)
    return hashlib.blake2b(
        repr((where, names, _deciding(context, spec))).encode(), digest_size=DIGEST_BYTES
    ).digest()


def _name(split: Split, file_name: str) -> str:
    """A file with its live rows: its name, and its vector if it has one."""
    where = split.deletions.get(file_name)
    return file_name if where is None else f"{file_name}|{where.path}:{where.offset}"


def _deciding(context: ReadContext, spec: MergeSpec) -> tuple[object, ...]:
    """What decides besides the files: the columns by id and type, for names come again."""
    columns = context.fields((*spec.key_columns, *spec.sequence_columns))
    return (
        len(spec.key_columns),
        [(field.id, str(field.type)) for field in columns],
        (spec.sequence_descending, spec.ignore_delete),
        (context.env.zone, orc_zone_moves(context.options)),
    )
