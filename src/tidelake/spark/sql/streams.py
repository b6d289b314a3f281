"""Runs statements in streaming mode: INSERT starts a job, others list and stop jobs.

1. The query of an INSERT becomes a stream (:mod:`tidelake.spark.sql.queries`). Its columns are
   fitted to the table as in a batch (:mod:`tidelake.spark.sql.writes`).
2. The job's name is ``pipeline.name``, or the table's; its checkpoint is the folder of that name in
   ``execution.checkpointing.dir``. A repeated statement goes on where the job was.
3. All queries of a statement set are analysed before the first one starts. If a job does not start,
   or its first batch fails, the started jobs are stopped. Each job has a checkpoint of its own.
4. A target of Kafka gets messages (:mod:`tidelake.spark.streams.kafka.stream_sink`), at least once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st
from pyspark.sql.streaming import StreamingQuery

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.spark.errors.analysis_errors import translate_analysis_errors
from tidelake.spark.sql.queries import Args
from tidelake.spark.sql.writes import InsertRows, MessageRows, StatementWrites
from tidelake.spark.streams.jobs import Job, JobRegistry
from tidelake.spark.streams.jobs.output_mode import output_mode
from tidelake.spark.streams.kafka.messages_write import check_rows
from tidelake.spark.streams.kafka.stream_sink import start_messages
from tidelake.spark.streams.write.start import StreamTarget, start_stream
from tidelake.sql.execution.session import SqlSession
from tidelake.sql.execution.stream_settings import (
    CHECKPOINT_DIR,
    PIPELINE_NAME,
    RUNTIME_MODE,
    StreamSettings,
)
from tidelake.sql.query.row_kinds import ROW_KIND
from tidelake.sql.syntax.ast import Delete, Insert, Merge, StatementSet, Update

_NAME = re.compile(r"[^/\\:\x00-\x1f\x7f]+")
"""Hadoop takes a name with ``:`` for one with a scheme."""
NAME_MAX = 200
JOB_COLUMNS = "`job id` string, `job name` string"
JOBS = st.StructType(
    [
        st.StructField("job id", st.StringType()),
        st.StructField("job name", st.StringType()),
        st.StructField("status", st.StringType()),
        st.StructField("start time", st.TimestampType()),
        st.StructField("batch", st.LongType()),
        st.StructField("rows/s", st.DoubleType()),
        st.StructField("watermark", st.TimestampType()),
        st.StructField("snapshots behind", st.LongType()),
    ]
)


@dataclass(frozen=True, slots=True)
class _Start:
    """A job that is ready to start."""

    name: str
    target: str
    begin: Callable[[], StreamingQuery]


class StatementStreams:
    """The jobs of one session's statements."""

    def __init__(
        self, spark: SparkSession, session: SqlSession, writes: StatementWrites, jobs: JobRegistry
    ) -> None:
        self.spark = spark
        self.session = session
        self.jobs = jobs
        self._writes = writes

    @property
    def settings(self) -> StreamSettings:
        """The current settings."""
        return StreamSettings.of(self.session.settings)

    def insert(self, statement: Insert | StatementSet, args: Args = None) -> DataFrame | None:
        """Run INSERT statements; those over streams start a job each.

        Returns
        -------
        DataFrame or None
            Id and name of each job; None if no query is a stream.
        """
        settings = self.settings
        inserts = statement.inserts if isinstance(statement, StatementSet) else (statement,)
        ready: list[_Start] = []
        batches: list[tuple[Insert, InsertRows | MessageRows]] = []
        for insert in inserts:
            with translate_analysis_errors(insert.query):
                rows = self._writes.insert_rows(insert, args)
                if rows.frame.isStreaming:
                    taken = {start.name for start in ready}
                    ready.append(self._ready(rows, settings, taken, len(inserts)))
                else:
                    batches.append((insert, rows))
        started: list[Job] = []
        try:
            for start in ready:
                job = self.jobs.start(start.begin, name=start.name, target=start.target)
                started.append(job)  # at once, to be stopped if the next one fails
            for insert, rows in batches:
                with translate_analysis_errors(insert.query):
                    self._writes.write(rows)
        except BaseException:
            for job in started:
                job.stop()
            raise
        if not started:
            return None
        return self.spark.createDataFrame([(job.id, job.name) for job in started], JOB_COLUMNS)

    def check_mode(self, statement: Delete | Merge | Update) -> None:
        """Refuse statements that change rows in place, in streaming mode.

        Raises
        ------
        UnsupportedError
            The session is in streaming mode.
        """
        if self.settings.is_streaming:
            word = type(statement).__name__.upper()
            message = (
                f"{word} of table '{statement.name}' runs as a batch: SET '{RUNTIME_MODE}' ="
                " 'batch' first. A stream only applies the deletes and updates of the table that"
                " it reads."
            )
            raise UnsupportedError(message, kind="sql_streaming", table=str(statement.name))

    def show(self) -> DataFrame:
        """Answer SHOW JOBS."""
        rows: list[tuple[Any, ...]] = [
            (
                job.id,
                job.name,
                job.status,
                job.started,
                job.batch,
                job.rows_per_second,
                job.watermark,
                job.snapshots_behind,
            )
            for job in self.jobs.all()
        ]
        return self.spark.createDataFrame(rows, JOBS)

    def stop(self, job: str) -> None:
        """Run STOP JOB."""
        self.jobs.job(job).stop()

    def _ready(
        self,
        rows: InsertRows | MessageRows,
        settings: StreamSettings,
        taken: set[str],
        count: int,
    ) -> _Start:
        """Check a job as far as possible before its start."""
        table = rows.target
        if not settings.is_streaming:
            message = (
                f"The query for table '{table}' is a stream: SET '{RUNTIME_MODE}' = 'streaming'"
                " first, so that INSERT starts a job."
            )
            raise InvalidInputError(message, kind="sql_streaming", table=table)
        if isinstance(rows, InsertRows) and rows.overwrite:
            message = (
                f"INSERT OVERWRITE of table '{table}' cannot take a stream: it would replace the"
                " table with each batch. Write INSERT INTO, or SET 'execution.runtime-mode' ="
                " 'batch'."
            )
            raise UnsupportedError(message, kind="sql_streaming", table=table)
        if settings.checkpoint_dir is None:
            message = (
                f"A job into table '{table}' needs a directory for its checkpoint, from which a"
                f" restart goes on: SET '{CHECKPOINT_DIR}' = '/a/directory/that/stays'."
            )
            raise InvalidInputError(message, kind="no_checkpoint", table=table)
        name = self._name(settings, table, taken, count)
        mode = output_mode(rows.frame)
        _check_changes(rows, mode)
        self.jobs.check_name(name)
        folder = _folder(settings.checkpoint_dir, name)
        return _Start(name, table, _beginning(rows, folder, name, mode, settings.interval_ms))

    def _name(self, settings: StreamSettings, table: str, taken: set[str], count: int) -> str:
        """Choose the name of a job, which is also its checkpoint's folder."""
        name = settings.pipeline_name or table
        if settings.pipeline_name is not None and count > 1:
            name = f"{name}.{table}"
        if not _NAME.fullmatch(name) or len(name.encode()) > NAME_MAX or name.strip(".") == "":
            message = (
                f"'{name}' cannot name a job, since its checkpoint gets a folder of that name. Use"
                f" at most {NAME_MAX} bytes, none of '/', '\\', ':', and not only dots: SET"
                f" '{PIPELINE_NAME}' = '...'."
            )
            raise InvalidInputError(message, kind="job_name", job=name)
        number = 2
        numbered = name
        while numbered in taken:
            numbered = f"{name}-{number}"
            number += 1
        return numbered


