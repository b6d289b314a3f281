"""A bucket without a table: its live files, its messages applied, its rows read naively."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from tidelake.fileio import MemoryFileIO
from tidelake.format import kv_fields, read_batches
from tidelake.metadata.data_file import EMPTY_ROW, CommitMessage, DataFileMeta
from tidelake.metadata.index.deletion_vector import decode_vector, frame_of
from tidelake.metadata.index_entry import IndexFile
from tidelake.metadata.paths import TablePaths
from tidelake.options import Options
from tidelake.store import AppendBucketWriter, LsmBucketWriter, StoreContext
from tidelake.telemetry import Env
from tidelake.types import DataField, TableSchema, parse_type
from tidelake.types.arrow import to_arrow_schema

KEYED = (("k", "BIGINT NOT NULL"), ("name", "STRING"), ("v", "INT"))


def schema_of(
    columns: Iterable[tuple[str, str]] = KEYED,
    *,
    primary_keys: tuple[str, ...] = ("k",),
    options: dict[str, str] | None = None,
) -> TableSchema:
    fields = tuple(DataField(i, n, parse_type(t)) for i, (n, t) in enumerate(columns))
    return TableSchema(
        0,
        fields,
        len(fields) - 1,
        primary_keys=primary_keys,
        options=MappingProxyType(options or {}),
    )


@dataclass
class Bucket:
    """One bucket; `live` follows the messages that were committed."""

    schema: TableSchema
    fileio: Any = field(default_factory=MemoryFileIO)
    spill_dir: str | None = None
    env: Env = field(default_factory=lambda: Env.seeded(1))
    total_buckets: int = 1
    live: list[DataFileMeta] = field(default_factory=list)
    vectors: list[IndexFile] = field(default_factory=list)

    @property
    def context(self) -> StoreContext:
        return StoreContext(
            self.fileio,
            TablePaths("/t"),
            self.schema,
            Options.parse(self.schema.options),
            self.env,
            self.spill_dir,
        )

    def writer(self) -> Any:
        opened = LsmBucketWriter if self.schema.primary_keys else AppendBucketWriter
        return opened(
            self.context,
            EMPTY_ROW,
            0,
            total_buckets=self.total_buckets,
            live_files=tuple(self.live),
            vectors=tuple(self.vectors),
        )

    def batch(self, rows: Iterable[tuple[Any, ...]]) -> pa.RecordBatch:
        schema = to_arrow_schema(self.schema.fields)
        columns = list(zip(*rows, strict=True)) or [[] for _ in schema]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def commit(self, message: CommitMessage) -> None:
        """Apply a message as the two snapshots of a commit do; every file deleted must be live."""
        self.live.extend(message.new_files)
        for file in message.compact_before:
            self.live.remove(file)
        for file in message.compact_after:
            assert file not in self.live
            self.live.append(file)
        if message.deletions is not None:
            known = {file.file_name: file for file in self.vectors}
            for name in message.deletions.removed:
                del known[name]
            self.vectors = [*known.values(), *message.deletions.added]
        names = {file.file_name for file in self.live}
        assert all(name in names for v in self.vectors for name, *_ in v.ranges)

    def path(self, file: DataFileMeta) -> str:
        return self.context.paths.data_file(EMPTY_ROW, 0, file)

    def stored(self, file: DataFileMeta) -> list[dict[str, Any]]:
        """A file's rows as they are stored."""
        fields = kv_fields(self.schema) if self.schema.primary_keys else self.schema.fields
        batches = read_batches(
            self.fileio,
            self.path(file),
            fields,
            file_size_bytes=file.file_size_bytes,
            row_count=file.row_count,
        )
        return [row for batch in batches for row in batch.to_pylist()]

    def deleted(self, file: DataFileMeta) -> list[int]:
        """The ordinals of the rows that a file's deletion vector names."""
        for index in self.vectors:
            data = self.fileio.read_bytes(
                self.context.paths.index_file(EMPTY_ROW, 0, index.file_name)
            )
            for name, offset, length, count in index.ranges:
                if name == file.file_name:
                    frame = frame_of(data[offset:], length=length)
                    gone = decode_vector(frame, row_count=file.row_count).tolist()
                    assert len(gone) == count
                    return gone
        return []

    def raw(self) -> list[dict[str, Any]]:
        """What a reader without a merge sees: files above level 0, without the deleted rows."""
        return [
            row
            for file in self.live
            if file.level
            for gone in [set(self.deleted(file))]
            for place, row in enumerate(self.stored(file))
            if place not in gone
        ]

    def rows(self) -> dict[Any, tuple[Any, ...]]:
        """Merge all live files row by row: the largest sequence number of a key is its row."""
        newest: dict[Any, dict[str, Any]] = {}
        for file in self.live:
            for row in self.stored(file):
                key = tuple(row[name] for name in self.schema.primary_keys)
                known = newest.get(key)
                if known is None or row["_SEQUENCE_NUMBER"] > known["_SEQUENCE_NUMBER"]:
                    newest[key] = row
        names = self.schema.field_names
        return {
            key: tuple(row[name] for name in names)
            for key, row in newest.items()
            if row["_VALUE_KIND"] % 2 == 0
        }

    def data_files(self) -> set[str]:
        return {status.name for status in self.fileio.list_dir("/t/bucket-0")}


def kinds(*values: int) -> np.ndarray:
    return np.array(values, np.int8)


def upserts(keys: Iterable[int], value: int) -> Iterator[tuple[int, str, int]]:
    return ((k, f"name{k}", value) for k in keys)
