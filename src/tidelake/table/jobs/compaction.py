"""Compaction as a job of its own: finds the buckets that need it and commits them at once.

1. The newest snapshot is read. Of the wanted buckets, those stay from which the pick policy would
   take something; that costs metadata only.
2. A bucket writer compacts each, as a writer of rows does on the side. The result is the same:
   merged rows, changelogs of lookups and full compactions, deletion vectors.
3. One COMPACT snapshot publishes them all. If another commit changed a bucket first, so that its
   compaction no longer fits, the bucket is left out and counted
   (:mod:`tidelake.commit.conflicts.file_conflicts`). If that leaves nothing, the job fails
   (:mod:`tidelake.table.write.compaction_conflict`). With nothing to do there is no snapshot.

Parts (:class:`CompactionPart`) are the job's tasks. In an append table without buckets a part is
one bin of files; elsewhere each bucket is one part. A task compacts the files that its bucket has
when the task begins, so a commit after the plan is no conflict; bins keep the files of the plan.

A writer with ``write-only`` leaves all compactions to this job. Source of its arguments: Paimon's
``CompactProcedure`` and ``CompactAction`` (1.3.1).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tidelake.errors import InvalidInputError, shortened
from tidelake.metadata.bucket_id import BucketId, InBucket
from tidelake.scan import BucketFiles, live_buckets
from tidelake.scan.pruning.prune import matching_partitions
from tidelake.table.handle.arguments import whole_number
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.partition_spec import partitions_predicate
from tidelake.table.job.plan import Gathered, Plan
from tidelake.table.write.bucket_state import BucketStates
from tidelake.table.write.new_writer import new_writer
from tidelake.table.write.result import WriteResult
from tidelake.table.write.transaction import WriteTransaction
from tidelake.types.predicate import Predicate, bind, columns_of, parse_filter


@dataclass(frozen=True, slots=True)
class CompactionPart(InBucket):
    """A compaction that one writer does.

    Parameters
    ----------
    names : frozenset of str, optional
        The files, if the bucket's compaction has several parts.
    """

    partition: bytes
    bucket: int
    size_bytes: int
    names: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class TableCompaction(Plan[CompactionPart]):
    """The parts that a compaction is to take.

    Parameters
    ----------
    tasks : tuple of CompactionPart
        The largest first.
    full : bool
        Whether to merge everything.
    """

    tasks: tuple[CompactionPart, ...]
    snapshot_id: int
    full: bool = False

    @property
    def base_snapshot_id(self) -> int:
        """The snapshot that was read."""
        return self.snapshot_id

    def run(self, tasks: Sequence[CompactionPart], into: Gathered) -> None:
        """Compact parts, each with its own writer, which frees its memory before the next.

        They begin from the newest snapshot, read once for all, and from that of the plan where it
        names files.
        """
        newest = BucketStates(into.handle)
        planned = BucketStates(into.handle, snapshot_id=self.snapshot_id)
        if any(part.names is not None for part in tasks):
            handle = into.handle
            handle.schemas.check_same(handle.schema, table=handle.identifier)
            planned.begin()  # it may expire while other parts are compacted
        for part in tasks:
            states = newest if part.names is None else planned
            with into.writing(new_writer(into.handle, states=states)) as writer:
                writer.compact(part.partition, part.bucket, full=self.full, names=part.names)

    def commit(self, out: WriteTransaction, gathered: Gathered) -> WriteResult:  # noqa: ARG002
        """Publish the compactions that still fit."""
        return out.commit_compactions()


@dataclass(frozen=True, slots=True)
class Chosen:
    """The wanted buckets, whether they need a compaction or not.

    Parameters
    ----------
    partitions : Predicate, optional
        Bound, on partition columns; all partitions by default.
    buckets : frozenset of int, optional
        Numbers of buckets; all by default.
    """

    partitions: Predicate | None = None
    buckets: frozenset[int] | None = None

    @classmethod
    def of(cls, handle: TableHandle, partitions: object, buckets: object) -> Chosen:
        """Take the arguments of :meth:`tidelake.Table.compact`.

        Raises
        ------
        InvalidInputError
            The partitions are not valid or name other columns, or the buckets are not bucket
            numbers.
        """
        return cls(_partitions(handle, partitions), _buckets(handle, buckets))

    def of_partitions(self, handle: TableHandle, partitions: Sequence[bytes]) -> frozenset[bytes]:
        """The wanted ones among some partitions."""
        if self.partitions is None:
            return frozenset(partitions)
        fields = [handle.schema.field(name) for name in handle.schema.partition_keys]
        values = [handle.paths.partition_values(p) for p in partitions]
        inside = matching_partitions(values, fields, self.partitions)
        return frozenset(p for p, wanted in zip(partitions, inside, strict=True) if wanted)

    def of_buckets(
        self, handle: TableHandle, buckets: Sequence[BucketFiles]
    ) -> Sequence[BucketFiles]:
        """The wanted ones among some buckets, if they are real."""
        inside = self.of_partitions(handle, sorted({b.partition for b in buckets}))
        return [
            b
            for b in buckets
            if b.bucket >= 0
            and b.partition in inside
            and (self.buckets is None or b.bucket in self.buckets)
        ]


def _partitions(handle: TableHandle, given: object) -> Predicate | None:
    if given is None:
        return None
    is_list = isinstance(given, Sequence) and not isinstance(given, str)
    tuples = isinstance(given, Sequence) and any(isinstance(part, tuple) for part in given)
    if isinstance(given, Mapping) or (is_list and not tuples):
        return partitions_predicate(handle.schema, given, table=handle.identifier)
    keys = handle.schema.partition_keys
    parsed = parse_filter(given)
    assert parsed is not None, "there is a condition"
    predicate = bind(parsed, handle.schema.fields)
    others = sorted(columns_of(predicate) - set(keys))
    if others:
        known = f"Its partition columns are {', '.join(keys)}." if keys else "It has none."
        message = (
            f"partitions= of table '{handle.identifier}' names {', '.join(others)}. Files are"
            f" taken whole, so only partition columns can choose them. {known}"
        )
        raise InvalidInputError(message, kind="bad_partition", table=handle.identifier)
    return predicate


def _buckets(handle: TableHandle, given: object) -> frozenset[int] | None:
    if given is None:
        return None
    numbers: list[int | None] = []
    if isinstance(given, Collection) and not isinstance(given, (str, Mapping)):
        numbers = [whole_number(n) for n in given]
    if not numbers or any(n is None or n < 0 for n in numbers):
        message = (
            f"buckets={shortened(repr(given))} names no buckets of table '{handle.identifier}':"
            " give a list of their numbers, from 0 on, as in [0, 3]."
        )
        raise InvalidInputError(message, kind="bad_argument", table=handle.identifier)
    return frozenset(n for n in numbers if n is not None)


def plan_compaction(
    handle: TableHandle,
    chosen: Chosen,
    *,
    full: bool,
    without: frozenset[BucketId] = frozenset(),
) -> TableCompaction:
    """Find the buckets of the newest snapshot that need a compaction.

    Parameters
    ----------
    full : bool
        Whether to merge everything.

    Raises
    ------
    InvalidInputError
        The table was altered since it was opened.

    Notes
    -----
    Cost: about half a millisecond for each bucket.
    """
    snapshot = handle.snapshots.latest()
    if snapshot is None:
        return TableCompaction((), 0, full)
    found = live_buckets(handle.read_context(), snapshot, manifests=handle.manifests)
    parts: list[CompactionPart] = []
    planner = new_writer(handle, base_snapshot_id=snapshot.id)
    try:
        for bucket in chosen.of_buckets(handle, found):
            if bucket.bucket_id in without:
                continue
            files = planner.compaction_parts(bucket.partition, bucket.bucket, full=full)
            parts += [
                CompactionPart(
                    bucket.partition,
                    bucket.bucket,
                    sum(f.file_size_bytes for f in own),
                    frozenset(f.file_name for f in own) if len(files) > 1 else None,
                )
                for own in files
            ]
    finally:
        planner.close()
    parts.sort(key=lambda p: p.size_bytes, reverse=True)  # stable, so the order is always the same
    return TableCompaction(tuple(parts), snapshot.id, full)
