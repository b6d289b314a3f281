"""A table's files as Iceberg's entries: data files with their bounds, deletion vectors by place.

Bounds and null counts are those of Paimon's manifests, in the types of the file's own schema; a
bound that is not a number is left out. A deletion vector stays where it is: the entry names the
index file, offset and length, because the bytes there are those of a blob in a Puffin file. That
holds for vectors of 64 bits only, so the frame of each new one is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidelake.codec.binary_row import decode_row
from tidelake.commit.context import CommitContext
from tidelake.commit.iceberg.iceberg_schema import is_atomic
from tidelake.commit.iceberg.manifest_files import ADDED, DATA, DELETES, Record, avro_name
from tidelake.commit.iceberg.settings import IcebergSettings
from tidelake.commit.iceberg.single_value import avro_value, bound_of, is_nan
from tidelake.errors import UnsupportedError
from tidelake.metadata.data_file import DataFileMeta, FileKind, ManifestEntry
from tidelake.metadata.index.deletion_vector import is_64_bits
from tidelake.metadata.index_entry import DELETION_VECTORS, IndexEntry
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.snapshot_entries import live_entries
from tidelake.types import DataField, TableSchema

__all__ = ["ShownFiles", "VectorKey", "added_entry", "vector_key"]

FRAME_HEAD_BYTES = 8
VectorKey = tuple[str, str, int]
"""Data file, index file and offset of a deletion vector."""


def vector_key(file: Record) -> VectorKey:
    """The identity of a vector's entry."""
    return file["referenced_data_file"], file["file_path"], file["content_offset"]


