"""A table's metadata as small tables: ``cat.table("db.t$snapshots")``.

Names and columns are those of Paimon's system tables (1.3.1): ``$snapshots``, ``$files``,
``$schemas``, ``$options``, ``$tags``, ``$partitions``, ``$buckets``, ``$manifests``; and of 2.1:
``$file_indexes``. Times of commits are in UTC.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa

from tidelake.codec.binary_row import decode_row
from tidelake.errors import (
    InvalidInputError,
    NotFoundError,
    TidelakeError,
    UnsupportedError,
    near_names,
    shortened,
)
from tidelake.metadata.data_file import EMPTY_ROW, DataFileMeta, FileSource
from tidelake.metadata.live_set import manifest_files
from tidelake.metadata.snapshot import Snapshot
from tidelake.scan import live_buckets, read_buckets
from tidelake.table.arguments import column_names, row_limit
from tidelake.table.conversions import Conversions
from tidelake.table.file_index_rows import FILE_INDEXES, file_index_rows
from tidelake.table.handle import TableHandle
from tidelake.table.java_text import java_duration, java_text
from tidelake.table.time_travel import Time
from tidelake.types import DataField, TableSchema
from tidelake.types.arrow import fields_from_arrow
from tidelake.types.predicate import bind, evaluate, parse_filter
from tidelake.types.schema import field_to_json
from tidelake.types.values import from_storage

__all__ = ["SYSTEM_TABLES", "SystemTable"]

SHOWN_MAX = 20
"""Rows that a terminal shows."""
CELL_WIDTH_MAX = 40
_TIME = pa.timestamp("ms", tz="UTC")
_LOCAL_TIME = pa.timestamp("ms")
"""What a manifest says of a file is the wall clock of its writer, of a zone that nobody knows."""
_TEXT = pa.string()
_LONG = pa.int64()

SNAPSHOTS = pa.schema(
    [
        pa.field("snapshot_id", _LONG, nullable=False),
        pa.field("schema_id", _LONG, nullable=False),
        pa.field("commit_user", _TEXT, nullable=False),
        pa.field("commit_identifier", _LONG, nullable=False),
        pa.field("commit_kind", _TEXT, nullable=False),
        pa.field("commit_time", _TIME, nullable=False),
        pa.field("base_manifest_list", _TEXT, nullable=False),
        pa.field("delta_manifest_list", _TEXT, nullable=False),
        pa.field("changelog_manifest_list", _TEXT),
        pa.field("total_record_count", _LONG),
        pa.field("delta_record_count", _LONG),
        pa.field("changelog_record_count", _LONG),
        pa.field("watermark", _LONG),
    ]
)
FILES = pa.schema(
    [
        pa.field("partition", _TEXT),
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("file_path", _TEXT, nullable=False),
        pa.field("file_format", _TEXT, nullable=False),
        pa.field("schema_id", _LONG, nullable=False),
        pa.field("level", pa.int32(), nullable=False),
        pa.field("record_count", _LONG, nullable=False),
        pa.field("file_size_in_bytes", _LONG, nullable=False),
        pa.field("min_key", _TEXT),
        pa.field("max_key", _TEXT),
        pa.field("null_value_counts", _TEXT),
        pa.field("min_value_stats", _TEXT),
        pa.field("max_value_stats", _TEXT),
        pa.field("min_sequence_number", _LONG),
        pa.field("max_sequence_number", _LONG),
        pa.field("creation_time", _LOCAL_TIME),
        pa.field("deleteRowCount", _LONG),
        pa.field("file_source", _TEXT),
        pa.field("first_row_id", _LONG),
        pa.field("write_cols", pa.list_(_TEXT)),
    ]
)
SCHEMAS = pa.schema(
    [
        pa.field("schema_id", _LONG, nullable=False),
        pa.field("fields", _TEXT, nullable=False),
        pa.field("partition_keys", _TEXT, nullable=False),
        pa.field("primary_keys", _TEXT, nullable=False),
        pa.field("options", _TEXT, nullable=False),
        pa.field("comment", _TEXT),
        pa.field("update_time", _TIME, nullable=False),
    ]
)
OPTIONS = pa.schema(
    [pa.field("key", _TEXT, nullable=False), pa.field("value", _TEXT, nullable=False)]
)
TAGS = pa.schema(
    [
        pa.field("tag_name", _TEXT, nullable=False),
        pa.field("snapshot_id", _LONG, nullable=False),
        pa.field("schema_id", _LONG, nullable=False),
        pa.field("commit_time", _TIME, nullable=False),
        pa.field("record_count", _LONG),
        pa.field("create_time", _LOCAL_TIME),
        pa.field("time_retained", _TEXT),
    ]
)
PARTITIONS = pa.schema(
    [
        pa.field("partition", _TEXT, nullable=False),
        pa.field("record_count", _LONG, nullable=False),
        pa.field("file_size_in_bytes", _LONG, nullable=False),
        pa.field("file_count", _LONG, nullable=False),
        pa.field("last_update_time", _LOCAL_TIME),
    ]
)

BUCKETS = pa.schema(
    [
        pa.field("partition", _TEXT),
        pa.field("bucket", pa.int32(), nullable=False),
        *(PARTITIONS.field(i) for i in range(1, len(PARTITIONS))),
    ]
)
MANIFESTS = pa.schema(
    [
        pa.field("file_name", _TEXT, nullable=False),
        pa.field("file_size", _LONG, nullable=False),
        pa.field("num_added_files", _LONG, nullable=False),
        pa.field("num_deleted_files", _LONG, nullable=False),
        pa.field("schema_id", _LONG, nullable=False),
        pa.field("min_partition_stats", _TEXT),
        pa.field("max_partition_stats", _TEXT),
        pa.field("min_row_id", _LONG),
        pa.field("max_row_id", _LONG),
    ]
)
LATER_TABLES = frozenset(
    {"aggregation_fields", "audit_log", "binlog", "branches", "consumers", "read_optimized", "ro"}
    | {"row_tracking", "statistics", "table_indexes"}
)
"""System tables of Paimon that this version does not give."""

Row = Mapping[str, Any]


def _snapshots(handle: TableHandle, snapshot: Snapshot | None) -> list[Row]:
    del snapshot
    log = handle.snapshots
    return [_snapshot_row(log.load(snapshot_id)) for snapshot_id in log.ids()]


def _snapshot_row(s: Snapshot) -> Row:
    return {
        "snapshot_id": s.id,
        "schema_id": s.schema_id,
        "commit_user": s.commit_user,
        "commit_identifier": s.commit_identifier,
        "commit_kind": s.commit_kind,
        "commit_time": s.time_ms,
        "base_manifest_list": s.base_manifest_list,
        "delta_manifest_list": s.delta_manifest_list,
        "changelog_manifest_list": s.changelog_manifest_list,
        "total_record_count": s.total_record_count,
        "delta_record_count": s.delta_record_count,
        "changelog_record_count": s.changelog_record_count,
        "watermark": s.watermark,
    }


def _files(handle: TableHandle, snapshot: Snapshot | None) -> list[Row]:
    if snapshot is None:
        return []
    context = handle.read_context()
    rows: list[Row] = []
    for bucket in read_buckets(context, snapshot, manifests=handle.manifests):
        partition = partition_text(handle, bucket.partition)
        for file in bucket.files:
            schema = context.file_schema(file.schema_id, file_name=file.file_name)
            path = handle.paths.data_file(bucket.partition, bucket.bucket, file)
            row = _file_row(file, schema, partition, bucket.bucket, path)
            rows.append({**row, **_value_stats(file, schema, handle.schema)})
    return rows


def _file_indexes(handle: TableHandle, snapshot: Snapshot | None) -> list[Row]:
    return [*file_index_rows(handle, snapshot, partition_text)]


def _value_stats(file: DataFileMeta, schema: TableSchema, current: TableSchema) -> Row:
    """What is known of each column that the table has now, by its id in the file."""
    names = schema.field_names if file.value_stats_cols is None else file.value_stats_cols
    fields = [schema.field(name) for name in names]
    stats = file.value_stats
    # of a column that came after the file all its rows are null
    here = {f.id for f in schema.fields}
    counts: dict[int, int | None] = {
        f.id: file.row_count for f in current.fields if f.id not in here
    }
    counts |= dict(zip((f.id for f in fields), stats.null_counts, strict=False))

    def text(values: Mapping[int, object]) -> str:
        return _map_text({f.name: values.get(f.id) for f in current.fields})

    def bounds(row: bytes) -> str:
        known = [] if row == EMPTY_ROW else _values(row, fields)
        return text(dict(zip((f.id for f in fields), known, strict=False)))

    return {
        "null_value_counts": text(counts),
        "min_value_stats": bounds(stats.min_values),
        "max_value_stats": bounds(stats.max_values),
    }


def _file_row(
    file: DataFileMeta, schema: TableSchema, partition: str, bucket: int, path: str
) -> Row:
    key_fields = [schema.field(name) for name in schema.trimmed_primary_keys]
    return {
        "partition": partition,
        "bucket": bucket,
        "file_path": path,
        "file_format": file.file_name.rpartition(".")[2],
        "schema_id": file.schema_id,
        "level": file.level,
        "record_count": file.row_count,
        "file_size_in_bytes": file.file_size_bytes,
        "min_key": _row_text(file.min_key, key_fields, "[]"),
        "max_key": _row_text(file.max_key, key_fields, "[]"),
        "min_sequence_number": file.min_sequence_number,
        "max_sequence_number": file.max_sequence_number,
        "creation_time": file.creation_time_ms,
        "deleteRowCount": file.delete_row_count,
        "file_source": None if file.file_source is None else FileSource(file.file_source).name,
        "first_row_id": file.first_row_id,
        "write_cols": file.write_cols,
    }


def partition_text(handle: TableHandle, partition: bytes) -> str:
    """A partition as Paimon's system tables show it: ``{2024-01-01, 7}``."""
    fields = [handle.schema.field(name) for name in handle.schema.partition_keys]
    types = [f.type for f in fields]
    values = [
        "null" if value is None else _text(from_storage(value, data_type))
        for value, data_type in zip(decode_row(partition, types), types, strict=True)
    ]
    return "{" + ", ".join(values) + "}"


