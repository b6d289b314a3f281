"""Errors of Spark's analysis in the user's words: no plan, no stack, no name that we made up."""

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

__all__ = ["in_our_words", "our_error", "values_in_our_words"]

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
"""What Spark says of a query, or of a value that the query makes something of."""

_CONDITION = re.compile(r"^\s*\[[A-Z0-9_.]+\]\s*")
_TAIL = re.compile(r"\s*(SQLSTATE: \w+.*|; line \d+ pos \d+.*|;\s*\n.*|\n==.*)$", re.DOTALL)
_LOGGER = "SQLQueryContextLogger"
_UNRESOLVED = "UNRESOLVED_COLUMN"
_OWN_VIEW = re.compile(r"`?_pyspark_\w+`?\.")


class _Thread(threading.local):
    """Whether a thread runs a query of ours, whose refusal is not to be printed with its stack."""

    is_ours = False


_THREAD = _Thread()


def _is_told(_record: logging.LogRecord) -> bool:
    return not _THREAD.is_ours


@contextmanager
def in_our_words(query: Query, columns: Sequence[str] = ()) -> Iterator[None]:
    """Raise what Spark says against a query as an error of ours, which shows the place.

    Parameters
    ----------
    query : Query
        The query.
    columns : sequence of str
        Those of its tables: Spark, which is given only some, would offer wrong ones.

    Raises
    ------
    InvalidInputError
        Spark's analysis or parser refused the query, or a value does not fit what it does.
    """
    # by Spark's own class: whoever asks first for a logger decides of which class it is
    PySparkLogger.getLogger(_LOGGER).addFilter(_is_told)  # once, however often it is added
    was_ours, _THREAD.is_ours = _THREAD.is_ours, True
    try:
        yield
    except _REFUSALS as error:
        raise our_error(error, query, columns) from error
    finally:
        _THREAD.is_ours = was_ours


@contextmanager
def values_in_our_words() -> Iterator[None]:
    """Raise that a value does not fit its column as an error of ours, and all else as it is."""
    try:
        yield
    except PySparkException as error:
        refused = spark_overflow_error(str(error))
        if refused is None:
            raise
        raise refused from error


def our_error(error: PySparkException, query: Query, columns: Sequence[str] = ()) -> TidelakeError:
    """Make the error of ours for what Spark says against a query.

    Parameters
    ----------
    error : PySparkException
        Of its analysis, its parser, or of a value that it met.
    query, columns
        As of :func:`in_our_words`.
    """
    refused = spark_overflow_error(str(error))
    if refused is not None:
        return refused
    condition = error.getCondition() or ""
    said = _TAIL.sub("", _CONDITION.sub("", str(error)))
    said = _OWN_VIEW.sub("", " ".join(said.split())).rstrip(". ") + "."
    if condition.startswith(_UNRESOLVED) and columns:
        name = str((error.getMessageParameters() or {}).get("objectName", ""))
        wanted = name.rpartition("`.`")[2].strip("`")
        near = near_names(wanted, dict.fromkeys(columns))
        said = f"There is no column {name}.{near or f' There are: {_listed(columns)}.'}"
    place = _place(error, query)
    if place is None:
        return InvalidInputError(said, kind="sql_analysis", condition=condition)
    return error_at(query.text, place, said, kind="sql_analysis", condition=condition)


def _listed(columns: Sequence[str]) -> str:
    return shortened(", ".join(dict.fromkeys(columns)))


def _place(error: PySparkException, query: Query) -> int | None:
    """Where the words stand that Spark complains of, if the query holds them once."""
    contexts = error.getQueryContext() or []
    fragment = contexts[0].fragment() if contexts else ""
    if not fragment or query.sql.count(fragment) != 1:
        return None
    return query.start + query.sql.index(fragment)
