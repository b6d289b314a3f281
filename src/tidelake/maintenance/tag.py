"""Procedures on tags."""

from __future__ import annotations

import pyarrow as pa

from tidelake.engine.metadata import Snapshot
from tidelake.engine.tables import Table
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
from tidelake.maintenance.result_schemas import DONE, TAGGED

_EXPIRED = pa.schema([pa.field("expired_tags", pa.string(), nullable=False)])
_TAG = required("tag", ParameterType.STRING, "The tag's name.")
_SNAPSHOT = optional("snapshot", ParameterType.LONG, "The snapshot's id; by default the newest.")
_RETAINED = optional(
    "time_retained", ParameterType.STRING, "How long the tag is kept, such as `1 d`."
)


def _create(call: ProcedureCall) -> Rows:
    call.table.tags.create(
        call["tag"], snapshot_id=call["snapshot"], time_retained=call["time_retained"]
    )
    return [(True,)]


def _replace(call: ProcedureCall) -> Rows:
    call.table.tags.replace(
        call["tag"], snapshot_id=call["snapshot"], time_retained=call["time_retained"]
    )
    return [(True,)]


def _rename(call: ProcedureCall) -> Rows:
    call.table.tags.rename(call["tag"], call["target_tag"])
    return [(True,)]


def _delete(call: ProcedureCall) -> Rows:
    table = call.table
    names = [name.strip() for name in call["tag"].split(",")]
    for name in names:
        table.handle.time_travel.by_tag(name)  # before the first is deleted
    for name in dict.fromkeys(names):
        table.tags.delete(name)
    return [(True,)]


def _create_from_timestamp(call: ProcedureCall) -> Rows:
    table, name = call.table, call["tag"]
    snapshot = _first_since(table, call["timestamp"])
    table.tags.create(name, snapshot_id=snapshot.id, time_retained=call["time_retained"])
    watermark = "null" if snapshot.watermark is None else str(snapshot.watermark)  # as Java
    return [(name, snapshot.id, snapshot.time_ms, watermark)]


def _expire(call: ProcedureCall) -> Rows:
    names = call.table.tags.expire(older_than=call["older_than"], dry_run=bool(call["dry_run"]))
    return [(name,) for name in names] or [("No expired tags.",)]


def _create_due(call: ProcedureCall) -> Rows:
    call.table.tags.create_due()
    return [(True,)]


def _first_since(table: Table, timestamp_ms: int) -> Snapshot:
    """Return the first snapshot committed at or after a time, or kept only by a tag."""
    log, tags = table.handle.snapshots, table.handle.tags
    low, high = log.earliest_id() or 1, log.latest_id() or 0
    found: Snapshot | None = None
    while low <= high:  # times never decrease
        middle = (low + high) // 2
        snapshot = log.load(middle)
        if snapshot.time_ms >= timestamp_ms:
            found, high = snapshot, middle - 1
        else:
            low = middle + 1
    held = [tags.load(name).snapshot for name in tags.names()]
    later = [s for s in (found, *held) if s is not None and s.time_ms >= timestamp_ms]
    if not later:
        message = (
            f"Table '{table.identifier}' has no snapshot committed at {timestamp_ms} ms or later:"
            " give an earlier time."
        )
        raise NotFoundError(message, kind="snapshot_not_found", table=table.identifier)
    return min(later, key=lambda s: (s.time_ms, s.id))


CREATE_TAG = Procedure(
    "create_tag",
    (TABLE, _TAG, _SNAPSHOT, _RETAINED),
    DONE,
    "Names a snapshot, so that it stays readable.",
    _create,
    "create_tag(table => 'db.t', tag => 'v1', snapshot => 1, time_retained => '30 d')",
)
CREATE_TAG_FROM_TIMESTAMP = Procedure(
    "create_tag_from_timestamp",
    (
        TABLE,
        _TAG,
        AT_TIME,
        _RETAINED,
    ),
    TAGGED,
    "Names the first snapshot that was committed at a time or later.",
    _create_from_timestamp,
    "create_tag_from_timestamp(table => 'db.t', tag => 'v2', timestamp => 0)",
)
RENAME_TAG = Procedure(
    "rename_tag",
    (TABLE, _TAG, required("target_tag", ParameterType.STRING, "The new name.")),
    DONE,
    "Gives a tag another name.",
    _rename,
    "rename_tag(table => 'db.t', tag => 'v1', target_tag => 'first')",
)
REPLACE_TAG = Procedure(
    "replace_tag",
    (TABLE, _TAG, _SNAPSHOT, _RETAINED),
    DONE,
    "Moves a tag to another snapshot.",
    _replace,
    "replace_tag(table => 'db.t', tag => 'first')",
)
DELETE_TAG = Procedure(
    "delete_tag",
    (TABLE, required("tag", ParameterType.STRING, "The tag's name; several with commas.")),
    DONE,
    "Removes tags, and files that only they kept. An unknown tag is an error.",
    _delete,
    "delete_tag(table => 'db.t', tag => 'first,v2')",
)
EXPIRE_TAGS = Procedure(
    "expire_tags",
    (
        TABLE,
        optional(
            "older_than",
            ParameterType.TIME,
            "A timestamp (by default in the session's zone) or milliseconds since the epoch: tags"
            " made before it go too.",
        ),
        DRY_RUN,
    ),
    _EXPIRED,
    "Removes the tags whose time is over, and files that only they kept.",
    _expire,
    "expire_tags(table => 'db.t')",
)
TRIGGER_TAG_AUTOMATIC_CREATION = Procedure(
    "trigger_tag_automatic_creation",
    (TABLE,),
    DONE,
    "Makes the tags that are due by `tag.automatic-creation`, and removes those that expired.",
    _create_due,
    "trigger_tag_automatic_creation(table => 'db.t')",
)
