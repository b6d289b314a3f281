"""What is measured of the live files of a snapshot: figures of each bucket, as columns.

Vectorised: a table of 100,000 files costs a few passes over columns of numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.index.deletion_file import DeletionRange
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.scan import bucket_starts

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FileMeasures:
    """The live files of a snapshot, bucket by bucket.

    Parameters
    ----------
    entries : EntryTable
        The files of real buckets, sorted by partition and bucket.
    starts : int array [buckets]
        Where each bucket begins.
    deleted : int64 array [files]
        Rows of each file that count for nothing: those that its deletion vector marks, and those
        that are deletes.
    """

    entries: EntryTable
    starts: NDArray[np.intp]
    deleted: Counts

    @classmethod
    def of(cls, files: EntryTable, deletions: Mapping[str, DeletionRange]) -> FileMeasures:
        """Measure the live files of a snapshot."""
        entries = files.take(files["bucket"] >= 0)
        deletes = entries["delete_row_count"].fill_null(0).to_numpy(zero_copy_only=False)
        deleted = np.array(deletes, np.int64)
        if deletions:
            names = pa.array(list(deletions), pa.string())
            marked = np.array([where.cardinality or 0 for where in deletions.values()], np.int64)
            at = pc.index_in(entries["file_name"], value_set=names)
            found = at.is_valid().to_numpy(zero_copy_only=False)
            deleted[found] += marked[at.drop_null().to_numpy()]
        return cls(entries, bucket_starts(entries), deleted)

    @property
    def sizes(self) -> Counts:
        """Bytes of each file."""
        return np.asarray(self.entries["file_size_bytes"])

    @property
    def rows(self) -> Counts:
        """Rows of each file."""
        return np.asarray(self.entries["row_count"])

    @property
    def buckets_count(self) -> int:
        """Buckets with files."""
        return len(self.starts)

    def of_buckets(self, values: NDArray[np.generic]) -> Counts:
        """The sums of a value per file over the files of each bucket."""
        if not len(self.starts):
            return np.zeros(0, np.int64)
        return np.add.reduceat(values.astype(np.int64), self.starts)

    def runs(self) -> Counts:
        """Sorted runs of each bucket: the files of level 0, and each level above it."""
        level = np.asarray(self.entries["level"])
        number = np.zeros(len(level), np.int64)
        number[self.starts] = 1
        bucket = np.cumsum(number)
        order = np.lexsort((level, bucket))
        ordered_bucket, ordered_level = bucket[order], level[order]
        is_new = np.ones(len(level), np.bool_)
        same = (ordered_bucket[1:] == ordered_bucket[:-1]) & (
            ordered_level[1:] == ordered_level[:-1]
        )
        is_new[1:] = ~same | (ordered_level[1:] == 0)
        return self.of_buckets(is_new)

    def partition_sums(self, values: Counts) -> tuple[Counts, Counts, Counts]:
        """Of a value per bucket: the partition of each group, its sum, and its largest."""
        partitions = np.asarray(self.entries["partition_id"])[self.starts]
        first = np.flatnonzero(np.r_[True, partitions[1:] != partitions[:-1]])
        if not len(partitions):
            return partitions, values, values
        return (
            partitions[first],
            np.add.reduceat(values, first),
            np.maximum.reduceat(values, first),
        )

    def bucket_id(self, number: int) -> BucketId:
        """The bucket of a number here."""
        row = int(self.starts[number])
        partition = self.entries.partitions[int(self.entries["partition_id"][row])]
        return BucketId(partition, int(self.entries["bucket"][row]))
