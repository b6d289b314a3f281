"""Rows of a table by primary key, from lookup files on the local disk.

A query is opened once and kept: it copies the files of its buckets into lookup files, which its
``refresh`` keeps in step with the table. A ``get`` then touches neither the table's storage nor its
metadata. :class:`LocalTableQuery` documents the promises.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tidelake.errors import ClosedError, InvalidInputError, NotFoundError
from tidelake.format import orc_zone_moves
from tidelake.lookup import (
    BucketView,
    KeyForm,
    KeyRows,
    LookupCache,
    LookupDirectory,
    LookupLimits,
    LookupStats,
    RawRows,
    StoredColumns,
)
from tidelake.lookup.bucket_view import Located
from tidelake.lookup.key_form import (
    Hashes,
    Image,
    Images,
    bytes_hash,
    integer_hash,
    some_images,
)
from tidelake.lookup.raw_rows import bits_of, raw_column
from tidelake.lookup.row_values import value_width
from tidelake.merge import MergeSpec
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.options import declared
from tidelake.options.bucket_mode import BucketMode
from tidelake.scan import SNAPSHOT_EXPIRED, ReadContext
from tidelake.table.handle.arguments import known_columns
from tidelake.table.handle.handle import TableHandle
from tidelake.table.query.bucket_files import FileChanges, Owns, QueriedBucket, states_of
from tidelake.table.query.key_columns import check_keyed
from tidelake.table.query.keys import KeyInput
from tidelake.table.query.lookup_result import LookupResult, RowsOfKeys
from tidelake.table.query.table_view import Places, TableShape, TableView
from tidelake.table.query.view_builder import ViewBuilder
from tidelake.table.read.other_branch import check_no_other_branch
from tidelake.table.read.scan_request import PLAN_TRIES, ScanRequest
from tidelake.telemetry import PerProcess
from tidelake.types.arrow import to_arrow_schema

Row = dict[str, Any]
Slices = Sequence[tuple[BucketId | None, int]]


class LocalTableQuery:
    """Rows of a primary-key table by key. Thread-safe; picklable; made by ``Table.local_query``.

    Parameters
    ----------
    columns : sequence of str, optional
        The columns that rows are answered with; all by default. Fewer make smaller lookup files.
    owns : callable, optional
        Which buckets are answered for; keys of others are not found.
    directory : str or Path, optional
        Where lookup files are kept, in a directory per table; by default below the machine's
        directory of temporary files. Processes share it.

    Raises
    ------
    InvalidInputError
        The table has no primary key.
    NotFoundError
        A column is unknown.

    Notes
    -----
    The rows are those that a batch read of the snapshot gives. The first use refreshes; later only
    :meth:`refresh` does, so all answers in between are of one snapshot. A forked child may go on
    with the query. A pickled one opens the same files again.
    """

    def __init__(
        self,
        handle: TableHandle,
        *,
        columns: Sequence[str] | None = None,
        owns: Owns | None = None,
        directory: str | Path | None = None,
    ) -> None:
        self._handle = handle
        self._owns = owns
        self._directory = directory
        parts = _Parts.of(handle, columns)
        self._columns, self._form = parts.columns, parts.stored.form
        self._parts = parts
        self._schema = to_arrow_schema([handle.schema.field(name) for name in parts.columns])
        self._keys = KeyInput(parts.shape.key_fields, table=handle.identifier)
        names = [field.name for field in parts.shape.key_fields]
        self._key_indexes = tuple(names.index(name) for name in parts.stored.key_columns)
        self._is_plain = self._form.is_integer and len(names) == 1
        self._hash_of: Callable[[Any], int] = integer_hash if self._form.is_integer else bytes_hash
        self._lock = PerProcess(threading.RLock)
        self._cache: LookupCache | None = None
        self._view: TableView | None = None
        self._is_closed = False
        self._hits = self._misses = 0
        self.generation = 0
        """Grows when snapshots that were seen are gone because the table was rolled back."""

    def __reduce__(self) -> tuple[object, ...]:
        return (_reopened, (self._handle, self._columns, self._owns, self._directory))

    # ---- what it is

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that answers; None before the first refresh, or for a table without one."""
        view = self._view
        return None if view is None or view.snapshot is None else view.snapshot.id

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self._schema

    @property
    def key_schema(self) -> pa.Schema:
        """The columns of the primary key."""
        return to_arrow_schema(self._parts.shape.key_fields)

    @property
    def stats(self) -> LookupStats:
        """Counts; of keys beside other threads about."""
        view, cache = self._view, self._cache
        opened = [] if view is None else list(view.opened.values())
        return LookupStats(
            files_count=len(opened),
            mapped_bytes=sum(file.size_bytes for file in opened if file.is_mapped),
            disk_bytes=sum(file.size_bytes for file in opened),
            hits=self._hits,
            misses=self._misses,
            builds=0 if cache is None else cache.builds_count,
        )

    # ---- refresh

    def refresh(self, snapshot_id: int | None = None) -> int | None:
        """Answer from another snapshot from now on.

        Parameters
        ----------
        snapshot_id : int, optional
            That one; by default the newest.

        Returns
        -------
        int or None
            The snapshot; None for a table without one.

        Raises
        ------
        NotFoundError
            There is no such snapshot, or the table was dropped. The old answers stay.
        InvalidInputError
            A column has another type since the query was opened. The old answers stay.
        StorageError
            The disk has no room for the lookup files. The old answers stay.
        """
        with self._lock.value:
            self._check_open()
            request = ScanRequest(snapshot_id=snapshot_id)
            request.check_all_files(self._handle)
            check_no_other_branch(self._handle, "A lookup by key")
            tries_left = 1 if request.travels(self._handle) else PLAN_TRIES
            while True:
                snapshot = request.snapshot(self._handle)
                tries_left -= 1
                try:
                    return self._show(snapshot, None)
                except NotFoundError as error:
                    if error.kind != SNAPSHOT_EXPIRED or not tries_left:
                        raise

    def apply(self, changes: FileChanges) -> int | None:
        """Answer from the snapshot that changes lead to; no metadata is read.

        Parameters
        ----------
        changes : FileChanges
            What a scanner of the table found. Changes that begin at another snapshot than
            :attr:`snapshot_id`, or that are complete, must be of all buckets.

        Returns
        -------
        int or None
            The snapshot.

        Raises
        ------
        InvalidInputError
            The changes begin at another snapshot than the one that answers.
        """
        with self._lock.value:
            self._check_open()
            view = self._view
            states: dict[BucketId, QueriedBucket] = {}
            if changes.base is not None:
                own = None if view is None else view.snapshot
                if own != changes.base:
                    message = (
                        f"Changes of table '{self._handle.identifier}' from snapshot"
                        f" {changes.base.id} do not fit a query at snapshot {self.snapshot_id}:"
                        " call refresh()."
                    )
                    raise InvalidInputError(message, kind="changes_base")
                assert view is not None
                states = dict(view.states)
            for change in changes.buckets:
                if self._owns is not None and not self._owns(change.bucket_id):
                    continue
                states.pop(change.bucket_id, None)
                if change.after is not None:
                    states[change.bucket_id] = change.after
            return self._show(changes.snapshot, states)

    def note_use(self) -> None:
        """Say that the lookup files are in use, so that the next process still finds them.

        A refresh does so. Who answers for hours from a table that does not change calls it now and
        then; it costs nothing until a part of ``lookup.cache-file-retention`` is over.
        """
        view, cache = self._view, self._cache
        if view is not None and cache is not None:
            cache.sweep(view.opened)

    def warm(self) -> None:
        """Bring the lookup files into memory, so that the first answers are fast too."""
        for opened in self._current().opened.values():
            opened.warm()

    def close(self) -> None:
        """Release the files; they stay on disk for the next query. More than once is fine.

        A refresh that is under way is not waited for: what it makes is released too.
        """
        self._is_closed = True
        self._view = None

    def __enter__(self) -> LocalTableQuery:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- rows

    def get(self, key: object, *, columns: Sequence[str] | None = None) -> Row | None:
        """The row of a key; None without one.

        Parameters
        ----------
        key : object
            The value of a key of one column; a tuple in the order of the primary key; a dict.

        Raises
        ------
        InvalidInputError
            The key has the wrong number of values, a null, or a value of another type.
        """
        view = self._view or self._current()
        values = self._keys.values(key)
        names = self._columns if columns is None else self._known(columns)
        buckets = view.buckets_for(values)
        image = values[0] if self._is_plain else self._image(values)
        hashed = self._hash_of(image)
        for bucket in buckets:
            row = bucket.get(hashed, image, names)
            if row is not None:
                self._hits += 1
                return row
        self._misses += 1
        return None

    def get_many(self, keys: object, *, columns: Sequence[str] | None = None) -> Any:
        """The rows of many keys.

        Parameters
        ----------
        keys : object
            A list of keys as :meth:`get` takes them, or an Arrow array, batch or table.

        Returns
        -------
        list of (dict or None), or pyarrow.Table
            One row per key in the order of the keys; a table for Arrow, with nulls in the row of a
            key that is not there.
        """
        result = self.lookup(self._keys.batch(keys), columns=columns)
        is_arrow = isinstance(keys, (pa.Array, pa.ChunkedArray, pa.RecordBatch, pa.Table))
        return result.table() if is_arrow else result.dicts()

    def lookup(
        self,
        keys: pa.RecordBatch,
        *,
        columns: Sequence[str] | None = None,
        slices: Slices | None = None,
    ) -> LookupResult:
        """The rows of a batch of keys, from one snapshot.

        Parameters
        ----------
        keys : RecordBatch [n]
            The columns of the primary key.
        slices : sequence of (BucketId or None, int), optional
            The buckets of consecutive keys, where the caller has routed them; a bucket of -1 is any
            of its partition, None any at all.

        Returns
        -------
        LookupResult
        """
        located = self.locate(self._keys.batch(keys), columns=columns, slices=slices)
        return LookupResult(located.snapshot_id, located.found, located.rows())

    def locate(
        self,
        keys: pa.RecordBatch,
        *,
        columns: Sequence[str] | None = None,
        slices: Slices | None = None,
    ) -> RowsOfKeys:
        """Where the rows of a batch of keys are, as of one snapshot.

        Requires: `keys` has the schema :attr:`key_schema`, and no nulls.
        """
        view = self._view or self._current()
        names = self._columns if columns is None else self._known(columns)
        images = self._form.images([keys.column(index) for index in self._key_indexes])
        hashes = self._form.hashes(images)
        found = np.zeros(keys.num_rows, np.bool_)
        parts: list[KeyRows] = []
        if slices is None:
            routed = view.routed(keys)
        else:
            self._check_slices(slices, keys.num_rows)
            routed = view.routed_as(slices)
        for buckets, own in routed:
            for part in _found_in(buckets, own, hashes, images, names):
                found[part.keys] = True
                parts.append(part)
        hits = int(np.count_nonzero(found))
        self._hits += hits
        self._misses += keys.num_rows - hits
        if hits < keys.num_rows:
            ranks = np.cumsum(found) - 1
            parts = [KeyRows(ranks[part.keys], part.source, part.rows) for part in parts]
        snapshot_id = None if view.snapshot is None else view.snapshot.id
        return RowsOfKeys(snapshot_id, found, hits, parts, self._schema_of(names))

    def raw_rows(
        self,
        keys: Sequence[Sequence[Any]],
        *,
        columns: Sequence[str] | None = None,
        slices: Slices | None = None,
    ) -> RawRows | None:
        """The bytes of the rows of a few keys: 2 us a key, where :meth:`lookup` begins at 300.

        Parameters
        ----------
        keys : sequence of sequences
            The parts of each key as Arrow's memory holds them, in the order of the primary key.

        Returns
        -------
        RawRows or None
            None where :meth:`lookup` has to answer: a key has several rows to merge, or a column is
            of a nested type.
        """
        view = self._view or self._current()
        names = self._columns if columns is None else self._known(columns)
        widths = self._parts.known_widths.get(names) or self._widths(names)
        if None in widths:
            return None
        images = [v[0] for v in keys] if self._is_plain else [self._image(v) for v in keys]
        hashes = list(map(self._hash_of, images))
        located = _located(self._buckets_of(view, keys, slices), hashes, images, names)
        if located is None:
            return None
        rows = [hit for hit in located if hit is not None]
        self._hits += len(rows)
        self._misses += len(located) - len(rows)
        segments = [
            (raw_of, [row for _, row in own]) for raw_of, own in groupby(rows, key=itemgetter(0))
        ]
        made = [
            raw_column([v for raw_of, own in segments for v in map(raw_of[place], own)], width)  # type: ignore[arg-type]
            for place, width in enumerate(widths)
        ]
        snapshot_id = None if view.snapshot is None else view.snapshot.id
        return RawRows(snapshot_id, bits_of([h is not None for h in located]), len(rows), made)

    # ---- inside

    def _widths(self, names: tuple[str, ...]) -> tuple[int | None, ...]:
        """Bytes of the values of some columns: :func:`value_width`."""
        widths = tuple(map(value_width, self._schema_of(names).types))
        if len(self._parts.known_widths) < PROJECTIONS_MAX:
            self._parts.known_widths[names] = widths
        return widths

    def _image(self, values: Sequence[Any]) -> Image:
        return self._form.image([values[index] for index in self._key_indexes])

    def _buckets_of(
        self, view: TableView, keys: Sequence[Sequence[Any]], slices: Slices | None
    ) -> Iterable[tuple[Sequence[BucketView], int]]:
        """The buckets that may hold keys that follow each other, and how many these are."""
        if slices is None:
            return ((view.buckets_for(values), 1) for values in keys)
        self._check_slices(slices, len(keys))
        return ((view.buckets_named(bucket_id), count) for bucket_id, count in slices)

    def _current(self) -> TableView:
        self._check_open()
        if self._view is None:
            self.refresh()
        view = self._view
        assert view is not None, "a refresh shows a view"
        return view

    def _schema_of(self, names: tuple[str, ...]) -> pa.Schema:
        if names == self._columns:
            return self._schema
        return to_arrow_schema([self._handle.schema.field(name) for name in names])

    def _known(self, columns: Sequence[str]) -> tuple[str, ...]:
        if type(columns) is tuple and columns in self._parts.known_projections:
            return columns
        names = known_columns(columns, self._columns, table=self._handle.identifier)
        if not names:
            message = f"columns= names no column of table '{self._handle.identifier}'."
            raise InvalidInputError(message, kind="no_columns", table=self._handle.identifier)
        if type(columns) is tuple and len(self._parts.known_projections) < PROJECTIONS_MAX:
            self._parts.known_projections.add(columns)
        return names

    def _check_open(self) -> None:
        if self._is_closed:
            message = f"This query of table '{self._handle.identifier}' is closed: open a new one."
            raise ClosedError(message, table=self._handle.identifier)

    def _check_slices(self, slices: Slices, count: int) -> None:
        total = sum(own for _, own in slices)
        if total != count:
            message = f"The slices are of {total:,} keys, but there are {count:,}."
            raise InvalidInputError(message, kind="slices", table=self._handle.identifier)

    def _show(
        self, snapshot: Snapshot | None, states: dict[BucketId, QueriedBucket] | None
    ) -> int | None:
        """Make a snapshot's view, and answer from it."""
        before = self._view
        shown = None if before is None else before.snapshot
        was_rolled_back = self._is_gone(shown)
        if before is None or shown != snapshot or states is not None:
            context = self._handle.read_context()
            if states is None:
                states = states_of(
                    context, snapshot, manifests=self._handle.manifests, owns=self._owns
                )
            builder = self._builder(context)
            self._view = view = builder.next_view(before, snapshot, states)
            if self._is_closed:  # meanwhile
                self._view = None
                self._check_open()
            before = None  # what only it had mapped makes room for others
            for bucket in view.buckets.values():
                bucket.map_what_fits(builder.cache.budget)
        self.note_use()
        self.generation += was_rolled_back
        return self.snapshot_id

    def _is_gone(self, shown: Snapshot | None) -> bool:
        """Whether the snapshot that answers was rolled back, and not only expired."""
        if shown is None:
            return False
        there = self._handle.snapshots.find(shown.id)
        if there is not None:
            return there != shown
        newest = self._handle.snapshots.latest_id()
        return newest is None or newest < shown.id

    def _builder(self, context: ReadContext) -> ViewBuilder:
        if self._cache is None:
            self._cache = _cache_of(self._handle, self._directory)
        parts = self._parts
        return ViewBuilder(context, parts.spec, parts.shape, parts.stored, self._cache)


