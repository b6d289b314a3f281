"""Planted bugs that drawn pipelines meet by doors which no other check draws.

Each is hunted by the pipelines that can meet it; see :mod:`proving.mutants`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, islice

import tidelake.table.changelog.change_filter as change_filter
import tidelake.table.changelog.changelog_files as changelog_files
from proving.crossing import Draw
from proving.kernel_doors import DRAWS, OF_SNAPSHOTS, run_kernel_pipeline
from proving.pipelines import AT_DELETE, NO_FILTER, OLD_ROWS

__all__ = ["CHECKS", "PLANTED"]

PIPELINES = 4
"""Drawn pipelines of one check."""


def check_pipelines_by_snapshot() -> None:
    """Keys that move, by the doors that give each snapshot's own changes."""
    _run(lambda draw: draw["kind"] == "moving" and draw["door"] in OF_SNAPSHOTS)


def check_pipelines_with_filters() -> None:
    """Filters of changes with old rows, into targets that remove rows at deletes alone."""
    _run(_leaves_by_update)


def _leaves_by_update(draw: Draw) -> bool:
    is_filtered = draw["filter"] != NO_FILTER and draw["door"] != "net"
    has_updates = draw["producer"] in OLD_ROWS and draw["engine"] != "first-row"
    return is_filtered and has_updates and draw["target"] in AT_DELETE


def _run(meets: Callable[[Draw], bool]) -> None:
    for seed in islice((seed for seed in count() if meets(DRAWS[seed])), PIPELINES):
        run_kernel_pipeline(seed)


CHECKS = (check_pipelines_by_snapshot, check_pipelines_with_filters)
PLANTED = (
    # name; what catches it; where it is, and what stands there instead
    (
        "the changes of a snapshot come bucket by bucket though keys move",
        "check_pipelines_by_snapshot",
        (changelog_files, "parts_in_passes", lambda _: iter),
    ),
    (
        "an update that leaves a filter of changes with old rows is no delete",
        "check_pipelines_with_filters",
        (change_filter, "left_by_update", lambda _: lambda kinds, _: kinds),
    ),
)
