"""One read of a table: the plan, and its rows as a stream.

A read may take partitions from another branch (:mod:`tidelake.table.read.other_branch`): then a
second scan, of that branch, follows.

Rows come split by split. A limit stops the stream; the last batch is cut to it. Of a large read
without one, the first rows of the next splits are read meanwhile, within the memory for that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

import pyarrow as pa

from tidelake.errors import NotFoundError
from tidelake.foreign_names import OF_SCAN, AnswersForeignNames
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.scan import (
    SNAPSHOT_EXPIRED,
    ReadContext,
    ScanPlan,
    Split,
    partitions_read,
    plan_scan,
    read_split,
)
from tidelake.scan.masks import MaskCache, MergedPart
from tidelake.scan.merged_orders import MergedOrders
from tidelake.table.conversion.frame_methods import FrameMethods
from tidelake.table.handle.arguments import column_names, row_limit
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.read_hold import ReadHold
from tidelake.table.read.other_branch import (
    OtherBranch,
    both_fields,
    check_alike,
    other_branch,
)
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
    hold : ReadHold
        Holds the snapshot until the scan, and what reads by it, is collected, or until
        :meth:`close`.
    other : TableScan, optional
        The partitions of another branch that belong to the read. `context`, `plan`, `rows` and
        `snapshot` are of the table's own ones.

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
    hold: ReadHold = field(default_factory=ReadHold, compare=False)
    other: TableScan | None = None

    def __repr__(self) -> str:
        wanted = "" if self.limit is None else f", at most {self.limit} rows"
        count = sum(len(part.plan.splits) for part in self.parts)
        splits = "1 split" if count == 1 else f"{count} splits"
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
    def parts(self) -> tuple[TableScan, ...]:
        """The scans of one branch each that give the rows."""
        return (self,) if self.other is None else (replace(self, other=None), self.other)

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns of the rows."""
        beside = None if self.other is None else self.other.rows.fields
        return both_fields(self.rows.fields, beside)

    @property
    def schema(self) -> pa.Schema:
        """The rows' Arrow schema."""
        return to_arrow_schema(self.fields)

    def close(self) -> None:
        """Let the snapshot go, as the end of a ``with`` block does; an expiry may then take it."""
        with ExitStack() as stack:
            if self.other is not None:
                stack.callback(self.other.close)
            self.hold.release()

    def __enter__(self) -> TableScan:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """The rows, split by split.

        Raises
        ------
        ClosedError
            This is a forked child, and the parent began to read: both would share one file
            position.
        """
        return self._batches(closes=False)

    def _batches(self, *, closes: bool) -> Generator[pa.RecordBatch, None, None]:
        """The rows; the scan, and so what holds the snapshot, lives as long as they are read."""
        left, schema = self.limit, self.schema
        for part in self.parts:
            for batch in stream(part.rows, part.plan.splits, left):
                left = None if left is None else left - batch.num_rows
                yield batch if self.other is None else batch.cast(schema)
        if closes:
            self.close()

    def reader(self) -> pa.RecordBatchReader:
        """The rows as a reader; files are opened as the reader advances."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def reader_once(self) -> pa.RecordBatchReader:
        """The rows as a reader, the only one of this scan: with its last row the scan closes."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches(closes=True))

    def to_arrow(self) -> pa.Table:
        """All rows in memory; splits are read in parallel."""
        if self.other is not None and self.limit is None:
            return pa.concat_tables([part.to_arrow().cast(self.schema) for part in self.parts])
        if self.limit is not None or len(self.plan.splits) <= 1:
            return pa.Table.from_batches(self.batches(), schema=self.schema)
        parts = self.context.env.executor.map(lambda s: list(self._read(s)), self.plan.splits)
        return pa.Table.from_batches([b for part in parts for b in part], schema=self.schema)

    def count(self) -> int:
        """Number of rows; ``len()`` gives the same.

        Metadata gives it for raw splits without a predicate on rows. Deletion vectors are counted
        too, except those of the oldest writers. Other splits are read.
        """
        if self.other is not None:
            found = sum(part.count() for part in self.parts)
            return found if self.limit is None else min(self.limit, found)
        exact = self.plan.raw_rows_exact
        total = 0
        to_read: list[Split] = []
        for split in self.plan.splits:
            live = split.live_row_count if split.raw and exact else None
            if live is not None:
                total += live
            else:
                to_read.append(split)
        if to_read:
            self.hold.begin()
        counts = self.context.env.executor.map(self._count_rows, to_read)
        total += sum(counts)
        return total if self.limit is None else min(self.limit, total)

    def _count_rows(self, split: Split) -> int:
        return sum(batch.num_rows for batch in replace(self, columns=())._read(split))

    def _typed(self) -> tuple[Sequence[DataField], str]:
        return self.fields, self.identifier

    def _read(self, split: Split) -> Iterator[pa.RecordBatch]:
        return _wanted(self.rows, split)


