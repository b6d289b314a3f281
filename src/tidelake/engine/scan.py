"""Plans of scans, their splits, and how a split is read."""

from __future__ import annotations

from tidelake.format import KIND_FIELD
from tidelake.scan import (
    BucketFiles,
    LocatedRows,
    ReadContext,
    Section,
    Split,
    bucket_keys_retyped,
    check_located,
    file_sections,
    hidden_columns,
    live_files,
    metadata_fields,
    plan_scan,
    read_buckets,
    split_from_bytes,
    split_to_bytes,
)
from tidelake.scan.masks import ComputeMasks
from tidelake.scan.masks.cache import MaskCache
from tidelake.scan.masks.file_masks import section_masks
from tidelake.scan.masks.find import Computed, SectionMasks, find_masks, fits_memory, masks_here
from tidelake.scan.masks.hidden_rows import HiddenRows, words_count
from tidelake.scan.masks.mask_request import FileMask, MaskRequest, rows_to_read
from tidelake.scan.masks.merged_part import MergedPart
from tidelake.scan.masks.rule import mask_rule, masked_files
from tidelake.scan.split import Run
from tidelake.scan.summary import PartitionSummary, has_whole_ends, plan_summary, total_summary
from tidelake.table import TableScan
from tidelake.table.handle.read_hold import ReadHold
from tidelake.table.read.native_types import is_read_alike
from tidelake.table.read.scan_request import ScanRequest
from tidelake.table.read.table_scan import SplitRows, TableRows, scan_all_rows

__all__ = [
    "KIND_FIELD",
    "BucketFiles",
    "ComputeMasks",
    "Computed",
    "FileMask",
    "HiddenRows",
    "LocatedRows",
    "MaskCache",
    "MaskRequest",
    "MergedPart",
    "PartitionSummary",
    "ReadContext",
    "ReadHold",
    "Run",
    "ScanRequest",
    "Section",
    "SectionMasks",
    "Split",
    "SplitRows",
    "TableRows",
    "TableScan",
    "bucket_keys_retyped",
    "check_located",
    "file_sections",
    "find_masks",
    "fits_memory",
    "has_whole_ends",
    "hidden_columns",
    "is_read_alike",
    "live_files",
    "mask_rule",
    "masked_files",
    "masks_here",
    "metadata_fields",
    "plan_scan",
    "plan_summary",
    "read_buckets",
    "rows_to_read",
    "scan_all_rows",
    "section_masks",
    "split_from_bytes",
    "split_to_bytes",
    "total_summary",
    "words_count",
]
