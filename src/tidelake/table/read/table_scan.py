"""One read of a table: the plan, and its rows as a stream.

Rows come split by split. A limit stops the stream; the last batch is cut to it. Of a large read
without one, the first rows of the next splits are read meanwhile, within the memory for that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

import pyarrow as pa

from tidelake.foreign_names import OF_SCAN, AnswersForeignNames
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.scan import ReadContext, ScanPlan, Split, plan_scan, read_split
from tidelake.scan.masks import MaskCache, MergedPart
from tidelake.scan.merged_orders import MergedOrders
from tidelake.table.conversion.frame_methods import FrameMethods
from tidelake.table.handle.arguments import column_names, row_limit
from tidelake.table.handle.handle import TableHandle
from tidelake.table.read.scan_request import ScanRequest
from tidelake.telemetry import Ahead, Executor, Memory, ProcessMark, SerialExecutor, check_wanted
from tidelake.types import DataField
from tidelake.types.arrow import to_arrow_schema
from tidelake.types.predicate import Predicate, bind, parse_filter

AHEAD_BYTES_MIN = 16 << 20
"""A smaller read is over before threads have helped."""
SPLITS_AHEAD = 4
"""Most splits that are read side by side; no more than tasks fit the memory."""


class SplitRows(Protocol):
    """Reads splits: a table's rows, or those of a view of it. Picklable, for executors."""

    @property
    def context(self) -> ReadContext:
        """The table."""
        ...

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns wanted."""
        ...

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of a split."""
        ...


class SharingRows(SplitRows, Protocol):
    """Reads splits, also within a part of the memory."""

    def within(self, memory: Memory) -> SplitRows:
        """The same rows, read within such shares."""
        ...


@dataclass(frozen=True, slots=True)
class TableRows:
    """Reads a table's rows, split by split. Picklable.

    Parameters
    ----------
    predicate : Predicate, optional
        Bound; all rows satisfy it.
    """

    context: ReadContext
    columns: tuple[str, ...]
    predicate: Predicate | None = None
    orders: MergedOrders | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return (TableRows, (self.context, self.columns, self.predicate))

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns wanted."""
        return self.context.fields(self.columns)

    def within(self, memory: Memory) -> TableRows:
        """The same rows, read within such shares."""
        return replace(self, context=self.context.within(memory))

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of a split."""
        return read_split(
            self.context,
            split,
            columns=self.columns,
            predicate=self.predicate,
            orders=self.orders,
        )

    def read_part(self, part: MergedPart) -> Iterator[pa.RecordBatch]:
        """The rows of keys that several files have, merged."""
        return part.read(self.context, self.columns, self.predicate)


def stream(
    rows: SharingRows, splits: Sequence[Split], limit: int | None
) -> Generator[pa.RecordBatch, None, None]:
    """The rows of splits one after the other, at most `limit` of them.

    Raises
    ------
    ClosedError
        This is a forked child, and the parent began to read: both would share one file position.
    """
    mark, left = ProcessMark(), limit
    if left == 0:
        return
    with closing(_in_turn(rows, splits, may_read_ahead=limit is None)) as batches:
        for batch in batches:
            if left is None:
                yield batch
            else:
                yield batch.slice(0, left)
                left -= min(left, batch.num_rows)
                if left == 0:
                    return
            mark.check(f"This reader of {rows.context.uri}")


def _in_turn(
    rows: SharingRows, splits: Sequence[Split], *, may_read_ahead: bool
) -> Generator[pa.RecordBatch, None, None]:
    """The rows of splits one after the other."""
    size_bytes = sum(split.size_bytes for split in splits)
    env = rows.context.env
    count = min(SPLITS_AHEAD, env.memory.tasks_max, len(splits))
    if isinstance(env.executor, SerialExecutor):
        count = 1
    if may_read_ahead and count > 1 and size_bytes >= AHEAD_BYTES_MIN:
        yield from _beside_each_other(rows, splits, count)
        return
    for split in splits:
        yield from _wanted(rows, split)


