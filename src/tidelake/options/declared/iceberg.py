"""Iceberg metadata beside Paimon's: the options of Java's ``IcebergOptions`` that count here."""

from __future__ import annotations

from typing import Final

from tidelake.options.option import (
    ON_CREATE,
    ON_WRITE,
    boolean,
    enumeration,
    integer,
    partly,
    refused,
    text,
)

__all__ = [
    "METADATA_ICEBERG_COMPACTION_MAX_FILE_NUM",
    "METADATA_ICEBERG_COMPACTION_MIN_FILE_NUM",
    "METADATA_ICEBERG_DELETE_AFTER_COMMIT_ENABLED",
    "METADATA_ICEBERG_FORMAT_VERSION",
    "METADATA_ICEBERG_MANIFEST_COMPRESSION",
    "METADATA_ICEBERG_MANIFEST_LEGACY_VERSION",
    "METADATA_ICEBERG_PREVIOUS_VERSIONS_MAX",
    "METADATA_ICEBERG_STORAGE",
    "METADATA_ICEBERG_STORAGE_LOCATION",
]

TITLE = "Iceberg metadata"

_CATALOGS = refused(
    "it belongs to Iceberg catalogs of Hive, Glue or REST, in which Tidelake registers no table",
    on=ON_CREATE,
)

METADATA_ICEBERG_STORAGE: Final = enumeration(
    "metadata.iceberg.storage",
    "disabled",
    ("disabled", "table-location", "hadoop-catalog", "hive-catalog", "rest-catalog"),
    "Whether each commit writes Iceberg metadata too, and where: in the table's directory, or in"
    " `iceberg/<database>/<table>` of the warehouse, which Iceberg's Hadoop catalog opens.",
    partly(
        "Tidelake registers no table in Hive or in an Iceberg REST catalog: use 'table-location' or"
        " 'hadoop-catalog', and register the metadata file there",
        accepted=("table-location", "hadoop-catalog"),
        on=ON_WRITE,
    ),
)
METADATA_ICEBERG_STORAGE_LOCATION: Final = enumeration(
    "metadata.iceberg.storage-location",
    None,
    ("table-location", "catalog-location"),
    "Where the Iceberg metadata lies, if elsewhere than metadata.iceberg.storage says.",
)
METADATA_ICEBERG_FORMAT_VERSION: Final = integer(
    "metadata.iceberg.format-version",
    2,
    "Version of the Iceberg format. Only 3 has deletion vectors and nanoseconds.",
    minimum=2,
    maximum=3,
)
METADATA_ICEBERG_MANIFEST_COMPRESSION: Final = text(
    "metadata.iceberg.manifest-compression",
    "snappy",
    "Compression of Iceberg manifests. Some readers, such as DuckDB, cannot read zstd.",
    pattern="zstd|zstandard|snappy|deflate|null|none|uncompressed",
)
METADATA_ICEBERG_MANIFEST_LEGACY_VERSION: Final = boolean(
    "metadata.iceberg.manifest-legacy-version",
    False,
    "Whether manifest lists have the names of fields that Iceberg 1.4 had.",
)
METADATA_ICEBERG_COMPACTION_MIN_FILE_NUM: Final = integer(
    "metadata.iceberg.compaction.min.file-num",
    10,
    "The least number of small Iceberg manifests that are merged, once they fill a large one.",
    minimum=1,
)
METADATA_ICEBERG_COMPACTION_MAX_FILE_NUM: Final = integer(
    "metadata.iceberg.compaction.max.file-num",
    50,
    "Number of small Iceberg manifests from which they are merged at any size.",
    minimum=1,
)
METADATA_ICEBERG_DELETE_AFTER_COMMIT_ENABLED: Final = boolean(
    "metadata.iceberg.delete-after-commit.enabled",
    True,
    "Whether a commit deletes older metadata files of Iceberg.",
)
METADATA_ICEBERG_PREVIOUS_VERSIONS_MAX: Final = integer(
    "metadata.iceberg.previous-versions-max",
    0,
    "How many older metadata files of Iceberg are kept. Larger: a reader that opened an older file"
    " can open it again.",
    minimum=0,
)

UNREAD = (
    text("metadata.iceberg.uri", None, "Address of the Hive metastore.", _CATALOGS),
    text("metadata.iceberg.hive-conf-dir", None, "Hive's configuration.", _CATALOGS),
    text("metadata.iceberg.hadoop-conf-dir", None, "Hadoop's configuration.", _CATALOGS),
    text(
        "metadata.iceberg.hive-client-class",
        "org.apache.hadoop.hive.metastore.HiveMetaStoreClient",
        "Class of the Hive client.",
        _CATALOGS,
    ),
    text("metadata.iceberg.database", None, "Database in the Iceberg catalog.", _CATALOGS),
    text("metadata.iceberg.table", None, "Table in the Iceberg catalog.", _CATALOGS),
    boolean(
        "metadata.iceberg.glue.skip-archive", False, "Whether Glue keeps no archive.", _CATALOGS
    ),
    boolean(
        "metadata.iceberg.hive-skip-update-stats",
        False,
        "Whether Hive's statistics stay as they are.",
        _CATALOGS,
    ),
)
