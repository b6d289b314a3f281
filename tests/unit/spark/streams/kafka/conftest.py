"""Topics for what Spark's streams ask of them, without Spark."""

import pytest
from unit.kafka.conftest import columns, table_on, topics

from tidelake.spark.streams.kafka.stream_cursor import TopicCursor
from tidelake.telemetry import ManualClock

__all__ = ["table_on", "topics"]


@pytest.fixture
def cursor(table_on):
    """A cursor on a topic, or on a pattern, with more options."""
    made, clock = [], ManualClock()

    def make(topic, **options):
        made.append(TopicCursor(table_on(topic, columns(id="BIGINT"), **options), clock))
        return made[-1]

    yield make
    for one in made:
        one.close()