def _located(
    places: Iterable[tuple[Sequence[BucketView], int]],
    hashes: Sequence[int],
    images: Sequence[Image],
    names: tuple[str, ...],
) -> list[Located | None] | None:
    """Where the row of each key is; None where rows must be merged to tell."""
    located: list[Located | None] = []
    for buckets, count in places:
        own = slice(len(located), len(located) + count)
        found: list[Located | None] | None = [None] * count
        for number, bucket in enumerate(buckets):
            more = bucket.locate(hashes[own], images[own], names)
            if more is None or found is None:
                return None
            found = more if not number else [a or b for a, b in zip(found, more, strict=True)]
        located += found or ()
    return located


def _found_in(
    buckets: Sequence[BucketView],
    own: Places | slice | None,
    hashes: Hashes,
    images: Images,
    names: tuple[str, ...],
) -> Iterator[KeyRows]:
    """The rows of some keys in the buckets that may hold them; their keys as of the batch."""
    if own is not None:
        hashes, images = hashes[own], some_images(images, own)
    is_open = None if len(buckets) == 1 else np.ones(len(hashes), np.bool_)
    still: Places | None = None
    for bucket in buckets:
        asked = (hashes, images)
        if still is not None:
            asked = (hashes[still], some_images(images, still))
        for part in bucket.find(*asked, names):
            keys = part.keys if still is None else still[part.keys]
            if is_open is not None:
                is_open[keys] = False
            if own is not None:
                keys = keys + own.start if isinstance(own, slice) else own[keys]
            yield KeyRows(keys, part.source, part.rows)
        if is_open is not None:
            still = np.flatnonzero(is_open)


