"""Writers, routers of rows to buckets, transactions and what commits take."""

from __future__ import annotations

from tidelake.commit.conflicts.concurrent_changes import EMPTY_TABLE, EmptyTable
from tidelake.commit.idempotence import last_commit
from tidelake.merge import (
    DELETE,
    ROLE_COLUMN,
    TARGET,
    UPSERT,
    FileKeys,
    HistoryRule,
    MergeSpec,
    deduplicate_input,
    versions_of,
)
from tidelake.merge.spec import DEDUPLICATE, FIRST_ROW
from tidelake.metadata import CommitMessage, DataFileMeta
from tidelake.table import WriteResult
from tidelake.table.bucketing.cross_partition_assigner import (
    KIND_COLUMN,
    AssignedRows,
    CrossPartitionAssigner,
)
from tidelake.table.bucketing.dynamic_buckets import DynamicBuckets, fill_of
from tidelake.table.bucketing.router import Router
from tidelake.table.conversion.inputs import ROW_KIND_COLUMN, with_row_kinds
from tidelake.table.write.bucket_state import BucketStates, EmptyStates
from tidelake.table.write.compaction_conflict import compaction_conflict
from tidelake.table.write.delta_commits_trigger import full_compactions
from tidelake.table.write.empty_commit import wants_empty_commit
from tidelake.table.write.expired_inputs import names_expired_inputs
from tidelake.table.write.ingest import Ingest
from tidelake.table.write.new_writer import new_writer
from tidelake.table.write.overwrite import Overwrite, partial_overwrite_error, write_target
from tidelake.table.write.result import UNKNOWN_COUNTS, CommitIdentity, RowCounts
from tidelake.table.write.table_writer import FullCompactions, delete_new_files
from tidelake.table.write.transaction import (
    MessageSource,
    WriteTransaction,
    compact_due,
    is_committed,
    replay_of,
)
from tidelake.table.write.writable import check_writable

__all__ = [
    "DEDUPLICATE",
    "DELETE",
    "EMPTY_TABLE",
    "FIRST_ROW",
    "KIND_COLUMN",
    "ROLE_COLUMN",
    "ROW_KIND_COLUMN",
    "TARGET",
    "UNKNOWN_COUNTS",
    "UPSERT",
    "AssignedRows",
    "BucketStates",
    "CommitIdentity",
    "CommitMessage",
    "CrossPartitionAssigner",
    "DataFileMeta",
    "DynamicBuckets",
    "EmptyStates",
    "EmptyTable",
    "FileKeys",
    "FullCompactions",
    "HistoryRule",
    "Ingest",
    "MergeSpec",
    "MessageSource",
    "Overwrite",
    "Router",
    "RowCounts",
    "WriteResult",
    "WriteTransaction",
    "check_writable",
    "compact_due",
    "compaction_conflict",
    "deduplicate_input",
    "delete_new_files",
    "fill_of",
    "full_compactions",
    "is_committed",
    "last_commit",
    "names_expired_inputs",
    "new_writer",
    "partial_overwrite_error",
    "replay_of",
    "versions_of",
    "wants_empty_commit",
    "with_row_kinds",
    "write_target",
]
