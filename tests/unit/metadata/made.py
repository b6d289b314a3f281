"""Small metadata for tests: files, entries, tables, and the fixture tables of real Paimon."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tidelake.codec.binary_row import serialize_row
from tidelake.fileio import LocalFileIO, MemoryFileIO
from tidelake.metadata import (
    CommitKind,
    DataFileMeta,
    EntryTable,
    FileKind,
    ManifestEntry,
    SchemaLog,
    SimpleStats,
    Snapshot,
    SnapshotLog,
    TablePaths,
)
from tidelake.metadata.data_file import EMPTY_ROW, EMPTY_STATS
from tidelake.metadata.manifest.manifest import write_manifests
from tidelake.types import parse_type

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no reason for a test to fail."""

BIGINT = parse_type("BIGINT")
STRING = parse_type("STRING")
PATHS = TablePaths("/wh/db.db/t")
PARTITIONED = TablePaths("/wh/db.db/t", ("p",), (STRING,))


def key(value: int) -> bytes:
    return serialize_row((value,), (BIGINT,))


def partition(value: str | None) -> bytes:
    return serialize_row((value,), (STRING,))


def data_file(name="data-1.parquet", *, level=0, rows=10, keys=None, sequences=(0, 9), **changes):
    low, high = (EMPTY_ROW, EMPTY_ROW) if keys is None else map(key, keys)
    stats = EMPTY_STATS if keys is None else SimpleStats(low, high, (0,))
    fields = {
        "file_name": name,
        "file_size_bytes": 100,
        "row_count": rows,
        "min_key": low,
        "max_key": high,
        "key_stats": stats,
        "value_stats": EMPTY_STATS,
        "min_sequence_number": sequences[0],
        "max_sequence_number": sequences[1],
        "schema_id": 0,
        "level": level,
        "creation_time_ms": 1_700_000_000_000,
        "delete_row_count": 0,
        "file_source": 0,
    }
    return DataFileMeta(**(fields | changes))


def added(name="data-1.parquet", *, place=(EMPTY_ROW, 0), total_buckets=1, **fields):
    return ManifestEntry(FileKind.ADD, *place, total_buckets, data_file(name, **fields))  # type: ignore[call-arg]


def deleted(name="data-1.parquet", *, place=(EMPTY_ROW, 0), total_buckets=1, **fields):
    return ManifestEntry(FileKind.DELETE, *place, total_buckets, data_file(name, **fields))  # type: ignore[call-arg]


def write_manifest(fileio, paths, name, entries, *, schema_id, codec="null"):
    """One manifest, whatever its size."""
    table = entries if isinstance(entries, EntryTable) else EntryTable.of(entries)
    (file,) = write_manifests(
        fileio, paths, iter([name]), table, schema_id=schema_id, bytes_max=None, codec=codec
    )
    return file


def fixture_tables(oracle_dir):
    """All tables written by real Paimon: (name, FileIO, paths)."""
    fileio = LocalFileIO()
    places = [oracle_dir / "fixtures" / "warehouse_1_3_1.db"]
    places += [oracle_dir / "fixtures" / "warehouse" / "db.db"]
    for place in places:
        for table in sorted(place.iterdir()):
            if (table / "schema").is_dir():
                schema = SchemaLog(fileio, TablePaths(str(table))).latest()
                yield f"{place.name}/{table.name}", fileio, TablePaths.of(str(table), schema)


def snapshots_of(oracle_dir):
    for name, fileio, paths in fixture_tables(oracle_dir):
        log = SnapshotLog(fileio, paths)
        for snapshot_id in log.ids():
            yield name, fileio, paths, log.load(snapshot_id)


def written(count=3):
    fileio = MemoryFileIO()
    file = write_manifest(fileio, PATHS, "m", [added(f"f{i}") for i in range(count)], schema_id=0)
    return fileio, PATHS.manifest("m"), file


def snapshot(snapshot_id=1, **changes):
    fields = {
        "id": snapshot_id,
        "schema_id": 0,
        "base_manifest_list": "manifest-list-0c5fb3f6-7d1c-4f0e-9f1d-1f7f3c5b8a01-0",
        "delta_manifest_list": "manifest-list-0c5fb3f6-7d1c-4f0e-9f1d-1f7f3c5b8a01-1",
        "commit_user": "loader",
        "commit_identifier": 7,
        "commit_kind": CommitKind.APPEND,
        "time_ms": 1_700_000_000_000 + snapshot_id * 1000,
        "base_manifest_list_size_bytes": 884,
        "delta_manifest_list_size_bytes": 1042,
        "total_record_count": 4,
        "delta_record_count": 4,
        "changelog_record_count": 0,
        "next_row_id": 0,
    }
    return Snapshot(**(fields | changes))


def publish(log, made):
    """Put a snapshot and move the hints, as a commit does; False if its id is taken."""
    if not log.put(made):
        return False
    log.write_hints(made.id)
    return True
