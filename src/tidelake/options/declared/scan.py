"""Batch reads: which snapshot, which changes, how the work is split."""

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
_OF_FILES = refused("it says where a stream begins; pass timestamp= to a batch read", on=ON_READ)
_STREAM = no_effect("it belongs to stream reads; a batch reads one snapshot")

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
    "Where a read begins; default follows the other scan options, else the latest snapshot.",
    partly(
        "only streams begin so; for a batch read unset it and pass snapshot_id=, timestamp= or"
        " tag=",
        accepted=(
            "latest-full",
            "full",
            "latest",
            "from-timestamp",
            "from-snapshot",
            "from-snapshot-full",
        ),
        on=ON_READ,
    ),
    fallback_keys=("log.scan",),
)
SCAN_SNAPSHOT_ID: Final = integer(
    "scan.snapshot-id", None, "Read the table as of this snapshot.", long=True, minimum=1
)
SCAN_TAG_NAME: Final = text("scan.tag-name", None, "Read the table as of this tag.")
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
    "incremental-between-timestamp", None, "The same between two times.", _CHANGES
)
INCREMENTAL_BETWEEN_SCAN_MODE: Final = enumeration(
    "incremental-between-scan-mode",
    "auto",
    ("auto", "delta", "changelog", "diff"),
    "Where those changes are read from; it goes with incremental-between.",
)
SOURCE_SPLIT_TARGET_SIZE: Final = memory_size(
    "source.split.target-size",
    128 << 20,
    "Bytes that one split of a scan reads. Larger: fewer tasks; smaller: more parallel.",
    minimum=1,
)
SOURCE_SPLIT_OPEN_FILE_COST: Final = memory_size(
    "source.split.open-file-cost",
    4 << 20,
    "Bytes that opening a file counts as. Larger: fewer small files in one split.",
)
SCAN_PARALLELISM: Final = integer(
    "scan.parallelism",
    None,
    "Partitions that a read on Spark has at most. More: more tasks at once, up to the splits.",
    minimum=1,
)
SCAN_INFER_PARALLELISM: Final = boolean(
    "scan.infer-parallelism",
    None,
    "How many tasks merge files on Spark where scan.parallelism is not set: one for each split "
    "(true), as many as the session runs at once (false), or by the bytes to read (unset).",
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
    "A stream begins with the data made after this time, in ms since the epoch.",
    _OF_FILES,
    long=True,
)
SCAN_FILE_CREATION_TIME_MILLIS: Final = integer(
    "scan.file-creation-time-millis",
    None,
    "A stream begins with the files made at this time or later, in ms since the epoch.",
    _OF_FILES,
    long=True,
)
SCAN_PLAN_SORT_PARTITION: Final = boolean(
    "scan.plan-sort-partition",
    False,
    "Whether a stream gives partitions in the order of their values, not of their making.",
)

UNREAD = (
    text(
        "scan.version",
        None,
        "Read the table as of this tag or, where there is none of that name, snapshot.",
        refused("pass snapshot_id= or tag= to the read instead", on=ON_READ),
    ),
    text(
        "scan.fallback-branch",
        None,
        "Branch that gives the partitions which this one lacks.",
        refused("branches are not covered yet; unset it", on=ON_READ),
    ),
    text(
        "incremental-to-auto-tag",
        None,
        "The changes up to a tag that was made by itself.",
        _CHANGES,
    ),
    integer(
        "scan.manifest.parallelism",
        None,
        "Manifests read at a time.",
        no_effect("the session's executor decides"),
    ),
    integer("scan.max-splits-per-task", 10, "Splits that Flink hands a task ahead.", _STREAM),
    enumeration(
        "batch-scan-mode",
        "none",
        ("none", "compact"),
        "Set by Java's own compaction jobs while they scan.",
        refused("it is for Java's own jobs; unset it", on=ON_READ),
    ),
)
