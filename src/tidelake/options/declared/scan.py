"""Batch reads: snapshot, changes, and splits."""

from __future__ import annotations

from typing import Final

from tidelake.options.option import (
    ON_READ,
    boolean,
    enumeration,
    integer,
    memory_size,
    no_effect,
    partly,
    refused,
    text,
)

__all__ = [
    "INCREMENTAL_BETWEEN",
    "INCREMENTAL_BETWEEN_SCAN_MODE",
    "INCREMENTAL_BETWEEN_TIMESTAMP",
    "READ_MASK_CACHE_SIZE",
    "READ_NATIVE",
    "SCAN_CREATION_TIME_MILLIS",
    "SCAN_FILE_CREATION_TIME_MILLIS",
    "SCAN_INFER_PARALLELISM",
    "SCAN_MODE",
    "SCAN_PARALLELISM",
    "SCAN_PLAN_SORT_PARTITION",
    "SCAN_SNAPSHOT_ID",
    "SCAN_TAG_NAME",
    "SCAN_TIMESTAMP",
    "SCAN_TIMESTAMP_MILLIS",
    "SCAN_WATERMARK",
    "SOURCE_SPLIT_OPEN_FILE_COST",
    "SOURCE_SPLIT_TARGET_SIZE",
]

TITLE = "Reading: snapshots, time travel, splits"

_CHANGES = refused("pass the ends to Table.changes(start, end) instead", on=ON_READ)
_BETWEEN = refused(
    "pass the ends to Table.changes(start, end), on Spark to tl.changes or as this option to"
    " format('tidelake')",
    on=ON_READ,
)
_OF_STREAMS = refused(
    "it sets where a stream begins; pass timestamp= to a batch read, or set"
    " scan.file-creation-time-millis",
    on=ON_READ,
)
_STREAM = no_effect("it is for Flink's own source and jobs")

SCAN_MODE: Final = enumeration(
    "scan.mode",
    "default",
    (
        "default",
        "latest-full",
        "full",
        "latest",
        "compacted-full",
        "from-timestamp",
        "from-creation-timestamp",
        "from-file-creation-time",
        "from-snapshot",
        "from-snapshot-full",
        "incremental",
    ),
    "Where a read begins; default: by the other scan options, else at the latest snapshot."
    " compacted-full: the newest snapshot of a compaction; of the full ones if"
    " full-compaction.delta-commits is set.",
    partly(
        "it is for streams; for a batch read unset it and pass snapshot_id=, timestamp= or tag=",
        accepted=(
            "latest-full",
            "full",
            "latest",
            "compacted-full",
            "from-timestamp",
            "from-file-creation-time",
            "from-snapshot",
            "from-snapshot-full",
        ),
        on=ON_READ,
    ),
    fallback_keys=("log.scan",),
)
SCAN_SNAPSHOT_ID: Final = integer(
    "scan.snapshot-id", None, "Read this snapshot of the table.", long=True, minimum=1
)
SCAN_TAG_NAME: Final = text("scan.tag-name", None, "Read this tag of the table.")
SCAN_TIMESTAMP_MILLIS: Final = integer(
    "scan.timestamp-millis",
    None,
    "Read the table as of this time, in ms since the epoch.",
    long=True,
    fallback_keys=("log.scan.timestamp-millis",),
)
SCAN_TIMESTAMP: Final = text(
    "scan.timestamp", None, "Read the table as of this time, such as '2024-05-01 12:00:00'."
)
INCREMENTAL_BETWEEN: Final = text(
    "incremental-between",
    None,
    "Read the changes between two snapshots or tags, as 'start,end'.",
    _BETWEEN,
)
INCREMENTAL_BETWEEN_TIMESTAMP: Final = text(
    "incremental-between-timestamp",
    None,
    "Read the changes between two times, as 'start,end'.",
    _CHANGES,
)
INCREMENTAL_BETWEEN_SCAN_MODE: Final = enumeration(
    "incremental-between-scan-mode",
    "auto",
    ("auto", "delta", "changelog", "diff"),
    "The source of the changes of incremental-between.",
)
SOURCE_SPLIT_TARGET_SIZE: Final = memory_size(
    "source.split.target-size",
    128 << 20,
    "Size of one split of a scan. Larger: fewer tasks; smaller: more parallel.",
    minimum=1,
)
SOURCE_SPLIT_OPEN_FILE_COST: Final = memory_size(
    "source.split.open-file-cost",
    4 << 20,
    "Cost of opening a file, in bytes. Larger: fewer small files in one split.",
)
READ_MASK_CACHE_SIZE: Final = memory_size(
    "read.mask-cache-size",
    64 << 20,
    "The most memory of a catalog for masks, which say what rows of a file newer ones replace; and"
    " the most for the orders of this table's merges, which later reads repeat. With 0 reads merge."
    " Smaller: large tables find their masks again for each query, and merge again.",
)
READ_NATIVE: Final = enumeration(
    "read.native",
    "auto",
    ("auto", "always", "never"),
    "Whether Spark's own Parquet scan reads files that need no merge, or Python workers do. auto:"
    " where it reads the storage; always: an error where it does not.",
)
SCAN_PARALLELISM: Final = integer(
    "scan.parallelism",
    None,
    "The most tasks of a read on Spark. More: more tasks at once, at most one for each split.",
    minimum=1,
)
SCAN_INFER_PARALLELISM: Final = boolean(
    "scan.infer-parallelism",
    None,
    "Number of tasks that merge files on Spark if scan.parallelism is unset. true: one for each"
    " split, so one or more for each bucket, at most 1024; false: as many as the session runs at"
    " once; unset: by the bytes to read. Files that need no merge are cut by Spark's own settings;"
    " with false into no more parts than that.",
)

