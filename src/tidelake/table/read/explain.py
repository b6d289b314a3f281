"""Describes a read: snapshot, files read and pruned and why, splits, bytes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tidelake.errors import shortened
from tidelake.merge import MergeSpec
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.options.declared import READ_NATIVE
from tidelake.scan import ReadContext, ScanPlan, Section, Split
from tidelake.scan.masks import MaskCache, MaskRequest, MaskRule, masked_files, refusal
from tidelake.table.handle.display import facts_html
from tidelake.table.read.native_types import is_read_alike

PRUNED_FILES_SHOWN_MAX = 20
SCANNED_SUFFIX = ".parquet"


@dataclass(frozen=True, slots=True)
class ScanExplanation:
    """A plan as text, for ``str()`` and notebooks.

    Parameters
    ----------
    snapshot : Snapshot or None
        The snapshot to read; None for a table without snapshots.
    other : tuple of (str, ScanPlan), optional
        The branch that gives other partitions.
    """

    table: str
    snapshot: Snapshot | None
    plan: ScanPlan
    columns: tuple[str, ...]
    filter_text: str
    limit: int | None
    context: ReadContext
    masks: MaskCache = field(default_factory=MaskCache)
    other: tuple[str, ScanPlan] | None = None

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
        if self.other is not None:
            name, beside = self.other
            lines.append(
                (
                    "other branch",
                    f"{name}, snapshot {beside.snapshot_id}: {beside.files_read:,} of"
                    f" {beside.files_total:,} files, {bytes_text(beside.bytes_read)}, at most"
                    f" {beside.rows_read:,} rows",
                )
            )
        return lines + [("on Spark", text) for text in self._spark_texts(merged)]

    def _spark_texts(self, merged: Sequence[Split]) -> Iterator[str]:
        """How Spark reads the files of sections that are merged here."""
        if not merged:
            return
        spec = MergeSpec.of(self.context.schema, self.context.options)
        always = self._never_scanned()
        found: dict[tuple[MaskRule, str | None], _Sections] = {}
        for split, section in ((s, section) for s in merged for section in s.sections):
            reason, request = refusal(self.context, split, section, spec, self.masks)
            reason = always or reason
            masked = () if reason else masked_files(section, request.rule, _is_parquet)
            if not masked and not reason:
                reason = "files that are not Parquet"
            own = found.setdefault((request.rule, reason), _Sections())
            own.add(section, request, masked_count=len(masked))
        unsure = self.context.fileio.is_remote and self.context.options.get(READ_NATIVE) == "auto"
        for (rule, reason), own in found.items():
            is_masked = reason is None
            beside = "; merged where Spark lacks the classes or settings of the storage"
            yield own.text(rule, reason) + (beside if is_masked and unsure else "")

    def _never_scanned(self) -> str | None:
        """Why Spark's own scan reads no file of the table."""
        if self.context.options.get(READ_NATIVE) == "never":
            return f"{READ_NATIVE.key} = never"
        fields = self.context.fields(self.columns)
        others = [f.name for f in fields if not is_read_alike(f.type)]
        return f"types that Spark reads otherwise: {', '.join(others)}" if others else None

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


@dataclass(slots=True)
class _Sections:
    """Sections that are read alike."""

    files: int = 0
    masked: int = 0
    rows_max: int = 0
    hidden: int | None = 0

    def add(self, section: Section, request: MaskRequest, *, masked_count: int) -> None:
        """Count a section, and the files of it that are scanned under masks."""
        self.files += sum(map(len, section))
        self.masked += masked_count
        self.rows_max += sum(f.row_count for run in section[1:] for f in run)
        known = [mask.known.hidden_count for mask in request.files if mask.known is not None]
        if self.hidden is not None and request.is_known:
            self.hidden += sum(known)
        else:
            self.hidden = None

    def text(self, rule: MaskRule, reason: str | None) -> str:
        """What Spark does with the files."""
        if reason is not None:
            saved = f"a compaction would replace or delete at most {self.rows_max:,} rows"
            return f"{self.files:,} files merged, because of {reason}; {saved}"
        what = f"{self.masked:,} files scanned under masks of the rows"
        if rule is MaskRule.LONE:
            what += " whose keys several files have, and these rows merged"
        elif rule is MaskRule.OLDEST:
            what += " that older ones have"
        else:
            what += " that newer ones replace"
        if self.masked < self.files:
            what += f"; {self.files - self.masked:,} files that are not Parquet merged"
        does = "merge" if rule is MaskRule.LONE else "replace or delete"
        if self.hidden is not None:
            return f"{what}; a compaction would {does} {self.hidden:,} rows"
        of = " with older ones" if rule is MaskRule.LONE else ""
        return f"{what}; a compaction would {does} at most {self.rows_max:,} rows{of}"


def _is_parquet(file: DataFileMeta) -> bool:
    return file.file_name.endswith(SCANNED_SUFFIX)


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
