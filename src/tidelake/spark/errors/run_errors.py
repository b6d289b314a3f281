"""Failures of a running query in the user's words: what was wrong, not where Java noticed it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    PySparkException,
    PythonException,
    SparkRuntimeException,
)

from tidelake import errors
from tidelake.errors import TidelakeError, shortened
from tidelake.spark.errors.analysis_errors import in_our_words, our_error
from tidelake.sql.syntax.ast import Query

__all__ = ["run_in_our_words"]

_OF_DATA = (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    SparkRuntimeException,
)
_RAISED = re.compile(r"^((?:\w+\.)*(\w+)): (.*)", re.MULTILINE | re.DOTALL)
_STACK = re.compile(r"\n\s+at [\w.$]+\(|\nDriver stacktrace|\nJVM stacktrace|\n\s*\n")
_CAUSE = re.compile(r"Caused by: (?:[\w.$]+: )?(.+)")
MESSAGE_MAX = 2000


@contextmanager
def run_in_our_words(query: Query) -> Iterator[None]:
    """Raise what Spark says while it runs a query as an error of ours.

    Parameters
    ----------
    query : Query
        The text that runs.

    Raises
    ------
    InvalidInputError
        The query, or a value that it met, is wrong; the place is shown where Spark knows it.
    TidelakeError
        An executor raised one of ours, or Spark failed.
    """
    try:
        with in_our_words(query):
            yield
    except _OF_DATA as error:
        raise our_error(error, query) from error
    except PythonException as error:
        raise _of_executor(str(error)) from error
    except (PySparkException, Py4JError) as error:
        raise _failed(str(error)) from error


def _of_executor(text: str) -> TidelakeError:
    """The error that a Python task raised: the last of its traceback."""
    found = _RAISED.search(text.rpartition("Traceback (most recent call last)")[2])
    if found is None:
        return _failed(text)
    said = _STACK.split(found[3])[0].strip()
    known = getattr(errors, found[2], None)
    if isinstance(known, type) and issubclass(known, TidelakeError):
        error: TidelakeError = known(said)
        return error
    return _failed(f"{found[2]}: {said}")


def _failed(text: str) -> TidelakeError:
    """The error for a failure of Spark's: its first words, and their last cause."""
    causes = _CAUSE.findall(text)
    first = _STACK.split(text)[0].strip()
    said = first if not causes or causes[-1] in first else f"{first} ({causes[-1].strip()})"
    if "OutOfMemoryError" in text:
        message = (
            "The JVM's memory ended: give it more (--conf spark.driver.memory=4g), or ask for"
            f" fewer rows. Spark says: {shortened(said)}"
        )
        return errors.NotEnoughMemoryError(message, kind="jvm_memory")
    return TidelakeError(f"Spark failed: {shortened(said, MESSAGE_MAX)}", kind="spark_failed")
