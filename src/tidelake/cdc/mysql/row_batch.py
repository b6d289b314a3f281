"""Row events of one version of a table, gathered and then decoded by column in one go.

1. Each event's rows are found as it comes, so that their number is known.
2. At the end the bytes are joined, and the columns of all images are read at once.
3. The keys of old and new images are compared: an update with another key is -D and +U.
4. Rows with a value that does not fit are left out, and told. A deletion is left out only where its
   key does not fit; other columns of it are null then.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidelake.cdc.mysql.binlog.numbers import Places, padded
from tidelake.cdc.mysql.binlog.row_starts import Scan, find_rows, scanner
from tidelake.cdc.mysql.binlog.table_map import MappedColumn
from tidelake.cdc.mysql.values.cells import Cells, read_images
from tidelake.cdc.mysql.values.columns import ReadableColumn, ReadableTable
from tidelake.cdc.mysql.values.lake_values import reason, to_lake
from tidelake.cdc.mysql.values.rejected_row import payload
from tidelake.cdc.source.changes import Rejected, SourceRows
from tidelake.types import RowKind
from tidelake.types.arrow import to_arrow_type

EVENT_SHIFT = 32
"""Bits of a row's number in its event."""
BUFFER_BYTES_MAX = 2**31 - 1
"""Arrow's views point into a buffer with 31 bits."""


@dataclass(frozen=True)
class LoggedVersion:
    """One version of a table, and how its images lie in events.

    Parameters
    ----------
    mapped : tuple of MappedColumn
        All columns of the table map; `table` has the same.
    """

    table: ReadableTable
    mapped: tuple[MappedColumn, ...]
    _layouts: dict[bytes, ImageLayout | None] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def layout(self, present: bytes) -> ImageLayout | None:
        """How images lie whose columns are these bits; None if columns are missing.

        A generated column that is not stored may be missing.
        """
        if present not in self._layouts:
            self._layouts[present] = self._laid_out(present)
        return self._layouts[present]

    def _laid_out(self, present: bytes) -> ImageLayout | None:
        bits = int.from_bytes(present, "little")
        places = tuple(i for i in range(len(self.mapped)) if bits >> i & 1)
        lost = set(range(len(self.mapped))) - set(places)
        if any(not self.table.columns[place].is_generated for place in lost):
            return None
        columns = tuple(self.mapped[i] for i in places)
        return ImageLayout(places, scanner(columns, 1), scanner(columns, 2))


@dataclass(frozen=True, slots=True)
class ImageLayout:
    """The columns that images have, and what finds them."""

    places: tuple[int, ...]
    single: Scan
    double: Scan


