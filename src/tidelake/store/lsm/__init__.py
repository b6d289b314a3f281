"""Buckets of primary-key tables: sorted runs on levels, merged on flush and compaction.

The pick policy is Paimon's; merges are :mod:`tidelake.merge`. Nothing here publishes.
"""

from tidelake.store.lsm.bucket_writer import LsmBucketWriter
from tidelake.store.lsm.clustered_writer import ClusteredBucketWriter
from tidelake.store.lsm.compaction_picker import CompactionPolicy, OffPeak, Pick, pick
from tidelake.store.lsm.expiry import RecordExpiry
from tidelake.store.lsm.levels import Levels, SortedRun, key_range
from tidelake.store.lsm.lookup_strategy import LookupStrategy
from tidelake.store.lsm.postpone_writer import PostponeBucketWriter, postpone_options

__all__ = [
    "ClusteredBucketWriter",
    "CompactionPolicy",
    "Levels",
    "LookupStrategy",
    "LsmBucketWriter",
    "OffPeak",
    "Pick",
    "PostponeBucketWriter",
    "RecordExpiry",
    "SortedRun",
    "key_range",
    "pick",
    "postpone_options",
]