PROJECTIONS_MAX = 64
"""Checked projections that are remembered."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a query knows of its table."""

    columns: tuple[str, ...]
    spec: MergeSpec
    shape: TableShape
    stored: StoredColumns
    known_projections: set[tuple[str, ...]]
    known_widths: dict[tuple[str, ...], tuple[int | None, ...]]

    @classmethod
    def of(cls, handle: TableHandle, columns: Sequence[str] | None) -> _Parts:
        schema, options = handle.schema, handle.options
        check_keyed(schema, table=handle.identifier)
        names = known_columns(columns, schema.field_names, table=handle.identifier)
        if not names:
            message = f"columns= names no column of table '{handle.identifier}'."
            raise InvalidInputError(message, kind="no_columns", table=handle.identifier)
        spec = MergeSpec.of(schema, options)
        form = KeyForm(spec.key_types)
        needed = [n for n in spec.with_needed(names) if n in names or n not in spec.key_columns]
        if form.is_own_column:
            needed = list(dict.fromkeys([*spec.key_columns, *needed]))
        fields = tuple(schema.field(name) for name in needed)
        moves = schema.keys_may_move
        shape = TableShape(
            key_fields=tuple(schema.field(name) for name in schema.primary_keys),
            partition_fields=()
            if moves
            else tuple(schema.field(name) for name in schema.partition_keys),
            bucket_fields=tuple(schema.field(name) for name in schema.bucket_keys),
            bucket_function=options.get(declared.BUCKET_FUNCTION_TYPE),
            is_hashed=handle.bucket_mode is BucketMode.FIXED,
            keys_may_move=moves,
        )
        read_with = (str(handle.env.zone), str(orc_zone_moves(options)))
        stored = StoredColumns(spec.key_columns, form, fields, read_with)
        return cls(names, spec, shape, stored, set(), {})


_CACHES: PerProcess[dict[tuple[LookupDirectory, LookupLimits], LookupCache]] = PerProcess(dict)
"""The caches of this process: queries of one table share theirs."""


def _cache_of(handle: TableHandle, directory: str | Path | None) -> LookupCache:
    place = LookupDirectory.of(handle.uri, directory)
    options = handle.options
    limits = LookupLimits(
        options.get(declared.LOOKUP_CACHE_MAX_MEMORY_SIZE),
        options.get(declared.LOOKUP_CACHE_MAX_DISK_SIZE),
        options.get(declared.LOOKUP_CACHE_FILE_RETENTION),
    )
    found = _CACHES.value.get((place, limits))
    if found is None:
        env = handle.env
        found = LookupCache(place, limits, clock=env.clock, ids=env.ids)
        found = _CACHES.value.setdefault((place, limits), found)
    return found


def _reopened(
    handle: TableHandle,
    columns: tuple[str, ...],
    owns: Owns | None,
    directory: str | Path | None,
) -> LocalTableQuery:
    return LocalTableQuery(handle, columns=columns, owns=owns, directory=directory)
