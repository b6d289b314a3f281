"""The newest state of a Delta table, from its log: ``_delta_log/<version>.json`` and checkpoints.

1. The newest whole checkpoint is read, then the versions after it, in order. ``add`` and ``remove``
   name files, ``metaData`` and ``protocol`` replace what was before.
2. What the files alone do not say is refused: deletion vectors, files outside the directory,
   features of readers that are not known here.
3. With column mapping the files' columns have names of their own, and are found by their ids.

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
from tidelake.table.migration.foreign_table import (
    PARTITION_TYPES,
    ForeignFile,
    IncomingTable,
)
from tidelake.types import DataField, DataType, parse_type
from tidelake.types.default_value import default_scalar
from tidelake.types.values import arrow_to_storage

READER_VERSION_MAX = 3
LOG_BYTES_MAX = 256 << 20
_VERSION = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_KNOWN = frozenset({"columnMapping", "timestampNtz", "deletionVectors", "vacuumProtocolCheck"})
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
    is_mapped = configuration.get("delta.columnMapping.mode", "none") != "none"
    columns = json.loads(state.metadata["schemaString"])["fields"]
    fields = tuple(_field(i, one, location, is_mapped=is_mapped) for i, one in enumerate(columns))
    stored = {
        one["name"]: one["metadata"]["delta.columnMapping.physicalName"] if is_mapped else name
        for one in columns
        for name in (one["name"],)
    }
    by_name = {one.name: one for one in fields}
    keys = [by_name[name] for name in state.metadata.get("partitionColumns") or ()]
    for key in keys:
        if key.type.root not in PARTITION_TYPES:
            raise _refused(location, f"partition column '{key.name}' is of type {key.type}")
    files = tuple(
        ForeignFile(
            f"{location}/{_path(add, location)}",
            int(add["size"]),
            _partition(add, keys, stored, location),
        )
        for add in state.files.values()
    )
    return IncomingTable(location, files, tuple(keys), fields, by_name=not is_mapped)


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


def _field(number: int, column: Mapping[str, Any], location: str, *, is_mapped: bool) -> DataField:
    name, kind = column["name"], column["type"]
    text = _TYPES.get(kind) if isinstance(kind, str) else None
    if isinstance(kind, str) and kind.startswith("decimal("):
        text = kind.upper()
    if text is None:
        shown = kind if isinstance(kind, str) else kind.get("type")
        raise _refused(location, f"column '{name}' is of type {shown}")
    column_id = int(column["metadata"]["delta.columnMapping.id"]) if is_mapped else number
    return DataField(column_id, name, parse_type(text))


def _path(add: Mapping[str, Any], location: str) -> str:
    path = unquote(add["path"])
    if add.get("deletionVector"):
        raise _refused(location, f"rows of {path} are deleted by a deletion vector")
    if "://" in path or path.startswith("/") or ".." in path.split("/"):
        raise _refused(location, f"file {path} lies outside its directory")
    return path


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
        f"The Delta table at {location} cannot move in as it is: {what}. Purge or rewrite it there"
        " (REORG TABLE, OPTIMIZE), or read its rows and write them to a new table."
    )
    return UnsupportedError(message, kind="migrate_delta", path=location)
