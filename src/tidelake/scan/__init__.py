"""From a snapshot to rows: pruning, splits, and reading one split.

A plan names the files to read, and why the others are skipped. :mod:`tidelake.table.handle` chooses
the snapshot.
"""

from tidelake.scan.context import ReadContext
from tidelake.scan.data_file import deleted_rows, read_file
from tidelake.scan.deletions import live_deletions
from tidelake.scan.evolved_rows import check_not_evolved
from tidelake.scan.expired import SNAPSHOT_EXPIRED, names_expiry
from tidelake.scan.live_files import (
    bucket_starts,
    grouped,
    live_buckets,
    live_files,
    read_buckets,
)
from tidelake.scan.metadata_columns import (
    LocatedRows,
    check_located,
    hidden_columns,
    metadata_fields,
)
from tidelake.scan.plan import ScanPlan, partitions_read, plan_scan
from tidelake.scan.pruning.file_index import UnusedIndex
from tidelake.scan.pruning.key_bounds import key_bounds
from tidelake.scan.pruning.prune_entries import bucket_keys_retyped
from tidelake.scan.pruning.pruned_files import PrunedFile
from tidelake.scan.read import read_changes, read_split
from tidelake.scan.split import OfKeys, Section, Split
from tidelake.scan.split_generator import BucketFiles, file_sections, files_meeting
from tidelake.scan.split_wire import split_from_bytes, split_to_bytes

__all__ = [
    "SNAPSHOT_EXPIRED",
    "BucketFiles",
    "LocatedRows",
    "OfKeys",
    "PrunedFile",
    "ReadContext",
    "ScanPlan",
    "Section",
    "Split",
    "UnusedIndex",
    "bucket_keys_retyped",
    "bucket_starts",
    "check_located",
    "check_not_evolved",
    "deleted_rows",
    "file_sections",
    "files_meeting",
    "grouped",
    "hidden_columns",
    "key_bounds",
    "live_buckets",
    "live_deletions",
    "live_files",
    "metadata_fields",
    "names_expiry",
    "partitions_read",
    "plan_scan",
    "read_buckets",
    "read_changes",
    "read_file",
    "read_split",
    "split_from_bytes",
    "split_to_bytes",
]
