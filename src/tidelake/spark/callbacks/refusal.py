"""Carries errors from a callback to the user: a Java exception with our text.

py4j passes an exception of a callback to Java as a Python traceback in a ``Py4JException``, which
the user sees with a Java stack below. Only a ``Py4JJavaError`` can carry a Java exception instead,
and only with ``propagate_java_exceptions``, a setting of the whole process: it would also change
what a user's own ``foreachBatch`` raises. So the setting becomes a value that is true only while
*our* error is raised.

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

AnalysisException does not suit all: it is a checked Java exception, and a proxy may raise only
those that the interface's method declares. ALTER TABLE differs because there Spark turns an
IllegalArgumentException into a SparkException, which PySpark shows with the whole Java stack.
"""

from __future__ import annotations

import functools
import logging
import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidelake.errors import TidelakeError, UnsupportedError
from tidelake.spark.errors.conditions import condition_text
from tidelake.spark.errors.passed_errors import keep_error

UNSUPPORTED = "UnsupportedOperation"
_KINDS = (UNSUPPORTED, "IllegalArgument")
_PLAN = re.compile(r"; line \d+ pos \d+;\n.*", re.DOTALL)
"""What an analysis adds to its message: names there are those that a callback made."""
CALLBACK_LOGGER = "py4j.clientserver"

R = TypeVar("R")


class JavaRefusal(Py4JJavaError):  # type: ignore[misc]  # py4j carries no types
    """A Java exception that a callback raises."""

    def __init__(self, java_exception: Any, text: str) -> None:
        super().__init__(text, java_exception)
        self.text = text

    def __str__(self) -> str:
        # py4j's own __str__ fetches a stack from the JVM
        return self.text


def refused(error: TidelakeError, gateway: Any, *, kinds: tuple[str, str] = _KINDS) -> JavaRefusal:
    """Our error as Java's: the first kind if it is not covered, else the second."""
    keep_error(error)
    kind = kinds[0] if isinstance(error, UnsupportedError) else kinds[1]
    made = gateway.java(f"java.lang.{kind}Exception")(error.message)
    return JavaRefusal(made, error.message)


def guarded(method: Callable[..., R]) -> Callable[..., R]:
    """A callback whose errors reach the user with our messages."""

    @functools.wraps(method)
    def call(self: Any, *args: Any) -> R:
        try:
            return method(self, *args)
        except JavaRefusal:
            raise
        except TidelakeError as error:
            raise refused(error, self.gateway) from error
        except PySparkException as error:
            # an error of Spark inside the callback: only its text, because checked exceptions must
            # not leave the callback
            raise _as_argument(_PLAN.sub("", str(error)), self.gateway) from error
        except Py4JJavaError as error:  # PySpark has no class for what a query of ours meets
            text = condition_text(error, self.gateway.spark.sparkContext._gateway)
            if text is None:
                raise
            raise _as_argument(text, self.gateway) from error

    return call


def _as_argument(text: str, gateway: Any) -> JavaRefusal:
    return JavaRefusal(gateway.java("java.lang.IllegalArgumentException")(text), text)


class _WhileRefusing:
    """True while py4j reads it for an error of ours; otherwise the original setting."""

    def __init__(self, *, before: bool) -> None:
        self._before = before

    def __bool__(self) -> bool:
        return self._before or isinstance(sys.exc_info()[1], JavaRefusal)


def _is_no_refusal(record: logging.LogRecord) -> bool:
    raised = record.exc_info[1] if record.exc_info else None
    return not isinstance(raised, JavaRefusal)


def let_refusals_through(spark: SparkSession) -> None:
    """Make py4j pass the Java exceptions of our callbacks to the JVM; once per process."""
    parameters = spark.sparkContext._gateway.callback_server_parameters
    before = parameters.propagate_java_exceptions
    if not isinstance(before, _WhileRefusing):
        parameters.propagate_java_exceptions = _WhileRefusing(before=bool(before))
        # py4j logs every exception of a callback with its stack
        logging.getLogger(CALLBACK_LOGGER).addFilter(_is_no_refusal)
