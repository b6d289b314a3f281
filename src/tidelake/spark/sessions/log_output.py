"""What a session that we start prints: errors of Spark's, no lines about its start.

Spark's own default prints ten lines of WARN before it has read ``spark.log.level``, so the JVM is
given a log4j2 file from the beginning, unless there is one of the user's. PySpark logs each error
that names a place in an SQL text once more as JSON with the JVM's whole stack (7 KB), beside the
exception that it raises; in a notebook both are shown.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import pyspark
from pyspark.logger import PySparkLogger

__all__ = ["leave_errors_to_exceptions", "log4j_file"]

_OWN_FILE = Path(__file__).with_name("log4j2.properties")
_USERS_FILES = "log4j2*.*"
_LOGGED_ERRORS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def log4j_file(environ: Mapping[str, str]) -> str | None:
    """The URI of our log4j2 file; none where Spark finds one of the user's.

    Parameters
    ----------
    environ : mapping
        ``SPARK_CONF_DIR`` and ``SPARK_HOME`` say where Spark looks.

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
    """Do not log what is raised anyway, unless somebody set a level."""
    for name in _LOGGED_ERRORS:
        # by Spark's own class: whoever asks first for a logger decides its class
        logger = PySparkLogger.getLogger(name)
        if logger.level == logging.WARNING:  # as PySpark makes it
            logger.setLevel(logging.CRITICAL)
