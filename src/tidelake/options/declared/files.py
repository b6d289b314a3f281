"""Data files: format, compression, names, statistics, file indexes."""

from __future__ import annotations

from typing import Final

from tidelake.options.option import (
    ON_WRITE,
    boolean,
    integer,
    mapping,
    memory_size,
    no_effect,
    partly,
    text,
)

__all__ = [
    "CHANGELOG_FILE_COMPRESSION",
    "CHANGELOG_FILE_FORMAT",
    "CHANGELOG_FILE_PREFIX",
    "CHANGELOG_FILE_STATS_MODE",
    "DATA_FILE_PREFIX",
    "DATA_FILE_THIN_MODE",
    "FILE_BLOCK_SIZE",
    "FILE_COMPRESSION",
    "FILE_COMPRESSION_PER_LEVEL",
    "FILE_COMPRESSION_ZSTD_LEVEL",
    "FILE_FORMAT",
    "FILE_FORMAT_PER_LEVEL",
    "FILE_INDEX_IN_MANIFEST_THRESHOLD",
    "FILE_INDEX_READ_ENABLED",
    "FILE_SUFFIX_INCLUDE_COMPRESSION",
    "METADATA_STATS_DENSE_STORE",
    "METADATA_STATS_KEEP_FIRST_N_COLUMNS",
    "METADATA_STATS_MODE",
    "METADATA_STATS_MODE_PER_LEVEL",
    "TARGET_FILE_SIZE",
]

TITLE = "Data files: format, compression, statistics"

_CODECS = (
    "zstd|zstandard|snappy|lz4|lz4_raw|gzip|zlib|deflate|brotli|lzo|bzip2|xz|none|null|uncompressed"
)
_STATS_MODE = r"none|counts|full|truncate\(\s*[1-9][0-9]*\s*\)"

