"""Errors of Spark's analysis with a short message: no plan, no stack, no generated name."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    ParseException,
    PySparkException,
    SparkRuntimeException,
)
from pyspark.logger import PySparkLogger

from tidelake.errors import InvalidInputError, TidelakeError, near_names, shortened
from tidelake.spark.expression.store_assignment import spark_overflow_error
from tidelake.sql.syntax.ast import Query
from tidelake.sql.syntax.tokens import error_at

_REFUSALS = (
    AnalysisException,
    IllegalArgumentException,
    ParseException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    SparkRuntimeException,
)
"""Spark's errors about a query or a value in it."""

_CONDITION = re.compile(r"^\s*\[[A-Z0-9_.]+\]\s*")
_TAIL = re.compile(r"\s*(SQLSTATE: \w+.*|; line \d+ pos \d+.*|;\s*\n.*|\n==.*)$", re.DOTALL)
_LOGGER = "SQLQueryContextLogger"
_UNRESOLVED = "UNRESOLVED_COLUMN"
_OWN_VIEW = re.compile(r"`?_pyspark_\w+`?\.")


class _Thread(threading.local):
    """True while a thread runs a statement: PySpark must not log its error with the stack."""

    is_ours = False


_THREAD = _Thread()


def _is_logged(_record: logging.LogRecord) -> bool:
    return not _THREAD.is_ours


@contextmanager
def translate_analysis_errors(query: Query, columns: Sequence[str] = ()) -> Iterator[None]:
    """Raise Spark's errors about a query as TidelakeError, with the position.

    Parameters
    ----------
    columns : sequence of str
        All columns of its tables; Spark gets only some and would suggest wrong ones.

    Raises
    ------
    InvalidInputError
        Spark's analysis or parser refused the query, or a value does not fit what it does.
    """
    # by PySparkLogger: the first caller decides the class of a logger
    PySparkLogger.getLogger(_LOGGER).addFilter(_is_logged)  # adding it again does nothing
    was_ours, _THREAD.is_ours = _THREAD.is_ours, True
    try:
        yield
    except _REFUSALS as error:
        raise translated_error(error, query, columns) from error
    finally:
        _THREAD.is_ours = was_ours


@contextmanager
def translate_value_range_errors() -> Iterator[None]:
    """Raise that a value does not fit its column as InvalidInputError."""
    try:
        yield
    except PySparkException as error:
        refused = spark_overflow_error(str(error))
        if refused is None:
            raise
        raise refused from error


def translated_error(
    error: PySparkException, query: Query, columns: Sequence[str] = ()
) -> TidelakeError:
    """Make the error for Spark's error about a query."""
    refused = spark_overflow_error(str(error))
    if refused is not None:
        return refused
    condition = error.getCondition() or ""
    reason = _TAIL.sub("", _CONDITION.sub("", str(error)))
    reason = _OWN_VIEW.sub("", " ".join(reason.split())).rstrip(". ") + "."
    if condition.startswith(_UNRESOLVED) and columns:
        name = str((error.getMessageParameters() or {}).get("objectName", ""))
        wanted = name.rpartition("`.`")[2].strip("`")
        near = near_names(wanted, dict.fromkeys(columns))
        reason = f"There is no column {name}.{near or f' There are: {_listed(columns)}.'}"
    position = _position(error, query)
    if position is None:
        return InvalidInputError(reason, kind="sql_analysis", condition=condition)
    return error_at(query.text, position, reason, kind="sql_analysis", condition=condition)


def _listed(columns: Sequence[str]) -> str:
    return shortened(", ".join(dict.fromkeys(columns)))


def _position(error: PySparkException, query: Query) -> int | None:
    """Offset of the text that Spark reports, if the query has it once."""
    contexts = error.getQueryContext() or []
    fragment = contexts[0].fragment() if contexts else ""
    if not fragment or query.sql.count(fragment) != 1:
        return None
    return query.start + query.sql.index(fragment)