def _values(row: bytes, fields: Sequence[DataField]) -> list[str]:
    types = [f.type for f in fields]
    return list(map(java_text, decode_row(row, types), types))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.hex() if isinstance(value, bytes) else str(value)


def _row_text(row: bytes, fields: Sequence[DataField], brackets: str) -> str | None:
    if row == EMPTY_ROW:
        return None
    return brackets[0] + ", ".join(_values(row, fields)) + brackets[1]


def _map_text(pairs: Mapping[str, object]) -> str:
    shown = (f"{k}={'null' if v is None else v}" for k, v in sorted(pairs.items()))
    return "{" + ", ".join(shown) + "}"


def _schemas(handle: TableHandle, snapshot: Snapshot | None) -> list[Row]:
    del snapshot
    log = handle.schemas
    return [_schema_row(log.load(schema_id)) for schema_id in sorted(log.ids())]


def _schema_row(schema: TableSchema) -> Row:
    def text(value: object) -> str:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)

    return {
        "schema_id": schema.id,
        "fields": text([field_to_json(f) for f in schema.fields]),
        "partition_keys": text(list(schema.partition_keys)),
        "primary_keys": text(list(schema.primary_keys)),
        "options": text(dict(schema.options)),
        "comment": schema.comment,
        "update_time": schema.time_ms,
    }


