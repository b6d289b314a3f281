"""Applies the changes of one snapshot to the manifests of the one before.

1. Manifests without a removed file are used again; one without live files is left out.
2. A manifest with removed files is written again: they become DELETED, the others EXISTING. The
   newest manifests are read first, and no more once all removed files are found.
3. Added files go into new manifests.
4. Many small manifests are merged into larger ones.
5. With format version 3 each data manifest reserves row ids for its files; entries that move to
   another manifest take theirs along.

Source: the Iceberg specification, "Manifests" and "Row Lineage"; Paimon's
``IcebergCommitCallback``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from tidelake.commit.iceberg.manifest_files import (
    DATA,
    DELETED,
    EXISTING,
    ManifestFiles,
    Record,
)
from tidelake.commit.iceberg.settings import VERSION_WITH_VECTORS
from tidelake.commit.iceberg.shown_files import added_entry

LARGE_NUMERATOR, LARGE_DENOMINATOR = 2, 3
"""A manifest of two thirds of the target size is large: it is not merged."""

Key = Callable[[Record], Hashable]


@dataclass
class Changed:
    """What one snapshot changed: its data files and deletion vectors, added and removed."""

    added: list[Record] = field(default_factory=list)
    removed: list[Record] = field(default_factory=list)


def live_files_count(manifest: Record) -> int:
    """How many files of a manifest are live."""
    return int(manifest["added_files_count"] + manifest["existing_files_count"])


@dataclass(frozen=True, slots=True)
class ManifestChanges:
    """Makes the manifests of one snapshot.

    Parameters
    ----------
    address_of : callable
        The address of a path.
    """

    files: ManifestFiles
    names: Iterator[str]
    snapshot_id: int
    address_of: Callable[[str], str]
    written: list[str]

    def apply(
        self,
        manifests: Sequence[Record],
        added: Sequence[Record],
        removed: Collection[Hashable],
        *,
        content: int,
        key: Key,
    ) -> tuple[list[Record], Changed]:
        """Apply changes to manifests of one content.

        Parameters
        ----------
        manifests : sequence of dict
            Those of the snapshot before, oldest first.
        added : sequence of dict
            New data files, or deletion vectors.
        removed : collection
            Keys of removed ones; unknown ones are ignored.
        key : callable
            The key of a file.
        """
        changed = Changed(added=list(added))
        left = set(removed)
        parts: list[list[Record]] = []
        for manifest in reversed(manifests):
            if not live_files_count(manifest):
                continue
            part = self._without(manifest, left, content, key, changed) if left else [manifest]
            parts.append(part)
        result = [manifest for part in reversed(parts) for manifest in part]
        result += self._write([added_entry(f, self.snapshot_id) for f in added], content)
        return self._merged(result, content), changed

    def _without(
        self, manifest: Record, left: set[Hashable], content: int, key: Key, changed: Changed
    ) -> list[Record]:
        """A manifest without the files that are removed; their keys leave `left`."""
        entries = self.live_entries(manifest)
        gone = {key(entry["data_file"]) for entry in entries} & left
        if not gone:
            return [manifest]
        left -= gone
        out = []
        for entry in entries:
            is_gone = key(entry["data_file"]) in gone
            if is_gone:
                changed.removed.append(entry["data_file"])
            known = {"status": DELETED, "snapshot_id": self.snapshot_id}
            out.append(entry | (known if is_gone else {"status": EXISTING}))
        return self._write(out, content)

    def live_entries(self, manifest: Record) -> list[Record]:
        """The live entries of a manifest, with their row ids."""
        entries = [e for e in self.files.read_manifest(manifest) if e["status"] != DELETED]
        next_id = manifest.get("first_row_id")
        if next_id is None or manifest["content"] != DATA:
            return entries
        out = []
        for entry in entries:
            file = entry["data_file"]
            if file.get("first_row_id") is None:
                file = file | {"first_row_id": next_id}
                next_id += file["record_count"]
            out.append(entry | {"data_file": file})
        return out

    def _write(self, entries: Sequence[Record], content: int) -> list[Record]:
        out = []
        for path, record in self.files.write_manifests(
            self.names, entries, content=content, snapshot_id=self.snapshot_id
        ):
            self.written.append(path)
            out.append({"manifest_path": self.address_of(path), **record})
        return out

    def _merged(self, manifests: list[Record], content: int) -> list[Record]:
        """The manifests, small ones merged if they are many."""
        settings = self.files.settings
        large = settings.manifest_bytes_max * LARGE_NUMERATOR // LARGE_DENOMINATOR
        small = [m for m in manifests if m["manifest_length"] < large]
        size_bytes = sum(m["manifest_length"] for m in small)
        is_due = len(small) >= settings.merge_count_max or (
            len(small) >= settings.merge_count_min and size_bytes >= settings.manifest_bytes_max
        )
        if not is_due or len(small) == 1:
            return manifests
        entries = [entry for manifest in small for entry in self._moved(manifest)]
        for manifest in small:
            if manifest["added_snapshot_id"] == self.snapshot_id:  # no list names it
                path = self.files.path(manifest["manifest_path"])
                self.files.fileio.delete(path)
                self.written.remove(path)
        kept = [m for m in manifests if m["manifest_length"] >= large]
        return kept + self._write(entries, content)

    def _moved(self, manifest: Record) -> Iterator[Record]:
        """The entries of a manifest as they are in another one."""
        if manifest["added_snapshot_id"] != self.snapshot_id:
            for entry in self.live_entries(manifest):
                yield entry | {"status": EXISTING}
            return
        for entry in self.files.read_manifest(manifest):
            yield entry

    def with_row_ids(self, manifests: Sequence[Record], first: int) -> tuple[list[Record], int]:
        """Reserve row ids for data manifests that have none; the manifests and the next id.

        Tables of format version 2 have none.
        """
        if self.files.settings.format_version < VERSION_WITH_VECTORS:
            return list(manifests), first
        out, next_id = [], first
        for manifest in manifests:
            if manifest["content"] == DATA and manifest["first_row_id"] is None:
                out.append(manifest | {"first_row_id": next_id})
                next_id += manifest["added_rows_count"] + manifest["existing_rows_count"]
            else:
                out.append(manifest)
        return out, next_id
