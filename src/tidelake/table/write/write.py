"""The ways to change a table: upsert or append, overwrite, delete, compact.

Each is one commit (a compaction beside it makes a second snapshot) and follows one shape:

1. The table's options are checked, before the first byte, and that it is the table that was opened.
2. With a commit identity that was committed before, nothing is done.
3. Rows go through a :class:`~tidelake.table.write.table_writer.TableWriter`. If that fails its
   files are
   deleted and nothing is visible.
4. The committer publishes. If it refuses, the files are deleted; if the outcome is unknown, or the
   process is interrupted at this moment, they stay: they may be visible.

Where compactions look keys up, one that gave way to another commit is tried again, and a commit
that is repeated by its identity makes up for the compaction that it was stopped before. Neither is
needed for its rows to be seen: reads merge what is not compacted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tidelake.commit import Committed
from tidelake.commit.conflicts.concurrent_changes import EmptyTable
from tidelake.errors import (
    ConflictError,
    InvalidInputError,
    OutcomeUnknownError,
    TidelakeError,
    UnsupportedError,
)
from tidelake.fileio.name import validate_name
from tidelake.format import check_file_formats
from tidelake.format.file_index import check_file_indexes
from tidelake.merge import MergeSpec
from tidelake.merge.spec import LOOKUP
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.data_file import CommitMessage
from tidelake.metadata.log.snapshot import BATCH_IDENTIFIER, Snapshot
from tidelake.metadata.paths import POSTPONE_BUCKET
from tidelake.options import Options, check_supported, declared, write_buffer_bytes
from tidelake.options.bucket_mode import is_dynamic
from tidelake.options.file_index import file_index_settings
from tidelake.scan import plan_scan, read_split
from tidelake.scan.pruning.prune import matching_partitions
from tidelake.store import Follower, RecordExpiry, postpone_options
from tidelake.table.bucketing.cross_partition_assigner import KeyPlaces
from tidelake.table.bucketing.cross_partition_writer import KeyMoves
from tidelake.table.bucketing.dynamic_buckets import DynamicBuckets, fill_of, no_index
from tidelake.table.conversion.inputs import is_replayable, record_batches, with_row_kinds
from tidelake.table.handle.arguments import whole_number
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.partition_spec import partition_predicate
from tidelake.table.schema.validation import check_keys_may_move, check_marks
from tidelake.table.write.bucket_state import LiveState
from tidelake.table.write.compaction_conflict import check_not_overtaken
from tidelake.table.write.delta_commits_trigger import full_compactions
from tidelake.table.write.table_writer import BucketState, TableWriter
from tidelake.types.predicate import In, Predicate, conjoin
from tidelake.types.values import arrow_to_storage, storage_to_arrow, to_storage

__all__ = [
    "UNKNOWN_COUNTS",
    "CommitIdentity",
    "RowCounts",
    "WriteResult",
    "assigned_anew",
    "check_writable",
    "commit_rows",
    "compact_due",
    "compacted_again",
    "joined",
    "new_writer",
    "overwrite_partitions",
    "partial_overwrite_error",
    "replay_of",
    "write_batches",
    "write_rows",
    "written_counts",
]

KEYS_IN_PREDICATE_MAX = 1_000
"""Keys that are looked for by their values; files are not pruned by more of them."""

COMPACTIONS_AGAIN_MAX = 2
"""How often compactions that gave way are tried again, before they are left to the next write."""

ASSIGNMENTS_MAX = 5
"""How often rows that can be taken again are given dynamic buckets, before a conflict is raised."""
WRITER_NUMBER_MAX = 2**31 - 1
"""Numbers of writers are drawn below this: Java reads them as INT."""

Batches = Iterator[tuple[pa.RecordBatch, np.ndarray | None]]


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What a write did.

    Parameters
    ----------
    snapshot_ids : tuple of int
        The snapshots it made: none if there was nothing to write, two where a compaction went with
        the rows (the rows are in the first).
    rows : int
        Rows taken in.
    files : int
        Data files written.
    bytes : int
        Their size.
    already_committed : bool
        The commit identity was committed before, so no row was written; a compaction that was left
        out then may have been made up for.
    compactions_dropped : int
        Compactions that gave way to another writer's; the rows are safe and seen, a later write
        compacts.
    buckets_interleaved : int
        Buckets of a primary-key table to which another writer committed while this one wrote. The
        rows of both are there; of two rows of one key the larger sequence number wins, and not the
        later commit.
    rows_inserted, rows_updated, rows_deleted : int or None
        What became of rows, where it is known without a look at what was there; None where it is
        not. A write to an append table inserts all of its rows. Updates, deletes by a condition and
        upserts of some columns read the old rows, so that they know. A plain upsert, a delete by
        keys and an overwrite do not.
    """

    snapshot_ids: tuple[int, ...] = ()
    rows: int = 0
    files: int = 0
    bytes: int = 0
    already_committed: bool = False
    compactions_dropped: int = 0
    buckets_interleaved: int = 0
    rows_inserted: int | None = 0
    rows_updated: int | None = 0
    rows_deleted: int | None = 0


