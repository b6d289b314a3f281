"""Iceberg's manifests and manifest lists: Avro files whose fields have Iceberg's ids.

A manifest has entries: a status (0 existing, 1 added, 2 deleted) and a data file, or in a manifest
of deletes a deletion vector. A manifest list has one record per manifest, with counts and the
bounds of the partition columns. Records are dicts as the Avro decoder gives them: those of older
files go into new ones as they are.

Source: the Iceberg specification, "Manifests", "Manifest Lists" and "Avro"; Paimon's
``IcebergManifestFile`` and ``IcebergManifestList``. On disk: never renumber.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tidelake.commit.iceberg.iceberg_schema import (
    PARTITION_FIELD_ID_START,
    is_nanoseconds,
    partition_fields,
    schema_document,
)
from tidelake.commit.iceberg.settings import VERSION_WITH_VECTORS, IcebergSettings
from tidelake.commit.iceberg.single_value import (
    bound_of,
    decimal_bytes_max,
    is_nan,
    storage_value,
)
from tidelake.fileio import FileIO
from tidelake.metadata.avro.avro import ContainerWriter, decode_container
from tidelake.metadata.unique_file import whole_bytes_max, write_unique
from tidelake.types import DataType, TableSchema
from tidelake.types.data_type import TypeRoot

Record = dict[str, Any]
EXISTING, ADDED, DELETED = 0, 1, 2
DATA, DELETES = 0, 1
SPEC_ID = 0  # on disk: never renumber
ENTRIES_PER_BLOCK = 1000
_CONTENTS = ("data", "deletes")
_OLDER_NAMES = {
    "added_files_count": "added_data_files_count",
    "existing_files_count": "existing_data_files_count",
    "deleted_files_count": "deleted_data_files_count",
}
_AVRO_TYPES: dict[TypeRoot, Any] = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.INT: "int",
    TypeRoot.BIGINT: "long",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.DATE: {"type": "int", "logicalType": "date"},
    TypeRoot.CHAR: "string",
    TypeRoot.VARCHAR: "string",
    TypeRoot.BINARY: "bytes",
    TypeRoot.VARBINARY: "bytes",
}


@dataclass(frozen=True, slots=True)
class ManifestFiles:
    """Writes and reads the manifests of one table.

    Parameters
    ----------
    schema : TableSchema
        The table's newest schema.
    """

    fileio: FileIO
    settings: IcebergSettings
    schema: TableSchema

    def path(self, name: str) -> str:
        """The path of a manifest or a list, by its name or its address."""
        return f"{self.settings.metadata_dir}/{name.rpartition('/')[2]}"

    def is_own(self, address: str) -> bool:
        """Whether a file lies in the directory of the metadata."""
        return address.rpartition("/")[0].endswith(self.settings.metadata_dir)

    @property
    def partition_types(self) -> tuple[DataType, ...]:
        """The types of the partition columns."""
        return tuple(self.schema.field(key).type for key in self.schema.partition_keys)

    # ---- manifests

    def write_manifests(
        self, names: Iterator[str], entries: Sequence[Record], *, content: int, snapshot_id: int
    ) -> Iterator[tuple[str, Record]]:
        """Write entries into manifests of the target size.

        Yields
        ------
        path : str
            A new manifest.
        record : dict
            Its record for the list, without its address.
        """
        start = 0
        while start < len(entries):
            name = next(names)
            writer = self._writer(name, content)
            end = start
            while end < len(entries) and (
                end == start or writer.size_bytes < self.settings.manifest_bytes_max
            ):
                writer.write_block(entries[end : end + ENTRIES_PER_BLOCK])
                end += ENTRIES_PER_BLOCK
            data, written = writer.finish(), entries[start:end]
            write_unique(self.fileio, self.path(name), data)
            yield (
                self.path(name),
                self._list_record(written, len(data), content=content, snapshot_id=snapshot_id),
            )
            start = end

    def _writer(self, name: str, content: int) -> ContainerWriter:
        version = self.settings.format_version
        return ContainerWriter(
            _entry_schema(self.schema, version),
            codec=self.settings.codec,
            name=name,
            header={
                "schema": _json(schema_document(self.schema)),
                "schema-id": str(self.schema.id).encode(),
                "partition-spec": _json(partition_fields(self.schema)),
                "partition-spec-id": str(SPEC_ID).encode(),
                "format-version": str(version).encode(),
                "content": _CONTENTS[content].encode(),
            },
        )

    def _list_record(
        self, entries: Sequence[Record], size_bytes: int, *, content: int, snapshot_id: int
    ) -> Record:
        rows: dict[int, list[int]] = {EXISTING: [], ADDED: [], DELETED: []}
        for entry in entries:
            rows[entry["status"]].append(entry["data_file"]["record_count"])
        return {
            "manifest_length": size_bytes,
            "partition_spec_id": SPEC_ID,
            "content": content,
            "sequence_number": snapshot_id,
            "min_sequence_number": min(e["sequence_number"] for e in entries),
            "added_snapshot_id": snapshot_id,
            "added_files_count": len(rows[ADDED]),
            "existing_files_count": len(rows[EXISTING]),
            "deleted_files_count": len(rows[DELETED]),
            "added_rows_count": sum(rows[ADDED]),
            "existing_rows_count": sum(rows[EXISTING]),
            "deleted_rows_count": sum(rows[DELETED]),
            "partitions": list(self._summaries(entries)),
            "first_row_id": None,
        }

    def _summaries(self, entries: Sequence[Record]) -> Iterator[Record]:
        """The bounds of each partition column."""
        for key, data_type in zip(self.schema.partition_keys, self.partition_types, strict=True):
            name = avro_name(key)
            found = {entry["data_file"]["partition"][name] for entry in entries}
            values = [storage_value(v, data_type) for v in found if v is not None]
            known = [v for v in values if not is_nan(v)]
            yield {
                "contains_null": None in found,
                "contains_nan": len(known) < len(values),
                "lower_bound": bound_of(min(known), data_type) if known else None,
                "upper_bound": bound_of(max(known), data_type) if known else None,
            }

    def read_manifest(self, manifest: Record) -> list[Record]:
        """The entries of a manifest of a list."""
        return self._read(manifest["manifest_path"], manifest["manifest_length"])

    # ---- lists

    def write_list(self, name: str, manifests: Sequence[Record]) -> None:
        """Write a manifest list."""
        settings = self.settings
        writer = ContainerWriter(
            _list_schema(settings.format_version, has_older_names=settings.has_older_names),
            codec=settings.codec,
            name=name,
            header={"format-version": str(settings.format_version).encode()},
        )
        records = list(manifests)
        if settings.has_older_names:
            records = [{_OLDER_NAMES.get(k, k): v for k, v in m.items()} for m in records]
        writer.write_block(records)
        write_unique(self.fileio, self.path(name), writer.finish())

    def read_list(self, address: str) -> list[Record]:
        """The manifests of a list, with the newer names."""
        newer = {older: name for name, older in _OLDER_NAMES.items()}
        records = self._read(address, None)
        return [{newer.get(k, k): v for k, v in record.items()} for record in records]

    def _read(self, address: str, size_bytes: int | None) -> list[Record]:
        path = self.path(address)
        data = self.fileio.read_bytes(path, bytes_max=whole_bytes_max(size_bytes))
        return decode_container(data, path=path)


def avro_name(name: str) -> str:
    """The name of a partition field in Avro files, which take letters, digits and ``_`` only.

    Examples
    --------
    >>> avro_name("day"), avro_name("1 st"), avro_name("größe")
    ('day', '_1_x20st', 'gr_xF6_xDFe')
    """
    out = []
    for place, char in enumerate(name):
        if char.isascii() and (char.isalpha() or char == "_" or (char.isdigit() and place)):
            out.append(char)
        elif char.isascii() and char.isdigit():
            out.append(f"_{char}")
        else:
            out.append(f"_x{ord(char):X}")
    return "".join(out)


def _json(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _field(field_id: int, name: str, kind: Any, *, is_optional: bool = False) -> Record:
    if not is_optional:
        return {"name": name, "type": kind, "field-id": field_id}
    return {"name": name, "type": ["null", kind], "default": None, "field-id": field_id}


def _map_of(key_id: int, value_id: int, value: str) -> Record:
    """A map with numbers as keys, which Avro has not: a list of pairs."""
    pair = {
        "type": "record",
        "name": f"k{key_id}_v{value_id}",
        "fields": [_field(key_id, "key", "int"), _field(value_id, "value", value)],
    }
    return {"type": "array", "items": pair, "logicalType": "map"}


def _entry_schema(schema: TableSchema, format_version: int) -> Record:
    partition = {
        "type": "record",
        "name": "r102",
        "fields": [_partition_field(schema, place) for place in range(len(schema.partition_keys))],
    }
    data_file = [
        _field(134, "content", "int"),
        _field(100, "file_path", "string"),
        _field(101, "file_format", "string"),
        _field(102, "partition", partition),
        _field(103, "record_count", "long"),
        _field(104, "file_size_in_bytes", "long"),
        _field(110, "null_value_counts", _map_of(121, 122, "long"), is_optional=True),
        _field(125, "lower_bounds", _map_of(126, 127, "bytes"), is_optional=True),
        _field(128, "upper_bounds", _map_of(129, 130, "bytes"), is_optional=True),
        _field(143, "referenced_data_file", "string", is_optional=True),
        _field(144, "content_offset", "long", is_optional=True),
        _field(145, "content_size_in_bytes", "long", is_optional=True),
    ]
    if format_version >= VERSION_WITH_VECTORS:
        data_file.append(_field(142, "first_row_id", "long", is_optional=True))
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            _field(0, "status", "int"),
            _field(1, "snapshot_id", "long", is_optional=True),
            _field(3, "sequence_number", "long", is_optional=True),
            _field(4, "file_sequence_number", "long", is_optional=True),
            _field(2, "data_file", {"type": "record", "name": "r2", "fields": data_file}),
        ],
    }


def _partition_field(schema: TableSchema, place: int) -> Record:
    key = schema.partition_keys[place]
    name = avro_name(key)
    kind = _partition_type(schema.field(key).type, place)
    field = _field(PARTITION_FIELD_ID_START + place, name, kind, is_optional=True)
    return field if name == key else field | {"iceberg-field-name": key}


def _partition_type(data_type: DataType, place: int) -> Any:
    if data_type.root is TypeRoot.DECIMAL:
        return {
            "type": "fixed",
            "name": f"decimal_{place}",
            "size": decimal_bytes_max(data_type),
            "logicalType": "decimal",
            "precision": data_type.precision,
            "scale": data_type.scale,
        }
    if data_type.root in {TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ}:
        unit = "nanos" if is_nanoseconds(data_type) else "micros"
        return {
            "type": "long",
            "logicalType": f"timestamp-{unit}",
            "adjust-to-utc": data_type.root is TypeRoot.TIMESTAMP_LTZ,
        }
    return _AVRO_TYPES[data_type.root]


def _list_schema(format_version: int, *, has_older_names: bool) -> Record:
    summary = {
        "type": "record",
        "name": "r508",
        "fields": [
            _field(509, "contains_null", "boolean"),
            _field(518, "contains_nan", "boolean", is_optional=True),
            _field(510, "lower_bound", "bytes", is_optional=True),
            _field(511, "upper_bound", "bytes", is_optional=True),
        ],
    }
    summaries = {"type": "array", "items": summary, "element-id": 508}
    fields = [
        _field(500, "manifest_path", "string"),
        _field(501, "manifest_length", "long"),
        _field(502, "partition_spec_id", "int"),
        _field(517, "content", "int"),
        _field(515, "sequence_number", "long"),
        _field(516, "min_sequence_number", "long"),
        _field(503, "added_snapshot_id", "long"),
        _field(504, "added_files_count", "int"),
        _field(505, "existing_files_count", "int"),
        _field(506, "deleted_files_count", "int"),
        _field(512, "added_rows_count", "long"),
        _field(513, "existing_rows_count", "long"),
        _field(514, "deleted_rows_count", "long"),
        _field(507, "partitions", summaries, is_optional=True),
    ]
    if format_version >= VERSION_WITH_VECTORS:
        fields.append(_field(520, "first_row_id", "long", is_optional=True))
    if has_older_names:
        fields = [f | {"name": _OLDER_NAMES.get(f["name"], f["name"])} for f in fields]
    return {"type": "record", "name": "manifest_file", "fields": fields}
