"""``debezium-json``: envelopes with or without the part ``schema``.

1. The envelope is decoded, and the images before and after stay bytes.
2. With ``schema`` the columns have its types. Without, columns are texts, but for those declared;
   a decimal that is sent as base64 of its bytes then cannot be told from a text. Set
   ``decimal.handling.mode=string`` in the connector, or send the schema.
3. The key is that of Kafka's message, else ``pkNames``. Debezium sends a change of the key as a
   delete and an insert, so that with a message's key no old row is looked at.

Source: Debezium's page on the topology of events, and Paimon's ``DebeziumJsonRecordParser``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from tidelake.cdc.kafka.events import MessageEvents
from tidelake.cdc.kafka.formats.connect_types import connect_layout
from tidelake.cdc.kafka.formats.envelopes import Envelopes, Origin
from tidelake.cdc.kafka.images import RowLayout
from tidelake.cdc.kafka.messages import MessageBatch

SCHEMAS_KEPT = 1_024
OPEN = RowLayout((), is_open=True)
_NULL = msgspec.Raw(b"null")
_ABSENT = msgspec.Raw(b"")
Decode = Callable[[bytes], Any]


class Payload(msgspec.Struct, gc=False):
    """An envelope, or a message about the source: of a statement or a transaction."""

    op: str | None = None
    source: Origin | None = None
    before: msgspec.Raw = _NULL
    after: msgspec.Raw = _NULL
    ts_ms: int | None = None
    pkNames: list[str] | None = None
    ddl: msgspec.Raw = _ABSENT
    status: msgspec.Raw = _ABSENT


class Message(Payload, gc=False):
    """An envelope, perhaps below its schema."""

    schema: msgspec.Raw = _NULL
    payload: Payload | None = None


POSTGRES = "postgresql"
SPECIAL_KEPT = 256


def special_decoder(origin: Origin) -> Decode:
    """Make the decoder of messages of one table of PostgreSQL, without a schema.

    It takes half the time of the general one, as it makes no new texts of names. It refuses all
    other messages.
    """
    source = msgspec.defstruct(
        "PostgresOrigin",
        [
            ("connector", Literal[POSTGRES]),
            ("db", Literal[origin.db]),
            ("schema", Literal[origin.schema]),
            ("table", Literal[origin.table]),
            ("lsn", int),
            ("ts_ms", int),
        ],
        gc=False,
    )
    message = msgspec.defstruct(
        "PostgresMessage",
        [
            ("op", Literal["c", "r", "u", "d"]),
            ("source", source),
            ("before", msgspec.Raw, _NULL),
            ("after", msgspec.Raw, _NULL),
            ("pkNames", list[str] | None, None),
        ],
        gc=False,
    )
    return msgspec.json.Decoder(message).decode


class DebeziumJson:
    """Reads ``debezium-json``. For one thread.

    Parameters
    ----------
    uses_places : bool
        Whether the place in the source's log is the order.
    """

    def __init__(self, *, uses_places: bool = True) -> None:
        self._envelopes = Envelopes(json_key_names, uses_places)
        self._decode = msgspec.json.Decoder(Message).decode
        self._special: dict[tuple[str | None, ...], Decode] = {}
        self._layouts: dict[bytes, RowLayout] = {}

    def events(self, batch: MessageBatch) -> MessageEvents:
        """Say what messages say."""
        bad: dict[int, str] = {}
        common = self._of_one_table(batch)
        if common is not None:
            return MessageEvents((self._envelopes.of_one_table(batch, common, OPEN),))
        places, found = self._messages(batch, bad)
        if None in [one.op for one in found]:
            return self._with_schemas(batch, places, found, bad)
        return self._envelopes.grouped(batch, places, found, [OPEN] * len(found), bad)

    def _of_one_table(self, batch: MessageBatch) -> list[Any] | None:
        """Read messages that are all of one table of PostgreSQL; None if one is not."""
        values: Any = batch.values
        try:
            origin = self._decode(values[0]).source
            if origin is None or origin.connector != POSTGRES or not origin.table:
                return None
            name = (origin.db, origin.schema, origin.table)
            decode = self._special.get(name)
            if decode is None:
                if len(self._special) >= SPECIAL_KEPT:
                    self._special.clear()
                decode = self._special[name] = special_decoder(origin)
            return [decode(value) for value in values]
        except (msgspec.DecodeError, UnicodeDecodeError, TypeError, IndexError):
            return None

    def _messages(
        self, batch: MessageBatch, bad: dict[int, str]
    ) -> tuple[list[int], list[Message]]:
        decode, values = self._decode, batch.values
        try:
            if None not in values:
                return list(range(len(values))), [decode(value) for value in values]  # type: ignore[arg-type]
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
        places: list[int] = []
        found: list[Message] = []
        for place, value in enumerate(values):
            if not value or value == b"null":
                continue
            try:
                found.append(decode(value))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                bad[place] = f"not a message of debezium-json: {error}"
            else:
                places.append(place)
        return places, found

    def _with_schemas(
        self,
        batch: MessageBatch,
        places: Sequence[int],
        found: Sequence[Message],
        bad: dict[int, str],
    ) -> MessageEvents:
        """Take the payloads out of messages with a schema."""
        kept: list[int] = []
        payloads: list[Any] = []
        layouts: list[RowLayout] = []
        for place, one in zip(places, found, strict=True):
            payload: Any = one if one.op is not None else one.payload or one
            if payload.op is None:
                if payload.ddl is _ABSENT and payload.status is _ABSENT:
                    bad[place] = "member 'op' is missing"
                continue
            try:
                layouts.append(self._layout(bytes(one.schema)))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                bad[place] = f"member 'schema' is no schema of a change: {error}"
                continue
            kept.append(place)
            payloads.append(payload)
        return self._envelopes.grouped(batch, kept, payloads, layouts, bad)

    def _layout(self, schema: bytes) -> RowLayout:
        if schema == b"null":
            return OPEN
        known = self._layouts.get(schema)
        if known is None:
            if len(self._layouts) >= SCHEMAS_KEPT:
                self._layouts.clear()
            known = self._layouts[schema] = connect_layout(msgspec.json.decode(schema))
        return known


def json_key_names(key: bytes | None) -> tuple[str, ...]:
    """The names of the key's columns in a message's key; none if it is no JSON object."""
    if not key:
        return ()
    try:
        found = msgspec.json.decode(key)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ()
    if isinstance(found, dict) and "payload" in found and "schema" in found:
        found = found["payload"]
    return tuple(found) if isinstance(found, dict) else ()
