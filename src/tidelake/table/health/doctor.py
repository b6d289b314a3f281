"""Examines a table: what slows reads and writes, what takes space, and which call mends it.

1. The live files of the newest snapshot are measured as columns
   (:mod:`tidelake.table.health.measures`).
2. Each check looks at the measures or at the table's history, and yields findings. What a
   compaction would do is asked of its own rules, and the rest of dry runs.

Reads metadata alone; nothing is changed. The files of the table are listed only where orphans are
asked for.
"""

from __future__ import annotations

from tidelake.errors import InvalidInputError
from tidelake.options import declared
from tidelake.scan import live_deletions, live_files
from tidelake.table.handle.handle import TableHandle
from tidelake.table.health import file_checks, log_checks, option_checks
from tidelake.table.health.examined import Examined
from tidelake.table.health.finding import WARNING, Diagnosis, HealthFinding, without_secrets
from tidelake.table.health.measures import FileMeasures

CHECKS = (
    log_checks.recent_writes,  # what it measures, the check of write tasks takes
    file_checks.small_files,
    file_checks.sorted_runs,
    file_checks.deleted_rows,
    file_checks.bucket_sizes,
    file_checks.write_tasks,
    log_checks.snapshots,
    log_checks.tags,
    log_checks.manifests,
    log_checks.statistics,
    option_checks.fighting_options,
)


def examine_table(
    handle: TableHandle, *, orphans: bool = False, parallelism: int | None = None
) -> Diagnosis:
    """Examine a table; see :meth:`tidelake.Table.doctor`."""
    if parallelism is not None and parallelism < 1:
        message = f"parallelism of doctor() is {parallelism}: give 1 or more."
        raise InvalidInputError(message, kind="bad_argument", table=handle.identifier)
    snapshot = handle.snapshots.latest()
    if snapshot is None:
        return Diagnosis(handle.identifier, None, (), {})
    context = handle.read_context()
    files = live_files(context, snapshot, manifests=handle.manifests)
    deletions = live_deletions(context, snapshot, manifests=handle.manifests)
    tasks = parallelism or handle.options.get(declared.SINK_PARALLELISM) or 1
    examined = Examined(handle, snapshot, FileMeasures.of(files, deletions), tasks, {})
    found: list[HealthFinding] = []
    for check in (*CHECKS, log_checks.orphan_files) if orphans else CHECKS:
        found += map(without_secrets, check(examined))
    found.sort(key=lambda finding: finding.severity != WARNING)  # stable
    return Diagnosis(handle.identifier, snapshot.id, tuple(found), dict(examined.figures))
