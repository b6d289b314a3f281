"""Runs statements in this process if possible, else on Spark.

1. Statements on catalogs and tables (DDL, SHOW, CALL, ...) run in this process.
2. So do simple queries (:mod:`tidelake.sql.execution.kernel_query`) and INSERT of literals
   (:mod:`tidelake.sql.execution.kernel_insert`), until Spark runs. Then Spark answers all queries,
   with its views and settings.
3. Everything else starts Spark once, with the session's catalogs, current database and temporary
   tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from time import perf_counter
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pyarrow as pa

from tidelake.cli._optional import load
from tidelake.cli.output.live_answer import LiveAnswer
from tidelake.engine.env import local_zone
from tidelake.engine.tables import Catalog, open_catalog
from tidelake.errors import UnsupportedError
from tidelake.maintenance.procedure import ProcedureRunner
from tidelake.sql.execution.error_position import positioned_errors
from tidelake.sql.execution.execute import execute, needs_spark
from tidelake.sql.execution.kernel_insert import kernel_insert
from tidelake.sql.execution.kernel_query import kernel_answer
from tidelake.sql.execution.session import DEFAULT_DATABASE, SqlSession
from tidelake.sql.execution.stream_settings import StreamSettings
from tidelake.sql.execution.time_travel_clause import TIME_ZONE, named_zone
from tidelake.sql.syntax.ast import (
    Analyze,
    Delete,
    Insert,
    Merge,
    Query,
    SetProperty,
    ShowJobs,
    Statement,
    StopJob,
    Update,
)

if TYPE_CHECKING:
    from tidelake.cli.on_spark.statements import SparkSide


class Engine:
    """The session of one run of the program.

    Parameters
    ----------
    spark : bool
        Spark may start.
    notify : callable
        Takes a line for the user.

    Raises
    ------
    InvalidInputError, NotFoundError
        The warehouse or the database is wrong.
    """

    def __init__(
        self,
        warehouse: str | Catalog,
        *,
        catalog: str = "tidelake",
        database: str = DEFAULT_DATABASE,
        spark: bool = True,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        notify: Callable[[str], None] = lambda _: None,
    ) -> None:
        opened = warehouse if isinstance(warehouse, Catalog) else open_catalog(warehouse)
        self.session = SqlSession(
            opened,
            name=catalog,
            runner_of=self._runner_of,
            time_zone=lambda: named_zone(self.zone),
        )
        if database != DEFAULT_DATABASE:
            self.session.use((database,), is_catalog=False)
        self._may_start = spark
        self._master = master
        self._conf = dict(conf or {})
        self._notify = notify
        self._spark: SparkSide | None = None

    @property
    def zone(self) -> str:
        """Time zone for instants: that of Spark's session, or its default."""
        name = self._conf.get(TIME_ZONE) or local_zone() or "UTC"
        zone = named_zone(name if self._spark is None else self._spark.zone)
        if isinstance(zone, ZoneInfo):
            return zone.key
        return datetime.now(zone).isoformat()[-len("+00:00") :]

    @property
    def spark_runs(self) -> bool:
        """True once Spark was started."""
        return self._spark is not None

    def answer(self, statement: Statement, text: str) -> pa.RecordBatchReader | LiveAnswer | None:
        """Run a statement.

        Returns
        -------
        pyarrow.RecordBatchReader, LiveAnswer or None
            Its rows, perhaps computed lazily, or those of a stream as they come; None for a
            statement without rows.

        Raises
        ------
        TidelakeError
            The statement failed; the message shows the position.
        """
        of_spark = self.spark_runs and isinstance(statement, SetProperty | ShowJobs | StopJob)
        if not (needs_spark(statement) or of_spark):
            with positioned_errors(text, statement):
                found = execute(statement, self.session)
            return found.to_reader() if found.num_columns else None
        is_streaming = StreamSettings.of(self.session.settings).is_streaming
        if self._spark is None and isinstance(statement, Query) and not is_streaming:
            with positioned_errors(text, statement):
                reader = kernel_answer(statement, self.session, conf=self._conf)
            if reader is not None:
                return reader
        if self._spark is None and isinstance(statement, Insert):
            with positioned_errors(text, statement):
                zone = named_zone(self.zone)
                if kernel_insert(statement, self.session, conf=self._conf, zone=zone):
                    return None
        return self._on_spark(statement).answer(statement, text)

    def wait_for_jobs(self) -> None:
        """Wait until all jobs have ended.

        Raises
        ------
        TidelakeError
            One failed; the others were stopped.
        """
        if self._spark is not None:
            self._spark.wait_for_jobs()

    def close(self) -> None:
        """Stop the jobs and Spark, if it runs."""
        if self._spark is not None:
            self._spark.stop()
            self._spark = None

    def _on_spark(self, statement: Statement) -> SparkSide:
        if self._spark is None:
            if not self._may_start:
                message = (
                    f"{_describe(statement)} needs Spark: leave out --no-spark. Without Spark you"
                    " can use SHOW, DESCRIBE, CREATE, ALTER, DROP, CALL, INSERT INTO of plain"
                    " literals, and SELECT of columns or count(*) from one table, with WHERE on its"
                    " columns, and LIMIT."
                )
                raise UnsupportedError(message, kind="sql_needs_spark")
            what = "This statement needs Spark, which"
            module = load("tidelake.cli.on_spark.statements", what=what, extra="spark")
            side: type[SparkSide] = module.SparkSide
            self._notify("Spark starts ...")
            began = perf_counter()
            self._spark = side(
                self.session, master=self._master, conf=self._conf, notify=self._notify
            )
            self._notify(f"Spark {self._spark.version} runs ({perf_counter() - began:.1f} s).")
        return self._spark

    def _runner_of(self, catalog: Catalog) -> ProcedureRunner | None:
        """Return Spark's executors to compact; None for this process."""
        return None if self._spark is None else self._spark.runner_of(catalog)


def _describe(statement: Statement) -> str:
    """Name a statement in a message."""
    if isinstance(statement, Query):
        return "This query"
    if isinstance(statement, Insert | Update | Delete | Merge | Analyze):
        return f"This {type(statement).__name__.upper()}"
    return "This statement"
