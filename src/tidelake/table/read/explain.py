"""Describes a read: snapshot, files read and pruned and why, splits, bytes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import UTC, datetime

from tidelake.errors import shortened
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.scan import ScanPlan
from tidelake.table.handle.display import facts_html

__all__ = ["ScanExplanation"]

PRUNED_FILES_SHOWN_MAX = 20


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
    """

    table: str
    snapshot: Snapshot | None
    plan: ScanPlan
    columns: tuple[str, ...]
    filter_text: str
    limit: int | None

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
        return lines

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
