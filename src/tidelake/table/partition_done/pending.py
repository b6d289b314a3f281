"""The partitions that got rows and are not done yet, kept in a small file of the table.

``<table>/upkeep/partitions-pending`` has the newest snapshot that it counts, and for each pending
partition the time of its last rows. Snapshots that came since are read from their own entries. The
file saves that work and no more: whoever looks works on from the one that is there, so an older one
that comes back, of two jobs that look at once, makes a mark again and loses none.

1. Without a file all snapshots count since the option was set, by the times of the schemas.
2. A partition has new rows if a commit of rows adds a file to it. Where rows are readable only
   after a compaction (deletion vectors, first-row, the postpone bucket), a compaction counts too.
3. If snapshots expired before they were read, the times of the live files stand for them. A
   compacted file is young, so a partition may be marked again.
4. After a rollback the ids of the snapshots behind it are given anew. All count that are not older
   than what was kept.

Source: Paimon's ``PartitionMarkDoneListener`` (2.1), which keeps the same in the state of a Flink
job.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tidelake.errors import CorruptError, NotFoundError
from tidelake.metadata.data_file import FileKind
from tidelake.metadata.log.json_file import parse_json
from tidelake.metadata.log.snapshot import CommitKind, Snapshot
from tidelake.metadata.manifest.snapshot_entries import delta_entries, live_entries
from tidelake.metadata.paths import POSTPONE_BUCKET
from tidelake.options import declared
from tidelake.table.handle.handle import TableHandle
from tidelake.table.schema.partition_done_options import DoneRule
from tidelake.types.json_checksum import with_checksum

FILE_NAME = "partitions-pending"  # on disk: never rename
SNAPSHOTS_MAX = 500
"""The most snapshots that are read one by one; of more the live files are."""
_OF_ROWS = frozenset({CommitKind.APPEND, CommitKind.OVERWRITE})


@dataclass(frozen=True, slots=True)
class PendingPartitions:
    """What is known of a table's partitions at one snapshot.

    Parameters
    ----------
    snapshot_id : int
        The newest snapshot that it counts.
    time_ms : int
        When that was committed.
    updated_ms : mapping of bytes to int
        When each pending partition got its last rows: by the clock, or by the watermark.
    """

    snapshot_id: int
    time_ms: int
    updated_ms: Mapping[bytes, int]

    def without(self, partitions: Iterable[bytes]) -> PendingPartitions:
        """The same, where some are pending no more."""
        gone = set(partitions)
        left = {p: ms for p, ms in self.updated_ms.items() if p not in gone}
        return PendingPartitions(self.snapshot_id, self.time_ms, left)

    def to_json(self) -> bytes:
        """The bytes of its file."""
        document = {
            "snapshotId": self.snapshot_id,
            "timeMs": self.time_ms,
            "pending": {partition.hex(): ms for partition, ms in self.updated_ms.items()},
        }
        return json.dumps(with_checksum(document), indent=2).encode()


def kept(handle: TableHandle) -> PendingPartitions | None:
    """Read the file; None if there is none, or a torn one."""
    path = _path(handle)
    try:
        document = parse_json(handle.fileio.read_bytes(path), path=path)
        updated_ms = {bytes.fromhex(p): int(ms) for p, ms in document["pending"].items()}
        return PendingPartitions(int(document["snapshotId"]), int(document["timeMs"]), updated_ms)
    except (NotFoundError, CorruptError, KeyError, TypeError, ValueError, AttributeError):
        return None


def keep(handle: TableHandle, pending: PendingPartitions) -> None:
    """Write the file.

    Raises
    ------
    NotFoundError
        The table was dropped, and perhaps created again.
    """
    with handle.fileio.open_dir(handle.paths.upkeep_dir, make=True) as place:
        # the directory is held before the check: a new table at this path gets no file
        handle.schemas.check_same(handle.schema, table=handle.identifier)
        handle.fileio.replace(_path(handle), pending.to_json(), within=place)


def pending_at(
    handle: TableHandle, rule: DoneRule, newest: Snapshot, before: PendingPartitions | None
) -> PendingPartitions:
    """The pending partitions at the newest snapshot, from those that were kept before."""
    updated_ms = {} if before is None else dict(before.updated_ms)
    since_ms = _asked_since_ms(handle) if before is None else before.time_ms
    if before is None or _is_rolled_back(handle, newest, before):
        found = _snapshots_since(handle, newest, 0, since_ms)
    else:
        found = _snapshots_since(handle, newest, before.snapshot_id, None)
    if found is None:
        changes = _of_live_files(handle, rule, newest, since_ms)
    else:
        changes = (change for snapshot in found for change in _changes(handle, rule, snapshot))
    for partition, time_ms in changes:
        updated_ms[partition] = max(time_ms, updated_ms.get(partition, time_ms))
    return PendingPartitions(newest.id, newest.time_ms, updated_ms)


def _path(handle: TableHandle) -> str:
    return f"{handle.paths.upkeep_dir}/{FILE_NAME}"


def _asked_since_ms(handle: TableHandle) -> int:
    """Since when the table's options ask for marks; now, if only those of this use do."""
    since_ms = handle.env.clock.now_ms()
    schemas = handle.schemas.load_all(handle.env.reads.ranges)
    for schema_id in sorted(schemas, reverse=True):
        if declared.PARTITION_IDLE_TIME_TO_DONE.key not in schemas[schema_id].options:
            break
        since_ms = schemas[schema_id].time_ms
    return since_ms