def scan_table(handle: TableHandle, request: ScanRequest, *, begins: bool = True) -> TableScan:
    """Plan a read of a table; see :meth:`tidelake.Table.scan`.

    Parameters
    ----------
    begins : bool
        Whether to hold the snapshot before the plan; False where metadata may be all that is read.
    """
    other = other_branch(handle)
    asked = None if other is None else other.request(handle, request)
    if other is None or asked is None:
        return _scan(handle, request, begins=begins)
    return _scan_both(handle, request, other, asked, begins=begins)


def _scan_both(
    handle: TableHandle,
    request: ScanRequest,
    other: OtherBranch,
    asked: ScanRequest,
    *,
    begins: bool,
) -> TableScan:
    """Plan the branch that comes first, then the partitions of the other one that it lacks."""
    both = [(handle, request), (other.handle, asked)]
    (first, its_request), (second, other_request) = both[::-1] if other.comes_first else both
    head = _scan(first, its_request, begins=begins)
    try:
        taken = partitions_read(
            head.context, head.snapshot, manifests=first.manifests, predicate=head.predicate
        )
        rest = _scan(second, other_request, begins=begins, without=taken)
    except BaseException:
        head.close()
        raise
    own, beside = (rest, head) if other.comes_first else (head, rest)
    found = replace(own, other=beside)
    try:
        check_alike(own.context, other, beside.context, table=handle.identifier)
    except BaseException:
        found.close()
        raise
    return found


def _scan(
    handle: TableHandle,
    request: ScanRequest,
    *,
    begins: bool,
    without: Collection[bytes] = (),
) -> TableScan:
    """Plan a read of one branch, without some partitions."""
    limit = row_limit(request.limit, table=handle.identifier)

    def plan(snapshot: Snapshot | None, schema_of: Snapshot | None, hold: ReadHold) -> TableScan:
        context = request.context(handle, schema_of)
        fields = context.schema.fields
        names = column_names(request.columns, context.schema.field_names, table=handle.identifier)
        context.fields(names)  # refuses unknown columns
        parsed = parse_filter(request.where)
        predicate = None if parsed is None else bind(parsed, fields)
        planned = plan_scan(
            context,
            snapshot,
            manifests=handle.manifests,
            predicate=predicate,
            limit=limit,
            without=without,
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
            hold,
        )

    return request.planned_held(handle, plan, begins=begins)


def count_rows(handle: TableHandle, request: ScanRequest) -> int:
    """Count the rows of a read; its snapshot is held only if metadata does not give the number."""
    try:
        with scan_table(handle, request, begins=False) as scan:
            return scan.count()
    except NotFoundError as error:
        if error.kind != SNAPSHOT_EXPIRED or request.travels(handle):
            raise
    with scan_table(handle, request) as scan:  # it expired between the plan and the hold
        return scan.count()


def scan_all_rows(
    handle: TableHandle,
    snapshot: Snapshot | None,
    predicate: Predicate | None = None,
    *,
    columns: tuple[str, ...] | None = None,
) -> TableScan:
    """Plan a read for a job that rewrites rows: includes level 0, so that no row is lost.

    The snapshot is held as that of any read.

    Parameters
    ----------
    predicate : Predicate, optional
        Bound; all rows satisfy it.
    """
    hold = handle.hold(snapshot)
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
        hold=hold,
    )
