"""The command ``tidelake orphans``: files that nothing names are found, and later removed."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from tidelake.cli.command_line.opened_table import opened
from tidelake.cli.upkeep.arguments import OrphansArguments
from tidelake.engine.jobs import OrphanFiles
from tidelake.engine.tables import Table, open_catalog
from tidelake.errors import TidelakeError, counted

FAILED = 1


def run(given: OrphansArguments) -> int:
    """Run the command and return the exit code: 1 if a table could not be searched."""
    try:
        if given.shows or given.undelete:
            table = opened(given.warehouse, given.table, given.catalog_options)
            return _in_quarantine(table, given)
        catalog = open_catalog(given.warehouse, catalog=given.catalog_options)
        found = catalog.remove_orphan_files(
            given.table,
            older_than=given.older_than,
            dry_run=given.dry_run,
            parallelism=given.parallelism,
        )
    except TidelakeError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return FAILED
    for one in found.tables:
        _print(_facts(one) if given.as_json else _text(one), given)
    for name, failure in found.failed.items():
        sys.stderr.write(f"error: {name}: {failure}\n")
    if found.dropped_directories:
        would = "would be " if given.dry_run else ""
        sys.stderr.write(f"{counted(found.dropped_directories, 'killed drop')} {would}finished\n")
    return FAILED if found.failed else 0


def _in_quarantine(table: Table, given: OrphansArguments) -> int:
    if given.undelete:
        for path in table.maintenance.undelete_files(given.undelete):
            _print({"kept": path} if given.as_json else f"kept {path}", given)
        return 0
    for row in table.maintenance.quarantined_files().to_pylist():
        _print(row if given.as_json else f"{row['size_bytes']:>12,}  {row['path']}", given)
    return 0


def _facts(found: OrphanFiles) -> dict[str, object]:
    return {
        "table": found.table,
        "dry_run": found.dry_run,
        "removed_count": found.removed_count,
        "removed_bytes": found.removed_bytes,
        "quarantined_count": found.quarantined_count,
        "quarantined_bytes": found.quarantined_bytes,
        "waiting_count": found.waiting_count,
        "waiting_bytes": found.waiting_bytes,
        "failed_count": found.failed_count,
        "held_by": found.held_by,
        "files": found.files.to_pylist(),
    }


def _text(found: OrphanFiles) -> str:
    would = "would be " if found.dry_run else ""
    text = (
        f"{found.table}: {counted(found.removed_count, 'file')} ({found.removed_bytes:,} bytes)"
        f" {would}removed, {found.quarantined_count} ({found.quarantined_bytes:,} bytes)"
        f" {would}put into quarantine, {found.waiting_count} waiting there"
    )
    if found.failed_count:
        text += f"; {found.failed_count} could not be removed, and the next run tries again"
    if found.held_by is not None:
        text += f"; the reader '{found.held_by}' puts removal off"
    return text


def _print(what: Mapping[str, object] | str, given: OrphansArguments) -> None:
    text = json.dumps(what, ensure_ascii=False) if given.as_json else str(what)
    sys.stdout.write(f"{text}\n")
