"""Expiry of partitions: which are older than a table keeps them, and their removal.

1. :mod:`~tidelake.commit.partition_expiry.rule`: the options as one value.
2. :mod:`~tidelake.commit.partition_expiry.extraction`: the time that a partition's values say.
3. :mod:`~tidelake.commit.partition_expiry.plan`: the partitions to drop, as a value.
4. :mod:`~tidelake.commit.partition_expiry.automatic`: when a commit looks for them.

A drop is an OVERWRITE commit without rows (:class:`~tidelake.commit.plans.OverwritePlan`).
"""

from tidelake.commit.partition_expiry.automatic import drop_user, due_plan, is_partition_expiry
from tidelake.commit.partition_expiry.extraction import partition_time_text
from tidelake.commit.partition_expiry.plan import (
    OldPartition,
    PartitionExpiryPlan,
    plan_partition_expiry,
)
from tidelake.commit.partition_expiry.rule import (
    ExpiryRule,
    check_partition_expiry,
    time_formatter,
)

__all__ = [
    "ExpiryRule",
    "OldPartition",
    "PartitionExpiryPlan",
    "check_partition_expiry",
    "drop_user",
    "due_plan",
    "is_partition_expiry",
    "partition_time_text",
    "plan_partition_expiry",
    "time_formatter",
]
