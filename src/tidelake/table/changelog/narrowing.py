"""Narrows the files of two states to the keys that may differ between them.

Two states of a bucket share most files. A key that no other file holds has the same row in both. So
only the keys of the files that are not shared count, and of a file whose deletion vector differs
only the rows that one of the vectors marks:

1. Read these keys, which are few where the shared files are many.
2. Leave out each shared file whose range of keys has none of them.
3. The rest is read under a condition on the keys, which skips row groups too.

Where what is left is small, its files are read once, into memory: both states are merged from
there, so that a shared file is not read twice.

Pays where the shared files are larger than the others; else nothing is left out. Memory: the keys,
at most :data:`KEYS_COUNT_MAX`, and files of at most :data:`HELD_BYTES_MAX`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tidelake.codec.binary_row import decode_row
from tidelake.codec.key_order import encode_keys, key_widths
from tidelake.fileio import MemoryFileIO
from tidelake.merge import FileKeys, MergeSpec
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.index.deletion_vector import Positions
from tidelake.scan import (
    ReadContext,
    Split,
    deleted_rows,
    file_sections,
    key_bounds,
    names_expiry,
    read_file,
)
from tidelake.types import DataType
from tidelake.types.arrow import to_arrow_schema
from tidelake.types.predicate import Predicate, conjoin
from tidelake.types.values import storage_to_arrow

KEYS_COUNT_MAX = 2_000_000
"""More keys than this are not gathered: the files are read whole."""
HELD_BYTES_MAX = 32 << 20
"""Files of a part that together are larger are read where they are, the shared ones twice."""
SHARED_TIMES_MIN = 2
"""How many times larger the shared files must be, so that keys are read ahead of the rows."""


@dataclass(frozen=True, slots=True)
class Narrowed:
    """The two sides of a part, where they are read, and what all rows that differ satisfy."""

    context: ReadContext
    before: Split
    after: Split
    predicate: Predicate | None = None


def narrowed(context: ReadContext, before: Split, after: Split) -> Narrowed:
    """Leave out the shared files that hold no key that may differ.

    Requires: a primary-key table.
    """
    whole = Narrowed(context, before, after)
    old = {f.file_name: f for f in before.files}
    new = {f.file_name: f for f in after.files}
    own = [(side, f) for side, a, b in ((before, old, new), (after, new, old)) for f in _only(a, b)]
    both = [file for name, file in new.items() if name in old]
    marked = [f for f in both if _vector(before, f) != _vector(after, f)]
    shared_bytes = sum(f.file_size_bytes for f in both)
    own_rows = sum(f.row_count for _, f in own)
    own_bytes = sum(f.file_size_bytes for _, f in own)
    if shared_bytes < SHARED_TIMES_MIN * own_bytes or own_rows > KEYS_COUNT_MAX:
        return whole
    keys = _keys(context, before, after, own=own, marked=marked)
    if keys is None or keys.num_rows > KEYS_COUNT_MAX:
        return whole
    file_keys = FileKeys.of(MergeSpec.of(context.schema, context.options))
    held = holding(both, keys, file_keys)
    fields = context.fields(tuple(keys.column_names))
    predicate = None
    if keys.num_rows:
        predicate = conjoin(list(key_bounds(keys, fields, context.schema.fields)))

    def kept(side: Split, files: dict[str, DataFileMeta], others: dict[str, DataFileMeta]) -> Split:
        chosen = [f for name, f in files.items() if name not in others or name in held]
        return side.part(file_sections(chosen, file_keys))

    left = kept(before, old, new), kept(after, new, old)
    return Narrowed(_held(context, *left), *left, predicate)


def _held(context: ReadContext, before: Split, after: Split) -> ReadContext:
    """The context that reads small files from memory, where they were read once."""
    files = {(f.file_name): (split, f) for split in (before, after) for f in split.files}
    vectors = {where.path for split in (before, after) for where in split.deletions.values()}
    size_bytes = sum(f.file_size_bytes for _, f in files.values())
    if size_bytes > HELD_BYTES_MAX or vectors:
        return context
    memory = MemoryFileIO()
    for split, file in files.values():
        path = context.paths.data_file(split.partition, split.bucket, file)
        # a file of another length than its manifest says is damaged, and the read will say so
        with names_expiry(context, split.snapshot_id):
            memory.write_once(path, context.fileio.read_bytes(path, bytes_max=2 * HELD_BYTES_MAX))
    return replace(context, fileio=memory)


def _only(files: dict[str, DataFileMeta], others: dict[str, DataFileMeta]) -> list[DataFileMeta]:
    return [file for name, file in files.items() if name not in others]


def _vector(side: Split, file: DataFileMeta) -> object:
    return side.deletions.get(file.file_name)


def _keys(
    context: ReadContext,
    before: Split,
    after: Split,
    *,
    own: Sequence[tuple[Split, DataFileMeta]],
    marked: Sequence[DataFileMeta],
) -> pa.Table | None:
    """The keys that may differ; None if there are too many."""
    fields = context.fields(tuple(context.schema.trimmed_primary_keys))
    found: list[pa.RecordBatch] = []
    for side, file in own:
        found += read_file(context, side, file, fields)
    rows_count = sum(batch.num_rows for batch in found)
    for file in marked:
        moved = np.setxor1d(_marks(context, before, file), _marks(context, after, file))
        rows_count += len(moved)
        if rows_count > KEYS_COUNT_MAX:
            return None
        found += read_file(context, after, file, fields, rows=moved)
    return pa.Table.from_batches(found, schema=to_arrow_schema(fields))


def _marks(context: ReadContext, side: Split, file: DataFileMeta) -> Positions:
    marks = deleted_rows(context, side, file)
    return np.zeros(0, np.int64) if marks is None else marks


def holding(files: Sequence[DataFileMeta], keys: pa.Table, file_keys: FileKeys) -> frozenset[str]:
    """The names of the files in whose range one of the keys lies; of those without order all."""
    if not files or not keys.num_rows:
        return frozenset()
    ordered, types = [f for f in files if file_keys.in_order(f)], file_keys.types
    others = frozenset(f.file_name for f in files) - {f.file_name for f in ordered}
    return others | (_by_bounds(ordered, keys, types) if ordered else frozenset())


def _by_bounds(
    files: Sequence[DataFileMeta], keys: pa.Table, types: Sequence[DataType]
) -> frozenset[str]:
    columns = [keys.column(name).combine_chunks() for name in keys.column_names]
    lows, highs = (list(_bounds(files, types, end)) for end in ("min_key", "max_key"))
    widths = tuple(map(max, *(key_widths(one, types) for one in (columns, lows, highs))))
    sought = np.sort(encode_keys(columns, types, widths))
    first = np.searchsorted(sought, encode_keys(lows, types, widths), side="left")
    last = np.searchsorted(sought, encode_keys(highs, types, widths), side="right")
    return frozenset(f.file_name for f, is_held in zip(files, first < last, strict=True) if is_held)


def _bounds(
    files: Sequence[DataFileMeta], types: Sequence[DataType], end: str
) -> Iterator[pa.Array]:
    """The first or the last keys of files, as columns."""
    rows = [decode_row(getattr(file, end), types) for file in files]
    for position, data_type in enumerate(types):
        yield storage_to_arrow([row[position] for row in rows], data_type)
