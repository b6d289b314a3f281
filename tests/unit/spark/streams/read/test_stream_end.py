"""A query of several streams ends with the last of them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tidelake.spark.streams.read import stream_end
from tidelake.spark.streams.read.stream_end import EndedSources, StreamEnd


@pytest.fixture
def world(monkeypatch):
    """A JVM whose queries have so many sources each; which were stopped."""
    monkeypatch.setattr(stream_end, "_ENDED", EndedSources())
    counts, stopped = {"two": 2, "one": 1}, []

    def query_of(query_id):
        if query_id not in counts:
            return None
        sources = SimpleNamespace(size=lambda: counts[query_id])
        return SimpleNamespace(uniqueSources=lambda: sources, stop=lambda: stopped.append(query_id))

    queries = SimpleNamespace(activeStreamingQueries=lambda: SimpleNamespace(get=query_of))
    java = {
        "java.util.UUID": SimpleNamespace(fromString=lambda text: text),
        "java.util.concurrent.CompletableFuture": SimpleNamespace(runAsync=lambda one: one.run()),
    }
    session = SimpleNamespace(sharedState=lambda: queries)
    gateway = SimpleNamespace(spark=SimpleNamespace(_jsparkSession=session), java=java.get)
    return gateway, stopped


def test_the_last_stream_ends_the_query_once(world):
    gateway, stopped = world
    first, second = StreamEnd(gateway, "two", 1), StreamEnd(gateway, "two", 2)
    for _ in range(3):  # asked with each trigger
        first.reach()
    assert stopped == []
    StreamEnd(gateway, "one", 3).reach()
    assert stopped == ["one"]
    second.reach()
    second.reach()
    assert stopped == ["one", "two"]


def test_what_ended_in_an_earlier_run_does_not_count(world):
    gateway, stopped = world
    first = StreamEnd(gateway, "two", 1)
    first.reach()
    first.close()
    StreamEnd(gateway, "two", 2).reach()
    assert stopped == []
    StreamEnd(gateway, "two", 3).reach()
    assert stopped == ["two"]


def test_a_query_that_is_not_known_is_not_stopped(world):
    gateway, stopped = world
    for query_id in (None, "gone"):
        end = StreamEnd(gateway, query_id, 1)
        end.reach()
        end.close()
    assert stopped == []
