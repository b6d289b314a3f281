"""Buckets of append tables: rows in order of arrival.

Small files are compacted in that order. No key and no merge may enter.
"""

from tidelake.store.append.bucket_writer import AppendBucketWriter
from tidelake.store.append.clustering import (
    ClusterKey,
    ClusterOrder,
    ClusterSorter,
    KeyRanges,
)
from tidelake.store.append.compaction_picker import pick_bucketed, pick_bucketed_full, pick_unaware

__all__ = [
    "AppendBucketWriter",
    "ClusterKey",
    "ClusterOrder",
    "ClusterSorter",
    "KeyRanges",
    "pick_bucketed",
    "pick_bucketed_full",
    "pick_unaware",
]
