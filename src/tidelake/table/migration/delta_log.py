"""The newest state of a Delta table, from its log: ``_delta_log/<version>.json`` and checkpoints.

1. The newest whole checkpoint is read, then the versions after it, in order. ``add`` and ``remove``
   name files, ``metaData`` and ``protocol`` replace what was before.
2. A file may have a deletion vector (:mod:`tidelake.table.migration.delta_vectors`). What else the
   files alone do not say is refused: files outside the directory, features of readers that are not
   known here.
3. With column mapping the files' columns have names of their own, and are found by their ids. A
   table that got it later (by name) has files without ids: they are found by those names. The mode
   counts only where the protocol has the feature.
4. What a table of Paimon cannot keep is named: CHECKs, generated columns, defaults.

Source: the protocol of Delta, versions 1 to 3 of readers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from tidelake.errors import CorruptError, NotFoundError, TidelakeError, UnsupportedError
from tidelake.fileio import FileIO
from tidelake.format.parquet.foreign_footer import foreign_rows
from tidelake.table.migration.delta_vectors import DeltaVector
from tidelake.table.migration.foreign_table import (
    PARTITION_TYPES,
    ForeignFile,
    IncomingTable,
)
from tidelake.types import DataField, DataType, TypeRoot, parse_type
from tidelake.types.default_value import default_scalar
from tidelake.types.values import arrow_to_storage

READER_VERSION_MAX = 3
LOG_BYTES_MAX = 256 << 20
_VERSION = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_KNOWN = frozenset(
    {
        *("columnMapping", "timestampNtz", "deletionVectors", "vacuumProtocolCheck"),
        *("variantType", "variantType-preview"),
    }
)
"""Features that change no file, or whose files and types are refused one by one."""
_TYPES = {
    "string": "STRING",
    "long": "BIGINT",
    "integer": "INT",
    "short": "SMALLINT",
    "byte": "TINYINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "binary": "BYTES",
    "date": "DATE",
    "timestamp": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "timestamp_ntz": "TIMESTAMP(6)",
}
_MAPPING_VERSION = 2
_CHECK_PREFIX = "delta.constraints."
_LEFT = {
    "delta.invariants": "invariant",
    "delta.generationExpression": "generation",
    "CURRENT_DEFAULT": "DEFAULT",
    "delta.identity.start": "identity",
}
"""Keys of a column's metadata that a table of Paimon does not keep."""


