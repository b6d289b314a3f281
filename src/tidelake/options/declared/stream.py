"""Stream reads, consumers, and the log system of older versions."""

from __future__ import annotations

from typing import Final

from tidelake.options.option import (
    boolean,
    duration,
    enumeration,
    integer,
    memory_size,
    no_effect,
    text,
)

__all__ = [
    "CONSUMER_EXPIRATION_TIME",
    "CONSUMER_ID",
    "CONSUMER_IGNORE_PROGRESS",
    "CONTINUOUS_DISCOVERY_INTERVAL",
    "READ_CHANGELOG",
    "READ_STREAM_MAXBYTESPERTRIGGER",
    "READ_STREAM_MAXFILESPERTRIGGER",
    "READ_STREAM_MAXROWSPERTRIGGER",
    "READ_STREAM_MAXTRIGGERDELAYMS",
    "READ_STREAM_MINROWSPERTRIGGER",
    "READ_STREAM_SCHEMA_CHANGE",
    "SCAN_BOUNDED_WATERMARK",
    "SCAN_WATERMARK_ALIGNMENT_GROUP",
    "SCAN_WATERMARK_ALIGNMENT_MAX_DRIFT",
    "SCAN_WATERMARK_IDLE_TIMEOUT",
    "STREAMING_READ_APPEND_OVERWRITE",
    "STREAMING_READ_OVERWRITE",
    "STREAMING_READ_SNAPSHOT_DELAY",
]

TITLE = "Streams: reads, consumers, log system"

_STREAM = no_effect("it belongs to stream reads; a batch reads one snapshot")
_LOG = no_effect("tables have no log system here; their files are the truth")

CONSUMER_EXPIRATION_TIME: Final = duration(
    "consumer.expiration-time",
    None,
    "How long nobody may be heard of a consumer before an expiry forgets it; unset keeps it.",
)
CONTINUOUS_DISCOVERY_INTERVAL: Final = duration(
    "continuous.discovery-interval",
    10_000,
    "The longest wait between two looks for snapshots of a stream without Spark, whose looks begin"
    " at 10 ms; on local files the system wakes it.",
)
STREAMING_READ_OVERWRITE: Final = enumeration(
    "streaming-read-overwrite",
    "fail",
    ("fail", "skip", "rows", "diff", "true", "false"),
    "What a stream makes of an overwrite: stop before it (fail), leave it out (skip, Paimon's"
    " false), give the rows it wrote and, with keys, deletes of the old ones (rows, Paimon's true),"
    " or give the net change (diff). Set it for a read: Java takes true and false alone.",
)
STREAMING_READ_APPEND_OVERWRITE: Final = boolean(
    "streaming-read-append-overwrite",
    False,
    "On append tables, where it is set, in place of streaming-read-overwrite: true is rows, false"
    " is skip.",
)
STREAMING_READ_SNAPSHOT_DELAY: Final = duration(
    "streaming.read.snapshot.delay",
    None,
    "How long after its commit a stream takes up a snapshot's changes.",
)
SCAN_BOUNDED_WATERMARK: Final = integer(
    "scan.bounded.watermark",
    None,
    "A stream ends before the first snapshot whose watermark is greater, in ms since the epoch.",
    long=True,
)
CONSUMER_ID: Final = text(
    "consumer-id", None, "Name under which a stream's progress is kept, and where it goes on."
)
CONSUMER_IGNORE_PROGRESS: Final = boolean(
    "consumer.ignore-progress", False, "Whether a new stream begins again all the same."
)
READ_CHANGELOG: Final = boolean(
    "read.changelog",
    None,
    "Whether a stream on Spark has the column _row_kind; where it is unset, streams of primary-key"
    " tables by tl.read_stream have. Where it is false, those show no deletes and no old rows.",
)
SCAN_WATERMARK_ALIGNMENT_GROUP: Final = text(
    "scan.watermark.alignment.group",
    None,
    "Streams of a process on Spark that wait for each other: none runs ahead in event time.",
)
SCAN_WATERMARK_ALIGNMENT_MAX_DRIFT: Final = duration(
    "scan.watermark.alignment.max-drift",
    None,
    "How far a stream may be ahead of the last one of its scan.watermark.alignment.group.",
)
SCAN_WATERMARK_IDLE_TIMEOUT: Final = duration(
    "scan.watermark.idle-timeout",
    None,
    "After what rest a stream holds back no other of its group; a minute where it is unset.",
)
READ_STREAM_MAXFILESPERTRIGGER: Final = integer(
    "read.stream.maxFilesPerTrigger",
    None,
    "The most files that a batch of a stream reads.",
    minimum=1,
)
READ_STREAM_MAXBYTESPERTRIGGER: Final = memory_size(
    "read.stream.maxBytesPerTrigger",
    None,
    "The most bytes of files that a batch of a stream reads.",
    minimum=1,
)
READ_STREAM_MAXROWSPERTRIGGER: Final = integer(
    "read.stream.maxRowsPerTrigger",
    None,
    "The most rows, as they are stored, that a batch of a stream reads.",
    long=True,
    minimum=1,
)
READ_STREAM_MINROWSPERTRIGGER: Final = integer(
    "read.stream.minRowsPerTrigger",
    None,
    "A batch of a stream waits for this many rows, as long as read.stream.maxTriggerDelayMs says.",
    long=True,
    minimum=1,
)
READ_STREAM_MAXTRIGGERDELAYMS: Final = integer(
    "read.stream.maxTriggerDelayMs",
    None,
    "How long after the commit of its first rows a batch of a stream waits for more, in ms.",
    long=True,
    minimum=1,
)
READ_STREAM_SCHEMA_CHANGE: Final = enumeration(
    "read.stream.schema-change",
    "fail",
    ("fail", "keep-columns"),
    "What a running stream does when columns are added: stop so that a restart reads them, or go on"
    " with the columns that it has. Columns renamed, dropped or of another type always stop it.",
)

UNREAD = (
    enumeration(
        "streaming-read-mode",
        None,
        ("log", "file"),
        "Whether a stream reads the log system or the files.",
        _LOG,
    ),
    enumeration(
        "stream-scan-mode",
        "none",
        ("none", "compact-bucket-table", "file-monitor"),
        "Set by Java's own compaction jobs while they follow a table.",
        _STREAM,
    ),
    enumeration(
        "consumer.mode",
        "exactly-once",
        ("exactly-once", "at-least-once"),
        "Whether progress follows checkpoints exactly.",
        _STREAM,
    ),
    enumeration(
        "log.changelog-mode", "auto", ("auto", "all", "upsert"), "Changes the log keeps.", _LOG
    ),
    enumeration(
        "log.consistency",
        "transactional",
        ("transactional", "eventual"),
        "Whether the log shows changes after the checkpoint or at once.",
        _LOG,
    ),
    text("log.format", "debezium-json", "Format of the log's messages.", _LOG),
    text("log.key.format", "json", "Format of the messages' keys.", _LOG),
    boolean("log.ignore-delete", False, "Whether the log leaves out deletes.", _LOG),
)
