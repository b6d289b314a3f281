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

_JOBS = no_effect("it is for Java's own jobs")
_EACH_BATCH = no_effect(
    "a stream records its progress when it asks for the next batch, in either mode"
)
_LOG = no_effect("tables have no log system here, only files")

CONSUMER_EXPIRATION_TIME: Final = duration(
    "consumer.expiration-time",
    None,
    "Time without an update of a consumer after which expiry removes it; unset: never.",
)
CONTINUOUS_DISCOVERY_INTERVAL: Final = duration(
    "continuous.discovery-interval",
    10_000,
    "The longest wait between two checks for snapshots, of a stream without Spark. The waits grow"
    " from 10 ms; on local files the operating system reports changes.",
)
STREAMING_READ_OVERWRITE: Final = enumeration(
    "streaming-read-overwrite",
    "fail",
    ("fail", "skip", "rows", "diff", "true", "false"),
    "What a stream does at an overwrite: stop before it (fail), leave it out (skip, Paimon's"
    " false), give the new rows and, with keys, deletes of the old ones (rows, Paimon's true), or"
    " give the net change (diff). Set it for a read: Java accepts only true and false.",
)
STREAMING_READ_APPEND_OVERWRITE: Final = boolean(
    "streaming-read-append-overwrite",
    False,
    "For append tables; if set, it replaces streaming-read-overwrite: true is rows, false is skip.",
)
STREAMING_READ_SNAPSHOT_DELAY: Final = duration(
    "streaming.read.snapshot.delay",
    None,
    "Time between the commit of a snapshot and the read of its changes by a stream.",
)
SCAN_BOUNDED_WATERMARK: Final = integer(
    "scan.bounded.watermark",
    None,
    "A stream ends before the first snapshot whose watermark is greater, in ms since the epoch.",
    long=True,
)
CONSUMER_ID: Final = text(
    "consumer-id", None, "Name for a stream's progress; a stream with this name goes on from there."
)
CONSUMER_IGNORE_PROGRESS: Final = boolean(
    "consumer.ignore-progress", False, "Whether a new stream ignores this progress."
)
READ_CHANGELOG: Final = boolean(
    "read.changelog",
    None,
    "Whether a stream on Spark has the column _row_kind; unset: streams of primary-key tables by"
    " tl.read_stream have it. False: such streams leave out deletes and old rows.",
)
SCAN_WATERMARK_ALIGNMENT_GROUP: Final = text(
    "scan.watermark.alignment.group",
    None,
    "Group of streams of a Spark process that stay close in event time: the fast ones wait.",
)
SCAN_WATERMARK_ALIGNMENT_MAX_DRIFT: Final = duration(
    "scan.watermark.alignment.max-drift",
    None,
    "The most event time that a stream may be ahead of the slowest one of its"
    " scan.watermark.alignment.group.",
)
SCAN_WATERMARK_IDLE_TIMEOUT: Final = duration(
    "scan.watermark.idle-timeout",
    None,
    "Time without rows after which the other streams of the group do not wait for a stream; a"
    " minute if unset.",
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
    "The most stored rows that a batch of a stream reads.",
    long=True,
    minimum=1,
)
READ_STREAM_MINROWSPERTRIGGER: Final = integer(
    "read.stream.minRowsPerTrigger",
    None,
    "A batch of a stream waits for this many rows, at most for read.stream.maxTriggerDelayMs.",
    long=True,
    minimum=1,
)
READ_STREAM_MAXTRIGGERDELAYMS: Final = integer(
    "read.stream.maxTriggerDelayMs",
    None,
    "The longest wait of a batch of a stream for more rows, in ms after the commit of its first"
    " rows.",
    long=True,
    minimum=1,
)
READ_STREAM_SCHEMA_CHANGE: Final = enumeration(
    "read.stream.schema-change",
    "fail",
    ("fail", "keep-columns"),
    "What a running stream does after columns were added: stop, so that a restart reads them, or"
    " go on without them. A renamed or dropped column, or a new type, always stops it.",
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
        "Java's own compaction jobs set it during streams.",
        _JOBS,
    ),
    enumeration(
        "consumer.mode",
        "exactly-once",
        ("exactly-once", "at-least-once"),
        "Whether progress follows checkpoints exactly.",
        _EACH_BATCH,
    ),
    enumeration(
        "log.changelog-mode", "auto", ("auto", "all", "upsert"), "Changes that the log keeps.", _LOG
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
