"""A table's schema: fields with ids, keys, options, and its JSON form in ``schema/schema-N``.

Source: the schema files of Paimon 1.3.1 and 2.1 (version 3); ``docs/format/schema.md``.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tidelake.errors import (
    CorruptError,
    NotFoundError,
    TidelakeError,
    UnsupportedError,
    near_names,
    shortened,
)
from tidelake.types.data_type import DataType, parse_type, type_to_json
from tidelake.types.json_checksum import check_and_drop, with_checksum

__all__ = ["SCHEMA_VERSION", "DataField", "TableSchema", "field_to_json"]

SCHEMA_VERSION = 3  # on disk: never renumber


@dataclass(frozen=True, slots=True)
class DataField:
    """One column: its id never changes, its name may."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None


@dataclass(frozen=True, slots=True)
class TableSchema:
    """One version of a table's schema.

    Parameters
    ----------
    id : int
        Number of the schema file, from 0.
    fields : tuple of DataField
        The columns in order.
    highest_field_id : int
        The largest id ever given, dropped columns included.
    time_ms : int
        When it was made, ms since the epoch.
    """

    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = dataclasses.field(default_factory=lambda: MappingProxyType({}))
    comment: str | None = None
    time_ms: int = 0

    @property
    def field_names(self) -> tuple[str, ...]:
        """The columns' names in order."""
        return tuple(f.name for f in self.fields)

    def field(self, name: str) -> DataField:
        """One column by name.

        Raises
        ------
        NotFoundError
            No such column; the message offers near names.
        """
        for candidate in self.fields:
            if candidate.name == name:
                return candidate
        message = (
            f"Column '{shortened(name)}' does not exist.{near_names(name, self.field_names)}"
            f" The columns are: {', '.join(self.field_names)}."
        )
        raise NotFoundError(message, kind="column_not_found", column=name)

    @property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """The primary key without the partition columns: the key inside one partition."""
        return tuple(k for k in self.primary_keys if k not in self.partition_keys)

    @property
    def keys_may_move(self) -> bool:
        """Whether a key may change partition: it lacks a partition column."""
        return bool(self.primary_keys) and not set(self.partition_keys) <= set(self.primary_keys)

    @property
    def bucket_keys(self) -> tuple[str, ...]:
        """The columns that decide a row's bucket: ``bucket-key``, else the trimmed primary key."""
        given = self.options.get("bucket-key")
        if given:
            return tuple(part.strip() for part in given.split(","))
        return self.trimmed_primary_keys

    def to_json(self) -> str:
        """The text of the schema file, keys in Paimon's order, a checksum as the last."""
        document: dict[str, Any] = {
            "version": SCHEMA_VERSION,
            "id": self.id,
            "fields": [field_to_json(f) for f in self.fields],
            "highestFieldId": self.highest_field_id,
            "partitionKeys": list(self.partition_keys),
            "primaryKeys": list(self.primary_keys),
            "options": dict(self.options),
        }
        if self.comment is not None:
            document["comment"] = self.comment
        document["timeMillis"] = self.time_ms
        return json.dumps(with_checksum(document), indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes, *, path: str = "schema") -> TableSchema:
        """Read a schema file.

        Raises
        ------
        CorruptError
            The text is not a schema.
        UnsupportedError
            The schema's version is newer than this library knows, or the type of a column.
        """
        try:
            document = check_and_drop(json.loads(text))
            version = int(document.get("version", 1))
            if version > SCHEMA_VERSION:
                message = (
                    f"Schema file {path} has version {version}; this library reads up to"
                    f" {SCHEMA_VERSION}. Upgrade tidelake."
                )
                raise UnsupportedError(message, kind="schema_version", path=path)
            options = {str(k): str(v) for k, v in (document.get("options") or {}).items()}
            if version <= 1 and "bucket" not in options:
                options["bucket"] = "1"
            if version <= 2 and "file.format" not in options:
                options["file.format"] = "orc"
            fields = tuple(field_from_json(f) for f in document["fields"])
            _check_siblings([(f.id, f.name) for f in fields], (f.type for f in fields), "columns")
            return cls(
                id=int(document["id"]),
                fields=fields,
                highest_field_id=int(document["highestFieldId"]),
                partition_keys=tuple(document["partitionKeys"]),
                primary_keys=tuple(document["primaryKeys"]),
                options=MappingProxyType(options),
                comment=document.get("comment"),
                time_ms=int(document.get("timeMillis") or 0),
            )
        except UnsupportedError as error:
            if error.kind != "type":
                raise
            message = (
                f"{error.message} Schema file {path} has it: read such a table with Java Paimon,"
                " which can copy its other columns into a table of their own."
            )
            raise UnsupportedError(message, kind=error.kind, path=path) from error
        except (
            CorruptError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
        ) as error:
            reason = str(error) if isinstance(error, TidelakeError) else f"{error!r}."
            message = f"Schema file {path} cannot be read: {reason} Restore it from a backup."
            raise CorruptError(message, kind="schema_file", path=path) from error

    def __reduce__(self) -> tuple[object, ...]:
        # MappingProxyType does not pickle; schemas travel to Spark executors.
        return (_schema_from_parts, (self.to_json(),))


def _schema_from_parts(text: str) -> TableSchema:
    return TableSchema.from_json(text)


def field_to_json(data_field: DataField) -> dict[str, Any]:
    """Return a column as its object in a schema file."""
    document: dict[str, Any] = {
        "id": data_field.id,
        "name": data_field.name,
        "type": type_to_json(data_field.type),
    }
    if data_field.description is not None:
        document["description"] = data_field.description
    if data_field.default_value is not None:
        document["defaultValue"] = data_field.default_value
    return document


def _check_siblings(
    ids_and_names: Sequence[tuple[int, str]], types: Iterable[DataType], what: str
) -> None:
    """Refuse two columns, or two fields of one row, with the same name or id.

    Nobody could tell which is meant. The fields of different rows may have equal ids: they are
    only looked up within their row.
    """
    for place, how in ((0, "have id"), (1, "are called")):
        counts = Counter(pair[place] for pair in ids_and_names)
        if len(counts) < len(ids_and_names):
            [(twice, count)] = counts.most_common(1)
            names = ", ".join(repr(shortened(name)) for i, name in ids_and_names if i == twice)
            which = f" ({names})" if place == 0 else ""
            message = f"{count} {what} {how} {shortened(str(twice))!r}{which}."
            raise CorruptError(message, kind="schema_file")
    for data_type in types:
        if data_type.is_nested:
            _check_siblings(data_type.child_fields, data_type.children, "fields of one row")


def field_from_json(document: dict[str, Any]) -> DataField:
    """Return a column from its object in a schema file, or of a view.

    Raises
    ------
    UnsupportedError
        The type is one of a later Paimon; the message names the column.
    """
    name = str(document["name"])
    try:
        data_type = parse_type(document["type"])
    except UnsupportedError as error:
        message = f"Column '{name}': {error.message}"
        raise UnsupportedError(message, kind=error.kind, column=name) from error
    return DataField(
        id=int(document["id"]),
        name=name,
        type=data_type,
        description=document.get("description"),
        default_value=document.get("defaultValue"),
    )
