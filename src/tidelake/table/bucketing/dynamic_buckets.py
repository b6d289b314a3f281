"""The buckets of a table that makes them on demand (``bucket = -1`` with a primary key).

1. The first rows of a partition open its index (:mod:`tidelake.table.bucketing.key_hash_index`),
   of one snapshot for all partitions; an overwrite begins with an empty index. The index files are
   read on demand, and kept in memory after a few batches.
2. The index gives rows their bucket, or rows bring the bucket that another task gave them.
3. At the commit each bucket with new keys gets a new index file with all of its hashes, in the
   order that :func:`ordered_hashes` chooses. The message names the snapshot whose index was
   read, so that the commit can check that the choice still holds
   (:mod:`tidelake.commit.conflicts.index_conflicts`).

Memory: a few MiB, and after some batches 6 bytes for each key of the partitions written to.
Source: Paimon's ``HashBucketAssigner`` and ``DynamicBucketIndexMaintainer`` (1.3.1).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tidelake.commit.conflicts.index_conflicts import assignment_conflict
from tidelake.errors import NotFoundError
from tidelake.metadata.data_file import CommitMessage
from tidelake.metadata.index.hash_index import HashIndexFile, hash_index_name, write_hash_index
from tidelake.metadata.index_entry import HASH, IndexChange, IndexEntry
from tidelake.options import Options, declared
from tidelake.store import StoreContext
from tidelake.table.bucketing.key_hash_index import BucketIndex, Fill

Hashes = npt.NDArray[np.int32]
SORTED_MIN = 1 << 16
"""Hashes of a bucket below which a search through all of them costs nothing worth saving."""

TAIL_SHARE = 8
"""The part that is not sorted may be one in so many of the bucket's hashes."""

ADDED_MAX = 1 << 19
"""New hashes that a message carries at most: 2 MiB, for the driver has the messages of all buckets
at once."""


def fill_of(options: Options, *, assigners: int = 1, number: int = 0) -> Fill:
    """How a table's options spread new keys."""
    return Fill(
        target_rows=options.get(declared.DYNAMIC_BUCKET_TARGET_ROW_NUM),
        buckets_max=options.get(declared.DYNAMIC_BUCKET_MAX_BUCKETS),
        assigners=assigners,
        number=number,
    )


