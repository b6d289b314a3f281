"""First copies by executors: a task reads a chunk of the source, the rows are written as a frame.

1. The driver keeps what all chunks read in: of PostgreSQL the connection that exported the
   snapshot.
2. A task connects to the source by itself. It gets the password in a broadcast, as the keys of
   object stores (:mod:`tidelake.spark.sessions.secret_broadcast`); plans show numbers of chunks.
3. What a task leaves out, and how many rows it made, comes back in an accumulator by the number of
   its chunk: a chunk that is read twice counts once.
4. Spark brings the accumulator up to date when a task ends. While the job's thread waits for the
   commit, another one tells how many rows have come back: whole chunks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidelake.cdc.door import ChunkNote, TableCopy
from tidelake.engine.write import WriteResult, WriteTransaction
from tidelake.errors import StorageError, TidelakeError, UnsupportedError
from tidelake.spark.error_wire import error_from_text, error_to_text
from tidelake.spark.errors.run_errors import run_failure
from tidelake.spark.expression.types import spark_schema
from tidelake.spark.read.scan_frame import spark_batches
from tidelake.spark.read.shares import share_frame
from tidelake.spark.sessions.session import parallelism
from tidelake.spark.write.write_frame import write_batch

ROWS_MIN = 1_000_000
"""Estimated rows from which on a table is copied by executors."""
SLOTS_MIN = 4
"""Fewer tasks at once are not faster than the driver: rows that pass through the JVM and a shuffle
cost twice the CPU (600,000 rows: 3 s on the driver, 5 s on executors, 7 s with dynamic buckets)."""
WATCH_SECONDS = 0.25
"""How often it is told how far a copy is."""
_ERROR, _END = "tidelake-error:", ":end"

Notes = dict[int, ChunkNote]
CopyWatch = Callable[[str, int, int], None]
"""Takes a target, the rows copied, and the rows estimated."""


class ExecutorCopier:
    """Copies large tables by a session's executors.

    Parameters
    ----------
    spark : SparkSession
        The session; during a batch that of the query, so that a stop of the query ends the copy.
    rows_min : int, optional
        Estimated rows from which on it takes a table, if that has several chunks. By default
        :data:`ROWS_MIN`, and none in a session of less than :data:`SLOTS_MIN` tasks at once.

    Attributes
    ----------
    watch : callable or None
        Told how far a copy is, by another thread while the job's waits.
    """

    def __init__(self, spark: SparkSession, *, rows_min: int | None = None) -> None:
        self.spark = spark
        self._rows_min = rows_min
        self.watch: CopyWatch | None = None

    def takes(self, copy: TableCopy) -> bool:
        """Whether a table is large, and its types exist on Spark."""
        least = ROWS_MIN if self._rows_min is None else self._rows_min
        if len(copy.chunks) < 2 or copy.rows_count < least:
            return False
        if self._rows_min is None and parallelism(self.spark) < SLOTS_MIN:
            return False
        try:
            spark_schema(copy.fields, table=copy.target)
        except UnsupportedError:
            return False
        return True

    def write(
        self, copy: TableCopy, transaction: WriteTransaction
    ) -> tuple[WriteResult, Mapping[int, ChunkNote]]:
        """Read all chunks, write and commit; see :class:`tidelake.cdc.job.table_copy.Copier`."""
        context = self.spark.sparkContext
        noted: Accumulator[Notes] = context.accumulator({}, _NotesParam())
        task = _CopyTask(copy, noted)
        frame = share_frame(
            self.spark,
            range(len(copy.chunks)),
            task.rows,
            spark_schema(copy.fields, table=copy.target),
            name="cdc_copy",
        )
        try:
            with _watched(copy, noted, self.watch):
                result = write_batch(transaction, frame, tasks=None)
        except PySparkException as error:
            raise _failure(error) from error
        return result, dict(noted.value)


@contextmanager
def _watched(copy: TableCopy, noted: Accumulator[Notes], watch: CopyWatch | None) -> Iterator[None]:
    """Tell how far a copy is while the block runs, and once more at its end."""
    if watch is None:
        yield
        return

    def tell() -> None:
        # Spark's own thread adds to the dict: a copy of it is taken at once
        count = sum(note.rows_count for note in dict(noted.value).values())
        watch(copy.target, count, copy.rows_count)

    has_ended = threading.Event()

    def follow() -> None:
        while not has_ended.wait(WATCH_SECONDS):
            tell()

    tell()
    thread = threading.Thread(target=follow, name="cdc-copy-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()
    tell()


class _NotesParam(AccumulatorParam[Notes]):  # type: ignore[misc]  # pyspark carries no types here
    """Adds notes by the number of their chunk."""

    def zero(self, value: Notes) -> Notes:
        del value
        return {}

    def addInPlace(self, value1: Notes, value2: Notes) -> Notes:
        value1.update(value2)
        return value1


class _CopyTask:
    """Reads chunks on executors. Picklable."""

    def __init__(self, copy: TableCopy, noted: Accumulator[Notes]) -> None:
        self._copy = copy
        self._noted = noted

    def rows(self, number: int) -> Iterator[pa.RecordBatch]:
        """Give the rows of a chunk in Spark's Arrow types."""
        note = ChunkNote()
        copy = self._copy
        try:
            yield from spark_batches(copy.whole_rows(number, note), copy.fields)
        except StorageError:
            raise  # Spark tries again
        except TidelakeError as error:
            text = f"{_ERROR}{error_to_text(error)}{_END}"
            raise TidelakeError(text, kind="spark_failed") from error
        self._noted.add({number: note})


def _failure(error: PySparkException) -> TidelakeError:
    """Make the error of a task again."""
    failure = run_failure(error)
    _, is_ours, rest = str(error).partition(_ERROR)
    if is_ours:
        return error_from_text(rest.partition(_END)[0])
    return failure
