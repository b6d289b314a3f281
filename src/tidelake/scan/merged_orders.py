"""Orders of merges that a catalog keeps: sections read before need no keys again.

A merge of immutable files gives the same rows in the same order, as long as the same columns
decide. Where it gives rows as they are, its order is noted during the first read
(:mod:`tidelake.merge.runs.merged_order`) and kept under the names of all files of the section, each
with its deletion vector, and what decides. Later reads decode the wanted columns alone. Nothing
invalidates an order: a commit, a compaction or a time travel reads other files.

A filter on key columns is applied to the files, before the merge, so such a read neither notes nor
uses an order. The same holds for engines that combine rows or look at levels, for reads of row
kinds, and for sections of few rows.

Memory: at most :attr:`~tidelake.telemetry.Memory.merge_orders_bytes`, and no more than the option
``read.mask-cache-size``; about a byte a row. The orders unused for longest go first.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict

from tidelake.format import orc_zone_moves
from tidelake.merge import MergedOrder, MergeSpec
from tidelake.metadata.manifest.lazy_file_list import rows_of
from tidelake.options import declared
from tidelake.scan.context import ReadContext
from tidelake.scan.split import Section, Split
from tidelake.telemetry import PerProcess

__all__ = ["MergedOrders", "order_key", "orders_bytes_max"]

DIGEST_BYTES = 20
ROWS_MIN = 16_384
"""Fewer rows are merged again at once."""


class MergedOrders:
    """Orders by section. Thread-safe.

    A forked child begins with what was there, behind a lock of its own.
    """

    def __init__(self) -> None:
        self._lock = PerProcess(threading.Lock)
        self._kept: OrderedDict[bytes, MergedOrder] = OrderedDict()
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: bytes) -> MergedOrder | None:
        """The order of a section; None if none is kept."""
        with self._lock.value:
            order = self._kept.get(key)
            if order is not None:
                self._kept.move_to_end(key)
            return order

    def keep(self, key: bytes, order: MergedOrder, *, bytes_max: int) -> None:
        """Keep the order of a section, unless it is larger than the whole bound."""
        if order.nbytes > bytes_max:
            return
        with self._lock.value:
            before = self._kept.pop(key, None)
            self._kept[key] = order
            self._bytes += order.nbytes - (0 if before is None else before.nbytes)
            while self._bytes > bytes_max:
                _, dropped = self._kept.popitem(last=False)
                self._bytes -= dropped.nbytes


def orders_bytes_max(context: ReadContext) -> int:
    """The bound of the orders that a catalog keeps, for this table's reads."""
    option = context.options.get(declared.READ_MASK_CACHE_SIZE)
    return min(context.env.memory.merge_orders_bytes, option)


def order_key(
    context: ReadContext, split: Split, section: Section, spec: MergeSpec
) -> bytes | None:
    """What a section's order is kept under; None if its merge has none, or it is not worth it.

    Parameters
    ----------
    context : ReadContext
        The table.
    split, section
        The section, and its split.
    spec : MergeSpec
        The table's rules.
    """
    if len(section) < 2 or spec.combines or spec.looks_at_levels or not orders_bytes_max(context):
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
