"""What the files beside the data say: schemas, snapshots, manifests, tags, commit messages."""

from tidelake.metadata.data_file import (
    CommitMessage,
    DataFileMeta,
    FileKind,
    FileSource,
    ManifestEntry,
    SimpleStats,
)
from tidelake.metadata.entry_table import EntryTable
from tidelake.metadata.live_set import delta_entries, live_entries, manifest_files
from tidelake.metadata.manifest_cache import ManifestCache
from tidelake.metadata.manifest_list import ManifestFile
from tidelake.metadata.paths import TablePaths
from tidelake.metadata.schema_log import SchemaLog
from tidelake.metadata.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot, SnapshotLog
from tidelake.metadata.tag import Tag, TagLog

__all__ = [
    "BATCH_IDENTIFIER",
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
    "Tag",
    "TagLog",
    "delta_entries",
    "live_entries",
    "manifest_files",
]
