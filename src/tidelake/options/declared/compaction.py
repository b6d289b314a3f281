"""Compaction: sorted runs, levels, lookups, clustering."""

from __future__ import annotations

from typing import Final

from tidelake.options.option import (
    Kind,
    boolean,
    duration,
    enumeration,
    floating,
    integer,
    memory_size,
    no_effect,
    not_done,
    text,
)

__all__ = [
    "COMPACTION_DELETE_RATIO_THRESHOLD",
    "COMPACTION_FORCE_REWRITE_ALL_FILES",
    "COMPACTION_FORCE_UP_LEVEL_0",
    "COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT",
    "COMPACTION_MIN_FILE_NUM",
    "COMPACTION_OFFPEAK_END_HOUR",
    "COMPACTION_OFFPEAK_RATIO",
    "COMPACTION_OFFPEAK_START_HOUR",
    "COMPACTION_OPTIMIZATION_INTERVAL",
    "COMPACTION_SIZE_RATIO",
    "COMPACTION_TOTAL_SIZE_THRESHOLD",
    "FORCE_LOOKUP",
    "FULL_COMPACTION_DELTA_COMMITS",
    "LOOKUP_CACHE_FILE_RETENTION",
    "LOOKUP_CACHE_MAX_DISK_SIZE",
    "LOOKUP_CACHE_MAX_MEMORY_SIZE",
    "LOOKUP_COMPACT",
    "LOOKUP_COMPACT_MAX_INTERVAL",
    "NUM_LEVELS",
    "NUM_SORTED_RUN_COMPACTION_TRIGGER",
    "NUM_SORTED_RUN_STOP_TRIGGER",
]

TITLE = "Compaction: sorted runs, levels, clustering"

_LOOKUP = no_effect(
    "compactions look keys up in the data files; lookup files of queries have one form"
)
_CLUSTERING = not_done(
    "rows are not clustered here, so filters skip fewer files: sort the rows before the write"
)
_OF_CLUSTERING = no_effect("it only affects files; rows are not clustered here")

NUM_SORTED_RUN_COMPACTION_TRIGGER: Final = integer(
    "num-sorted-run.compaction-trigger",
    5,
    "Number of sorted runs of a bucket that triggers a compaction. Larger: cheaper writes, slower"
    " reads.",
    minimum=1,
)
NUM_SORTED_RUN_STOP_TRIGGER: Final = integer(
    "num-sorted-run.stop-trigger",
    None,
    "Number of sorted runs at which writers wait for compaction; the compaction trigger + 3 if"
    " unset.",
    minimum=1,
)
NUM_LEVELS: Final = integer(
    "num-levels",
    None,
    "Number of levels of a bucket, with level 0; the compaction trigger + 1 if unset.",
    minimum=2,
)
COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT: Final = integer(
    "compaction.max-size-amplification-percent",
    200,
    "A full compaction begins when the newer runs reach this percentage of the oldest run's size."
    " Smaller: less space, more rewriting.",
    minimum=0,
)
COMPACTION_SIZE_RATIO: Final = integer(
    "compaction.size-ratio",
    1,
    "A compaction takes the next run if it is at most this percentage larger than the runs taken"
    " so far. Larger: more rewriting, fewer runs.",
    minimum=0,
)
COMPACTION_MIN_FILE_NUM: Final = integer(
    "compaction.min.file-num",
    5,
    "Number of small files of an append bucket that triggers their rewrite into one. Smaller:"
    " fewer small files, more rewriting.",
    minimum=1,
)
COMPACTION_DELETE_RATIO_THRESHOLD: Final = floating(
    "compaction.delete-ratio-threshold",
    0.2,
    "Share of deleted rows above which a compaction rewrites a file of any size, in an append"
    " table without buckets.",
    kind=Kind.DOUBLE,
)
COMPACTION_FORCE_REWRITE_ALL_FILES: Final = boolean(
    "compaction.force-rewrite-all-files",
    False,
    "Whether a full compaction rewrites all files, even those that need no rewrite. No effect on"
    " append tables without buckets.",
)
COMPACTION_FORCE_UP_LEVEL_0: Final = boolean(
    "compaction.force-up-level-0",
    False,
    "Whether every compaction takes all files of level 0.",
)
COMPACTION_OPTIMIZATION_INTERVAL: Final = duration(
    "compaction.optimization-interval",
    None,
    "The most time between full compactions, for the read-optimized view. Smaller: a view that"
    " lags less, more rewriting.",
)
COMPACTION_TOTAL_SIZE_THRESHOLD: Final = memory_size(
    "compaction.total-size-threshold",
    None,
    "Size of a bucket below which every compaction takes all runs.",
)
COMPACTION_OFFPEAK_START_HOUR: Final = integer(
    "compaction.offpeak.start.hour",
    -1,
    "First hour of the day with compaction.offpeak-ratio; -1 is never.",
    minimum=-1,
    maximum=23,
)
COMPACTION_OFFPEAK_END_HOUR: Final = integer(
    "compaction.offpeak.end.hour",
    -1,
    "Hour of the day at which these hours end.",
    minimum=-1,
    maximum=23,
)
COMPACTION_OFFPEAK_RATIO: Final = integer(
    "compaction.offpeak-ratio",
    0,
    "Percent added to compaction.size-ratio in those hours.",
)
FULL_COMPACTION_DELTA_COMMITS: Final = integer(
    "full-compaction.delta-commits",
    None,
    "Number of commits with rows after which a full compaction runs; in an append table it joins"
    " the small files. Smaller: faster reads, less lag of a changelog by full compactions; more"
    " rewriting.",
    minimum=1,
)
FORCE_LOOKUP: Final = boolean(
    "force-lookup",
    False,
    "Whether compaction always looks up keys in older levels.",
    mutable=False,
)
LOOKUP_COMPACT: Final = enumeration(
    "lookup-compact",
    "RADICAL",
    ("RADICAL", "GENTLE"),
    "Whether lookup compaction takes level 0 in every commit (RADICAL), or by the other rules and"
    " lookup-compact.max-interval (GENTLE). GENTLE: less rewriting, but later changelogs and rows"
    " of first-row.",
)
LOOKUP_COMPACT_MAX_INTERVAL: Final = integer(
    "lookup-compact.max-interval",
    None,
    "Number of level-0 runs at which a GENTLE lookup compaction takes them; twice the compaction"
    " trigger if unset, never less than the trigger.",
)
LOOKUP_CACHE_FILE_RETENTION: Final = duration(
    "lookup.cache-file-retention",
    3_600_000,
    "Time for which an unused local lookup file is kept.",
)
LOOKUP_CACHE_MAX_DISK_SIZE: Final = memory_size(
    "lookup.cache-max-disk-size",
    2**63 - 1,
    "The most local disk for the lookup files of a table; a query that needs more fails.",
)
LOOKUP_CACHE_MAX_MEMORY_SIZE: Final = memory_size(
    "lookup.cache-max-memory-size",
    256 << 20,
    "The most bytes of a table's lookup files that a process maps. Other files are read in pieces:"
    " gets cost about three times as much.",
)

