"""``avro`` and ``debezium-avro``: records of Avro with the number of their schema.

A message is a zero byte, four bytes of the schema's number in a registry, the first byte first, and
the record. Types are those of the schema: logical types of Avro, and the meanings that Kafka
Connect names in ``connect.name``. Where Debezium's ``column.propagate.source.type`` names a type of
MySQL, it counts, as in Paimon.

A record of ``avro`` is a row, an upsert if Kafka's key or the settings give a key; its table is the
topic.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import fastavro
import msgspec

from tidelake.cdc.kafka.events import UPDATE, MessageEvents, TableEvents
from tidelake.cdc.kafka.formats.connect_types import (
    DECIMAL,
    PRECISION,
    connect_column,
    decimal_column,
)
from tidelake.cdc.kafka.formats.debezium_json import json_key_names
from tidelake.cdc.kafka.formats.envelopes import Envelope, Envelopes, Origin
from tidelake.cdc.kafka.formats.mysql_types import mysql_column
from tidelake.cdc.kafka.images import RowLayout
from tidelake.cdc.kafka.messages import MessageBatch
from tidelake.cdc.kafka.order import offset_order
from tidelake.cdc.kafka.wire import STRING, WireColumn, WireForm, column
from tidelake.cdc.source.source_table import SourceName
from tidelake.cdc.source.type_mapping import TypeMapping
from tidelake.types import DataType, TypeRoot

MAGIC, FRAME_BYTES = 0, 5
SOURCE_TYPE, SOURCE_LENGTH, SOURCE_SCALE = (
    f"__debezium.source.column.{part}" for part in ("type", "length", "scale")
)
SchemaOf = Callable[[int], str]
"""Gives the schema of a number in the registry, as JSON."""
# errors that the decoder raises at a damaged record
_DAMAGE = (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError)
_CONNECT_KINDS = {
    "int": "int32", "long": "int64", "float": "float", "double": "double", "boolean": "boolean",
    "string": "string", "enum": "string", "bytes": "bytes", "fixed": "bytes",
}  # fmt: skip
_CONNECT_TYPES = {"int8", "int16", "int32", "int64"}
_LOGICAL = {
    "date": DataType(TypeRoot.DATE),
    "time-millis": DataType(TypeRoot.TIME, precision=3),
    "time-micros": DataType(TypeRoot.TIME, precision=3),
    "timestamp-millis": DataType(TypeRoot.TIMESTAMP, precision=3),
    "timestamp-micros": DataType(TypeRoot.TIMESTAMP, precision=6),
    "local-timestamp-millis": DataType(TypeRoot.TIMESTAMP, precision=3),
    "local-timestamp-micros": DataType(TypeRoot.TIMESTAMP, precision=6),
}
_ORIGIN_FIELDS = Origin.__struct_fields__
_ORIGIN_TYPES = msgspec.structs.fields(Origin)


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema of a registry, ready to decode.

    Parameters
    ----------
    document : dict
        As JSON.
    named : mapping of str to dict
        Its named types.
    """

    document: Any
    named: Mapping[str, Any]
    parsed: Any

    @classmethod
    def of(cls, text: str) -> AvroSchema:
        """Parse a schema; raises ``ValueError``, or an error of fastavro that is one."""
        document = msgspec.json.decode(text)
        named: dict[str, Any] = {}
        _collect(document, named, "")
        return cls(document, named, fastavro.parse_schema(document))

    def record(self, given: Any) -> Any:
        """Give the record that a type is, below a union with null; None if it is none."""
        given = self.bare(given)
        return given if isinstance(given, dict) and given.get("type") == "record" else None

    def bare(self, given: Any) -> Any:
        """Give a type without its union with null, and by its definition."""
        if isinstance(given, list):
            others = [one for one in given if one != "null"]
            if len(others) != 1:
                return given
            given = others[0]
        if isinstance(given, dict) and isinstance(given.get("type"), (dict, list)):
            return self.bare(given["type"])
        return self.named.get(given, given) if isinstance(given, str) else given

    def field(self, name: str) -> Any:
        """Give the type of a field of the record."""
        record = self.record(self.document)
        fields = record["fields"] if record else ()
        return next((one["type"] for one in fields if one["name"] == name), None)

    def layout(self, given: Any, mapping: TypeMapping) -> RowLayout:
        """Make the layout of a record; raises ``ValueError`` if it is none."""
        record = self.record(given)
        if record is None:
            raise ValueError("the row is no record")
        return RowLayout(
            tuple(_column(one["name"], self.bare(one["type"]), mapping) for one in record["fields"])
        )


