"""Procedures that remove newer snapshots, or older ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tidelake.errors import NotFoundError
from tidelake.maintenance.answers import MESSAGE, ROLLED_BACK
from tidelake.maintenance.procedure import Call, ParameterType, Procedure, optional, required

__all__ = ["PURGE_FILES", "ROLLBACK", "ROLLBACK_TO_TIMESTAMP", "ROLLBACK_TO_WATERMARK"]

Rows = Iterable[Sequence[object]]

_TABLE = required("table", ParameterType.TABLE, "The table.")
_DRY_RUN = optional(
    "dry_run", ParameterType.BOOLEAN, "Whether to say only what it would do.", is_ours=True
)


def _rolled_back(call: Call, **target: Any) -> Rows:
    result = call.table.rollback_to(**target, dry_run=bool(call["dry_run"]))
    return [(result.previous_snapshot_id, result.snapshot_id)]


def _to_version(call: Call) -> Rows:
    given = [n for n in ("version", "snapshot", "tag") if call[n] not in (None, "")]
    if len(given) != 1:
        names = " and ".join(given) or "none"
        raise call.wrong(given[0] if given else "snapshot", f"give snapshot or tag, not {names}.")
    version = call["version"]
    if version and version.isascii() and version.isdigit():
        return _rolled_back(call, snapshot_id=int(version))
    if version:
        return _rolled_back(call, tag=version)
    return _rolled_back(call, snapshot_id=call["snapshot"], tag=call["tag"])


def _to_timestamp(call: Call) -> Rows:
    return _rolled_back(call, timestamp=call["timestamp"])


def _to_watermark(call: Call) -> Rows:
    table, watermark = call.table, call["watermark"]
    log = table.handle.snapshots
    latest, earliest = log.latest_id() or 0, log.earliest_id() or 1
    for snapshot_id in range(latest, earliest - 1, -1):
        found = log.load(snapshot_id).watermark
        if found is not None and found <= watermark:
            return _rolled_back(call, snapshot_id=snapshot_id)
    message = f"Table '{table.identifier}' has no snapshot with a watermark of {watermark} or less."
    raise NotFoundError(message, kind="snapshot_not_found", table=table.identifier)


def _purge(call: Call) -> Rows:
    result = call.table.purge_files(dry_run=bool(call["dry_run"]))
    if not call["dry_run"]:
        return [("Success",)]
    snapshots, tags = len(result.removed_snapshot_ids), len(result.removed_tags)
    message = f"Would remove {snapshots} snapshots, {tags} tags and {result.removed_files} files"
    return [(message,)]


PURGE_FILES = Procedure(
    "purge_files",
    (_TABLE, _DRY_RUN),
    MESSAGE,
    "Removes all rows and all history of a table; its schema and one empty snapshot stay. Files"
    " that nothing referred to stay too, unlike in Paimon.",
    _purge,
    "purge_files(table => 'db.old', dry_run => true)",
)
ROLLBACK = Procedure(
    "rollback",
    (
        _TABLE,
        optional("version", ParameterType.STRING, "A snapshot's id or a tag's name."),
        optional("snapshot", ParameterType.LONG, "A snapshot's id."),
        optional("tag", ParameterType.STRING, "A tag's name."),
        _DRY_RUN,
    ),
    ROLLED_BACK,
    "Goes back to a snapshot or tag: later snapshots and their tags are gone. Give one of version,"
    " snapshot and tag.",
    _to_version,
    "rollback(table => 'db.t', snapshot => 2)",
)
ROLLBACK_TO_TIMESTAMP = Procedure(
    "rollback_to_timestamp",
    (
        _TABLE,
        required("timestamp", ParameterType.TIME, "Milliseconds since the epoch, or a timestamp."),
        _DRY_RUN,
    ),
    ROLLED_BACK,
    "Goes back to the newest snapshot that was committed at a time or before.",
    _to_timestamp,
    "rollback_to_timestamp(table => 'db.t', timestamp => 4102444800000)",
)
ROLLBACK_TO_WATERMARK = Procedure(
    "rollback_to_watermark",
    (_TABLE, required("watermark", ParameterType.LONG, "The watermark."), _DRY_RUN),
    ROLLED_BACK,
    "Goes back to the newest snapshot with this watermark or a smaller one.",
    _to_watermark,
    "rollback_to_watermark(table => 'db.t', watermark => 1730292023000)",
)
