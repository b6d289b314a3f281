"""The write buffer: memory, sorting, spilling."""

from __future__ import annotations

from typing import Final

from tidelake.options.option import (
    boolean,
    enumeration,
    integer,
    memory_size,
    no_effect,
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

_KERNEL = no_effect("it tunes Java's row-wise sort; batches are sorted as Arrow columns here")

WRITE_BUFFER_SIZE: Final = memory_size(
    "write-buffer-size",
    256 << 20,
    "Memory that buffered rows may take before they are sorted and written. Larger: fewer, bigger "
    "level-0 files; smaller: less memory. Where it is not set and the catalog was opened with "
    "``memory=``, an eighth of that.",
    minimum=1,
)
WRITE_BUFFER_SPILLABLE: Final = boolean(
    "write-buffer-spillable",
    True,
    "Whether a full buffer goes to local disk as a sorted run instead of becoming a data file.",
)
WRITE_BUFFER_FOR_APPEND: Final = boolean(
    "write-buffer-for-append",
    False,
    "Whether an append table buffers its rows too, so that writing many partitions at once stays "
    "inside the memory budget.",
)
WRITE_ONLY: Final = boolean(
    "write-only",
    False,
    "Whether writers leave compaction and expiry to a job of their own. True: faster commits, "
    "slower reads until that job runs.",
    fallback_keys=("write.compaction-skip",),
)
WRITE_MERGE_SCHEMA: Final = boolean(
    "write.merge-schema",
    False,
    "Whether a write on Spark may bring new columns and wider types along: the table's schema is "
    "changed before the rows are written, and columns that the rows have not are null.",
)
WRITE_MERGE_SCHEMA_EXPLICIT_CAST: Final = boolean(
    "write.merge-schema.explicit-cast",
    False,
    "Whether write.merge-schema may also give a column a type into which its values can only be "
    "cast, perhaps losing something.",
)
SORT_SPILL_BUFFER_SIZE: Final = memory_size(
    "sort-spill-buffer-size",
    64 << 20,
    "Memory of a merge that goes to disk.",
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
    "Whether a commit leaves few files. The changelog files of a partition's buckets become one "
    "file, which Flink and Tidelake read and Java Paimon on Spark does not. A stream into an "
    "append table without buckets brings the rows of a partition together, which costs a shuffle.",
    fallback_keys=("changelog.precommit-compact",),
)
SINK_LOCAL_ROWS: Final = integer(
    "sink.local-rows",
    50_000,
    "Rows up to which a micro-batch of a stream is written on Spark's driver. More: cheaper, as no "
    "task of Python's starts, and more of the driver's memory. 0: always on the executors.",
    minimum=0,
)
SINK_PARALLELISM: Final = integer(
    "sink.parallelism",
    None,
    "Tasks that write on Spark, where a call names no number; by the size of the input if unset. "
    "More: more at once, and more files of an append table. A bucket is written by one task.",
    minimum=1,
)

UNREAD = (
    memory_size(
        "write-buffer-spill.max-disk-size",
        2**63 - 1,
        "Most local disk that spilled rows may take; beyond it the buffer becomes data files.",
        no_effect("spilled rows take the room they need; they are gone after the commit"),
    ),
    integer(
        "write-max-writers-to-spill",
        10,
        "Number of open append writers from which rows are buffered: write-buffer-for-append.",
        no_effect("whatever the number of writers, rows that do not fill a row group are spilled"),
        minimum=1,
    ),
    memory_size(
        "local-merge-buffer-size",
        None,
        "Memory to merge rows of one key before they are sent to their bucket's writer.",
        no_effect("rows of one key are merged in the bucket's writer"),
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
        no_effect("runs are merged batch by batch, by a stable sort; the result is the same"),
    ),
    integer(
        "sort-spill-threshold",
        None,
        "Runs read at a time before a merge goes to disk.",
        no_effect("a merge holds one batch per run"),
    ),
    integer(
        "local-sort.max-num-file-handles",
        128,
        "Most files open in one external merge sort.",
        _KERNEL,
    ),
)
