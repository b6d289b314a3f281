"""The work of a table's compactions besides merging, by its options.

Source: Paimon's ``LookupStrategy``, ``LookupMergeTreeCompactRewriter`` and
``FullChangelogMergeTreeCompactRewriter`` (1.3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidelake.format import file_suffix
from tidelake.merge import MergeSpec
from tidelake.merge.spec import DEDUPLICATE, FIRST_ROW, LOOKUP
from tidelake.options import Options
from tidelake.options.declared import (
    CHANGELOG_PRODUCER,
    CHANGELOG_PRODUCER_ROW_DEDUPLICATE,
    CHANGELOG_PRODUCER_ROW_DEDUPLICATE_IGNORE_FIELDS,
    DELETION_VECTORS_ENABLED,
    FORCE_LOOKUP,
)
from tidelake.store.lsm.compaction import ChangeTracking
from tidelake.store.lsm.compaction_picker import Pick
from tidelake.store.lsm.levels import Levels, SortedRun
from tidelake.store.rolling import RollingWriter

FULL_COMPACTION = "full-compaction"


@dataclass(frozen=True, slots=True)
class LookupStrategy:
    """How a table's compactions track their changes."""

    spec: MergeSpec
    options: Options
    columns: tuple[str, ...]

    @property
    def marks(self) -> bool:
        """Whether compactions delete the older row of a key by a deletion vector."""
        return self.options.get(DELETION_VECTORS_ENABLED)

    @property
    def looks_up(self) -> bool:
        """Whether compactions look up rows of older levels, so that level 0 becomes empty."""
        options = self.options
        return (
            options.get(CHANGELOG_PRODUCER) == LOOKUP
            or self.spec.engine == FIRST_ROW
            or options.get(FORCE_LOOKUP)
            or self.marks
        )

    def of(
        self, picked: Pick, levels: Levels, changelog: Callable[[], RollingWriter]
    ) -> ChangeTracking | None:
        """The tracking of one compaction; None if it only merges.

        Parameters
        ----------
        changelog : callable
            Opens a writer of changelog files at the output level.
        """
        output, producer = picked.output_level, self.options.get(CHANGELOG_PRODUCER)
        if producer == FULL_COMPACTION and output == levels.max_level:
            return ChangeTracking(
                new_below=output,
                beneath=(),
                lifts_new=True,
                compared=self._compared,
                changelog=changelog,
            )
        if not self.looks_up:
            return None
        logged = producer == LOOKUP
        beneath = tuple(run for run in levels.runs if run.level > output)
        # a mark alone hides the older row, so the newer row must win
        replaces = self._newest_wins and not (self.marks and _holds_newer(beneath, picked))
        is_last = output == levels.max_level
        return ChangeTracking(
            new_below=1,
            beneath=beneath,
            lifts_new=self._lifts(output, is_last=is_last, newest_wins=replaces),
            compared=self._compared,
            changelog=changelog if logged else None,
            marks=self.marks,
            merges_found=logged or not (self.marks and replaces),
        )

    @property
    def _compared(self) -> tuple[str, ...] | None:
        """The columns that make an update a change; None if every update is one."""
        if not self.options.get(CHANGELOG_PRODUCER_ROW_DEDUPLICATE):
            return None
        text = self.options.get(CHANGELOG_PRODUCER_ROW_DEDUPLICATE_IGNORE_FIELDS) or ""
        ignored = {name.strip() for name in text.split(",")}
        return tuple(name for name in self.columns if name not in ignored)

    def _lifts(self, output_level: int, *, is_last: bool, newest_wins: bool) -> bool:
        """Whether a file of level 0 may move to another level unchanged.

        Then its rows win over all rows beneath. If levels have their own formats, the file would
        have the wrong one.
        """
        suffixes = {file_suffix(self.options, level=level) for level in (0, output_level)}
        return len(suffixes) == 1 and (is_last or newest_wins)

    @property
    def _newest_wins(self) -> bool:
        """Whether a key's newest row always wins, whatever lies beneath."""
        return self.spec.engine == DEDUPLICATE and not self.spec.sequence_columns


def _holds_newer(beneath: Sequence[SortedRun], picked: Pick) -> bool:
    """Whether a file beneath may hold a newer row than one of level 0.

    Two writers that began from one snapshot use the same numbers: the row with the larger number
    wins, whichever was compacted first.
    """
    new = [f.min_sequence_number for f in picked.files if f.level == 0]
    highest = max((f.max_sequence_number for run in beneath for f in run.files), default=-1)
    return bool(new) and min(new) <= highest
