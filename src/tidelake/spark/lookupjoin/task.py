"""The executor's side of a lookup join: batches of keys in, the rows found out.

A row gets a list: the struct of the columns where its key was found, else nothing. Spark's
``inline`` makes columns of it, and drops rows without a match or keeps them. So only keys go to
Python and only what was found comes back, the rows' other columns stay where they are, and with
them their watermark and their order.

A process keeps what it opened: the next task of a stream only takes in the files that changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.engine.env import Clock, RecentlyUsed, SystemClock
from tidelake.engine.lookup import LocalTableQuery
from tidelake.engine.tables import Table
from tidelake.spark.expression.types import spark_arrow_schema, to_spark_arrow
from tidelake.spark.lookupjoin.pin import NO_SNAPSHOT
from tidelake.spark.lookupjoin.request import Retry
from tidelake.types import DataField, DataType, TypeRoot
from tidelake.types.arrow import to_arrow_schema

QUERIES_KEPT_MAX = 16
"""Tables that a process keeps open; the one unused for the longest time is closed."""
_QUERIES: RecentlyUsed[tuple[object, ...], LocalTableQuery] = RecentlyUsed(
    entries_max=QUERIES_KEPT_MAX
)

Found: TypeAlias = "tuple[np.ndarray, pa.RecordBatch]"
"""Per key whether it was found, and the rows found in the order of the keys."""
_TEXTS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_BYTES = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})


class LookupSource(Protocol):
    """Where keys are looked up. Picklable."""

    def show(self, snapshot: int) -> None:
        """Prepare for calls of :meth:`at` for a snapshot, until this is called for another."""
        ...

    def at(self, keys: pa.RecordBatch, snapshot: int) -> Found:
        """Look keys up in that snapshot."""
        ...

    def newest(self, keys: pa.RecordBatch) -> Found:
        """Look keys up as the table is now."""
        ...


@dataclass(frozen=True, slots=True)
class LocalLookup:
    """Looks keys up in files of this machine. Picklable."""

    table: Table
    columns: tuple[str, ...]

    def show(self, snapshot: int) -> None:
        """Take in the files that changed; a number may be of another snapshot after a rollback."""
        self._query("pinned").refresh(snapshot)

    def at(self, keys: pa.RecordBatch, snapshot: int) -> Found:
        """Look keys up in that snapshot."""
        query = self._query("pinned")
        assert query.snapshot_id == snapshot, "show() was called for it"
        return self._found(query, keys)

    def newest(self, keys: pa.RecordBatch) -> Found:
        """Look keys up as the table is now."""
        query = self._query("newest")
        query.refresh()
        return self._found(query, keys)

    def _found(self, query: LocalTableQuery, keys: pa.RecordBatch) -> Found:
        result = query.lookup(keys, columns=self.columns)
        return np.asarray(result.found, dtype=bool), result.rows

    def _query(self, role: str) -> LocalTableQuery:
        options = tuple(sorted(self.table.options.raw.items()))
        # a table made anew, or in a store at another endpoint, may have the URI and schema's id too
        schema = (self.table.table_schema.id, self.table.table_schema.time_ms)
        key = (role, self.table.handle.branch_uri, schema, options, self.columns)
        query = _QUERIES.get(key)
        if query is None:
            kept = dict.fromkeys([*self.columns, *self.table.primary_keys])
            query = self.table.local_query(columns=list(kept))
            for _, unused in _QUERIES.keep(key, query):
                unused.close()
        return query


@dataclass(frozen=True, slots=True)
class LookupTask:
    """What a task needs. Picklable.

    Parameters
    ----------
    retry : Retry, optional
        Whether missing keys are asked for again.
    """

    source: LookupSource
    keys: tuple[DataField, ...]
    columns: tuple[DataField, ...]
    retry: Retry | None = None
    clock: Clock = field(default_factory=SystemClock)

    def lists(self, keys: Sequence[pa.Array], snapshot: int) -> pa.ListArray:
        """Look up one batch: per row a list of the row found, or an empty one.

        Parameters
        ----------
        snapshot : int
            The one that the source was prepared for; or
            :data:`~tidelake.spark.lookupjoin.pin.NO_SNAPSHOT`, in which nothing is found.
        """
        present, valid = present_keys(keys, self.keys)
        hits, rows = self._looked_up(present, snapshot)
        found = hits
        if valid is not None:
            found = np.zeros(len(keys[0]), dtype=bool)
            found[valid.to_numpy(zero_copy_only=False)] = hits
        offsets = np.zeros(len(found) + 1, dtype=np.int32)
        np.cumsum(found, out=offsets[1:])
        columns = to_spark_arrow(rows, self.columns)
        struct = pa.StructArray.from_arrays(
            columns.columns, fields=list(spark_arrow_schema(self.columns))
        )
        return pa.ListArray.from_arrays(pa.array(offsets), struct)

    def _looked_up(self, keys: pa.RecordBatch, snapshot: int) -> Found:
        hits, rows = np.zeros(keys.num_rows, dtype=bool), self._no_rows()
        if keys.num_rows and snapshot != NO_SNAPSHOT:
            hits, rows = self.source.at(keys, snapshot)
        retry = self.retry
        for _ in range(0 if retry is None else retry.attempts_max):
            if hits.all():
                break
            assert retry is not None
            self.clock.sleep_ms(retry.delay_ms)
            hits, rows = self._again(keys, hits, rows)
        return hits, rows

    def _again(self, keys: pa.RecordBatch, hits: np.ndarray, rows: pa.RecordBatch) -> Found:
        """Ask for the missing keys once more, and put what is found between the other rows."""
        late, late_rows = self.source.newest(keys.filter(pa.array(~hits)))
        if not late.any():
            return hits, rows
        every = hits.copy()
        every[np.flatnonzero(~hits)[late]] = True
        # the rows found before and those found now, each to the place of its key
        ranks = np.cumsum(every) - 1
        source = np.empty(len(late_rows) + len(rows), dtype=np.int64)
        source[ranks[hits]] = np.arange(len(rows))
        source[ranks[every & ~hits]] = len(rows) + np.arange(len(late_rows))
        both = pa.concat_batches([rows, late_rows.cast(rows.schema)])
        return every, both.take(pa.array(source))

    def _no_rows(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([], schema=to_arrow_schema(self.columns))


def lookup_lists(
    task: LookupTask, *, calls_max: int
) -> Callable[[Iterator[tuple[pa.Array, ...]]], Iterator[pa.Array]]:
    """Make the function of an Arrow UDF: batches of keys and a snapshot in, lists out, in order.

    Parameters
    ----------
    calls_max : int
        How many batches are looked up at a time; 1 without threads.
    """

    def lists(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        calls = _calls(task, batches)
        if calls_max > 1:
            yield from _several(calls, calls_max)
            return
        for call in calls:
            yield call()

    return lists


def _calls(
    task: LookupTask, batches: Iterator[tuple[pa.Array, ...]]
) -> Iterator[Callable[[], pa.Array]]:
    """The lookups of a task, one per batch; all of one snapshot."""
    shown = NO_SNAPSHOT
    for *keys, pins in batches:
        snapshot = pins[0].as_py() if len(pins) else shown
        if snapshot != shown:
            task.source.show(snapshot)
            shown = snapshot
        yield partial(task.lists, keys, shown)


def _several(calls: Iterator[Callable[[], pa.Array]], calls_max: int) -> Iterator[pa.Array]:
    """Run some calls at a time; the answers in the order of the calls."""
    with ThreadPoolExecutor(calls_max, thread_name_prefix="tidelake-lookup") as pool:
        waiting: deque[Future[pa.Array]] = deque()
        for call in calls:
            if len(waiting) == calls_max:
                yield waiting.popleft().result()
            waiting.append(pool.submit(call))
        while waiting:
            yield waiting.popleft().result()


def present_keys(
    columns: Sequence[pa.Array], fields: Sequence[DataField]
) -> tuple[pa.RecordBatch, pa.BooleanArray | None]:
    """Return keys that a table may hold, and which of the rows have one.

    A null is equal to nothing; nor is a time finer than the key's type, or a text longer than it.

    Parameters
    ----------
    columns : sequence of Array
        In Spark's types, one per column of the key.

    Returns
    -------
    RecordBatch
        Without nulls, with the types of the key.
    BooleanArray or None
        Which rows these are; None if all.
    """
    schema = to_arrow_schema([DataField(f.id, f.name, f.type.not_null()) for f in fields])
    arrays = [
        _fitting(_typed(c, t), f.type)
        for c, t, f in zip(columns, schema.types, fields, strict=True)
    ]
    missing = [a for a in arrays if a.null_count]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    if not missing:
        return batch, None
    valid = missing[0].is_valid()
    for array in missing[1:]:
        valid = pc.and_(valid, array.is_valid())
    return batch.filter(valid), valid


def _typed(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if column.type == wanted:
        return column
    typed = pc.cast(column, wanted, safe=False)
    if not pa.types.is_temporal(wanted):
        return typed
    same = pc.equal(pc.cast(typed, column.type, safe=False), column)
    return typed if pc.all(same).as_py() is not False else pc.if_else(same, typed, None)


def _fitting(column: pa.Array, wanted: DataType) -> pa.Array:
    """A column of text or bytes with nulls in place of what no key of this type can be."""
    if wanted.root in _TEXTS:
        lengths = pc.utf8_length(column)
    elif wanted.root in _BYTES:
        lengths = pc.binary_length(column)
    else:
        return column
    fits = pc.less_equal(lengths, pa.scalar(wanted.length, lengths.type))
    return column if pc.all(fits).as_py() is not False else pc.if_else(fits, column, None)
