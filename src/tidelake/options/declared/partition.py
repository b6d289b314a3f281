"""Expiry and completion of partitions, metastores, materialized tables."""

from __future__ import annotations

from typing import Final

from tidelake.options.option import (
    boolean,
    duration,
    enumeration,
    integer,
    no_effect,
    not_done,
    text,
)

__all__ = [
    "PARTITION_MARK_DONE_ACTION",
]

TITLE = "Partitions: expiry and completion, metastore, materialized tables"

_EXPIRY = not_done("no partition expires by itself here: drop old ones with drop_partitions()")
_DONE = not_done(
    "no partition is marked as done by itself here: CALL sys.mark_partition_done(...) marks one"
)
_METASTORE = no_effect("the filesystem catalog has no metastore")
_OF_HIVE = not_done("no partition and no tag is registered in Hive here: Hive does not see them")
_MATERIALIZED = no_effect("it belongs to materialized tables, see type")
_MODES = ("CONTINUOUS", "FULL", "AUTOMATIC")

PARTITION_MARK_DONE_ACTION: Final = text(
    "partition.mark-done-action",
    "success-file",
    "The action of the procedure mark_partition_done; only 'success-file' is supported.",
)

UNREAD = (
    duration("partition.expiration-time", None, "Age at which a partition is dropped.", _EXPIRY),
    duration("partition.expiration-check-interval", 3_600_000, "Time between two checks.", _EXPIRY),
    enumeration(
        "partition.expiration-strategy",
        "values-time",
        ("values-time", "update-time", "custom"),
        "Whether the age counts from the partition's value or from its last change.",
        _EXPIRY,
    ),
    integer("partition.expiration-max-num", 100, "The most partitions to drop at a time.", _EXPIRY),
    integer(
        "partition.expiration-batch-size",
        None,
        "The most partitions to drop in one commit.",
        _EXPIRY,
    ),
    text(
        "partition.timestamp-pattern",
        None,
        "Text of a partition's time, made of its columns: '$dt $hour:00:00'.",
        _EXPIRY,
    ),
    text("partition.timestamp-formatter", None, "Format of this text.", _EXPIRY),
    boolean(
        "end-input.check-partition-expire", False, "Whether a batch checks at its end.", _EXPIRY
    ),
    text("partition.mark-done-action.custom.class", None, "Java class of the action.", _DONE),
    text("partition.mark-done-action.http.url", None, "URL to notify.", _DONE),
    text("partition.mark-done-action.http.params", None, "Parameters of the notification.", _DONE),
    boolean(
        "partition.end-input-to-done",
        False,
        "Whether the end of a batch completes partitions.",
        _DONE,
    ),
    enumeration(
        "partition.sink-strategy",
        "NONE",
        ("NONE", "HASH"),
        "Whether rows are shuffled to writers by partition, for fewer small files.",
        no_effect("it only affects files of an append table"),
    ),
    duration(
        "partition.idle-time-to-report-statistic",
        0,
        "Time without changes after which a partition's statistics go to the metastore.",
        _METASTORE,
    ),
    boolean(
        "metastore.partitioned-table",
        False,
        "Whether the metastore knows the partitions.",
        _OF_HIVE,
    ),
    text("metastore.tag-to-partition", None, "Partition column that shows tags to Hive.", _OF_HIVE),
    enumeration(
        "metastore.tag-to-partition.preview",
        "none",
        ("none", "process-time", "watermark", "batch"),
        "Whether Hive sees a tag before its creation.",
        _OF_HIVE,
    ),
    text("materialized-table.definition-query", None, "The stored query.", _MATERIALIZED),
    text("materialized-table.interval-freshness", None, "The most age of the rows.", _MATERIALIZED),
    enumeration(
        "materialized-table.interval-freshness.time-unit",
        None,
        ("SECOND", "MINUTE", "HOUR", "DAY"),
        "Unit of the age.",
        _MATERIALIZED,
    ),
    enumeration(
        "materialized-table.logical-refresh-mode",
        None,
        _MODES,
        "The declared way of refresh.",
        _MATERIALIZED,
    ),
    enumeration(
        "materialized-table.refresh-mode", None, _MODES, "The actual way of refresh.", _MATERIALIZED
    ),
    enumeration(
        "materialized-table.refresh-status",
        None,
        ("INITIALIZING", "ACTIVATED", "SUSPENDED"),
        "State of the refresh.",
        _MATERIALIZED,
    ),
    text(
        "materialized-table.refresh-handler-bytes",
        None,
        "Flink's handle of the refresh job.",
        _MATERIALIZED,
    ),
    text(
        "materialized-table.refresh-handler-description",
        None,
        "Description of the refresh job.",
        _MATERIALIZED,
    ),
)
