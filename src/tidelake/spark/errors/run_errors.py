"""Failures of a running query as errors with a short message, without the Java stack."""

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
from tidelake.spark.errors.analysis_errors import translate_analysis_errors, translated_error
from tidelake.spark.errors.passed_errors import passed_error
from tidelake.sql.syntax.ast import Query

_OF_DATA = (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    SparkRuntimeException,
)
_TRACEBACK = "Traceback (most recent call last)"
_WORKER = "An exception was thrown from the Python worker:"
_RAISED = re.compile(r"^((?:\w+\.)*(\w+)): (.*)", re.MULTILINE | re.DOTALL)
_STACK = re.compile(r"\n\s+at [\w.$]+\(|\nDriver stacktrace|\nJVM stacktrace|\n\s*\n")
_CAUSE = re.compile(r"Caused by: (?:[\w.$]+: )?(.+)")
_OF_STREAM = re.compile(r"^\s*\[STREAM_FAILED\] Query \[id = [^\]]*\] terminated with exception: ")
_STATE = re.compile(r"\s*SQLSTATE: \w+(?=\s|$).*", re.DOTALL)
MESSAGE_MAX = 2000


@contextmanager
def translate_run_errors(query: Query) -> Iterator[None]:
    """Raise failures of a running query as TidelakeError.

    Raises
    ------
    InvalidInputError
        The query or a value is wrong; the message shows the position if Spark gives it.
    TidelakeError
        From an executor, or Spark failed.
    """
    try:
        with translate_analysis_errors(query):
            yield
    except _OF_DATA as error:
        raise translated_error(error, query) from error
    except PythonException as error:
        raise _of_executor(str(error)) from error
    except (PySparkException, Py4JError) as error:
        raise _failed(str(error)) from error


def _of_executor(text: str) -> TidelakeError:
    """The error of a Python task: all that it says, or the end of its traceback."""
    said = text.rpartition(_TRACEBACK if _TRACEBACK in text else _WORKER)[2]
    found = _RAISED.search(said.lstrip())
    if found is None:
        return _failed(text)
    reason = _STACK.split(found[3])[0].strip()
    known = getattr(errors, found[2], None)
    if isinstance(known, type) and issubclass(known, TidelakeError):
        error: TidelakeError = known(reason)
        return error
    return _failed(f"{found[2]}: {reason}")


def _failed(text: str) -> TidelakeError:
    """Make the error for a failure of Spark: its first lines and the last cause."""
    causes = _CAUSE.findall(text)
    first = _STACK.split(text)[0].strip()
    reason = first if not causes or causes[-1] in first else f"{first} ({causes[-1].strip()})"
    if "OutOfMemoryError" in text:
        message = (
            "The JVM ran out of memory: increase it (--conf spark.driver.memory=4g), or read fewer"
            f" rows. Spark says: {shortened(reason)}"
        )
        return errors.NotEnoughMemoryError(message, kind="jvm_memory")
    return TidelakeError(f"Spark failed: {shortened(reason, MESSAGE_MAX)}", kind="spark_failed")


def run_failure(error: Exception) -> TidelakeError:
    """Make the error for a job that failed and belongs to no query.

    Parameters
    ----------
    error : Exception
        What PySpark or py4j raised.
    """
    text = str(error)
    return _of_executor(text) if _is_of_worker(text) else _failed(text)


def _is_of_worker(text: str) -> bool:
    return _TRACEBACK in text or _WORKER in text


def stream_failure(error: Exception) -> TidelakeError:
    """Make the error for a query over streams that failed, from what Spark says of it.

    Parameters
    ----------
    error : Exception
        Spark's ``StreamingQueryException``, or what it raised instead; one of ours stays.
    """
    passed = error if isinstance(error, TidelakeError) else passed_error(str(error))
    if passed is not None:
        return passed
    text = _OF_STREAM.sub("", str(error)).strip()
    text = _STATE.sub("", text).strip()
    if _is_of_worker(text):
        return _of_executor(text)
    found = _RAISED.match(text)
    known = None if found is None else getattr(errors, found[2], None)
    if found is not None and isinstance(known, type) and issubclass(known, TidelakeError):
        ours: TidelakeError = known(_STACK.split(found[3])[0].strip())
        return ours
    return _failed(text)
