"""Checks of a table's history: manifests, snapshots, tags, readers, statistics, orphan files."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.commit.expiry import Expired
from tidelake.commit.manifest_merge import MergeRule
from tidelake.commit.tags.branch_starts import unneeded_by_branches
from tidelake.errors import TidelakeError
from tidelake.metadata.log.snapshot import CommitKind
from tidelake.metadata.log.statistics import read_statistics
from tidelake.metadata.manifest.snapshot_entries import (
    delta_entries,
    live_entries,
    manifest_files,
)
from tidelake.table.health.examined import Examined
from tidelake.table.health.finding import ADVICE, WARNING, Forecast, HealthFinding, RemedyCall
from tidelake.table.jobs.expiry import expire_snapshots_now
from tidelake.table.jobs.orphans import DUE, NEW, remove_orphans

DAY_MS = 86_400_000
TAG_AGE_MS = 90 * DAY_MS
"""An older tag without a time to live is asked about."""
SILENT_MS = 7 * DAY_MS
"""A consumer that was not heard of for so long holds snapshots for nobody."""
MANIFESTS_TIMES_MAX = 2
"""How many times ``manifest.merge-min-count`` loose manifests may lie about."""
OVERDUE_COUNT_MAX = 10
"""So many snapshots may be due to expire: the next commits remove them."""
ROWS_OF_STATISTICS_MIN = 1_000_000
"""A smaller table needs no statistics."""
ROWS_CHANGED_MAX = 0.2
"""Part of the rows by which statistics may be behind."""
RECENT_COUNT = 10


def manifests(examined: Examined) -> Iterator[HealthFinding]:
    """Manifests that a merge would make fewer."""
    handle, snapshot = examined.handle, examined.snapshot
    rule = MergeRule.of(handle.options)
    found = manifest_files(handle.fileio, handle.paths, snapshot, handle.manifests)
    examined.figures["manifests_count"] = len(found)
    loose = [m for m in found if rule.is_loose(m)]
    deletes = sum(m.deleted_count for m in loose)
    if len(loose) < MANIFESTS_TIMES_MAX * rule.min_count:
        return
    entries = sum(m.added_count + m.deleted_count for m in loose)
    kept = max(entries - 2 * deletes, 0) / max(entries, 1)
    after = (
        len(found)
        - len(loose)
        + max(1, -(-int(sum(m.file_size_bytes for m in loose) * kept) // rule.target_bytes))
    )
    yield HealthFinding(
        "loose_manifests",
        ADVICE,
        "Each plan reads all manifests; small ones, and those that delete files, can be merged.",
        {"manifests": len(found), "loose": len(loose), "deletes": deletes},
        (RemedyCall("table.maintenance.compact_manifests()", examined.call("compact_manifest")),),
        {"manifests_count": Forecast(len(found), after)},
    )


def recent_writes(examined: Examined) -> Iterator[HealthFinding]:
    """Measure how many partitions a commit writes to."""
    handle, newest = examined.handle, examined.snapshot
    most = 0
    for number in range(newest.id, max(newest.id - RECENT_COUNT, 0), -1):
        snapshot = newest if number == newest.id else handle.snapshots.find(number)
        if snapshot is None:
            break
        if snapshot.commit_kind is CommitKind.APPEND:
            delta = delta_entries(handle.fileio, handle.paths, snapshot, handle.manifests)
            most = max(most, len(np.unique(delta["partition_id"])))
    examined.figures["partitions_written"] = max(most, 1)
    yield from ()


def snapshots(examined: Examined) -> Iterator[HealthFinding]:
    """Snapshots that no expiry took, and readers that hold them."""
    handle = examined.handle
    examined.figures["snapshots_count"] = count = len(handle.snapshots.ids())
    due = expire_snapshots_now(handle, max_deletes=count, dry_run=True)
    yield from _readers(examined, due)
    if len(due.ids) <= OVERDUE_COUNT_MAX:
        return
    limit = len(due.ids)
    yield HealthFinding(
        "overdue_snapshots",
        WARNING,
        "Snapshots that the options no longer keep are there: nobody commits, or writers leave"
        " expiry to a job that does not run. They keep files of rows that are gone.",
        {"snapshots": count, "overdue": limit, "files": due.removed_files},
        (
            RemedyCall(
                f"table.maintenance.expire_snapshots(max_deletes={limit})",
                examined.call("expire_snapshots", f"max_deletes => {limit}"),
            ),
        ),
        {"snapshots_count": Forecast(count, count - limit)},
    )


def _readers(examined: Examined, due: Expired) -> Iterator[HealthFinding]:
    """Readers without which more snapshots would expire."""
    handle = examined.handle
    now_ms = handle.env.clock.now_ms()
    examined.figures["silent_consumers"] = 0
    silent = [h for h in due.held_by if not h.is_live and now_ms - h.heard_ms > SILENT_MS]
    live = [h for h in due.held_by if h not in silent]
    if silent:
        names = sorted(h.consumer_id for h in silent)
        examined.figures["silent_consumers"] = len(names)
        yield HealthFinding(
            "silent_consumers",
            WARNING,
            "Consumers that were not heard of for a week keep snapshots and their files.",
            {"consumers": ", ".join(names), "oldest_snapshot": min(h.snapshot_id for h in silent)},
            tuple(
                RemedyCall(
                    f"table.maintenance.reset_consumer({name!r})",
                    examined.call("reset_consumer", f"consumerId => '{name}'"),
                )
                for name in names
            ),
            {"silent_consumers": Forecast(len(names), 0)},
        )
    if live:
        yield HealthFinding(
            "readers_hold_snapshots",
            ADVICE,
            "Readers at work keep snapshots that would else expire. They let go when they are"
            " done; look at one that is slower than it should be.",
            {"readers": "; ".join(map(str, live))},
        )


def tags(examined: Examined) -> Iterator[HealthFinding]:
    """Tags whose time is over, and old ones that nothing ends."""
    handle = examined.handle
    log, now_ms = handle.tags, handle.env.clock.now_ms()
    found = [log.load(name) for name in log.names()]
    examined.figures["tags_count"] = len(found)
    local_ms = now_ms + handle.env.clock.local_offset_ms()
    over = [
        t.name
        for t in found
        if t.create_time_ms is not None
        and t.time_retained_ms is not None
        and local_ms > t.create_time_ms + t.time_retained_ms
    ]
    over = unneeded_by_branches(handle.commit_context(), over)
    if over:
        yield HealthFinding(
            "overdue_tags",
            WARNING,
            "Tags whose time is over are there, since no commit has looked. They keep files.",
            {"tags": ", ".join(over)},
            (RemedyCall("table.tags.expire()", examined.call("expire_tags")),),
            {"tags_count": Forecast(len(found), len(found) - len(over))},
        )
    old = [t for t in found if t.is_lasting and now_ms - t.snapshot.time_ms > TAG_AGE_MS]
    free = set(unneeded_by_branches(handle.commit_context(), [t.name for t in old]))
    old = [t for t in old if t.name in free]
    if not old:
        return
    live = examined.files.entries["file_name"]
    held: dict[str, int] = {}
    for tag in old:
        entries = live_entries(handle.fileio, handle.paths, tag.snapshot, handle.manifests)
        own = pc.invert(pc.is_in(entries["file_name"], value_set=live)).to_numpy(
            zero_copy_only=False
        )
        names = entries["file_name"].filter(pa.array(own)).to_pylist()
        held.update(zip(names, entries["file_size_bytes"][own].tolist(), strict=True))
    names = [t.name for t in old]
    yield HealthFinding(
        "old_tags",
        ADVICE,
        "Tags without a time to live keep files of rows that are gone. Delete those that nobody"
        " needs, and give new ones a time: time_retained='30 d'.",
        {
            "tags": ", ".join(names),
            "oldest_snapshot": min(t.snapshot.id for t in old),
            "bytes_not_live": sum(held.values()),
        },
        tuple(
            RemedyCall(
                f"table.tags.delete({name!r})",
                examined.call("delete_tag", f"tag => '{name}'"),
            )
            for name in names
        ),
        {"tags_count": Forecast(len(found), len(found) - len(old))},
    )


def statistics(examined: Examined) -> Iterator[HealthFinding]:
    """Statistics of rows, which optimisers of queries take."""
    handle, snapshot = examined.handle, examined.snapshot
    rows = int(examined.files.rows.sum() - examined.files.deleted.sum())
    known = 0
    if snapshot.statistics is not None:
        try:
            known = (
                read_statistics(handle.fileio, handle.paths, snapshot.statistics).record_count or 0
            )
        except TidelakeError:  # lost or damaged: as if there were none
            known = 0
    examined.figures["statistics_rows"] = known
    if rows < ROWS_OF_STATISTICS_MIN or abs(rows - known) <= ROWS_CHANGED_MAX * rows:
        return
    yield HealthFinding(
        "no_statistics" if not known else "old_statistics",
        ADVICE,
        "Optimisers guess how many rows there are, and may join in a slow order.",
        {"rows": rows, "rows_known": known},
        (RemedyCall("table.maintenance.analyze()"),),
        {} if examined.is_keyed else {"statistics_rows": Forecast(known, rows)},
    )


def orphan_files(examined: Examined) -> Iterator[HealthFinding]:
    """Files that nothing names; lists all directories of the table."""
    found = remove_orphans(examined.handle, dry_run=True)
    states = found.files["state"]
    own = found.files.filter(pc.is_in(states, pa.array([NEW, DUE])))
    size_bytes = int(pc.sum(own["size_bytes"]).as_py() or 0)
    examined.figures["orphan_files"] = own.num_rows
    examined.figures["orphan_bytes"] = size_bytes
    if not own.num_rows:
        return
    yield HealthFinding(
        "orphan_files",
        WARNING,
        "Writers that were killed, and commits that lost, left files that nothing names. The first"
        " call puts them into quarantine, one a day later removes them.",
        {"files": own.num_rows, "bytes": size_bytes, "in_quarantine": found.waiting_count},
        (
            RemedyCall(
                "table.maintenance.remove_orphan_files()", examined.call("remove_orphan_files")
            ),
        ),
        {
            "orphan_files": Forecast(own.num_rows, 0),
            "orphan_bytes": Forecast(size_bytes, 0),
        },
    )
