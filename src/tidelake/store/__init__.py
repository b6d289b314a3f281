"""The files of one bucket: rows in, sorted and compacted data files out.

Primary-key buckets are ``lsm``, append buckets ``append``; the two are independent. This room
publishes nothing and knows no other buckets.
"""

from tidelake.store.append import (
    AppendBucketWriter,
    ClusterKey,
    ClusterOrder,
    ClusterSorter,
    KeyRanges,
)
from tidelake.store.budget import MemoryBudget
from tidelake.store.context import StoreContext
from tidelake.store.deletion_vectors import BucketDeletions
from tidelake.store.lsm import (
    ClusteredBucketWriter,
    CompactionPolicy,
    Levels,
    LookupStrategy,
    LsmBucketWriter,
    PostponeBucketWriter,
    RecordExpiry,
    pick,
    postpone_options,
)

__all__ = [
    "AppendBucketWriter",
    "BucketDeletions",
    "ClusterKey",
    "ClusterOrder",
    "ClusterSorter",
    "ClusteredBucketWriter",
    "CompactionPolicy",
    "KeyRanges",
    "Levels",
    "LookupStrategy",
    "LsmBucketWriter",
    "MemoryBudget",
    "PostponeBucketWriter",
    "RecordExpiry",
    "StoreContext",
    "pick",
    "postpone_options",
]