class DynamicBuckets:
    """Gives rows their buckets and keeps the indexes. For one writer; not thread-safe.

    Parameters
    ----------
    entries_of : callable
        The index files of a partition, and their snapshot; 0 for the empty table.
    """

    def __init__(
        self,
        context: StoreContext,
        *,
        entries_of: Callable[[bytes], tuple[Sequence[IndexEntry], int]],
        fill: Fill,
    ) -> None:
        self._context = context
        self._entries_of = entries_of
        self._fill = fill
        self._indexes: dict[bytes, BucketIndex] = {}
        self._base_ids: dict[bytes, int] = {}
        uuid = context.env.ids.uuid()
        self._names = (f"index-{uuid}-{i}" for i in itertools.count())

    def assign(self, partition: bytes, hashes: Hashes) -> npt.NDArray[np.int32]:
        """The bucket of each of a partition's rows, by the hashes of their keys."""
        with self._opened(partition) as index:
            return index.assign(hashes)

    def put(self, partition: bytes, bucket: int, hashes: Hashes) -> None:
        """Record rows whose bucket another task chose."""
        with self._opened(partition) as index:
            index.put(bucket, hashes)

    def with_index(self, message: CommitMessage) -> CommitMessage:
        """Add to a bucket's message what its new rows did to its index.

        Writes the bucket's index file if it has new keys.

        Raises
        ------
        ConflictError
            Another commit has replaced an index file that the writer had read.
        """
        partition, bucket = message.bucket_id
        if partition not in self._indexes or not message.new_files:
            return message  # only a compaction
        index, base_id = self._indexes[partition], self._base_ids[partition]
        if not index.has_added(bucket):
            return replace(message, index=IndexChange(base_id))
        context = self._context
        with self._opened(partition):
            hashes = index.hashes(bucket)
        ordered = ordered_hashes(
            hashes,
            known_count=index.known_count(bucket),
            sorted_count=index.sorted_count(bucket),
            is_full=len(hashes) >= self._fill.target_rows,
        )
        file = write_hash_index(
            context.fileio,
            context.paths,
            hash_index_name(next(self._names), ordered.sorted_count),
            ordered.hashes,
            partition=partition,
            bucket=bucket,
        )
        change = IndexChange(base_id, file, index.known_count(bucket), ordered.added)
        return replace(message, index=change)

    @contextmanager
    def _opened(self, partition: bytes) -> Iterator[BucketIndex]:
        """A partition's index, for reading its files.

        If a file is missing at the first read, the table is damaged. If it existed then, another
        commit replaced it and it expired.
        """
        first = partition not in self._indexes
        try:
            yield self._index(partition)
        except NotFoundError as error:
            if first:
                raise
            why = f"an index file that it read was replaced ({error.message})"
            raise assignment_conflict(self._context.paths.location, why) from error

    def _index(self, partition: bytes) -> BucketIndex:
        index = self._indexes.get(partition)
        if index is None:
            context = self._context
            entries, base_id = self._entries_of(partition)
            known = {
                entry.bucket: HashIndexFile(context.fileio, context.paths, entry)
                for entry in entries
                if entry.file.index_type == HASH
            }
            where = context.paths.partition_path(partition) or context.paths.location
            index = self._indexes[partition] = BucketIndex(known, self._fill, where=where)
            self._base_ids[partition] = base_id
        return index


@dataclass(frozen=True, slots=True)
class OrderedHashes:
    """What an index file holds.

    Parameters
    ----------
    hashes : int32 array
        All hashes of the bucket.
    sorted_count : int
        How many at the beginning are sorted.
    added : bytes or None
        The new hashes, 4 bytes each, little-endian; None if they stand last.
    """

    hashes: Hashes
    sorted_count: int
    added: bytes | None = None


def ordered_hashes(
    hashes: Hashes, *, known_count: int, sorted_count: int, is_full: bool
) -> OrderedHashes:
    """Choose the order in which a bucket's hashes stand in its new index file. Pure.

    A search in sorted hashes is cheap, but to sort them for every commit is not. A commit needs to
    know which hashes are new, too: they stand last in the file, or the message of the write has
    them.

    1. The hashes of a small bucket stay as they come: the known ones, then the new ones.
    2. So it is while the part that is not sorted is short: an eighth of the bucket, and less in a
       full one, which gets no new keys any more.
    3. Else all are sorted. If the new ones are too many for a message, the known ones alone are.

    Parameters
    ----------
    hashes : int32 array
        The known hashes as they stand in the file before, then the new ones.
    known_count, sorted_count : int
        How many are known, and how many at the beginning are sorted.
    is_full : bool
        Whether the bucket gets no new keys any more.

    Examples
    --------
    >>> ordered_hashes(np.array([3, 1], np.int32), known_count=1, sorted_count=0, is_full=True)
    OrderedHashes(hashes=array([3, 1], dtype=int32), sorted_count=0, added=None)
    """
    count = len(hashes)
    tail_max = SORTED_MIN if is_full else max(SORTED_MIN, count // TAIL_SHARE)
    if count < SORTED_MIN or count - sorted_count <= tail_max:
        return OrderedHashes(hashes, sorted_count)
    if count - known_count > ADDED_MAX and known_count:
        known = np.sort(hashes[:known_count])
        return OrderedHashes(np.concatenate([known, hashes[known_count:]]), known_count)
    added = hashes[known_count:].astype("<i4").tobytes() if known_count else None
    return OrderedHashes(np.sort(hashes), count, added)
