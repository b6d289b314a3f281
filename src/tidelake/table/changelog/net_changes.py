"""The net change between two snapshots, as rows with kinds.

The **net** change of (start, end] turns the state at `start` into the state at `end`, whatever was
written, overwritten or compacted in between. It works although snapshots in between have expired.

Primary-key tables, per bucket whose set of files differs:

1. A file that both states have, with the same deletion vector, is left out if its range of keys
   meets that of no other file. The rest of both states is cut into sections together. Each section
   is a part.
2. Of a part that is mostly shared only the keys that may differ are read
   (:mod:`tidelake.table.changelog.narrowing`). It is merged for each state, sorted by key, and
   compared
   (:func:`tidelake.table.changelog.snapshot_diff.diff_sorted`): ``+I``, ``-D``, and ``-U`` ``+U``
   pairs.

Append tables, per bucket whose set of files or of deletion vectors differs:

1. If files were only added, their rows are ``+I``. If vectors only gained marks, the rows that they
   newly mark are ``-D``. Each such file is a part.
2. If rows went and came (a compaction moved them, an overwrite replaced files, an update marked
   rows and added files), the bucket is one part, and the rows of both sides are compared as
   multisets. To bound memory, a hash spreads rows over passes of at most ``PASS_ROWS_MAX`` rows;
   each pass reads the files again.

Memory: a batch per open file; for multisets also ``PASS_ROWS_MAX`` rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tidelake.codec.bucket import hash_rows
from tidelake.merge import FileKeys, MergeSpec
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.index.deletion_vector import Positions
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.lazy_file_list import names_of
from tidelake.scan import (
    BucketFiles,
    ReadContext,
    Split,
    deleted_rows,
    file_sections,
    files_meeting,
    read_buckets,
    read_file,
    read_split,
)
from tidelake.table.changelog.change_filter import left_by_update
from tidelake.table.changelog.changelog_protocols import ChangePart, change_schema
from tidelake.table.changelog.moved_keys import is_overwritten, parts_in_passes, spans_buckets
from tidelake.table.changelog.narrowing import narrowed
from tidelake.table.changelog.snapshot_diff import diff_multiset, diff_sorted
from tidelake.table.conversion.inputs import row_kind_names
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.read_hold import ReadHold
from tidelake.types import DataType, RowKind
from tidelake.types.arrow import to_arrow_schema
from tidelake.types.predicate import Predicate, evaluate

PASS_ROWS_MAX = 4_000_000

Changes = Iterator[tuple[pa.RecordBatch, np.ndarray]]


@dataclass(frozen=True, slots=True)
class NetRows:
    """Compares the two sides of a part. Picklable.

    Parameters
    ----------
    predicate : Predicate, optional
        Bound; each row is tested on its own, and an update that leaves the predicate shows as
        ``-D``.
    """

    context: ReadContext
    columns: tuple[str, ...]
    predicate: Predicate | None = None

    @property
    def leaving(self) -> None:
        """None: an update brings its old row, so no row leaves unseen."""
        return

    def read(self, part: ChangePart) -> Iterator[pa.RecordBatch]:
        """The changes of a part; for a primary-key table in key order."""
        before, after = part
        schema = change_schema(self)
        if not (before.files_count and after.files_count):
            yield from self._of_one_side(before, after)
            return
        compare = _keyed_changes if self.context.schema.primary_keys else _bag_changes
        for rows, kinds in compare(self.context, before, after):
            if after.of_keys != "all":
                of_keys = (kinds == RowKind.DELETE) == (after.of_keys == "gone")
                rows, kinds = rows.filter(pa.array(of_keys)), kinds[of_keys]
            if self.predicate is not None:
                mask = evaluate(self.predicate, rows, self.context.schema.fields)
                is_wanted = np.asarray(mask)
                kinds = left_by_update(kinds, is_wanted)
                rows, kinds = rows.filter(mask), kinds[is_wanted]
            if rows.num_rows:
                names = row_kind_names(pa.array(kinds))
                columns = [names, *(rows.column(c) for c in self.columns)]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _of_one_side(self, before: Split, after: Split) -> Iterator[pa.RecordBatch]:
        """All rows of the only side that has files: no comparison, so fewer columns are read."""
        kind, side = (RowKind.INSERT, after) if after.files_count else (RowKind.DELETE, before)
        schema = change_schema(self)
        for rows in read_split(self.context, side, columns=self.columns, predicate=self.predicate):
            if rows.num_rows:
                names = row_kind_names(pa.array(np.full(rows.num_rows, kind, dtype=np.int8)))
                yield pa.RecordBatch.from_arrays([names, *rows.columns], schema=schema)


@dataclass(frozen=True, slots=True)
class TableChanges:
    """The changes of a table between two snapshots.

    Parameters
    ----------
    start, end : Snapshot or None
        After `start`, up to and with `end`; None is the empty table before the first snapshot.
    rows : NetRows
        What is read of each part.
    hold : ReadHold
        Holds both snapshots until the changes, and what reads them, are collected.
    """

    handle: TableHandle
    start: Snapshot | None
    end: Snapshot | None
    rows: NetRows
    hold: ReadHold = field(default_factory=ReadHold, compare=False)

    def reader(self) -> pa.RecordBatchReader:
        """The changes as a stream, bucket by bucket."""
        # it keeps these changes, and so their hold, until its last row
        batches = (batch for part in self.parts() for batch in self.rows.read(part))
        return pa.RecordBatchReader.from_batches(change_schema(self.rows), batches)

    def parts(self) -> Iterator[ChangePart]:
        """Files before and after, bucket by bucket, sections in key order.

        Where keys may have moved between buckets, those that are gone come first.
        """
        context, manifests = self.rows.context, self.handle.manifests
        before, after = (
            [] if snapshot is None else read_buckets(context, snapshot, manifests=manifests)
            for snapshot in (self.start, self.end)
        )
        parts = (
            part for pair in changed_buckets(before, after) for part in bucket_parts(context, *pair)
        )
        if not context.schema.primary_keys:
            return parts
        found = list(parts)
        return parts_in_passes(found) if self.span_buckets(found) else iter(found)

    def span_buckets(self, parts: Sequence[ChangePart]) -> bool:
        """Whether changes of one key may be in several buckets of all parts."""
        if self.start is None or self.end is None:  # each row that is there was not, or will not be
            return False
        overwritten = is_overwritten(self.handle, self.start.id, self.end.id)
        return spans_buckets(self.rows.context, parts, is_overwritten=overwritten)


def changed_buckets(
    before: Iterable[BucketFiles], after: Iterable[BucketFiles]
) -> Iterator[tuple[BucketFiles, BucketFiles]]:
    """Pairs of a bucket before and after whose files differ; a side may have no files."""
    states = [{b.bucket_id: b for b in side} for side in (before, after)]
    for key in sorted(states[0].keys() | states[1].keys()):
        old, new = states[0].get(key), states[1].get(key)
        some = old or new
        assert some is not None
        empty = replace(some, files=(), deletions={})
        old, new = old or empty, new or empty
        if _identities(old) != _identities(new):
            yield old, new


def bucket_parts(
    context: ReadContext, before: BucketFiles, after: BucketFiles
) -> Iterator[ChangePart]:
    """The parts of a bucket that changed, sections in key order."""
    if context.schema.primary_keys:
        return _keyed_parts(context, before, after)
    return _bag_parts(before, after)


def _identities(side: BucketFiles | Split) -> set[tuple[str, object]]:
    """The names of the files, each with where its deletion vector is."""
    return {(name, side.deletions.get(name)) for name in names_of(side.files).to_pylist()}


def _keyed_parts(
    context: ReadContext, before: BucketFiles, after: BucketFiles
) -> Iterator[ChangePart]:
    keys = FileKeys.of(MergeSpec.of(context.schema, context.options))
    old = {f.file_name: f for f in before.files}
    new = {f.file_name: f for f in after.files}
    same = {name for name, _ in _identities(before) & _identities(after)}
    every = {**old, **new}
    differ = [file for name, file in every.items() if name not in same]
    for section in file_sections(files_meeting(list(every.values()), differ, keys), keys):
        names = [f.file_name for run in section for f in run]
        yield tuple(
            bucket.split(file_sections([own[n] for n in names if n in own], keys), raw=False)
            for bucket, own in ((before, old), (after, new))
        )


def _key_types(context: ReadContext) -> list[DataType]:
    schema = context.schema
    return [schema.field(name).type for name in schema.trimmed_primary_keys]


def _keyed_changes(context: ReadContext, before: Split, after: Split) -> Changes:
    columns = context.schema.field_names
    few = narrowed(context, before, after)
    old, new = (
        read_split(few.context, side, columns=columns, predicate=few.predicate)
        for side in (few.before, few.after)
    )
    keys = context.schema.trimmed_primary_keys
    yield from diff_sorted(old, new, key_columns=keys, key_types=_key_types(context))


def _bag_parts(before: BucketFiles, after: BucketFiles) -> Iterator[ChangePart]:
    """One part if rows may have moved, else one for each file."""
    old = {f.file_name: f for f in before.files}
    new = {f.file_name: f for f in after.files}
    same = {name for name, _ in _identities(before) & _identities(after)}
    names = [name for name in {**old, **new} if name not in same]
    marked = [name for name in names if name in old and name in new]
    gains = any(not _marks(after, name) < _marks(before, name) for name in marked)
    loses = any(not _marks(after, name) > _marks(before, name) for name in marked)
    # equal rows may leave one file and come with another: an update marks a row and adds a file
    goes = bool(old.keys() - new.keys()) or gains
    comes = bool(new.keys() - old.keys()) or loses
    for part in [names] if goes and comes and len(names) > 1 else [[name] for name in names]:
        yield tuple(
            bucket.split(((tuple(own[n] for n in part if n in own),),), raw=True)
            for bucket, own in ((before, old), (after, new))
        )


def _marks(side: BucketFiles, name: str) -> float:
    """How many rows a side's vector marks; NaN, which no comparison holds for, where unknown."""
    where = side.deletions.get(name)
    return 0 if where is None else math.nan if where.cardinality is None else where.cardinality


