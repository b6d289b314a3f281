"""Commits, manifests, snapshots, tags."""

from __future__ import annotations

from typing import Final

from tidelake.options.option import (
    ON_WRITE,
    boolean,
    duration,
    enumeration,
    integer,
    memory_size,
    no_effect,
    not_done,
    partly,
    refused,
    text,
)

__all__ = [
    "COMMIT_FORCE_CREATE_SNAPSHOT",
    "COMMIT_MAX_RETRIES",
    "COMMIT_MAX_RETRY_WAIT",
    "COMMIT_MIN_RETRY_WAIT",
    "COMMIT_TIMEOUT",
    "MANIFEST_COMPRESSION",
    "MANIFEST_FULL_COMPACTION_THRESHOLD_SIZE",
    "MANIFEST_MERGE_MIN_COUNT",
    "MANIFEST_TARGET_FILE_SIZE",
    "SNAPSHOT_EXPIRE_LIMIT",
    "SNAPSHOT_NUM_RETAINED_MAX",
    "SNAPSHOT_NUM_RETAINED_MIN",
    "SNAPSHOT_TIME_RETAINED",
    "TAG_DEFAULT_TIME_RETAINED",
]

TITLE = "Commits, manifests, snapshots, tags"

_AUTO_TAG = not_done(
    "no tag is created by itself here, so its snapshot expires: create tags by name with"
    " create_tag()"
)

COMMIT_FORCE_CREATE_SNAPSHOT: Final = boolean(
    "commit.force-create-snapshot",
    False,
    "Whether a stream commits a snapshot even for a batch without rows, to record its watermark.",
)
COMMIT_MAX_RETRIES: Final = integer(
    "commit.max-retries",
    10,
    "The most retries of a commit that lost a race. Larger: more writers can share a table.",
    minimum=0,
)
COMMIT_MIN_RETRY_WAIT: Final = duration(
    "commit.min-retry-wait", 10, "First wait between two tries; it doubles with each retry."
)
COMMIT_MAX_RETRY_WAIT: Final = duration(
    "commit.max-retry-wait", 10_000, "Longest wait between two tries."
)
COMMIT_TIMEOUT: Final = duration(
    "commit.timeout", None, "Time after which a commit stops trying; no limit if unset."
)
SNAPSHOT_NUM_RETAINED_MIN: Final = integer(
    "snapshot.num-retained.min",
    10,
    "The least number of snapshots to keep at any age, with the newest.",
    minimum=1,
)
SNAPSHOT_NUM_RETAINED_MAX: Final = integer(
    "snapshot.num-retained.max",
    2**31 - 1,
    "The most snapshots to keep at any age. Set it with snapshot.num-retained.min.",
    minimum=1,
)
SNAPSHOT_TIME_RETAINED: Final = duration(
    "snapshot.time-retained",
    3_600_000,
    "Time for which a snapshot is kept after the commit of the next one. Larger: longer time"
    " travel, more space.",
)
SNAPSHOT_EXPIRE_LIMIT: Final = integer(
    "snapshot.expire.limit", 50, "The most snapshots that a commit or a call expires."
)
MANIFEST_COMPRESSION: Final = text(
    "manifest.compression",
    "zstd",
    "Compression of manifests.",
    pattern="zstd|zstandard|snappy|deflate|null|none|uncompressed",
)
MANIFEST_TARGET_FILE_SIZE: Final = memory_size(
    "manifest.target-file-size",
    8 << 20,
    "Size of a merged manifest. Larger: fewer manifests to list; smaller: finer skipping.",
    minimum=1,
)
MANIFEST_MERGE_MIN_COUNT: Final = integer(
    "manifest.merge-min-count",
    30,
    "Number of small manifests that triggers a merge. Smaller: faster plans, slower commits.",
    minimum=1,
)
MANIFEST_FULL_COMPACTION_THRESHOLD_SIZE: Final = memory_size(
    "manifest.full-compaction-threshold-size",
    16 << 20,
    "Total size of small manifests and of those with deletes that triggers a full rewrite.",
)
TAG_DEFAULT_TIME_RETAINED: Final = duration(
    "tag.default-time-retained",
    None,
    "Default time for which Java Paimon keeps a new tag; it is written into the tag. Tidelake"
    " deletes no tag by itself, and warns of it.",
)

