"""From a split to its rows as Arrow batches.

1. A raw split: file after file, with the whole predicate pushed into the format.
2. A merge split: section after section. Each run is a lazily opened chain of files. Only the
   conjuncts on primary-key columns are pushed into the files: a key that does not match does so in
   every run, but a *value* that does not match may hide an older one, or be a part of the merged
   one. The runs are merged, deletes are dropped, then the other conjuncts apply.
   A file that is sorted by other columns (``pk-clustering-override``) is sorted by its keys first.
3. The rows in a file's deletion vector are dropped before anything else.
4. A data file stores keys twice (``_KEY_k`` and ``k``); only the second is read. Sequence numbers
   and kinds are not read if the manifest gives them (:mod:`tidelake.scan.system_columns`).

5. The order of a merge is noted where it is worth it. A later read of the same section needs its
   wanted columns alone (:mod:`tidelake.scan.merged_orders`); its filter on partition columns is
   applied to the rows given.

A merge split of a table without primary key has row groups: :mod:`tidelake.scan.evolved_rows`.

Files of an older schema are read with the current fields: the format finds columns by field id.

Of a remote storage the next files of a chain are opened early, and the first rows of all runs of a
merge come at once (:mod:`tidelake.format.fetching.read_ahead`).

Source: ``docs/format/reading.md``; Paimon's ``MergeFileSplitRead`` and ``RawFileSplitRead``
(1.3.1). Memory: a batch and the current pages of each open run, within the share of a merge.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

import pyarrow as pa

from tidelake.format import (
    BATCH_ROWS,
    KIND_FIELD,
    SEQUENCE_FIELD,
    DataFileRead,
    ReadAhead,
    files_in_turn,
    held_bytes,
    null_batches,
)
from tidelake.merge import (
    FileKeys,
    MergedOrder,
    MergeSpec,
    OrderRecorder,
    RunSource,
    by_level,
    merge_bounded,
    read_in_order,
    rows_in_order,
)
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.index.deletion_vector import Positions
from tidelake.scan.context import ReadContext
from tidelake.scan.data_file import deleted_rows, read_file
from tidelake.scan.evolved_rows import read_evolved
from tidelake.scan.expired import names_expiry
from tidelake.scan.merged_orders import MergedOrders, noted_bytes, order_key, orders_bytes_max
from tidelake.scan.pruning.prune import scan_filter
from tidelake.scan.split import Run, Section, Split
from tidelake.scan.system_columns import KnownColumns, known_system_columns
from tidelake.telemetry import check_wanted
from tidelake.types import DataField
from tidelake.types.predicate import Predicate, columns_of, conjoin, evaluate

Rows: TypeAlias = Mapping[str, Positions]
"""By file name, the ordinals of the only rows to read; files that it lacks are read whole."""
ALL_ROWS: Rows = MappingProxyType({})


def read_split(
    context: ReadContext,
    split: Split,
    *,
    columns: Sequence[str],
    predicate: Predicate | None,
    keep_kinds: bool = False,
    rows: Rows = ALL_ROWS,
    orders: MergedOrders | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read one split.

    Requires: `predicate` implies the one that the split was planned with.

    Parameters
    ----------
    columns : sequence of str
        The columns wanted, in order. Without any, batches still have their ``num_rows``.
    predicate : Predicate, optional
        Bound to ``context.schema``. All rows returned satisfy it.
    keep_kinds : bool
        Whether rows whose kind is a delete stay, and the column ``_VALUE_KIND`` is added at the end
        (primary-key tables only).
    rows : mapping of str to int64 array
        By file name, the ascending ordinals of the only rows to read. Files that it lacks are read
        whole. Requires: of a key with a row among those left out, all rows are.
    orders : MergedOrders, optional
        Known orders of merges of whole files; new ones are added.

    Yields
    ------
    pyarrow.RecordBatch
        The wanted columns. A merge split's rows come in key order.

    Raises
    ------
    CorruptError
        A file, or its deletion vector, is damaged or does not match the manifest.
    NotFoundError
        A file is missing: the snapshot expired while it was read, or the file was lost.

    Notes
    -----
    Runs on executors. Thread-safe: no state is shared.
    """
    wanted = context.fields(tuple(columns))
    with names_expiry(context, split.snapshot_id):
        if split.raw and not keep_kinds:
            yield from _read_raw(context, split, wanted, predicate, rows)
            return
        if not context.schema.primary_keys:
            yield from read_evolved(context, split, wanted, predicate)
            return
        sections = split.sections
        if split.raw:  # its files may be on several levels; each is a run
            sections = tuple(((file,),) for file in split.files)
        for section in sections:
            for batch in _read_section(
                context,
                split,
                section,
                wanted,
                predicate,
                keep_kinds=keep_kinds,
                only=rows,
                orders=None if rows else orders,
            ):
                check_wanted()
                if batch.num_rows:
                    yield batch