@dataclass(frozen=True, slots=True)
class ShownFiles:
    """Gives the files of snapshots as Iceberg's ``data_file`` records.

    Parameters
    ----------
    context : CommitContext
        The table.
    settings : IcebergSettings
        What is shown.
    schema_of : callable
        A schema by its id.
    address_of : callable
        The address of a path.
    """

    context: CommitContext
    settings: IcebergSettings
    schema_of: Callable[[int], TableSchema]
    address_of: Callable[[str], str]

    def live(self, snapshot: Snapshot) -> dict[str, Record]:
        """The data files of a snapshot, by their address."""
        context = self.context
        table = live_entries(context.fileio, context.paths, snapshot, context.manifests)
        return {r["file_path"]: r for r in map(self._data_file, self._shown(table))}

    def changes(self, snapshot: Snapshot) -> tuple[dict[str, Record], set[str]]:
        """The data files that a snapshot added, and the addresses of those that it removed.

        A file that only moved to another level is in both.
        """
        added: dict[str, Record] = {}
        removed: set[str] = set()
        for entry in self._shown(self.context.delta(snapshot)):
            address = self._address(entry.partition, entry.bucket, entry.file)
            if entry.kind is FileKind.ADD:
                added[address] = self._data_file(entry)
            else:
                removed.add(address)
        return added, removed

    def _shown(self, table: EntryTable) -> list[ManifestEntry]:
        mask = (table["bucket"] >= 0) & (table["level"] >= self.settings.level_min)
        return table.take(np.flatnonzero(mask)).to_entries()

    def _address(self, partition: bytes, bucket: int, file: DataFileMeta | str) -> str:
        return self.address_of(self.context.paths.data_file(partition, bucket, file))

    def _data_file(self, entry: ManifestEntry) -> Record:
        file = entry.file
        lower, upper, nulls = self._statistics(file)
        return self._record(
            entry.partition,
            content=DATA,
            file_path=self._address(entry.partition, entry.bucket, file),
            file_format=file.file_name.rpartition(".")[2],
            record_count=file.row_count,
            file_size_in_bytes=file.file_size_bytes,
            null_value_counts=_pairs(nulls),
            lower_bounds=_pairs(lower),
            upper_bounds=_pairs(upper),
        )

    def _record(self, partition: bytes, **known: Any) -> Record:
        paths = self.context.paths
        values = zip(
            paths.partition_keys,
            paths.partition_types,
            paths.partition_values(partition),
            strict=True,
        )
        return {
            "partition": {avro_name(k): avro_value(v, t) for k, t, v in values},
            "null_value_counts": None,
            "lower_bounds": None,
            "upper_bounds": None,
            "referenced_data_file": None,
            "content_offset": None,
            "content_size_in_bytes": None,
            "first_row_id": None,
            **known,
        }

    def _statistics(
        self, file: DataFileMeta
    ) -> tuple[dict[int, bytes], dict[int, bytes], dict[int, int]]:
        """Lower bounds, upper bounds and null counts by field id."""
        fields = self._fields_with_statistics(file)
        stats = file.value_stats
        types = tuple(field.type for field in fields)
        lows, highs = (decode_row(r, types) for r in (stats.min_values, stats.max_values))
        nulls = stats.null_counts or (None,) * len(fields)
        lower: dict[int, bytes] = {}
        upper: dict[int, bytes] = {}
        counts: dict[int, int] = {}
        for field, low, high, count in zip(fields, lows, highs, nulls, strict=True):
            if count is not None:
                counts[field.id] = count
            if not is_atomic(field.type) or is_nan(low) or is_nan(high):
                continue
            if low is not None:
                lower[field.id] = bound_of(low, field.type)
            if high is not None:
                upper[field.id] = bound_of(high, field.type)
        return lower, upper, counts

    def _fields_with_statistics(self, file: DataFileMeta) -> tuple[DataField, ...]:
        schema = self.schema_of(file.schema_id)
        if file.value_stats_cols is not None:
            return tuple(schema.field(name) for name in file.value_stats_cols)
        if file.write_cols is not None:
            return tuple(schema.field(name) for name in file.write_cols)
        return schema.fields

    # ---- deletion vectors

    def vectors(self, snapshot: Snapshot) -> dict[VectorKey, Record]:
        """The deletion vectors of a snapshot."""
        entries = self.context.index_entries(snapshot)
        return {vector_key(record): record for record in self._vectors(entries)}

    def _vectors(self, entries: Iterable[IndexEntry]) -> Iterator[Record]:
        for entry in entries:
            if entry.file.index_type != DELETION_VECTORS:
                continue
            address = self.address_of(self.context.paths.index_file_of(entry))
            for name, offset, length, cardinality in entry.file.ranges or ():
                if cardinality is None:
                    raise self._refused(
                        f"the deletion vector of data file '{name}' does not say how many rows it"
                        " deletes"
                    )
                yield self._record(
                    entry.partition,
                    content=DELETES,
                    file_path=address,
                    file_format="puffin",
                    record_count=cardinality,
                    file_size_in_bytes=entry.file.file_size_bytes,
                    referenced_data_file=self._address(entry.partition, entry.bucket, name),
                    content_offset=offset,
                    content_size_in_bytes=length,
                )

    def check_vectors(self, snapshot: Snapshot, known: set[VectorKey]) -> None:
        """Refuse a snapshot with vectors, other than the known ones, that cannot be read."""
        for entry in self.context.index_entries(snapshot):
            if entry.file.index_type != DELETION_VECTORS:
                continue
            address = self.address_of(self.context.paths.index_file_of(entry))
            for name, offset, *_ in entry.file.ranges or ():
                data_file = self._address(entry.partition, entry.bucket, name)
                if (data_file, address, offset) in known:
                    continue
                path = self.context.paths.index_file_of(entry)
                head = self.context.fileio.read_range(path, offset, FRAME_HEAD_BYTES)
                if not is_64_bits(head):
                    raise self._refused(f"the deletion vector of data file '{name}' has 32 bits")

    def _refused(self, what: str) -> UnsupportedError:
        message = (
            f"Table '{self.context.table}' cannot have Iceberg metadata yet: {what}, so Iceberg's"
            " readers could not use it. A full compaction writes the file without those rows."
        )
        return UnsupportedError(message, kind="iceberg", table=self.context.table)


def added_entry(file: Record, snapshot_id: int) -> Record:
    """The entry of a file that a snapshot adds."""
    return {
        "status": ADDED,
        "snapshot_id": snapshot_id,
        "sequence_number": snapshot_id,
        "file_sequence_number": snapshot_id,
        "data_file": file,
    }


def _pairs(values: dict[int, Any]) -> list[Record]:
    return [{"key": key, "value": value} for key, value in values.items()]
