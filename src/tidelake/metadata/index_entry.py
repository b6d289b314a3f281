"""Metadata of one index file, and a writer's changes to the indexes of its bucket.

These values are Paimon's ``IndexFileMeta`` and ``IndexManifestEntry`` (1.3.1);
``docs/format/index-file.md`` shows their bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelake.metadata.bucket_id import InBucket

HASH = "HASH"  # on disk: never rename
DELETION_VECTORS = "DELETION_VECTORS"  # on disk: never rename


@dataclass(frozen=True, slots=True)
class IndexFile:
    """One index file as the index manifest describes it.

    Parameters
    ----------
    index_type : str
        :data:`HASH`, :data:`DELETION_VECTORS`, or one of 2.x.
    ranges : tuple, optional
        Of deletion vectors: (data file, offset, length, cardinality or None) each.
    external_path : str, optional
        Where it is, if outside the table.
    global_index : mapping, optional
        Paimon 2.x only; kept as it is.
    """

    index_type: str
    file_name: str
    file_size_bytes: int
    row_count: int
    ranges: tuple[tuple[str, int, int, int | None], ...] | None = None
    external_path: str | None = None
    global_index: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class IndexEntry(InBucket):
    """An index file and the bucket it belongs to."""

    partition: bytes
    """Serialized BinaryRow of the partition columns, arity prefix included."""
    bucket: int
    file: IndexFile


@dataclass(frozen=True, slots=True)
class IndexChange:
    """The index by which a writer chose a dynamic bucket for its rows, and its additions.

    Parameters
    ----------
    base_snapshot_id : int
        The snapshot whose index it was; 0 for the empty table.
    file : IndexFile, optional
        The bucket's new hash index file; None if no key is new.
    known_count : int
        How many hashes at the beginning of the file were in the bucket's file before.
    added : bytes, optional
        The new hashes, where they stand among the known ones: 4 bytes each, little-endian.
    """

    base_snapshot_id: int
    file: IndexFile | None = None
    known_count: int = 0
    added: bytes | None = None

    def new_hashes(self, of_file: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """The hashes that the writer added, given all of the file."""
        told = self.carried_hashes
        return of_file[self.known_count :] if told is None else told

    @property
    def carried_hashes(self) -> npt.NDArray[np.int32] | None:
        """The same without the file; None if only the file has them."""
        return None if self.added is None else np.frombuffer(self.added, "<i4").astype(np.int32)


@dataclass(frozen=True, slots=True)
class DeletionChange:
    """The changes of a writer to the deletion vectors of one bucket.

    Parameters
    ----------
    removed : tuple of str
        Names of the replaced index files; the new ones hold all their vectors, except those of
        data files that the same commit removes.
    """

    removed: tuple[str, ...] = ()
    added: tuple[IndexFile, ...] = ()

    @property
    def data_files(self) -> frozenset[str]:
        """Names of the data files of the new vectors."""
        return frozenset(name for file in self.added for name, *_ in file.ranges or ())
