"""Planted bugs of masks; see :mod:`proving.mutants`."""

from __future__ import annotations

from dataclasses import replace

import tidelake.scan.masks.file_masks as file_masks
import tidelake.scan.masks.find as find
from proving.planting import edited
from tidelake.scan.masks.cache import MaskCache

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
        (file_masks, "_name", lambda _: lambda _split, file: str(file.max_sequence_number)),
    ),
    (
        "a mask is kept after its sequence field got another type",
        "check_masks_after_alter",
        (file_masks, "_deciding", lambda _: lambda _context, spec: repr(spec.sequence_columns)),
    ),
    (
        "a mask is extended without what was known",
        "check_masks",
        (file_masks, "_hidden", edited("mask.known is None", "mask.known is None or mask.fresh")),
    ),
    (
        "a mask forgets the deletes of its file",
        "check_masks",
        (file_masks, "_hidden", edited("(kinds & RETRACTS) != 0", "kinds < 0")),
    ),
    (
        "a mask is made of one key column",
        "check_masks",
        (find, "section_masks", _looks_at_one_key_column),
    ),
    (
        "a mask is off by a row group",
        "check_long_masks",
        (file_masks, "_hidden", edited("flags[begin + positions", "flags[positions")),
    ),
)
