"""Buckets of primary-key tables: sorted runs on levels, merged on flush and compaction."""

from tidelake.store.lsm.bucket_writer import LsmBucketWriter
from tidelake.store.lsm.levels import Levels, SortedRun, key_range
from tidelake.store.lsm.pick import CompactionPolicy, Pick, pick

__all__ = [
    "CompactionPolicy",
    "Levels",
    "LsmBucketWriter",
    "Pick",
    "SortedRun",
    "key_range",
    "pick",
]
