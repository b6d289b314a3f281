"""Jobs as plans, and what runs them."""

from __future__ import annotations

from tidelake.catalog import (
    CloneResult,
    MaintenanceJob,
    MaintenanceRound,
    MigrateResult,
    OrphansOfTables,
)
from tidelake.codec.key_bounds import KeyBounds
from tidelake.commit.orphans import FILES
from tidelake.store import ClusterKey, ClusterOrder, ClusterSorter, KeyRanges
from tidelake.table.indexing.file_index_rewrite import RewrittenIndexes
from tidelake.table.job.plan import HERE, Gathered, Plan, Runner, Weighed, in_shares
from tidelake.table.jobs.append_coordinator import AppendCoordinator, wants_coordinator
from tidelake.table.jobs.clustering import (
    ClusterTask,
    TableClustering,
    order_of,
    order_of_writes,
    planned_states,
)
from tidelake.table.jobs.compaction import Chosen
from tidelake.table.jobs.expiry import expire_after_compaction
from tidelake.table.jobs.orphans import HERE as LIST_HERE
from tidelake.table.jobs.orphans import Lister, OrphanFiles, OrphanPlan
from tidelake.table.jobs.postpone_compaction import (
    PostponedPartition,
    compact_postponed,
    postponed_rows,
)
from tidelake.table.jobs.table_compaction import compact_table, plan_of_table
from tidelake.table.partition_done import mark_done
from tidelake.table.upkeep import HERE as MAINTAIN_HERE
from tidelake.table.upkeep import TableDone, TablePlan, Workers

__all__ = [
    "FILES",
    "HERE",
    "LIST_HERE",
    "MAINTAIN_HERE",
    "AppendCoordinator",
    "Chosen",
    "CloneResult",
    "ClusterKey",
    "ClusterOrder",
    "ClusterSorter",
    "ClusterTask",
    "Gathered",
    "KeyBounds",
    "KeyRanges",
    "Lister",
    "MaintenanceJob",
    "MaintenanceRound",
    "MigrateResult",
    "OrphanFiles",
    "OrphanPlan",
    "OrphansOfTables",
    "Plan",
    "PostponedPartition",
    "RewrittenIndexes",
    "Runner",
    "TableClustering",
    "TableDone",
    "TablePlan",
    "Weighed",
    "Workers",
    "compact_postponed",
    "compact_table",
    "expire_after_compaction",
    "in_shares",
    "mark_done",
    "order_of",
    "order_of_writes",
    "plan_of_table",
    "planned_states",
    "postponed_rows",
    "wants_coordinator",
]
