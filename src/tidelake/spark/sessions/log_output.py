"""Log output of a new session: errors of Spark only, those of streams and tasks without a stack.

By default Spark prints ten WARN lines before it reads ``spark.log.level``. So the JVM starts with a
log4j2 file, unless the user has one. PySpark also logs each error in an SQL text as JSON with the
JVM's whole stack (7 KB), beside the exception; a notebook shows both.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import pyspark
from pyspark.logger import PySparkLogger

_OWN_FILE = Path(__file__).with_name("log4j2.properties")
_USERS_FILES = "log4j2*.*"
_LOGGED_ERRORS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def log4j_file(environ: Mapping[str, str]) -> str | None:
    """Return the URI of the log4j2 file; None if the user has one.

    Parameters
    ----------
    environ : mapping
        ``SPARK_CONF_DIR`` and ``SPARK_HOME`` give Spark's folders.

    Examples
    --------
    >>> log4j_file({})[-17:]
    'log4j2.properties'
    """
    home = environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)
    folder = Path(environ.get("SPARK_CONF_DIR") or Path(home, "conf"))
    if any(folder.glob(_USERS_FILES)):
        return None
    return _OWN_FILE.as_uri()


def leave_errors_to_exceptions() -> None:
    """Do not log errors that are raised anyway, unless a level was set."""
    for name in _LOGGED_ERRORS:
        # by PySparkLogger: the first caller decides the class of a logger
        logger = PySparkLogger.getLogger(name)
        if logger.level == logging.WARNING:  # PySpark's default
            logger.setLevel(logging.CRITICAL)
