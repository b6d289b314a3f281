"""The check that the entries of a plan fit in memory, before a manifest is opened."""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.errors import InvalidInputError
from tidelake.metadata.manifest.manifest_list import ManifestFile
from tidelake.scan.context import ReadContext

ENTRY_BYTES = 1_900
"""The memory of a manifest entry during a plan: measured, for files of 8 columns."""
PLAN_SHARE = 0.75
"""The part of the memory that entries may take."""


def check_plan_fits(context: ReadContext, manifests: Sequence[ManifestFile]) -> None:
    """Refuse to read more manifests than the memory has room for.

    Raises
    ------
    InvalidInputError
        There are too many.
    """
    total_bytes = context.env.memory.total_bytes
    entries = sum(m.entries_count for m in manifests)
    if total_bytes is None or entries * ENTRY_BYTES <= total_bytes * PLAN_SHARE:
        return
    needed = int(entries * ENTRY_BYTES / PLAN_SHARE)
    message = (
        f"A plan of table {context.paths.location} reads {entries:,} manifest entries, which needs"
        f" {needed >> 20:,} mb of memory, but there are {total_bytes >> 20:,} mb: give more, or"
        " filter by partition columns, so that fewer manifests are read."
    )
    raise InvalidInputError(message, kind="memory", table=context.paths.location)
