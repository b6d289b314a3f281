"""Writes the metadata files that make one snapshot, and removes those that are no longer needed.

One uuid names all of them. They are in two groups: the **delta** (the commit's own entries and its
changelog), which every attempt uses again, and the files of one **attempt** (merged manifests, the
base list, the index manifest and united hash indexes), which are useless once the attempt has lost
its race.

No file is removed that a published snapshot may name. A file that cannot be removed is an orphan,
which does no harm.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from tidelake.commit.context import CommitContext
from tidelake.commit.delta import Hashes, IndexDelta
from tidelake.errors import StorageError
from tidelake.metadata.avro.avro import CODECS
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.index.hash_index import write_hash_index
from tidelake.metadata.index.index_manifest import write_index_manifest
from tidelake.metadata.index_entry import IndexFile
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.manifest import write_manifests
from tidelake.metadata.manifest.manifest_list import ManifestFile, write_manifest_list
from tidelake.metadata.unique_file import TogetherFiles
from tidelake.options import declared


class MetadataWriter:
    """Writes the manifests and manifest lists of one snapshot.

    Parameters
    ----------
    context : CommitContext
        The table. Its manifest cache takes what is written, so that nothing is read back.
    """

    def __init__(self, context: CommitContext, *, list_names: set[str]) -> None:
        self._fileio = context.fileio
        self._new_files = TogetherFiles(context.fileio, context.env.reads.ranges)
        self._paths = context.paths
        self._codec = CODECS[context.options.get(declared.MANIFEST_COMPRESSION)]
        self._bytes_max = context.options.get(declared.MANIFEST_TARGET_FILE_SIZE)
        self._cache = context.manifests
        uuid = context.env.ids.uuid()
        self._manifest_names = (f"manifest-{uuid}-{i}" for i in itertools.count())
        self._index_manifest_names = (f"index-manifest-{uuid}-{i}" for i in itertools.count())
        self._index_names = (f"index-{uuid}-{i}" for i in itertools.count())
        self._list_names = (f"manifest-list-{uuid}-{i}" for i in itertools.count())
        self._written_lists = list_names
        self._delta: list[str] = []
        self._attempt: list[str] = []

    def write_delta(self, entries: EntryTable, *, schema_id: int) -> tuple[str, int]:
        """Write the commit's own entries, or its changelog; name and size of their list."""
        files = self._manifests(entries, schema_id, self._delta)
        return self._list(list(files), self._delta)

    def write_merged(self, entries: EntryTable, *, schema_id: int) -> Sequence[ManifestFile]:
        """Write entries of older manifests into new ones."""
        return list(self._manifests(entries, schema_id, self._attempt))

    def write_base(self, files: Sequence[ManifestFile]) -> tuple[str, int]:
        """Write the list of the state before this commit; its name and size."""
        return self._list(files, self._attempt)

    def write_index(self, delta: IndexDelta) -> str | None:
        """Write the index manifest and what it needs; its name, None where no file is left."""
        written = {b: self._write_hashes(b, hashes) for b, hashes in delta.unwritten.items()}
        entries = delta.after(written)
        if not entries:
            return None
        name = next(self._index_manifest_names)
        self._attempt.append(self._paths.manifest(name))
        write_index_manifest(self._new_files, self._paths, name, entries, codec=self._codec)
        return name

    def _write_hashes(self, bucket_id: BucketId, hashes: Hashes) -> IndexFile:
        name = next(self._index_names)
        partition, bucket = bucket_id
        self._attempt.append(self._paths.index_file(partition, bucket, name))
        return write_hash_index(
            self._new_files, self._paths, name, hashes, partition=partition, bucket=bucket
        )

    def finish(self) -> None:
        """Write what waits: a remote storage gets all files of a snapshot at once.

        Requires: it is called before a snapshot that names them is published.
        """
        self._new_files.finish()

    def discard_attempt(self) -> None:
        """Remove the last attempt's files. Requires: it was certainly not published."""
        self._remove(self._attempt)

    def keep_attempt(self) -> None:
        """Keep the last attempt's files: it may have been published."""
        self._attempt.clear()

    def keep_all(self) -> None:
        """Keep all files: they were published, if only for a moment."""
        self._attempt.clear()
        self._delta.clear()

    def discard_delta(self) -> None:
        """Remove the commit's own entries. Requires: certainly no attempt was published."""
        self._remove(self._delta)

    def _manifests(
        self, entries: EntryTable, schema_id: int, group: list[str]
    ) -> Iterator[ManifestFile]:
        def written(path: str, table: EntryTable) -> None:
            group.append(path)
            self._cache.keep(path, table)

        return write_manifests(
            self._new_files,
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
        return write_manifest_list(self._new_files, self._paths, name, files, codec=self._codec)

    def _remove(self, group: list[str]) -> None:
        self._new_files.forget(group)
        for path in group:
            try:
                self._fileio.delete(path)
            except StorageError:
                continue
        group.clear()
