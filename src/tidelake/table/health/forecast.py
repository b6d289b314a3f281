"""What a compaction would do, by the rules that the compaction itself asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidelake.metadata.data_file import DataFileMeta
from tidelake.options import target_file_size_bytes
from tidelake.table.health.examined import Examined
from tidelake.table.write.new_writer import new_writer

PLANNED_BUCKETS_MAX = 256
"""Buckets that are planned one by one; of more, the effect is taken to be alike."""


@dataclass(frozen=True, slots=True)
class BucketForecast:
    """What a compaction does to one bucket.

    Parameters
    ----------
    picked : tuple of str
        Names of the files that it rewrites.
    bytes : int
        Their bytes.
    files_less, runs_less : int
        Files and sorted runs that are fewer afterwards.
    """

    picked: tuple[str, ...]
    bytes: int
    files_less: int
    runs_less: int


def forecast(examined: Examined, numbers: Iterable[int], *, full: bool) -> list[BucketForecast]:
    """Plan the compaction of some buckets, at most :data:`PLANNED_BUCKETS_MAX` of them.

    Parameters
    ----------
    numbers : iterable of int
        Buckets by their number in the measures.
    """
    handle = examined.handle
    target = target_file_size_bytes(handle.options, has_primary_key=examined.is_keyed)
    found: list[BucketForecast] = []
    planner = new_writer(handle, base_snapshot_id=examined.snapshot.id)
    try:
        for number in list(numbers)[:PLANNED_BUCKETS_MAX]:
            place = examined.files.bucket_id(number)
            parts = planner.compaction_parts(place.partition, place.bucket, full=full)
            found.append(_of_parts(parts, target))
    finally:
        planner.close()
    return found


def _of_parts(parts: Sequence[Sequence[DataFileMeta]], target: int) -> BucketForecast:
    files_less = runs_less = size_bytes = 0
    for part in parts:
        own_bytes = sum(f.file_size_bytes for f in part)
        files_less += len(part) - max(1, -(-own_bytes // target))
        levels = {f.level for f in part if f.level > 0}
        runs_less += sum(f.level == 0 for f in part) + len(levels) - 1
        size_bytes += own_bytes
    return BucketForecast(
        tuple(f.file_name for part in parts for f in part), size_bytes, files_less, runs_less
    )