def read_changes(
    context: ReadContext,
    split: Split,
    *,
    columns: Sequence[str],
    predicate: Predicate | None,
) -> Iterator[pa.RecordBatch]:
    """Read the files of a split one after the other, each row unmerged, with its kind.

    Parameters
    ----------
    context, split, columns, predicate
        As of :func:`read_split`; the files are data files or changelog files.

    Yields
    ------
    pyarrow.RecordBatch
        The wanted columns and, for a primary-key table, ``_VALUE_KIND``.

    Raises
    ------
    CorruptError
        A file is damaged or does not match the manifest; the message names it.
    """
    fields = context.fields(tuple(columns))
    if context.schema.primary_keys:
        fields = (*fields, KIND_FIELD)
    with names_expiry(context, split.snapshot_id):
        yield from _read_raw(context, split, fields, predicate)


def _read_raw(
    context: ReadContext,
    split: Split,
    wanted: tuple[DataField, ...],
    predicate: Predicate | None,
    only: Rows = ALL_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Read the files of a split one after the other."""

    def read(file: DataFileMeta, ahead: ReadAhead) -> DataFileRead:
        deleted = deleted_rows(context, split, file)
        return read_file(
            context,
            split,
            file,
            wanted,
            predicate=predicate,
            deleted=deleted,
            rows=only.get(file.file_name),
            ahead=ahead,
        )

    ahead = ReadAhead.of(context.env)
    with closing(_in_turn(context, split.files, read, ahead)) as turns:
        for _, rows in turns:
            yield from rows


def _in_turn(
    context: ReadContext,
    files: Sequence[DataFileMeta],
    read: Callable[[DataFileMeta, ReadAhead], DataFileRead],
    ahead: ReadAhead,
) -> Generator[tuple[DataFileMeta, DataFileRead], None, None]:
    return files_in_turn(
        files,
        read,
        size_bytes=lambda file: file.file_size_bytes,
        ahead=ahead,
        is_remote=context.fileio.is_remote,
    )


def _read_section(
    context: ReadContext,
    split: Split,
    section: Section,
    wanted: tuple[DataField, ...],
    predicate: Predicate | None,
    *,
    keep_kinds: bool,
    only: Rows,
    orders: MergedOrders | None,
) -> Iterator[pa.RecordBatch]:
    spec = MergeSpec.of(context.schema, context.options)
    parts = scan_filter(context.schema, predicate)
    below, above = parts.below_merge, parts.above_merge
    key = None
    if orders is not None and not keep_kinds and parts.key is None:
        key = order_key(context, split, section, spec)
    if key is not None:
        below, above = None, conjoin(p for p in (parts.partition, above) if p is not None)
    tested: tuple[DataField, ...] = ()
    if above is not None:
        tested = context.fields(tuple(sorted(columns_of(above))))
    names = [f.name for f in wanted] + ([KIND_FIELD.name] if keep_kinds else [])
    needed = list(dict.fromkeys([*names, *(f.name for f in tested)]))
    read = _SectionRead(context, split, section, spec, tuple(needed), below, keep_kinds, only)
    rows = None
    if key is not None and orders is not None:
        order = orders.get(key)
        rows = read.noted(key, orders) if order is None else read.in_order(order)
    for batch in read.merged() if rows is None else rows:
        given = batch
        if above is not None:
            mask = evaluate(above, batch.select([f.name for f in tested]), tested)
            given = batch.filter(mask)
        yield given.select(names)


@dataclass(frozen=True, slots=True)
class _SectionRead:
    """One section that is read."""

    context: ReadContext
    split: Split
    section: Section
    spec: MergeSpec
    names: tuple[str, ...]
    below: Predicate | None
    keep_kinds: bool
    only: Rows

    def merged(self, recorder: OrderRecorder | None = None) -> Iterator[pa.RecordBatch]:
        """The rows by a merge."""
        context, spec = self.context, self.spec
        needed = [name for name in self.names if name != KIND_FIELD.name]
        known = known_system_columns(self.section, keep_kinds=self.keep_kinds)
        stored = [f for f in (SEQUENCE_FIELD, KIND_FIELD) if f not in known]
        fields = (*context.fields(spec.with_needed(needed)), *stored)
        runs = [(0, run) for run in self.section]
        if spec.looks_at_levels:
            runs = list(by_level(self.section, lambda file: file.level))
        return merge_bounded(
            [self._source(fields, known, run, level) for level, run in runs],
            spec,
            memory=context.env.memory,
            spill_files=context.spill_files,
            drop_deletes=not self.keep_kinds,
            # a merge gives at least one column, so that its batches have a number of rows
            columns=self.names or spec.key_columns,
            together=context.read_together,
            recorder=recorder,
        )

    def noted(self, key: bytes, orders: MergedOrders) -> Iterator[pa.RecordBatch]:
        """The rows by a merge whose order is kept when all rows are read, where it has room."""
        bytes_max = self.context.env.memory.merge_orders_bytes
        nbytes = noted_bytes(self.section)
        with orders.room(nbytes, bytes_max=bytes_max) as has_room:
            recorder = OrderRecorder(len(self.section), bytes_max=nbytes) if has_room else None
            yield from self.merged(recorder)
            order = None if recorder is None else recorder.order()
            if order is not None:
                orders.keep(
                    key,
                    order,
                    bytes_max=bytes_max,
                    table=self.context.uri,
                    table_bytes_max=orders_bytes_max(self.context),
                )

    def in_order(self, order: MergedOrder) -> Iterator[pa.RecordBatch] | None:
        """The rows by their order; None if the memory cannot have all runs open."""
        context = self.context
        if not self.names:
            return null_batches(pa.schema([]), len(order.run_of), BATCH_ROWS)
        fields = context.fields(self.names)
        sources = [self._source(fields, frozenset(), run, 0) for run in self.section]
        memory = context.env.memory
        return read_in_order(sources, order, memory=memory, together=context.read_together)

    def _source(
        self,
        fields: tuple[DataField, ...],
        known: frozenset[DataField],
        run: Run,
        level: int,
    ) -> RunSource:
        """A run that reads these columns, and adds the known ones."""
        ahead = ReadAhead.of(self.context.env).shared_by(len(self.section))
        sizes = [(f.file_name, f.file_size_bytes, f.row_count) for f in run]
        held = (held_bytes(n, fields, file_size_bytes=s, row_count=c) for n, s, c in sizes)
        return RunSource(
            partial(self._run, fields, known, run, ahead),
            sum(size for _, size, _ in sizes),
            max(held),
            level=level,
        )

    def _run(
        self,
        fields: tuple[DataField, ...],
        known: frozenset[DataField],
        run: Run,
        ahead: ReadAhead,
        batch_bytes: int,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a run."""
        context, split = self.context, self.split

        def read(file: DataFileMeta, ahead: ReadAhead) -> DataFileRead:
            return read_file(
                context,
                split,
                file,
                fields,
                predicate=self.below,
                deleted=deleted_rows(context, split, file),
                rows=self.only.get(file.file_name),
                batch_bytes=batch_bytes,
                ahead=ahead,
            )

        with closing(_in_turn(context, run, read, ahead)) as turns:
            for file, rows in turns:
                columns = KnownColumns(known, file)
                for batch in self._in_key_order(file, rows):
                    yield columns.added_to(batch)

    def _in_key_order(
        self, file: DataFileMeta, rows: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a file by key: those that are sorted by other columns are sorted again."""
        if FileKeys.of(self.spec).in_order(file):
            return iter(rows)
        runs_count = sum(1 for run in self.section for _ in run)
        return rows_in_order(
            rows,
            self.spec.key_columns,
            self.spec.key_types,
            buffer_bytes=max(1, self.context.env.memory.merge_rows_bytes // runs_count),
            stack=self.context.spill_stack,
        )
