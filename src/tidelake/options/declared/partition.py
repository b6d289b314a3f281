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
    "END_INPUT_CHECK_PARTITION_EXPIRE",
    "MATERIALIZED_TABLE_DEFINITION_QUERY",
    "MATERIALIZED_TABLE_INTERVAL_FRESHNESS",
    "MATERIALIZED_TABLE_INTERVAL_FRESHNESS_TIME_UNIT",
    "MATERIALIZED_TABLE_LOGICAL_REFRESH_MODE",
    "MATERIALIZED_TABLE_REFRESH_HANDLER_BYTES",
    "MATERIALIZED_TABLE_REFRESH_HANDLER_DESCRIPTION",
    "MATERIALIZED_TABLE_REFRESH_MODE",
    "MATERIALIZED_TABLE_REFRESH_STATUS",
    "METASTORE_PARTITIONED_TABLE",
    "METASTORE_TAG_TO_PARTITION",
    "METASTORE_TAG_TO_PARTITION_PREVIEW",
    "PARTITION_END_INPUT_TO_DONE",
    "PARTITION_EXPIRATION_BATCH_SIZE",
    "PARTITION_EXPIRATION_CHECK_INTERVAL",
    "PARTITION_EXPIRATION_MAX_NUM",
    "PARTITION_EXPIRATION_STRATEGY",
    "PARTITION_EXPIRATION_TIME",
    "PARTITION_IDLE_TIME_TO_REPORT_STATISTIC",
    "PARTITION_MARK_DONE_ACTION",
    "PARTITION_MARK_DONE_ACTION_CUSTOM_CLASS",
    "PARTITION_MARK_DONE_ACTION_HTTP_PARAMS",
    "PARTITION_MARK_DONE_ACTION_HTTP_URL",
    "PARTITION_SINK_STRATEGY",
    "PARTITION_TIMESTAMP_FORMATTER",
    "PARTITION_TIMESTAMP_PATTERN",
]

TITLE = "Partitions' life, metastore, materialized tables"

_EXPIRY = no_effect("partitions do not expire by themselves here; overwrite or delete them")
_DONE = no_effect("partitions are not marked as done here")
_METASTORE = no_effect("the filesystem catalog has no metastore to tell")
_MATERIALIZED = no_effect("it belongs to materialized tables, see type")
_MODES = ("CONTINUOUS", "FULL", "AUTOMATIC")

PARTITION_EXPIRATION_TIME: Final = duration(
    "partition.expiration-time", None, "Age at which a partition is dropped.", _EXPIRY
)
PARTITION_EXPIRATION_CHECK_INTERVAL: Final = duration(
    "partition.expiration-check-interval", 3_600_000, "How often that is looked at.", _EXPIRY
)
PARTITION_EXPIRATION_STRATEGY: Final = enumeration(
    "partition.expiration-strategy",
    "values-time",
    ("values-time", "update-time", "custom"),
    "Whether the age is that of the partition's value or of its last change.",
    _EXPIRY,
)
PARTITION_EXPIRATION_MAX_NUM: Final = integer(
    "partition.expiration-max-num", 100, "Partitions dropped at a time.", _EXPIRY
)
PARTITION_EXPIRATION_BATCH_SIZE: Final = integer(
    "partition.expiration-batch-size", None, "Partitions dropped in one commit.", _EXPIRY
)
PARTITION_TIMESTAMP_PATTERN: Final = text(
    "partition.timestamp-pattern",
    None,
    "How a partition's time is put together, such as '$dt $hour:00:00'.",
    _EXPIRY,
)
PARTITION_TIMESTAMP_FORMATTER: Final = text(
    "partition.timestamp-formatter", None, "How that text is read as a time.", _EXPIRY
)
END_INPUT_CHECK_PARTITION_EXPIRE: Final = boolean(
    "end-input.check-partition-expire", False, "Whether a batch looks at its end.", _EXPIRY
)
PARTITION_MARK_DONE_ACTION: Final = text(
    "partition.mark-done-action",
    "success-file",
    "What the procedure mark_partition_done does; it refuses all but 'success-file'.",
)
PARTITION_MARK_DONE_ACTION_CUSTOM_CLASS: Final = text(
    "partition.mark-done-action.custom.class", None, "Java class that does it.", _DONE
)
PARTITION_MARK_DONE_ACTION_HTTP_URL: Final = text(
    "partition.mark-done-action.http.url", None, "Address that is told.", _DONE
)
PARTITION_MARK_DONE_ACTION_HTTP_PARAMS: Final = text(
    "partition.mark-done-action.http.params", None, "What it is told.", _DONE
)
PARTITION_END_INPUT_TO_DONE: Final = boolean(
    "partition.end-input-to-done", False, "Whether the end of a batch completes them.", _DONE
)
PARTITION_SINK_STRATEGY: Final = enumeration(
    "partition.sink-strategy",
    "NONE",
    ("NONE", "HASH"),
    "Whether rows are sent to writers by partition, for fewer small files.",
    no_effect("it only shapes files of an append table"),
)
PARTITION_IDLE_TIME_TO_REPORT_STATISTIC: Final = duration(
    "partition.idle-time-to-report-statistic",
    0,
    "Rest after which a partition's statistics go to the metastore.",
    _METASTORE,
)
METASTORE_PARTITIONED_TABLE: Final = boolean(
    "metastore.partitioned-table", False, "Whether the metastore knows the partitions.", _METASTORE
)
METASTORE_TAG_TO_PARTITION: Final = text(
    "metastore.tag-to-partition", None, "Partition column by which Hive sees tags.", _METASTORE
)
METASTORE_TAG_TO_PARTITION_PREVIEW: Final = enumeration(
    "metastore.tag-to-partition.preview",
    "none",
    ("none", "process-time", "watermark", "batch"),
    "Whether Hive sees a tag before it is made.",
    _METASTORE,
)
MATERIALIZED_TABLE_DEFINITION_QUERY: Final = text(
    "materialized-table.definition-query", None, "The query it stores.", _MATERIALIZED
)
MATERIALIZED_TABLE_INTERVAL_FRESHNESS: Final = text(
    "materialized-table.interval-freshness", None, "How old its rows may be.", _MATERIALIZED
)
MATERIALIZED_TABLE_INTERVAL_FRESHNESS_TIME_UNIT: Final = enumeration(
    "materialized-table.interval-freshness.time-unit",
    None,
    ("SECOND", "MINUTE", "HOUR", "DAY"),
    "Unit of that age.",
    _MATERIALIZED,
)
MATERIALIZED_TABLE_LOGICAL_REFRESH_MODE: Final = enumeration(
    "materialized-table.logical-refresh-mode",
    None,
    _MODES,
    "How it was asked to be refreshed.",
    _MATERIALIZED,
)
MATERIALIZED_TABLE_REFRESH_MODE: Final = enumeration(
    "materialized-table.refresh-mode", None, _MODES, "How it is refreshed.", _MATERIALIZED
)
MATERIALIZED_TABLE_REFRESH_STATUS: Final = enumeration(
    "materialized-table.refresh-status",
    None,
    ("INITIALIZING", "ACTIVATED", "SUSPENDED"),
    "Whether it is being refreshed.",
    _MATERIALIZED,
)
MATERIALIZED_TABLE_REFRESH_HANDLER_BYTES: Final = text(
    "materialized-table.refresh-handler-bytes", None, "Flink's handle of the job.", _MATERIALIZED
)
MATERIALIZED_TABLE_REFRESH_HANDLER_DESCRIPTION: Final = text(
    "materialized-table.refresh-handler-description", None, "The same in words.", _MATERIALIZED
)
