"""One small local Spark session for all tests of this directory."""

from __future__ import annotations

import pytest

import tidelake.spark

pytestmark = pytest.mark.spark

CONF = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": False,
    "spark.sql.shuffle.partitions": 2,
    # far from UTC and with summer time: what depends on the session's zone shows
    "spark.sql.session.timeZone": "America/New_York",
    "spark.log.level": "OFF",
}


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/spark/" in str(item.path):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark():
    """A session on two cores."""
    session = tidelake.spark.session("tidelake tests", master="local[2]", conf=CONF)
    yield session
    session.stop()


@pytest.fixture
def lake(spark, tmp_path):
    """A warehouse of its own for each test."""
    return tidelake.spark.attach(spark, tmp_path / "warehouse")
