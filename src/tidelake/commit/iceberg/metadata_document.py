"""Iceberg's table metadata: the JSON file ``v<snapshot>.metadata.json``.

A document follows from the table's schemas, its tags and its Iceberg snapshots; it holds no time of
its own making, so the same table gives the same document. The summary of each snapshot names the
commit that it shows, because after a rollback another commit takes the id.

Source: the Iceberg specification, "Table Metadata"; Paimon's ``IcebergMetadata``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tidelake.commit.iceberg.iceberg_schema import (
    PARTITION_FIELD_ID_START,
    partition_fields,
    schema_document,
)
from tidelake.commit.iceberg.manifest_changes import Changed, live_files_count
from tidelake.commit.iceberg.manifest_files import DATA, SPEC_ID, Record
from tidelake.commit.iceberg.settings import VERSION_WITH_VECTORS, IcebergSettings
from tidelake.metadata.log.snapshot import CommitKind, Snapshot
from tidelake.types import TableSchema
from tidelake.types.field_ids import highest_id

IDENTITY = "paimon-commit-identity"  # on disk: never rename
_MAIN = "main"


def parsed(data: bytes) -> Record | None:
    """Parse a document; None if it is none, or lacks what a later one is made from."""
    try:
        document = json.loads(data)
        is_whole = (
            _has(document, int, "format-version", "last-column-id")
            and _has(document, str, "location", "table-uuid")
            and _has(document, list, "snapshots", "partition-specs")
            and all(_has(spec, list, "fields") for spec in document["partition-specs"])
            and bool(document["partition-specs"])
            and isinstance(document.get("next-row-id", 0), int)
            and all(map(_is_snapshot, document["snapshots"]))
        )
    except (ValueError, RecursionError):
        return None
    return document if is_whole else None


def _is_snapshot(found: object) -> bool:
    return (
        _has(found, int, "snapshot-id", "timestamp-ms", "schema-id")
        and _has(found, str, "manifest-list")
        and _has(found, dict, "summary")
    )


def _has(found: object, kind: type, *keys: str) -> bool:
    """Whether an object has values of a kind under some keys."""
    return isinstance(found, dict) and all(isinstance(found.get(key), kind) for key in keys)


def commit_identity(snapshot: Snapshot) -> str:
    """The text that distinguishes a commit from every other, as Java gives it."""
    if snapshot.uuid is not None:
        return snapshot.uuid
    return f"{snapshot.commit_user}:{snapshot.commit_identifier}:{snapshot.time_ms}"


def shows(iceberg_snapshot: Record, snapshot: Snapshot) -> bool:
    """Whether an Iceberg snapshot was made from this snapshot."""
    return bool(iceberg_snapshot["summary"].get(IDENTITY) == commit_identity(snapshot))


def operation_of(snapshot: Snapshot, data: Changed) -> str:
    """What Iceberg calls a change."""
    if not data.removed:
        return "append"
    return "replace" if snapshot.commit_kind is CommitKind.COMPACT else "overwrite"


def summary_of(
    snapshot: Snapshot,
    data: Changed,
    manifests: Sequence[Record],
    *,
    operation: str,
    before: Mapping[str, str],
) -> dict[str, str]:
    """The summary of a snapshot.

    Parameters
    ----------
    before : mapping
        The summary of the Iceberg snapshot before; empty if there is none.
    """
    partitions = {tuple(f["partition"].items()) for f in (*data.added, *data.removed)}
    of_data = [m for m in manifests if m["content"] == DATA]
    of_deletes = [m for m in manifests if m["content"] != DATA]
    added_bytes = sum(f["file_size_in_bytes"] for f in data.added)
    removed_bytes = sum(f["file_size_in_bytes"] for f in data.removed)
    numbers = {
        "added-data-files": len(data.added),
        "added-records": sum(f["record_count"] for f in data.added),
        "added-files-size": added_bytes,
        "deleted-data-files": len(data.removed),
        "deleted-records": sum(f["record_count"] for f in data.removed),
        "removed-files-size": removed_bytes,
        "changed-partition-count": len(partitions),
        "total-records": sum(map(_live_rows_count, of_data)),
        "total-data-files": sum(map(live_files_count, of_data)),
        "total-files-size": int(before.get("total-files-size", 0)) + added_bytes - removed_bytes,
        "total-delete-files": sum(map(live_files_count, of_deletes)),
        "total-position-deletes": sum(map(_live_rows_count, of_deletes)),
        "total-equality-deletes": 0,
    }
    return (
        dict(snapshot.properties or {})
        | {"operation": operation}
        | {key: str(value) for key, value in numbers.items()}
        | {IDENTITY: commit_identity(snapshot)}
    )


def _live_rows_count(manifest: Record) -> int:
    return int(manifest["added_rows_count"] + manifest["existing_rows_count"])


def properties_of(settings: IcebergSettings) -> dict[str, str]:
    """What of the table is shown: a document with other properties is no base for this one."""
    return {
        "tidelake.level-min": str(settings.level_min),
        "tidelake.deletion-vectors": str(settings.shows_vectors).lower(),
    }


def document_of(
    settings: IcebergSettings,
    *,
    uuid: str,
    location: str,
    schemas: Mapping[int, TableSchema],
    snapshots: Sequence[Record],
    tags: Mapping[str, int],
    next_row_id: int,
    last_column_id: int,
) -> Record:
    """Make the document of a table.

    Parameters
    ----------
    schemas : mapping of int to TableSchema
        All schemas that Iceberg can have; the newest is current.
    snapshots : sequence of dict
        The Iceberg snapshots, ascending; the last is current.
    tags : mapping of str to int
        Snapshot ids by tag; those of unknown snapshots are left out.
    next_row_id : int
        The first row id that is free.
    last_column_id : int
        The largest column id known before.
    """
    newest, current = schemas[max(schemas)], snapshots[-1]
    current_id = current["snapshot-id"]
    known = {s["snapshot-id"] for s in snapshots}
    refs: Record = {_MAIN: {"snapshot-id": current_id, "type": "branch"}}
    refs |= {
        name: {"snapshot-id": snapshot_id, "type": "tag"}
        for name, snapshot_id in sorted(tags.items())
        if snapshot_id in known and name != _MAIN
    }
    highest = max(highest_id(schema.fields) for schema in schemas.values())
    document = {
        "format-version": settings.format_version,
        "table-uuid": uuid,
        "location": location,
        "last-sequence-number": current_id,
        "last-updated-ms": max(s["timestamp-ms"] for s in snapshots),
        "last-column-id": max(highest, last_column_id),
        "schemas": [schema_document(schemas[i]) for i in sorted(schemas)],
        "current-schema-id": newest.id,
        "partition-specs": [{"spec-id": SPEC_ID, "fields": partition_fields(newest)}],
        "default-spec-id": SPEC_ID,
        "last-partition-id": PARTITION_FIELD_ID_START + len(newest.partition_keys) - 1,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "snapshots": list(snapshots),
        "current-snapshot-id": current_id,
        "snapshot-log": [
            {"snapshot-id": s["snapshot-id"], "timestamp-ms": s["timestamp-ms"]} for s in snapshots
        ],
        "properties": properties_of(settings),
        "refs": refs,
    }
    if settings.format_version >= VERSION_WITH_VECTORS:
        document["next-row-id"] = next_row_id
    return document
