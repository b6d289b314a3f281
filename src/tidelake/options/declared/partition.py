"""The life of partitions, and what a metastore is told."""

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
    "PARTITION_MARK_DONE_ACTION",
]

TITLE = "Partitions' life, metastore, materialized tables"

_EXPIRY = no_effect("partitions do not expire by themselves here; overwrite or delete them")
_DONE = no_effect("partitions are not marked as done here")
_METASTORE = no_effect("the filesystem catalog has no metastore to tell")
_MATERIALIZED = no_effect("it belongs to materialized tables, see type")
_MODES = ("CONTINUOUS", "FULL", "AUTOMATIC")

PARTITION_MARK_DONE_ACTION: Final = text(
    "partition.mark-done-action",
    "success-file",
    "What the procedure mark_partition_done does; it refuses all but 'success-file'.",
)

UNREAD = (
    duration("partition.expiration-time", None, "Age at which a partition is dropped.", _EXPIRY),
    duration(
        "partition.expiration-check-interval", 3_600_000, "How often that is looked at.", _EXPIRY
    ),
    enumeration(
        "partition.expiration-strategy",
        "values-time",
        ("values-time", "update-time", "custom"),
        "Whether the age is that of the partition's value or of its last change.",
        _EXPIRY,
    ),
    integer("partition.expiration-max-num", 100, "Partitions dropped at a time.", _EXPIRY),
    integer("partition.expiration-batch-size", None, "Partitions dropped in one commit.", _EXPIRY),
    text(
        "partition.timestamp-pattern",
        None,
        "How a partition's time is put together, such as '$dt $hour:00:00'.",
        _EXPIRY,
    ),
    text("partition.timestamp-formatter", None, "How that text is read as a time.", _EXPIRY),
    boolean(
        "end-input.check-partition-expire", False, "Whether a batch looks at its end.", _EXPIRY
    ),
    text("partition.mark-done-action.custom.class", None, "Java class that does it.", _DONE),
    text("partition.mark-done-action.http.url", None, "Address that is told.", _DONE),
    text("partition.mark-done-action.http.params", None, "What it is told.", _DONE),
    boolean(
        "partition.end-input-to-done", False, "Whether the end of a batch completes them.", _DONE
    ),
    enumeration(
        "partition.sink-strategy",
        "NONE",
        ("NONE", "HASH"),
        "Whether rows are sent to writers by partition, for fewer small files.",
        no_effect("it only shapes files of an append table"),
    ),
    duration(
        "partition.idle-time-to-report-statistic",
        0,
        "Rest after which a partition's statistics go to the metastore.",
        _METASTORE,
    ),
    boolean(
        "metastore.partitioned-table",
        False,
        "Whether the metastore knows the partitions.",
        _METASTORE,
    ),
    text(
        "metastore.tag-to-partition", None, "Partition column by which Hive sees tags.", _METASTORE
    ),
    enumeration(
        "metastore.tag-to-partition.preview",
        "none",
        ("none", "process-time", "watermark", "batch"),
        "Whether Hive sees a tag before it is made.",
        _METASTORE,
    ),
    text("materialized-table.definition-query", None, "The query it stores.", _MATERIALIZED),
    text("materialized-table.interval-freshness", None, "How old its rows may be.", _MATERIALIZED),
    enumeration(
        "materialized-table.interval-freshness.time-unit",
        None,
        ("SECOND", "MINUTE", "HOUR", "DAY"),
        "Unit of that age.",
        _MATERIALIZED,
    ),
    enumeration(
        "materialized-table.logical-refresh-mode",
        None,
        _MODES,
        "How it was asked to be refreshed.",
        _MATERIALIZED,
    ),
    enumeration(
        "materialized-table.refresh-mode", None, _MODES, "How it is refreshed.", _MATERIALIZED
    ),
    enumeration(
        "materialized-table.refresh-status",
        None,
        ("INITIALIZING", "ACTIVATED", "SUSPENDED"),
        "Whether it is being refreshed.",
        _MATERIALIZED,
    ),
    text(
        "materialized-table.refresh-handler-bytes",
        None,
        "Flink's handle of the job.",
        _MATERIALIZED,
    ),
    text(
        "materialized-table.refresh-handler-description", None, "The same in words.", _MATERIALIZED
    ),
)