@dataclass(frozen=True, slots=True)
class RowCounts:
    """How many rows a write inserted, updated and deleted; None where it is not known."""

    inserted: int | None = 0
    updated: int | None = 0
    deleted: int | None = 0

    def of(self, result: WriteResult) -> WriteResult:
        """The result with these counts."""
        return replace(
            result,
            rows_inserted=self.inserted,
            rows_updated=self.updated,
            rows_deleted=self.deleted,
        )


UNKNOWN_COUNTS = RowCounts(None, None, None)


def written_counts(handle: TableHandle, rows_count: int) -> RowCounts:
    """What a plain write does: without a primary key every row is a new one."""
    if handle.schema.primary_keys and rows_count:
        return UNKNOWN_COUNTS
    return RowCounts(inserted=rows_count)


def joined(results: Sequence[WriteResult]) -> WriteResult:
    """What several commits did together."""
    return WriteResult(
        snapshot_ids=tuple(i for r in results for i in r.snapshot_ids),
        rows=sum(r.rows for r in results),
        files=sum(r.files for r in results),
        bytes=sum(r.bytes for r in results),
        compactions_dropped=sum(r.compactions_dropped for r in results),
        buckets_interleaved=sum(r.buckets_interleaved for r in results),
        rows_inserted=_sum([r.rows_inserted for r in results]),
        rows_updated=_sum([r.rows_updated for r in results]),
        rows_deleted=_sum([r.rows_deleted for r in results]),
    )


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


@dataclass(frozen=True, slots=True)
class CommitIdentity:
    """Who commits: a write with an identity that was committed before is not done again."""

    user: str
    identifier: int
    once: bool
    """Whether the caller gave it, so that it may have been committed before."""

    @classmethod
    def of(cls, handle: TableHandle, user: str | None, identifier: int | None) -> CommitIdentity:
        """Take the caller's identity, or make one for a batch write.

        Raises
        ------
        InvalidInputError
            Only one of the two is given, or one is not valid.
        """
        if user is None and identifier is None:
            return cls(handle.env.ids.uuid(), BATCH_IDENTIFIER, once=False)
        if user is None or identifier is None:
            message = (
                "Give commit_user and commit_identifier together: a repeated pair is committed"
                " once, so each write of a user needs its own, rising identifier."
            )
            raise InvalidInputError(message, kind="commit_identity", table=handle.identifier)
        validate_name(user, "user")
        number = whole_number(identifier)
        if number is None or not 0 <= number < BATCH_IDENTIFIER:
            message = f"commit_identifier must be a number from 0 on, not {identifier!r}."
            raise InvalidInputError(message, kind="commit_identity", table=handle.identifier)
        return cls(user, number, once=True)

    def is_committed(self, handle: TableHandle) -> bool:
        """Whether a commit of this identity, if the caller gave it, was made before."""
        return self.once and not handle.committer().filter_committed(self.user, [self.identifier])


