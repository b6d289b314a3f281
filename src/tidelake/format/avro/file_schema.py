"""The schema in an Avro file's header: resolved for the decoder, and checked.

The schema is untrusted: it is bounded in depth and size, must not contain itself, and must not have
lists of values without bytes, because a few bytes could then claim any number of them.

Source: Avro specification 1.11, "Schema Declaration".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelake.codec.avro_block import UnreadableAvroError

DEPTH_MAX = 200
NODES_MAX = 100_000
_NAMED = frozenset({"record", "enum", "fixed"})
_PRIMITIVE = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_SHOWN = ("logicalType", "precision", "scale")


class _Resolving:
    """Replaces later references to a record by the record itself."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}
        self._nodes_count = 0

    def schema(self, given: Any, depth: int = 0) -> Any:
        self._nodes_count += 1
        if depth > DEPTH_MAX or self._nodes_count > NODES_MAX:
            raise UnreadableAvroError("its schema is too large or nested too deep")
        if isinstance(given, list):
            return [self.schema(branch, depth + 1) for branch in given]
        if isinstance(given, str):
            if given in _PRIMITIVE:
                return given
            # only complete types are known, so none contains itself
            return self.schema(self._known[given.rpartition(".")[2]], depth + 1)
        kind = given["type"]
        if kind == "record":
            number = self._nodes_count  # fastavro requires unique names
            fields = [
                {"name": field["name"], "type": self.schema(field["type"], depth + 1)}
                for field in given["fields"]
            ]
            self._known[given["name"].rpartition(".")[2]] = given
            return {"type": kind, "name": f"record{number}", "fields": fields}
        if kind in {"array", "map"}:
            key = "items" if kind == "array" else "values"
            inside = self.schema(given[key], depth + 1)
            if not _takes_bytes(inside):
                raise UnreadableAvroError("its schema has an array of values that take no bytes")
            return {"type": kind, key: inside}
        if kind in _NAMED:
            raise UnreadableAvroError(
                f"its schema has the type '{kind}', which Paimon never writes"
            )
        if kind not in _PRIMITIVE:
            return self.schema(kind, depth + 1)
        return {"type": kind, **{key: given[key] for key in _SHOWN if key in given}}


def _takes_bytes(schema: Any) -> bool:
    if isinstance(schema, dict) and schema["type"] == "record":
        return any(_takes_bytes(field["type"]) for field in schema["fields"])
    return bool(schema != "null" and schema != {"type": "null"})


def resolved_schema(given: Any) -> Any:
    """Return a schema without references and defaults.

    Raises
    ------
    UnreadableAvroError
        It is too large, contains itself, or has a type that Paimon does not write.
    """
    return _Resolving().schema(given)


def plain_schema(schema: Any) -> Any:
    """Return a resolved schema without logical types, for fastavro to decode."""
    if isinstance(schema, list):
        return [plain_schema(branch) for branch in schema]
    if isinstance(schema, str):
        return schema
    if schema["type"] == "record":
        fields = [{**field, "type": plain_schema(field["type"])} for field in schema["fields"]]
        return {**schema, "fields": fields}
    for key in ("items", "values"):
        if key in schema:
            return {"type": schema["type"], key: plain_schema(schema[key])}
    return schema["type"]


def has_same_shape(found: Any, expected: Any) -> bool:
    """Whether two schemas differ at most in record names and nullability."""
    found, expected = _without_null(found), _without_null(expected)
    if not isinstance(found, Mapping) or not isinstance(expected, Mapping):
        return bool(found == expected)
    if found["type"] != expected["type"]:
        return False
    if found["type"] == "record":
        ours, theirs = expected["fields"], found["fields"]
        return len(ours) == len(theirs) and all(
            a["name"] == b["name"] and has_same_shape(a["type"], b["type"])
            for a, b in zip(theirs, ours, strict=True)
        )
    for key in ("items", "values"):
        if key in found:
            return has_same_shape(found[key], expected[key])
    return all(found.get(key) == expected.get(key) for key in _SHOWN)


def _without_null(schema: Any) -> Any:
    if isinstance(schema, list) and len(schema) == 2 and schema[0] == "null":
        schema = schema[1]
    return schema["type"] if isinstance(schema, dict) and set(schema) == {"type"} else schema
