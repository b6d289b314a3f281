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
_CLUSTERING = no_effect("it only shapes files; rows are not clustered here")

NUM_SORTED_RUN_COMPACTION_TRIGGER: Final = integer(
    "num-sorted-run.compaction-trigger",
    5,
    "Sorted runs of a bucket at which compaction begins. Larger: cheaper writes, slower reads.",
    minimum=1,
)
NUM_SORTED_RUN_STOP_TRIGGER: Final = integer(
    "num-sorted-run.stop-trigger",
    None,
    "Sorted runs at which writing waits for compaction; the compaction trigger + 3 if unset.",
    minimum=1,
)
NUM_LEVELS: Final = integer(
    "num-levels",
    None,
    "Levels of a bucket, level 0 included; the compaction trigger + 1 if unset.",
    minimum=2,
)
COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT: Final = integer(
    "compaction.max-size-amplification-percent",
    200,
    "Size of all newer runs against the oldest, in percent, at which everything is rewritten. "
    "Smaller: less space, more rewriting.",
    minimum=0,
)
COMPACTION_SIZE_RATIO: Final = integer(
    "compaction.size-ratio",
    1,
    "Percent by which the next run may be larger than those already picked and still be picked. "
    "Larger: more rewriting, fewer runs.",
    minimum=0,
)
COMPACTION_MIN_FILE_NUM: Final = integer(
    "compaction.min.file-num",
    5,
    "Small files of an append bucket that are rewritten into one. Smaller: fewer small files, "
    "more rewriting.",
    minimum=1,
)
COMPACTION_DELETE_RATIO_THRESHOLD: Final = floating(
    "compaction.delete-ratio-threshold",
    0.2,
    "Share of deleted rows above which a compaction rewrites a file of an append table without "
    "buckets, however large it is.",
    kind=Kind.DOUBLE,
)
COMPACTION_FORCE_REWRITE_ALL_FILES: Final = boolean(
    "compaction.force-rewrite-all-files",
    False,
    "Whether a full compaction rewrites files that need not be. Not of append tables without "
    "buckets.",
)
COMPACTION_FORCE_UP_LEVEL_0: Final = boolean(
    "compaction.force-up-level-0",
    False,
    "Whether every compaction takes all files of level 0.",
)
COMPACTION_OPTIMIZATION_INTERVAL: Final = duration(
    "compaction.optimization-interval",
    None,
    "How old the last level may grow before all runs are compacted into it, for the read-optimized "
    "view. Smaller: a view that lags less, more rewriting.",
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
    "Hour of the day at which that ends.",
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
    "Commits of rows after which what waits above the last level is compacted into it. Smaller: "
    "faster reads, a changelog of full compactions that lags less; more rewriting.",
    minimum=1,
)
FORCE_LOOKUP: Final = boolean(
    "force-lookup",
    False,
    "Whether compaction always looks up what older levels have of a key.",
    mutable=False,
)
LOOKUP_COMPACT: Final = enumeration(
    "lookup-compact",
    "RADICAL",
    ("RADICAL", "GENTLE"),
    "Whether lookup compaction takes level 0 on every commit, or leaves it to the other rules and "
    "to lookup-compact.max-interval. GENTLE: less rewriting; changelogs, and rows of first-row, "
    "come later.",
)
LOOKUP_COMPACT_MAX_INTERVAL: Final = integer(
    "lookup-compact.max-interval",
    None,
    "Runs of level 0 at which the gentle one takes them at the latest; twice the compaction "
    "trigger if unset, never less than the trigger.",
)
LOOKUP_CACHE_FILE_RETENTION: Final = duration(
    "lookup.cache-file-retention",
    3_600_000,
    "How long a local lookup file that nobody uses is kept.",
)
LOOKUP_CACHE_MAX_DISK_SIZE: Final = memory_size(
    "lookup.cache-max-disk-size",
    2**63 - 1,
    "The most local disk that the lookup files of a table take; a query that needs more fails.",
)
LOOKUP_CACHE_MAX_MEMORY_SIZE: Final = memory_size(
    "lookup.cache-max-memory-size",
    256 << 20,
    "The most bytes of a table's lookup files that a process maps. Files that do not fit are read "
    "piece by piece: gets cost about three times as much.",
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
        "Kind of the local files that lookups read.",
        _LOOKUP,
    ),
    floating(
        "lookup.hash-load-factor",
        0.75,
        "How full the hash tables of those files are.",
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
        "Share of false hits of that filter. Smaller: larger filters.",
        _LOOKUP,
        kind=Kind.DOUBLE,
    ),
    floating(
        "lookup.cache.high-priority-pool-ratio",
        0.25,
        "Share of the lookup memory kept for filters and indexes.",
        _LOOKUP,
        kind=Kind.DOUBLE,
    ),
    memory_size(
        "lookup.merge-buffer-size", 8 << 20, "Memory to merge the rows of one key.", _LOOKUP
    ),
    integer(
        "lookup.merge-records-threshold",
        1024,
        "Rows of one key before that buffer is used.",
        _LOOKUP,
    ),
    text(
        "clustering.columns",
        None,
        "Columns by which an append table's rows are clustered.",
        _CLUSTERING,
        fallback_keys=("sink.clustering.by-columns",),
    ),
    text(
        "clustering.strategy",
        "auto",
        "Curve of the clustering: zorder, hilbert, order or auto.",
        _CLUSTERING,
        fallback_keys=("sink.clustering.strategy",),
    ),
    boolean(
        "clustering.incremental", False, "Whether new files are clustered bit by bit.", _CLUSTERING
    ),
    integer(
        "clustering.history-partition.limit",
        5,
        "Old partitions clustered in full at a time.",
        _CLUSTERING,
    ),
    duration(
        "clustering.history-partition.idle-to-full-sort",
        None,
        "Rest after which a partition counts as old.",
        _CLUSTERING,
    ),
    enumeration(
        "sort-compaction.range-strategy",
        "QUANTITY",
        ("SIZE", "QUANTITY"),
        "Whether sort tasks get ranges of equal rows or of equal size.",
        _CLUSTERING,
    ),
    integer(
        "sort-compaction.local-sample.magnification",
        1000,
        "Rows sampled per task to find those ranges.",
        _CLUSTERING,
    ),
    integer(
        "zorder.var-length-contribution",
        8,
        "Bytes of a string that count in the z-order.",
        _CLUSTERING,
    ),
)
