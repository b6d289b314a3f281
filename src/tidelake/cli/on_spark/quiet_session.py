"""Starts the program's Spark session, with a terminal that stays clean.

The JVM and the Python workers write to an unnamed file. If Spark does not start, the error shows
the end of that file.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO

from pyspark.sql import SparkSession

import tidelake.spark
from tidelake.errors import NotFoundError, TidelakeError
from tidelake.spark.errors.run_errors import translate_run_errors
from tidelake.sql.syntax.ast import Query

LOG_SHOWN_MAX = 2000
_OUTPUTS = (1, 2)  # descriptors of the standard output and error


def quiet_session(app: str, *, master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """Start a session, or adopt the one of this process.

    Raises
    ------
    TidelakeError
        Spark did not start; the message shows what the JVM said.
    """
    with tempfile.TemporaryFile() as log, _written_to(log):
        try:
            with translate_run_errors(Query("", 0, 0)):
                return tidelake.spark.session(app, master=master, conf=conf)
        except TidelakeError as error:
            raise _with_log(error, log) from error


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
