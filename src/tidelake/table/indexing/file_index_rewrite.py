"""Gives data files the file indexes that the table's options name, and takes others away.

1. The newest snapshot's files are compared with the options: a file whose indexes are those of the
   options stays. That reads the heads of indexes, and no rows.
2. A task reads the indexed columns of one file, deleted rows too, and makes all its indexes. They
   go into the manifest or into a new file beside the data file, which stays as it is.
3. One COMPACT snapshot replaces the files' entries. A bucket that others compacted meanwhile is
   left out and counted. Index files that are replaced stay until orphan files are removed: expiry
   looks at the names of data files, and these are live.

Rows are read file by file, a batch at a time; in memory are the indexes of one file. Source:
Paimon's ``RewriteFileIndexProcedure`` and ``FileIndexProcessor`` (2.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from tidelake.errors import OutcomeUnknownError, StorageError, TidelakeError
from tidelake.format import read_batches
from tidelake.format.file_index import INDEX_SUFFIX, FileIndexWriter, list_indexes
from tidelake.metadata.bucket_id import InBucket
from tidelake.metadata.data_file import CommitMessage, DataFileMeta
from tidelake.metadata.partition_columns import partition_columns
from tidelake.options import declared
from tidelake.options.file_index import FileIndexSetting, file_index_settings
from tidelake.scan import BucketFiles, live_buckets
from tidelake.scan.context import ReadContext
from tidelake.table.handle.handle import TableHandle
from tidelake.table.job.plan import HERE, Gathered, Plan, Runner
from tidelake.table.jobs.compaction import Chosen
from tidelake.table.write.result import WriteResult
from tidelake.table.write.transaction import WriteTransaction


@dataclass(frozen=True, slots=True)
class RewrittenIndexes:
    """The result of a rewrite of file indexes, or of a dry run.

    Parameters
    ----------
    snapshot_id : int, optional
        The commit; None for a dry run, or if every file has its indexes.
    partitions_count, files_count : int
        Partitions and data files that got other indexes, or would.
    size_bytes : int
        Bytes of these data files.
    buckets_dropped : int
        Buckets that another commit changed meanwhile; the next call takes them.
    """

    table: str
    snapshot_id: int | None = None
    partitions_count: int = 0
    files_count: int = 0
    size_bytes: int = 0
    buckets_dropped: int = 0


@dataclass(frozen=True, slots=True)
class IndexTask(InBucket):
    """A data file that gets other indexes.

    Parameters
    ----------
    settings : tuple of FileIndexSetting
        Its indexes, with the names of columns in the file's schema.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFileMeta
    settings: tuple[FileIndexSetting, ...]

    @property
    def size_bytes(self) -> int:
        """The file's."""
        return self.file.file_size_bytes


@dataclass(frozen=True, slots=True)
class IndexRewrite(Plan[IndexTask]):
    """The files that get other indexes."""

    tasks: tuple[IndexTask, ...]
    snapshot_id: int

    @property
    def base_snapshot_id(self) -> int:
        """The snapshot that was read."""
        return self.snapshot_id

    def run(self, tasks: Sequence[IndexTask], into: Gathered) -> None:
        """Make the indexes of files, one after the other."""
        context = into.handle.read_context(all_rows=True)
        made: list[CommitMessage] = []
        try:
            for task in tasks:
                file = _indexed(context, task)
                made.append(
                    CommitMessage(
                        task.partition,
                        task.bucket,
                        task.total_buckets,
                        compact_before=(task.file,),
                        compact_after=(file,),
                    )
                )
        except TidelakeError:
            _delete_indexes(into.handle, made)
            raise
        into.add(made)

    def commit(self, out: WriteTransaction, gathered: Gathered) -> WriteResult:
        """Publish the entries that still fit; after a failure the new index files are deleted."""
        made = list(gathered.messages)
        try:
            return out.commit_compactions()
        except OutcomeUnknownError:
            raise
        except TidelakeError:
            _delete_indexes(out.handle, made)
            raise


def _delete_indexes(handle: TableHandle, messages: Sequence[CommitMessage]) -> None:
    """Delete new index files; one that stays is an orphan."""
    for message in messages:
        ((before,), (after,)) = message.compact_before, message.compact_after
        for name in set(after.extra_files) - set(before.extra_files):
            with suppress(StorageError):
                handle.fileio.delete(
                    handle.paths.data_file(message.partition, message.bucket, name)
                )


