"""Snapshots, manifests and indexes of a table, and its names on disk."""

from __future__ import annotations

from tidelake.metadata import ManifestCache, Snapshot, commit_message, live_entries
from tidelake.metadata.at_once import at_once
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.index.hash_index import read_hash_index
from tidelake.metadata.index_entry import IndexEntry
from tidelake.metadata.log.snapshot import BATCH_IDENTIFIER
from tidelake.metadata.manifest.lazy_file_list import names_of
from tidelake.metadata.partition_name import escape_name, partition_text
from tidelake.metadata.paths import POSTPONE_BUCKET

__all__ = [
    "BATCH_IDENTIFIER",
    "POSTPONE_BUCKET",
    "BucketId",
    "IndexEntry",
    "ManifestCache",
    "Snapshot",
    "at_once",
    "commit_message",
    "escape_name",
    "live_entries",
    "names_of",
    "partition_text",
    "read_hash_index",
]
