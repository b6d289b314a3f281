"""Location and kind of a table, and its buckets and partitions."""

from __future__ import annotations

from typing import Final

from tidelake.options.option import (
    ON_CREATE,
    ON_WRITE,
    boolean,
    duration,
    enumeration,
    integer,
    no_effect,
    refused,
    text,
)

__all__ = [
    "ALTER_COLUMN_NULL_TO_NOT_NULL_DISABLED",
    "AUTO_CREATE",
    "BUCKET",
    "BUCKET_FUNCTION_TYPE",
    "BUCKET_KEY",
    "DISABLE_EXPLICIT_TYPE_CASTING",
    "DYNAMIC_BUCKET_ASSIGNER_PARALLELISM",
    "DYNAMIC_BUCKET_INITIAL_BUCKETS",
    "DYNAMIC_BUCKET_MAX_BUCKETS",
    "DYNAMIC_BUCKET_TARGET_ROW_NUM",
    "DYNAMIC_PARTITION_OVERWRITE",
    "INDEX_FILE_IN_DATA_FILE_DIR",
    "PARTITION",
    "PARTITION_DEFAULT_NAME",
    "PARTITION_LEGACY_NAME",
    "PATH",
    "POSTPONE_DEFAULT_BUCKET_NUM",
    "PRIMARY_KEY",
    "TYPE",
    "WRITE_MODE",
]

TITLE = "Layout: buckets, partitions, kind of table"

BUCKET: Final = integer(
    "bucket",
    -1,
    "Buckets per partition; -1: a primary-key table creates buckets when needed (dynamic"
    " buckets), an append table has none; -2: rows wait in the postpone bucket, where readers do"
    " not see them, until a compaction assigns buckets. More: more parallel writers, smaller and"
    " more files.",
    minimum=-2,
)
BUCKET_KEY: Final = text(
    "bucket-key",
    None,
    "Columns, comma-separated, whose hash decides a row's bucket; the primary key if unset.",
    mutable=False,
)
WRITE_MODE: Final = enumeration(
    "write-mode",
    None,
    ("auto", "change-log", "append-only"),
    "An option of Paimon before 1.0: whether rows are merged by a primary key (change-log) or"
    " only added (append-only). The primary key decides; creating or altering a table with a"
    " contradicting mode is refused.",
    mutable=False,
)
BUCKET_FUNCTION_TYPE: Final = enumeration(
    "bucket-function.type",
    "default",
    ("default", "mod", "hive"),
    "Function from the bucket key to a bucket: Paimon's row hash, the remainder of one integer"
    " column, or Hive's hash (of Paimon 2.x).",
    mutable=False,
)
POSTPONE_DEFAULT_BUCKET_NUM: Final = integer(
    "postpone.default-bucket-num",
    1,
    "Number of buckets that the first compaction gives to a partition of a table with bucket ="
    " -2. More: more parallel compaction, smaller and more files.",
    minimum=1,
)
DYNAMIC_BUCKET_TARGET_ROW_NUM: Final = integer(
    "dynamic-bucket.target-row-num",
    2_000_000,
    "Number of keys at which a dynamic bucket is full. Larger: fewer, bigger buckets.",
    long=True,
)
DYNAMIC_BUCKET_INITIAL_BUCKETS: Final = integer(
    "dynamic-bucket.initial-buckets",
    None,
    "The most tasks of a Spark write that share the new keys of a partition with dynamic buckets."
    " A new partition begins with as many buckets.",
    mutable=False,
)
DYNAMIC_BUCKET_MAX_BUCKETS: Final = integer(
    "dynamic-bucket.max-buckets",
    -1,
    "The most dynamic buckets of a partition; -1: 32767. At this number buckets grow beyond"
    " dynamic-bucket.target-row-num.",
    minimum=-1,
)
DYNAMIC_BUCKET_ASSIGNER_PARALLELISM: Final = integer(
    "dynamic-bucket.assigner-parallelism",
    None,
    "Tasks of a Spark write that assign rows to dynamic buckets; the number of writing tasks if"
    " unset.",
)
PATH: Final = text(
    "path",
    None,
    "The table's folder. The catalog decides it: setting another one is refused, a stored one is"
    " kept.",
)
TYPE: Final = enumeration(
    "type",
    "table",
    (
        "table",
        "format-table",
        "materialized-table",
        "object-table",
        "lance-table",
        "iceberg-table",
    ),
    "What kind of table this is.",
    refused("only tables of Paimon's own format are covered; read this one with its own engine"),
)
AUTO_CREATE: Final = boolean(
    "auto-create",
    False,
    "Whether the first use of the table creates a missing folder.",
    no_effect("creating a table always creates its folders"),
)
PRIMARY_KEY: Final = text(
    "primary-key",
    None,
    "The primary key as an option, for engines whose SQL has no such clause.",
    refused("pass the key as primary_keys= instead", on=ON_CREATE),
    mutable=False,
)
PARTITION: Final = text(
    "partition",
    None,
    "The partition columns as an option, for engines whose SQL has no such clause.",
    refused("pass the columns as partition_keys= instead", on=ON_CREATE),
    mutable=False,
)
PARTITION_DEFAULT_NAME: Final = text(
    "partition.default-name",
    "__DEFAULT_PARTITION__",
    "Folder name that stands for a null or empty partition value.",
)
PARTITION_LEGACY_NAME: Final = boolean(
    "partition.legacy-name",
    True,
    "Whether folder names show partition values as Java's toString (dates as day numbers) or as"
    " SQL's cast to a string.",
)
DYNAMIC_PARTITION_OVERWRITE: Final = boolean(
    "dynamic-partition-overwrite",
    True,
    "Whether an overwrite without a partition replaces only the partitions of the new rows (true)"
    " or the whole table (false).",
)
INDEX_FILE_IN_DATA_FILE_DIR: Final = boolean(
    "index-file-in-data-file-dir",
    False,
    "Whether index files are beside the data files instead of in index/.",
    mutable=False,
)
DISABLE_EXPLICIT_TYPE_CASTING: Final = boolean(
    "disable-explicit-type-casting",
    False,
    "Whether ALTER TABLE may only change a column to a type that holds every old value.",
)
ALTER_COLUMN_NULL_TO_NOT_NULL_DISABLED: Final = boolean(
    "alter-column-null-to-not-null.disabled",
    True,
    "Whether ALTER TABLE refuses to make a nullable column NOT NULL.",
)

