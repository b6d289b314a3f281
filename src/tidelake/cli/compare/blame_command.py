"""The command ``tidelake blame``: the commits that changed the row of a key."""

from __future__ import annotations

import json
import sys

from tidelake.cli.command_line.key_texts import keys_of
from tidelake.cli.command_line.opened_table import opened
from tidelake.cli.compare.arguments import BlameArguments
from tidelake.engine.tables import KeyChange
from tidelake.errors import TidelakeError

FAILED = 1


def run(given: BlameArguments) -> int:
    """Run the command and return the exit code."""
    try:
        table = opened(given.warehouse, given.table, given.catalog_options)
        [key] = keys_of(table, [given.key]).to_pylist()
        changes = table.blame(key)
    except TidelakeError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return FAILED
    for change in changes:
        _print(_json(change) if given.as_json else _text(change))
    if not changes:
        sys.stderr.write("No snapshot has a row of this key.\n")
    return 0


def _json(change: KeyChange) -> str:
    facts = {
        "snapshot": change.snapshot_id,
        "time": change.time.isoformat(),
        "commit_user": change.commit_user,
        "commit_kind": change.commit_kind,
        "change": change.change,
        "before": change.before,
        "after": change.after,
        "columns": change.columns,
    }
    return json.dumps(facts, ensure_ascii=False, default=str)


def _text(change: KeyChange) -> str:
    before, after = change.before, change.after
    if before is not None and after is not None:
        values = ", ".join(f"{n}: {before[n]!r} -> {after[n]!r}" for n in change.columns)
    else:
        values = ", ".join(f"{n}: {v!r}" for n, v in (after or before or {}).items())
    time = change.time.isoformat(timespec="seconds")
    who = f"{change.commit_kind} by {change.commit_user}"
    return f"snapshot {change.snapshot_id}, {time}, {who}: {change.change} {values}"


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
