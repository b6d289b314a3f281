"""The Avro schemas of manifests and manifest lists, field by field in Paimon's order.

Names, order and types are those in files written by Java Paimon 1.3.1; the fields that 2.x adds
(``*_2X``) are written only where a value needs them, so that what 1.3.1 wrote stays as it was.
On disk: never rename or reorder. ``docs/format/manifest.md`` shows the bytes.
"""

from __future__ import annotations

from typing import Any

CODEC = "zstandard"
"""Their compression if no option sets it."""

ENTRY_VERSION = 2
"""``_VERSION`` of entries and of manifest lists (on disk: never renumber)."""

_ROOT = "record"
_NAMESPACE = "org.apache.paimon.avro.generated"

Field = dict[str, Any]


def _field(name: str, kind: Any) -> Field:
    return {"name": name, "type": kind}


def _optional(name: str, kind: Any) -> Field:
    return {"name": name, "type": ["null", kind], "default": None}


def _array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _record(name: str, *fields: Field) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def _root(*fields: Field) -> dict[str, Any]:
    return {"type": "record", "name": _ROOT, "namespace": _NAMESPACE, "fields": list(fields)}


def _stats(field_name: str, record_name: str) -> Field:
    return _field(
        field_name,
        _record(
            record_name,
            _field("_MIN_VALUES", "bytes"),
            _field("_MAX_VALUES", "bytes"),
            _optional("_NULL_COUNTS", _array(["null", "long"])),
        ),
    )


def _entry(*later: Field) -> dict[str, Any]:
    return _root(
        _field("_VERSION", "int"),
        _field("_KIND", "int"),
        _field("_PARTITION", "bytes"),
        _field("_BUCKET", "int"),
        _field("_TOTAL_BUCKETS", "int"),
        _field(
            "_FILE",
            _record(
                "record__FILE",
                _field("_FILE_NAME", "string"),
                _field("_FILE_SIZE", "long"),
                _field("_ROW_COUNT", "long"),
                _field("_MIN_KEY", "bytes"),
                _field("_MAX_KEY", "bytes"),
                _stats("_KEY_STATS", "record__FILE__KEY_STATS"),
                _stats("_VALUE_STATS", "record__FILE__VALUE_STATS"),
                _field("_MIN_SEQUENCE_NUMBER", "long"),
                _field("_MAX_SEQUENCE_NUMBER", "long"),
                _field("_SCHEMA_ID", "long"),
                _field("_LEVEL", "int"),
                _field("_EXTRA_FILES", _array("string")),
                _optional("_CREATION_TIME", {"type": "long", "logicalType": "timestamp-millis"}),
                _optional("_DELETE_ROW_COUNT", "long"),
                _optional("_EMBEDDED_FILE_INDEX", "bytes"),
                _optional("_FILE_SOURCE", "int"),
                _optional("_VALUE_STATS_COLS", _array("string")),
                _optional("_EXTERNAL_PATH", "string"),
                _optional("_FIRST_ROW_ID", "long"),
                _optional("_WRITE_COLS", _array("string")),
                *later,
            ),
        ),
    )


def _list(*later: Field) -> dict[str, Any]:
    return _root(
        _field("_VERSION", "int"),
        _field("_FILE_NAME", "string"),
        _field("_FILE_SIZE", "long"),
        _field("_NUM_ADDED_FILES", "long"),
        _field("_NUM_DELETED_FILES", "long"),
        _stats("_PARTITION_STATS", "record__PARTITION_STATS"),
        _field("_SCHEMA_ID", "long"),
        _optional("_MIN_BUCKET", "int"),
        _optional("_MAX_BUCKET", "int"),
        _optional("_MIN_LEVEL", "int"),
        _optional("_MAX_LEVEL", "int"),
        *later,
    )


ENTRY_SCHEMA = _entry()
ENTRY_SCHEMA_2X = _entry(_optional("_WRITE_COLS_SEQUENCES", _array("long")))
LIST_SCHEMA = _list()
LIST_SCHEMA_2X = _list(_optional("_MIN_ROW_ID", "long"), _optional("_MAX_ROW_ID", "long"))