def _collect(given: Any, named: dict[str, Any], space: str) -> None:
    """Find the named types of a schema."""
    if isinstance(given, list):
        for one in given:
            _collect(one, named, space)
    elif isinstance(given, dict):
        kind = given.get("type")
        space = given.get("namespace", space)
        if kind in ("record", "enum", "fixed"):
            name = given["name"]
            named[name] = given
            named[name if "." in name or not space else f"{space}.{name}"] = given
        if isinstance(kind, (dict, list)):
            _collect(kind, named, space)
        for one in given.get("fields", ()):
            _collect(one["type"], named, space)
        _collect(given.get("items"), named, space)
        _collect(given.get("values"), named, space)


def _column(name: str, given: Any, mapping: TypeMapping) -> WireColumn:
    """Make the column of a field."""
    kind = given if isinstance(given, str) else given.get("type") if given else None
    if not isinstance(given, dict):
        if isinstance(kind, str) and kind in _CONNECT_KINDS:
            return connect_column(name, _CONNECT_KINDS[kind], None, {})
        return column(name, "union", STRING, WireForm.TEXT)
    parameters = given.get("connect.parameters") or {}
    source = parameters.get(SOURCE_TYPE)
    logical, meaning = given.get("logicalType"), given.get("connect.name")
    if source is not None and meaning is None and logical is None:
        length, scale = parameters.get(SOURCE_LENGTH), parameters.get(SOURCE_SCALE)
        inside = ",".join(part for part in (length, scale) if part)
        return _propagated(mysql_column(name, _mysql_text(source, inside), mapping), kind)
    if meaning == DECIMAL or logical == "decimal":
        precision = given.get("precision", parameters.get(PRECISION))
        scale = given.get("scale", parameters.get("scale"))
        return decimal_column(name, meaning or "decimal", precision, scale)
    if meaning is None and logical in _LOGICAL:
        return column(name, str(logical), _LOGICAL[logical], WireForm.PLAIN)
    if kind == "record" and meaning is None:
        return column(name, "record", STRING, WireForm.TEXT)
    native = given.get("connect.type")
    connect = native if native in _CONNECT_TYPES else _CONNECT_KINDS.get(str(kind), str(kind))
    return connect_column(name, connect, meaning, parameters)


def _mysql_text(source: str, inside: str) -> str:
    """Put a length behind the name of a type: ``INT UNSIGNED`` is ``INT(10) unsigned``."""
    name, *rest = source.split(" ", 1)
    if rest and rest[0].upper().startswith("PRECISION"):
        name, rest = f"{name} PRECISION", [rest[0][len("PRECISION") :].strip()]
    return " ".join(filter(None, (f"{name}({inside})" if inside else name, *rest)))


def _propagated(given: WireColumn, kind: Any) -> WireColumn:
    """A column whose type is MySQL's, and whose values are Avro's."""
    if kind in ("bytes", "fixed") and given.wire is not WireForm.LATIN1:
        return column(given.name, given.source.native_type, STRING, WireForm.TEXT)
    return given


class _Records:
    """Decodes framed records."""

    def __init__(self, schema_of: SchemaOf) -> None:
        self._schema_of = schema_of
        self._schemas: dict[int, AvroSchema] = {}

    def schema(self, value: bytes) -> AvroSchema:
        """Find the schema of a message; raises ``ValueError`` if it has no frame."""
        if len(value) < FRAME_BYTES or value[0] != MAGIC:
            raise ValueError("it does not begin with the number of a schema")
        number = int.from_bytes(value[1:FRAME_BYTES], "big")
        found = self._schemas.get(number)
        if found is None:
            found = self._schemas[number] = AvroSchema.of(self._schema_of(number))
        return found

    def decode(self, value: bytes) -> tuple[AvroSchema, Any]:
        """Decode a message; raises an error of `_DAMAGE`."""
        schema = self.schema(value)
        stream = io.BytesIO(value)
        stream.seek(FRAME_BYTES)
        record = fastavro.schemaless_reader(stream, schema.parsed, None)
        if stream.tell() != len(value):
            raise ValueError(f"{len(value) - stream.tell()} bytes follow the record")
        return schema, record

    def key_names(self, key: bytes | None) -> tuple[str, ...]:
        """The names of the key's columns in a message's key: Avro or JSON."""
        if not key:
            return ()
        if key[0] != MAGIC:
            return json_key_names(key)
        try:
            schema = self.schema(key)
        except ValueError:
            return ()
        record = schema.record(schema.document)
        return tuple(one["name"] for one in record["fields"]) if record else ()


