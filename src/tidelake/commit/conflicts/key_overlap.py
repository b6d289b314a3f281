"""Finds out whether later commits of others wrote to keys of a commit.

A manifest has the smallest and the largest key of each file. A small commit of random keys has
ranges as wide as the table, so ranges alone would find a common key with every other commit.

1. Take each later snapshot's files, added or removed in our buckets, whose key range overlaps ours.
   Skip compactions, which only move rows. A row that deletes a key counts as a row of this key.
2. If there are none, there is no common key, and nothing is read.
3. Otherwise read their key columns, and those of our own files whose ranges overlap theirs. A
   common key is a conflict. Deletion vectors are not read, so a row that was marked since counts.
4. If they are too many or too large (:data:`FILES_READ_MAX`, :data:`KEYS_READ_MAX`,
   :data:`BYTES_READ_MAX`), or one is gone, the ranges decide.

Cost: one small file and the delta of each later snapshot; the key columns of the files of step 3. A
commit that lost its race reads only the new snapshots, and caches its own keys
(:data:`OWN_KEYS_BYTES_MAX`). Memory: their keys, and ours up to this bound, else a batch of ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tidelake.codec.sorted_keys import SortedKeys
from tidelake.commit.conflicts.file_conflicts import key_range
from tidelake.commit.context import CommitContext
from tidelake.errors import NotFoundError
from tidelake.merge import FileKeys, MergeSpec
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.data_file import ManifestEntry
from tidelake.metadata.log.schema_log import SchemaLog
from tidelake.metadata.log.snapshot import CommitKind
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.paths import POSTPONE_BUCKET
from tidelake.scan import ReadContext, Split, read_file
from tidelake.types.arrow import to_arrow_schema

FILES_READ_MAX = 4_000
"""Files of others whose keys are read for one attempt; where there are more, ranges decide."""
KEYS_READ_MAX = 1_000_000
"""Rows of these files."""
BYTES_READ_MAX = 256 << 20
"""Total size of these files; only their key columns are read."""
OWN_KEYS_BYTES_MAX = 64 << 20
"""Keys of our own files that are cached for the next attempt; others are read again."""

_EVERYWHERE = BucketId(b"", 0)


@dataclass(frozen=True, slots=True)
class _Theirs:
    """A file that another commit added or removed."""

    snapshot_id: int
    entry: ManifestEntry
    keys: pa.Table = field(default_factory=lambda: pa.table({}))


class KeyOverlap:
    """The keys of one commit, to be compared with those of others. Not thread-safe.

    Parameters
    ----------
    across : bool
        Whether a key may be in any partition and bucket, so that all of them count.
    """

    def __init__(
        self, context: CommitContext, new_files: EntryTable, *, across: bool = False
    ) -> None:
        self._context = context
        self._new_files = new_files
        self._across = across
        self._fields = tuple(map(context.schema.field, context.schema.trimmed_primary_keys))
        self._types = [field.type for field in self._fields]
        self._file_keys = FileKeys.of(MergeSpec.of(context.schema, context.options))
        self._own: dict[BucketId, list[ManifestEntry]] | None = None
        self._kept: dict[str, list[pa.RecordBatch]] = {}
        self._kept_bytes = 0
        self._schemas = {context.schema.id: context.schema}

    def written_to(self, snapshot_ids: range) -> str | None:
        """Return why these snapshots may have written to our keys; None if they have not.

        Raises
        ------
        CorruptError
            A data file is damaged; the message names it.
        StorageError
            The storage failed.
        """
        found: list[_Theirs] = []
        for snapshot_id, entries in zip(
            snapshot_ids, self._context.env.executor.map(self._delta, snapshot_ids), strict=True
        ):
            if entries is None:
                return f"snapshot {snapshot_id} has expired"
            found += [
                _Theirs(snapshot_id, entry)
                for bucket_id, own in self._by_bucket(entries).items()
                for entry in self._meeting(own, self._own_in(bucket_id))
            ]
        return self._common(found)

    def _delta(self, snapshot_id: int) -> EntryTable | None:
        """Read a snapshot's changes, none for a compaction; None if the snapshot was removed."""
        try:
            snapshot = self._context.log.load(snapshot_id)
            if snapshot.commit_kind is CommitKind.COMPACT:
                return EntryTable.of(())
            return self._context.delta(snapshot)
        except NotFoundError:
            return None

    def _by_bucket(self, table: EntryTable) -> dict[BucketId, list[ManifestEntry]]:
        """The files that entries add or remove, by where a key of theirs is."""
        found: dict[BucketId, list[ManifestEntry]] = {}
        for entry in table.to_entries():
            found.setdefault(self._bucket_of(entry), []).append(entry)
        return found

    def _bucket_of(self, entry: ManifestEntry) -> BucketId:
        return _EVERYWHERE if self._across else entry.bucket_id

    def _own_in(self, bucket_id: BucketId) -> Sequence[ManifestEntry]:
        if self._own is None:
            self._own = self._by_bucket(self._new_files)
        return self._own.get(bucket_id, ())

    def _meeting(
        self, entries: Sequence[ManifestEntry], others: Sequence[ManifestEntry]
    ) -> list[ManifestEntry]:
        """Those of some files whose range of keys meets that of the others together."""
        if not others:
            return []
        low, high = key_range([other.file for other in others], self._file_keys)
        found = []
        for entry in entries:
            own_low, own_high = key_range([entry.file], self._file_keys)
            # rows that have no bucket yet are not in the order of their keys
            if entry.bucket == POSTPONE_BUCKET or (own_low <= high and low <= own_high):
                found.append(entry)
        return found

    def _common(self, found: Sequence[_Theirs]) -> str | None:
        """Return why some of these files may have a key of ours."""
        if not found:
            return None
        files = [theirs.entry.file for theirs in found]
        if (
            any(theirs.entry.bucket == POSTPONE_BUCKET for theirs in found)
            or len(files) > FILES_READ_MAX
            or sum(file.row_count for file in files) > KEYS_READ_MAX
            or sum(file.file_size_bytes for file in files) > BYTES_READ_MAX
        ):
            return f"snapshot {found[0].snapshot_id} writes to keys in between those of this commit"
        schemas = {file.schema_id for file in files}.difference(self._schemas)
        log = SchemaLog(self._context.fileio, self._context.paths)
        self._schemas |= {schema_id: log.load(schema_id) for schema_id in sorted(schemas)}
        try:
            keys = list(self._context.env.executor.map(self._keys, found))
        except NotFoundError:
            return f"files of snapshot {found[0].snapshot_id}, or of a later one, have expired"
        by_bucket: dict[BucketId, list[_Theirs]] = {}
        for theirs, own in zip(found, keys, strict=True):
            bucket_id = self._bucket_of(theirs.entry)
            by_bucket.setdefault(bucket_id, []).append(replace(theirs, keys=own))
        hits = [self._first_hit(self._own_in(b), all_of) for b, all_of in by_bucket.items()]
        known = [hit for hit in hits if hit is not None]
        return f"snapshot {min(known)} writes to a key of this commit" if known else None

    def _first_hit(self, ours: Sequence[ManifestEntry], theirs: Sequence[_Theirs]) -> int | None:
        """The first of the snapshots that wrote to a key of ours; None where none did."""
        sought = SortedKeys(
            [column.combine_chunks() for column in pa.concat_tables(t.keys for t in theirs)],
            self._types,
            np.repeat([t.snapshot_id for t in theirs], [t.keys.num_rows for t in theirs]),
        )
        hits = [
            int(snapshot_ids.min())
            for own in self._meeting(ours, [t.entry for t in theirs])
            for batch in self._own_keys(own)
            for snapshot_ids, _ in [sought.found_in(batch.columns)]
            if len(snapshot_ids)
        ]
        return min(hits, default=None)

    def _keys(self, theirs: _Theirs) -> pa.Table:
        """The keys of another commit's file."""
        return pa.Table.from_batches(self._read(theirs.entry), to_arrow_schema(self._fields))

    def _own_keys(self, entry: ManifestEntry) -> Iterator[pa.RecordBatch]:
        """The keys of a file of ours, rising; kept where they fit."""
        name = entry.file.file_name
        if name in self._kept:
            yield from self._kept[name]
            return
        held: list[pa.RecordBatch] = []
        size_bytes = 0
        for batch in self._read(entry):
            size_bytes += batch.nbytes
            if self._kept_bytes + size_bytes <= OWN_KEYS_BYTES_MAX:
                held.append(batch)
            yield batch
        if self._kept_bytes + size_bytes <= OWN_KEYS_BYTES_MAX:
            self._kept[name] = held
            self._kept_bytes += size_bytes

    def _read(self, entry: ManifestEntry) -> Iterator[pa.RecordBatch]:
        """The key columns of a file, without empty batches."""
        context = self._context
        table = (context.fileio, context.paths, context.schema, context.options, context.env)
        reading = ReadContext(*table, schemas=self._schemas)
        split = Split(0, entry.partition, entry.bucket, entry.total_buckets, (), raw=True)
        for batch in read_file(reading, split, entry.file, self._fields):
            if batch.num_rows:
                yield batch