def _options(handle: TableHandle, snapshot: Snapshot | None) -> list[Row]:
    del snapshot
    return [{"key": key, "value": value} for key, value in sorted(handle.schema.options.items())]


def _tags(handle: TableHandle, snapshot: Snapshot | None) -> list[Row]:
    del snapshot
    log = handle.tags
    rows: list[Row] = []
    for name in sorted(log.names()):
        tag = log.load(name)
        snapshot = tag.snapshot
        rows.append(
            {
                "tag_name": name,
                "snapshot_id": snapshot.id,
                "schema_id": snapshot.schema_id,
                "commit_time": snapshot.time_ms,
                "record_count": snapshot.total_record_count,
                "create_time": tag.create_time_ms,
                "time_retained": java_duration(tag.time_retained_ms),
            }
        )
    return rows


def _partitions(handle: TableHandle, snapshot: Snapshot | None) -> list[Row]:
    if snapshot is None or not handle.schema.partition_keys:
        return []
    files_of: dict[bytes, list[DataFileMeta]] = {}
    for bucket in read_buckets(handle.read_context(), snapshot, manifests=handle.manifests):
        files_of.setdefault(bucket.partition, []).extend(bucket.files)
    return [
        {"partition": handle.paths.partition_path(partition), **_totals(files)}
        for partition, files in files_of.items()
    ]


