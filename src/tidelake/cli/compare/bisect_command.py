"""The command ``tidelake bisect``: the first snapshot for which a condition fails."""

from __future__ import annotations

import json
import sys

from tidelake.cli.command_line.opened_table import opened, version_of
from tidelake.cli.compare.arguments import BisectArguments
from tidelake.errors import TidelakeError

FAILED = 1


def run(given: BisectArguments) -> int:
    """Run the command and return the exit code."""
    try:
        table = opened(given.warehouse, given.table, given.catalog_options)
        good, bad = (version_of(table, text) for text in (given.good, given.bad))
        found = table.bisect(given.where, good=good, bad=bad)
    except TidelakeError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return FAILED
    if given.as_json:
        facts = {
            "first_bad": found.first_bad,
            "last_good": found.last_good,
            "checked": [{"snapshot": number, "holds": holds} for number, holds in found.checked],
        }
        sys.stdout.write(f"{json.dumps(facts)}\n")
        return 0
    for number, holds in found.checked:
        sys.stderr.write(f"snapshot {number}: {'holds' if holds else 'fails'}\n")
    if found.first_bad is None:
        sys.stdout.write(f"holds at snapshot {found.last_good}\n")
    else:
        sys.stdout.write(f"fails from snapshot {found.first_bad}\n")
    return 0
