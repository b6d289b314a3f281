"""Plans a stream: the next offset under limits, and the parts between two offsets.

1. :meth:`StreamPlan.initial` finds where a stream without a checkpoint begins
   (:mod:`tidelake.table.stream.start`).
2. :meth:`StreamPlan.next` goes on from an offset, and gives an offset
   (:mod:`tidelake.table.stream.batch_end`). Where there is no new snapshot it looks for one file
   that does not exist and reads the one before it.
3. :meth:`StreamPlan.parts` plans the parts between two offsets when the caller takes them. The same
   two offsets always give the same rows.

Source of the rules: Paimon's ``DataTableStreamScan`` and ``NextSnapshotFetcher`` (1.3.1); offsets
inside snapshots, limits and refusals are ours (ADR 54). Runs on the driver. Memory: the entries of
one snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tidelake.fileio import validate_name
from tidelake.options import Options, check_one_use, declared
from tidelake.scan import ReadContext, check_not_evolved
from tidelake.scan.pruning.prune import matching_partitions, scan_filter
from tidelake.scan.split_generator import PackRule
from tidelake.table.changelog.change_filter import ChangeFilter, UpdateFilter, change_filter
from tidelake.table.handle.arguments import column_names
from tidelake.table.handle.handle import TableHandle
from tidelake.table.stream.batch_end import batch_end
from tidelake.table.stream.follower import Follower
from tidelake.table.stream.lag import LagCounter, StreamLag
from tidelake.table.stream.limits import NO_LIMITS, ReadLimits
from tidelake.table.stream.offset import StreamOffset
from tidelake.table.stream.parts import StreamPart, StreamParts, StreamRows
from tidelake.table.stream.start import START_OPTIONS, StreamStart
from tidelake.types import DataField
from tidelake.types.predicate import Predicate


class StreamPlan:
    """The plan of streams of one table. Made by :meth:`of`; for one thread at a time."""

    def __init__(self, handle: TableHandle) -> None:
        self._start = StreamStart(handle)
        self._follower = Follower(_without_start(handle), self._start.end_id)
        self._limits = ReadLimits.of(handle.options, table=handle.identifier)
        self._lag = LagCounter(self._follower)

    @classmethod
    def of(cls, handle: TableHandle, options: Mapping[str, object] | None = None) -> StreamPlan:
        """Plan streams of a table; does not read the storage.

        Raises
        ------
        InvalidInputError
            An option is unknown or wrong, or options contradict each other.
        UnsupportedError
            The table has no changes to stream; the message names the option that makes them.
        """
        if options:
            updated = check_one_use(options, handle.options, table=handle.identifier)
            handle = handle.with_options(updated)
        consumer_id = handle.options.get(declared.CONSUMER_ID)
        if consumer_id is not None:
            validate_name(consumer_id, "consumer")
        check_not_evolved(handle.options)
        return cls(handle)

    @property
    def table(self) -> str:
        """The table's name."""
        return self._follower.table

    @property
    def handle(self) -> TableHandle:
        """The table, with the options of the streams except those for their start."""
        return self._follower.handle

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns of the streams, without the kind."""
        return self.handle.schema.fields

    @property
    def limits(self) -> ReadLimits:
        """The limits that the options set."""
        return self._limits

    @property
    def identity(self) -> str:
        """Identity of the table, which a later table of its name does not have; read once."""
        return self._follower.identity

    def offset(self, text: str) -> StreamOffset:
        """Read an offset of a checkpoint; its table is checked when it is used.

        Raises
        ------
        InvalidInputError
            The text is not an offset.
        """
        return StreamOffset.from_json(text, table=self.table)

    def check(self, offset: StreamOffset) -> None:
        """Refuse an offset of another table, or of columns that the table no longer has.

        Raises
        ------
        NotFoundError, UnsupportedError
            It is none of this table's, or of columns that are gone.
        """
        self._follower.check(offset)

    def check_end(self, offset: StreamOffset) -> None:
        """Refuse an offset behind which nothing may be read now, if the table was rolled back.

        Raises
        ------
        NotFoundError
            The snapshot that the offset has given last is not in the table's history any more.
        """
        self._follower.check(offset)
        self._follower.load(offset, is_begin=True)

    def initial(self) -> StreamOffset | None:
        """Find where a stream without a checkpoint begins; None while that is undecided.

        Raises
        ------
        NotFoundError
            The snapshot or tag of the options does not exist; the message names those that do.
        InvalidInputError
            An option has a wrong value.
        """
        found = self._start.find()
        if found is None:
            return None
        at = self._follower.at(found.snapshot, phase=found.phase, created_ms=found.created_ms)
        if found.before is not None:
            return replace(at, before=found.before)
        return at if found.phase == "full" else self._follower.identified(at)

    def latest(self, *, position_only: bool = False) -> StreamOffset | None:
        """Give the offset behind the newest snapshot, or the end of a bounded stream.

        Parameters
        ----------
        position_only : bool
            Whether to leave the snapshot unread; no stream can go on from such an offset.
        """
        latest_id = self.handle.snapshots.latest_id()
        if latest_id is None:
            return None
        end_id = self._start.end_id()
        at = self._follower.at((latest_id if end_id is None else min(end_id, latest_id)) + 1)
        return at if position_only else self._follower.identified(at)

    def next(
        self,
        start: StreamOffset,
        limits: ReadLimits = NO_LIMITS,
        until: StreamOffset | None = None,
    ) -> StreamOffset:
        """Find the end of the batch that begins at `start`; `start` itself without new rows.

        Parameters
        ----------
        limits : ReadLimits
            The most that the batch may hold, and the least that it waits for.
        until : StreamOffset, optional
            The end may not lie behind this offset, and the batch waits for nothing: an earlier
            result of :meth:`latest`.

        Raises
        ------
        NotFoundError
            The next snapshot has expired (the message names the range that is kept), or the table
            was dropped and created again.
        UnsupportedError
            The next snapshot is an overwrite, or was committed with other columns.
        InvalidInputError
            The offset is inside a snapshot that is now cut into other units.
        """
        self._follower.check(start)
        return batch_end(self._follower, start, limits, until)

    def is_ended(self, offset: StreamOffset) -> bool:
        """Whether a bounded stream (``scan.bounded.watermark``, incremental) has ended."""
        return self._follower.is_ended(offset)

    def parts(
        self,
        start: StreamOffset,
        end: StreamOffset,
        *,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
        leaving: ChangeFilter | UpdateFilter | None = None,
    ) -> StreamParts:
        """Plan the parts between two offsets; does not read the storage.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns wanted; all by default.
        predicate : Predicate, optional
            Bound; leaves out each row that does not satisfy it.
        leaving : ChangeFilter or UpdateFilter, optional
            Instead of `predicate`: as of :meth:`change_filter`.

        Raises
        ------
        NotFoundError
            A column does not exist.
        """
        if leaving is not None:
            predicate = leaving.predicate
        schema = self.handle.schema
        names = column_names(columns, schema.field_names, table=self.table)
        for name in names:
            schema.field(name)

        def planned(rows: StreamRows) -> Iterator[StreamPart]:
            self._follower.check(start)
            self._follower.check(end)
            return self._parts(rows, start, end)

        return StreamParts(names, predicate, self.handle.read_context, planned, leaving)

    def change_filter(
        self, predicate: Predicate | None, columns: Sequence[str] | None = None
    ) -> ChangeFilter | UpdateFilter | None:
        """Make the filter that shows rows which leave it; None where a plain filter is right.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns wanted; all by default.

        Raises
        ------
        UnsupportedError
            The columns lack a part of the primary key.
        """
        names = column_names(columns, self.handle.schema.field_names, table=self.table)
        return change_filter(self.handle, predicate, names)

    def lag(self, offset: StreamOffset) -> StreamLag:
        """Measure how far an offset is behind the newest snapshot; an estimate if it is far."""
        return self._lag.lag(offset, self.handle.snapshots.latest_id())

    def watermark(self, offset: StreamOffset) -> int | None:
        """Give the watermark of the last snapshot that was given whole, ms since the epoch."""
        if offset.phase == "full":
            return None  # nothing was given whole before the state
        snapshot = self._follower.kept(offset.snapshot - 1) if offset.snapshot > 1 else None
        return None if snapshot is None else snapshot.watermark

    def end_within(
        self, start: StreamOffset, end: StreamOffset, watermark: int
    ) -> StreamOffset | None:
        """Find the last snapshot between two offsets whose watermark is not later than another.

        Returns
        -------
        StreamOffset or None
            The offset behind it, for `until` of :meth:`next`; None if there is none. Watermarks
            never fall, so that few snapshots are read.
        """
        low, high = start.snapshot, end.snapshot
        while low < high:
            middle = (low + high) // 2
            found = self._follower.kept(middle)
            if found is None or (found.watermark is not None and found.watermark > watermark):
                high = middle
            else:
                low = middle + 1
        return None if low == start.snapshot else self._follower.at(low)

    def _parts(
        self, rows: StreamRows, start: StreamOffset, end: StreamOffset
    ) -> Iterator[StreamPart]:
        follower, options = self._follower, self.handle.options
        rule = PackRule(
            options.get(declared.SOURCE_SPLIT_TARGET_SIZE),
            options.get(declared.SOURCE_SPLIT_OPEN_FILE_COST),
        )
        schema, leaving = rows.context.schema, rows.leaving
        of_state = of_changes = scan_filter(schema, rows.predicate).partition
        if leaving is not None:
            of_changes = scan_filter(schema, leaving.of_keys).partition
        at, overwritten = start, False
        while at.position < end.position:
            snapshot = follower.load(at, is_begin=at is start)
            if snapshot is None:  # it was there when the end was chosen
                raise follower.rolled_back(at.snapshot)
            behind = follower.behind(snapshot)
            if behind.snapshot == end.snapshot and end.before not in (None, behind.before):
                raise follower.replaced(snapshot.id)
            units = follower.units(snapshot, phase=at.phase, created_ms=at.created_ms)
            first, last = follower.inside(at, units), units.count
            if (end.snapshot, end.phase) == (at.snapshot, at.phase):
                last = follower.inside(end, units)
            chosen = None
            of_partition = of_state if at.phase == "full" else of_changes
            if of_partition is not None:
                chosen = _matching(rows.context, units.partitions(), of_partition)
            if at.phase == "delta":
                overwritten = overwritten or follower.is_replaced(snapshot)
            for splits in units.parts(first, last, rule, partitions=chosen):
                yield StreamPart(snapshot.id, splits, overwritten, at.before)
            at = behind


def _without_start(handle: TableHandle) -> TableHandle:
    """Remove the options for the start of a stream, which batch reads refuse."""
    keys = {key for o in START_OPTIONS for key in (o.key, *o.fallback_keys)}
    texts = {key: text for key, text in handle.options.raw.items() if key not in keys}
    if len(texts) == len(handle.options.raw):
        return handle
    return handle.with_options(Options.parse(texts, table=handle.options.table))


def _matching(
    context: ReadContext, partitions: Sequence[bytes], predicate: Predicate
) -> frozenset[bytes]:
    """Find the partitions that satisfy a predicate on their columns."""
    fields = [context.schema.field(name) for name in context.schema.partition_keys]
    values = [context.paths.partition_values(p) for p in partitions]
    mask = matching_partitions(values, fields, predicate).tolist()
    return frozenset(p for p, matches in zip(partitions, mask, strict=True) if matches)
