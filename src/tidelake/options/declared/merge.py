"""The row of a key: merge engine, order of changes, deletes, changelog."""

from __future__ import annotations

from typing import Final

from tidelake.options.option import (
    boolean,
    duration,
    enumeration,
    integer,
    memory_size,
    text,
)

__all__ = [
    "AGGREGATION_REMOVE_RECORD_ON_DELETE",
    "CHANGELOG_NUM_RETAINED_MAX",
    "CHANGELOG_NUM_RETAINED_MIN",
    "CHANGELOG_PRODUCER",
    "CHANGELOG_PRODUCER_ROW_DEDUPLICATE",
    "CHANGELOG_PRODUCER_ROW_DEDUPLICATE_IGNORE_FIELDS",
    "CHANGELOG_TIME_RETAINED",
    "DELETE_FORCE_PRODUCE_CHANGELOG",
    "DELETION_VECTORS_BITMAP64",
    "DELETION_VECTORS_ENABLED",
    "DELETION_VECTORS_MERGE_ON_READ",
    "DELETION_VECTOR_INDEX_FILE_TARGET_SIZE",
    "FIELDS_DEFAULT_AGGREGATE_FUNCTION",
    "IGNORE_DELETE",
    "IGNORE_UPDATE_BEFORE",
    "MERGE_ENGINE",
    "PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE",
    "PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP",
    "RECORD_LEVEL_EXPIRE_TIME",
    "RECORD_LEVEL_TIME_FIELD",
    "ROWKIND_FIELD",
    "SEQUENCE_FIELD",
    "SEQUENCE_FIELD_SORT_ORDER",
]

TITLE = "Merging: engines, order, deletes, changelog"


MERGE_ENGINE: Final = enumeration(
    "merge-engine",
    "deduplicate",
    ("deduplicate", "partial-update", "aggregation", "first-row"),
    "How the rows of one primary key become one row: deduplicate keeps the newest, partial-update "
    "the newest value of each column, aggregation folds each column by a function, first-row "
    "keeps the oldest.",
    mutable=False,
)
SEQUENCE_FIELD: Final = text(
    "sequence.field",
    None,
    "Columns, comma-separated, that decide which row of a key is the newest; the order of writing"
    " if unset.",
    mutable=False,
)
SEQUENCE_FIELD_SORT_ORDER: Final = enumeration(
    "sequence.field.sort-order",
    "ascending",
    ("ascending", "descending"),
    "Whether the largest or the smallest sequence.field is the newest.",
    mutable=False,
)
IGNORE_DELETE: Final = boolean(
    "ignore-delete",
    False,
    "Whether deletes are dropped, so that rows can only be added and changed.",
    fallback_keys=(
        "first-row.ignore-delete",
        "deduplicate.ignore-delete",
        "partial-update.ignore-delete",
    ),
    mutable=False,
)
IGNORE_UPDATE_BEFORE: Final = boolean(
    "ignore-update-before",
    False,
    "Whether a write drops the old rows of updates (-U).",
    mutable=False,
)
ROWKIND_FIELD: Final = text(
    "rowkind.field",
    None,
    "Column with the kind (+I, -U, +U, -D) of each written row; kinds given separately win.",
    mutable=False,
)
PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE: Final = boolean(
    "partial-update.remove-record-on-delete",
    False,
    "Whether a delete (-D) removes the whole row under partial-update.",
    mutable=False,
)
PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP: Final = text(
    "partial-update.remove-record-on-sequence-group",
    None,
    "Sequence columns of groups whose delete removes the whole row under partial-update.",
    mutable=False,
)
AGGREGATION_REMOVE_RECORD_ON_DELETE: Final = boolean(
    "aggregation.remove-record-on-delete",
    False,
    "Whether a delete (-D) removes the whole row under aggregation.",
    mutable=False,
)
FIELDS_DEFAULT_AGGREGATE_FUNCTION: Final = text(
    "fields.default-aggregate-function",
    None,
    "Function of every column without its own.",
    mutable=False,
)
CHANGELOG_PRODUCER: Final = enumeration(
    "changelog-producer",
    "none",
    ("none", "input", "full-compaction", "lookup"),
    "The source of the changelog: input keeps the written rows, full-compaction and lookup"
    " compare the old and new row of each key; none keeps no changelog.",
)
CHANGELOG_PRODUCER_ROW_DEDUPLICATE: Final = boolean(
    "changelog-producer.row-deduplicate",
    False,
    "Whether the changelog of lookups and full compactions leaves out updates with an equal row.",
)
CHANGELOG_PRODUCER_ROW_DEDUPLICATE_IGNORE_FIELDS: Final = text(
    "changelog-producer.row-deduplicate-ignore-fields",
    None,
    "Columns, comma-separated, that this comparison ignores.",
)
CHANGELOG_NUM_RETAINED_MIN: Final = integer(
    "changelog.num-retained.min",
    None,
    "The least number of changelogs to keep, with those of existing snapshots. If this,"
    " changelog.num-retained.max or changelog.time-retained is larger than the same option of"
    " snapshots, changelogs outlive their snapshots; unset, each is as for snapshots.",
)
CHANGELOG_NUM_RETAINED_MAX: Final = integer(
    "changelog.num-retained.max",
    None,
    "The most changelogs to keep at any age.",
)
CHANGELOG_TIME_RETAINED: Final = duration(
    "changelog.time-retained",
    None,
    "Time for which a changelog is kept after the commit of the next snapshot.",
)
DELETION_VECTORS_ENABLED: Final = boolean(
    "deletion-vectors.enabled",
    False,
    "Whether deletes mark positions in data files instead of rewriting or merging. A read of a"
    " primary-key table then merges only files that are not compacted yet: each write looks up"
    " the rows that it replaces.",
    mutable=False,
)
DELETION_VECTORS_MERGE_ON_READ: Final = boolean(
    "deletion-vectors.merge-on-read",
    None,
    "Whether reads of a primary-key table with deletion vectors, or of first-row, merge files"
    " that are not compacted yet. Unset or true: they do, so a read sees each commit wholly or"
    " not at all. False: they leave these files out, as Java does by default, and a read may see"
    " a part of a commit.",
)
DELETION_VECTORS_BITMAP64: Final = boolean(
    "deletion-vectors.bitmap64",
    False,
    "Whether deletion vectors are 64-bit bitmaps, as in Iceberg. Reads accept both.",
)
DELETION_VECTOR_INDEX_FILE_TARGET_SIZE: Final = memory_size(
    "deletion-vector.index-file.target-size",
    2 << 20,
    "Size of an index file of deletion vectors of a table without buckets. Larger: fewer files."
    " Smaller: a delete rewrites fewer vectors.",
)
RECORD_LEVEL_EXPIRE_TIME: Final = duration(
    "record-level.expire-time",
    None,
    "Age at which a compaction drops a row of a primary-key table, in whole seconds.",
)
RECORD_LEVEL_TIME_FIELD: Final = text(
    "record-level.time-field",
    None,
    "Column with the time of a row: INT seconds, BIGINT seconds or milliseconds, TIMESTAMP or"
    " TIMESTAMP_LTZ. A row without a time does not expire.",
)

DELETE_FORCE_PRODUCE_CHANGELOG: Final = boolean(
    "delete.force-produce-changelog",
    False,
    "Whether a delete from a primary-key table writes a row -D for each deleted row, also where a"
    " whole partition or table is deleted, which else changes metadata alone. TRUNCATE and DROP"
    " PARTITION write none.",
)

UNREAD = ()
