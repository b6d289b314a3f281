"""Writes one bucket of a primary-key table: buffers, spills, flushes, compacts.

1. Rows get sequence numbers in order of arrival, from 1 + the largest of the bucket's live files,
   and wait in memory.
2. ``spill`` sorts and merges them, or the oldest, into a run on local disk; without spilling it
   flushes instead.
3. ``flush`` merges runs and memory, streaming, into level-0 files of the target size: sorted by
   key, each key once, deletes kept. Then, unless the table is write-only, the universal strategy
   picks a compaction, which runs at once. This repeats while there are more sorted runs than
   ``num-sorted-run.stop-trigger``.
4. ``prepare_commit`` flushes and returns the new and the compacted files. Level-0 files are
   returned as new even if a compaction has already replaced them: the commit adds them first.

With ``changelog-producer = input`` the rows also go, as they came, into changelog files: sorted by
key and the order of a key's rows, not merged, with both rows of an update. They are written right
before the rows in memory are merged, so each spill begins its own file.

If compactions look keys up (:mod:`tidelake.store.lsm.lookup_strategy`) level 0 is empty after each
flush. With deletion vectors they mark the older row of a key. The vectors are written with the
message, and reads of the bucket's files leave out the marked rows.

A file is only ever created. Closing or aborting the writer deletes the files that no message names;
files in a message are never deleted here. The semantics are Paimon's ``MergeTreeWriter`` (1.3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.errors import ClosedError, InvalidInputError
from tidelake.merge import OVERFLOW, MergeSpec, SpillStack, merge_buffer, merge_runs, sort_buffer
from tidelake.metadata.data_file import (
    CommitMessage,
    DataFileMeta,
    FileSource,
    levels_digest,
)
from tidelake.metadata.index_entry import IndexFile
from tidelake.options import levels_count, sorted_runs_stop, target_file_size_bytes
from tidelake.options.declared import CHANGELOG_PRODUCER, WRITE_BUFFER_SPILLABLE, WRITE_ONLY
from tidelake.store.context import StoreContext
from tidelake.store.deletion_vectors import BucketDeletions
from tidelake.store.file_meta import check_sequence_numbers, creation_time_ms
from tidelake.store.lsm.compaction import (
    ChangeTracking,
    Compacted,
    carry_out,
    is_at_bottom,
    plan,
)
from tidelake.store.lsm.compaction_picker import CompactionPolicy, Pick, pick
from tidelake.store.lsm.expiry import ExpiredRows, RecordExpiry
from tidelake.store.lsm.keyed_file import KeyedFile, row_fields
from tidelake.store.lsm.levels import Levels
from tidelake.store.lsm.lookup_strategy import LookupStrategy
from tidelake.store.lsm.read_file import BucketReader
from tidelake.store.new_files import NewFiles
from tidelake.store.rolling import WRITE_ROWS, RollingWriter
from tidelake.store.write_buffer import RowBuffer
from tidelake.types.arrow import to_arrow_schema

KIND_MAX = 3
INPUT = "input"


class LsmBucketWriter:
    """Writes one bucket; for one thread.

    Parameters
    ----------
    live_files : sequence of DataFileMeta
        The bucket's live files in the snapshot that the write builds on; none for an overwrite.
    """

    def __init__(
        self,
        context: StoreContext,
        partition: bytes,
        bucket: int,
        *,
        total_buckets: int,
        live_files: Sequence[DataFileMeta],
        vectors: Sequence[IndexFile] = (),
    ) -> None:
        schema, options = context.schema, context.options
        self._context = context
        self._partition = partition
        self._bucket = bucket
        self._total_buckets = total_buckets
        self._spec = MergeSpec.of(schema, options)
        self._row_schema = to_arrow_schema(row_fields(schema))
        self._target_size_bytes = target_file_size_bytes(options, has_primary_key=True)
        self._lookup_strategy = LookupStrategy(self._spec, options, schema.field_names)
        looks_up = self._lookup_strategy.looks_up
        self._policy = CompactionPolicy.of(
            options,
            deletes_need_all=self._spec.deletes_need_all and not looks_up,
            empties_level_0=looks_up,
            drops_deletes=self._lookup_strategy.marks,
        )
        self._expiry = RecordExpiry.of(schema, options, table=options.table)
        self._runs_stop = sorted_runs_stop(options)
        self._write_only = options.get(WRITE_ONLY)
        self._levels = Levels.of(live_files, count=levels_count(options))
        self._next_sequence = 1 + max((f.max_sequence_number for f in live_files), default=-1)
        self._directory = context.paths.bucket_dir(partition, bucket)
        self._files = NewFiles(context, partition, bucket)
        self._deletions = BucketDeletions(context, partition, bucket, files=vectors, one_file=True)
        self._reader = BucketReader(context, self._path_of, self._deletions.positions)
        self._memory = context.env.memory
        self._buffer = RowBuffer(owns_rows=self._memory.is_limited)
        self._logs_input = options.get(CHANGELOG_PRODUCER) == INPUT
        self._logged_batches = 0  # batches of the buffer already in a changelog file
        self._spilled: SpillStack | None = None
        if options.get(WRITE_BUFFER_SPILLABLE) and context.spill_dir is not None:
            self._spilled = SpillStack(
                context.spill_dir,
                name=f"spill-{self._files.writer_id}",
                options=options,
                join=lambda runs: merge_runs(
                    runs, self._spec, drop_deletes=False, memory=self._memory
                ),
                memory=self._memory,
            )
        # to abort if a write failed half-way: of data files, and of changelog files
        self._writing: dict[bool, RollingWriter] = {}
        self._closed = False

    @property
    def buffered_bytes(self) -> int:
        """Bytes of rows held in memory."""
        return self._buffer.size_bytes

    @property
    def levels(self) -> Levels:
        """The bucket's files, including uncommitted ones."""
        return self._levels

    def write(self, batch: pa.RecordBatch, kinds: npt.NDArray[np.int8] | None = None) -> None:
        """Take rows.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
            Requires: the table's columns in order, conformed to the schema, without rows that
            ``ignore-delete`` leaves out.
        kinds : int8 array [n], optional
            Row kinds; +I by default.

        Raises
        ------
        InvalidInputError
            A kind is not one of the four.
        UnsupportedError
            The bucket has no sequence numbers left.
        """
        self._check_open()
        count = batch.num_rows
        if kinds is None:
            kinds = np.zeros(count, np.int8)
        elif len(kinds) != count or (count and not 0 <= kinds.min() <= kinds.max() <= KIND_MAX):
            message = (
                f"{len(kinds)} row kinds from {kinds.min(initial=0)} to {kinds.max(initial=0)} were"
                f" given for {count} rows: give each row one of 0 (+I), 1 (-U), 2 (+U), 3 (-D)."
            )
            raise InvalidInputError(message, kind="row_kind")
        check_sequence_numbers(self._context, self._next_sequence, count, self._directory)
        numbers = np.arange(self._next_sequence, self._next_sequence + count, dtype=np.int64)
        self._next_sequence += count
        columns = [pa.array(numbers), pa.array(kinds.astype(np.int8)), *batch.columns]
        self._buffer.append(pa.RecordBatch.from_arrays(columns, schema=self._row_schema))

    def spill(self, size_bytes: int | None = None) -> None:
        """Release memory: rows go to local disk, or else into level-0 files.

        Parameters
        ----------
        size_bytes : int, optional
            How much to release at least; the oldest rows go. By default, and where the rows are
            logged or there is no local disk, all go.
        """
        self._check_open()
        if self._spilled is None:
            self.flush()
            return
        oldest = None if self._logs_input else self._buffer.oldest(size_bytes)
        if oldest is not None:
            merged = merge_buffer(oldest, self._spec, memory=self._memory)
            self._spilled.push(merged.to_batches(max_chunksize=WRITE_ROWS))
            self._buffer.drop_oldest(len(oldest))
        elif self._buffer.row_count:
            self._merge_memory()
            self._spilled.push(self._buffer.batches)
            self._clear_buffer()

    def flush(self) -> None:
        """Write all rows into level-0 files, then compact if due."""
        self._check_open()
        wrote = self._write_level_0()
        # a failed compaction is repeated: with lookups level 0 must become empty
        if (wrote or self._policy.empties_level_0) and not self._write_only:
            self._compact(self._pick())
            while len(self._levels.runs) > self._runs_stop:
                picked = self._pick()
                assert picked is not None, "more runs than the trigger are always worth a pick"
                self._compact(picked)

    def compaction_parts(self, *, full: bool) -> tuple[tuple[DataFileMeta, ...], ...]:
        """The files that :meth:`compact` would take of the committed ones: one part, or none."""
        picked = self._pick(full=full)
        return () if picked is None else (picked.files,)

    def compact(self, full: bool) -> None:  # noqa: FBT001 - the stores' one interface
        """Flush, then compact: everything into one run, or what the strategy picks."""
        self._check_open()
        self._write_level_0()
        self._compact(self._pick(full=full))

    def prepare_commit(self) -> CommitMessage:
        """Flush, and return what was written and compacted since the last call.

        Returns
        -------
        CommitMessage
            Its files belong to the commit from now on.
        """
        self.flush()
        vectors = self._deletions.file_names
        deletions = self._deletions.write()
        message = self._files.hand_out(total_buckets=self._total_buckets)
        if deletions is not None:
            assert message.has_compaction, "only compactions delete rows"
            message = replace(message, deletions=deletions)
        if not (self._lookup_strategy.looks_up and message.has_compaction):
            return message
        made = set(message.compact_after)
        seen = levels_digest((f for f in self._levels.files if f not in made), vectors)
        return replace(message, compact_seen=seen)

    def close(self) -> None:
        """Release memory, spilled rows and files that no message names; the others stay."""
        self._closed = True
        self._buffer.clear()
        if self._spilled is not None:
            self._spilled.clear()
        for writing in self._writing.values():
            writing.abort()
        self._files.delete_unknown()
        self._deletions.discard()

    def _check_open(self) -> None:
        if self._closed:
            message = f"The writer of bucket {self._bucket} is closed; open a new one."
            raise ClosedError(message, kind="writer")

    def _merge_memory(self) -> None:
        """Sort and merge the rows in memory; repeating it is harmless after a failed write."""
        if self._logs_input:
            self._log_input()
        merged = merge_buffer(self._buffer.batches, self._spec, memory=self._memory)
        self._buffer.replace(merged.to_batches(max_chunksize=WRITE_ROWS))
        self._logged_batches = len(self._buffer.batches)

    def _log_input(self) -> None:
        """Write the rows in memory that are in no changelog file into one, unmerged."""
        rows = self._buffer.batches[self._logged_batches :]
        written: list[DataFileMeta] = []
        for stretch in sort_buffer(rows, self._spec, memory=self._memory):
            out = self._rolling(level=0, source=FileSource.APPEND, changelog=True)
            for batch in stretch.to_batches(max_chunksize=WRITE_ROWS):
                out.write(batch)
            written += out.close()
        self._files.add_changelog(written)
        self._logged_batches = len(self._buffer.batches)

    def _clear_buffer(self) -> None:
        self._buffer.clear()
        self._logged_batches = 0

    def _write_level_0(self) -> bool:
        """Write all rows into level-0 files; False if there are none."""
        spilled = self._spilled if self._spilled is not None and len(self._spilled) else None
        if spilled is not None and self._memory.is_limited:
            self.spill()  # the merge needs the memory
        if self._buffer.row_count:
            self._merge_memory()
        elif spilled is None:
            return False
        rows: Iterable[pa.RecordBatch] = self._buffer.batches
        if spilled is not None:
            runs: list[Iterator[pa.RecordBatch]] = [*spilled.runs(), iter(self._buffer.batches)]
            rows = merge_runs(runs, self._spec, drop_deletes=False, memory=self._memory)
        out = self._rolling(level=0, source=FileSource.APPEND)
        for batch in rows:
            out.write(batch)
        written = out.close()
        self._files.add(written)
        self._levels = self._levels.updated((), written)
        self._clear_buffer()
        if spilled is not None:
            spilled.clear()
        return bool(written)

    def _pick(self, *, full: bool = False) -> Pick | None:
        now_ms = creation_time_ms(self._context) if self._policy.needs_time else 0
        expired = self._expired() if full else None

        def needs_rewrite(file: DataFileMeta) -> bool:
            has_vector = self._deletions.count(file) > 0
            return has_vector or bool(expired and expired.are_in(file, self._context))

        return pick(
            self._levels, self._policy, full=full, now_ms=now_ms, needs_rewrite=needs_rewrite
        )

    def _compact(self, picked: Pick | None) -> None:
        """Run the pick, or compact everything if the picked rows of a key have no result.

        A sum of a key's newer rows may exceed its column while the sum of all its rows fits.
        """
        if picked is None:
            return
        try:
            self._carry_out(picked)
        except InvalidInputError as error:
            if error.kind != OVERFLOW:
                raise
            # with lookups the older rows are already merged in
            whole = None if self._lookup_strategy.looks_up else self._pick(full=True)
            if whole is None or len(whole.files) <= len(picked.files):
                raise self._cannot_compact(error) from error
        else:
            return
        self._compact(whole)

    def _cannot_compact(self, error: InvalidInputError) -> InvalidInputError:
        bucket = self._context.paths.bucket_dir(self._partition, self._bucket)
        message = (
            f"{error.message} The error occurred in a compaction of {bucket}, which is unchanged."
        )
        # with lookups a write fails when its own rows meet the older ones; 'write-only' would let
        # them into the bucket, and then nobody could compact it
        if not (self._lookup_strategy.looks_up or self._write_only):
            message += (
                " Until the column is wider, rows of other keys can be written with 'write-only' ="
                " 'true'."
            )
        return InvalidInputError(message, kind=error.kind, **error.context)

    def _carry_out(self, picked: Pick) -> None:
        tracking = self._lookup_strategy.of(
            picked,
            self._levels,
            lambda: self._rolling(
                level=picked.output_level, source=FileSource.APPEND, changelog=True, files_open=2
            ),
        )
        files_open = 1 if tracking is None or tracking.changelog is None else 2
        expired = self._expired()
        steps = plan(
            picked,
            self._spec.key_types,
            max_level=self._levels.max_level,
            target_size_bytes=self._target_size_bytes,
            tracking=tracking,
            may_be_expired=self._rewritten_for(expired, picked, tracking),
        )
        done = carry_out(
            self._reader,
            steps,
            picked,
            spec=self._spec,
            rolling=lambda: self._rolling(
                level=picked.output_level, source=FileSource.COMPACT, files_open=files_open
            ),
            tracking=tracking,
            expired=expired,
        )
        self._take(done)

    def _take(self, done: Compacted) -> None:
        """Count what a compaction did, which until now may be repeated and must find the rows."""
        count = self._deletions.delete_all((rows.file, rows.positions) for rows in done.marked)
        assert count == sum(rows.count for rows in done.marked), "what is found was not deleted"
        lifted = {file.file_name for file in done.after}
        self._deletions.drop(f.file_name for f in done.before if f.file_name not in lifted)
        self._levels = self._levels.updated(done.before, done.after)
        self._files.compact(done.before, done.after, done.changelog)

    def _expired(self) -> ExpiredRows | None:
        """The rows that are expired now."""
        return None if self._expiry is None else self._expiry.at(self._context.env.clock.now_ms())

    def _rewritten_for(
        self, expired: ExpiredRows | None, picked: Pick, tracking: ChangeTracking | None
    ) -> Callable[[DataFileMeta], bool] | None:
        """Whether a file has rows that the compaction leaves out; True if unknown."""
        if expired is None or not is_at_bottom(picked, tracking):
            return None
        return lambda file: expired.are_in(file, self._context) is not False

    def _path_of(self, file: DataFileMeta) -> str:
        return self._context.paths.data_file(self._partition, self._bucket, file)

    def _rolling(
        self, *, level: int, source: FileSource, changelog: bool = False, files_open: int = 1
    ) -> RollingWriter:
        def open_file(_rows_before: int) -> KeyedFile:
            name, path = self._files.next_file(level=level, changelog=changelog)
            return KeyedFile(
                self._context,
                name,
                path,
                level=level,
                source=source,
                changelog=changelog,
                files_open=files_open,
            )

        if changelog in self._writing:
            self._writing[changelog].abort()  # a failed one; for a closed one this does nothing
        writing = RollingWriter(open_file, target_size_bytes=self._target_size_bytes)
        self._writing[changelog] = writing
        return writing
