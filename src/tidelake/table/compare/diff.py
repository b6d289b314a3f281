"""Rows that differ between two versions of a table.

1. The live files of both versions are compared by name and deletion vector. Files that both have
   are shared; in a primary-key table a shared file is read only where its keys meet those of
   another file (:mod:`tidelake.table.changelog.net_changes`).
2. Each part, some files before and after, gives its changed rows as a stream.
3. These become rows of a diff: the key, the row before, the row after, the columns that differ
   (:mod:`tidelake.table.compare.diff_rows`).
4. Where a key may have another bucket in the two versions, and where the number of buckets was
   changed, the changes of all parts are compared once more, by key or as a multiset.

Both rows are read with the columns of the later argument: a column that was added since is null in
older rows, and one that was dropped is not compared. Memory: that of the reads; in step 4, all
changed rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tidelake.scan import ReadContext, read_buckets
from tidelake.table.changelog.changelog_protocols import ChangePart, change_schema
from tidelake.table.changelog.moved_keys import is_overwritten, spans_buckets
from tidelake.table.changelog.net_changes import NetRows, bucket_parts, changed_buckets
from tidelake.table.compare.diff_rows import DiffCounts, DiffShape, counted_changes
from tidelake.table.compare.version import Version, common_context, find_version
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.read_hold import ReadHold
from tidelake.table.handle.time_travel import Moment


@dataclass(frozen=True, slots=True)
class TableDiff:
    """The difference of two versions of a table, not read yet.

    Parameters
    ----------
    before, after : Version
        The two versions.
    parts : tuple of ChangePart
        Files before and after; they need nothing of each other.
    shared_files_count, shared_bytes : int
        What both versions have.
    holds : tuple of ReadHold
        Hold the snapshots until the difference, and what reads it, is collected.
    """

    before: Version
    after: Version
    context: ReadContext
    parts: tuple[ChangePart, ...]
    shared_files_count: int
    shared_bytes: int
    holds: tuple[ReadHold, ...] = field(default=(), compare=False)

    @property
    def schema(self) -> pa.Schema:
        """``change``, the key's columns, ``before``, ``after``, ``columns``.

        ``change`` is ``added``, ``removed`` or ``changed``. ``before`` and ``after`` are structs of
        the other columns, and null where there is no row. ``columns`` are the names of those that
        differ. A table without a primary key has no key's columns, and nothing is ``changed``.
        """
        return self._shape.schema

    @property
    def files_count(self) -> int:
        """Files that differ, or whose deletion vectors do, and shared ones that meet their keys."""
        return len(self._sizes())

    @property
    def size_bytes(self) -> int:
        """Their bytes: the most that is read, each file once."""
        return sum(self._sizes().values())

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows that differ, as a stream; of a primary-key table by bucket and key."""
        shape = self._shape
        return pa.RecordBatchReader.from_batches(shape.schema, map(shape.rows, self._changes()))

    def to_arrow(self) -> pa.Table:
        """The rows that differ."""
        return self.to_batches().read_all()

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows that differ, as dicts."""
        rows: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return rows

    def counts(self) -> DiffCounts:
        """How many rows differ, and in which columns."""
        return counted_changes(self.to_batches())

    @property
    def _shape(self) -> DiffShape:
        return DiffShape(self.context)

    def _sizes(self) -> dict[str, int]:
        return {
            file.file_name: file.file_size_bytes
            for part in self.parts
            for split in part
            for file in split.files
        }

    def _changes(self) -> Iterator[pa.RecordBatch]:
        """The changed rows with their kinds; both rows of a key are in one batch."""
        rows = NetRows(self.context, tuple(self.context.schema.field_names))
        batches = self._read(rows)
        if not self._must_meet():
            return batches
        every = pa.Table.from_batches(batches, schema=change_schema(rows))
        return iter(self._shape.paired(every))

    def _read(self, rows: NetRows) -> Iterator[pa.RecordBatch]:
        """All parts; the difference, and so what it holds, lives as long as they are read."""
        for part in self.parts:
            yield from rows.read(part)

    def _must_meet(self) -> bool:
        """Whether a row may be in another bucket in the two versions."""
        before, after = self.before, self.after
        if before.snapshot is None or after.snapshot is None:
            return False
        if self.context.schema.primary_keys:
            ids = sorted((before.snapshot_id, after.snapshot_id))
            parted = before.branch != after.branch
            overwritten = parted or is_overwritten(after.handle, *ids)
            return spans_buckets(self.context, self.parts, is_overwritten=overwritten)
        totals: dict[bytes, set[int]] = {}
        for split in itertools.chain.from_iterable(self.parts):
            if split.files_count:
                totals.setdefault(split.partition, set()).add(split.total_buckets)
        return any(len(own) > 1 for own in totals.values())

    def __repr__(self) -> str:
        return (
            f"<TableDiff of {self.before} and {self.after}: {self.files_count} files"
            f" ({self.size_bytes:,} bytes) to compare, {self.shared_files_count}"
            f" ({self.shared_bytes:,} bytes) shared>"
        )


def plan_diff(handle: TableHandle, before: Moment | None, after: Moment | None) -> TableDiff:
    """Compare the files of two versions; see :meth:`tidelake.Table.diff`."""
    one, other = find_version(handle, before), find_version(handle, after)
    context = common_context(one, other)
    holds = _held(one, other)
    old, new = (
        []
        if version.snapshot is None
        else read_buckets(
            version.handle.read_context(version.snapshot),
            version.snapshot,
            manifests=version.handle.manifests,
        )
        for version in (one, other)
    )
    parts = tuple(
        part for pair in changed_buckets(old, new) for part in bucket_parts(context, *pair)
    )
    names = {f.file_name for bucket in old for f in bucket.files}
    shared = [f.file_size_bytes for bucket in new for f in bucket.files if f.file_name in names]
    return TableDiff(one, other, context, parts, len(shared), sum(shared), holds)


def _held(before: Version, after: Version) -> tuple[ReadHold, ...]:
    """Both snapshots, held; those of one branch by one hold."""
    if before.branch == after.branch:
        return (after.handle.hold_all((before.snapshot, after.snapshot)),)
    return tuple(one.handle.hold_all((one.snapshot,)) for one in (before, after))