def _beside_each_other(
    rows: SharingRows, splits: Sequence[Split], count: int
) -> Generator[pa.RecordBatch, None, None]:
    """The rows of splits in their order; threads read the beginnings of the next ones.

    The caller's thread reads the first split: its first rows wait for no other rows.
    """
    executor, memory = rows.context.env.executor, rows.context.env.memory
    bytes_max, shared = memory.read_ahead_bytes // count, rows.within(memory.shared_by(count))
    mark, rest = ProcessMark(), iter(splits)
    reads = deque([_SplitRead(shared, next(rest))])
    try:
        while reads:
            for split in islice(rest, count - len(reads)):
                reads.append(_SplitRead(shared, split))
                reads[-1].begin(executor, bytes_max)
            yield from reads[0].batches()
            reads.popleft()
    finally:
        if mark.is_here:  # in a forked child the parent's threads may be inside
            with ExitStack() as stack:  # if one fails, the others are closed all the same
                for read in reads:
                    stack.callback(read.close)


class _SplitRead:
    """A split that is read in its turn; a thread may read its first rows before."""

    def __init__(self, rows: SplitRows, split: Split) -> None:
        self._batches = _wanted(rows, split)
        self._first: Ahead[list[pa.RecordBatch]] | None = None

    def begin(self, executor: Executor, bytes_max: int) -> None:
        """Read so many bytes of rows on a thread."""
        self._first = executor.ahead(_beginning(self._batches, bytes_max))
        self._first.begin()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, in the caller's thread from where the other one stopped."""
        if self._first is not None:
            yield from _released(next(self._first))
        yield from self._batches

    def close(self) -> None:
        """Wait for the thread, and close the files."""
        with closing(self._batches):
            if self._first is not None:
                self._first.close()


def _beginning(
    batches: Iterator[pa.RecordBatch], bytes_max: int
) -> Generator[list[pa.RecordBatch], None, None]:
    """The first rows, as one item."""
    held, size = [], 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= bytes_max:
            break
    yield held


