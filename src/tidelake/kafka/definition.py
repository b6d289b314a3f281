"""The declaration of a table of Kafka: columns, formats and options, all checked.

A table has physical columns, which are in the messages, and metadata columns, which Kafka gives for
each message. The key's columns are in the key; the value has all physical columns, or the others.

Source: ``KafkaDynamicTableFactory`` and ``UpsertKafkaDynamicTableFactory`` of Flink's connector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidelake.engine.messages import Decoder, Encoder, GivenOptions, MessageFormat, format_named
from tidelake.errors import InvalidInputError, UnsupportedError, near_names
from tidelake.kafka import table_options as own
from tidelake.kafka.properties import client_settings
from tidelake.types import DataField, DataType, TypeRoot
from tidelake.types.arrow import check_names_once
from tidelake.types.data_type import parse_type_text

SERVERS = "properties.bootstrap.servers"
METADATA: Mapping[str, DataType] = {
    "topic": parse_type_text("STRING"),
    "partition": parse_type_text("INT"),
    "offset": parse_type_text("BIGINT"),
    "timestamp": parse_type_text("TIMESTAMP_LTZ(3)"),
    "timestamp-type": parse_type_text("STRING"),
    "headers": parse_type_text("MAP<STRING, BYTES>"),
    "leader-epoch": parse_type_text("INT"),
}
"""The metadata of a message, with their types."""
WRITABLE = frozenset({"timestamp", "headers"})
_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_INTEGERS = frozenset({TypeRoot.INT, TypeRoot.BIGINT})
_ALIKE = {
    "partition": _INTEGERS,
    "offset": frozenset({TypeRoot.BIGINT}),
    "leader-epoch": _INTEGERS,
    "timestamp": _TIMESTAMPS,
}


@dataclass(frozen=True, slots=True)
class MetadataColumn:
    """A metadata column of the declaration.

    Parameters
    ----------
    is_virtual : bool
        Whether it is read-only.
    """

    key: str
    is_virtual: bool = False


@dataclass(frozen=True, slots=True)
class MessagePart:
    """The key or the value of messages."""

    format_name: str
    options: GivenOptions
    fields: tuple[DataField, ...]
    names: tuple[str, ...]

    def decoder(self, columns: Sequence[str], *, table: str) -> Decoder:
        """Make the decoder of columns, by their names in the table."""
        inside = dict(zip(self.names, (f.name for f in self.fields), strict=True))
        return self._format(table).decoder(self.fields, [inside[c] for c in columns], self.options)

    def encoder(self, *, table: str) -> Encoder:
        """Make the encoder of all columns."""
        return self._format(table).writer(self.fields, self.options)

    def has_changes(self, *, table: str) -> bool:
        """Whether messages give the kind of each row."""
        return self._format(table).has_changes

    def _format(self, table: str) -> MessageFormat:
        return format_named(self.format_name, option="format", table=table)


@dataclass(frozen=True, slots=True)
class KafkaTable:
    """A declared table. Picklable.

    Parameters
    ----------
    is_upsert : bool
        Whether a message replaces the previous one of its key, and one without a value deletes it.
    key, value : MessagePart
        The parts of messages; without a key format a table has no key.
    settings : mapping
        Settings of the client's library. Not shown, since they hold passwords.
    """

    name: str
    fields: tuple[DataField, ...]
    metadata: Mapping[str, MetadataColumn]
    primary_keys: tuple[str, ...]
    is_upsert: bool
    key: MessagePart | None
    value: MessagePart
    options: GivenOptions
    settings: Mapping[str, str] = field(repr=False)
    raw: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(
        cls,
        name: str,
        fields: Sequence[DataField],
        options: Mapping[str, str],
        *,
        metadata: Mapping[str, MetadataColumn] | None = None,
        primary_keys: Sequence[str] = (),
    ) -> KafkaTable:
        """Check a declaration.

        Parameters
        ----------
        options : mapping of str to str
            With ``connector`` = ``kafka`` or ``upsert-kafka``.

        Raises
        ------
        InvalidInputError, UnsupportedError
            An option or column is missing, misspelt, or does not fit.
        """
        return _Declaration(name, tuple(fields), dict(options), metadata or {}).table(
            tuple(primary_keys)
        )

    def with_options(self, options: Mapping[str, str]) -> KafkaTable:
        """Make the table with other options for one use."""
        return KafkaTable.of(
            self.name,
            self.fields,
            {**self.raw, **options},
            metadata=self.metadata,
            primary_keys=self.primary_keys,
        )

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics by name; empty if a pattern selects them."""
        given = self.options[own.TOPIC]
        return () if given is None else tuple(t.strip() for t in given.split(";") if t.strip())

    @property
    def has_changes(self) -> bool:
        """Whether rows have kinds other than insert."""
        return self.is_upsert or self.value.has_changes(table=self.name)

    def field(self, name: str) -> DataField:
        """Find a column.

        Raises
        ------
        InvalidInputError
            There is none; the message suggests near names.
        """
        for one in self.fields:
            if one.name == name:
                return one
        names = [f.name for f in self.fields]
        message = f"Table '{self.name}' has no column '{name}'.{near_names(name, names)}"
        raise InvalidInputError(message, kind="column_not_found", table=self.name, column=name)

    @property
    def written_fields(self) -> tuple[DataField, ...]:
        """The columns of an INSERT."""
        return tuple(
            f
            for f in self.fields
            if f.name not in self.metadata or not self.metadata[f.name].is_virtual
        )


