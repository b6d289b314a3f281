"""The files beside the data: schemas, snapshots, manifests, indexes, tags, commit messages.

Each has one reader, one writer and golden bytes. Nothing here decides what is visible; that is
:mod:`tidelake.commit` and :mod:`tidelake.scan`.
"""

from tidelake.metadata.data_file import (
    CommitMessage,
    DataFileMeta,
    FileKind,
    FileSource,
    ManifestEntry,
    SimpleStats,
)
from tidelake.metadata.log.schema_log import SchemaLog
from tidelake.metadata.log.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from tidelake.metadata.log.snapshot_log import SnapshotLog
from tidelake.metadata.log.statistics import ColumnStatistics, TableStatistics
from tidelake.metadata.log.tag import Tag, TagLog
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.manifest_cache import ManifestCache
from tidelake.metadata.manifest.manifest_list import ManifestFile
from tidelake.metadata.manifest.snapshot_entries import delta_entries, live_entries, manifest_files
from tidelake.metadata.paths import TablePaths

__all__ = [
    "BATCH_IDENTIFIER",
    "ColumnStatistics",
    "CommitKind",
    "CommitMessage",
    "DataFileMeta",
    "EntryTable",
    "FileKind",
    "FileSource",
    "ManifestCache",
    "ManifestEntry",
    "ManifestFile",
    "SchemaLog",
    "SimpleStats",
    "Snapshot",
    "SnapshotLog",
    "TablePaths",
    "TableStatistics",
    "Tag",
    "TagLog",
    "delta_entries",
    "live_entries",
    "manifest_files",
]
