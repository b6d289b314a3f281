"""What all tests on Spark share, beside the session (``tests/conftest.py``)."""

from __future__ import annotations

import pytest
import quick_spark
from unit.kafka.conftest import Topics

import tidelake.spark

pytestmark = pytest.mark.spark


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/spark/" in str(item.path):
            item.add_marker(pytest.mark.spark)


@pytest.fixture
def production_conf(spark):
    """Compiled code and plans that change while they run, as users have them."""
    before = {key: spark.conf.get(key) for key in quick_spark.PRODUCTION_CONF}
    for key, value in quick_spark.PRODUCTION_CONF.items():
        spark.conf.set(key, value)
    yield
    for key, value in before.items():
        spark.conf.set(key, value)


@pytest.fixture
def lake(spark, tmp_path):
    """A warehouse of its own for each test."""
    return tidelake.spark.attach(spark, tmp_path / "warehouse")


@pytest.fixture(scope="module")
def topics(broker):
    return Topics(broker.servers)


@pytest.fixture
def declare(lake, topics):
    """Declare a table of Kafka by its columns and options."""

    def make(name, columns, topic, **given):
        options = {
            "connector": "kafka",
            "topic": topic,
            "properties.bootstrap.servers": topics.servers,
            "format": "json",
            "scan.startup.mode": "earliest-offset",
            **given,
        }
        texts = ", ".join(f"'{k}' = '{v}'" for k, v in options.items() if v is not None)
        lake.sql(f"CREATE TEMPORARY TABLE {name} ({columns}) WITH ({texts})")

    return make
