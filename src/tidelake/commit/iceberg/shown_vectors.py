"""The deletion vectors of snapshots as Iceberg's entries, in Puffin files of their own.

A vector of a data file only grows, so data file and cardinality identify it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tidelake.commit.iceberg.manifest_files import DELETES, Record
from tidelake.commit.iceberg.puffin import Blob, puffin_file
from tidelake.commit.iceberg.shown_files import ShownFiles
from tidelake.metadata.index.deletion_file import DeletionRange, deletion_ranges, read_frame
from tidelake.metadata.index.deletion_vector import decode_vector, encode_vector, is_64_bits
from tidelake.metadata.index_entry import DELETION_VECTORS
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.unique_file import write_unique

ROWS_MAX = 1 << 40
"""More rows than a data file has: the length of a vector's bytes bounds its positions."""
VectorKey = tuple[str, int]
"""Data file and cardinality."""


def vector_key(file: Record) -> VectorKey:
    """The identity of a vector's entry."""
    return file["referenced_data_file"], file["record_count"]


@dataclass(frozen=True, slots=True)
class StoredVector:
    """A deletion vector of a snapshot."""

    partition: bytes
    data_file: str
    name: str
    where: DeletionRange
    cardinality: int


@dataclass(frozen=True, slots=True)
class ShownVectors:
    """Gives the deletion vectors of snapshots."""

    shown: ShownFiles

    def of(self, snapshot: Snapshot) -> dict[VectorKey, StoredVector]:
        """The vectors of a snapshot."""
        context, found = self.shown.context, {}
        for entry in context.index_entries(snapshot):
            if entry.file.index_type != DELETION_VECTORS:
                continue
            for name, where in deletion_ranges(context.paths, [entry]).items():
                data_file = self.shown.address(entry.partition, entry.bucket, name)
                cardinality = where.cardinality
                if cardinality is None:
                    cardinality = len(decode_vector(self._frame(where, name), row_count=ROWS_MAX))
                key = data_file, cardinality
                found[key] = StoredVector(entry.partition, data_file, name, where, cardinality)
        return found

    def _frame(self, where: DeletionRange, name: str) -> bytes:
        return read_frame(self.shown.context.fileio, where, file_name=name).data

    def write(self, path: str, vectors: Collection[StoredVector]) -> list[Record]:
        """Write vectors into a Puffin file; their ``data_file`` records."""
        blobs = [Blob(v.data_file, self._wide_frame(v), v.cardinality) for v in vectors]
        data, offsets = puffin_file(blobs)
        write_unique(self.shown.context.fileio, path, data)
        return list(self._records(path, len(data), zip(vectors, blobs, offsets, strict=True)))

    def _wide_frame(self, vector: StoredVector) -> bytes:
        """The vector with 64 bits, as Iceberg's are."""
        frame = self._frame(vector.where, vector.name)
        if is_64_bits(frame):
            return frame
        return encode_vector(decode_vector(frame, row_count=ROWS_MAX), bitmap64=True)

    def _records(
        self, path: str, size_bytes: int, parts: Iterable[tuple[StoredVector, Blob, int]]
    ) -> Iterable[Record]:
        for vector, blob, offset in parts:
            yield self.shown.record(
                vector.partition,
                content=DELETES,
                file_path=self.shown.address_of(path),
                file_format="puffin",
                record_count=vector.cardinality,
                file_size_in_bytes=size_bytes,
                referenced_data_file=vector.data_file,
                content_offset=offset,
                content_size_in_bytes=len(blob.frame),
            )