UNREAD = (
    boolean(
        "bucket-append-ordered",
        True,
        "Whether the rows of an append bucket keep the order of arrival.",
        no_effect("the rows of a bucket always keep their order here"),
    ),
    duration(
        "cross-partition-upsert.index-ttl",
        None,
        "Time for which the index of a cross-partition table keeps a key.",
        refused(
            "a dropped key could be in two partitions at once; unset it",
            on=ON_WRITE,
        ),
    ),
    integer(
        "cross-partition-upsert.bootstrap-parallelism",
        10,
        "Parallel loads of the index at the start of a writer.",
        no_effect("each write looks keys up, in as many tasks as it has"),
    ),
    text(
        "branch",
        "main",
        "The branch to read and write.",
        refused("branches are not covered yet; leave it at 'main'"),
    ),
    text(
        "upsert-key",
        None,
        "Columns by which Spark turns an INSERT into an append table into a MERGE.",
        refused(
            "an append table is never upserted here; create the table with primary_keys= instead",
            on=ON_WRITE,
        ),
    ),
    text(
        "data-file.external-paths",
        None,
        "Other locations, comma-separated, for new data files.",
        refused("files outside the table's folder are not covered yet; unset it"),
    ),
    enumeration(
        "data-file.external-paths.strategy",
        "none",
        ("none", "specific-fs", "round-robin"),
        "How the external path of a file is chosen.",
        refused("files outside the table's folder are not covered yet; leave it at 'none'"),
    ),
    text(
        "data-file.external-paths.specific-fs",
        None,
        "The file system of the external path for the strategy specific-fs.",
        no_effect("it belongs to data-file.external-paths.strategy"),
    ),
    text(
        "data-file.path-directory",
        None,
        "Folder inside the table's for partitions and buckets.",
        refused("data files below another folder are not covered yet; unset it"),
        mutable=False,
    ),
    boolean(
        "row-tracking.enabled",
        False,
        "Whether every row of an append table has a permanent id.",
        refused("rows with ids are not covered yet; use Java Paimon for this table"),
        mutable=False,
    ),
    boolean(
        "data-evolution.enabled",
        False,
        "Whether an update may write some columns of existing rows to separate files.",
        refused(
            "a row is stored in several files by row id, which is not covered yet; use Java"
            " Paimon for this table"
        ),
        mutable=False,
    ),
    boolean(
        "query-auth.enabled",
        False,
        "Whether a REST catalog decides which rows and columns a query may see.",
        refused("Tidelake cannot enforce row and column permissions; read it through its catalog"),
    ),
)
