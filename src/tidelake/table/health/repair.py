"""What would mend a damaged table, as a plan. Nothing is changed.

1. A file that can be restored from a backup should be: that loses nothing.
2. A damaged hint is removed; the next commit writes it anew.
3. A damaged tag is deleted.
4. If the newest snapshot cannot be read, the table goes back to the newest one that can: what was
   committed since is lost. A dry run says which snapshots and tags go.
5. Lost data files can be taken out of the table instead: only their rows are lost.
6. An older snapshot that cannot be read harms no one, and expires.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.errors import TidelakeError, counted
from tidelake.table.handle.handle import TableHandle
from tidelake.table.health.finding import RemedyCall
from tidelake.table.health.fsck import check_files
from tidelake.table.health.problem import NOT_THERE, FileProblem, FilesReport
from tidelake.table.jobs.rollback import roll_back

LOOKS_MAX = 3
"""Checks of a table that is written to meanwhile."""


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One step of a plan.

    Parameters
    ----------
    what : str
        What it does.
    loses : str
        What is lost by it; empty if nothing is.
    remedy : RemedyCall, optional
        The call; None where a person must act.
    problems : tuple of FileProblem
        What it mends.
    """

    what: str
    loses: str
    remedy: RemedyCall | None
    problems: tuple[FileProblem, ...]

    def facts(self) -> dict[str, object]:
        """The step as plain values, for JSON."""
        return {
            "what": self.what,
            "loses": self.loses,
            "python": None if self.remedy is None else self.remedy.python,
            "sql": None if self.remedy is None else self.remedy.sql,
            "problems": [problem.facts() for problem in self.problems],
        }

    def __str__(self) -> str:
        lines = [self.what]
        if self.remedy is not None:
            lines.append(f"  run: {self.remedy}")
        if self.loses:
            lines.append(f"  loses: {self.loses}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """Steps that mend a table, in order; none for a whole one."""

    report: FilesReport
    steps: tuple[RepairStep, ...]

    def __repr__(self) -> str:
        count = len(self.steps)
        head = f"<RepairPlan of {self.report.table}: {count} steps"
        return "\n".join([head, *map(str, self.steps)]) + ">"


def plan_repair(handle: TableHandle, *, data: bool = False) -> RepairPlan:
    """Plan what would mend a table; see :meth:`tidelake.Table.repair_plan`."""
    for _ in range(LOOKS_MAX):
        newest = handle.snapshots.latest_id()
        report = check_files(handle, data=data)
        if report.is_whole or handle.snapshots.latest_id() == newest:
            break  # else what is damaged may not be the newest any more
    problems = report.problems
    steps: list[RepairStep] = []
    lost = tuple(p for p in problems if p.kind not in ("hint", "totals"))
    if lost:
        paths = ", ".join(sorted({p.path.rpartition("/")[2] for p in lost})[:5])
        what = f"Restore what is lost or damaged from a backup, if there is one: {paths}."
        steps.append(RepairStep(what, "", None, lost))
    for hint in (p for p in problems if p.kind == "hint"):
        what = "Remove a damaged hint: reads do without, and the next commit writes it anew."
        remedy = RemedyCall(f"table.fileio.delete({hint.path!r})")
        steps.append(RepairStep(what, "", remedy, (hint,)))
    for name in sorted({name for p in problems for name in p.tags}):
        of_tag = tuple(p for p in problems if name in p.tags)
        what = f"Delete tag '{name}', which cannot be read."
        steps.append(RepairStep(what, f"tag '{name}'", _without_tag(handle, name, of_tag), of_tag))
    steps += _of_snapshots(handle, report)
    return RepairPlan(report, tuple(steps))


def _without_tag(handle: TableHandle, name: str, problems: tuple[FileProblem, ...]) -> RemedyCall:
    """The call that deletes a tag; one whose own file is damaged goes as a file."""
    if any(p.kind == "tag" for p in problems):
        return RemedyCall(f"table.fileio.delete({handle.paths.tag(name)!r})")
    call = f"CALL sys.delete_tag(table => '{handle.identifier}', tag => '{name}')"
    return RemedyCall(f"table.tags.delete({name!r})", call)


def _of_snapshots(handle: TableHandle, report: FilesReport) -> list[RepairStep]:
    """Steps for snapshots that cannot be read."""
    bad = sorted({number for p in report.problems for number in p.snapshots})
    if not bad:
        return []
    whole = list(report.whole)
    newest = max([*bad, *whole, handle.snapshots.latest_id() or 0])
    own = tuple(p for p in report.problems if p.snapshots)
    if newest not in bad:
        what = (
            f"Snapshots {bad[0]} to {bad[-1]} cannot be read; the newest can, and is read and"
            " written. Let them expire, or leave them."
        )
        return [RepairStep(what, "time travel to them", None, own)]
    if not whole:
        what = "No snapshot can be read: restore the table from a backup, or write it anew."
        return [RepairStep(what, "", None, own)]
    target = whole[-1]
    remedy = RemedyCall(
        f"table.rollback_to({target})",
        f"CALL sys.rollback(table => '{handle.identifier}', snapshot => {target})",
    )
    loses = f"all that was committed after snapshot {target}"
    try:
        done = roll_back(handle, handle.snapshots.load(target), dry_run=True)
        loses += f": {len(done.removed_snapshot_ids)} snapshots"
        loses += f", tags {', '.join(done.removed_tags)}" if done.removed_tags else ""
    except TidelakeError as error:
        loses += f" (a dry run fails: {error.message})"
    steps: list[RepairStep] = []
    of_newest = [p for p in own if newest in p.snapshots]
    if all((p.kind, p.what) == ("data_file", NOT_THERE) for p in of_newest):
        call = f"CALL sys.remove_unexisting_files(table => '{handle.identifier}')"
        taken = RemedyCall("table.maintenance.remove_missing_files()", call)
        what = "Take the lost files out of the table; the next snapshot can be read."
        of_files = f"the rows of {counted(len(of_newest), 'file')}"
        steps.append(RepairStep(what, of_files, taken, tuple(of_newest)))
    go = "Or go back" if steps else "Go back"
    what = f"{go} to snapshot {target}, the newest one that is whole."
    return [*steps, RepairStep(what, loses, remedy, own)]
