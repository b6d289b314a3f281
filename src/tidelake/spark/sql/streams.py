"""Runs statements in streaming mode: INSERT starts a job, others list and stop jobs.

1. The query of an INSERT becomes a stream (:mod:`tidelake.spark.sql.queries`), its columns those of
   the table as in a batch (:mod:`tidelake.spark.sql.writes`).
2. The job's name is ``pipeline.name``, or the table's; its checkpoint is the folder of that name in
   ``execution.checkpointing.dir``. The same statement started again goes on where it was.
3. Of a statement set all queries are analysed before the first starts; if one does not start, those
   that did are stopped. Each has a checkpoint of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.spark.errors.analysis_errors import translate_analysis_errors
from tidelake.spark.jobs import Job, JobRegistry
from tidelake.spark.jobs.output_mode import output_mode
from tidelake.spark.sql.queries import Args
from tidelake.spark.sql.writes import InsertRows, StatementWrites
from tidelake.spark.streamwrite.start import StreamTarget, start_stream
from tidelake.sql.execution.session import ForeignTable, SqlSession
from tidelake.sql.execution.stream_settings import (
    CHECKPOINT_DIR,
    PIPELINE_NAME,
    RUNTIME_MODE,
    StreamSettings,
)
from tidelake.sql.query.row_kinds import ROW_KIND
from tidelake.sql.syntax.ast import Insert, StatementSet

__all__ = ["StatementStreams"]

_NAME = re.compile(r"[\w. -]+")
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
    rows: InsertRows
    mode: str


class StatementStreams:
    """The jobs of one session's statements.

    Parameters
    ----------
    spark : SparkSession
        Where they run.
    session : SqlSession
        Its settings.
    writes : StatementWrites
        Gives the rows of an INSERT.
    jobs : JobRegistry
        Keeps the jobs.
    """

    def __init__(
        self, spark: SparkSession, session: SqlSession, writes: StatementWrites, jobs: JobRegistry
    ) -> None:
        self.spark = spark
        self.session = session
        self.jobs = jobs
        self._writes = writes

    @property
    def settings(self) -> StreamSettings:
        """How statements run now."""
        return StreamSettings.of(self.session.settings)

    def insert(self, statement: Insert | StatementSet, args: Args = None) -> DataFrame | None:
        """Run INSERT statements; those over streams start a job each.

        Parameters
        ----------
        statement : Insert or StatementSet
            One, or several.
        args : optional
            Values of parameters.

        Returns
        -------
        DataFrame or None
            Id and name of each job; None if no query is a stream.
        """
        settings = self.settings
        inserts = statement.inserts if isinstance(statement, StatementSet) else (statement,)
        ready: list[_Start] = []
        batches: list[tuple[Insert, InsertRows]] = []
        for insert in inserts:
            with translate_analysis_errors(insert.query):
                if isinstance(self.session.find_temporary(insert.name), ForeignTable):
                    self._writes.insert(insert, args)
                    continue
                rows = self._writes.insert_rows(insert, args)
                if rows.frame.isStreaming:
                    taken = {start.name for start in ready}
                    ready.append(self._ready(insert, rows, settings, taken, len(inserts)))
                else:
                    batches.append((insert, rows))
        for insert, rows in batches:
            with translate_analysis_errors(insert.query):
                self._writes.write(rows)
        if not ready:
            return None
        started: list[Job] = []
        try:
            for start in ready:
                job = self._start(start, settings)
                started.append(job)  # at once, to be stopped if the next one fails
        except BaseException:
            for job in started:
                job.stop()
            raise
        return self.spark.createDataFrame([(job.id, job.name) for job in started], JOB_COLUMNS)

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
        statement: Insert,
        rows: InsertRows,
        settings: StreamSettings,
        taken: set[str],
        count: int,
    ) -> _Start:
        table = rows.handle.identifier
        if not settings.is_streaming:
            message = (
                f"The query for table '{table}' is a stream: SET '{RUNTIME_MODE}' = 'streaming'"
                " first, so that INSERT starts a job."
            )
            raise InvalidInputError(message, kind="sql_streaming", table=table)
        if statement.overwrite:
            message = (
                f"INSERT OVERWRITE of table '{table}' cannot take a stream: it would replace the"
                " table with each batch. Write INSERT INTO, or SET 'execution.runtime-mode' ="
                " 'batch'."
            )
            raise UnsupportedError(message, kind="sql_streaming", table=table)
        if settings.checkpoint_dir is None:
            message = (
                f"A job into table '{table}' needs a directory for its checkpoint, without which it"
                f" could not be started again: SET '{CHECKPOINT_DIR}' = '/a/directory/that/stays'."
            )
            raise InvalidInputError(message, kind="no_checkpoint", table=table)
        name = self._name(settings, table, taken, count)
        mode = output_mode(rows.frame)
        keys = rows.handle.schema.primary_keys
        if mode == "update" and not keys:
            message = (
                f"The query for table '{table}' gives rows anew when they change, which a table"
                " without a primary key cannot take. Group by a window over a watermark, so that"
                " each row comes once, or write to a table with a primary key."
            )
            raise UnsupportedError(message, kind="sql_streaming", table=table)
        if ROW_KIND in rows.frame.columns and not keys:
            message = (
                f"The query for table '{table}' gives changes of a table with a primary key, which"
                f" a table without one cannot take. Say which rows: WHERE {ROW_KIND} IN ('+I',"
                f" '+U'), in a query that names the columns without {ROW_KIND}."
            )
            raise UnsupportedError(message, kind="sql_row_kinds", table=table)
        self.jobs.check_name(name)
        return _Start(name, rows, mode)

    def _name(self, settings: StreamSettings, table: str, taken: set[str], count: int) -> str:
        """The name of a job, which is its checkpoint's folder."""
        name = settings.pipeline_name or table
        if settings.pipeline_name is not None and count > 1:
            name = f"{name}.{table}"
        if not _NAME.fullmatch(name) or len(name) > NAME_MAX or name.strip(".") == "":
            message = (
                f"'{name}' cannot name a job: its checkpoint has a folder of that name. Give"
                f" letters, digits, '_', '-', '.' and blanks, SET '{PIPELINE_NAME}' = '...'."
            )
            raise InvalidInputError(message, kind="job_name", job=name)
        number = 2
        numbered = name
        while numbered in taken:
            numbered = f"{name}-{number}"
            number += 1
        return numbered

    def _start(self, start: _Start, settings: StreamSettings) -> Job:
        handle = start.rows.handle
        interval = settings.interval_ms
        assert settings.checkpoint_dir is not None
        target = StreamTarget(
            handle,
            _folder(settings.checkpoint_dir, start.name),
            mode=start.mode,
            trigger=None if interval is None else f"{interval} milliseconds",
            query_name=start.name,
        )
        return self.jobs.start(
            lambda: start_stream(start.rows.frame, target),
            name=start.name,
            target=handle.identifier,
        )


def _folder(directory: str, name: str) -> str:
    """The folder of a job's checkpoint."""
    if "://" in directory or directory.startswith("file:"):
        return f"{directory.rstrip('/')}/{name}"
    return str(Path(directory).expanduser().absolute() / name)
