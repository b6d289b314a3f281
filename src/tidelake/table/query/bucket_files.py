"""Which files each bucket has at a snapshot, and what changed between two of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tidelake.metadata.bucket_id import BucketId, InBucket
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.index.deletion_file import DeletionRange
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.manifest_cache import ManifestCache
from tidelake.scan import BucketFiles, ReadContext, read_buckets

Owns: TypeAlias = Callable[[BucketId], bool]


@dataclass(frozen=True, slots=True)
class QueriedBucket(InBucket):
    """The files of one bucket at a snapshot, as a read of it takes them."""

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFileMeta, ...]
    deletions: Mapping[str, DeletionRange] = field(default_factory=dict)

    @classmethod
    def of(cls, found: BucketFiles) -> QueriedBucket:
        """The state of a planned bucket."""
        files = tuple(found.files)
        own = {f.file_name: found.deletions.get(f.file_name) for f in files}
        return cls(
            found.partition,
            found.bucket,
            found.total_buckets,
            files,
            {name: where for name, where in own.items() if where is not None},
        )


@dataclass(frozen=True, slots=True)
class BucketChange(InBucket):
    """One bucket whose files differ between two snapshots.

    Parameters
    ----------
    before : tuple of str
        The names of its files before; none if it is new.
    after : QueriedBucket or None
        Its files after; None if it was removed.
    """

    partition: bytes
    bucket: int
    before: tuple[str, ...]
    after: QueriedBucket | None


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The buckets that differ between two snapshots. Picklable.

    Parameters
    ----------
    base : Snapshot or None
        The snapshot before; None if `buckets` are all that the table has.
    """

    base: Snapshot | None
    snapshot: Snapshot
    buckets: tuple[BucketChange, ...]


def _every(_: BucketId) -> bool:
    return True


def states_of(
    context: ReadContext,
    snapshot: Snapshot | None,
    *,
    manifests: ManifestCache,
    owns: Owns | None = None,
) -> dict[BucketId, QueriedBucket]:
    """The files of each bucket that a read of a snapshot opens.

    Parameters
    ----------
    snapshot : Snapshot or None
        The snapshot; None has no buckets.
    owns : callable, optional
        Which buckets are wanted.
    """
    if snapshot is None:
        return {}
    wanted = owns or _every
    found = read_buckets(context, snapshot, manifests=manifests)
    return {b.bucket_id: QueriedBucket.of(b) for b in found if wanted(b.bucket_id)}


def changes_between(
    base: Snapshot | None,
    before: Mapping[BucketId, QueriedBucket],
    snapshot: Snapshot,
    after: Mapping[BucketId, QueriedBucket],
) -> FileChanges:
    """The buckets whose files, levels or deletion vectors differ.

    Parameters
    ----------
    base, snapshot : Snapshot
        The snapshots before and after.
    """
    changes = []
    for bucket_id in {**before, **after}:
        old, new = before.get(bucket_id), after.get(bucket_id)
        if old != new:
            names = () if old is None else tuple(f.file_name for f in old.files)
            changes.append(BucketChange(bucket_id.partition, bucket_id.bucket, names, new))
    return FileChanges(base, snapshot, tuple(changes))