def check_writable(handle: TableHandle) -> None:
    """Refuse a table with options or columns that this version cannot write."""
    check_supported(
        handle.options,
        table=handle.identifier,
        has_primary_key=bool(handle.schema.primary_keys),
        action="write",
    )
    check_keys_may_move(handle.schema, handle.options, table=handle.identifier)
    check_marks(handle.options, table=handle.identifier)
    RecordExpiry.of(handle.schema, handle.options, table=handle.identifier)
    what = f"A data file of table '{handle.identifier}'"
    check_file_formats(handle.options, handle.schema.fields, what=what)
    check_file_indexes(handle.schema.fields, file_index_settings(handle.options))


def write_rows(
    handle: TableHandle,
    data: object,
    *,
    mode: str,
    partition: Mapping[str, object] | None,
    row_kinds: object | None,
    identity: CommitIdentity,
) -> WriteResult:
    """Append, upsert or overwrite; see :meth:`tidelake.table.Table.write`."""
    if mode not in {"append", "overwrite"}:
        message = (
            f"mode='{mode}' is not known: use 'append' (an upsert on a primary key) or 'overwrite'."
        )
        raise InvalidInputError(message, kind="write_mode", table=handle.identifier)
    if partition is not None and mode != "overwrite":
        message = "partition= names what to overwrite: pass mode='overwrite' with it."
        raise InvalidInputError(message, kind="write_mode", table=handle.identifier)

    def batches() -> Batches:
        return with_row_kinds(
            record_batches(data, handle.schema.fields, table=handle.identifier),
            row_kinds,
            table=handle.identifier,
        )

    if mode == "append":
        again = is_replayable(data) and not isinstance(row_kinds, Iterator)
        return assigned_anew(
            handle,
            identity,
            lambda: write_batches(handle, batches(), identity=identity),
            tries=ASSIGNMENTS_MAX if again else 1,
        )
    static = (
        None
        if partition is None
        else partition_predicate(handle.schema, partition, table=handle.identifier)
    )
    rows = batches()
    if static is not None:
        rows = _with_static_columns(handle, rows, partition or {})
    return overwrite_partitions(handle, rows, static=static, identity=identity)


def assigned_anew(
    handle: TableHandle,
    identity: CommitIdentity,
    write: Callable[[], WriteResult],
    *,
    tries: int = ASSIGNMENTS_MAX,
) -> WriteResult:
    """Write again where another commit has changed the index that buckets were chosen by."""
    committer = handle.committer()
    return committer.in_turns(identity.user, write, kinds=("bucket_assignment",), tries=tries)


def write_batches(
    handle: TableHandle,
    batches: Batches,
    *,
    identity: CommitIdentity,
    counts: Callable[[int], RowCounts] | None = None,
) -> WriteResult:
    """Add rows in one commit; `counts` says what became of them, given their number."""
    return _write(
        handle,
        batches,
        identity=identity,
        writer=lambda: new_writer(handle, user=identity.user),
        commit=lambda out: commit_rows(
            handle,
            out,
            identity=identity,
            counts=None if counts is None else counts(out.rows_count),
        ),
    )


def commit_rows(
    handle: TableHandle,
    writer: TableWriter,
    *,
    identity: CommitIdentity,
    made_from: Snapshot | EmptyTable | None = None,
    only_compacts: bool = False,
    counts: RowCounts | None = None,
) -> WriteResult:
    """Publish what a writer took, and let go of it; rows take due full compactions along.

    With `made_from` it is a conflict if others wrote to the rows' keys since that snapshot. With
    `only_compacts` it is one if none of the compactions happened, and their files are deleted.
    `counts` says what became of the rows; by default what is known of any write.
    """
    if writer.rows_count:
        try:
            writer.full_compactions = full_compactions(handle)
        except BaseException:
            writer.abort()
            raise

    places: list[BucketId] = []

    def publish(messages: Sequence[CommitMessage]) -> Committed:
        places.extend(m.bucket_id for m in messages if m.compact_before)
        committed: Committed = handle.committer().commit(
            messages,
            user=identity.user,
            identifier=identity.identifier,
            base_snapshot_id=writer.base_snapshot_id,
            read_snapshot=made_from,
        )
        if only_compacts:
            check_not_overtaken(handle.identifier, committed)
        return committed

    result = (counts or written_counts(handle, writer.rows_count)).of(_commit(writer, publish))
    if only_compacts or not result.compactions_dropped:
        return result
    return compacted_again(handle, result, places)


