"""The command ``tidelake doctor table``: what slows a table, and which command mends it."""

from __future__ import annotations

import json
import sys

from tidelake.cli.command_line.opened_table import opened
from tidelake.cli.health.arguments import TableDoctorArguments
from tidelake.errors import TidelakeError, counted

FAILED = 1


def run(given: TableDoctorArguments) -> int:
    """Run the command and return the exit code: findings are no failure."""
    try:
        table = opened(given.warehouse, given.table, given.catalog_options)
        found = table.doctor(orphans=given.orphans, parallelism=given.parallelism)
    except TidelakeError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return FAILED
    if given.as_json:
        facts = {
            "table": found.table,
            "snapshot": found.snapshot_id,
            "findings": [finding.facts() for finding in found.findings],
            "figures": dict(found.figures),
        }
        _print(json.dumps(facts, ensure_ascii=False))
        return 0
    for finding in found.findings:
        _print(str(finding))
        for remedy in finding.remedies:
            if remedy.sql is not None:
                _print(f'  or: tidelake sql --no-spark -c "{remedy.sql}"')
    _print(f"{found.table}: {counted(len(found.findings), 'finding')}")
    return 0


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