FILE_FORMAT: Final = text(
    "file.format",
    "parquet",
    "Format of new data files.",
    pattern="parquet|orc|avro",
)
FILE_FORMAT_PER_LEVEL: Final = mapping(
    "file.format.per.level",
    "Another format for the files of some levels, such as '0:avro,5:parquet'.",
)
FILE_COMPRESSION: Final = text(
    "file.compression",
    "zstd",
    "Compression of new data files.",
    partly(
        "Tidelake cannot write it into data files; use 'zstd'",
        accepted=(
            *("zstd", "zstandard", "snappy", "lz4", "lz4_raw", "gzip", "zlib", "deflate"),
            *("none", "null", "uncompressed"),
        ),
        on=ON_WRITE,
    ),
    pattern=_CODECS,
)
FILE_COMPRESSION_ZSTD_LEVEL: Final = integer(
    "file.compression.zstd-level",
    1,
    "Level of zstd. Higher: smaller files, slower writes; 9 costs several times as much as 1.",
    minimum=1,
    maximum=22,
)
FILE_COMPRESSION_PER_LEVEL: Final = mapping(
    "file.compression.per.level",
    "Another compression for the files of some levels, such as '0:lz4,5:zstd'.",
)
FILE_BLOCK_SIZE: Final = memory_size(
    "file.block-size",
    None,
    "Size of an ORC stripe, 16 mb if unset. Parquet row groups have a fixed size that is fast to"
    " read. Larger: better compression; smaller: finer skipping, less memory.",
)
FILE_SUFFIX_INCLUDE_COMPRESSION: Final = boolean(
    "file.suffix.include.compression",
    False,
    "Whether file names show the compression, as in 'x.zst.parquet'.",
)
DATA_FILE_PREFIX: Final = text(
    "data-file.prefix",
    "data-",
    "Prefix of the names of new data files.",
    pattern=r"[^/\\\x00]*",
)
DATA_FILE_THIN_MODE: Final = boolean(
    "data-file.thin-mode",
    False,
    "Whether files of a primary-key table leave out the second copy of the key columns.",
)
CHANGELOG_FILE_PREFIX: Final = text(
    "changelog-file.prefix",
    "changelog-",
    "Prefix of the names of changelog files.",
    pattern=r"[^/\\\x00]*",
)
CHANGELOG_FILE_FORMAT: Final = text(
    "changelog-file.format",
    None,
    "Format of changelog files; file.format if unset.",
    pattern="parquet|orc|avro",
)
CHANGELOG_FILE_COMPRESSION: Final = text(
    "changelog-file.compression",
    None,
    "Compression of changelog files; file.compression if unset.",
    partly(
        "Tidelake cannot write it into changelog files; use 'zstd'",
        accepted=(
            *("zstd", "zstandard", "snappy", "lz4", "lz4_raw", "gzip", "zlib", "deflate"),
            *("none", "null", "uncompressed"),
        ),
        on=ON_WRITE,
    ),
    pattern=_CODECS,
)
CHANGELOG_FILE_STATS_MODE: Final = text(
    "changelog-file.stats-mode",
    None,
    "Statistics of changelog files; metadata.stats-mode if unset.",
    pattern=_STATS_MODE,
)
TARGET_FILE_SIZE: Final = memory_size(
    "target-file-size",
    None,
    "Size at which a writer begins a new file; 128 mb with a primary key, 256 mb without, if"
    " unset. Larger: fewer files; smaller: cheaper rewrites.",
    minimum=1,
)
FILE_INDEX_READ_ENABLED: Final = boolean(
    "file-index.read.enabled",
    True,
    "Whether scans skip files by their file index.",
)
FILE_INDEX_IN_MANIFEST_THRESHOLD: Final = memory_size(
    "file-index.in-manifest-threshold",
    500,
    "Largest file index that is stored in the manifest; a larger one gets a file of its own."
    " Larger: plans read fewer files, larger manifests.",
)
METADATA_STATS_MODE: Final = text(
    "metadata.stats-mode",
    "truncate(16)",
    "Statistics of a column in manifests: none, counts, full, or truncate(N) with the first N"
    " characters. More: better skipping, larger manifests.",
    pattern=_STATS_MODE,
)
METADATA_STATS_MODE_PER_LEVEL: Final = mapping(
    "metadata.stats-mode.per.level",
    "Another statistics mode for the files of some levels, such as '0:none'.",
)
METADATA_STATS_KEEP_FIRST_N_COLUMNS: Final = integer(
    "metadata.stats-keep-first-n-columns",
    -1,
    "Only the first N columns get statistics, and columns with their own mode; -1: all columns.",
)
METADATA_STATS_DENSE_STORE: Final = boolean(
    "metadata.stats-dense-store",
    True,
    "Whether manifests leave out columns without statistics.",
)

UNREAD = (
    integer(
        "parquet.enable.dictionary",
        None,
        "Whether Parquet files use dictionaries.",
        no_effect("dictionaries are used where a sample shows that they help"),
    ),
    boolean(
        "async-file-write",
        True,
        "Whether files are written in the background.",
        no_effect("it affects only speed; Arrow encodes Parquet in its own threads"),
    ),
    integer(
        "write.batch-size",
        1024,
        "Rows in a batch of Java's ORC and Parquet writers.",
        no_effect("Arrow batches are written as they come"),
        fallback_keys=("orc.write.batch-size",),
    ),
    memory_size(
        "write.batch-memory",
        128 << 20,
        "Memory for batches of Java's format writers.",
        no_effect("Arrow batches are written as they come"),
    ),
    integer(
        "read.batch-size",
        1024,
        "Rows in a batch of Java's format readers.",
        no_effect("batches have a fixed size that is fast to merge"),
    ),
    memory_size(
        "file-reader-async-threshold",
        10 << 20,
        "Size of a file from which Java opens the next file of a merge in the background.",
        no_effect("speed only"),
    ),
    integer(
        "file-operation.thread-num",
        None,
        "The most file operations at a time.",
        no_effect("the session's executor decides"),
        fallback_keys=("delete-file.thread-num",),
    ),
)
