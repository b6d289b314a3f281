"""Errors on their way from a callback to the user: an exception of Java's with our text.

py4j hands an exception of a callback to Java as a Python traceback in a ``Py4JException``, which
the user sees with a Java stack below. Only a ``Py4JJavaError`` can carry a Java exception instead,
and only if ``propagate_java_exceptions`` is set, a setting of the whole process: with it, what a
user's own ``foreachBatch`` raises would change, too. So the setting becomes a value that is true
while an error of *ours* is raised.

=====================  ======================================  =====================================
Ours                   Java's                                  What the user catches
=====================  ======================================  =====================================
no such table          NoSuchTableException                    AnalysisException,
                                                               TABLE_OR_VIEW_NOT_FOUND
no such database       NoSuchNamespaceException                AnalysisException, SCHEMA_NOT_FOUND
exists already         Table-, NamespaceAlreadyExistsException AnalysisException
UnsupportedError       UnsupportedOperationException           the same of ``pyspark.errors``
all others             IllegalArgumentException                the same of ``pyspark.errors``
all of ALTER TABLE     UnsupportedOperationException           the same of ``pyspark.errors``
=====================  ======================================  =====================================

Why not AnalysisException for all: it is a checked exception of Java's, and a proxy may raise only
those that the interface's method declares. ALTER TABLE is apart because Spark makes an
IllegalArgumentException there a SparkException, which PySpark shows with Java's whole stack.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidelake.errors import TidelakeError, UnsupportedError

__all__ = ["UNSUPPORTED", "JavaRefusal", "guarded", "let_refusals_through", "refused"]

UNSUPPORTED = "UnsupportedOperation"
_KINDS = (UNSUPPORTED, "IllegalArgument")
CALLBACK_LOGGER = "py4j.clientserver"

R = TypeVar("R")


class JavaRefusal(Py4JJavaError):  # type: ignore[misc]  # py4j carries no types
    """A Java exception that a callback raises.

    Parameters
    ----------
    java_exception : JavaObject
        The exception.
    text : str
        Its message.
    """

    def __init__(self, java_exception: Any, text: str) -> None:
        super().__init__(text, java_exception)
        self.text = text

    def __str__(self) -> str:
        # py4j's own asks the JVM for a stack
        return self.text


def refused(error: TidelakeError, gateway: Any, *, kinds: tuple[str, str] = _KINDS) -> JavaRefusal:
    """An error of ours as Java's: of the first kind where it is not covered, else of the second."""
    kind = kinds[0] if isinstance(error, UnsupportedError) else kinds[1]
    made = gateway.java(f"java.lang.{kind}Exception")(error.message)
    return JavaRefusal(made, error.message)


def guarded(method: Callable[..., R]) -> Callable[..., R]:
    """A callback whose errors reach the user in our words."""

    @functools.wraps(method)
    def call(self: Any, *args: Any) -> R:
        try:
            return method(self, *args)
        except JavaRefusal:
            raise
        except TidelakeError as error:
            raise refused(error, self.gateway) from error
        except PySparkException as error:
            # what Spark refused inside of the callback: by its text, as checked exceptions may
            # not leave it
            text = str(error)
            made = self.gateway.java("java.lang.IllegalArgumentException")(text)
            raise JavaRefusal(made, text) from error

    return call


class _WhileRefusing:
    """True where py4j asks it of an error of ours; as the setting was, of any other."""

    def __init__(self, *, before: bool) -> None:
        self._before = before

    def __bool__(self) -> bool:
        return self._before or isinstance(sys.exc_info()[1], JavaRefusal)


def _is_no_refusal(record: logging.LogRecord) -> bool:
    raised = record.exc_info[1] if record.exc_info else None
    return not isinstance(raised, JavaRefusal)


def let_refusals_through(spark: SparkSession) -> None:
    """Have py4j hand the Java exceptions of our callbacks to the JVM; once per process."""
    parameters = spark.sparkContext._gateway.callback_server_parameters
    before = parameters.propagate_java_exceptions
    if not isinstance(before, _WhileRefusing):
        parameters.propagate_java_exceptions = _WhileRefusing(before=bool(before))
        # py4j logs every exception of a callback with its stack
        logging.getLogger(CALLBACK_LOGGER).addFilter(_is_no_refusal)
