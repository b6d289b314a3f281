"""Stream reads, consumers, and the log system of older versions."""

from __future__ import annotations

from tidelake.options.option import (
    boolean,
    duration,
    enumeration,
    integer,
    no_effect,
    text,
)

__all__ = ["CONSUMER_EXPIRATION_TIME"]

TITLE = "Streams: reads, consumers, log system"

_STREAM = no_effect("it belongs to stream reads; a batch reads one snapshot")
_LOG = no_effect("tables have no log system here; their files are the truth")

CONSUMER_EXPIRATION_TIME = duration(
    "consumer.expiration-time",
    None,
    "How long nobody may be heard of a consumer before an expiry forgets it; unset keeps it.",
)
UNREAD = (
    duration(
        "continuous.discovery-interval", 10_000, "How often a stream looks for snapshots.", _STREAM
    ),
    boolean(
        "streaming-read-overwrite", False, "Whether a stream shows what an overwrite did.", _STREAM
    ),
    boolean("streaming-read-append-overwrite", False, "The same for append tables only.", _STREAM),
    enumeration(
        "streaming-read-mode",
        None,
        ("log", "file"),
        "Whether a stream reads the log system or the files.",
        _LOG,
    ),
    duration("streaming.read.snapshot.delay", None, "How far a stream stays behind.", _STREAM),
    enumeration(
        "stream-scan-mode",
        "none",
        ("none", "compact-bucket-table", "file-monitor"),
        "Set by Java's own compaction jobs while they follow a table.",
        _STREAM,
    ),
    integer(
        "scan.bounded.watermark", None, "Watermark at which a stream ends.", _STREAM, long=True
    ),
    text("consumer-id", None, "Name under which a stream's progress is kept.", _STREAM),
    boolean(
        "consumer.ignore-progress", False, "Whether a new stream begins anew all the same.", _STREAM
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