@dataclass(slots=True)
class _State:
    """What the log says up to a version."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    protocol: Mapping[str, Any] = field(default_factory=dict)
    files: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def take(self, actions: Iterable[Mapping[str, Any]]) -> None:
        for action in actions:
            if action.get("metaData"):
                self.metadata = action["metaData"]
            if action.get("protocol"):
                self.protocol = action["protocol"]
            if action.get("remove"):
                self.files.pop(action["remove"]["path"], None)
        # of one version a file may be removed and added again, with another deletion vector
        for action in actions:
            if action.get("add"):
                self.files[action["add"]["path"]] = action["add"]


def delta_table(fileio: FileIO, location: str) -> IncomingTable:
    """Read the newest state of a Delta table.

    Raises
    ------
    NotFoundError
        There is no log.
    CorruptError
        A version is missing, or cannot be read.
    UnsupportedError
        The table has what its files alone do not say; the message says what to do.
    """
    state = _state(fileio, location)
    configuration = _map(state.metadata.get("configuration"))
    _check_protocol(state.protocol, location)
    mode = configuration.get("delta.columnMapping.mode", "none")
    is_mapped = mode != "none" and _has_mapping(state.protocol)
    columns = json.loads(state.metadata["schemaString"])["fields"]
    reader = _Columns(location, is_mapped=is_mapped)
    fields = tuple(reader.field(i, one) for i, one in enumerate(columns))
    stored = {one["name"]: reader.stored(one) for one in columns}
    by_name = {one.name: one for one in fields}
    keys = [by_name[name] for name in state.metadata.get("partitionColumns") or ()]
    for key in keys:
        if key.type.root not in PARTITION_TYPES:
            raise _refused(location, f"partition column '{key.name}' is of type {key.type}")
    files = tuple(
        ForeignFile(
            path := f"{location}/{_path(add, location)}",
            int(add["size"]),
            _partition(add, keys, stored, location),
            _deleted(add, path, fileio, location),
        )
        for add in state.files.values()
    )
    return IncomingTable(
        location,
        files,
        tuple(keys),
        fields,
        by_name=not is_mapped,
        ids_of_names=reader.ids_of_names if mode == "name" else {},
        int96_is_utc=True,
        not_carried=(*_checks(configuration), *reader.not_carried),
    )


def _has_mapping(protocol: Mapping[str, Any]) -> bool:
    features = protocol.get("readerFeatures")
    if features is not None:
        return "columnMapping" in features
    return int(protocol.get("minReaderVersion") or 1) >= _MAPPING_VERSION


def _checks(configuration: Mapping[str, str]) -> list[str]:
    names = sorted(key for key in configuration if key.startswith(_CHECK_PREFIX))
    return [f"CHECK {key.removeprefix(_CHECK_PREFIX)}: {configuration[key]}" for key in names]


class _Columns:
    """The columns that the log declares, with their names in files.

    Parameters
    ----------
    is_mapped : bool
        Whether the columns have names and ids for files.
    """

    def __init__(self, location: str, *, is_mapped: bool) -> None:
        self._location = location
        self._is_mapped = is_mapped
        self.ids_of_names: dict[tuple[str, ...], int] = {}
        self.not_carried: list[str] = []

    def stored(self, column: Mapping[str, Any]) -> str:
        """The name of a column in files."""
        own = column["metadata"]["delta.columnMapping.physicalName"] if self._is_mapped else None
        return str(own or column["name"])

    def field(self, number: int, column: Mapping[str, Any]) -> DataField:
        """A column of the table."""
        name, metadata = column["name"], column.get("metadata") or {}
        path = (self.stored(column),)
        column_id = self._id(number, column, path)
        data_type = self._type(column["type"], name, path)
        if not column.get("nullable", True):
            data_type = data_type.not_null()
        for key, what in _LEFT.items():
            if key in metadata:
                self.not_carried.append(f"{what} of {name}: {metadata[key]}")
        return DataField(column_id, name, data_type, metadata.get("comment"))

    def _id(self, number: int, column: Mapping[str, Any], path: tuple[str, ...]) -> int:
        if not self._is_mapped:
            return number
        column_id = int(column["metadata"]["delta.columnMapping.id"])
        self.ids_of_names[path] = column_id
        return column_id

    def _type(self, kind: Any, name: str, path: tuple[str, ...]) -> DataType:
        text = _TYPES.get(kind) if isinstance(kind, str) else None
        if isinstance(kind, str) and kind.startswith("decimal("):
            text = kind.upper()
        if text is not None:
            return parse_type(text)
        shown = kind if isinstance(kind, str) else kind.get("type")
        if shown == "array":
            element = self._inner(kind, "element", "containsNull", name, path)
            return DataType(TypeRoot.ARRAY, children=(element,))
        if shown == "map":
            key = self._type(kind["keyType"], name, (*path, "key")).not_null()
            value = self._inner(kind, "value", "valueContainsNull", name, path)
            return DataType(TypeRoot.MAP, children=(key, value))
        if shown != "struct" or not kind.get("fields"):
            raise _refused(self._location, f"column '{name}' is of type {shown}")
        ids, children = [], []
        for number, column in enumerate(kind["fields"]):
            inner = (*path, self.stored(column))
            ids.append((self._id(number, column, inner), column["name"]))
            child = self._type(column["type"], f"{name}.{column['name']}", inner)
            children.append(child if column.get("nullable", True) else child.not_null())
        return DataType(TypeRoot.ROW, children=tuple(children), child_fields=tuple(ids))

    def _inner(
        self, kind: Mapping[str, Any], part: str, nulls: str, name: str, path: tuple[str, ...]
    ) -> DataType:
        """The type of elements or values."""
        found = self._type(kind[f"{part}Type"], name, (*path, part))
        return found if kind.get(nulls, True) else found.not_null()


def _state(fileio: FileIO, location: str) -> _State:
    log = f"{location}/_delta_log"
    names = {status.name for status in fileio.list_dir(log)}
    versions = {int(m.group(1)): n for n in names if (m := _VERSION.fullmatch(n))}
    if not versions and not any(_CHECKPOINT.fullmatch(name) for name in names):
        message = f"There is no Delta table at {fileio.uri_of(location)}: it has no log."
        raise NotFoundError(message, kind="no_files", path=location)
    state, begin = _State(), 0
    newest = _newest_checkpoint(names)
    if newest is not None:
        begin, parts = newest
        wanted = ["add", "remove", "metaData", "protocol"]
        rows: list[Mapping[str, Any]] = []
        for part in parts:
            rows += foreign_rows(fileio, f"{log}/{part}", wanted)
        state.take(rows)
        begin += 1
    last = max(versions, default=begin - 1)
    for version in range(begin, last + 1):
        if version not in versions:
            message = f"The Delta log at {log} lacks version {version}: it is damaged."
            raise CorruptError(message, kind="delta_log", path=log)
        data = fileio.read_bytes(f"{log}/{versions[version]}", bytes_max=LOG_BYTES_MAX)
        state.take(list(_actions(data, f"{log}/{versions[version]}")))
    if not state.metadata or not state.protocol:
        message = f"The Delta log at {log} has no schema: it is damaged."
        raise CorruptError(message, kind="delta_log", path=log)
    return state


def _newest_checkpoint(names: Iterable[str]) -> tuple[int, list[str]] | None:
    """The newest checkpoint of which all parts are there."""
    found: dict[tuple[int, int], list[str]] = {}
    for name in sorted(names):
        match = _CHECKPOINT.fullmatch(name)
        if match is not None:
            version, _, count = match.groups()
            found.setdefault((int(version), int(count or 1)), []).append(name)
    whole = [(version, parts) for (version, count), parts in found.items() if len(parts) == count]
    return max(whole, default=None)


def _actions(data: bytes, path: str) -> Iterator[Mapping[str, Any]]:
    try:
        for line in data.splitlines():
            if line.strip():
                yield json.loads(line)
    except ValueError as error:
        message = f"{path} is no version of a Delta log: {error}."
        raise CorruptError(message, kind="delta_log", path=path) from error


def _check_protocol(protocol: Mapping[str, Any], location: str) -> None:
    version = int(protocol.get("minReaderVersion") or 1)
    if version > READER_VERSION_MAX:
        raise _refused(location, f"it needs readers of version {version}")
    others = sorted(set(protocol.get("readerFeatures") or ()) - _KNOWN)
    if others:
        raise _refused(location, f"it has the feature '{others[0]}'")


def _path(add: Mapping[str, Any], location: str) -> str:
    path = unquote(add["path"])
    if "://" in path or path.startswith("/") or ".." in path.split("/"):
        raise _refused(location, f"file {path} lies outside its directory")
    return path


def _deleted(
    add: Mapping[str, Any], path: str, fileio: FileIO, location: str
) -> DeltaVector | None:
    descriptor = add.get("deletionVector")
    return DeltaVector.of(descriptor, path, fileio, location) if descriptor else None


def _partition(
    add: Mapping[str, Any],
    keys: Iterable[DataField],
    stored: Mapping[str, str],
    location: str,
) -> tuple[object, ...]:
    texts = _map(add.get("partitionValues"))
    return tuple(_value(texts.get(stored[key.name]), key, location) for key in keys)


def _value(text: str | None, key: DataField, location: str) -> object:
    if not text:
        return None
    return stored_value(text, key.type, f"Partition {key.name}={text} of {location}")


def stored_value(text: str, data_type: DataType, what: str) -> object:
    """Return a text as a value of a type, in the storage's form."""
    try:
        scalar = default_scalar(text, data_type, zone=None)
    except TidelakeError as error:
        message = f"{what} is no {data_type}: {error.message}"
        raise CorruptError(message, kind="delta_log") from error
    (value,) = arrow_to_storage(pa.array([scalar.as_py()], scalar.type), data_type)
    return value


def _map(given: object) -> dict[str, str]:
    """A map of JSON, or of Parquet as pairs."""
    return dict(given or ())  # type: ignore[call-overload]


def _refused(location: str, what: str) -> UnsupportedError:
    message = (
        f"The Delta table at {location} cannot move in as it is: {what}. Rewrite it there"
        " (REORG TABLE, OPTIMIZE), or read its rows and write them to a new table."
    )
    return UnsupportedError(message, kind="migrate_delta", path=location)