@dataclass(slots=True)
class RowBatch:
    """Events of one version.

    Parameters
    ----------
    kinds : list of int
        Of each event: +I, +U or -D.
    orders : list of tuple of int
        Of each event: order of the transaction, and number of the event in it.
    """

    version: LoggedVersion
    layout: ImageLayout
    bodies: list[bytes] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    orders: list[tuple[int, int]] = field(default_factory=list)
    seconds: list[int] = field(default_factory=list)
    bytes_count: int = 0

    def add(self, body: bytes, at: int, kind: RowKind, order: tuple[int, int], seconds: int) -> int:
        """Take an event, and give the number of its rows."""
        before = len(self.starts)
        is_pair = kind is RowKind.UPDATE_AFTER
        find_rows(
            self.layout.double if is_pair else self.layout.single, body, at, self.starts.append
        )
        images = len(self.starts) - before
        self.bodies.append(body)
        self.counts.append(images)
        self.kinds.append(kind)
        self.orders.append(order)
        self.seconds.append(seconds)
        self.bytes_count += len(body)
        return images // 2 if is_pair else images

    def decode(self, zone: str, others: frozenset[str] = frozenset()) -> SourceRows:
        """Make columns of all rows.

        Parameters
        ----------
        others : frozenset of str
            Columns that count as the key's.
        """
        rows = _Rows.of(self)
        table = self.version.table
        # without a key the whole row is one
        names = {*table.keys, *others} if table.keys else {c.name for c in table.columns}
        keys = [place for place, column in enumerate(table.columns) if column.name in names]
        has_old = _with_other_key(self, rows, keys)
        return _changes(self, rows, has_old, zone, names)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Places of the images of each source row: -1 where there is none."""

    buffer: NDArray[np.uint8]
    before: Places
    after: Places
    event: Places
    number: Places

    @classmethod
    def of(cls, batch: RowBatch) -> _Rows:
        assert batch.bytes_count < BUFFER_BYTES_MAX, batch.bytes_count
        sizes = np.array([len(body) for body in batch.bodies], np.int64)
        bases = np.cumsum(sizes) - sizes
        images = np.array(batch.counts, np.int64)
        starts = np.array(batch.starts, np.int64) + np.repeat(bases, images)
        kinds = np.array(batch.kinds, np.int64)
        step = np.where(kinds == RowKind.UPDATE_AFTER, 2, 1)
        counts = images // step
        event = np.repeat(np.arange(len(counts)), counts)
        number = np.arange(len(event)) - np.repeat(np.cumsum(counts) - counts, counts)
        first = (np.cumsum(images) - images)[event] + number * step[event]
        kind = kinds[event]
        last = starts[first + step[event] - 1] if len(first) else first
        return cls(
            padded(batch.bodies),
            np.where(kind == RowKind.INSERT, -1, starts[first] if len(first) else first),
            np.where(kind == RowKind.DELETE, -1, last),
            event,
            number,
        )


def _read(batch: RowBatch, buffer: NDArray[np.uint8], starts: Places, wanted: Sequence[int]
          ) -> dict[int, Cells]:  # fmt: skip
    """Read columns, by their places in the table."""
    version, places = batch.version, batch.layout.places
    inverse = {place: number for number, place in enumerate(places)}
    found = read_images(
        buffer,
        starts,
        [version.mapped[place] for place in places],
        [version.table.columns[place] for place in places],
        {inverse[place] for place in wanted if place in inverse},
    )
    return {places[number]: cells for number, cells in found.items()}


def _with_other_key(batch: RowBatch, rows: _Rows, keys: Sequence[int]) -> NDArray[np.bool_]:
    """Tell the source rows whose old image is a -D: deletions, and updates of the key."""
    has_old = (rows.before >= 0) & (rows.after < 0)
    updates = np.flatnonzero((rows.before >= 0) & (rows.after >= 0))
    if not len(updates):
        return has_old
    table = batch.version.table
    places = [place for place in keys if table.columns[place].type is not None]
    left = _read(batch, rows.buffer, rows.before[updates], places)
    right = _read(batch, rows.buffer, rows.after[updates], places)
    differs = np.zeros(len(updates), np.bool_)
    for place in left:
        column = table.columns[place]
        one, two = to_lake(column, left[place], "UTC"), to_lake(column, right[place], "UTC")
        differs |= _differ(one.array, two.array)
        for wrong in (one.wrong, two.wrong):
            if wrong is not None:
                differs |= wrong
    has_old[updates] = differs
    return has_old


def _differ(left: pa.Array, right: pa.Array) -> NDArray[np.bool_]:
    if pa.types.is_list(left.type):
        return np.array([a != b for a, b in zip(left.to_pylist(), right.to_pylist(), strict=True)])
    unequal = pc.fill_null(pc.not_equal(left, right), False)
    nulls = pc.xor(pc.is_null(left), pc.is_null(right))
    return np.asarray(pc.or_(unequal, nulls))


def _changes(
    batch: RowBatch, rows: _Rows, has_old: NDArray[np.bool_], zone: str, keys: Collection[str]
) -> SourceRows:
    """Put old and new images in the source's order, and decode them."""
    counts = has_old.astype(np.int64) + (rows.after >= 0)
    source = np.repeat(np.arange(len(counts)), counts)
    # of a row with both, the old image comes first
    is_first = np.concatenate([[True], source[1:] != source[:-1]])[: len(source)]
    is_new = ~(has_old[source] & is_first)
    starts = np.where(is_new, rows.after[source], rows.before[source])
    event = rows.event[source]
    kinds = np.where(is_new, np.array(batch.kinds, np.int64)[event], RowKind.DELETE)
    orders = np.array(batch.orders, np.int64).reshape(-1, 2)
    order = np.empty((len(source), 2), np.int64)
    order[:, 0] = orders[event, 0]
    order[:, 1] = (orders[event, 1] << EVENT_SHIFT) + rows.number[source] * 2 + is_new
    changed_ms = np.array(batch.seconds, np.int64)[event] * 1000
    table = batch.version.table
    typed = [place for place, column in enumerate(table.columns) if column.type is not None]
    cells = _read(batch, rows.buffer, starts, typed)
    found = convert_all(table, cells, zone, len(starts))
    is_deleted = ~is_new
    bad: dict[int, list[str]] = {}
    for place, wrong in found.wrong.items():
        column = table.columns[place]
        # the old row of a deletion is known by its key; what else it had does not matter
        rejects = wrong if column.name in keys else wrong & ~is_deleted
        for row in np.flatnonzero(rejects):
            bad.setdefault(int(row), []).append(reason(column))
        if (wrong & ~rejects).any():
            found.arrays[place] = pc.if_else(
                pa.array(wrong), pa.scalar(None, found.arrays[place].type), found.arrays[place]
            )
    batch_rows = pa.RecordBatch.from_arrays(
        [found.arrays[place] for place in typed], schema=row_schema(table)
    )
    told = tuple(
        Rejected(
            table.name, (int(order[row, 0]), int(order[row, 1])), int(kinds[row]),
            "; ".join(reasons), payload(table.columns, cells, row),
        )
        for row, reasons in sorted(bad.items())
    )  # fmt: skip
    kinds = kinds.astype(np.int8)
    if bad:
        kept = np.ones(len(starts), np.bool_)
        kept[list(bad)] = False
        batch_rows = batch_rows.filter(pa.array(kept))
        kinds, order, changed_ms = kinds[kept], order[kept], changed_ms[kept]
    return SourceRows(table.source, batch_rows, kinds, order, changed_ms, rejected=told)


@dataclass(frozen=True, slots=True)
class LakeColumns:
    """Columns of the lake by their places in the table, and the rows that do not fit."""

    arrays: dict[int, pa.Array]
    wrong: dict[int, NDArray[np.bool_]]


def convert_all(
    table: ReadableTable, cells: dict[int, Cells], zone: str, count: int
) -> LakeColumns:
    """Convert all columns that have a type; those without cells are null."""
    found = LakeColumns({}, {})
    for place, column in enumerate(table.columns):
        if column.type is None:
            continue
        if place not in cells:
            found.arrays[place] = pa.nulls(count, to_arrow_type(column.type))
            continue
        converted = to_lake(column, cells[place], zone)
        found.arrays[place] = converted.array
        if converted.wrong is not None:
            found.wrong[place] = converted.wrong
    return found


def row_schema(table: ReadableTable) -> pa.Schema:
    """Arrow's schema of a table's rows; all columns may be null."""
    return pa.schema(
        [pa.field(c.name, to_arrow_type(c.type)) for c in table.columns if c.type is not None]
    )


def columns_of(table: ReadableTable) -> list[ReadableColumn]:
    """The columns that have a type in the lake."""
    return [column for column in table.columns if column.type is not None]
