"""Spark behind the program: started without its noise, asked one statement at a time.

What the JVM and the Python workers write goes to a file without a name, so that the terminal and
pipes stay clean. Where Spark does not start, the end of that file is shown.
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
from tidelake.errors import NotFoundError, TidelakeError
from tidelake.maintenance.procedure import Runner
from tidelake.spark.errors.run_errors import run_in_our_words
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
_OUTPUTS = (1, 2)  # descriptors of the standard output and error


class SparkSide:
    """A Spark session for the statements of one session.

    Parameters
    ----------
    session : SqlSession
        Catalogs, the current database, what is temporary.
    master : str, optional
        Where Spark runs.
    conf : mapping of str to str
        Settings of Spark.
    notify : callable
        Takes a line about what happened beside an answer.

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
                with run_in_our_words(Query("", 0, 0)):
                    self._spark = tidelake.spark.session(APP, master=master, conf=conf)
            except TidelakeError as error:
                raise _with_log(error, log) from error
        prepare(self._spark)
        self._statements = Statements(self._spark, session)
        self._notify = notify

    @property
    def version(self) -> str:
        """Spark's version."""
        return str(self._spark.version)

    @property
    def zone(self) -> str:
        """The session's time zone, as it is now."""
        return str(self._spark.conf.get("spark.sql.session.timeZone"))

    def answer(self, statement: Statement, text: str) -> pa.RecordBatchReader | None:
        """Run a statement, and bring its rows here; None where it has none."""
        whole = statement if isinstance(statement, Query) else Query(text, 0, len(text))

        def answered() -> pa.RecordBatchReader | None:
            with run_in_our_words(whole):
                frame = self._statements.answer(statement, text)
                return collected(frame).to_reader() if frame.columns else None

        return interruptible(self._spark, answered, name=APP, finished=self._finished)

    def runner_of(self, catalog: Catalog) -> Runner:
        """What compacts the tables of a catalog on the executors."""
        return Lake(self._spark, catalog)

    def _finished(self) -> None:
        self._notify("The statement ended before it could be cancelled; what it wrote is kept.")

    def stop(self) -> None:
        """End the session, if it began here."""
        if self._is_ours:
            self._spark.stop()


@contextmanager
def _written_to(log: IO[bytes]) -> Iterator[None]:
    """Have processes that start here write to a file."""
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
    """The error with the last words of the JVM."""
    log.seek(0, os.SEEK_END)
    log.seek(max(0, log.tell() - LOG_SHOWN_MAX))
    said = log.read().decode(errors="replace").strip()
    if not said:
        return error
    return NotFoundError(f"{error.message}\nThe JVM says:\n{said}", kind=error.kind)
