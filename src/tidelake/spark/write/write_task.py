"""The executor's side of a write: Arrow batches in, commit messages as bytes out.

A task returns one row for each message. It returns a row with an error if the rows themselves are
wrong, since a retry of Spark would fail again. It raises errors of the storage, and Spark retries
the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, TypeAlias

import pyarrow as pa

from tidelake.engine.env import Env, Memory
from tidelake.engine.metadata import ManifestCache, commit_message
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import (
    CommitMessage,
    FullCompactions,
    MessageSource,
    Overwrite,
    WriteTransaction,
    names_expired_inputs,
    new_writer,
    with_row_kinds,
)
from tidelake.errors import StorageError, TidelakeError
from tidelake.spark.error_wire import error_from_text, error_to_text
from tidelake.spark.write.attempt_guard import AttemptDigest, NoteReader

ANSWER_SCHEMA = "rows bigint, message binary, error string, attempts string, placed bigint"
_ANSWER_ARROW = pa.schema(
    [
        ("rows", pa.int64()),
        ("message", pa.binary()),
        ("error", pa.string()),
        ("attempts", pa.string()),
        ("placed", pa.int64()),
    ]
)
MANIFEST_CACHE_BYTES = 64 << 20

Through: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function that rows pass through before they are written."""
Written: TypeAlias = tuple[int, Sequence[CommitMessage]]
"""The number of rows that a task took in, and the messages of its files."""


@dataclass(frozen=True, slots=True)
class WriteTask:
    """The settings of a task. Picklable.

    Parameters
    ----------
    overwrite : Overwrite, optional
        The overwrite, if the rows replace others.
    base_snapshot_id : int, optional
        The base snapshot of all tasks; by default each task takes the newest one.
    assigned : bool
        Whether other tasks gave the rows their buckets (:mod:`tidelake.spark.write.attempt_guard`).
    fills_defaults : bool
        Whether nulls become the defaults of their columns.
    """

    handle: TableHandle
    overwrite: Overwrite | None
    user: str
    base_snapshot_id: int | None = None
    assigned: bool = False
    full_compactions: FullCompactions | None = None
    fills_defaults: bool = True

    @classmethod
    def of(
        cls,
        handle: TableHandle,
        *,
        user: str,
        overwrite: Overwrite | None = None,
        base_snapshot_id: int | None = None,
        assigned: bool = False,
        full_compactions: FullCompactions | None = None,
        fills_defaults: bool = True,
    ) -> WriteTask:
        """Make it for the driver's table."""
        if full_compactions is not None:
            full_compactions = replace(full_compactions, where_written_only=True)
        return cls(
            for_task(handle),
            overwrite,
            user,
            base_snapshot_id,
            assigned,
            full_compactions,
            fills_defaults,
        )


def for_task(handle: TableHandle) -> TableHandle:
    """Make the table for a task, which has its own clock, ids and threads."""
    return replace(handle, env=Env(zone=handle.env.zone).with_memory(handle.env.memory))


def in_task(handle: TableHandle) -> TableHandle:
    """Give the table in a task, with the manifest cache of the process."""
    return replace(handle, manifests=worker_manifests(handle.env.memory))


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """The answers of all tasks.

    Parameters
    ----------
    digests : tuple of AttemptDigest
        The attempts that assigned buckets, as a digest from each task with assigned rows.
    """

    rows_count: int
    messages: tuple[CommitMessage, ...]
    errors: tuple[TidelakeError, ...]
    digests: tuple[AttemptDigest, ...] = ()

    @classmethod
    def gather(cls, rows: Sequence[Any]) -> TaskAnswer:
        """Read the collected rows."""
        return cls(
            rows_count=sum(row["rows"] for row in rows),
            messages=tuple(
                commit_message.from_bytes(bytes(row["message"]))
                for row in rows
                if row["message"] is not None
            ),
            errors=tuple(error_from_text(row["error"]) for row in rows if row["error"] is not None),
            digests=tuple(
                AttemptDigest(row["attempts"], row["placed"])
                for row in rows
                if row["attempts"] is not None
            ),
        )