def replay_of(handle: TableHandle, identity: CommitIdentity) -> WriteResult | None:
    """What repeating a commit gives; None where it was not committed before.

    Its rows are there. If it was stopped before its compaction, that is done now, so that changelog
    and deletion vectors come: those of a table that looks keys up.
    """
    if not identity.is_committed(handle):
        return None
    done = WriteResult(already_committed=True)
    if not _looks_up(handle):
        return done
    places = handle.committer().uncompacted_buckets(identity.user, identity.identifier)
    return replace(compacted_again(handle, done, places), compactions_dropped=0)


def compacted_again(
    handle: TableHandle, written: WriteResult, places: Collection[BucketId]
) -> WriteResult:
    """Compact buckets whose compaction a commit could not make, if the table looks keys up.

    The commit's rows are visible: a failure from here on is none of `written`, what it did.
    """
    if not places or not _looks_up(handle):
        return written
    for _ in range(COMPACTIONS_AGAIN_MAX):
        try:
            again = _compacted(handle, places)
        except ConflictError:
            continue
        except TidelakeError:
            break  # whatever it is, the next write meets it
        written = replace(
            joined([written, again]),
            already_committed=written.already_committed,
            compactions_dropped=again.compactions_dropped,
        )
        if not again.compactions_dropped:
            break
    return written


def _compacted(handle: TableHandle, places: Collection[BucketId]) -> WriteResult:
    writer = new_writer(handle)
    try:
        for place in places:
            writer.compact(*place, full=False)
    except BaseException:
        writer.abort()
        raise
    identity = CommitIdentity.of(handle, None, None)
    return commit_rows(handle, writer, identity=identity, only_compacts=True)


def _looks_up(handle: TableHandle) -> bool:
    """Whether each commit looks up what older files have of its keys, and compacts them."""
    schema, options = handle.schema, handle.options
    if not schema.primary_keys or options.get(declared.WRITE_ONLY):
        return False
    return Follower(MergeSpec.of(schema, options), options, schema.field_names).looks_up


def overwrite_partitions(
    handle: TableHandle,
    batches: Batches,
    *,
    static: Predicate | None,
    identity: CommitIdentity,
    made_from: Snapshot | None = None,
) -> WriteResult:
    """Replace partitions by rows, in one commit.

    Parameters
    ----------
    static : Predicate, optional
        On partition columns: what is replaced, whether rows come or not. Without it the option
        ``dynamic-partition-overwrite`` decides: the partitions that rows come for, or all.
    made_from : Snapshot, optional
        The rows are those that the partitions hold in this snapshot: it is a conflict if they hold
        others by now.
    """
    dynamic = (
        static is None
        and bool(handle.schema.partition_keys)
        and handle.options.get(declared.DYNAMIC_PARTITION_OVERWRITE)
    )
    partitions = "dynamic" if dynamic else static
    if handle.schema.keys_may_move and partitions is not None:
        batches = _none_given(handle, batches)
    result = _write(
        handle,
        batches,
        identity=identity,
        writer=lambda: new_writer(handle, user=identity.user, overwrite=True, static=static),
        commit=lambda out: _commit(
            out,
            lambda messages: handle.committer().overwrite(
                messages,
                user=identity.user,
                identifier=identity.identifier,
                partitions=partitions,
                read_snapshot=made_from,
            ),
        ),
    )
    if result.already_committed:
        return result
    return replace(written_counts(handle, result.rows), deleted=None).of(result)


