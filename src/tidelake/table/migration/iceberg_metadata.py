"""The current snapshot of an Iceberg table, from its metadata, manifest list and manifests.

1. The newest ``metadata/*.metadata.json`` is taken, unless one is given. Two with one number do not
   say which counts.
2. The manifests' live entries are the files. Deletes of rows are refused: compact them there.
3. Columns have Iceberg's ids, which its Parquet files hold too. So files from before a rename are
   read by versions of the schema with the old names.
4. Partitions by identity of all files' one specification become partitions. Else the table has
   none: its rows are the same, and other columns than the partition's prune as well.

Source: the specification of Iceberg, format versions 1 and 2.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import fastavro

from tidelake.errors import CorruptError, InvalidInputError, NotFoundError, UnsupportedError
from tidelake.fileio import FileIO
from tidelake.fileio.location import parse_location
from tidelake.table.migration.foreign_table import (
    PARTITION_TYPES,
    ForeignFile,
    IncomingTable,
)
from tidelake.types import DataField, parse_type
from tidelake.types.values import to_storage

METADATA_SUFFIX = ".metadata.json"
VERSION_MAX = 2
MANIFEST_BYTES_MAX = 256 << 20
_NUMBER = re.compile(r"v?(\d+)(?:-.*)?\.metadata\.json")
_DELETED = 2
_TYPES = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "timestamp": "TIMESTAMP(6)",
    "timestamptz": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "string": "STRING",
    "binary": "BYTES",
}


def iceberg_table(fileio: FileIO, location: str) -> IncomingTable:
    """Read the current snapshot of an Iceberg table.

    Parameters
    ----------
    location : str
        The table's directory, or one of its files of metadata.

    Raises
    ------
    NotFoundError
        There is no metadata.
    CorruptError
        A file of metadata cannot be read.
    UnsupportedError
        The table has what its data files alone do not say; the message says what to do.
    """
    path = location
    if location.endswith(METADATA_SUFFIX):
        location = location.rpartition("/")[0].rpartition("/")[0]
    else:
        path = _newest_metadata(fileio, location)
    document = json.loads(fileio.read_bytes(path))
    version = int(document.get("format-version", 1))
    if version > VERSION_MAX:
        raise _refused(location, f"it is of format version {version}")
    schema = _schema(document)
    fields = tuple(_field(column, location) for column in schema["fields"])
    files = list(_files(fileio, document, location))
    spec_ids = {spec_id for spec_id, _ in files}
    keys = _identities(document, next(iter(spec_ids)), fields) if len(spec_ids) == 1 else ()
    found = tuple(
        ForeignFile(
            _local(fileio, file["file_path"], location),
            int(file["file_size_in_bytes"]),
            tuple(
                None if value is None else to_storage(value, key.type)
                for key, name in keys
                for value in (file["partition"].get(name),)
            ),
        )
        for _, file in files
    )
    return IncomingTable(location, found, tuple(key for key, _ in keys), fields, by_name=False)


def _newest_metadata(fileio: FileIO, location: str) -> str:
    directory = f"{location}/metadata"
    found: dict[int, list[str]] = {}
    for status in fileio.list_dir(directory):
        match = _NUMBER.fullmatch(status.name)
        if match is not None:
            found.setdefault(int(match.group(1)), []).append(status.name)
    if not found:
        message = f"There is no Iceberg table at {fileio.uri_of(location)}: it has no metadata."
        raise NotFoundError(message, kind="no_files", path=location)
    names = sorted(found[max(found)])
    if len(names) > 1:
        message = (
            f"{fileio.uri_of(directory)} has {names[0]} and {names[1]}: only the table's catalog"
            " knows which counts. Give its path as the source."
        )
        raise InvalidInputError(message, kind="iceberg_metadata", path=directory)
    return f"{directory}/{names[0]}"


def _schema(document: Mapping[str, Any]) -> Mapping[str, Any]:
    for schema in document.get("schemas", ()):
        if schema.get("schema-id") == document.get("current-schema-id"):
            return schema
    return document["schema"]


def _field(column: Mapping[str, Any], location: str) -> DataField:
    kind = column["type"]
    text = _TYPES.get(kind) if isinstance(kind, str) else None
    if isinstance(kind, str) and kind.startswith("decimal("):
        text = kind.upper()
    if text is None:
        shown = kind if isinstance(kind, str) else kind.get("type")
        raise _refused(location, f"column '{column['name']}' is of type {shown}")
    return DataField(int(column["id"]), column["name"], parse_type(text), column.get("doc"))


def _files(
    fileio: FileIO, document: Mapping[str, Any], location: str
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The live data files of the current snapshot, each with the number of its partition spec."""
    current = document.get("current-snapshot-id")
    snapshot = next(
        (one for one in document.get("snapshots", ()) if one["snapshot-id"] == current), None
    )
    if snapshot is None:
        return
    if "manifest-list" not in snapshot:
        raise _refused(location, "its snapshot has no manifest list")
    for manifest in _avro(fileio, _local(fileio, snapshot["manifest-list"], location)):
        path = _local(fileio, manifest["manifest_path"], location)
        for entry in _avro(fileio, path):
            if entry["status"] == _DELETED:
                continue
            file = entry["data_file"]
            if file.get("content"):
                raise _refused(location, "rows are deleted by delete files")
            if str(file["file_format"]).upper() != "PARQUET":
                raise _refused(location, f"{file['file_path']} is of format {file['file_format']}")
            yield int(manifest.get("partition_spec_id") or 0), file


def _avro(fileio: FileIO, path: str) -> list[Mapping[str, Any]]:
    data = fileio.read_bytes(path, bytes_max=MANIFEST_BYTES_MAX)
    try:
        return list(fastavro.reader(io.BytesIO(data)))
    except (ValueError, EOFError, StopIteration, IndexError, KeyError, TypeError) as error:
        message = f"{path} is no file of Iceberg's metadata: {error}."
        raise CorruptError(message, kind="iceberg_metadata", path=path) from error


def _local(fileio: FileIO, uri: str, location: str) -> str:
    """The path of a file that metadata names, which must be in the same storage."""
    found = parse_location(uri, what="File")
    if fileio.uri_of(found.path) != str(found):
        raise _refused(location, f"file {uri} lies in another storage")
    return found.path


def _identities(
    document: Mapping[str, Any], spec_id: int, fields: tuple[DataField, ...]
) -> tuple[tuple[DataField, str], ...]:
    """The partition columns with their names in manifests, if all are columns as they are."""
    by_id = {field.id: field for field in fields}
    for spec in document.get("partition-specs", ()):
        if spec["spec-id"] != spec_id:
            continue
        found = [(by_id.get(one["source-id"]), one["name"]) for one in spec["fields"]]
        plain = all(one["transform"] == "identity" for one in spec["fields"])
        keys = tuple((field, name) for field, name in found if field is not None)
        if plain and len(keys) == len(found):
            return keys if all(k.type.root in PARTITION_TYPES for k, _ in keys) else ()
    return ()


def _refused(location: str, what: str) -> UnsupportedError:
    message = (
        f"The Iceberg table at {location} cannot move in as it is: {what}. Rewrite its data files"
        " there (rewrite_data_files), or read its rows and write them to a new table."
    )
    return UnsupportedError(message, kind="migrate_iceberg", path=location)
