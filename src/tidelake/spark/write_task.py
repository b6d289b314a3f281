"""The executor's side of a write: Arrow batches in, commit messages as bytes out.

What a task gives back is one row per message, and a row with an error where the rows cannot be
written whatever one tries: such an error would only fail again if Spark ran the task once more.
Errors of the storage are raised, and Spark tries the task anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from tidelake import errors
from tidelake.errors import StorageError, TidelakeError
from tidelake.metadata import commit_message
from tidelake.metadata.data_file import CommitMessage
from tidelake.metadata.manifest_cache import ManifestCache
from tidelake.table.handle import TableHandle
from tidelake.table.inputs import with_row_kinds
from tidelake.table.write import new_writer
from tidelake.table.writer import FullCompactions
from tidelake.telemetry import Env, Memory
from tidelake.types.predicate import Predicate

__all__ = ["ANSWER_SCHEMA", "TaskAnswer", "WriteTask", "write_batches", "write_task"]

ANSWER_SCHEMA = "rows bigint, message binary, error string"
_ANSWER_ARROW = pa.schema([("rows", pa.int64()), ("message", pa.binary()), ("error", pa.string())])
MANIFEST_CACHE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class WriteTask:
    """What a task needs. Picklable.

    Parameters
    ----------
    handle : TableHandle
        The table.
    overwrite : bool
        Whether the rows replace what is there.
    static : Predicate, optional
        On partition columns: rows of other partitions are refused.
    user : str
        Who will commit.
    base_snapshot_id : int, optional
        The snapshot that all tasks begin from; by default each from the newest.
    bucket_column : str, optional
        The column that says which dynamic bucket another task gave a row.
    full_compactions : FullCompactions, optional
        Buckets that are compacted fully by the task that has rows of them.
    """

    handle: TableHandle
    overwrite: bool
    static: Predicate | None
    user: str
    base_snapshot_id: int | None = None
    bucket_column: str | None = None
    full_compactions: FullCompactions | None = None

    @classmethod
    def of(
        cls,
        handle: TableHandle,
        *,
        user: str,
        overwrite: bool,
        static: Predicate | None,
        base_snapshot_id: int | None = None,
        bucket_column: str | None = None,
        full_compactions: FullCompactions | None = None,
    ) -> WriteTask:
        """For a table as the driver opened it; each task has its own clock, ids and threads."""
        own = replace(handle, env=Env(zone=handle.env.zone).with_memory(handle.env.memory))
        if full_compactions is not None:
            full_compactions = replace(full_compactions, where_written_only=True)
        return cls(own, overwrite, static, user, base_snapshot_id, bucket_column, full_compactions)


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """What all tasks gave back.

    Parameters
    ----------
    rows_count : int
        Rows taken in.
    messages : tuple of CommitMessage
        Of all tasks.
    errors : tuple of TidelakeError
        Why tasks refused their rows.
    """

    rows_count: int
    messages: tuple[CommitMessage, ...]
    errors: tuple[TidelakeError, ...]

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
        )


def write_task(
    task: WriteTask,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Give the function that runs on executors."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            rows_count, messages = write_batches(task, batches)
        except StorageError:
            raise
        except TidelakeError as error:
            yield _answer(0, [], error)
            return
        yield _answer(rows_count, messages, None)

    return write


def write_batches(
    task: WriteTask, batches: Iterator[pa.RecordBatch]
) -> tuple[int, list[CommitMessage]]:
    """Write one task's rows; on failure its files are deleted.

    Parameters
    ----------
    batches : iterator of RecordBatch
        The table's columns, and ``_row_kind`` where there are kinds.

    Returns
    -------
    (int, list of CommitMessage)
        Rows taken in, and what was written.
    """
    handle = replace(task.handle, manifests=worker_manifests(task.handle.env.memory))
    writer = new_writer(
        handle,
        user=task.user,
        overwrite=task.overwrite,
        static=task.static,
        base_snapshot_id=task.base_snapshot_id,
    )
    writer.full_compactions = task.full_compactions
    try:
        for batch, kinds in with_row_kinds(batches, None, table=handle.identifier):
            rows, buckets = _without_buckets(batch, task.bucket_column)
            writer.write(rows, kinds, buckets=buckets)
        messages = writer.prepare_commit()
    except BaseException:
        writer.abort()
        raise
    writer.close()
    return writer.rows_count, messages


def _without_buckets(
    batch: pa.RecordBatch, column: str | None
) -> tuple[pa.RecordBatch, np.ndarray | None]:
    if column is None:
        return batch, None
    buckets = batch.column(column).to_numpy(zero_copy_only=False)
    return batch.drop_columns([column]), buckets


@cache
def worker_manifests(memory: Memory) -> ManifestCache:
    """Decoded manifests, kept while the Python worker lives: immutable, and workers are reused."""
    return ManifestCache(min(MANIFEST_CACHE_BYTES, memory.manifest_cache_bytes))


def _answer(
    rows_count: int, messages: Sequence[CommitMessage], error: TidelakeError | None
) -> pa.RecordBatch:
    payload: list[bytes | None] = [commit_message.to_bytes(m) for m in messages]
    rows = payload or [None]
    counts = [rows_count] + [0] * (len(rows) - 1)
    texts = [None if error is None else error_to_text(error)] * len(rows)
    return pa.RecordBatch.from_pydict(
        {"rows": counts, "message": rows, "error": texts}, schema=_ANSWER_ARROW
    )


def error_to_text(error: TidelakeError) -> str:
    """Write an error for its way to the driver.

    Examples
    --------
    >>> text = error_to_text(errors.InvalidInputError("No.", kind="row_kind", table="db.t"))
    >>> error_from_text(text)
    InvalidInputError('No.')
    """
    context = {key: str(value) for key, value in error.context.items()}
    return json.dumps(
        {
            "class": type(error).__name__,
            "message": error.message,
            "kind": error.kind,
            "context": context,
        }
    )


def error_from_text(text: str) -> TidelakeError:
    """Make the error anew on the driver."""
    form = json.loads(text)
    known = getattr(errors, form["class"], TidelakeError)
    error: TidelakeError = known(form["message"], kind=form["kind"], **form["context"])
    return error