def _none_given(handle: TableHandle, batches: Batches) -> Batches:
    for batch, kinds in batches:
        if batch.num_rows:
            raise partial_overwrite_error(handle.identifier)
        yield batch, kinds


def partial_overwrite_error(table: str) -> UnsupportedError:
    """The error of an overwrite of single partitions by rows whose keys may be in others."""
    message = (
        f"Keys of table '{table}' may move between partitions: an overwrite of"
        " single partitions would have to delete keys in the others. Delete the partitions"
        " and upsert the rows, or set 'dynamic-partition-overwrite' = 'false' and replace"
        " the whole table."
    )
    return UnsupportedError(message, kind="cross_partition", table=table)


def _write(
    handle: TableHandle,
    batches: Batches,
    *,
    identity: CommitIdentity,
    writer: Callable[[], TableWriter],
    commit: Callable[[TableWriter], WriteResult],
) -> WriteResult:
    check_writable(handle)
    if (done := replay_of(handle, identity)) is not None:
        return done
    out = writer()
    try:
        for batch, kinds in batches:
            out.write(batch, kinds, first_row=out.rows_count)
    except BaseException:
        out.abort()
        raise
    return commit(out)


def _commit(
    writer: TableWriter, publish: Callable[[Sequence[CommitMessage]], Committed]
) -> WriteResult:
    """Publish, then let go of the writer; its files are deleted only if nothing became visible."""
    began = False
    try:
        messages = writer.prepare_commit()
        began = True
        committed = publish(messages)
    except OutcomeUnknownError:
        writer.close()
        raise
    except TidelakeError:
        writer.abort()  # the committer's promise: no row became visible
        raise
    except BaseException:
        if began:
            writer.close()  # stopped at a moment that nobody knows: the files may be visible
        else:
            writer.abort()
        raise
    writer.close()
    files = [f for m in messages for f in (*m.new_files, *m.compact_after)]
    return WriteResult(
        snapshot_ids=tuple(s.id for s in committed.snapshots),
        rows=writer.rows_count,
        files=len(files),
        bytes=sum(f.file_size_bytes for f in files),
        compactions_dropped=len(committed.dropped_compactions),
        buckets_interleaved=len(committed.interleaved),
    )


def new_writer(
    handle: TableHandle,
    *,
    user: str = "",
    overwrite: bool = False,
    static: Predicate | None = None,
    base_snapshot_id: int | None = None,
    fills_defaults: bool = True,
) -> TableWriter:
    """A writer for one task.

    Parameters
    ----------
    user : str
        Who will commit: part of the names of files in the postpone bucket.
    overwrite : bool
        The rows replace what is there: sequence numbers begin anew, nothing is compacted with it.
    static : Predicate, optional
        On partition columns; rows for other partitions are refused.
    base_snapshot_id : int, optional
        The snapshot to begin from, 0 for the empty table; by default the newest.
    fills_defaults : bool
        Whether nulls become their columns' defaults; not in rows that were there before.

    Raises
    ------
    NotFoundError
        The table was dropped, and perhaps created anew, since it was opened.
    """
    check_writable(handle)
    handle.schemas.check_same(handle.schema, table=handle.identifier)
    context = handle.store_context()
    if overwrite:  # its commit would not name changelog files
        context = replace(context, options=_silenced(context.options))
    live = None if overwrite else LiveState(handle, snapshot_id=base_snapshot_id)
    dynamic = None
    moves = None
    if handle.schema.keys_may_move:
        moves = KeyMoves(
            context,
            budget_bytes=write_buffer_bytes(handle.options, handle.env.memory),
            live_keys=lambda keys: live_keys(handle, live, keys),
            places=KeyPlaces(
                handle.schema,
                handle.paths,
                engine=handle.options.get(declared.MERGE_ENGINE),
                live_counts=lambda partition: {} if live is None else live.bucket_rows(partition),
                fill=fill_of(handle.options),
            ),
        )
    elif is_dynamic(handle.options, has_primary_key=bool(handle.schema.primary_keys)):
        dynamic = DynamicBuckets(
            context,
            entries_of=no_index if live is None else live.index_entries,
            fill=fill_of(handle.options),
        )
    elif handle.options.get(declared.BUCKET) == POSTPONE_BUCKET:
        live = None  # whatever waits there already, rows come behind it
        number = int(handle.env.rng.uniform(0, WRITER_NUMBER_MAX))
        options = postpone_options(handle.options, handle.schema, user=user, writer_number=number)
        context = replace(context, options=options)
    return TableWriter(
        context,
        table=handle.identifier,
        state_of=live or _no_state,
        check_partition=None if static is None else _static_check(handle, static),
        dynamic=dynamic,
        moves=moves,
        fills_defaults=fills_defaults,
    )


