"""Stream reads, consumers, and the log system of older versions."""

from __future__ import annotations

from typing import Final

from tidelake.options.option import (
    boolean,
    duration,
    enumeration,
    integer,
    no_effect,
    text,
)

__all__ = [
    "CONSUMER_EXPIRATION_TIME",
    "CONSUMER_ID",
    "CONSUMER_IGNORE_PROGRESS",
    "CONSUMER_MODE",
    "CONTINUOUS_DISCOVERY_INTERVAL",
    "LOG_CHANGELOG_MODE",
    "LOG_CONSISTENCY",
    "LOG_FORMAT",
    "LOG_IGNORE_DELETE",
    "LOG_KEY_FORMAT",
    "SCAN_BOUNDED_WATERMARK",
    "STREAMING_READ_APPEND_OVERWRITE",
    "STREAMING_READ_MODE",
    "STREAMING_READ_OVERWRITE",
    "STREAMING_READ_SNAPSHOT_DELAY",
    "STREAM_SCAN_MODE",
]

TITLE = "Streams: reads, consumers, log system"

_STREAM = no_effect("it belongs to stream reads; a batch reads one snapshot")
_LOG = no_effect("tables have no log system here; their files are the truth")

CONTINUOUS_DISCOVERY_INTERVAL: Final = duration(
    "continuous.discovery-interval", 10_000, "How often a stream looks for snapshots.", _STREAM
)
STREAMING_READ_OVERWRITE: Final = boolean(
    "streaming-read-overwrite", False, "Whether a stream shows what an overwrite did.", _STREAM
)
STREAMING_READ_APPEND_OVERWRITE: Final = boolean(
    "streaming-read-append-overwrite", False, "The same for append tables only.", _STREAM
)
STREAMING_READ_MODE: Final = enumeration(
    "streaming-read-mode",
    None,
    ("log", "file"),
    "Whether a stream reads the log system or the files.",
    _LOG,
)
STREAMING_READ_SNAPSHOT_DELAY: Final = duration(
    "streaming.read.snapshot.delay", None, "How far a stream stays behind.", _STREAM
)
STREAM_SCAN_MODE: Final = enumeration(
    "stream-scan-mode",
    "none",
    ("none", "compact-bucket-table", "file-monitor"),
    "Set by Java's own compaction jobs while they follow a table.",
    _STREAM,
)
SCAN_BOUNDED_WATERMARK: Final = integer(
    "scan.bounded.watermark", None, "Watermark at which a stream ends.", _STREAM, long=True
)
CONSUMER_ID: Final = text(
    "consumer-id", None, "Name under which a stream's progress is kept.", _STREAM
)
CONSUMER_EXPIRATION_TIME: Final = duration(
    "consumer.expiration-time", None, "Rest after which a consumer is forgotten.", _STREAM
)
CONSUMER_IGNORE_PROGRESS: Final = boolean(
    "consumer.ignore-progress", False, "Whether a new stream begins anew all the same.", _STREAM
)
CONSUMER_MODE: Final = enumeration(
    "consumer.mode",
    "exactly-once",
    ("exactly-once", "at-least-once"),
    "Whether progress follows checkpoints exactly.",
    _STREAM,
)
LOG_CHANGELOG_MODE: Final = enumeration(
    "log.changelog-mode", "auto", ("auto", "all", "upsert"), "Changes the log keeps.", _LOG
)
LOG_CONSISTENCY: Final = enumeration(
    "log.consistency",
    "transactional",
    ("transactional", "eventual"),
    "Whether the log shows changes after the checkpoint or at once.",
    _LOG,
)
LOG_FORMAT: Final = text("log.format", "debezium-json", "Format of the log's messages.", _LOG)
LOG_KEY_FORMAT: Final = text("log.key.format", "json", "Format of the messages' keys.", _LOG)
LOG_IGNORE_DELETE: Final = boolean(
    "log.ignore-delete", False, "Whether the log leaves out deletes.", _LOG
)
