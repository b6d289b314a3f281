"""Errors that Spark has a name for, and PySpark no class: a sub-query that gives several rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.java_gateway import JavaGateway, is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from tidelake.errors import InvalidInputError

_NAMED = "org.apache.spark.SparkThrowable"
_INTERNAL = "INTERNAL_ERROR"


def condition_text(error: Py4JJavaError, gateway: JavaGateway) -> str | None:
    """The text of such an error; None if it is a fault of Spark's or ours."""
    given = error.java_exception
    if not is_instance_of(gateway, given, _NAMED):
        return None
    condition = given.getCondition()
    return None if condition in (None, _INTERNAL) else str(given.getMessage())


@contextmanager
def translate_conditions() -> Iterator[None]:
    """Raise such an error as InvalidInputError, while a statement runs.

    Raises
    ------
    InvalidInputError
        The statement or a value is wrong, by Spark's words.
    """
    try:
        yield
    except Py4JJavaError as error:
        text = condition_text(error, SparkContext._gateway)
        if text is None:
            raise
        raise InvalidInputError(text, kind="sql_analysis") from error
