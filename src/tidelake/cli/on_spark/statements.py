"""Runs statements on the program's Spark session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from tidelake.cli.on_spark.quiet_session import quiet_session
from tidelake.cli.on_spark.started_jobs import StartedJobs
from tidelake.cli.output.live_answer import LiveAnswer, with_op
from tidelake.engine.tables import Catalog
from tidelake.maintenance.procedure import ProcedureRunner
from tidelake.spark.errors.run_errors import translate_run_errors
from tidelake.spark.lake import Lake
from tidelake.spark.read.collect import collected
from tidelake.spark.sessions.cancellation import interruptible
from tidelake.spark.sessions.session import is_running, prepare
from tidelake.spark.sql.statements import Statements
from tidelake.spark.streams.jobs import JobRegistry
from tidelake.spark.streams.jobs.live_rows import LiveRows
from tidelake.sql.execution.session import SqlSession
from tidelake.sql.syntax.ast import Query, Statement

APP = "tidelake sql"
INSERTED, UPDATED = "+I", "+U"


class SparkSide:
    """Runs statements on Spark.

    Parameters
    ----------
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
        self._spark = quiet_session(APP, master=master, conf=conf)
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

    def runner_of(self, catalog: Catalog) -> ProcedureRunner:
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
