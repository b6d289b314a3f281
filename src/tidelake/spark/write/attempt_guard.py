"""Checks that all writing tasks got rows from the same attempt of each assigning task.

An assigning task gives each row its bucket (:mod:`tidelake.spark.write.dynamic_bucket_assigner` and
:mod:`tidelake.spark.write.cross_partition_assigner`). When Spark repeats the task, it may give
other buckets: rows come in another order, or the DataFrame computes other rows. If an executor dies
between the two stages, some writing tasks have the rows of the first attempt and others get those
of the second. A key could then be in two buckets, or in none.

1. Each row carries the id of the attempt that assigned it, which is unique in the application.
2. At its end an assigning task sends **every** writing task an extra row, the note. It holds the
   partition and the attempt, the number of rows taken in, and the error if the rows were refused.
3. A writing task sends the driver a digest of the attempts in its notes, since the notes of
   thousands of tasks to thousands of others are too much for one process. The driver commits only
   if all digests are equal. Every task has a note of every assigner, so equal digests mean the same
   attempts.

Spark 4.3 compares checksums of the output of attempts
(``spark.sql.shuffle.orderIndependentChecksum``). Rows carry their attempt, so a second attempt has
another checksum. Spark then repeats the stage if no writing task is done, else it fails the job;
this module turns that failure into the same conflict.
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

BUCKET_COLUMN = "_tidelake_bucket"
ATTEMPT_COLUMN = "_tidelake_attempt"
NOTE_COLUMN = "_tidelake_note"

OWN_FIELDS = (
    st.StructField(BUCKET_COLUMN, st.IntegerType()),
    st.StructField(TASK_COLUMN, st.IntegerType()),
    st.StructField(ATTEMPT_COLUMN, st.LongType()),
    st.StructField(NOTE_COLUMN, st.StringType()),
)
"""Columns behind those of the rows. Task and note are null in rows, the bucket is null in notes."""

SPARK_GIVES_UP = "A shuffle map stage with indeterminate output was failed and retried"
"""Text in Spark's error for rows of a second attempt; the error has no condition."""


@dataclass(frozen=True, slots=True)
class AttemptNote:
    """The note of an assigning task.

    Parameters
    ----------
    error : str, optional
        Why it refused the rows, encoded by :mod:`tidelake.spark.error_wire`.
    """

    partition: int
    attempt: int
    rows: int
    error: str | None = None

    def to_text(self) -> str:
        """Encode the note as text for another task.

        Examples
        --------
        >>> AttemptNote.from_text(AttemptNote(0, 7, 100).to_text())
        AttemptNote(partition=0, attempt=7, rows=100, error=None)
        """
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> AttemptNote:
        """Decode a note."""
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class AttemptDigest:
    """The notes of all assigning tasks to one writing task, as a digest.

    Parameters
    ----------
    attempts : str
        Digest of the attempts; equal if all attempts are.
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
    """Make the function for executors.

    Parameters
    ----------
    assign : callable
        Takes batches; yields assigned rows, their buckets, and the number of rows taken in since
        the last result.
    schema : Schema
        Schema of the note if there are no rows. Else the note has the schema of the rows: Spark
        takes batches of one schema only, which depends on the session (time zone).
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
    """Separates rows from notes in the input of a writing task."""

    def __init__(self) -> None:
        self._attempts: set[int] = set()
        self._notes: list[AttemptNote] = []

    def rows_of(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, npt.NDArray[np.int32]]:
        """Select the rows of a batch and their buckets.

        Raises
        ------
        TidelakeError
            An assigning task refused its rows.
        """
        self._attempts.update(batch.column(ATTEMPT_COLUMN).unique().to_pylist())
        if batch.column(BUCKET_COLUMN).null_count:
            for text in (
                batch.column(NOTE_COLUMN).drop_null().to_pylist()
            ):  # one note for each assigner
                note = AttemptNote.from_text(text)
                if note.error is not None:
                    raise error_from_text(note.error)
                self._notes.append(note)
            batch = batch.filter(pc.is_valid(batch.column(BUCKET_COLUMN)))
        buckets = batch.column(BUCKET_COLUMN).to_numpy(zero_copy_only=False)
        return batch.drop_columns([field.name for field in OWN_FIELDS]), buckets

    def digest(self) -> AttemptDigest:
        """Compute the digest of all notes, after the last batch."""
        partitions = sorted((note.partition, note.attempt) for note in self._notes)
        assert self._attempts == {attempt for _, attempt in partitions}, "rows without a note"
        digest = hashlib.sha256(json.dumps(partitions).encode()).hexdigest()
        return AttemptDigest(digest, sum(note.rows for note in self._notes))


def check_one_attempt(digests: Sequence[AttemptDigest], *, table: str) -> None:
    """Check that all writing tasks got rows from the same attempts.

    Parameters
    ----------
    digests : sequence of AttemptDigest
        Of each writing task.

    Raises
    ------
    ConflictError
        Spark ran an assigning task again. Nothing was committed.
    """
    if len({digest.attempts for digest in digests}) > 1:
        raise _two_attempts(table)


@contextmanager
def one_attempt(*, table: str) -> Iterator[None]:
    """Turn Spark's own error for a second attempt into that of :func:`check_one_attempt`.

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
        f"Spark ran a task again that assigned buckets in a write to table '{table}', and may have"
        " assigned other buckets. Nothing was committed; write again."
    )
    return ConflictError(message, kind="bucket_assignment", table=table)
