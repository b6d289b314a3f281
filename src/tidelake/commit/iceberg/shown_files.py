"""A table's data files as Iceberg's entries, with their bounds.

Bounds and null counts are those of Paimon's manifests, in the types of the file's own schema; a
bound that is not a number is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidelake.codec.binary_row import decode_row
from tidelake.commit.context import CommitContext
from tidelake.commit.iceberg.iceberg_schema import is_atomic
from tidelake.commit.iceberg.manifest_files import ADDED, DATA, Record, avro_name
from tidelake.commit.iceberg.settings import IcebergSettings
from tidelake.commit.iceberg.single_value import avro_value, bound_of, is_nan
from tidelake.format import TRACKING_FIELDS
from tidelake.metadata.data_file import DataFileMeta, FileKind, ManifestEntry
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.snapshot_entries import live_entries
from tidelake.metadata.row_ids import stats_fields
from tidelake.types import DataField, TableSchema


@dataclass(frozen=True, slots=True)
class ShownFiles:
    """Gives the files of snapshots as Iceberg's ``data_file`` records.

    Parameters
    ----------
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
            address = self.address(entry.partition, entry.bucket, entry.file)
            if entry.kind is FileKind.ADD:
                added[address] = self._data_file(entry)
            else:
                removed.add(address)
        return added, removed

    def _shown(self, table: EntryTable) -> list[ManifestEntry]:
        mask = (table["bucket"] >= 0) & (table["level"] >= self.settings.level_min)
        return table.take(np.flatnonzero(mask)).to_entries()

    def address(self, partition: bytes, bucket: int, file: DataFileMeta | str) -> str:
        """The address of a data file."""
        return self.address_of(self.context.paths.data_file(partition, bucket, file))

    def _data_file(self, entry: ManifestEntry) -> Record:
        file = entry.file
        lower, upper, nulls = self._statistics(file)
        return self.record(
            entry.partition,
            content=DATA,
            file_path=self.address(entry.partition, entry.bucket, file),
            file_format=file.file_name.rpartition(".")[2],
            record_count=file.row_count,
            file_size_in_bytes=file.file_size_bytes,
            null_value_counts=_pairs(nulls),
            lower_bounds=_pairs(lower),
            upper_bounds=_pairs(upper),
        )

    def record(self, partition: bytes, **known: Any) -> Record:
        """A ``data_file`` record with these values; the others are null."""
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
            if field in TRACKING_FIELDS:
                continue  # Iceberg's table has no such columns
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
        return stats_fields(
            self.schema_of(file.schema_id),
            file.value_stats_cols,
            file.write_cols,
            file.value_stats.min_values,
        )


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
