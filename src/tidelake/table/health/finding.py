"""Findings of an examination, as values: cause, evidence, remedy, predicted effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tidelake.options.masked import masked, masked_text

ADVICE, WARNING = "advice", "warning"


@dataclass(frozen=True, slots=True)
class RemedyCall:
    """A call that mends something.

    Parameters
    ----------
    python : str
        As a method of the table: ``"table.compact()"``.
    sql : str, optional
        The same in SQL; None where SQL has no such call.
    """

    python: str
    sql: str | None = None

    def __str__(self) -> str:
        return self.python


@dataclass(frozen=True, slots=True)
class Forecast:
    """A figure now, and after the remedy."""

    before: float
    after: float

    def __str__(self) -> str:
        return f"{self.before:,.10g} -> {self.after:,.10g}"


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """Something that an examination found.

    Parameters
    ----------
    kind : str
        What it is, such as ``"small_files"``; stable.
    severity : {'advice', 'warning'}
        A warning costs reads, writes or space now.
    cause : str
        What is wrong, and what it costs.
    evidence : mapping
        The figures that say so.
    remedies : tuple of RemedyCall
        Calls that mend it, in order; none where a person must decide.
    predicted : mapping of str to Forecast
        Figures of :attr:`Diagnosis.figures` that they change.
    """

    kind: str
    severity: str
    cause: str
    evidence: Mapping[str, object]
    remedies: tuple[RemedyCall, ...] = ()
    predicted: Mapping[str, Forecast] = field(default_factory=dict)

    def facts(self) -> dict[str, object]:
        """The finding as plain values, for JSON."""
        return {
            "kind": self.kind,
            "severity": self.severity,
            "cause": self.cause,
            "evidence": dict(self.evidence),
            "remedies": [{"python": r.python, "sql": r.sql} for r in self.remedies],
            "predicted": {
                name: {"before": f.before, "after": f.after} for name, f in self.predicted.items()
            },
        }

    def __str__(self) -> str:
        shown = ", ".join(f"{name} {value}" for name, value in self.evidence.items())
        lines = [f"{self.severity}: {self.kind}. {self.cause}", f"  found: {shown}"]
        lines += [f"  run: {remedy}" for remedy in self.remedies]
        lines += [f"  then: {name} {forecast}" for name, forecast in self.predicted.items()]
        return "\n".join(lines)


def without_secrets(finding: HealthFinding) -> HealthFinding:
    """The finding as it may be shown: names of tags and consumers are free texts of users.

    A remedy that names a secret is left out, since what hides it would not run.
    """
    evidence = {
        name: masked(name, value) if isinstance(value, str) else value
        for name, value in finding.evidence.items()
    }
    remedies = tuple(
        call
        for call in finding.remedies
        if all(masked_text(text) == text for text in (call.python, call.sql or ""))
    )
    return replace(finding, cause=masked_text(finding.cause), evidence=evidence, remedies=remedies)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The answer of an examination.

    Parameters
    ----------
    table : str
        Its name.
    snapshot_id : int, optional
        The snapshot that was examined; None for a table that was never written.
    findings : tuple of HealthFinding
        Warnings first.
    figures : mapping of str to float
        What was measured.
    """

    table: str
    snapshot_id: int | None
    findings: tuple[HealthFinding, ...]
    figures: Mapping[str, float]

    @property
    def is_healthy(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def of(self, kind: str) -> HealthFinding | None:
        """The finding of a kind; None without one."""
        return next((f for f in self.findings if f.kind == kind), None)

    def __repr__(self) -> str:
        head = f"<Diagnosis of {self.table} at snapshot {self.snapshot_id}:"
        if self.is_healthy:
            return f"{head} healthy>"
        return "\n".join([f"{head} {len(self.findings)} findings", *map(str, self.findings)]) + ">"
