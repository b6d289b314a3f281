"""The Spark session of the tests: one for each process, with settings that start queries quickly.

To compile the code of a query, and to plan it anew while it runs, takes longer than the few rows of
a test. What users have is :data:`PRODUCTION_CONF`: tests of what Spark makes of a plan ask for it
(the fixture ``production_conf``).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

import tidelake.spark

JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
PRODUCTION_CONF = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
"""Spark's own settings of what :data:`CONF` sets otherwise."""
CONF = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": JVM,
    "spark.ui.enabled": False,
    "spark.sql.adaptive.enabled": False,
    "spark.sql.codegen.wholeStage": False,
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # two, so that rows which belong together can go apart
    "spark.sql.shuffle.partitions": 2,
    # far from UTC and with summer time: what depends on the session's zone shows
    "spark.sql.session.timeZone": "America/New_York",
    "spark.log.level": "OFF",
}


def session(directory: Path, conf: Mapping[str, object] | None = None) -> SparkSession:
    """The session on two cores; a directory for the program that starts its Python."""
    os.environ["PYSPARK_PYTHON"] = python(directory)
    own = {**CONF, **(conf or {})}
    return tidelake.spark.session("tidelake tests", master="local[2]", conf=own)


def python(directory: Path) -> str:
    """The program of ``spark_python.py``, written into a directory."""
    program = directory / "python"
    source = Path(__file__).with_name("spark_python.py").read_text(encoding="utf-8")
    program.write_text(f"#!{sys.executable}\n{source}", encoding="utf-8")
    program.chmod(0o755)
    return str(program)


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
