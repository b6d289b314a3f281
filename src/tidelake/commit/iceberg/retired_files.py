"""Deletes Iceberg metadata that nothing names any more.

- Metadata files of versions older than ``metadata.iceberg.previous-versions-max`` says.
- Those of versions after the newest snapshot: a rollback removed their snapshots, and readers look
  for versions after the hint.
- The manifest lists of snapshots that a new document no longer has, and manifests and files of
  deletion vectors that only these name. Such a file is in a row of snapshots without a gap, so only
  the neighbours that stay are asked: those in the older document, because after a rollback the new
  one may go on differently, and those in the new one, which may have none of the older one's.

A file that cannot be deleted is an orphan, which does no harm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidelake.commit.iceberg.manifest_files import DELETES, ManifestFiles, Record
from tidelake.errors import CorruptError, NotFoundError, StorageError
from tidelake.fileio import FileIO
from tidelake.metadata.log.snapshot_log import SnapshotLog

_METADATA_FILE = re.compile(r"v([0-9]{1,18})\.metadata\.json")


@dataclass(frozen=True, slots=True)
class RetiredFiles:
    """Deletes what is retired."""

    files: ManifestFiles
    log: SnapshotLog

    def delete_versions(self, newest: int) -> None:
        """Delete metadata files of other versions; `newest` is the newest snapshot."""
        settings, fileio = self.files.settings, self.files.fileio
        kept = settings.versions_kept
        for status in fileio.list_dir(settings.metadata_dir):
            matched = _METADATA_FILE.fullmatch(status.name)
            if matched is None:
                continue
            version = int(matched[1])
            is_old = kept is not None and version < newest - kept
            if is_old or (version > newest and self.log.find(version) is None):
                delete_quietly(fileio, settings.metadata_file(version))

    def delete_snapshots(self, older: Iterable[Record], document: Record) -> None:
        """Delete the files of snapshots that older documents have, and the new one has not."""
        kept = sorted(document["snapshots"], key=_id)
        lists = _lists(document)
        gone: dict[str, set[str]] = {}  # lists, each with those of its neighbours
        for other in older:
            if other["location"] != document["location"]:
                continue
            known = _lists(other)
            shared = [s for s in kept if s["manifest-list"] in known]
            for snapshot in other["snapshots"]:
                if snapshot["manifest-list"] not in lists:
                    near = gone.setdefault(snapshot["manifest-list"], set())
                    near |= _neighbours(snapshot, shared) | _neighbours(snapshot, kept)
        for address, near in gone.items():
            try:
                used = {name for one in near for name in self._named_by(one)}
                retired = self._named_by(address) - used
            except (NotFoundError, CorruptError, StorageError):
                continue
            for one in (*sorted(retired), address):
                delete_quietly(self.files.fileio, self.files.path(one))

    def _named_by(self, address: str) -> set[str]:
        """The manifests of a manifest list, and its files of deletion vectors."""
        names = set()
        for manifest in self.files.read_list(address):
            names.add(str(manifest["manifest_path"]))
            if manifest["content"] == DELETES:
                entries = self.files.read_manifest(manifest)
                names |= {e["data_file"]["file_path"] for e in entries}
        return {name for name in names if self.files.is_own(name)}


def _id(snapshot: Record) -> int:
    return int(snapshot["snapshot-id"])


def _lists(document: Record) -> set[str]:
    """The addresses of a document's manifest lists."""
    return {snapshot["manifest-list"] for snapshot in document["snapshots"]}


def _neighbours(snapshot: Record, among: Sequence[Record]) -> set[str]:
    """The manifest lists of the snapshots before and after. Requires: ascending."""
    below = [s for s in among if _id(s) < _id(snapshot)][-1:]
    above = [s for s in among if _id(s) >= _id(snapshot)][:1]
    return {s["manifest-list"] for s in (*below, *above)}


def delete_quietly(fileio: FileIO, path: str) -> None:
    """Delete a file that nothing names; a failure leaves an orphan."""
    try:
        fileio.delete(path)
    except StorageError:
        return