def add_answer(out: WriteTransaction, answer: TaskAnswer, *, base_snapshot_id: int) -> None:
    """Add the tasks' messages to a transaction.

    Parameters
    ----------
    base_snapshot_id : int
        The newest snapshot before the first task began; 0 for none.

    Raises
    ------
    TidelakeError
        The error for which a task refused its rows.
    """
    # assigned rows differ from the given rows; each digest has the number of given rows
    rows_count = answer.digests[0].rows if answer.digests else answer.rows_count
    out.add_messages(answer.messages, base_snapshot_id=base_snapshot_id, rows_count=rows_count)
    if answer.errors:
        raise answer.errors[0]


def write_task(
    task: WriteTask, *, through: Through | None = None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for executors.

    Parameters
    ----------
    through : callable, optional
        Returns the rows, or raises an error to refuse them. Picklable.
    """

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = NoteReader() if task.assigned else None
        rows = batches if through is None else through(batches)
        yield answered(partial(write_batches, task, rows, reader=reader), reader=reader)

    return write


def write_batches(
    task: WriteTask, batches: Iterator[pa.RecordBatch], *, reader: NoteReader | None = None
) -> Written:
    """Write one task's rows; delete its files on failure.

    Parameters
    ----------
    batches : iterator of RecordBatch
        The table's columns, and ``_row_kind`` if rows have kinds.
    reader : NoteReader, optional
        Separates rows and their buckets from notes, if other tasks assigned the buckets.
    """
    handle = in_task(task.handle)
    writer = new_writer(
        handle,
        user=task.user,
        overwrite=task.overwrite,
        base_snapshot_id=task.base_snapshot_id,
        fills_defaults=task.fills_defaults,
    )
    writer.full_compactions = task.full_compactions

    def take() -> int:
        for batch in batches:
            rows, buckets = (batch, None) if reader is None else reader.rows_of(batch)
            for part, kinds in with_row_kinds(iter([rows]), None, table=handle.identifier):
                writer.write(part, kinds, buckets=buckets)
        return writer.rows_count

    with names_expired_inputs(handle, writer):
        return written(writer, take)


def written(source: MessageSource, write: Callable[[], int]) -> Written:
    """Let a task write; delete its files on failure.

    Parameters
    ----------
    source : MessageSource
        Has what the task writes.
    write : callable
        Writes, and returns the number of rows.
    """
    try:
        rows_count = write()
        messages = source.prepare_commit()
    except BaseException:
        source.abort()
        raise
    source.close()
    return rows_count, messages


def answered(write: Callable[[], Written], *, reader: NoteReader | None = None) -> pa.RecordBatch:
    """Let a task write, and make its answer.

    An error of the storage is raised, and Spark tries the task again. Any other error of ours would
    come again: it is the answer.
    """
    try:
        rows_count, messages = write()
    except StorageError:
        raise
    except TidelakeError as error:
        return answer_rows(error=error)
    return answer_rows(rows_count, messages, digest=None if reader is None else reader.digest())


@lru_cache(maxsize=1)  # a job with another cache size replaces the cache of the last one
def worker_manifests(memory: Memory) -> ManifestCache:
    """Give the cache of decoded manifests of the Python worker; Spark reuses workers."""
    return ManifestCache(min(MANIFEST_CACHE_BYTES, memory.manifest_cache_bytes))


def answer_rows(
    rows_count: int = 0,
    messages: Sequence[CommitMessage] = (),
    *,
    error: TidelakeError | None = None,
    digest: AttemptDigest | None = None,
) -> pa.RecordBatch:
    """Make a task's answer: a row for each message, or one with an error."""
    payload: list[bytes | None] = [commit_message.to_bytes(m) for m in messages]
    rows = payload or [None]
    counts = [rows_count] + [0] * (len(rows) - 1)
    texts = [None if error is None else error_to_text(error)] * len(rows)
    nothing = [None] * (len(rows) - 1)
    return pa.RecordBatch.from_pydict(
        {
            "rows": counts,
            "message": rows,
            "error": texts,
            "attempts": [None if digest is None else digest.attempts, *nothing],
            "placed": [None if digest is None else digest.rows, *nothing],
        },
        schema=_ANSWER_ARROW,
    )