class DebeziumAvro:
    """Reads ``debezium-avro``. For one thread.

    Cost: a call of the decoder for each message, about 20 us.
    """

    def __init__(
        self,
        schema_of: SchemaOf,
        *,
        mapping: TypeMapping | None = None,
        uses_places: bool = True,
    ) -> None:
        self._records = _Records(schema_of)
        self._mapping = mapping or TypeMapping()
        self._envelopes = Envelopes(self._records.key_names, uses_places)
        self._layouts: dict[int, RowLayout] = {}

    def events(self, batch: MessageBatch) -> MessageEvents:
        """Say what messages say."""
        places: list[int] = []
        found: list[Envelope] = []
        layouts: list[RowLayout] = []
        bad: dict[int, str] = {}
        for place, value in enumerate(batch.values):
            if not value:
                continue
            try:
                schema, record = self._records.decode(value)
                layout = self._layout(schema)
                found.append(_envelope(record))
            except _DAMAGE as error:
                bad[place] = f"not a message of debezium-avro: {error}"
                continue
            places.append(place)
            layouts.append(layout)
        return self._envelopes.grouped(batch, places, found, layouts, bad)

    def _layout(self, schema: AvroSchema) -> RowLayout:
        known = self._layouts.get(id(schema))
        if known is None:
            row = schema.field("after") or schema.field("before")
            known = self._layouts[id(schema)] = schema.layout(row, self._mapping)
        return known


def _envelope(record: Any) -> Envelope:
    if not isinstance(record, dict) or not isinstance(record.get("op"), str):
        raise ValueError("member 'op' is missing")
    source = record.get("source")
    given = {name: source[name] for name in _ORIGIN_FIELDS if name in source} if source else {}
    time = record.get("ts_ms")
    return Envelope(record["op"], Origin(**given), record.get("before"), record.get("after"), time)


class AvroRows:
    """Reads ``avro``: each record is a row. For one thread."""

    def __init__(self, schema_of: SchemaOf, *, mapping: TypeMapping | None = None) -> None:
        self._records = _Records(schema_of)
        self._mapping = mapping or TypeMapping()
        self._layouts: dict[int, RowLayout] = {}

    def events(self, batch: MessageBatch) -> MessageEvents:
        """Say what messages say."""
        groups: dict[tuple[str, int], TableEvents] = {}
        bad: dict[int, str] = {}
        offsets, partitions = batch.offsets.tolist(), batch.partitions.tolist()
        times = batch.times_ms.tolist()
        for place, value in enumerate(batch.values):
            if not value:
                continue
            try:
                schema, record = self._records.decode(value)
                layout = self._layouts.get(id(schema))
                if layout is None:
                    layout = schema.layout(schema.document, self._mapping)
                    self._layouts[id(schema)] = layout
            except _DAMAGE as error:
                bad[place] = f"not a message of avro: {error}"
                continue
            topic = batch.topics[place]
            events = groups.get((topic, id(layout)))
            if events is None:
                keys = self._records.key_names(batch.keys[place])
                events = TableEvents(SourceName("", "", topic), layout, keys)
                groups[topic, id(layout)] = events
            first, second = offset_order(partitions[place], offsets[place])
            events.messages.append(place)
            events.kinds.append(UPDATE)
            events.images.append(record)
            events.before.append(None)
            events.first.append(first)
            events.second.append(second)
            events.changed_ms.append(times[place])
        return MessageEvents(tuple(groups.values()), {}, bad)
