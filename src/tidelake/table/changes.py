"""What changed between two snapshots, as rows with kinds.

The **net** change of (start, end]: applied to the state at `start` it gives the state at `end`,
whatever was written, overwritten or compacted in between, and also where snapshots between the two
have expired.

Primary-key tables, per bucket whose set of files differs:

1. The files of both states are cut into sections together; a section with the same files and
   deletion vectors in both is left out, for its rows are the same.
2. What is left is merged for each state, sorted by key, and compared
   (:func:`tidelake.table.diff.diff_sorted`): ``+I``, ``-D``, and ``-U`` ``+U`` pairs.

Append tables, per bucket whose set of files or of deletion vectors differs: where files only came,
their rows are ``+I``. Where only a vector changed, the rows that it names now are ``-D``. Where
files went too (a compaction moved rows, an overwrite replaced them) the rows of both sides are
compared as bags. So that memory stays bounded, rows are dealt by hash into passes of at most
``PASS_ROWS_MAX`` rows, each of which reads the files again.

Memory: a batch per open file; for bags also ``PASS_ROWS_MAX`` rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tidelake.codec.bucket import hash_rows
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.deletion_vector import Positions
from tidelake.metadata.file_list import names_of
from tidelake.metadata.snapshot import Snapshot
from tidelake.scan import (
    BucketFiles,
    ReadContext,
    deleted_rows,
    file_sections,
    read_buckets,
    read_file,
    read_split,
)
from tidelake.table.diff import diff_multiset, diff_sorted
from tidelake.table.handle import TableHandle
from tidelake.table.inputs import ROW_KIND_COLUMN, row_kind_names
from tidelake.types import DataType, RowKind
from tidelake.types.arrow import to_arrow_schema
from tidelake.types.predicate import Predicate, evaluate

__all__ = ["TableChanges"]

PASS_ROWS_MAX = 4_000_000

Changes = Iterator[tuple[pa.RecordBatch, np.ndarray]]


@dataclass(frozen=True, slots=True)
class TableChanges:
    """The changes of a table between two snapshots.

    Parameters
    ----------
    handle : TableHandle
        The table.
    start, end : Snapshot or None
        After `start`, up to and with `end`; None is the empty table before the first snapshot.
    columns : tuple of str
        The columns wanted.
    predicate : Predicate, optional
        Bound; rows that do not satisfy it are left out, each on its own: an update out of the
        predicate shows as ``-U`` alone.
    """

    handle: TableHandle
    start: Snapshot | None
    end: Snapshot | None
    columns: tuple[str, ...]
    predicate: Predicate | None = None

    @property
    def schema(self) -> pa.Schema:
        """The rows' Arrow schema: ``_row_kind`` first."""
        fields = [self.handle.schema.field(name) for name in self.columns]
        kind = pa.field(ROW_KIND_COLUMN, pa.string(), nullable=False)
        return pa.schema([kind, *to_arrow_schema(fields)])

    def reader(self) -> pa.RecordBatchReader:
        """The changes as a stream."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The changes, bucket by bucket; of a primary-key table in key order inside a bucket."""
        context = self.handle.read_context()
        fields = context.schema.fields
        for before, after in self._changed_buckets(context):
            if context.schema.primary_keys:
                changes = _keyed_changes(context, before, after)
            else:
                changes = _bag_changes(context, before, after)
            for rows, kinds in changes:
                if self.predicate is not None:
                    mask = evaluate(self.predicate, rows, fields)
                    rows, kinds = rows.filter(mask), kinds[np.asarray(mask)]
                if rows.num_rows:
                    names = row_kind_names(pa.array(kinds))
                    columns = [names, *(rows.column(c) for c in self.columns)]
                    yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _changed_buckets(self, context: ReadContext) -> Iterator[tuple[BucketFiles, BucketFiles]]:
        """Pairs of a bucket before and after, where its files differ."""
        states = [
            {
                (b.partition, b.bucket): b
                for b in read_buckets(context, snapshot, manifests=self.handle.manifests)
            }
            if snapshot is not None
            else {}
            for snapshot in (self.start, self.end)
        ]
        for key in sorted(states[0].keys() | states[1].keys()):
            before, after = states[0].get(key), states[1].get(key)
            some = before or after
            assert some is not None
            empty = replace(some, files=(), deletions={})
            before, after = before or empty, after or empty
            if _identities(before) != _identities(after):
                yield before, after


