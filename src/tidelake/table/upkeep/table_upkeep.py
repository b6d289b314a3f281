"""What a maintenance job does with one table in a round.

1. What is due is found by reads of metadata alone (:mod:`tidelake.table.upkeep.policy`). An idle
   table costs two small reads in a round, and a few more when an interval is over.
2. If something is due the table is claimed (:mod:`tidelake.table.upkeep.claim`). A table that
   another job works on is left to it.
3. The tasks are done one after the other: tags are made before the snapshots that they keep could
   expire; compaction; marks of partitions that are done; old partitions; snapshots, changelogs;
   orphan files. Each task commits for itself, and one that fails does not keep the others.

**The job gives way.** Writers only add files, so they never conflict with it; a compaction of files
that another commit replaced first is dropped, and planned again in the next round. Where the newest
snapshot expires while it is read, since others committed, the next one is read. While a
statement that lost several races waits for its turn (:mod:`tidelake.commit.fairness`), the table is
not compacted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from tidelake.commit.expiry import has_old_snapshots
from tidelake.commit.fairness import somebody_waits
from tidelake.commit.tags import create_due_tags, expire_tags
from tidelake.errors import ConflictError, InvalidInputError, NotFoundError, TidelakeError
from tidelake.metadata.log.newest import has_moved_on, read_newest
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.snapshot_entries import live_entries
from tidelake.metadata.paths import POSTPONE_BUCKET
from tidelake.options import declared
from tidelake.table.handle.handle import TableHandle
from tidelake.table.job.plan import HERE as RUN_HERE
from tidelake.table.job.plan import Runner
from tidelake.table.jobs.append_coordinator import AppendCoordinator, wants_coordinator
from tidelake.table.jobs.clustering import (
    TableClustering,
    clusters_incrementally,
    plan_clustering,
)
from tidelake.table.jobs.compaction import Chosen, TableCompaction
from tidelake.table.jobs.expiry import expire_snapshots_now
from tidelake.table.jobs.orphans import HERE as LIST_HERE
from tidelake.table.jobs.orphans import Lister, remove_orphans
from tidelake.table.jobs.partition_expiry import expire_partitions_now
from tidelake.table.jobs.postpone_compaction import Mover, compact_postponed
from tidelake.table.partition_done import has_news, idle_partitions, mark_idle
from tidelake.table.upkeep.bucket_coordinator import BucketCoordinator
from tidelake.table.upkeep.claim import TableClaim, newest_claim
from tidelake.table.upkeep.policy import Task, UpkeepPolicy, compaction_handle
from tidelake.table.upkeep.result import Figures, TableDone, TablePlan, TaskDone, TaskPlan
from tidelake.table.write.result import WriteResult
from tidelake.table.write.transaction import WriteTransaction

EXPIRIES_MAX = 20
"""Calls of an expiry in a round; each removes ``snapshot.expire.limit`` snapshots at most."""
Compaction = TableCompaction | TableClustering
ORPHANS_AGE_MS_MIN = 3_600_000
"""The least age of orphan files that a job removes, whatever a table says: a writer may take long
from its first file to its commit."""
TAGS_BY_CLOCK = frozenset({"process-time", "watermark"})


@dataclass(frozen=True, slots=True)
class Workers:
    """Who does the work: this process, or executors of Spark.

    Parameters
    ----------
    runner : Runner
        Runs compactions.
    move : Mover, optional
        Moves rows out of the postpone bucket; this process by default.
    lister : Lister
        Lists directories in a search for orphan files.
    expected : tuple of exception types
        The errors of a table that are reported; the other tables go on.
    orphans_age_ms_min : int
        Orphan files that are younger stay, whatever a table says; less is for tests.
    """

    runner: Runner = RUN_HERE
    move: Mover | None = None
    lister: Lister = LIST_HERE
    expected: tuple[type[Exception], ...] = (TidelakeError, OSError, pa.ArrowException)
    orphans_age_ms_min: int = ORPHANS_AGE_MS_MIN


HERE = Workers()
"""This process."""


class TableUpkeep:
    """What a job remembers of one table. Not thread-safe.

    Parameters
    ----------
    run_id : str
        Names the job.
    """

    def __init__(self, run_id: str, workers: Workers = HERE) -> None:
        self._run_id = run_id
        self._workers = workers
        self._append = AppendCoordinator()
        self._buckets = BucketCoordinator()
        self._looked_ms: dict[Task, int] = {}
        self._planned: tuple[int, tuple[Compaction, ...]] | None = None
        """Compactions of a round, and the newest snapshot then."""

    def plan(self, handle: TableHandle) -> TablePlan:
        """What is due; the table is not changed.

        Tags that are to be made are not known before they are made; a search for orphan files says
        what it would remove.
        """
        policy = UpkeepPolicy.of(handle)
        newest = handle.snapshots.latest()
        if newest is None:
            return TablePlan(handle.identifier)
        work: Mapping[Task, Callable[[], Figures]] = {
            Task.TAGS: partial(_old_tags, handle),
            Task.COMPACTION: partial(self._compaction_figures, handle, newest),
            Task.DONE: partial(_done_partitions, handle),
            Task.PARTITIONS: partial(_expire_partitions, handle, dry_run=True),
            Task.SNAPSHOTS: partial(_expire, handle, dry_run=True),
            Task.ORPHANS: partial(self._search_orphans, handle, policy, dry_run=True),
        }
        found = [
            TaskPlan(task, work[task]()) for task in Task if self._is_due(task, handle, policy)
        ]
        return TablePlan(
            handle.identifier, tuple(one for one in found if any(one.figures.values()))
        )

    def run(self, handle: TableHandle) -> TableDone:
        """Do what is due.

        Raises
        ------
        NotFoundError
            The table was dropped meanwhile.
        TidelakeError
            It cannot be read or written.
        """
        policy = UpkeepPolicy.of(handle)
        latest = handle.snapshots.latest
        if latest() is None:
            return TableDone(handle.identifier)
        due = {task for task in Task if self._is_due(task, handle, policy)}
        has_work = partial(self._has_work, handle)
        due = {task for task in due if read_newest(latest, partial(has_work, task))}
        if not due:
            return TableDone(handle.identifier)
        claim = TableClaim.take(handle, self._run_id)
        if claim is None:
            return TableDone(handle.identifier, is_taken=True)
        with claim:
            found = [self._do(task, handle, policy, claim) for task in Task if task in due]
        return TableDone(handle.identifier, tuple(one for one in found if one is not None))

    def _is_due(self, task: Task, handle: TableHandle, policy: UpkeepPolicy) -> bool:
        if task not in policy.tasks:
            return False
        now_ms, interval_ms = handle.env.clock.now_ms(), policy.interval_ms(task)
        last_ms = self._looked_ms.get(task)
        # a clock that was set back makes it due
        if last_ms is not None and 0 <= now_ms - last_ms < interval_ms:
            return False
        if task is Task.ORPHANS:
            last_ms = newest_claim(handle).orphans_ms
            if 0 <= now_ms - last_ms < interval_ms:
                self._looked_ms[task] = last_ms
                return False
        return True

    def _has_work(self, handle: TableHandle, task: Task, newest: Snapshot | None) -> bool:
        """Whether there is something to do, by metadata; else the next look is an interval away."""
        if newest is None:
            return False
        if task is Task.COMPACTION:
            return any(self._compaction_figures(handle, newest).values())
        context = _context(handle)
        if task is Task.TAGS:
            by_clock = handle.options.get(declared.TAG_AUTOMATIC_CREATION) in TAGS_BY_CLOCK
            found = by_clock or bool(expire_tags(context, dry_run=True))
        elif task is Task.DONE:
            found = has_news(handle)
        elif task is Task.PARTITIONS:
            found = bool(expire_partitions_now(handle, dry_run=True).partitions)
        elif task is Task.SNAPSHOTS:
            found = has_old_snapshots(context, newest)
        else:
            return True
        if not found:
            self._looked_ms[task] = handle.env.clock.now_ms()
        return found

    def _do(
        self, task: Task, handle: TableHandle, policy: UpkeepPolicy, claim: TableClaim
    ) -> TaskDone | None:
        work: Mapping[Task, Callable[[], Figures]] = {
            Task.TAGS: partial(_keep_tags, handle),
            Task.COMPACTION: partial(self._compact, handle),
            Task.DONE: partial(_mark_done, handle),
            Task.PARTITIONS: partial(_expire_partitions, handle),
            Task.SNAPSHOTS: partial(_expire, handle),
            Task.ORPHANS: partial(self._search_orphans, handle, policy),
        }
        try:
            figures = read_newest(handle.snapshots.latest, lambda _: work[task]())
        except self._workers.expected as error:
            handle.schemas.check_same(handle.schema, table=handle.identifier)
            return TaskDone(task, error=error)
        self._looked_ms[task] = handle.env.clock.now_ms()
        if task is Task.ORPHANS:
            claim.note_orphans()
        return TaskDone(task, figures) if any(figures.values()) else None

    # ---- compaction

    def _compaction_figures(self, handle: TableHandle, newest: Snapshot) -> Figures:
        if handle.options.get(declared.BUCKET) == POSTPONE_BUCKET:
            return {"waiting_files": _waiting_files(handle, newest)}
        if clusters_incrementally(handle) and self._planned == (newest.id, ()):
            return {}  # it is planned from the whole table
        plans = self._compactions(handle)
        self._planned = (newest.id, plans)
        parts = [part for plan in plans for part in plan.tasks]
        return {"compactions": len(parts), "bytes": sum(part.size_bytes for part in parts)}

    def _compactions(self, handle: TableHandle) -> tuple[Compaction, ...]:
        if clusters_incrementally(handle):
            clustering = plan_clustering(handle, Chosen(), None, full=False)
            return (clustering,) if clustering.tasks else ()
        handle = compaction_handle(handle)
        if not wants_coordinator(handle):
            return self._buckets.plan(handle)
        found = self._append.plan(handle)
        return () if found is None else (found,)

    def _compact(self, handle: TableHandle) -> Figures:
        """Compact under the claim; planned again if somebody committed since the plan."""
        if somebody_waits(_context(handle)):
            return {}
        newest = handle.snapshots.latest()
        if handle.options.get(declared.BUCKET) == POSTPONE_BUCKET:
            if newest is None or not _waiting_files(handle, newest):
                return {}
            work: list[Callable[[], WriteResult]] = [partial(self._move, handle)]
        else:
            newest_id, plans = self._planned or (None, ())
            if newest is None or newest.id != newest_id:
                plans = self._compactions(handle)
            handle = compaction_handle(handle)
            work = [partial(self._carry_out, plan, handle) for plan in plans]
        figures = {"files": 0, "bytes": 0, "gave_way": 0}
        for one in work:
            try:
                done = one()
            except ConflictError:
                figures["gave_way"] += 1
                continue
            except NotFoundError:  # others replaced what it reads, and that expired
                if not has_moved_on(newest, handle.snapshots.latest()):
                    raise
                figures["gave_way"] += 1
                continue
            except InvalidInputError as error:
                if error.kind != "table_altered":
                    raise
                figures["gave_way"] += 1  # the next round opens it again
                continue
            figures["files"] += done.files
            figures["bytes"] += done.bytes
            figures["gave_way"] += done.compactions_dropped
        return figures

    def _carry_out(self, plan: Compaction, handle: TableHandle) -> WriteResult:
        return plan.carry_out(WriteTransaction(handle), self._workers.runner)

    def _move(self, handle: TableHandle) -> WriteResult:
        workers = self._workers
        return compact_postponed(
            handle, Chosen(), full=False, runner=workers.runner, move=workers.move
        )

    def _search_orphans(
        self, handle: TableHandle, policy: UpkeepPolicy, *, dry_run: bool = False
    ) -> Figures:
        age_ms = max(self._workers.orphans_age_ms_min, policy.orphans_age_ms)
        older_than_ms = handle.env.clock.now_ms() - age_ms
        found = remove_orphans(
            handle, older_than_ms=older_than_ms, dry_run=dry_run, lister=self._workers.lister
        )
        return {
            "removed_files": found.removed_count,
            "quarantined_files": found.quarantined_count,
            "failed_files": found.failed_count,
        }


_context = TableHandle.commit_context


def _waiting_files(handle: TableHandle, snapshot: Snapshot) -> int:
    live = live_entries(handle.fileio, handle.paths, snapshot, handle.manifests)
    return int(np.count_nonzero(live["bucket"] == POSTPONE_BUCKET))


def _old_tags(handle: TableHandle) -> Figures:
    return {"expired_tags": len(expire_tags(_context(handle), dry_run=True))}


def _keep_tags(handle: TableHandle) -> Figures:
    context, newest = _context(handle), handle.snapshots.latest()
    made = [] if newest is None else create_due_tags(context, newest, is_batch=False)
    return {"new_tags": len(made), "expired_tags": len(expire_tags(context))}


def _done_partitions(handle: TableHandle) -> Figures:
    return {"partitions": len(idle_partitions(handle))}


def _mark_done(handle: TableHandle) -> Figures:
    return {"partitions": len(mark_idle(handle))}


def _expire_partitions(handle: TableHandle, *, dry_run: bool = False) -> Figures:
    done = expire_partitions_now(handle, dry_run=dry_run)
    return {"partitions": len(done.partitions), "rows": sum(p.rows for p in done.partitions)}


def _expire(handle: TableHandle, *, dry_run: bool = False) -> Figures:
    """Expire snapshots and changelogs, until as many as the options keep are left."""
    limit = handle.options.get(declared.SNAPSHOT_EXPIRE_LIMIT)
    if dry_run:
        found = expire_snapshots_now(handle, max_deletes=EXPIRIES_MAX * limit, dry_run=True)
        return {"snapshots": len(found.ids), "removed_files": found.removed_files}
    snapshots = files = 0
    for _ in range(EXPIRIES_MAX):
        expired = expire_snapshots_now(handle)
        snapshots += len(expired.ids)
        files += expired.removed_files
        if len(expired.ids) < limit:
            break
    return {"snapshots": snapshots, "removed_files": files}
