"""System tables of the logs: ``$snapshots``, ``$schemas``, ``$options``, ``$tags`` ...

... and ``$branches``, ``$consumers``, ``$aggregation_fields``. They show all there is, whatever
moment is read. Names and columns are those of Paimon (1.3.1).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tidelake.errors import NotFoundError
from tidelake.metadata.log.consumer import ConsumerLog
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.paths import BRANCH_PREFIX
from tidelake.table.handle.handle import TableHandle
from tidelake.types import TableSchema
from tidelake.types.java_text import java_duration
from tidelake.types.schema import field_to_json

_TIME = pa.timestamp("ms", tz="UTC")
_LOCAL_TIME = pa.timestamp("ms")
"""A tag's time is its writer's wall clock, in an unknown zone."""
_TEXT = pa.string()
_LONG = pa.int64()

SNAPSHOTS = pa.schema(
    [
        pa.field("snapshot_id", _LONG, nullable=False),
        pa.field("schema_id", _LONG, nullable=False),
        pa.field("commit_user", _TEXT, nullable=False),
        pa.field("commit_identifier", _LONG, nullable=False),
        pa.field("commit_kind", _TEXT, nullable=False),
        pa.field("commit_time", _TIME, nullable=False),
        pa.field("base_manifest_list", _TEXT, nullable=False),
        pa.field("delta_manifest_list", _TEXT, nullable=False),
        pa.field("changelog_manifest_list", _TEXT),
        pa.field("total_record_count", _LONG),
        pa.field("delta_record_count", _LONG),
        pa.field("changelog_record_count", _LONG),
        pa.field("watermark", _LONG),
    ]
)
SCHEMAS = pa.schema(
    [
        pa.field("schema_id", _LONG, nullable=False),
        pa.field("fields", _TEXT, nullable=False),
        pa.field("partition_keys", _TEXT, nullable=False),
        pa.field("primary_keys", _TEXT, nullable=False),
        pa.field("options", _TEXT, nullable=False),
        pa.field("comment", _TEXT),
        pa.field("update_time", _TIME, nullable=False),
    ]
)
OPTIONS = pa.schema(
    [pa.field("key", _TEXT, nullable=False), pa.field("value", _TEXT, nullable=False)]
)
TAGS = pa.schema(
    [
        pa.field("tag_name", _TEXT, nullable=False),
        pa.field("snapshot_id", _LONG, nullable=False),
        pa.field("schema_id", _LONG, nullable=False),
        pa.field("commit_time", _TIME, nullable=False),
        pa.field("record_count", _LONG),
        pa.field("create_time", _LOCAL_TIME),
        pa.field("time_retained", _TEXT),
    ]
)
BRANCHES = pa.schema(
    [
        pa.field("branch_name", _TEXT, nullable=False),
        pa.field("create_time", _LOCAL_TIME, nullable=False),
    ]
)
CONSUMERS = pa.schema(
    [
        pa.field("consumer_id", _TEXT, nullable=False),
        pa.field("next_snapshot_id", _LONG, nullable=False),
    ]
)
AGGREGATION_FIELDS = pa.schema(
    [
        pa.field("field_name", _TEXT, nullable=False),
        pa.field("field_type", _TEXT, nullable=False),
        pa.field("function", _TEXT),
        pa.field("function_options", _TEXT),
        pa.field("comment", _TEXT),
    ]
)

FIELD_OPTION_PARTS_MIN = 3
"""``fields.<column>.<what>``; ``fields.default-aggregate-function`` names no column."""

Row = Mapping[str, Any]


def snapshots_table(handle: TableHandle) -> pa.Table:
    """``$snapshots``: one row per snapshot."""
    log = handle.snapshots
    rows = []
    for snapshot_id in log.ids():
        try:
            rows.append(_snapshot_row(log.load(snapshot_id)))
        except NotFoundError:
            continue  # it expired meanwhile
    return pa.Table.from_pylist(rows, schema=SNAPSHOTS)


def _snapshot_row(s: Snapshot) -> Row:
    return {
        "snapshot_id": s.id,
        "schema_id": s.schema_id,
        "commit_user": s.commit_user,
        "commit_identifier": s.commit_identifier,
        "commit_kind": s.commit_kind,
        "commit_time": s.time_ms,
        "base_manifest_list": s.base_manifest_list,
        "delta_manifest_list": s.delta_manifest_list,
        "changelog_manifest_list": s.changelog_manifest_list,
        "total_record_count": s.total_record_count,
        "delta_record_count": s.delta_record_count,
        "changelog_record_count": s.changelog_record_count,
        "watermark": s.watermark,
    }


def schemas_table(handle: TableHandle) -> pa.Table:
    """``$schemas``: one row per schema."""
    log = handle.schemas
    rows = [_schema_row(log.load(schema_id)) for schema_id in sorted(log.ids())]
    return pa.Table.from_pylist(rows, schema=SCHEMAS)


def _schema_row(schema: TableSchema) -> Row:
    def text(value: object) -> str:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)

    return {
        "schema_id": schema.id,
        "fields": text([field_to_json(f) for f in schema.fields]),
        "partition_keys": text(list(schema.partition_keys)),
        "primary_keys": text(list(schema.primary_keys)),
        "options": text(dict(schema.options)),
        "comment": schema.comment,
        "update_time": schema.time_ms,
    }


def options_table(handle: TableHandle) -> pa.Table:
    """``$options``: one row per option that is set."""
    rows = [{"key": key, "value": value} for key, value in sorted(handle.schema.options.items())]
    return pa.Table.from_pylist(rows, schema=OPTIONS)


def tags_table(handle: TableHandle) -> pa.Table:
    """``$tags``: one row per tag."""
    log = handle.tags
    rows: list[Row] = []
    for name in sorted(log.names()):
        tag = log.load(name)
        snapshot = tag.snapshot
        rows.append(
            {
                "tag_name": name,
                "snapshot_id": snapshot.id,
                "schema_id": snapshot.schema_id,
                "commit_time": snapshot.time_ms,
                "record_count": snapshot.total_record_count,
                "create_time": tag.create_time_ms,
                "time_retained": java_duration(tag.time_retained_ms),
            }
        )
    return pa.Table.from_pylist(rows, schema=TAGS)


def branches_table(handle: TableHandle) -> pa.Table:
    """``$branches``: one row per branch, with the time its directory changed last, as in Java."""
    clock = handle.env.clock
    found = {
        status.name.removeprefix(BRANCH_PREFIX): status.modified_ms + clock.local_offset_ms()
        for status in handle.fileio.list_dir(handle.paths.branch_dir)
        if status.is_dir and status.name.startswith(BRANCH_PREFIX)
    }
    rows = [{"branch_name": name, "create_time": found[name]} for name in sorted(found)]
    return pa.Table.from_pylist(rows, schema=BRANCHES)


def consumers_table(handle: TableHandle) -> pa.Table:
    """``$consumers``: one row per reader of changes, with its recorded progress."""
    found = ConsumerLog(handle.fileio, handle.paths).next_ids()
    rows = [{"consumer_id": name, "next_snapshot_id": number} for name, number in found.items()]
    return pa.Table.from_pylist(rows, schema=CONSUMERS)


def aggregation_fields_table(handle: TableHandle) -> pa.Table:
    """``$aggregation_fields``: one row per column, with its options ``fields.<column>.*``.

    Texts as Java prints lists: ``[sum]``, ``[]``.
    """
    schema = handle.schema
    keys: dict[str, list[str]] = {field.name: [] for field in schema.fields}
    for key in schema.options:
        parts = key.split(".")
        if len(parts) >= FIELD_OPTION_PARTS_MIN and parts[0] == "fields" and parts[1] in keys:
            keys[parts[1]].append(key)
    rows = [
        {
            "field_name": field.name,
            "field_type": str(field.type),
            "function": f"[{', '.join(schema.options[key] for key in keys[field.name])}]",
            "function_options": f"[{', '.join(keys[field.name])}]",
            "comment": field.description,
        }
        for field in schema.fields
    ]
    return pa.Table.from_pylist(rows, schema=AGGREGATION_FIELDS)
