"""Checks of a table's data files: their sizes, sorted runs and deleted rows, bucket by bucket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.options import declared, target_file_size_bytes
from tidelake.options.bucket_mode import BucketMode
from tidelake.table.health.examined import Examined
from tidelake.table.health.finding import ADVICE, WARNING, Forecast, HealthFinding, RemedyCall
from tidelake.table.health.forecast import forecast

BUCKET_BYTES_MAX = 5 << 30
"""A larger bucket takes one task too long to compact."""
BUCKET_BYTES_WANTED = 1 << 30
SKEW_MAX = 4
"""How many times larger than the mean of its partition a bucket may be."""
SKEW_BYTES_MIN = 256 << 20
"""Smaller buckets are skewed by chance, and do not matter."""
BUCKETS_TIMES_MAX = 8
"""How many times more buckets there may be than the bytes ask for."""
BUCKETS_COUNT_FINE = 8
"""So few buckets never matter."""
DELETED_SHARE_MAX = 0.2
SMALL_SHARE = 0.7
"""A file below this share of the target size is small."""
TASKS_PER_WRITER_MAX = 100
"""Of the rule (N*B)/P < 100."""


def small_files(examined: Examined) -> Iterator[HealthFinding]:
    """Many small files in a bucket of an append table."""
    files, options = examined.files, examined.handle.options
    examined.figures["files_count"] = files.entries.num_rows
    if examined.is_keyed:
        return
    target = target_file_size_bytes(options, has_primary_key=False)
    is_small = files.sizes < target * SMALL_SHARE
    counts = files.of_buckets(is_small)
    most = np.flatnonzero(counts >= max(2, options.get(declared.COMPACTION_MIN_FILE_NUM)))
    if not len(most):
        return
    full = examined.handle.bucket_mode is not BucketMode.UNBUCKETED
    planned = forecast(examined, most.tolist(), full=full)
    share = len(most) / len(planned)
    less = round(sum(bucket.files_less for bucket in planned) * share)
    if less <= 0:
        return
    total = files.entries.num_rows
    yield HealthFinding(
        "small_files",
        WARNING,
        "Each read opens every one of them, and their metadata is read before.",
        {
            "small_files": int(is_small.sum()),
            "files": total,
            "mean_bytes": int(files.sizes.mean()),
            "target_bytes": target,
            "bytes_to_rewrite": round(sum(bucket.bytes for bucket in planned) * share),
        },
        (_compact(examined, full=full),),
        {"files_count": Forecast(total, total - less)},
    )


def sorted_runs(examined: Examined) -> Iterator[HealthFinding]:
    """More sorted runs in a bucket than a compaction leaves."""
    if not examined.is_keyed:
        return
    runs = examined.files.runs()
    most = int(runs.max(initial=0))
    examined.figures["runs_count_max"] = most
    trigger = examined.handle.options.get(declared.NUM_SORTED_RUN_COMPACTION_TRIGGER)
    numbers = np.flatnonzero(runs > trigger)
    if not len(numbers):
        return
    numbers = numbers[np.argsort(-runs[numbers], kind="stable")]
    planned = forecast(examined, numbers.tolist(), full=False)
    after = [int(runs[n]) - p.runs_less for n, p in zip(numbers, planned, strict=False)]
    others = runs[runs <= trigger].max(initial=0)
    share = len(numbers) / len(planned)
    yield HealthFinding(
        "too_many_runs",
        WARNING,
        "Each read merges all runs of a bucket; nobody compacts them, or too slowly.",
        {
            "buckets": len(numbers),
            "runs_max": most,
            "trigger": trigger,
            "bytes_to_rewrite": round(sum(bucket.bytes for bucket in planned) * share),
        },
        (_compact(examined, full=False),),
        {"runs_count_max": Forecast(most, max(int(others), *after))},
    )


def deleted_rows(examined: Examined) -> Iterator[HealthFinding]:
    """Files of which many rows are deleted."""
    files = examined.files
    deleted, rows = files.deleted, files.rows
    total = int(deleted.sum())
    examined.figures["deleted_rows"] = total
    threshold = DELETED_SHARE_MAX
    if not examined.is_keyed:
        given = examined.handle.options.get(declared.COMPACTION_DELETE_RATIO_THRESHOLD)
        threshold = max(threshold, given)
    heavy = deleted > rows * threshold
    numbers = np.flatnonzero(files.of_buckets(heavy) > 0)
    if not len(numbers):
        return
    unbucketed = examined.handle.bucket_mode is BucketMode.UNBUCKETED
    planned = forecast(examined, numbers.tolist(), full=not unbucketed)
    picked = pa.array([name for bucket in planned for name in bucket.picked], pa.string())
    goes = pc.is_in(files.entries["file_name"], value_set=picked).to_numpy(zero_copy_only=False)
    less = round(int(deleted[goes].sum()) * len(numbers) / len(planned))
    if not less:
        return
    yield HealthFinding(
        "deleted_rows",
        WARNING,
        "Reads decode rows that count for nothing.",
        {
            "files": int(heavy.sum()),
            "deleted_rows": int(deleted[heavy].sum()),
            "rows": int(rows[heavy].sum()),
            "bytes_to_rewrite": sum(bucket.bytes for bucket in planned),
        },
        (_compact(examined, full=not unbucketed),),
        {"deleted_rows": Forecast(total, total - less)},
    )


def bucket_sizes(examined: Examined) -> Iterator[HealthFinding]:
    """Buckets that are too large, too many, or too unlike."""
    files = examined.files
    sizes = files.of_buckets(files.sizes)
    largest = int(sizes.max(initial=0))
    examined.figures["bucket_bytes_max"] = largest
    buckets = examined.handle.options.get(declared.BUCKET)
    examined.figures["buckets_per_partition"] = buckets
    if buckets < 1:
        return
    _, sums, highest = files.partition_sums(sizes)
    wanted = max(1, -(-int(sums.max(initial=0)) // BUCKET_BYTES_WANTED))
    uneven = highest > SKEW_MAX * np.maximum(sums / buckets, 1)
    skewed = uneven & (highest > SKEW_BYTES_MIN)
    if skewed.any() and buckets > 1:
        columns = ", ".join(examined.handle.schema.bucket_keys)
        yield HealthFinding(
            "skewed_buckets",
            ADVICE,
            f"Few values of the bucket key ({columns}) hold most rows, so one task does most of the"
            " work. More buckets do not part equal values: copy the table into one with another"
            " 'bucket-key'.",
            {
                "partitions": int(skewed.sum()),
                "largest_bytes": int(highest[skewed].max()),
                "mean_bytes": int((sums[skewed] / buckets).max()),
            },
        )
    if largest > BUCKET_BYTES_MAX and wanted > buckets:
        yield _rescaled(
            examined,
            "large_buckets",
            WARNING,
            "One task compacts and writes a bucket, which takes too long.",
            {"buckets": int((sizes > BUCKET_BYTES_MAX).sum()), "largest_bytes": largest},
            wanted,
            {"bucket_bytes_max": Forecast(largest, largest * buckets / wanted)},
        )
    elif buckets > BUCKETS_COUNT_FINE and buckets > BUCKETS_TIMES_MAX * wanted:
        yield _rescaled(
            examined,
            "many_buckets",
            ADVICE,
            "Each commit writes a file to every bucket, and each read opens one of each.",
            {"buckets": buckets, "largest_bytes": largest},
            wanted,
        )


def write_tasks(examined: Examined) -> Iterator[HealthFinding]:
    """More buckets to write at once than the tasks can: the rule (N*B)/P < 100."""
    figures, handle = examined.figures, examined.handle
    buckets = max(1, handle.options.get(declared.BUCKET))
    partitions = figures.get("partitions_written", 1)
    load = partitions * buckets / examined.parallelism
    figures["buckets_per_task"] = load
    if load <= TASKS_PER_WRITER_MAX:
        return
    evidence = {
        "partitions": int(partitions),
        "buckets": buckets,
        "parallelism": examined.parallelism,
        "buckets_per_task": round(load, 1),
    }
    fewer = int(TASKS_PER_WRITER_MAX * examined.parallelism // partitions)
    cause = (
        "A task holds a buffer for each bucket that it writes: (N*B)/P is over"
        f" {TASKS_PER_WRITER_MAX}. Files get small, and memory short. Write with more tasks, or"
    )
    if fewer >= 1 and handle.options.get(declared.BUCKET) > 0:
        yield _rescaled(
            examined,
            "write_tasks",
            WARNING,
            f"{cause} with fewer buckets.",
            evidence,
            fewer,
            {"buckets_per_task": Forecast(load, partitions * fewer / examined.parallelism)},
        )
    else:
        tasks = -(-int(partitions * buckets) // TASKS_PER_WRITER_MAX)
        yield HealthFinding(
            "write_tasks",
            WARNING,
            f"{cause} fewer partitions at a time: {tasks} tasks would do.",
            evidence,
        )


def _rescaled(
    examined: Examined,
    kind: str,
    severity: str,
    cause: str,
    evidence: Mapping[str, object],
    wanted: int,
    predicted: dict[str, Forecast] | None = None,
) -> HealthFinding:
    buckets = examined.handle.options.get(declared.BUCKET)
    remedy = RemedyCall(
        f"table.rescale_bucket({wanted})", examined.call("rescale", f"bucket_num => {wanted}")
    )
    forecasts = {"buckets_per_partition": Forecast(buckets, wanted), **(predicted or {})}
    return HealthFinding(kind, severity, cause, evidence, (remedy,), forecasts)


def _compact(examined: Examined, *, full: bool) -> RemedyCall:
    if full:
        return RemedyCall(
            "table.compact(full=True)",
            examined.call("compact", "compact_strategy => 'full'"),
        )
    return RemedyCall("table.compact()", examined.call("compact", "compact_strategy => 'minor'"))
