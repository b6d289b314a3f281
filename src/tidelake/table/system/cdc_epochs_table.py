"""``$cdc_epochs``: what jobs of change data capture left of a table, epoch by epoch.

Not one of Paimon's. A commit of a job names the job as its user and the epoch as its identifier,
and its properties say which positions of the source it covers. The marks here stand in these texts:
on disk, never change them.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidelake.commit.stream_step import Covered
from tidelake.errors import NotFoundError
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.table.handle.handle import TableHandle

CDC_USER = "cdc-"
"""The user of a job's commits, before the job's name."""
COPY_MARK, REPLAY_MARK = "copy ", "replay "
"""Before what a copy, or a replay of the quarantine, has in place of positions."""

CDC_EPOCHS = pa.schema(
    [
        pa.field("job", pa.string(), nullable=False),
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("position", pa.string()),
        pa.field("snapshot_id", pa.int64(), nullable=False),
        pa.field("commit_time", pa.timestamp("ms", tz="UTC"), nullable=False),
    ]
)


def cdc_epochs_table(handle: TableHandle) -> pa.Table:
    """``$cdc_epochs``: one row per epoch with rows of the table, as far as snapshots are kept.

    `snapshot_id` is the newest that shows the table as the epoch left it: a compaction after the
    epoch's commit belongs to it. `position` is where the source was; null of a replay.
    """
    log = handle.snapshots
    rows: list[dict[str, Any]] = []
    newest: dict[str, dict[str, Any]] = {}
    for snapshot_id in log.ids():
        try:
            snapshot = log.load(snapshot_id)
        except NotFoundError:
            continue  # it expired meanwhile
        row, before = _row(snapshot), newest.get(snapshot.commit_user)
        if row is not None and (before is None or row["epoch"] != before["epoch"]):
            newest[snapshot.commit_user] = row
            rows.append(row)
        for last in newest.values():
            last["snapshot_id"] = snapshot_id
    return pa.Table.from_pylist(rows, schema=CDC_EPOCHS)


def _row(snapshot: Snapshot) -> dict[str, Any] | None:
    """The row of an epoch's first snapshot; None for a commit of no job."""
    covered = Covered.of(snapshot)
    if covered is None or not snapshot.commit_user.startswith(CDC_USER):
        return None
    epoch = snapshot.commit_identifier
    kind = "changes"
    position: str | None = covered.offsets
    if covered.begin == Covered.between(f"{COPY_MARK}{epoch}", "").begin:
        kind = "copy"
        position = covered.offsets.removeprefix(COPY_MARK)
    elif covered.offsets.startswith(REPLAY_MARK):
        kind, position = "replay", None
    return {
        "job": snapshot.commit_user.removeprefix(CDC_USER),
        "epoch": epoch,
        "kind": kind,
        "position": position,
        "snapshot_id": snapshot.id,
        "commit_time": snapshot.time_ms,
    }
