"""From a snapshot to rows: pruning, splits, and reading one split."""

from tidelake.scan.context import ReadContext
from tidelake.scan.file_index import UnusedIndex
from tidelake.scan.generate import BucketFiles, file_sections
from tidelake.scan.plan import PrunedFile, ScanPlan, live_buckets, plan_scan, read_buckets
from tidelake.scan.read import read_split
from tidelake.scan.split import Section, Split
from tidelake.scan.split_wire import split_from_bytes, split_to_bytes

__all__ = [
    "BucketFiles",
    "PrunedFile",
    "ReadContext",
    "ScanPlan",
    "Section",
    "Split",
    "UnusedIndex",
    "file_sections",
    "live_buckets",
    "plan_scan",
    "read_buckets",
    "read_split",
    "split_from_bytes",
    "split_to_bytes",
]
