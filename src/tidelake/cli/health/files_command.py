"""The commands ``tidelake fsck`` and ``tidelake repair``: what is wrong, and what mends it."""

from __future__ import annotations

import json
import sys

from tidelake.cli.command_line.opened_table import opened
from tidelake.cli.health.arguments import FilesArguments
from tidelake.errors import TidelakeError, counted

FAILED = 1


def run(given: FilesArguments) -> int:
    """Run the command and return the exit code: 1 where a problem was found."""
    try:
        table = opened(given.warehouse, given.table, given.catalog_options)
        plan = table.repair_plan(data=given.data) if given.plans else None
        report = table.fsck(data=given.data) if plan is None else plan.report
    except TidelakeError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return FAILED
    steps = () if plan is None else plan.steps
    if given.as_json:
        facts: dict[str, object] = {
            "table": report.table,
            "versions": report.snapshots_count,
            "files": report.files_count,
            "read_data": report.read_data,
            "whole": list(report.whole),
            "problems": [problem.facts() for problem in report.problems],
        }
        if plan is not None:
            facts["steps"] = [step.facts() for step in steps]
        _print(json.dumps(facts, ensure_ascii=False))
    else:
        for problem in report.problems:
            _print(str(problem))
        for number, step in enumerate(steps, 1):
            _print(f"{number}. {step}")
        found = counted(len(report.problems), "problem")
        checked = counted(report.files_count, "file")
        _print(f"{report.table}: {found} in {checked}")
    return FAILED if report.problems else 0


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