class _Declaration:
    """Checks the parts of a declaration in turn."""

    def __init__(
        self,
        name: str,
        fields: tuple[DataField, ...],
        options: dict[str, str],
        metadata: Mapping[str, MetadataColumn],
    ) -> None:
        self.name, self.fields, self.raw, self.metadata = name, fields, options, metadata
        self.physical = [f for f in fields if f.name not in metadata]

    def table(self, primary_keys: tuple[str, ...]) -> KafkaTable:
        connector = self.raw.get("connector")
        if connector not in own.CONNECTORS:
            raise self._wrong("connector", "must be 'kafka' or 'upsert-kafka'")
        is_upsert = connector == own.UPSERT
        if not self.physical:
            message = f"Table '{self.name}' needs a column that is not metadata."
            raise InvalidInputError(message, kind="no_columns", table=self.name)
        check_names_once([f.name for f in self.fields], f"Table '{self.name}'")
        self._check_metadata()
        rest = {k: v for k, v in self.raw.items() if k != "connector"}
        properties = {
            k.removeprefix(own.PROPERTIES): rest.pop(k)
            for k in list(rest)
            if k.startswith(own.PROPERTIES)
        }
        if not properties.get("bootstrap.servers"):
            raise self._missing(SERVERS, "the broker's host and port")
        formats, of_formats = self._formats(rest, is_upsert=is_upsert)
        rest = {k: v for k, v in rest.items() if k not in of_formats}
        options = GivenOptions.parse(rest, own.DECLARED, table=self.name)
        self._check_options(options, is_upsert=is_upsert)
        if is_upsert and not primary_keys:
            message = (
                f"Table '{self.name}' of connector 'upsert-kafka' needs a PRIMARY KEY (...) NOT"
                " ENFORCED: its columns are the key of messages."
            )
            raise InvalidInputError(message, kind="primary_key", table=self.name)
        key_names = self._key_names(options, primary_keys, is_upsert=is_upsert)
        key, value = self._parts(formats, key_names, options)
        made = KafkaTable(
            self.name,
            self.fields,
            dict(self.metadata),
            primary_keys,
            is_upsert,
            key,
            value,
            options,
            client_settings(properties, table=self.name),
            self.raw,
        )
        if primary_keys and not made.has_changes:
            message = (
                f"Table '{self.name}' has a PRIMARY KEY, but messages of the format"
                f" '{value.format_name}' in connector 'kafka' are inserts: use 'upsert-kafka', or"
                " leave out the key."
            )
            raise InvalidInputError(message, kind="primary_key", table=self.name)
        # check the columns now, not at the first message
        for part in filter(None, (key, value)):
            part.decoder(part.names, table=self.name)
        return made

    def _formats(
        self, rest: dict[str, str], *, is_upsert: bool
    ) -> tuple[dict[str, tuple[str, GivenOptions]], set[str]]:
        """Parse the formats of key and value with their options; return the options' keys, too."""
        plain, valued = rest.get("format"), rest.get("value.format")
        if plain and valued:
            raise self._wrong("format", "and 'value.format' are the same: give one of them")
        if not plain and not valued:
            raise self._missing("value.format" if is_upsert else "format", "json, avro, csv, ...")
        names = {"value": ("format" if plain else "value.format", plain or valued or "")}
        if "key.format" in rest:
            names["key"] = ("key.format", rest["key.format"])
        found: dict[str, tuple[str, GivenOptions]] = {}
        taken: set[str] = set()
        for part, (option, name) in names.items():
            known = format_named(name, option=option, table=self.name)
            prefix = "" if option == "format" else f"{part}."
            given = {
                key: value for key, value in rest.items() if key.startswith(f"{prefix}{name}.")
            }
            taken |= set(given)
            texts = {key.removeprefix(prefix): value for key, value in given.items()}
            found[part] = (name, GivenOptions.parse(texts, known.options, table=self.name))
            if part == "key" and known.has_changes:
                raise self._wrong("key.format", "is a change log, which a key cannot be")
            if part == "value" and is_upsert and known.has_changes:
                raise self._wrong(
                    option, "is a change log: 'upsert-kafka' has changes by itself; use 'json'"
                )
        return found, taken

    def _key_names(
        self, options: GivenOptions, primary_keys: tuple[str, ...], *, is_upsert: bool
    ) -> list[str]:
        given = options[own.KEY_FIELDS]
        if is_upsert:
            if given is not None:
                raise self._wrong(
                    "key.fields", "is the PRIMARY KEY of 'upsert-kafka': leave it out"
                )
            names = list(primary_keys)
        else:
            names = [n.strip() for n in (given or "").split(";") if n.strip()]
        if bool(names) != options.has(own.KEY_FORMAT):
            if names:
                raise self._missing("key.format", "the format of the key's columns")
            raise self._missing("key.fields", "the columns that are in the key")
        physical = [f.name for f in self.physical]
        prefix = options[own.KEY_FIELDS_PREFIX]
        for name in names:
            if name not in physical:
                raise self._wrong(
                    "key.fields",
                    f"names no column '{name}' in messages{near_names(name, physical)}",
                )
            if not name.startswith(prefix):
                raise self._wrong("key.fields-prefix", f"does not begin the column '{name}'")
        if prefix and options[own.FIELDS_INCLUDE] != "EXCEPT_KEY":
            raise self._wrong("key.fields-prefix", "needs 'value.fields-include' = 'EXCEPT_KEY'")
        return names

    def _parts(
        self,
        formats: Mapping[str, tuple[str, GivenOptions]],
        key_names: Sequence[str],
        options: GivenOptions,
    ) -> tuple[MessagePart | None, MessagePart]:
        prefix = options[own.KEY_FIELDS_PREFIX]
        named = {f.name: f for f in self.physical}
        key = None
        if key_names:
            inside = tuple(
                replace(named[name], name=name.removeprefix(prefix)) for name in key_names
            )
            key = MessagePart(*formats["key"], inside, tuple(key_names))
        without = set(key_names) if options[own.FIELDS_INCLUDE] == "EXCEPT_KEY" else set()
        valued = tuple(f for f in self.physical if f.name not in without)
        if not valued:
            raise self._wrong("value.fields-include", "leaves no column for the value")
        return key, MessagePart(*formats["value"], valued, tuple(f.name for f in valued))

    def _check_options(self, options: GivenOptions, *, is_upsert: bool) -> None:
        topic, pattern = options[own.TOPIC], options[own.TOPIC_PATTERN]
        if topic and pattern:
            raise self._wrong("topic", "and 'topic-pattern' exclude each other")
        if not topic and not pattern:
            raise self._missing("topic", "its name")
        for mode, word, needed in (
            (own.STARTUP_MODE, "timestamp", own.STARTUP_TIMESTAMP),
            (own.STARTUP_MODE, "specific-offsets", own.STARTUP_OFFSETS),
            (own.BOUNDED_MODE, "timestamp", own.BOUNDED_TIMESTAMP),
            (own.BOUNDED_MODE, "specific-offsets", own.BOUNDED_OFFSETS),
        ):
            if options[mode] == word and not options.has(needed):
                raise self._missing(needed.key, f"as '{mode.key}' is '{word}'")
        mode = options.values.get(own.STARTUP_MODE.key, "earliest-offset")
        if is_upsert and mode != "earliest-offset":
            raise self._wrong(
                "scan.startup.mode",
                "must be 'earliest-offset' with 'upsert-kafka': a key's rows may be at any offset",
            )
        to_table = options[own.BAD_RECORD] == "dead-letter"
        if to_table and not options[own.DEAD_LETTER_TABLE]:
            raise self._missing(own.DEAD_LETTER_TABLE.key, "'database.table'")
        if options[own.DEAD_LETTER_TABLE] and not to_table:
            raise self._wrong(own.DEAD_LETTER_TABLE.key, "needs 'scan.bad-record' = 'dead-letter'")
        if options[own.GUARANTEE] == "exactly-once":
            message = (
                f"Option 'sink.delivery-guarantee' of table '{self.name}' is 'exactly-once', which"
                " is not supported: a repeated batch writes its messages again. Leave the option"
                " out and let readers drop repeated messages, or write into a table of Tidelake."
            )
            raise UnsupportedError(
                message, kind="option_unsupported", option=own.GUARANTEE.key, table=self.name
            )

    def _check_metadata(self) -> None:
        for name, column in self.metadata.items():
            if column.key not in METADATA:
                message = (
                    f"Column '{name}' of table '{self.name}' is METADATA FROM '{column.key}',"
                    f" which does not exist.{near_names(column.key, METADATA)} Metadata are"
                    f" {', '.join(METADATA)}."
                )
                raise InvalidInputError(
                    message, kind="metadata_column", table=self.name, column=name
                )
            kind = next(f.type for f in self.fields if f.name == name)
            wanted = METADATA[column.key]
            roots = _ALIKE.get(column.key, frozenset({wanted.root}))
            if kind.root not in roots or kind.children != wanted.children:
                message = (
                    f"Column '{name}' of table '{self.name}' is {kind}, but METADATA FROM"
                    f" '{column.key}' is {wanted}: give it that type."
                )
                raise InvalidInputError(
                    message, kind="metadata_column", table=self.name, column=name
                )
            if not column.is_virtual and column.key not in WRITABLE:
                message = (
                    f"Column '{name}' of table '{self.name}' is METADATA FROM '{column.key}',"
                    " which is read-only: write VIRTUAL behind it."
                )
                raise InvalidInputError(
                    message, kind="metadata_column", table=self.name, column=name
                )

    def _missing(self, option: str, what: str) -> InvalidInputError:
        message = f"Table '{self.name}' needs the option '{option}': {what}."
        return InvalidInputError(message, kind="option_missing", option=option, table=self.name)

    def _wrong(self, option: str, what: str) -> InvalidInputError:
        message = f"Option '{option}' of table '{self.name}' {what}."
        return InvalidInputError(message, kind="option_value", option=option, table=self.name)