def _released(held: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give batches; none is kept."""
    held.reverse()
    while held:
        yield held.pop()


def _wanted(rows: SplitRows, split: Split) -> Generator[pa.RecordBatch, None, None]:
    """The rows of a split until nobody wants them."""
    for batch in rows.read(split):
        check_wanted()
        yield batch


@dataclass(frozen=True, slots=True, repr=False)
class TableScan(FrameMethods, AnswersForeignNames):
    """A planned read; made by :meth:`tidelake.Table.scan`, and read as often as wanted.

    Parameters
    ----------
    identifier : str
        ``"database.table"``.
    context : ReadContext
        The table, with the schema of the snapshot that is read.
    plan : ScanPlan
        The splits.
    columns : tuple of str
        The columns wanted.
    predicate : Predicate, optional
        Bound; all rows satisfy it.
    limit : int, optional
        The most rows wanted.
    snapshot : Snapshot, optional
        The snapshot to read.
    masks : MaskCache
        Known masks of the catalog's files.
    orders : MergedOrders, optional
        Known orders of the catalog's merges.

    Examples
    --------
    >>> import tempfile, tidelake
    >>> catalog = tidelake.open(tempfile.mkdtemp())
    >>> table = catalog.create_table("db.t", {"k": "INT", "s": "STRING"})
    >>> _ = table.append([{"k": k, "s": f"s{k}"} for k in range(5)])
    >>> scan = table.scan(columns=["s"], where="k >= 3")
    >>> scan.to_arrow().to_pylist(), len(scan)
    ([{'s': 's3'}, {'s': 's4'}], 2)
    >>> list(scan.to_pandas()["s"])
    ['s3', 's4']
    """

    _foreign_names = OF_SCAN  # no annotation, or it would be a field
    _inner_names = frozenset({"context", "masks", "orders", "predicate"})

    identifier: str
    context: ReadContext
    plan: ScanPlan
    columns: tuple[str, ...]
    predicate: Predicate | None = None
    limit: int | None = None
    snapshot: Snapshot | None = None
    masks: MaskCache = field(default_factory=MaskCache)
    orders: MergedOrders | None = None

    def __repr__(self) -> str:
        wanted = "" if self.limit is None else f", at most {self.limit} rows"
        splits = "1 split" if len(self.plan.splits) == 1 else f"{len(self.plan.splits)} splits"
        return (
            f"TableScan of {self.context.uri}: {splits}, columns"
            f" {', '.join(self.columns)}{wanted}; to_arrow(), to_pandas(), to_polars(), batches()"
            " and len() read it"
        )

    @property
    def rows(self) -> TableRows:
        """The reader of the splits."""
        return TableRows(self.context, self.columns, self.predicate, self.orders)

    @property
    def schema(self) -> pa.Schema:
        """The rows' Arrow schema."""
        return to_arrow_schema(self.rows.fields)

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """The rows, split by split.

        Raises
        ------
        ClosedError
            This is a forked child, and the parent began to read: both would share one file
            position.
        """
        return stream(self.rows, self.plan.splits, self.limit)

    def reader(self) -> pa.RecordBatchReader:
        """The rows as a reader; files are opened as the reader advances."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def to_arrow(self) -> pa.Table:
        """All rows in memory; splits are read in parallel."""
        if self.limit is not None or len(self.plan.splits) <= 1:
            return pa.Table.from_batches(self.batches(), schema=self.schema)
        parts = self.context.env.executor.map(lambda s: list(self._read(s)), self.plan.splits)
        return pa.Table.from_batches([b for part in parts for b in part], schema=self.schema)

    def count(self) -> int:
        """Number of rows; ``len()`` gives the same.

        Metadata gives it for raw splits without a predicate on rows. Deletion vectors are counted
        too, except those of the oldest writers. Other splits are read.
        """
        exact = self.plan.raw_rows_exact
        total = 0
        to_read: list[Split] = []
        for split in self.plan.splits:
            live = split.live_row_count if split.raw and exact else None
            if live is not None:
                total += live
            else:
                to_read.append(split)
        counts = self.context.env.executor.map(self._count_rows, to_read)
        total += sum(counts)
        return total if self.limit is None else min(self.limit, total)

    def _count_rows(self, split: Split) -> int:
        return sum(batch.num_rows for batch in replace(self, columns=())._read(split))

    def _typed(self) -> tuple[Sequence[DataField], str]:
        return self.rows.fields, self.identifier

    def _read(self, split: Split) -> Iterator[pa.RecordBatch]:
        return _wanted(self.rows, split)


def scan_table(handle: TableHandle, request: ScanRequest) -> TableScan:
    """Plan a read of a table; see :meth:`tidelake.Table.scan`."""
    limit = row_limit(request.limit, table=handle.identifier)

    def plan(snapshot: Snapshot | None, schema_of: Snapshot | None) -> TableScan:
        context = request.context(handle, schema_of)
        fields = context.schema.fields
        names = column_names(request.columns, context.schema.field_names, table=handle.identifier)
        context.fields(names)  # refuses unknown columns
        parsed = parse_filter(request.where)
        predicate = None if parsed is None else bind(parsed, fields)
        planned = plan_scan(
            context, snapshot, manifests=handle.manifests, predicate=predicate, limit=limit
        )
        return TableScan(
            handle.identifier,
            context,
            planned,
            names,
            predicate,
            limit,
            snapshot,
            handle.masks,
            handle.orders,
        )

    return request.planned(handle, plan)


def scan_all_rows(
    handle: TableHandle,
    snapshot: Snapshot | None,
    predicate: Predicate | None = None,
    *,
    columns: tuple[str, ...] | None = None,
) -> TableScan:
    """Plan a read for a job that rewrites rows: includes level 0, so that no row is lost.

    Parameters
    ----------
    predicate : Predicate, optional
        Bound; all rows satisfy it.
    """
    context = handle.read_context(all_rows=True)
    plan = plan_scan(context, snapshot, manifests=handle.manifests, predicate=predicate)
    names = handle.schema.field_names if columns is None else columns
    return TableScan(
        handle.identifier,
        context,
        plan,
        names,
        predicate,
        snapshot=snapshot,
        masks=handle.masks,
    )
