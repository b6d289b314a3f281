"""Masks: which rows of a data file a read leaves out, by position.

The keys alone say which rows other runs hide: those that newer ones replace, or those that are
merged with others. A mask is computed from key columns once, kept, and spares every later read the
merge of all rows. No values are read here, and no rows are given.
"""

from tidelake.scan.masks.cache import MaskCache
from tidelake.scan.masks.file_masks import section_masks
from tidelake.scan.masks.find import ComputeMasks, SectionMasks, find_masks, masks_here, refusal
from tidelake.scan.masks.hidden_rows import HiddenRows, words_count
from tidelake.scan.masks.mask_request import FileMask, MaskRequest, rows_to_read
from tidelake.scan.masks.merged_part import MergedPart
from tidelake.scan.masks.rule import MaskRule, mask_rule, masked_files

__all__ = [
    "ComputeMasks",
    "FileMask",
    "HiddenRows",
    "MaskCache",
    "MaskRequest",
    "MaskRule",
    "MergedPart",
    "SectionMasks",
    "find_masks",
    "mask_rule",
    "masked_files",
    "masks_here",
    "refusal",
    "rows_to_read",
    "section_masks",
    "words_count",
]
