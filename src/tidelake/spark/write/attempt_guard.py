"""Whether all writing tasks were given rows by the same attempt of each assigning task.

Where a row goes, an assigning task says (:mod:`tidelake.spark.write.dynamic_bucket_assigner` and
:mod:`tidelake.spark.write.cross_partition_assigner`), and it may say otherwise when Spark runs it
again: rows come in another order, or the DataFrame is not the same twice. If an executor dies
between the two stages, some writing tasks have done with what the first attempt gave them, others
get what the second one gives. A key could then be in two buckets, or in none.

1. Each row carries the number of the attempt that assigned it, which is unique in the application.
2. At its end an assigning task gives **every** writing task a row of its own, the note: which
   partition and attempt it was, how many rows it took, and why it refused them if it did.
3. A writing task gives the driver a digest of the attempts in its notes: notes of thousands of
   tasks to thousands of others are too much for one process. The driver commits only if all digests
   are equal: every task has a note of every assigner, so no two tasks can have rows of different
   attempts.

Spark 4.3 compares checksums of what attempts give (``spark.sql.shuffle.orderIndependentChecksum``).
Rows carry their attempt, so to Spark a second attempt gives other rows. It then repeats the stage
if no writing task is done, and else fails the job, which is the same conflict.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import types as st

from tidelake.errors import ConflictError, StorageError, TidelakeError
from tidelake.spark.error_wire import error_from_text, error_to_text
from tidelake.spark.write.clustering import TASK_COLUMN

__all__ = [
    "BUCKET_COLUMN",
    "OWN_FIELDS",
    "AttemptDigest",
    "AttemptNote",
    "NoteReader",
    "check_one_attempt",
    "one_attempt",
    "with_notes",
]

BUCKET_COLUMN = "_tidelake_bucket"
ATTEMPT_COLUMN = "_tidelake_attempt"
NOTE_COLUMN = "_tidelake_note"

OWN_FIELDS = (
    st.StructField(BUCKET_COLUMN, st.IntegerType()),
    st.StructField(TASK_COLUMN, st.IntegerType()),
    st.StructField(ATTEMPT_COLUMN, st.LongType()),
    st.StructField(NOTE_COLUMN, st.StringType()),
)
"""Columns behind those of the rows. Of rows task and note are null, of notes the bucket."""

SPARK_GIVES_UP = "A shuffle map stage with indeterminate output was failed and retried"
"""How Spark says that it met rows of a second attempt; it has no condition for that."""


@dataclass(frozen=True, slots=True)
class AttemptNote:
    """What an assigning task says of itself.

    Parameters
    ----------
    partition : int
        Which of the assigning tasks.
    attempt : int
        Which attempt of it.
    rows : int
        How many rows it took.
    error : str, optional
        Why it refused them, as of :mod:`tidelake.spark.error_wire`.
    """

    partition: int
    attempt: int
    rows: int
    error: str | None = None

    def to_text(self) -> str:
        """Write it for its way to another task.

        Examples
        --------
        >>> AttemptNote.from_text(AttemptNote(0, 7, 100).to_text())
        AttemptNote(partition=0, attempt=7, rows=100, error=None)
        """
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> AttemptNote:
        """Read it."""
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class AttemptDigest:
    """What all assigning tasks together say to a writing task.

    Parameters
    ----------
    attempts : str
        Digest of the attempts: equal where all are.
    rows : int
        How many rows they took.
    """

    attempts: str
    rows: int


Assigned = tuple[pa.RecordBatch, npt.NDArray[np.int32], int]


def with_notes(
    assign: Callable[[Iterator[pa.RecordBatch]], Iterator[Assigned]],
    *,
    schema: pa.Schema,
    tasks: int,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Give the function that runs on executors.

    Parameters
    ----------
    assign : callable
        Batches in; assigned rows, their buckets, and how many rows were taken since the last.
    schema : Schema
        Of the assigned rows, where there are none. Of others the note takes their own: Spark takes
        batches of one schema, and that of a given batch depends on the session (time zone).
    tasks : int
        How many tasks write.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None, "runs on an executor"
        attempt = context.taskAttemptId()
        rows_count = 0
        error = None
        seen = schema
        try:
            for rows, buckets, taken in assign(batches):
                rows_count += taken
                if rows.num_rows:
                    seen = rows.schema
                    yield _with_own(rows, buckets, attempt)
        except StorageError:
            raise  # Spark tries the task again
        except TidelakeError as refused:
            error = error_to_text(refused)
        note = AttemptNote(context.partitionId(), attempt, rows_count, error)
        yield _note_rows(note, seen, tasks)

    return run


def _with_own(rows: pa.RecordBatch, buckets: npt.NDArray[np.int32], attempt: int) -> pa.RecordBatch:
    size = rows.num_rows
    own = [
        pa.array(buckets, pa.int32()),
        pa.nulls(size, pa.int32()),
        pa.array(np.full(size, attempt, np.int64)),
        pa.nulls(size, pa.string()),
    ]
    return _batch([*rows.columns, *own], rows.schema)


def _note_rows(note: AttemptNote, schema: pa.Schema, tasks: int) -> pa.RecordBatch:
    own = [
        pa.nulls(tasks, pa.int32()),
        pa.array(np.arange(tasks, dtype=np.int32)),
        pa.array(np.full(tasks, note.attempt, np.int64)),
        pa.array([note.to_text()] * tasks),
    ]
    return _batch([*(pa.nulls(tasks, t) for t in schema.types), *own], schema)


def _batch(columns: Sequence[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        columns, names=[*schema.names, *(field.name for field in OWN_FIELDS)]
    )


class NoteReader:
    """Tells rows from notes in what a writing task is given."""

    def __init__(self) -> None:
        self._attempts: set[int] = set()
        self._notes: list[AttemptNote] = []

    def rows_of(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, npt.NDArray[np.int32]]:
        """The rows of a batch and their buckets.

        Raises
        ------
        TidelakeError
            An assigning task refused its rows.
        """
        self._attempts.update(batch.column(ATTEMPT_COLUMN).unique().to_pylist())
        if batch.column(BUCKET_COLUMN).null_count:
            for text in batch.column(NOTE_COLUMN).drop_null().to_pylist():  # one for each assigner
                note = AttemptNote.from_text(text)
                if note.error is not None:
                    raise error_from_text(note.error)
                self._notes.append(note)
            batch = batch.filter(pc.is_valid(batch.column(BUCKET_COLUMN)))
        buckets = batch.column(BUCKET_COLUMN).to_numpy(zero_copy_only=False)
        return batch.drop_columns([field.name for field in OWN_FIELDS]), buckets

    def digest(self) -> AttemptDigest:
        """The digest of all notes, once all rows came."""
        partitions = sorted((note.partition, note.attempt) for note in self._notes)
        assert self._attempts == {attempt for _, attempt in partitions}, "rows without a note"
        digest = hashlib.sha256(json.dumps(partitions).encode()).hexdigest()
        return AttemptDigest(digest, sum(note.rows for note in self._notes))


def check_one_attempt(digests: Sequence[AttemptDigest], *, table: str) -> None:
    """See that all writing tasks were given rows by the same attempts.

    Parameters
    ----------
    digests : sequence of AttemptDigest
        Of each writing task.
    table : str
        For messages.

    Raises
    ------
    ConflictError
        Spark ran an assigning task again. Nothing was committed.
    """
    if len({digest.attempts for digest in digests}) > 1:
        raise _two_attempts(table)


@contextmanager
def one_attempt(*, table: str) -> Iterator[None]:
    """While a job runs: the conflict that Spark itself sees as that of :func:`check_one_attempt`.

    Raises
    ------
    ConflictError
        Spark ran an assigning task again. Nothing was committed.
    """
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        if SPARK_GIVES_UP not in str(error):
            raise
        raise _two_attempts(table) from error


def _two_attempts(table: str) -> ConflictError:
    message = (
        f"Spark ran a task again that assigned rows of a write to table '{table}', and may have"
        " assigned them otherwise. Nothing was committed; write again."
    )
    return ConflictError(message, kind="bucket_assignment", table=table)
