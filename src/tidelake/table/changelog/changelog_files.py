"""The changes of a range of snapshots, one snapshot after the other, as rows with kinds.

Two sources, both of Paimon's ``incremental-between-scan-mode``:

- **changelog**: the files of each snapshot's changelog manifest list, written by a
  ``changelog-producer``. They hold what happened to a key, in order.
- **delta**: the data files that each APPEND snapshot added, with the kinds that rows were written
  with. Compactions add no rows and are left out.

Overwrites have no changelog and are left out of both, as in Java. Rows come snapshot by snapshot,
inside it bucket by bucket, and inside a bucket file by file as the writer made them. Nothing is
merged: a key that was written ten times is there ten times. Where keys may leave a partition,
:mod:`tidelake.table.changelog.moved_keys` orders the buckets of a snapshot.

The changes of an expired snapshot come from its long-lived changelog in ``changelog/``, if there is
one (options ``changelog.*``).

Source: Paimon's ``IncrementalDeltaStartingScanner`` and ``IncrementalChangelogReadProvider``
(1.3.1). Memory: a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.format import KIND_FIELD
from tidelake.merge import MergeSpec
from tidelake.metadata.data_file import FileKind
from tidelake.metadata.log.snapshot import CommitKind, Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.snapshot_entries import changelog_entries, delta_entries
from tidelake.options import declared
from tidelake.scan import ReadContext, grouped, read_changes
from tidelake.scan.pruning.prune import scan_filter
from tidelake.scan.pruning.prune_entries import in_partitions
from tidelake.table.changelog.change_filter import ChangeFilter, UpdateFilter
from tidelake.table.changelog.changelog_protocols import ChangePart, change_schema
from tidelake.table.changelog.moved_keys import (
    changes_of_keys,
    is_overwritten,
    leaves_partition,
    parts_in_passes,
    spans_buckets,
)
from tidelake.table.conversion.inputs import row_kind_names
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.read_hold import ReadHold
from tidelake.types import RowKind
from tidelake.types.predicate import Predicate

ChangesMode = Literal["diff", "changelog", "delta", "auto"]
NONE = "none"
NO_CHANGELOG = "stream_without_changelog"
"""The kind of the error of a table without a source of changes."""


def changes_mode(mode: str, handle: TableHandle) -> Literal["diff", "changelog", "delta"]:
    """Choose where changes are read from.

    Raises
    ------
    InvalidInputError
        There is no such mode.
    UnsupportedError
        New rows are wanted as changes, and the table's merge engine combines rows.
    """
    if mode == "auto":
        mode = "delta" if handle.options.get(declared.CHANGELOG_PRODUCER) == NONE else "changelog"
    if mode == "diff":
        return "diff"
    if mode == "changelog":
        return "changelog"
    if mode != "delta":
        message = (
            f"mode='{mode}' is not known: changes of table '{handle.identifier}' are read as"
            " 'diff', 'changelog', 'delta' or 'auto'."
        )
        raise InvalidInputError(message, kind="changes_mode", table=handle.identifier)
    reason = parts_of_rows(handle)
    if reason is not None:
        producer = handle.options.get(declared.CHANGELOG_PRODUCER)
        remedy = (
            "Read the net change (mode='diff'), or set 'changelog-producer' to 'lookup' or"
            " 'full-compaction' for the commits to come."
            if producer == NONE
            else "Read the changelog (mode='changelog') or the net change (mode='diff')."
        )
        message = f"{reason}. {remedy}"
        raise UnsupportedError(message, kind=NO_CHANGELOG, table=handle.identifier)
    return "delta"


def parts_of_rows(handle: TableHandle) -> str | None:
    """Why the rows written to a table are not its changes; None if they are."""
    if not (handle.schema.primary_keys and MergeSpec.of(handle.schema, handle.options).combines):
        return None
    is_without = handle.options.get(declared.CHANGELOG_PRODUCER) == NONE
    has = "has no changelog, and the" if is_without else "keeps a changelog, for the"
    return (
        f"Table '{handle.identifier}' {has} rows written to a table of merge-engine"
        f" '{handle.options.get(declared.MERGE_ENGINE)}' are parts of rows: they do not show the"
        " new row of a key"
    )


@dataclass(frozen=True, slots=True)
class LoggedRows:
    """Reads the files of a part unmerged. Picklable.

    Parameters
    ----------
    predicate : Predicate, optional
        Bound; each row is tested on its own.
    leaving : ChangeFilter or UpdateFilter, optional
        Of the predicate: rows that leave it come as ``-D``.
    """

    context: ReadContext
    columns: tuple[str, ...]
    predicate: Predicate | None
    leaving: ChangeFilter | UpdateFilter | None = None

    @property
    def left_out(self) -> Predicate | None:
        """The rows that do not satisfy this are left out, whatever their kind."""
        return self.predicate if self.leaving is None else self.leaving.of_keys

    def read(self, part: ChangePart) -> Iterator[pa.RecordBatch]:
        """The changes of a part, file by file."""
        [split] = part
        schema = change_schema(self)
        keyed, leaving = bool(self.context.schema.primary_keys), self.leaving
        needed, fields = self.columns, self.context.schema.fields
        if leaving is not None:
            needed = tuple(dict.fromkeys((*needed, *leaving.columns)))
        read = read_changes if split.of_keys == "all" else changes_of_keys
        found = read(self.context, split, columns=needed, predicate=self.left_out)
        if isinstance(leaving, UpdateFilter):
            found = leaving.rows(found, fields)
        for rows in found:
            if keyed:
                kinds = rows.column(KIND_FIELD.name)
            else:
                kinds = pa.array(np.full(rows.num_rows, RowKind.INSERT, np.int8))
            if isinstance(leaving, ChangeFilter):
                kinds = leaving.kinds(rows, kinds, fields)
            columns = [row_kind_names(kinds), *(rows.column(name) for name in self.columns)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


@dataclass(frozen=True, slots=True)
class LoggedChanges:
    """The changes of a range of snapshots.

    Parameters
    ----------
    of_changelog : bool
        Whether to read changelog files; otherwise the new data files.
    rows : LoggedRows
        What is read of each part.
    hold : ReadHold
        Holds the snapshots until the changes, and what reads them, are collected.
    """

    handle: TableHandle
    snapshots: tuple[Snapshot, ...]
    of_changelog: bool
    rows: LoggedRows
    hold: ReadHold = field(default_factory=ReadHold, compare=False)

    def reader(self) -> pa.RecordBatchReader:
        """The changes as a stream."""
        # it keeps these changes, and so their hold, until its last row
        batches = (batch for part in self.parts() for batch in self.rows.read(part))
        return pa.RecordBatchReader.from_batches(change_schema(self.rows), batches)

    def parts(self) -> Iterator[ChangePart]:
        """The files of each snapshot, bucket by bucket."""
        for snapshot in self.snapshots:
            parts: list[ChangePart] = [
                (bucket.split(((bucket.files,),), raw=True),)
                for bucket in grouped(self._entries(snapshot), snapshot.id)
                if bucket.bucket >= 0  # rows in the postpone bucket are not visible yet
            ]
            moves = leaves_partition(self.rows.context, (split for [split] in parts))
            yield from parts_in_passes(parts) if moves else parts

    def span_buckets(self, parts: Sequence[ChangePart]) -> bool:
        """Whether changes of one key may be in several buckets of all parts."""
        ids = [snapshot.id for snapshot in self.snapshots]
        overwritten = len(ids) > 1 and is_overwritten(self.handle, ids[0], ids[-1])
        return spans_buckets(self.rows.context, parts, is_overwritten=overwritten)

    def _entries(self, snapshot: Snapshot) -> EntryTable:
        """The files of a snapshot, in partitions that may satisfy the predicate."""
        context = self.rows.context
        entries = logged_entries(self.handle, snapshot, of_changelog=self.of_changelog)
        of_partition = scan_filter(context.schema, self.rows.left_out).partition
        if of_partition is None:
            return entries
        return entries.take(in_partitions(context, entries, of_partition))


def logged_entries(handle: TableHandle, snapshot: Snapshot, *, of_changelog: bool) -> EntryTable:
    """The changelog files of a snapshot, or the data files that it added, in order of commit."""
    entries_of = changelog_entries if of_changelog else delta_entries
    entries = entries_of(handle.fileio, handle.paths, snapshot, handle.manifests)
    return entries.take(entries["kind"] == FileKind.ADD)


def snapshots_with_changes(
    handle: TableHandle, start_id: int, end_id: int, *, of_changelog: bool
) -> tuple[Snapshot, ...]:
    """The snapshots that have changes, after `start_id`, up to and with `end_id`.

    Raises
    ------
    NotFoundError
        One has expired, with its changelog.
    UnsupportedError
        A changelog is wanted, but the table writes none.
    """
    log = handle.snapshots
    found = [log.load_or_changelog(number) for number in range(start_id + 1, end_id + 1)]
    if not of_changelog:
        return tuple(s for s in found if s.commit_kind is CommitKind.APPEND)
    logged = [s for s in found if s.changelog_manifest_list is not None]
    if found and not logged and handle.options.get(declared.CHANGELOG_PRODUCER) == NONE:
        message = (
            f"Table '{handle.identifier}' has no changelog of snapshots {start_id + 1} to {end_id}:"
            " its 'changelog-producer' is 'none'. Read the net change (mode='diff') or the rows as"
            " they were written (mode='delta')."
        )
        raise UnsupportedError(message, kind="no_changelog", table=handle.identifier)
    return tuple(s for s in logged if s.commit_kind is not CommitKind.OVERWRITE)