UNREAD = (
    boolean(
        "lookup-wait",
        True,
        "Whether a commit waits for the compaction that its lookups need.",
        no_effect("it always waits"),
        fallback_keys=("changelog-producer.lookup-wait",),
    ),
    enumeration(
        "lookup.local-file-type",
        "sort",
        ("sort", "hash"),
        "Format of the local files of lookups.",
        _LOOKUP,
    ),
    floating(
        "lookup.hash-load-factor",
        0.75,
        "Load factor of the hash tables in these files.",
        _LOOKUP,
        kind=Kind.FLOAT,
    ),
    text("lookup.cache-spill-compression", "zstd", "Compression of local lookup files.", _LOOKUP),
    boolean(
        "lookup.cache.bloom.filter.enabled",
        True,
        "Whether local lookup files carry a bloom filter.",
        _LOOKUP,
    ),
    floating(
        "lookup.cache.bloom.filter.fpp",
        0.05,
        "Share of false hits of the bloom filter. Smaller: larger filters.",
        _LOOKUP,
        kind=Kind.DOUBLE,
    ),
    floating(
        "lookup.cache.high-priority-pool-ratio",
        0.25,
        "Share of the lookup memory for filters and indexes.",
        _LOOKUP,
        kind=Kind.DOUBLE,
    ),
    memory_size(
        "lookup.merge-buffer-size", 8 << 20, "Memory to merge the rows of one key.", _LOOKUP
    ),
    integer(
        "lookup.merge-records-threshold",
        1024,
        "Number of rows of one key from which the buffer is used.",
        _LOOKUP,
    ),
    text(
        "clustering.columns",
        None,
        "Columns for clustering the rows of an append table.",
        _CLUSTERING,
        fallback_keys=("sink.clustering.by-columns",),
    ),
    text(
        "clustering.strategy",
        "auto",
        "Order of clustered rows: zorder, hilbert, order or auto.",
        _CLUSTERING,
        fallback_keys=("sink.clustering.strategy",),
    ),
    boolean(
        "clustering.incremental",
        False,
        "Whether new files are clustered incrementally.",
        _CLUSTERING,
    ),
    integer(
        "clustering.history-partition.limit",
        5,
        "Number of old partitions to cluster fully at a time.",
        _CLUSTERING,
    ),
    duration(
        "clustering.history-partition.idle-to-full-sort",
        None,
        "Time without changes after which a partition counts as old.",
        _CLUSTERING,
    ),
    enumeration(
        "sort-compaction.range-strategy",
        "QUANTITY",
        ("SIZE", "QUANTITY"),
        "Whether sort tasks get ranges with equal numbers of rows or with equal sizes.",
        _OF_CLUSTERING,
    ),
    integer(
        "sort-compaction.local-sample.magnification",
        1000,
        "Rows that each task samples to find the ranges.",
        _OF_CLUSTERING,
    ),
    integer(
        "zorder.var-length-contribution",
        8,
        "Number of bytes of a string in the z-order.",
        _OF_CLUSTERING,
    ),
)