def _bag_changes(context: ReadContext, before: Split, after: Split) -> Changes:
    removed, added = before.files, after.files
    [*marked] = {f.file_name for f in removed} & {f.file_name for f in added}
    if marked and len(removed) == len(added) == 1:
        yield from _marked_changes(context, before, after)
    else:  # rows of a marked file may have moved into an added one
        rows = sum(f.row_count for f in (*removed, *added))
        passes = -(-rows // PASS_ROWS_MAX)
        for number in range(passes):
            yield from _bag_pass(
                context,
                _dealt(context, _own_rows(context, before, after), number, passes),
                _dealt(context, _own_rows(context, after, before), number, passes),
            )


def _marked_changes(context: ReadContext, before: Split, after: Split) -> Changes:
    """The rows of a file that only one of two deletion vectors marks."""
    [file] = after.files
    old, new = (_deleted(context, side, file) for side in (before, after))
    for positions, kind in (
        (np.setdiff1d(new, old, assume_unique=True), RowKind.DELETE),
        (np.setdiff1d(old, new, assume_unique=True), RowKind.INSERT),
    ):
        if not len(positions):
            continue
        others = np.setdiff1d(np.arange(file.row_count), positions, assume_unique=True)
        for batch in read_file(context, after, file, context.schema.fields, deleted=others):
            yield batch, np.full(batch.num_rows, kind, dtype=np.int8)


def _deleted(context: ReadContext, side: Split, file: DataFileMeta) -> Positions:
    positions = deleted_rows(context, side, file)
    return np.zeros(0, np.int64) if positions is None else positions


def _bag_pass(
    context: ReadContext, removed: Iterator[pa.RecordBatch], added: Iterator[pa.RecordBatch]
) -> Changes:
    schema = to_arrow_schema(context.schema.fields)
    changed, kinds = diff_multiset(
        pa.Table.from_batches(removed, schema=schema), pa.Table.from_batches(added, schema=schema)
    )
    position = 0
    for batch in changed.to_batches():
        yield batch, kinds[position : position + batch.num_rows]
        position += batch.num_rows


def _own_rows(context: ReadContext, side: Split, other: Split) -> Iterator[pa.RecordBatch]:
    """The rows that a side has; of a file that both have, those that the other's vector marks."""
    theirs = {file.file_name for file in other.files}
    fields = context.schema.fields
    for file in side.files:
        deleted = _deleted(context, side, file)
        if file.file_name not in theirs:
            yield from read_file(context, side, file, fields, deleted=deleted)
            continue
        positions = np.setdiff1d(_deleted(context, other, file), deleted, assume_unique=True)
        if len(positions):
            yield from read_file(context, side, file, fields, rows=positions)


def _dealt(
    context: ReadContext, batches: Iterator[pa.RecordBatch], number: int, passes: int
) -> Iterator[pa.RecordBatch]:
    """The rows of one pass: equal rows have equal hashes, so they meet in one pass."""
    if passes == 1:
        yield from batches
        return
    types = [f.type for f in context.schema.fields]
    for batch in batches:
        hashes = hash_rows(batch.columns, types).astype(np.int64) % passes
        yield batch.filter(pa.array(hashes == number))