def _beginning(
    rows: InsertRows | MessageRows, folder: str, name: str, mode: str, interval_ms: int | None
) -> Callable[[], StreamingQuery]:
    """Return the function that starts the query of a job."""
    trigger = None if interval_ms is None else f"{interval_ms} milliseconds"
    if isinstance(rows, MessageRows):
        return partial(
            start_messages,
            rows.frame,
            rows.table,
            folder,
            trigger=trigger,
            mode=mode,
            query_name=name,
        )
    target = StreamTarget(rows.handle, folder, mode=mode, trigger=trigger, query_name=name)
    return partial(start_stream, rows.frame, target)


def _check_changes(rows: InsertRows | MessageRows, mode: str) -> None:
    """Refuse changes if the target cannot take them.

    Raises
    ------
    UnsupportedError
        It cannot; the message names an alternative.
    """
    table = rows.target
    if isinstance(rows, MessageRows):
        check_rows(rows.table, rows.frame.drop(ROW_KIND))
        takes_new, takes_kinds = rows.table.is_upsert, rows.table.has_changes
        what = f"messages of the format '{rows.table.value.format_name}'"
        remedy = "declare it with 'connector' = 'upsert-kafka'"
    else:
        takes_new = takes_kinds = bool(rows.handle.schema.primary_keys)
        what, remedy = "a table without one", "write to a table with a primary key"
    if mode == "update" and not takes_new:
        message = (
            f"The query for table '{table}' gives rows again when they change, which needs a"
            f" primary key: {remedy}. Or group by a window over a watermark, so that each row"
            " comes once."
        )
        raise UnsupportedError(message, kind="sql_streaming", table=table)
    if ROW_KIND in rows.frame.columns and not takes_kinds:
        message = (
            f"The query for table '{table}' gives changes of a table with a primary key, which"
            f" {what} cannot take. Select rows: WHERE {ROW_KIND} IN ('+I', '+U'), in a query that"
            f" names the columns without {ROW_KIND}; or {remedy}."
        )
        raise UnsupportedError(message, kind="sql_row_kinds", table=table)


def _folder(directory: str, name: str) -> str:
    """Return the folder of a job's checkpoint."""
    if "://" in directory or directory.startswith("file:"):
        return f"{directory.rstrip('/')}/{name}"
    return str(Path(directory).expanduser().absolute() / name)
