"""Keeps the number of manifests small, so that the cost of a commit does not grow with their count.

Each commit adds a manifest. Before its base list is written:

1. **Full**: if manifests that hold DELETEs or are smaller than ``manifest.target-file-size``
   together reach ``manifest.full-compaction-threshold-size``, they are rewritten without entries
   that cancel out, together with large ones that hold a deleted file.
2. **Minor**: else, if at least ``manifest.merge-min-count`` small ones stand at the end of the
   list, the newest of them are merged: from the end, while the next one is at most :data:`RATIO`
   times as large as all after it. Sizes grow geometrically, so an entry is rewritten O(log n)
   times. Paimon merges the whole end of the list each time, at a growing cost until it reaches
   8 MiB.

The rules only decide which files hold the entries; every reader folds them to the same state. The
order of entries is kept. Source of 1 and of the options: Paimon's ``ManifestFileMerger`` (1.3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.metadata.data_file import FileKind
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.manifest_list import ManifestFile
from tidelake.options import Options, declared

RATIO = 2
TAIL_COUNT_FACTOR_MAX = 2
"""With this many times ``merge-min-count`` small manifests, all of them are merged."""

Read = Callable[[ManifestFile], EntryTable]
Write = Callable[[EntryTable], Sequence[ManifestFile]]


@dataclass(frozen=True, slots=True)
class MergeRule:
    """When manifests are merged."""

    target_bytes: int
    min_count: int
    full_bytes: int

    @classmethod
    def of(cls, options: Options) -> MergeRule:
        """The rule that a table's options give."""
        return cls(
            target_bytes=options.get(declared.MANIFEST_TARGET_FILE_SIZE),
            min_count=max(2, options.get(declared.MANIFEST_MERGE_MIN_COUNT)),
            full_bytes=options.get(declared.MANIFEST_FULL_COMPACTION_THRESHOLD_SIZE),
        )

    def of_all(self) -> MergeRule:
        """The same rule, but any manifests with DELETEs, or small, call for a full merge."""
        return replace(self, full_bytes=0)

    def is_loose(self, manifest: ManifestFile) -> bool:
        """Whether a manifest is small or holds DELETEs."""
        return manifest.deleted_count > 0 or manifest.file_size_bytes < self.target_bytes


def wants_full(manifests: Sequence[ManifestFile], rule: MergeRule) -> bool:
    """Whether a full merge is due."""
    loose = [m.file_size_bytes for m in manifests if rule.is_loose(m)]
    return len(loose) > 1 and sum(loose) >= rule.full_bytes


def minor_start(manifests: Sequence[ManifestFile], rule: MergeRule) -> int | None:
    """Position from which the manifests are to be merged into one; None if there is nothing to do.

    Examples
    --------
    >>> from tidelake.metadata.data_file import EMPTY_STATS
    >>> def m(entries): return ManifestFile("m", 10, entries, 0, EMPTY_STATS, 0)
    >>> rule = MergeRule(target_bytes=100, min_count=3, full_bytes=10**6)
    >>> minor_start([m(9), m(1), m(1)], rule), minor_start([m(9), m(1)], rule)
    (1, None)
    """
    tail = len(manifests)
    while tail and manifests[tail - 1].file_size_bytes < rule.target_bytes:
        tail -= 1
    count = len(manifests) - tail
    if count < rule.min_count:
        return None
    if count >= rule.min_count * TAIL_COUNT_FACTOR_MAX:
        return tail
    start = len(manifests) - 1
    entries_count = manifests[start].entries_count
    while start > tail and manifests[start - 1].entries_count <= RATIO * entries_count:
        start -= 1
        entries_count += manifests[start].entries_count
    return start if start < len(manifests) - 1 else None


def merge_manifests(
    manifests: Sequence[ManifestFile], rule: MergeRule, *, read: Read, write: Write, where: str
) -> tuple[ManifestFile, ...]:
    """Merge the manifests that are due.

    Parameters
    ----------
    manifests : sequence of ManifestFile
        The manifests of a snapshot, in order.
    read, write : callable
        Give a manifest's entries; write entries into new manifests.

    Returns
    -------
    tuple of ManifestFile
        Manifests that fold to the same live files.
    """
    if wants_full(manifests, rule):
        return _full(manifests, rule, read=read, write=write, where=where)
    start = minor_start(manifests, rule)
    if start is None:
        return tuple(manifests)
    entries = EntryTable.cancel([read(m) for m in manifests[start:]], where=where)
    return (*manifests[:start], *write(entries))


def _full(
    manifests: Sequence[ManifestFile], rule: MergeRule, *, read: Read, write: Write, where: str
) -> tuple[ManifestFile, ...]:
    deleted = pa.chunked_array(
        [_deleted_names(read(m)) for m in manifests if m.deleted_count], type=pa.string()
    ).combine_chunks()
    kept: list[ManifestFile] = []
    loose: list[EntryTable] = []
    for manifest in manifests:
        table = None
        if not rule.is_loose(manifest):
            table = read(manifest) if len(deleted) else None
            if table is None or not _holds_any(table, deleted):
                kept.append(manifest)
                continue
        loose.append(read(manifest) if table is None else table)
    # a kept manifest holds no deleted file, so it may stand before the others
    return (*kept, *write(EntryTable.fold(loose, where=where)))


def _deleted_names(table: EntryTable) -> pa.Array:
    rows = np.flatnonzero(table["kind"] == FileKind.DELETE)
    return table["file_name"].take(pa.array(rows))


def _holds_any(table: EntryTable, names: pa.Array) -> bool:
    return bool(pc.any(pc.is_in(table["file_name"], value_set=names)).as_py())
