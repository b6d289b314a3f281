"""The current snapshot of an Iceberg table, from its metadata, manifest list and manifests.

1. A table of Hadoop (``metadata/v3.metadata.json``) is at its newest version: each is a commit.
   ``version-hint.text`` may be behind. In a table of a catalog (``00003-<uuid>``) a file may be of
   a commit that lost or whose writer died, and only the catalog knows: the file must be named
   unless there is one alone.
2. The manifests' live entries are the files. Deletes of rows are refused: compact them there.
3. Columns have Iceberg's ids, which its Parquet files hold too. So files from before a rename are
   read by versions of the schema with the old names. Files that were added to the table without
   ids are read by its mapping of names.
4. Partitions by identity of all files' one specification become partitions. Else the table has
   none: its rows are the same, and other columns than the partition's prune as well.

Source: the specification of Iceberg, format versions 1 and 2.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
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
from tidelake.types import DataField, DataType, TypeRoot, parse_type
from tidelake.types.values import to_storage

METADATA_SUFFIXES = (".metadata.json", ".metadata.json.gz")
VERSION_MAX = 2
MANIFEST_BYTES_MAX = 256 << 20
NAME_MAPPING = "schema.name-mapping.default"
_NUMBER = re.compile(r"(v?)(\d+)(?:-.*?)?(?:\.gz)?\.metadata\.json(?:\.gz)?")
_STAGED = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\..*")
"""What Hadoop's tables write before it gets the name of a version."""
_GZIP = b"\x1f\x8b"
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
    if location.endswith(METADATA_SUFFIXES):
        location = location.rpartition("/")[0].rpartition("/")[0]
    else:
        path = _newest_metadata(fileio, location)
    document = _document(fileio, path)
    version = int(document.get("format-version", 1))
    if version > VERSION_MAX:
        raise _refused(location, f"it is of format version {version}")
    schema = _schema(document)
    fields = tuple(_field(column, location) for column in schema["fields"])
    properties = document.get("properties") or {}
    names = json.loads(properties.get(NAME_MAPPING, "[]"))
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
    return IncomingTable(
        location,
        found,
        tuple(key for key, _ in keys),
        fields,
        by_name=False,
        ids_of_names=dict(_ids_of_names(names, ())),
        not_carried=tuple(_not_carried(document, schema, has_partitions=bool(keys))),
    )


def _document(fileio: FileIO, path: str) -> Mapping[str, Any]:
    data = fileio.read_bytes(path, bytes_max=MANIFEST_BYTES_MAX)
    try:
        if data.startswith(_GZIP):
            data = gzip.decompress(data)
        document: Mapping[str, Any] = json.loads(data)
    except (ValueError, EOFError, OSError, zlib.error) as error:
        message = f"{path} is no file of Iceberg's metadata: {error}."
        raise CorruptError(message, kind="iceberg_metadata", path=path) from error
    return document


def _ids_of_names(
    mapped: Iterable[Mapping[str, Any]], above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], int]]:
    for one in mapped:
        for name in one.get("names") or ():
            if one.get("field-id") is not None:
                yield (*above, name), int(one["field-id"])
            yield from _ids_of_names(one.get("fields") or (), (*above, name))


def _not_carried(
    document: Mapping[str, Any], schema: Mapping[str, Any], *, has_partitions: bool
) -> Iterator[str]:
    names = {column["id"]: column["name"] for column in schema["fields"]}
    if schema.get("identifier-field-ids"):
        keys = (names.get(i, str(i)) for i in schema["identifier-field-ids"])
        yield f"identifier fields {', '.join(keys)}"
    for spec in document.get("partition-specs") or () if not has_partitions else ():
        if spec["spec-id"] == document.get("default-spec-id"):
            for one in spec["fields"]:
                yield f"partition {one['transform']} of {names.get(one['source-id'])}"
    for order in document.get("sort-orders") or ():
        if order["order-id"] == document.get("default-sort-order-id") and order["fields"]:
            keys = (str(names.get(one["source-id"])) for one in order["fields"])
            yield f"sort order by {', '.join(keys)}"


def _newest_metadata(fileio: FileIO, location: str) -> str:
    directory = f"{location}/metadata"
    versions: dict[int, str] = {}
    others: list[str] = []
    for status in fileio.list_dir(directory):
        match = _NUMBER.fullmatch(status.name)
        if match is None or _STAGED.fullmatch(status.name):
            continue
        if match.group(1):
            versions[int(match.group(2))] = status.name
        else:
            others.append(status.name)
    if versions and not others:
        _check_hint(fileio, directory, max(versions))
        return f"{directory}/{versions[max(versions)]}"
    found = [*others, *versions.values()]
    if not found:
        message = f"There is no Iceberg table at {fileio.uri_of(location)}: it has no metadata."
        raise NotFoundError(message, kind="no_files", path=location)
    if len(found) > 1:
        newest = max(found, key=lambda name: (_number(name), name))
        message = (
            f"{fileio.uri_of(directory)} has {len(found)} files of metadata, and only the table's"
            f" catalog knows which is current: '{newest}' may be of a commit that lost. Give the"
            " path of the current one as the source: the catalog has it as 'metadata_location'."
        )
        raise InvalidInputError(message, kind="iceberg_metadata", path=directory)
    return f"{directory}/{found[0]}"


def _check_hint(fileio: FileIO, directory: str, newest: int) -> None:
    """Refuse a listing that lacks what the hint names: a store may list late."""
    path = f"{directory}/version-hint.text"
    try:
        hint = fileio.read_bytes(path, bytes_max=MANIFEST_BYTES_MAX).decode().strip()
    except NotFoundError:
        return
    if hint.isdecimal() and int(hint) > newest:
        message = f"{path} names version {hint}, and the newest there is {newest}: it is damaged."
        raise CorruptError(message, kind="iceberg_metadata", path=path)


def _number(name: str) -> int:
    match = _NUMBER.fullmatch(name)
    assert match is not None, "only such names are listed"
    return int(match.group(2))


def _schema(document: Mapping[str, Any]) -> Mapping[str, Any]:
    for schema in document.get("schemas", ()):
        if schema.get("schema-id") == document.get("current-schema-id"):
            return schema
    return document["schema"]


def _field(column: Mapping[str, Any], location: str) -> DataField:
    found = _type(column["type"], column["name"], location)
    if column.get("required"):
        found = found.not_null()
    return DataField(int(column["id"]), column["name"], found, column.get("doc"))


def _type(kind: Any, name: str, location: str) -> DataType:
    text = _TYPES.get(kind) if isinstance(kind, str) else None
    if isinstance(kind, str) and kind.startswith("decimal("):
        text = kind.upper()
    if text is not None:
        return parse_type(text)
    shown = kind if isinstance(kind, str) else kind.get("type")
    if shown == "list":
        element = _type(kind["element"], name, location)
        if kind.get("element-required"):
            element = element.not_null()
        return DataType(TypeRoot.ARRAY, children=(element,))
    if shown == "map":
        value = _type(kind["value"], name, location)
        if kind.get("value-required"):
            value = value.not_null()
        key = _type(kind["key"], name, location).not_null()
        return DataType(TypeRoot.MAP, children=(key, value))
    if shown != "struct" or not kind.get("fields"):
        raise _refused(location, f"column '{name}' is of type {shown}")
    inside = [_field(one, location) for one in kind["fields"]]
    return DataType(
        TypeRoot.ROW,
        children=tuple(field.type for field in inside),
        child_fields=tuple((field.id, field.name) for field in inside),
    )


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
