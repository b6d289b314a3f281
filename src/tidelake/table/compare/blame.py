"""The commits that changed the row of a key.

1. Of each snapshot only what it changed is looked at: the files that it added or removed. One whose
   partition, bucket or range of keys leaves the key out cannot have changed its row. Where deletion
   vectors hide rows, neither can a snapshot with the same index manifest as the one before it.
2. The row is read at each snapshot that is left (:mod:`tidelake.table.rowlevel.key_lookup`), with
   the table's current columns, and compared with the row before.

Cost: the changes of each snapshot, from manifests, and a point read of each that may have changed
the key. Snapshots that expired are not seen: what they did shows as the oldest snapshot's row. The
others are held until the search ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from tidelake.codec.row_codes import rows_differ
from tidelake.errors import NotFoundError
from tidelake.merge import FileKeys, MergeSpec
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.snapshot_entries import delta_entries
from tidelake.options import declared
from tidelake.scan import ReadContext, live_files
from tidelake.table.bucketing.router import Router
from tidelake.table.changelog.narrowing import holding
from tidelake.table.compare.diff_rows import ADDED, CHANGED, REMOVED
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.instant import instant
from tidelake.table.query.key_columns import check_keyed
from tidelake.table.query.keys import KeyInput
from tidelake.table.rowlevel.key_lookup import KeyLookup

OLDER = "older"
"""Of a row that the oldest snapshot has: it may be of a snapshot that has expired."""


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A commit that changed the row of a key.

    Parameters
    ----------
    snapshot_id : int
        The snapshot that it made.
    time : datetime
        When.
    commit_user, commit_kind : str
        Who, and how.
    change : str
        ``added``, ``removed`` or ``changed``; ``older`` for a row that is in the oldest snapshot.
    before, after : mapping, optional
        The rows, by column.
    columns : tuple of str
        The columns that differ.
    """

    snapshot_id: int
    time: datetime
    commit_user: str
    commit_kind: str
    change: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    columns: tuple[str, ...] = ()


def blame_key(handle: TableHandle, key: object) -> tuple[KeyChange, ...]:
    """Find the commits that changed a key; see :meth:`tidelake.Table.blame`."""
    context = handle.read_context()
    schema = context.schema
    check_keyed(schema, table=handle.identifier)
    given = KeyInput(context.fields(tuple(schema.primary_keys)), table=handle.identifier)
    given.values(key)  # its error names the key
    keys = given.batch([key])
    search = _Search(handle, context, keys)
    ids = handle.snapshots.ids()
    oldest = handle.snapshots.find(ids[0]) if ids else None
    with handle.hold(oldest, is_old=True):
        return tuple(_changes(handle, search, ids))


def _changes(handle: TableHandle, search: _Search, ids: Sequence[int]) -> list[KeyChange]:
    found: list[KeyChange] = []
    row: pa.RecordBatch | None = None
    before: Snapshot | None = None
    for number in ids:
        try:
            snapshot = handle.snapshots.load(number)
            if before is None or search.may_change(before, snapshot):
                now = search.row(snapshot)
                is_older = before is None and snapshot.id > 1
                found += _change(snapshot, row, now, is_older=is_older)
                row = now
            before = snapshot
        except NotFoundError:
            if handle.snapshots.has(number):
                raise
            before = None  # it expired meanwhile
    return found


@dataclass(frozen=True, slots=True)
class _Search:
    """What is sought: one key of a table."""

    handle: TableHandle
    context: ReadContext
    keys: pa.RecordBatch

    def may_change(self, before: Snapshot, snapshot: Snapshot) -> bool:
        """Whether a snapshot may have changed the row."""
        marks = self.context.options.get(declared.DELETION_VECTORS_ENABLED)
        if marks and before.index_manifest != snapshot.index_manifest:
            return True
        handle = self.handle
        entries = delta_entries(handle.fileio, handle.paths, snapshot, handle.manifests)
        wanted = entries["bucket"] >= 0
        schema, options = self.context.schema, self.context.options
        if not schema.keys_may_move:
            for total in np.unique(entries["total_buckets"]).tolist():
                own = entries["total_buckets"] == total
                router = Router(
                    [schema.field(name) for name in schema.partition_keys],
                    [schema.field(name) for name in schema.bucket_keys],
                    buckets_count=total,
                    function=options.get(declared.BUCKET_FUNCTION_TYPE),
                )
                (piece,) = router.route(self.keys, None)
                wanted &= ~own | (entries["partition_id"] == entries.partition_id(piece.partition))
                if options.get(declared.BUCKET) > 0:
                    wanted &= ~own | (entries["bucket"] == piece.bucket)
        files = entries.take(wanted).files()
        names = schema.trimmed_primary_keys
        file_keys = FileKeys.of(MergeSpec.of(schema, options))
        return bool(holding(files, pa.Table.from_batches([self.keys]).select(names), file_keys))

    def row(self, snapshot: Snapshot) -> pa.RecordBatch | None:
        """The row at a snapshot."""
        handle, context = self.handle, self.context
        files = live_files(context, snapshot, manifests=handle.manifests)
        one_total = (files["total_buckets"] == context.options.get(declared.BUCKET)).all()
        found = KeyLookup(
            context,
            snapshot,
            manifests=handle.manifests,
            columns=context.schema.field_names,
            by_bucket=bool(one_total),
        ).find(self.keys)
        if not found.is_found[0]:
            return None
        return found.rows.slice(int(found.positions[0]), 1)


def _change(
    snapshot: Snapshot,
    before: pa.RecordBatch | None,
    after: pa.RecordBatch | None,
    *,
    is_older: bool,
) -> Iterator[KeyChange]:
    columns: Sequence[str] = ()
    if before is not None and after is not None:
        names = after.schema.names
        columns = [n for n in names if rows_differ(before.select([n]), after.select([n]))[0]]
    if (before is None) == (after is None) and not columns:
        return
    change = ADDED if before is None else CHANGED if after is not None else REMOVED
    yield KeyChange(
        snapshot.id,
        instant(snapshot.time_ms),
        snapshot.commit_user,
        str(snapshot.commit_kind),
        OLDER if is_older else change,
        _dict(before),
        _dict(after),
        tuple(columns),
    )


def _dict(row: pa.RecordBatch | None) -> dict[str, Any] | None:
    return None if row is None else row.to_pylist()[0]