UNREAD = (
    text(
        "commit.user-prefix",
        None,
        "Prefix of the name of a new commit user.",
        no_effect("the caller names the commit user, or it is a new uuid"),
    ),
    boolean(
        "commit.force-compact",
        False,
        "Whether a commit waits for the compaction that it began.",
        no_effect("compaction always ends before the commit here"),
    ),
    text(
        "commit.callbacks",
        "",
        "Java classes called after each commit.",
        refused("Tidelake cannot call Java classes; unset it", on=ON_WRITE),
    ),
    text(
        "commit.callback.#.param",
        None,
        "Argument of class # in commit.callbacks.",
        no_effect("it belongs to commit.callbacks"),
    ),
    integer(
        "commit.strict-mode.last-safe-snapshot",
        None,
        "A commit fails if another user compacted or overwrote after this snapshot.",
        refused("the strict check of other users is not covered yet; unset it", on=ON_WRITE),
        long=True,
    ),
    boolean(
        "snapshot.ignore-empty-commit",
        None,
        "Whether a commit without files makes no snapshot.",
        no_effect("a commit without files makes no snapshot, as Java's batch writers do"),
    ),
    enumeration(
        "snapshot.expire.execution-mode",
        "sync",
        ("sync", "async"),
        "Whether a commit waits for expiry.",
        no_effect("a commit returns after the expired files were deleted"),
    ),
    boolean(
        "snapshot.clean-empty-directories",
        False,
        "Whether expiry removes empty folders.",
        not_done("empty folders stay here"),
        fallback_keys=("snapshot.expire.clean-empty-directories",),
    ),
    duration(
        "snapshot.watermark-idle-timeout",
        None,
        "Time without rows after which a source's watermark advances, for tags by watermark.",
        _AUTO_TAG,
    ),
    text(
        "manifest.format",
        "avro",
        "Format of manifests.",
        partly("manifests are Avro only; unset it", accepted=("avro",)),
    ),
    boolean(
        "manifest.delete-file-drop-stats",
        False,
        "Whether manifest entries that delete a file leave out its statistics.",
        no_effect("such entries keep their statistics, as by default"),
    ),
    enumeration(
        "tag.automatic-creation",
        "none",
        ("none", "process-time", "watermark", "batch"),
        "Whether tags are created automatically, and by which clock.",
        _AUTO_TAG,
    ),
    boolean(
        "tag.automatic-completion", False, "Whether missing tags are created later.", _AUTO_TAG
    ),
    boolean(
        "tag.create-success-file",
        False,
        "Whether each automatic tag gets a success file.",
        _AUTO_TAG,
    ),
    enumeration(
        "tag.creation-period",
        "daily",
        ("daily", "hourly", "two-hours"),
        "Period of automatic tags.",
        _AUTO_TAG,
    ),
    duration(
        "tag.creation-period-duration", None, "Period of automatic tags as a duration.", _AUTO_TAG
    ),
    duration("tag.creation-delay", 0, "Wait for late rows after the end of a period.", _AUTO_TAG),
    enumeration(
        "tag.period-formatter",
        "with_dashes",
        ("with_dashes", "without_dashes", "without_dashes_and_spaces"),
        "Format of the names of automatic tags.",
        _AUTO_TAG,
    ),
    text("tag.batch.customized-name", None, "Name of the tag that a batch creates.", _AUTO_TAG),
    integer("tag.num-retained-max", None, "The most automatic tags to keep.", _AUTO_TAG),
    text("tag.callbacks", "", "Java classes called for each new tag.", _AUTO_TAG),
    text("tag.callback.#.param", None, "Argument of class # in tag.callbacks.", _AUTO_TAG),
    text("sink.process-time-zone", None, "Time zone of tags by the clock.", _AUTO_TAG),
    text("sink.watermark-time-zone", "UTC", "Time zone of tags by watermark.", _AUTO_TAG),
)