def _totals(files: Sequence[DataFileMeta]) -> Row:
    return {
        "record_count": sum(f.row_count for f in files),
        "file_size_in_bytes": sum(f.file_size_bytes for f in files),
        "file_count": len(files),
        "last_update_time": max((f.creation_time_ms or 0 for f in files), default=None),
    }


def _buckets(handle: TableHandle, snapshot: Snapshot | None) -> list[Row]:
    if snapshot is None:
        return []
    return [
        {
            "partition": partition_text(handle, bucket.partition),
            "bucket": bucket.bucket,
            **_totals(bucket.files),
        }
        for bucket in live_buckets(handle.read_context(), snapshot, manifests=handle.manifests)
    ]


def _manifests(handle: TableHandle, snapshot: Snapshot | None) -> list[Row]:
    if snapshot is None:
        return []
    listed = manifest_files(handle.fileio, handle.paths, snapshot, handle.manifests)
    return [
        {
            "file_name": m.file_name,
            "file_size": m.file_size_bytes,
            "num_added_files": m.added_count,
            "num_deleted_files": m.deleted_count,
            "schema_id": m.schema_id,
            "min_partition_stats": partition_text(handle, m.partition_stats.min_values),
            "max_partition_stats": partition_text(handle, m.partition_stats.max_values),
            "min_row_id": m.min_row_id,
            "max_row_id": m.max_row_id,
        }
        for m in listed
    ]


OF_ONE_SNAPSHOT = frozenset({"files", "file_indexes", "partitions", "buckets", "manifests"})
"""System tables that show one snapshot; the others are the same whatever moment is read."""

RowsOf = Callable[[TableHandle, Snapshot | None], list[Row]]

SYSTEM_TABLES: Mapping[str, tuple[pa.Schema, RowsOf]] = {
    "snapshots": (SNAPSHOTS, _snapshots),
    "files": (FILES, _files),
    "file_indexes": (FILE_INDEXES, _file_indexes),
    "schemas": (SCHEMAS, _schemas),
    "options": (OPTIONS, _options),
    "tags": (TAGS, _tags),
    "partitions": (PARTITIONS, _partitions),
    "buckets": (BUCKETS, _buckets),
    "manifests": (MANIFESTS, _manifests),
}


