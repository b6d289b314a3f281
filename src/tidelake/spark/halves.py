"""Parts a planned read into what Spark scans itself and what the kernel merges.

1. Raw splits: native, file by file.
2. A section with a single run: native; deletes are left out by their kind.
3. A section whose oldest run is much larger than all newer ones (a compacted bucket with a few
   fresh commits): the rows of the large run that no newer run names are what they are. Spark
   scans the large run and drops the rows whose key is among the keys of the newer runs (a
   broadcast anti-join); the newer runs are read or merged by themselves. That costs
   1.2 x a plain scan where a merge of all rows in Python costs 1.6 x (docs/spark.md).
4. Everything else: merged by the kernel.

Rule 3 asks that whatever the newer runs hold for a key wins against the large run: engine
deduplicate without sequence fields, deletes that count, and every sequence number of the newer runs
above every one of the large run (two writers at once may break that). Keys with floats are left to
the kernel: Spark takes -0.0 and 0.0 for one key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tidelake.merge import MergeSpec
from tidelake.merge.spec import DEDUPLICATE
from tidelake.metadata.data_file import DataFileMeta
from tidelake.scan import ReadContext, Section, Split
from tidelake.spark.native import NativeFiles, NativeGroup
from tidelake.types import DataField, TypeRoot

__all__ = ["Halves", "OverlayRule", "part"]

_FLOATING = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})


@dataclass(frozen=True, slots=True)
class OverlayRule:
    """When a large run is scanned by Spark under a few newer rows.

    Parameters
    ----------
    base_rows_min : int
        Rows that the large run must have: below, a merge costs less than a second scan.
    base_share_min : int
        How many times as many rows it must have as all newer runs together.
    newer_rows_max : int
        Newer rows of the whole read, whose keys are broadcast.
    """

    base_rows_min: int = 100_000
    base_share_min: int = 4
    newer_rows_max: int = 1_000_000


@dataclass(frozen=True, slots=True)
class Halves:
    """A read, parted.

    Parameters
    ----------
    plain : list of NativeGroup
        Every live row is a row of the answer.
    base : list of NativeGroup
        Every row is a row of the answer, unless `newer_keys` names its key.
    newer_keys : list of NativeGroup
        Files whose keys, over the primary-key columns, hide rows of `base`.
    merged : list of Split
        For the kernel.
    """

    plain: list[NativeGroup]
    base: list[NativeGroup]
    newer_keys: list[NativeGroup]
    merged: list[Split]


def part(
    context: ReadContext,
    splits: Sequence[Split],
    fields: Sequence[DataField],
    *,
    case_sensitive: bool,
    rule: OverlayRule | None = None,
) -> Halves:
    """Part the splits of one plan.

    Parameters
    ----------
    context : ReadContext
        The table.
    splits : sequence of Split
        Of one plan.
    fields : sequence of DataField
        The columns needed, those of the predicate included.
    case_sensitive : bool
        Whether the session tells ``a`` from ``A``.
    rule : OverlayRule, optional
        When rule 3 applies.

    Notes
    -----
    Runs on the driver. Pure.
    """
    key_fields = context.fields(context.schema.primary_keys)
    parting = _Parting(
        rule or OverlayRule(),
        overlays=_newest_wins(context, key_fields),
        plain=NativeFiles(context, fields, case_sensitive=case_sensitive),
        base=NativeFiles(context, with_keys(fields, key_fields), case_sensitive=case_sensitive),
        keys=NativeFiles(context, key_fields, case_sensitive=case_sensitive),
    )
    merged = [left for split in splits for left in parting.take(split)]
    return Halves(parting.plain.groups(), parting.base.groups(), parting.keys.groups(), merged)


def with_keys(
    fields: Sequence[DataField], key_fields: Sequence[DataField]
) -> tuple[DataField, ...]:
    """The columns needed of a large run: those of the keys too."""
    names = {f.name for f in fields}
    return (*fields, *(f for f in key_fields if f.name not in names))


def _newest_wins(context: ReadContext, key_fields: Sequence[DataField]) -> bool:
    if not key_fields or any(f.type.root in _FLOATING for f in key_fields):
        return False
    spec = MergeSpec.of(context.schema, context.options)
    return spec.engine == DEDUPLICATE and not spec.sequence_columns and not spec.ignore_delete


class _Parting:
    """The state of :func:`part`."""

    def __init__(
        self,
        rule: OverlayRule,
        *,
        overlays: bool,
        plain: NativeFiles,
        base: NativeFiles,
        keys: NativeFiles,
    ) -> None:
        self._rule = rule
        self._overlays = overlays
        self._newer_rows_left = rule.newer_rows_max
        self.plain = plain
        self.base = base
        self.keys = keys

    def take(self, split: Split) -> Iterator[Split]:
        """Take what Spark may scan; gives what is left for the kernel."""
        if split.raw:
            left = tuple(f for f in split.files if not self.plain.readable(split, f))
            for file in split.files:
                if file not in left:
                    self.plain.add(split, file)
            if left:
                yield replace(split, sections=((left,),))
            return
        rest = [s for section in split.sections for s in self._take_section(split, section)]
        if rest:
            yield replace(split, sections=tuple(rest))

    def _take_section(self, split: Split, section: Section) -> Iterator[Section]:
        if self._is_overlay(split, section):
            oldest, *newer = section
            for file in oldest:
                self.base.add(split, file)
            for run in newer:
                for file in run:
                    self.keys.add(split, file)
            self._newer_rows_left -= _rows(newer)
            section = tuple(newer)
        if len(section) == 1 and all(self.plain.readable(split, f) for f in section[0]):
            for file in section[0]:
                self.plain.add(split, file, live_only=file.delete_row_count != 0)
            return
        yield section

    def _is_overlay(self, split: Split, section: Section) -> bool:
        if not self._overlays or len(section) < 2:
            return False
        oldest, *newer = section
        base_rows, newer_rows = _rows([oldest]), _rows(newer)
        return (
            base_rows >= self._rule.base_rows_min
            and base_rows >= self._rule.base_share_min * newer_rows
            and newer_rows <= self._newer_rows_left
            and all(f.delete_row_count == 0 and self.base.readable(split, f) for f in oldest)
            and all(self.keys.readable(split, f) for run in newer for f in run)
            and max(f.max_sequence_number for f in oldest)
            < min(f.min_sequence_number for run in newer for f in run)
        )


def _rows(runs: Sequence[Sequence[DataFileMeta]]) -> int:
    return sum(f.row_count for run in runs for f in run)
