"""The Spark session of the tests: one for each process, with settings that start queries quickly.

To compile the code of a query, and to plan it anew while it runs, takes longer than the few rows of
a test. What users have is :data:`PRODUCTION_CONF`: tests of what Spark makes of a plan ask for it
(the fixture ``production_conf``).
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark
from py4j import java_gateway
from pyspark.sql import SparkSession

import tidelake.spark

FLAGS = " ".join(
    [
        "-XX:TieredStopAtLevel=1",
        # what this compiler gets by itself, 48 MB, is full after a hundred tests: from then on the
        # JVM drops code and compiles it again
        "-XX:ReservedCodeCacheSize=240m",
        # the first classes outgrow what they get by itself four times, each a full collection
        "-XX:MetaspaceSize=256m",
        "-XX:+UseSerialGC",
        "-Xshare:auto",
        # an archive of other jars is left aside without a word
        "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off",
    ]
)
CLASSES = Path(pyspark.__file__).parents[4] / "spark-classes.jsa"
"""Spark's classes as a JVM maps them, where ``spark_classes.py`` has put them: in the environment
that this PySpark lies in, which may be another one's than the program's (``.venv-dbt``)."""
JVM = f"{FLAGS} -XX:SharedArchiveFile={CLASSES}" if CLASSES.is_file() else FLAGS
PRODUCTION_CONF = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
"""Spark's own settings of what :data:`CONF` sets otherwise."""
CONF = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": f"{JVM} -Xms600m -Xmn400m",
    "spark.ui.enabled": False,
    "spark.sql.adaptive.enabled": False,
    "spark.sql.codegen.wholeStage": False,
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # two, so that rows which belong together can go apart
    "spark.sql.shuffle.partitions": 2,
    # far from UTC and with summer time: what depends on the session's zone shows
    "spark.sql.session.timeZone": "America/New_York",
    "spark.log.level": "OFF",
    # the text of each plan for a page that nobody sees: short
    "spark.sql.ui.explainMode": "simple",
    # a stream that waits for rows asks its source a hundred times in a second otherwise
    "spark.sql.streaming.pollingDelay": "50ms",
}


def session(directory: Path, conf: Mapping[str, object] | None = None) -> SparkSession:
    """The session on two cores; a directory for the program that starts its Python."""
    os.environ["PYSPARK_PYTHON"] = python(directory)
    ask_once()
    own = {**CONF, **(conf or {})}
    return tidelake.spark.session("tidelake tests", master="local[2]", conf=own)


def python(directory: Path) -> str:
    """The program of ``spark_python.py``, written into a directory."""
    program = directory / "python"
    source = Path(__file__).with_name("spark_python.py").read_text(encoding="utf-8")
    program.write_text(f"#!{sys.executable}\n{source}", encoding="utf-8")
    program.chmod(0o755)
    return str(program)


@functools.cache
def ask_once() -> None:
    """Ask a JVM once which class or package a name is; PySpark asks at each use.

    Ten packages are searched for a short name, and all jars for each: a tenth of the JVM's time.
    """
    for owner in (java_gateway.JVMView, java_gateway.JavaPackage):
        owner.__getattr__ = _kept(owner.__getattr__)


def _kept(ask):
    """The question, with the classes and packages that were its answers.

    A name that is no class yet may become one, but for one in small letters: that is a package's.
    """
    known = {}

    def answer(self, name):
        place = (self._gateway_client, self.__dict__.get("_fqn"), name)
        if place not in known:
            found = ask(self, name)
            is_package = isinstance(found, java_gateway.JavaPackage) and name.islower()
            if not (is_package or isinstance(found, java_gateway.JavaClass)):
                return found
            known[place] = found
        return known[place]

    return answer


@contextlib.contextmanager
def settings(spark, conf):
    """Settings of a session, for a while."""
    before = {key: spark.conf.get(key, None) for key in conf}
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)