def _identities(bucket: BucketFiles) -> set[tuple[str, object]]:
    """The names of a bucket's files, each with where its deletion vector is."""
    return {(name, bucket.deletions.get(name)) for name in names_of(bucket.files).to_pylist()}


def _keyed_changes(context: ReadContext, before: BucketFiles, after: BucketFiles) -> Changes:
    schema = context.schema
    keys = [schema.field(name) for name in schema.trimmed_primary_keys]
    types = [f.type for f in keys]
    old = {f.file_name: f for f in before.files}
    new = {f.file_name: f for f in after.files}
    same = {name for name, _ in _identities(before) & _identities(after)}
    for section in file_sections(list({**old, **new}.values()), types):
        names = [f.file_name for run in section for f in run]
        if same.issuperset(names):
            continue
        yield from diff_sorted(
            _state(context, before, [old[n] for n in names if n in old], types),
            _state(context, after, [new[n] for n in names if n in new], types),
            key_columns=[f.name for f in keys],
            key_types=types,
        )


def _state(
    context: ReadContext,
    bucket: BucketFiles,
    files: Sequence[DataFileMeta],
    key_types: Sequence[DataType],
) -> Iterator[pa.RecordBatch]:
    """The merged rows of some of a bucket's files, sorted by key."""
    if not files:
        return
    split = bucket.split(file_sections(files, key_types), raw=False)
    yield from read_split(context, split, columns=context.schema.field_names, predicate=None)


def _bag_changes(context: ReadContext, before: BucketFiles, after: BucketFiles) -> Changes:
    stayed = {f.file_name for f in before.files} & {f.file_name for f in after.files}
    same = {name for name, _ in _identities(before) & _identities(after)}
    gone = [f for f in before.files if f.file_name not in stayed]
    came = [f for f in after.files if f.file_name not in stayed]
    marked = [f for f in after.files if f.file_name in stayed - same]
    if not gone or not came:
        kind = RowKind.INSERT if came else RowKind.DELETE
        for batch in _rows(context, after if came else before, came or gone):
            yield batch, np.full(batch.num_rows, kind, dtype=np.int8)
        for file in marked:
            yield from _marked_changes(context, before, after, file)
        return
    # rows of a marked file may have moved into one that came: all are compared
    gone, came = gone + marked, came + marked
    rows = sum(f.row_count for f in (*gone, *came))
    passes = -(-rows // PASS_ROWS_MAX)
    for number in range(passes):
        yield from _bag_pass(
            context,
            _dealt(context, _rows(context, before, gone), number, passes),
            _dealt(context, _rows(context, after, came), number, passes),
        )


def _marked_changes(
    context: ReadContext, before: BucketFiles, after: BucketFiles, file: DataFileMeta
) -> Changes:
    """The rows of a file that one of two deletion vectors names and the other does not."""
    old, new = (_deleted(context, bucket, file) for bucket in (before, after))
    for positions, kind in (
        (np.setdiff1d(new, old, assume_unique=True), RowKind.DELETE),
        (np.setdiff1d(old, new, assume_unique=True), RowKind.INSERT),
    ):
        if not len(positions):
            continue
        others = np.setdiff1d(np.arange(file.row_count), positions, assume_unique=True)
        split = after.split((((file,),),), raw=True)
        for batch in read_file(context, split, file, context.schema.fields, deleted=others):
            yield batch, np.full(batch.num_rows, kind, dtype=np.int8)


def _deleted(context: ReadContext, bucket: BucketFiles, file: DataFileMeta) -> Positions:
    positions = deleted_rows(context, bucket.split((((file,),),), raw=True), file)
    return np.zeros(0, np.int64) if positions is None else positions


def _bag_pass(
    context: ReadContext, gone: Iterator[pa.RecordBatch], came: Iterator[pa.RecordBatch]
) -> Changes:
    schema = to_arrow_schema(context.schema.fields)
    changed, kinds = diff_multiset(
        pa.Table.from_batches(gone, schema=schema), pa.Table.from_batches(came, schema=schema)
    )
    position = 0
    for batch in changed.to_batches():
        yield batch, kinds[position : position + batch.num_rows]
        position += batch.num_rows


def _rows(
    context: ReadContext, bucket: BucketFiles, files: Sequence[DataFileMeta]
) -> Iterator[pa.RecordBatch]:
    split = bucket.split(((tuple(files),),), raw=True)
    yield from read_split(context, split, columns=context.schema.field_names, predicate=None)


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
