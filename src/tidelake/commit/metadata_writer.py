"""The metadata files that make one snapshot, and which of them may be removed again.

One uuid names all of them. Two groups are told apart: the **delta** (this commit's own
entries and its changelog), which every attempt uses again, and the **attempt's** (merged manifests,
the base list, the index manifest and merged index files), which are worth nothing once the attempt
has lost its race.

Nothing is removed that a published snapshot may name. Removing is best effort: what stays is an
orphan, which harms nobody.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tidelake.errors import StorageError
from tidelake.fileio import FileIO
from tidelake.metadata.avro.avro import CODECS
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.index.hash_index import write_hash_index
from tidelake.metadata.index.index_manifest import write_index_manifest
from tidelake.metadata.index_entry import IndexEntry, IndexFile
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.manifest import write_manifests
from tidelake.metadata.manifest.manifest_cache import ManifestCache
from tidelake.metadata.manifest.manifest_list import ManifestFile, write_manifest_list
from tidelake.metadata.paths import TablePaths
from tidelake.options import Options, declared

__all__ = ["NewMetadata"]


class NewMetadata:
    """Writes the manifests and manifest lists of one snapshot.

    Parameters
    ----------
    fileio, paths
        The table.
    options : Options
        Its options: compression and size of manifests.
    manifests : ManifestCache
        Takes what is written, so that it need not be read back.
    uuid : str
        Part of the names; unique.
    list_names : set of str
        Takes the names of the manifest lists written.
    """

    def __init__(
        self,
        fileio: FileIO,
        paths: TablePaths,
        *,
        options: Options,
        manifests: ManifestCache,
        uuid: str,
        list_names: set[str],
    ) -> None:
        self._fileio = fileio
        self._paths = paths
        self._codec = CODECS[options.get(declared.MANIFEST_COMPRESSION)]
        self._bytes_max = options.get(declared.MANIFEST_TARGET_FILE_SIZE)
        self._cache = manifests
        self._manifest_names = (f"manifest-{uuid}-{i}" for i in itertools.count())
        self._index_manifest_names = (f"index-manifest-{uuid}-{i}" for i in itertools.count())
        self._index_names = (f"index-{uuid}-{i}" for i in itertools.count())
        self._list_names = (f"manifest-list-{uuid}-{i}" for i in itertools.count())
        self._written_lists = list_names
        self._delta: list[str] = []
        self._attempt: list[str] = []

    def write_delta(self, entries: EntryTable, *, schema_id: int) -> tuple[str, int]:
        """Write this commit's own entries, or its changelog; name and size of their list."""
        files = self._manifests(entries, schema_id, self._delta)
        return self._list(list(files), self._delta)

    def write_merged(self, entries: EntryTable, *, schema_id: int) -> Sequence[ManifestFile]:
        """Write entries of older manifests into new ones."""
        return list(self._manifests(entries, schema_id, self._attempt))

    def write_base(self, files: Sequence[ManifestFile]) -> tuple[str, int]:
        """Write the list of the state before this commit; its name and size."""
        return self._list(files, self._attempt)

    def write_index_file(self, place: BucketId, hashes: npt.NDArray[np.int32]) -> IndexFile:
        """Write the union of what this commit and others added to a bucket's hash index."""
        name = next(self._index_names)
        partition, bucket = place
        self._attempt.append(self._paths.index_file(partition, bucket, name))
        return write_hash_index(
            self._fileio, self._paths, name, hashes, partition=partition, bucket=bucket
        )

    def write_index_manifest(self, entries: Sequence[IndexEntry]) -> str:
        """Write the list of all index files; its name."""
        name = next(self._index_manifest_names)
        self._attempt.append(self._paths.manifest(name))
        write_index_manifest(self._fileio, self._paths, name, entries, codec=self._codec)
        return name

    def discard_attempt(self) -> None:
        """Remove what only the last attempt named. Requires: it was certainly not published."""
        self._remove(self._attempt)

    def keep_attempt(self) -> None:
        """Leave the last attempt's files where they are: it may have been published."""
        self._attempt.clear()

    def keep_all(self) -> None:
        """Leave all files where they are: they were published."""
        self._attempt.clear()
        self._delta.clear()

    def discard_delta(self) -> None:
        """Remove this commit's own entries. Requires: no attempt may have been published."""
        self._remove(self._delta)

    def _manifests(
        self, entries: EntryTable, schema_id: int, group: list[str]
    ) -> Iterator[ManifestFile]:
        def written(path: str, table: EntryTable) -> None:
            group.append(path)
            self._cache.keep(path, table)

        return write_manifests(
            self._fileio,
            self._paths,
            self._manifest_names,
            entries,
            schema_id=schema_id,
            bytes_max=self._bytes_max,
            codec=self._codec,
            written=written,
        )

    def _list(self, files: Sequence[ManifestFile], group: list[str]) -> tuple[str, int]:
        name = next(self._list_names)
        group.append(self._paths.manifest(name))
        self._written_lists.add(name)
        return write_manifest_list(self._fileio, self._paths, name, files, codec=self._codec)

    def _remove(self, group: list[str]) -> None:
        for path in group:
            try:
                self._fileio.delete(path)
            except StorageError:
                continue
        group.clear()
