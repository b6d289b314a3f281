"""The write buffer: memory, sorting, spilling."""

from __future__ import annotations

from typing import Final

from tidelake.options.option import (
    boolean,
    enumeration,
    integer,
    memory_size,
    no_effect,
    not_done,
    text,
)

__all__ = [
    "PRECOMMIT_COMPACT",
    "SINK_LOCAL_ROWS",
    "SINK_PARALLELISM",
    "SORT_SPILL_BUFFER_SIZE",
    "SPILL_COMPRESSION",
    "SPILL_COMPRESSION_ZSTD_LEVEL",
    "WRITE_BUFFER_FOR_APPEND",
    "WRITE_BUFFER_SIZE",
    "WRITE_BUFFER_SPILLABLE",
    "WRITE_MERGE_SCHEMA",
    "WRITE_MERGE_SCHEMA_EXPLICIT_CAST",
    "WRITE_ONLY",
]

TITLE = "Writing: buffer, sorting, spilling"

_KERNEL = no_effect("it affects Java's sort of rows; Tidelake sorts Arrow columns")

WRITE_BUFFER_SIZE: Final = memory_size(
    "write-buffer-size",
    256 << 20,
    "Memory for buffered rows; when it is full they are sorted and written. Larger: fewer, bigger"
    " level-0 files; smaller: less memory. If it is unset and the catalog was opened with"
    " ``memory=``: an eighth of that.",
    minimum=1,
)
WRITE_BUFFER_SPILLABLE: Final = boolean(
    "write-buffer-spillable",
    True,
    "Whether a full buffer is spilled to local disk as a sorted run, not written as a data file.",
)
WRITE_BUFFER_FOR_APPEND: Final = boolean(
    "write-buffer-for-append",
    False,
    "Whether writers of an append table buffer rows, too, so that a write of many partitions"
    " stays within its memory.",
)
WRITE_ONLY: Final = boolean(
    "write-only",
    False,
    "Whether writers leave compaction and expiry to a separate job. True: faster commits, slower"
    " reads until that job runs.",
    fallback_keys=("write.compaction-skip",),
)
WRITE_MERGE_SCHEMA: Final = boolean(
    "write.merge-schema",
    False,
    "Whether a write on Spark may add columns and widen types. The table's schema is changed"
    " before the write; columns that the rows lack are null.",
)
WRITE_MERGE_SCHEMA_EXPLICIT_CAST: Final = boolean(
    "write.merge-schema.explicit-cast",
    False,
    "Whether write.merge-schema may also change a column to a type that loses a part of some"
    " values.",
)
SORT_SPILL_BUFFER_SIZE: Final = memory_size(
    "sort-spill-buffer-size",
    64 << 20,
    "Memory of a merge on disk.",
    no_effect("a merge holds one batch per run"),
)
SPILL_COMPRESSION: Final = text(
    "spill-compression",
    "zstd",
    "Compression of spilled rows.",
    pattern="zstd|lz4|none",
)
SPILL_COMPRESSION_ZSTD_LEVEL: Final = integer(
    "spill-compression.zstd-level",
    1,
    "Level of zstd for spilled rows.",
)
PRECOMMIT_COMPACT: Final = boolean(
    "precommit-compact",
    False,
    "Whether a commit avoids small files. It joins the changelog files of a partition's buckets"
    " into one file, which Flink and Tidelake can read, but not Java Paimon on Spark. A stream"
    " into an append table without buckets shuffles rows by partition.",
    fallback_keys=("changelog.precommit-compact",),
)
SINK_LOCAL_ROWS: Final = integer(
    "sink.local-rows",
    50_000,
    "The most rows of a micro-batch that the driver of a stream on Spark writes itself. More:"
    " less work, since no Python task starts, but more memory of the driver. 0: the executors"
    " write all batches.",
    minimum=0,
)
SINK_PARALLELISM: Final = integer(
    "sink.parallelism",
    None,
    "Number of writing tasks on Spark, if the call gives none; by the size of the input if unset."
    " More: more parallel work, more files of an append table. One task writes a bucket.",
    minimum=1,
)

UNREAD = (
    memory_size(
        "write-buffer-spill.max-disk-size",
        2**63 - 1,
        "The most local disk for spilled rows; beyond it the buffer is written as data files.",
        not_done("spilled rows have no limit on local disk; they are deleted after the commit"),
    ),
    integer(
        "write-max-writers-to-spill",
        10,
        "Number of open append writers above which they buffer rows; see write-buffer-for-append.",
        no_effect("with any number of writers, rows that do not fill a row group are spilled"),
        minimum=1,
    ),
    memory_size(
        "local-merge-buffer-size",
        None,
        "Memory to merge rows of one key before they are sent to their bucket's writer.",
        no_effect("the bucket's writer merges rows of one key"),
    ),
    memory_size("page-size", 64 << 10, "Size of the memory pages of Java's sort buffers.", _KERNEL),
    memory_size(
        "cache-page-size", 64 << 10, "Size of the pages of Java's cache of local files.", _KERNEL
    ),
    enumeration(
        "sort-engine",
        "loser-tree",
        ("min-heap", "loser-tree"),
        "Structure that merges sorted runs row by row.",
        no_effect("a stable sort merges runs batch by batch, with the same result"),
    ),
    integer(
        "sort-spill-threshold",
        None,
        "Runs to read at a time before a merge uses disk.",
        no_effect("a merge holds one batch per run"),
    ),
    integer(
        "local-sort.max-num-file-handles",
        128,
        "The most open files of one external merge sort.",
        _KERNEL,
    ),
)
