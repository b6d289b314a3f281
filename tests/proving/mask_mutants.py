"""Planted bugs of masks; see :mod:`proving.mutants`."""

from __future__ import annotations

from dataclasses import replace

import tidelake.scan.masks.file_masks as file_masks
import tidelake.scan.masks.find as find
import tidelake.scan.masks.mask_request as mask_request
import tidelake.scan.masks.rule as rule
from proving.planting import edited
from tidelake.format.parquet import reader
from tidelake.scan.masks.cache import MaskCache
from tidelake.scan.masks.merged_part import MergedPart
from tidelake.scan.masks.rule import MaskRule

__all__ = ["PLANTED"]


def _looks_at_one_key_column(original):
    def section_masks(context, request, spec):
        first = replace(spec, key_columns=spec.key_columns[:1], key_types=spec.key_types[:1])
        return original(context, request, first)

    return section_masks


PLANTED = (
    # name; what catches it; where it is, and what stands there instead
    (
        "a mask of another snapshot hides rows",
        "check_masks",
        (MaskCache, "nearest", edited("if kept <= newer", "if kept | newer")),
    ),
    (
        "a mask is kept after a rollback",
        "check_masks_after_rollback",
        (mask_request, "_name", lambda _: lambda _split, file: str(file.max_sequence_number)),
    ),
    (
        "a mask is kept after its sequence field got another type",
        "check_masks_after_alter",
        (mask_request, "_deciding", lambda _: lambda _context, spec: repr(spec.sequence_columns)),
    ),
    (
        "a mask is extended without what was known",
        "check_masks",
        (file_masks, "_hidden", edited("if before is None", "if True")),
    ),
    (
        "a mask forgets the deletes of its file",
        "check_masks",
        (file_masks, "_retracts", edited("(kinds & RETRACTS) != 0", "kinds < 0")),
    ),
    (
        "a mask is made of one key column",
        "check_masks",
        (find, "section_masks", _looks_at_one_key_column),
    ),
    (
        "a mask is off by a row group",
        "check_long_masks",
        (file_masks, "_hidden", edited("begin + positions[in_newer]", "positions[in_newer]")),
    ),
    (
        "a key of several files is shown by the newest of them",
        "check_masks_of_engines",
        (MaskRule, "hides_newer", lambda _: property(lambda self: self is MaskRule.OLDEST)),
    ),
    (
        "a mask of first rows shows the newest run's",
        "check_masks_of_engines",
        (rule, "FIRST_ROW", lambda _: "no engine"),
    ),
    (
        "the merge of some rows leaves out those of one file",
        "check_masks_of_engines",
        (MergedPart, "read", edited("(self.rows)", "(dict(list(self.rows.items())[1:]))")),
    ),
    (
        "rows asked for are counted from their row group on",
        "check_long_masks_of_engines",
        (reader, "_among_groups", lambda _: lambda named, *_: named),
    ),
)