def _is_rolled_back(handle: TableHandle, newest: Snapshot, before: PendingPartitions) -> bool:
    """Whether the snapshot that was kept is another one by now, or is none."""
    if newest.id <= before.snapshot_id:
        return newest.id < before.snapshot_id or newest.time_ms != before.time_ms
    then = handle.snapshots.find(before.snapshot_id) if before.snapshot_id else None
    return then is not None and then.time_ms != before.time_ms


def _snapshots_since(
    handle: TableHandle, newest: Snapshot, after_id: int, since_ms: int | None
) -> list[Snapshot] | None:
    """The snapshots after one, or since a time; None if some have expired, or if they are many."""
    found: list[Snapshot] = []
    snapshot: Snapshot | None = newest
    for snapshot_id in range(newest.id, after_id, -1):
        if snapshot_id != newest.id:
            snapshot = handle.snapshots.find(snapshot_id)
        if snapshot is None or len(found) == SNAPSHOTS_MAX:
            return None
        if since_ms is not None and snapshot.time_ms < since_ms:
            break
        found.append(snapshot)
    return found


def _changes(
    handle: TableHandle, rule: DoneRule, snapshot: Snapshot
) -> Iterator[tuple[bytes, int]]:
    """The partitions to which a snapshot adds files, and its time."""
    time_ms = snapshot.watermark if rule.by_watermark else snapshot.time_ms
    is_counted = snapshot.commit_kind in _OF_ROWS or is_readable_later(handle)
    if time_ms is None or not is_counted:
        return
    for partition in partitions_with_new_files(handle, snapshot):
        yield partition, time_ms


def partitions_with_new_files(handle: TableHandle, snapshot: Snapshot) -> list[bytes]:
    """The partitions to which a snapshot adds files."""
    entries = delta_entries(handle.fileio, handle.paths, snapshot, handle.manifests)
    added = entries["partition_id"][entries["kind"] == FileKind.ADD]
    return [entries.partitions[number] for number in np.unique(added).tolist()]


def live_partitions(handle: TableHandle, snapshot: Snapshot) -> set[bytes]:
    """The partitions that have files at a snapshot."""
    live = live_entries(handle.fileio, handle.paths, snapshot, handle.manifests)
    return {live.partitions[number] for number in np.unique(live["partition_id"]).tolist()}


def _of_live_files(
    handle: TableHandle, rule: DoneRule, newest: Snapshot, since_ms: int
) -> Iterator[tuple[bytes, int]]:
    """The partitions with files that are younger than a time; of a file without a time, too."""
    watermark = newest.watermark
    if rule.by_watermark and watermark is None:
        return
    offset_ms = handle.env.clock.local_offset_ms()
    live = live_entries(handle.fileio, handle.paths, newest, handle.manifests)
    made_ms = np.asarray(live["creation_time_ms"].fill_null(newest.time_ms + offset_ms))
    youngest = np.zeros(len(live.partitions), np.int64)
    np.maximum.at(youngest, live["partition_id"], made_ms - offset_ms)
    for number in np.flatnonzero(youngest >= since_ms).tolist():
        time_ms = int(youngest[number])
        yield live.partitions[number], watermark if rule.by_watermark and watermark else time_ms


def is_readable_later(handle: TableHandle) -> bool:
    """Whether readers see new rows only after a compaction."""
    options = handle.options
    return bool(handle.schema.primary_keys) and (
        options.get(declared.DELETION_VECTORS_ENABLED)
        or options.get(declared.MERGE_ENGINE) == "first-row"
        or options.get(declared.BUCKET) == POSTPONE_BUCKET
    )
