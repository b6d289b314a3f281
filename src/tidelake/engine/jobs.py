"""Jobs as plans, and what runs them."""

from __future__ import annotations

from tidelake.table.job.plan import HERE, Gathered, Plan, Weighed, in_shares
from tidelake.table.jobs.append_coordinator import AppendCoordinator, wants_coordinator
from tidelake.table.jobs.compaction import Chosen, compact_table
from tidelake.table.jobs.expiry import expire_after_compaction
from tidelake.table.jobs.postpone_compaction import (
    PostponedPartition,
    compact_postponed,
    postponed_rows,
)

__all__ = [
    "HERE",
    "AppendCoordinator",
    "Chosen",
    "Gathered",
    "Plan",
    "PostponedPartition",
    "Weighed",
    "compact_postponed",
    "compact_table",
    "expire_after_compaction",
    "in_shares",
    "postponed_rows",
    "wants_coordinator",
]
