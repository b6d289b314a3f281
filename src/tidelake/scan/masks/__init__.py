"""Masks: which rows of a data file a read leaves out, by position.

Where the newest row of a key wins, the keys alone say which rows newer runs replace. A mask is
computed from key columns once, kept, and spares every later read the merge. No values are read
here, and no rows are given.
"""

from tidelake.scan.masks.cache import MaskCache
from tidelake.scan.masks.file_masks import (
    FileMask,
    MaskRequest,
    merge_reason,
    newest_run_wins,
    rows_to_read,
    section_masks,
)
from tidelake.scan.masks.find import ComputeMasks, SectionMasks, find_masks, masks_here
from tidelake.scan.masks.hidden_rows import HiddenRows, words_count

__all__ = [
    "ComputeMasks",
    "FileMask",
    "HiddenRows",
    "MaskCache",
    "MaskRequest",
    "SectionMasks",
    "find_masks",
    "masks_here",
    "merge_reason",
    "newest_run_wins",
    "rows_to_read",
    "section_masks",
    "words_count",
]
