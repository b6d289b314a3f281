"""Describes a read: snapshot, files read and pruned and why, splits, bytes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tidelake.errors import shortened
from tidelake.merge import MergeSpec
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.options import declared
from tidelake.scan import ReadContext, ScanPlan, Section, Split
from tidelake.scan.masks import merge_reason
from tidelake.table.handle.display import facts_html

__all__ = ["ScanExplanation"]

PRUNED_FILES_SHOWN_MAX = 20
SCANNED_SUFFIX = ".parquet"


@dataclass(frozen=True, slots=True)
class ScanExplanation:
    """A plan as text, for ``str()`` and notebooks.

    Parameters
    ----------
    table : str
        The table.
    snapshot : Snapshot or None
        The snapshot to read; None for a table without snapshots.
    plan : ScanPlan
        The plan.
    columns : tuple of str
        The columns read.
    filter_text : str
        The whole filter; it is shown shortened.
    limit : int or None
        The limit.
    context : ReadContext
        The table.
    """

    table: str
    snapshot: Snapshot | None
    plan: ScanPlan
    columns: tuple[str, ...]
    filter_text: str
    limit: int | None
    context: ReadContext

    def lines(self) -> list[tuple[str, str]]:
        """The parts as pairs of a name and a text."""
        plan = self.plan
        raw = [s for s in plan.splits if s.raw]
        merged = [s for s in plan.splits if not s.raw]
        lines = [
            ("snapshot", self._snapshot_text()),
            ("columns", ", ".join(self.columns) or "none"),
            ("filter", shortened(self.filter_text)),
        ]
        if self.limit is not None:
            lines.append(("limit", f"{self.limit:,}"))
        lines.append(
            (
                "files read",
                f"{plan.files_read:,} of {plan.files_total:,}, {bytes_text(plan.bytes_read)} of"
                f" {bytes_text(plan.bytes_total)}, at most {plan.rows_read:,} rows",
            )
        )
        if plan.vectors_read:
            lines.append(
                (
                    "rows deleted",
                    f"{plan.rows_deleted:,}, by the deletion vectors of {plan.vectors_read:,}"
                    " files",
                )
            )
        for reason, count in plan.pruned.items():
            lines.append(("files pruned", f"{count:,} by {reason}"))
        if plan.unused_indexes:
            first = plan.unused_indexes[0]
            lines.append(
                (
                    "indexes unused",
                    f"{len(plan.unused_indexes):,}, so their files are read; the first, of"
                    f" {first.file_name}: {shortened(first.reason)}",
                )
            )
        if plan.manifests_pruned:
            lines.append(
                ("manifests", f"{plan.manifests_pruned:,} of {plan.manifests_total:,} not opened")
            )
        lines.append(
            (
                "splits raw",
                f"{len(raw):,} ({sum(s.files_count for s in raw):,} files,"
                f" {bytes_text(sum(s.size_bytes for s in raw))}): read as they are",
            )
        )
        lines.append(
            (
                "splits merged",
                f"{len(merged):,} ({sum(s.files_count for s in merged):,} files,"
                f" {bytes_text(sum(s.size_bytes for s in merged))}): up to"
                f" {max((s.runs_count_max for s in merged), default=0)} sorted runs at once",
            )
        )
        return lines + [("on Spark", text) for text in self._spark_texts(merged)]

    def _spark_texts(self, merged: Sequence[Split]) -> Iterator[str]:
        """How Spark reads the files of sections that are merged here."""
        by_reason: dict[str | None, list[Section]] = {}
        for section in (section for split in merged for section in split.sections):
            by_reason.setdefault(self._merge_reason(section), []).append(section)
        for reason, sections in by_reason.items():
            runs = [run for section in sections for run in section]
            files = sum(map(len, runs))
            newer = sum(f.row_count for section in sections for run in section[1:] for f in run)
            what = (
                "scanned under masks of the rows that newer ones replace"
                if reason is None
                else f"merged, because of {reason}"
            )
            saved = f"a compaction would replace or delete at most {newer:,} rows"
            yield f"{files:,} files {what}; {saved}"

    def _merge_reason(self, section: Section) -> str | None:
        """Why Spark's executors merge a section; None if its files are scanned under masks."""
        options = self.context.options
        if options.get(declared.READ_MASK_CACHE_SIZE) == 0:
            return f"{declared.READ_MASK_CACHE_SIZE.key} = 0"
        if not all(f.file_name.endswith(SCANNED_SUFFIX) for run in section for f in run):
            return "files that are not Parquet"
        return merge_reason(section, MergeSpec.of(self.context.schema, options))

    def _snapshot_text(self) -> str:
        if self.snapshot is None:
            return "none: nothing was written yet"
        time = datetime.fromtimestamp(self.snapshot.time_ms / 1000, tz=UTC)
        return f"{self.snapshot.id} ({self.snapshot.commit_kind}, {time:%Y-%m-%d %H:%M:%S} UTC)"

    def __str__(self) -> str:
        head = [f"Scan of {self.table}"]
        head += [f"  {name:<14} {text}" for name, text in self.lines()]
        shown = list(itertools.islice(self.plan.pruned_files, PRUNED_FILES_SHOWN_MAX))
        head += [f"    - {file.name}: {file.reason}" for file in shown]
        more = len(self.plan.pruned_files) - len(shown)
        if more > 0:
            head.append(f"    - and {more:,} more (see .plan.pruned_files)")
        return "\n".join(head)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return facts_html(f"Scan of {self.table}", self.lines())


def bytes_text(size: int) -> str:
    """A size for people.

    Examples
    --------
    >>> bytes_text(512), bytes_text(3 << 20)
    ('512 B', '3.0 MiB')
    """
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