@dataclass(frozen=True, slots=True)
class SystemTable(Conversions):
    """One system table of a table; it is read anew at every call.

    Parameters
    ----------
    handle : TableHandle
        The table.
    name : str
        The part of the name behind ``$``.
    """

    handle: TableHandle
    name: str

    def __post_init__(self) -> None:
        if self.name in LATER_TABLES or self.name.startswith("branch_"):
            message = (
                f"'{self.identifier}' is not covered by this version; there are:"
                f" {', '.join(SYSTEM_TABLES)}."
            )
            raise UnsupportedError(message, kind="system_table", name=self.name)
        if self.name not in SYSTEM_TABLES:
            message = (
                f"There is no system table '{self.name}' of '{self.handle.identifier}'."
                f"{near_names(self.name, SYSTEM_TABLES)} There are: {', '.join(SYSTEM_TABLES)}."
            )
            raise NotFoundError(message, kind="system_table_not_found", name=self.name)

    @property
    def identifier(self) -> str:
        """``"database.table$name"``."""
        return f"{self.handle.identifier}${self.name}"

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return SYSTEM_TABLES[self.name][0]

    def to_arrow(
        self,
        *,
        columns: Sequence[str] | None = None,
        filter: object = None,
        limit: int | None = None,
        snapshot_id: int | None = None,
        timestamp: Time | None = None,
        tag: str | None = None,
    ) -> pa.Table:
        """The rows as an Arrow table.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns wanted, in order; all by default.
        filter : str, Predicate or list of tuples, optional
            The rows wanted, as of :meth:`tidelake.Table.scan`.
        limit : int, optional
            The most rows wanted.
        snapshot_id, timestamp, tag
            At most one, of ``$files``, ``$file_indexes``, ``$partitions``, ``$buckets`` and
            ``$manifests``: the moment to show, the newest snapshot by default.

        Raises
        ------
        NotFoundError
            No such column, snapshot or tag; near names are told.
        InvalidInputError
            The filter, the limit or the moment is wrong.
        """
        snapshot = self._snapshot(snapshot_id, timestamp, tag)
        schema, rows_of = SYSTEM_TABLES[self.name]
        limit = row_limit(limit, table=self.identifier)
        names = column_names(columns, schema.names, table=self.identifier)
        for name in names:
            if name not in schema.names:
                message = (
                    f"'{self.identifier}' has no column '{name}'.{near_names(name, schema.names)}"
                    f" Its columns are {', '.join(schema.names)}."
                )
                raise NotFoundError(message, kind="column_not_found", column=name)
        flat = [f for f in schema if not pa.types.is_nested(f.type)]
        fields = fields_from_arrow(pa.schema(flat))
        parsed = parse_filter(filter)
        predicate = None if parsed is None else bind(parsed, fields)
        table = pa.Table.from_pylist(rows_of(self.handle, snapshot), schema=schema)
        if predicate is not None:
            table = pa.Table.from_batches(
                [
                    b.filter(evaluate(predicate, b.select([f.name for f in flat]), fields))
                    for b in table.to_batches()
                ],
                schema=schema,
            )
        return table.select(names).slice(0, limit)

    def _snapshot(
        self, snapshot_id: int | None, timestamp: Time | None, tag: str | None
    ) -> Snapshot | None:
        if self.name in OF_ONE_SNAPSHOT:
            return self.handle.time_travel.resolve(
                snapshot_id=snapshot_id,
                timestamp=timestamp,
                tag=tag,
                default=self.handle.options,
            )
        if not (snapshot_id is None and timestamp is None and tag is None):
            message = (
                f"'{self.identifier}' is not of one moment: leave snapshot_id, timestamp and tag"
                f" out. Of one moment are {', '.join(sorted(OF_ONE_SNAPSHOT))}."
            )
            raise InvalidInputError(message, kind="system_table", name=self.name)
        return None

    def _only_read(self, *args: object, **more: object) -> NoReturn:
        """Refuse what only a table of rows can."""
        del args, more
        message = (
            f"'{self.identifier}' is a system table, made of metadata whenever it is read: it has"
            " to_arrow(), to_batches(), to_pandas(), to_polars(), to_duckdb(), head() and count()."
            f" For all else open '{self.handle.identifier}'."
        )
        raise UnsupportedError(message, kind="system_table", name=self.name)

    write = writer = upsert = delete = compact = create_tag = delete_tag = _only_read
    drop_partitions = truncate = rescale_bucket = _only_read
    scan = plan = explain = copy = with_options = changes = changes_batches = _only_read

    def to_batches(self, **scan: Any) -> pa.RecordBatchReader:
        """The rows as a stream of batches; arguments as of :meth:`to_arrow`."""
        return self.to_arrow(**scan).to_reader()

    def count(self, **scan: Any) -> int:
        """Number of rows; arguments as of :meth:`to_arrow`."""
        return self.to_arrow(**scan).num_rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows, for everything that speaks Arrow."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        try:
            table = self.to_arrow()
        except TidelakeError as error:  # what cannot be read still shows
            return f"System table {self.identifier}: cannot be read: {error}"
        rows = "1 row" if table.num_rows == 1 else f"{table.num_rows:,} rows"
        lines = [f"System table {self.identifier}, {rows}"]
        cells = [table.column_names]
        cells += [[_cell(v) for v in row.values()] for row in table.slice(0, SHOWN_MAX).to_pylist()]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines += [
            "  " + "  ".join(t.ljust(w) for t, w in zip(row, widths, strict=True)).rstrip()
            for row in cells
        ]
        if table.num_rows > SHOWN_MAX:
            lines.append(f"  and {table.num_rows - SHOWN_MAX:,} more (see to_arrow())")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        try:
            table = self.to_arrow()
        except TidelakeError as error:
            return (
                f"<b>{html.escape(self.identifier)}</b>: cannot be read: {html.escape(str(error))}"
            )
        head = "".join(f"<th>{html.escape(name)}</th>" for name in table.column_names)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(str(v))}</td>" for v in row.values()) + "</tr>"
            for row in table.slice(0, 100).to_pylist()
        )
        return f"<b>{html.escape(self.identifier)}</b><table><tr>{head}</tr>{body}</table>"


def _cell(value: object) -> str:
    return "" if value is None else shortened(str(value), CELL_WIDTH_MAX)