SCAN_WATERMARK: Final = integer(
    "scan.watermark",
    None,
    "Read the first snapshot whose watermark is at least this, in ms since the epoch.",
    long=True,
)
SCAN_CREATION_TIME_MILLIS: Final = integer(
    "scan.creation-time-millis",
    None,
    "A stream begins with data created after this time, in ms since the epoch.",
    _OF_STREAMS,
    long=True,
)
SCAN_FILE_CREATION_TIME_MILLIS: Final = integer(
    "scan.file-creation-time-millis",
    None,
    "Read only files of the newest snapshot that were created at this time or later, in ms since"
    " the epoch; a stream goes on with the changes after. A file that a compaction wrote is as new"
    " as the compaction, whatever rows it holds.",
    long=True,
)
SCAN_PLAN_SORT_PARTITION: Final = boolean(
    "scan.plan-sort-partition",
    False,
    "Whether a stream gives partitions in the order of their values, not of their creation.",
)

UNREAD = (
    text(
        "scan.version",
        None,
        "Read the tag of this name; if there is none, the snapshot of this id.",
        refused("pass snapshot_id= or tag= to the read instead", on=ON_READ),
    ),
    text(
        "scan.fallback-branch",
        None,
        "Branch with the partitions that this one lacks.",
        refused("branches are not covered yet; unset it", on=ON_READ),
    ),
    text(
        "incremental-to-auto-tag",
        None,
        "Read the changes up to an automatic tag.",
        _CHANGES,
    ),
    integer(
        "scan.manifest.parallelism",
        None,
        "Number of manifests to read at a time.",
        no_effect("the session's executor decides"),
    ),
    integer(
        "scan.max-splits-per-task",
        10,
        "Number of splits that Flink assigns to a task in advance.",
        _STREAM,
    ),
    enumeration(
        "batch-scan-mode",
        "none",
        ("none", "compact"),
        "Java's own compaction jobs set it during scans.",
        refused("it is for Java's own jobs; unset it", on=ON_READ),
    ),
)
