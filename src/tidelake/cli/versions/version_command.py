"""The commands ``tidelake tag``, ``branch`` and ``rollback``: versions that are kept, or left."""

from __future__ import annotations

import json
import sys

from tidelake.cli.command_line.opened_table import opened
from tidelake.cli.versions.arguments import VersionArguments
from tidelake.cli.versions.look_command import write_rows
from tidelake.engine.tables import Table
from tidelake.errors import TidelakeError

FAILED = 1


def run(given: VersionArguments) -> int:
    """Run the command and return the exit code."""
    try:
        table = opened(given.warehouse, given.table, given.catalog_options)
        if given.verb == "list":
            what = "tags" if given.command == "tag" else "branches"
            write_rows(table.system_table(what).to_arrow(), given.format)
        else:
            act = {"tag": _tag, "branch": _branch, "rollback": _roll_back}[given.command]
            facts = act(table, given)
            text = ", ".join(f"{name} {_text(value)}" for name, value in facts.items())
            shown = json.dumps(facts, ensure_ascii=False) if given.format == "json" else text
            sys.stdout.write(f"{shown}\n")
    except TidelakeError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return FAILED
    return 0


def _text(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def _tag(table: Table, given: VersionArguments) -> dict[str, object]:
    name = str(given.name)
    if given.verb == "create":
        table.tags.create(
            name,
            snapshot_id=given.snapshot_id,
            timestamp=given.at,
            time_retained=given.time_retained,
        )
        snapshot_id = table.handle.tags.load(name).snapshot.id
        return {"created": name, "snapshot": snapshot_id}
    if given.verb == "rename":
        table.tags.rename(name, str(given.new_name))
        return {"renamed": name, "to": given.new_name}
    table.tags.delete(name)
    return {"deleted": name}


def _branch(table: Table, given: VersionArguments) -> dict[str, object]:
    name = str(given.name)
    if given.verb == "create":
        table.branches.create(name, tag=given.tag, snapshot_id=given.snapshot_id)
        return {"created": name}
    if given.verb == "rename":
        table.branches.rename(name, str(given.new_name))
        return {"renamed": name, "to": given.new_name}
    if given.verb == "delete":
        table.branches.delete(name)
        return {"deleted": name}
    done = table.branches.fast_forward(name, dry_run=given.dry_run)
    return {
        "snapshot": done.snapshot_id,
        "dry_run": given.dry_run,
        "removed_snapshots": [*done.removed_snapshot_ids],
        "removed_tags": [*done.removed_tags],
    }


def _roll_back(table: Table, given: VersionArguments) -> dict[str, object]:
    done = table.rollback_to(
        snapshot_id=given.snapshot_id, tag=given.tag, timestamp=given.at, dry_run=given.dry_run
    )
    return {
        "snapshot": done.snapshot_id,
        "dry_run": given.dry_run,
        "removed_snapshots": [*done.removed_snapshot_ids],
        "removed_tags": [*done.removed_tags],
    }