def rewrite_file_index(
    handle: TableHandle, *, where: object = None, dry_run: bool = False, runner: Runner = HERE
) -> RewrittenIndexes:
    """Make file indexes; see :meth:`tidelake.table.maintenance.Maintenance.rewrite_file_index`.

    Raises
    ------
    ConflictError
        Others compacted all of the buckets meanwhile; nothing was changed.
    """
    plan = plan_index_rewrite(handle, Chosen.of(handle, where, None))
    result = RewrittenIndexes(
        handle.identifier,
        None,
        len({task.partition for task in plan.tasks}),
        len(plan.tasks),
        sum(task.size_bytes for task in plan.tasks),
    )
    if dry_run or not plan.tasks:
        return result
    done = plan.carry_out(WriteTransaction(handle), runner)
    return replace(
        result,
        snapshot_id=done.snapshot_ids[0] if done.snapshot_ids else None,
        buckets_dropped=done.compactions_dropped,
    )


def plan_index_rewrite(handle: TableHandle, chosen: Chosen) -> IndexRewrite:
    """Find the files whose indexes are not those of the options.

    Raises
    ------
    InvalidInputError
        The table was altered since it was opened.
    """
    handle.schemas.check_same(handle.schema, table=handle.identifier)
    snapshot = handle.snapshots.latest()
    if snapshot is None:
        return IndexRewrite((), 0)
    context = handle.read_context(all_rows=True)
    found = live_buckets(context, snapshot, manifests=handle.manifests)
    settings = file_index_settings(handle.options)
    tasks: list[IndexTask] = []
    for bucket in chosen.of_buckets(handle, found):
        tasks += _tasks(context, bucket, settings)
    return IndexRewrite(tuple(sorted(tasks, key=lambda t: -t.size_bytes)), snapshot.id)


def _tasks(
    context: ReadContext, bucket: BucketFiles, settings: Sequence[FileIndexSetting]
) -> list[IndexTask]:
    found: list[IndexTask] = []
    for file in bucket.files:
        own = _settings_of(context, file, settings)
        if {(one.column, one.kind) for one in own} != _present(context, bucket, file):
            found.append(
                IndexTask(bucket.partition, bucket.bucket, bucket.total_buckets, file, tuple(own))
            )
    return found


def _settings_of(
    context: ReadContext, file: DataFileMeta, settings: Sequence[FileIndexSetting]
) -> list[FileIndexSetting]:
    """The indexes of a file, by the names of columns when it was written."""
    written = {
        field.id: field
        for field in context.file_schema(file.schema_id, file_name=file.file_name).fields
    }
    found: list[FileIndexSetting] = []
    for setting in settings:
        field = context.schema.field(setting.column)
        own = written.get(field.id)
        if own is not None and own.type.root is field.type.root:
            found.append(replace(setting, column=own.name))
    return found


def _present(context: ReadContext, bucket: BucketFiles, file: DataFileMeta) -> set[tuple[str, str]]:
    """Column and kind of each index that a file has; none where they cannot be read."""
    source: bytes | str
    if file.embedded_index is not None:
        source = file.embedded_index
    else:
        names = [name for name in file.extra_files if name.endswith(INDEX_SUFFIX)]
        if not names:
            return set()
        source = context.paths.data_file(bucket.partition, bucket.bucket, names[0])
    try:
        entries = list_indexes(source, context.fileio)
    except TidelakeError:
        return {("", "")}  # damaged, or of a later version: made anew
    return {(entry.column, entry.kind) for entry in entries}


def _indexed(context: ReadContext, task: IndexTask) -> DataFileMeta:
    """Make the indexes of one file; the file as the manifest describes it from now on."""
    file, fileio = task.file, context.fileio
    others = tuple(name for name in file.extra_files if not name.endswith(INDEX_SUFFIX))
    if not task.settings:
        return replace(file, extra_files=others, embedded_index=None)
    schema = context.file_schema(file.schema_id, file_name=file.file_name)
    wanted = {setting.column for setting in task.settings}
    fields = tuple(field for field in schema.fields if field.name in wanted)
    writer = FileIndexWriter(fields, task.settings)
    path = context.paths.data_file(task.partition, task.bucket, file)
    for batch in read_batches(
        fileio,
        path,
        fields,
        file_size_bytes=file.file_size_bytes,
        row_count=file.row_count,
        batch_bytes=context.env.memory.batch_bytes,
        zone=context.env.zone,
        table=context.paths.location,
        constants=partition_columns(context.paths, context.schema, task.partition),
    ):
        writer.add(batch)
    container = writer.finish()
    if len(container) <= context.options.get(declared.FILE_INDEX_IN_MANIFEST_THRESHOLD):
        return replace(file, extra_files=others, embedded_index=container)
    name = f"{file.file_name}.{context.env.ids.uuid()}{INDEX_SUFFIX}"
    out = fileio.open_output(context.paths.data_file(task.partition, task.bucket, name))
    try:
        out.write(container)
        out.close()
    finally:
        out.abort()
    return replace(file, extra_files=(*others, name), embedded_index=None)
