"""Procedures that roll back or purge a table."""

from __future__ import annotations

from typing import Any

from tidelake.errors import NotFoundError
from tidelake.maintenance.parameters import AT_TIME, DRY_RUN, TABLE
from tidelake.maintenance.procedure import (
    ParameterType,
    Procedure,
    ProcedureCall,
    Rows,
    optional,
    required,
)
from tidelake.maintenance.result_schemas import MESSAGE, ROLLED_BACK


def _roll_back(call: ProcedureCall, **target: Any) -> list[tuple[int, int]]:
    result = call.table.rollback_to(**target, dry_run=bool(call["dry_run"]))
    return [(result.previous_snapshot_id, result.snapshot_id)]


def _to_version(call: ProcedureCall) -> Rows:
    given = [n for n in ("version", "snapshot", "tag") if call[n] not in (None, "")]
    if len(given) != 1:
        names = " and ".join(given) or "none"
        raise call.invalid(given[0] if given else "snapshot", f"give snapshot or tag, not {names}.")
    version = call["version"]
    if version and version.isascii() and version.isdigit():
        return _roll_back(call, snapshot_id=int(version))
    if version:
        return _roll_back(call, tag=version)
    return _roll_back(call, snapshot_id=call["snapshot"], tag=call["tag"])


def _to_timestamp(call: ProcedureCall) -> Rows:
    return _roll_back(call, timestamp=call["timestamp"])


def _to_watermark(call: ProcedureCall) -> Rows:
    table, watermark = call.table, call["watermark"]
    log = table.handle.snapshots
    latest, earliest = log.latest_id() or 0, log.earliest_id() or 1
    for snapshot_id in range(latest, earliest - 1, -1):
        found = log.load(snapshot_id).watermark
        if found is not None and found <= watermark:
            return _roll_back(call, snapshot_id=snapshot_id)
    message = (
        f"Table '{table.identifier}' has no snapshot with a watermark of {watermark} or less: give"
        " a larger watermark."
    )
    raise NotFoundError(message, kind="snapshot_not_found", table=table.identifier)


def _purge(call: ProcedureCall) -> Rows:
    result = call.table.maintenance.purge_files(dry_run=bool(call["dry_run"]))
    if not call["dry_run"]:
        return [("Success",)]
    snapshots, tags = len(result.removed_snapshot_ids), len(result.removed_tags)
    message = f"Would remove {snapshots} snapshots, {tags} tags and {result.removed_files} files"
    return [(message,)]


PURGE_FILES = Procedure(
    "purge_files",
    (TABLE, DRY_RUN),
    MESSAGE,
    "Removes all rows and all history of a table; its schema and one empty snapshot stay. Unlike in"
    " Paimon, orphan files stay too.",
    _purge,
    "purge_files(table => 'db.old', dry_run => true)",
)
ROLLBACK = Procedure(
    "rollback",
    (
        TABLE,
        optional("version", ParameterType.STRING, "A snapshot's id or a tag's name."),
        optional("snapshot", ParameterType.LONG, "A snapshot's id."),
        optional("tag", ParameterType.STRING, "A tag's name."),
        DRY_RUN,
    ),
    ROLLED_BACK,
    "Rolls back to a snapshot or tag: later snapshots and their tags are deleted. Give one of"
    " version, snapshot and tag.",
    _to_version,
    "rollback(table => 'db.t', snapshot => 2)",
)
ROLLBACK_TO_TIMESTAMP = Procedure(
    "rollback_to_timestamp",
    (
        TABLE,
        AT_TIME,
        DRY_RUN,
    ),
    ROLLED_BACK,
    "Rolls back to the newest snapshot committed at a time or before.",
    _to_timestamp,
    "rollback_to_timestamp(table => 'db.t', timestamp => 4102444800000)",
)
ROLLBACK_TO_WATERMARK = Procedure(
    "rollback_to_watermark",
    (TABLE, required("watermark", ParameterType.LONG, "The watermark."), DRY_RUN),
    ROLLED_BACK,
    "Rolls back to the newest snapshot with this watermark or a smaller one.",
    _to_watermark,
    "rollback_to_watermark(table => 'db.t', watermark => 1730292023000)",
)
