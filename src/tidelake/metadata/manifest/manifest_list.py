"""Manifest lists: the manifests of a snapshot, one row each.

A row holds the manifest's size, counts and ranges of partition, bucket and level. Scans use it to
skip whole manifests, and readers to notice a truncated manifest. A
list is an Avro container, written once under a unique name and never changed.

Source: ``docs/format/manifest.md``; files written by Java Paimon 1.3.1 and 2.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidelake.errors import CorruptError
from tidelake.fileio import FileIO
from tidelake.metadata.avro.avro import decode_container, encode_container
from tidelake.metadata.data_file import SimpleStats
from tidelake.metadata.manifest.manifest_schema import (
    CODEC,
    ENTRY_VERSION,
    LIST_SCHEMA,
    LIST_SCHEMA_2X,
)
from tidelake.metadata.manifest.manifest_versions import (
    NAME_LENGTH_MAX,
    ManifestFields,
    check_versions,
)
from tidelake.metadata.paths import TablePaths
from tidelake.metadata.unique_file import WholeFiles, resized, whole_bytes_max, write_unique


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One row of a manifest list: a manifest and its content.

    Parameters
    ----------
    min_bucket, max_bucket, min_level, max_level : int, optional
        Ranges; None if the writer did not record them (before 1.3).
    min_row_id, max_row_id : int, optional
        Paimon 2.x with row tracking.
    """

    file_name: str
    file_size_bytes: int
    added_count: int
    deleted_count: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None

    @property
    def entries_count(self) -> int:
        """Number of its entries."""
        return self.added_count + self.deleted_count


def write_manifest_list(
    fileio: WholeFiles,
    paths: TablePaths,
    name: str,
    manifests: Sequence[ManifestFile],
    *,
    codec: str = CODEC,
) -> tuple[str, int]:
    """Write a manifest list; its name and size."""
    needs_2x = any(m.min_row_id is not None for m in manifests)
    schema = LIST_SCHEMA_2X if needs_2x else LIST_SCHEMA
    records = [_list_record(m, with_2x=needs_2x) for m in manifests]
    data = encode_container(schema, records, codec=codec, name=name)
    write_unique(fileio, paths.manifest(name), data)
    return name, len(data)


def read_manifest_list(
    fileio: FileIO, paths: TablePaths, name: str, *, size_bytes: int | None = None
) -> tuple[ManifestFile, ...]:
    """Read a manifest list.

    Raises
    ------
    CorruptError
        The file is damaged or has another size; the message names it.
    UnsupportedError
        Its version is unknown.
    NotFoundError
        It is missing.
    """
    path = paths.manifest(name)
    data = fileio.read_bytes(path, bytes_max=whole_bytes_max(size_bytes))
    if size_bytes is not None and len(data) != size_bytes:
        raise resized(path, len(data), size_bytes)
    records = decode_container(data, path=path)
    with ManifestFields(path):
        check_versions({r["_VERSION"] for r in records}, path)
        files = tuple(_manifest_file_of(r) for r in records)
    if len({f.file_name for f in files}) < len(files):
        [(twice, count)] = Counter(f.file_name for f in files).most_common(1)
        message = (
            f"Manifest list {path} names manifest '{twice}' {count} times, so its files would be"
            " counted several times. Restore it from a backup."
        )
        raise CorruptError(message, kind="manifest_list", path=path)
    return files


def _list_record(manifest: ManifestFile, *, with_2x: bool) -> dict[str, Any]:
    stats = manifest.partition_stats
    record = {
        "_VERSION": ENTRY_VERSION,
        "_FILE_NAME": manifest.file_name,
        "_FILE_SIZE": manifest.file_size_bytes,
        "_NUM_ADDED_FILES": manifest.added_count,
        "_NUM_DELETED_FILES": manifest.deleted_count,
        "_PARTITION_STATS": {
            "_MIN_VALUES": stats.min_values,
            "_MAX_VALUES": stats.max_values,
            "_NULL_COUNTS": list(stats.null_counts),
        },
        "_SCHEMA_ID": manifest.schema_id,
        "_MIN_BUCKET": manifest.min_bucket,
        "_MAX_BUCKET": manifest.max_bucket,
        "_MIN_LEVEL": manifest.min_level,
        "_MAX_LEVEL": manifest.max_level,
    }
    if with_2x:
        record |= {"_MIN_ROW_ID": manifest.min_row_id, "_MAX_ROW_ID": manifest.max_row_id}
    return record


def _manifest_file_of(record: dict[str, Any]) -> ManifestFile:
    stats = record["_PARTITION_STATS"]
    return ManifestFile(
        file_name=_text(record["_FILE_NAME"]),
        file_size_bytes=record["_FILE_SIZE"],
        added_count=record["_NUM_ADDED_FILES"],
        deleted_count=record["_NUM_DELETED_FILES"],
        partition_stats=SimpleStats(
            stats["_MIN_VALUES"], stats["_MAX_VALUES"], tuple(stats.get("_NULL_COUNTS") or ())
        ),
        schema_id=record["_SCHEMA_ID"],
        min_bucket=record.get("_MIN_BUCKET"),
        max_bucket=record.get("_MAX_BUCKET"),
        min_level=record.get("_MIN_LEVEL"),
        max_level=record.get("_MAX_LEVEL"),
        min_row_id=record.get("_MIN_ROW_ID"),
        max_row_id=record.get("_MAX_ROW_ID"),
    )


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > NAME_LENGTH_MAX:
        raise TypeError("a file name is not text or is too long")
    return value