def _silenced(options: Options) -> Options:
    """Options of a writer whose rows are told to no changelog, now or later.

    Rows that a lookup has not seen would be told as new by the compaction that sees them first.
    """
    silent = {declared.CHANGELOG_PRODUCER.key: "none"}
    if options.get(declared.CHANGELOG_PRODUCER) == LOOKUP:
        silent[declared.FORCE_LOOKUP.key] = "true"
    return options.updated(silent)


def live_keys(
    handle: TableHandle, live: LiveState | None, keys: pa.Table
) -> Iterator[tuple[bytes, int, pa.RecordBatch]]:
    """The primary keys of live rows by partition and bucket, files without any of `keys` left out.

    Of an overwrite there are none: it replaces the whole table.
    """
    if live is None:
        return
    context = handle.read_context(all_rows=True)
    names = handle.schema.primary_keys
    parts: list[Predicate] = []
    for name in handle.schema.trimmed_primary_keys:
        values = keys.column(name).unique()
        if len(values) <= KEYS_IN_PREDICATE_MAX:
            parts.append(In(name, tuple(arrow_to_storage(values, handle.schema.field(name).type))))
    predicate = conjoin(parts)
    plan = plan_scan(context, live.snapshot, manifests=handle.manifests, predicate=predicate)
    for split in plan.splits:
        for batch in read_split(context, split, columns=names, predicate=predicate):
            yield split.partition, split.bucket, batch


def _no_state(partition: bytes, bucket: int) -> BucketState:
    del partition, bucket
    return BucketState()


def _with_static_columns(
    handle: TableHandle, batches: Batches, partition: Mapping[str, object]
) -> Batches:
    """Fill in the partition columns that the rows leave out."""
    constants = {
        name: storage_to_arrow([to_storage(value, field.type)], field.type)[0]
        for name, value in partition.items()
        for field in [handle.schema.field(name)]
    }
    for batch, kinds in batches:
        rows = batch
        for name, value in constants.items():
            if name not in rows.schema.names:
                rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
        yield rows, kinds


def _static_check(handle: TableHandle, static: Predicate) -> Callable[[bytes], None]:
    """Refuse rows of partitions that are not overwritten."""
    fields = [handle.schema.field(name) for name in handle.schema.partition_keys]

    def check(partition: bytes) -> None:
        values = handle.paths.partition_values(partition)
        if not matching_partitions([values], fields, static)[0]:
            message = (
                f"Rows of partition {handle.paths.partition_path(partition)} were given while"
                f" overwriting another partition of table '{handle.identifier}': filter them out,"
                " or leave partition= out."
            )
            raise InvalidInputError(message, kind="outside_partition", table=handle.identifier)

    return check


def compact_due(handle: TableHandle) -> WriteResult:
    """Carry out the full compactions that were due with the newest commit; one commit."""
    due = full_compactions(handle, committed=True)
    if due is None or not due.due:
        return WriteResult()
    writer = new_writer(handle)
    writer.full_compactions = due
    return commit_rows(handle, writer, identity=CommitIdentity.of(handle, None, None))
