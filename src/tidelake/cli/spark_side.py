"""The program's Spark session.

The JVM and the Python workers write to an unnamed file, so that the terminal and pipes stay clean.
If Spark does not start, the error shows the end of that file.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO

import pyarrow as pa

import tidelake.spark
from tidelake.catalog import Catalog
from tidelake.cli.output.live_answer import LiveAnswer, with_op
from tidelake.cli.started_jobs import StartedJobs
from tidelake.errors import NotFoundError, TidelakeError
from tidelake.maintenance.procedure import Runner
from tidelake.spark.errors.run_errors import translate_run_errors
from tidelake.spark.jobs import JobRegistry
from tidelake.spark.jobs.live_rows import LiveRows
from tidelake.spark.lake import Lake
from tidelake.spark.read.collect import collected
from tidelake.spark.sessions.cancellation import interruptible
from tidelake.spark.sessions.session import is_running, prepare
from tidelake.spark.sql.statements import Statements
from tidelake.sql.execution.session import SqlSession
from tidelake.sql.syntax.ast import Query, Statement

__all__ = ["SparkSide"]

APP = "tidelake sql"
LOG_SHOWN_MAX = 2000
INSERTED, UPDATED = "+I", "+U"
_OUTPUTS = (1, 2)  # descriptors of the standard output and error


class SparkSide:
    """Runs statements on Spark.

    Parameters
    ----------
    session : SqlSession
        Catalogs, current database, temporary tables.
    master : str, optional
        Spark's master.
    conf : mapping of str to str
        Spark's settings.
    notify : callable
        Takes a line for the user.

    Raises
    ------
    TidelakeError
        Spark did not start.
    """

    def __init__(
        self,
        session: SqlSession,
        *,
        master: str | None,
        conf: Mapping[str, str],
        notify: Callable[[str], None],
    ) -> None:
        self._is_ours = not is_running()
        with tempfile.TemporaryFile() as log, _written_to(log):
            try:
                with translate_run_errors(Query("", 0, 0)):
                    self._spark = tidelake.spark.session(APP, master=master, conf=conf)
            except TidelakeError as error:
                raise _with_log(error, log) from error
        prepare(self._spark)
        self._started = StartedJobs(notify)
        jobs = JobRegistry(self._spark, session.catalog.env.clock, on_start=self._started.add)
        self._statements = Statements(self._spark, session, jobs)
        self._notify = notify

    @property
    def version(self) -> str:
        """Spark's version."""
        return str(self._spark.version)

    @property
    def zone(self) -> str:
        """The session's current time zone."""
        return str(self._spark.conf.get("spark.sql.session.timeZone"))

    def answer(self, statement: Statement, text: str) -> pa.RecordBatchReader | LiveAnswer | None:
        """Run a statement; collect its rows or return those of a stream; None without rows."""
        whole = statement if isinstance(statement, Query) else Query(text, 0, len(text))

        def answered() -> pa.RecordBatchReader | LiveAnswer | None:
            with translate_run_errors(whole):
                frame = self._statements.answer(statement, text)
                if frame.isStreaming:
                    return _Changes(LiveRows(frame))
                return collected(frame).to_reader() if frame.columns else None

        return interruptible(self._spark, answered, name=APP, finished=self._finished)

    def wait_for_jobs(self) -> None:
        """Wait until the jobs of this program have ended, one has failed, or Ctrl-C."""
        self._started.wait()

    def runner_of(self, catalog: Catalog) -> Runner:
        """Return what compacts a catalog's tables on the executors."""
        return Lake(self._spark, catalog)

    def _finished(self) -> None:
        self._notify("The statement ended before it was cancelled: its changes are committed.")

    def stop(self) -> None:
        """Stop the jobs, and the session if this program started it."""
        self._started.stop()
        if self._is_ours:
            self._spark.stop()


class _Changes:
    """The rows of a stream with the kind of each change."""

    def __init__(self, rows: LiveRows) -> None:
        self._rows = rows
        self._kind = INSERTED if rows.mode == "append" else UPDATED

    def __enter__(self) -> LiveAnswer:
        return self

    def __exit__(self, *_: object) -> None:
        self._rows.close()

    def __iter__(self) -> Iterator[pa.Table]:
        for batch in self._rows:
            yield with_op(batch, self._kind)


@contextmanager
def _written_to(log: IO[bytes]) -> Iterator[None]:
    """Redirect the output of child processes to a file."""
    saved = [os.dup(output) for output in _OUTPUTS]
    for output in _OUTPUTS:
        os.dup2(log.fileno(), output)
    try:
        yield
    finally:
        for output, own in zip(_OUTPUTS, saved, strict=True):
            os.dup2(own, output)
            os.close(own)


def _with_log(error: TidelakeError, log: IO[bytes]) -> TidelakeError:
    """Add the end of the JVM's log to an error."""
    log.seek(0, os.SEEK_END)
    log.seek(max(0, log.tell() - LOG_SHOWN_MAX))
    tail = log.read().decode(errors="replace").strip()
    if not tail:
        return error
    return NotFoundError(f"{error.message}\nThe JVM says:\n{tail}", kind=error.kind)
