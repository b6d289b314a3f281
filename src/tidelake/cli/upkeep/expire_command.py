"""The command ``tidelake expire``: removes what a table's options no longer keep."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from tidelake.cli.command_line.opened_table import opened
from tidelake.cli.upkeep.arguments import ExpireArguments
from tidelake.engine.tables import Table
from tidelake.errors import TidelakeError, counted

FAILED = 1


def run(given: ExpireArguments) -> int:
    """Run the command and return the exit code."""
    try:
        table = opened(given.warehouse, given.table, given.catalog_options)
        removed = list(_REMOVE[given.what](table, given))
    except TidelakeError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return FAILED
    would = "would be " if given.dry_run else ""
    for one in removed:
        text = ", ".join(f"{name} {value}" for name, value in one.items())
        _print(json.dumps(one, ensure_ascii=False) if given.as_json else text)
    if not given.as_json:
        _print(f"{counted(len(removed), given.what[:-1])} {would}removed")
    return 0


def _snapshots(table: Table, given: ExpireArguments) -> Iterator[dict[str, object]]:
    done = table.maintenance.expire_snapshots(older_than=given.older_than, dry_run=given.dry_run)
    for holder in done.held_by:
        sys.stderr.write(f"held by {holder}\n")
    for number in done.ids:
        yield {"snapshot": number}


def _partitions(table: Table, given: ExpireArguments) -> Iterator[dict[str, object]]:
    done = table.maintenance.expire_partitions(
        expiration_time=given.expiration_time, dry_run=given.dry_run
    )
    for text in done.unread:
        sys.stderr.write(f"stays, its values say no time: {text}\n")
    for one in done.partitions:
        yield {"partition": str(one), "time": one.time, "rows": one.rows, "files": one.files}


def _tags(table: Table, given: ExpireArguments) -> Iterator[dict[str, object]]:
    for name in table.tags.expire(older_than=given.older_than, dry_run=given.dry_run):
        yield {"tag": name}


_REMOVE = {"snapshots": _snapshots, "partitions": _partitions, "tags": _tags}


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
