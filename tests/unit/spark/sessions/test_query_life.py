"""A query has ended when Spark says so, or is gone; not when one call fails."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from tidelake.spark.sessions.query_life import SILENT_LOOKS_MAX, QueryLife


class Jvm:
    """A session whose JVM answers, or fails."""

    def __init__(self):
        self.answer, self.has_exited = True, False
        process = SimpleNamespace(poll=lambda: 1 if self.has_exited else None)
        self.sparkContext = SimpleNamespace(_jsc=1, _gateway=SimpleNamespace(proc=process))
        context = SimpleNamespace(isStopped=lambda: not self._said())
        streams = SimpleNamespace(get=self._query)
        self._jsparkSession = SimpleNamespace(streams=lambda: streams, sparkContext=lambda: context)

    def _query(self, query_id):
        assert query_id == "q"
        return None if self._said() is None else SimpleNamespace(isActive=self._said)

    def _said(self):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def jvm():
    return Jvm()


@pytest.mark.parametrize("query_id", ["q", None])
def test_spark_says_whether_it_runs(jvm, query_id):
    life = QueryLife(jvm, query_id)
    assert not life.has_ended()
    jvm.answer = False
    assert life.has_ended()


def test_a_query_that_spark_does_not_know_has_ended(jvm):
    jvm.answer = None
    assert QueryLife(jvm, "q").has_ended()


@pytest.mark.parametrize(
    "failure", [Py4JError("broken"), Py4JNetworkError("broken"), PySparkException("x"), OSError()]
)
def test_one_call_that_fails_ends_nothing_and_many_do(jvm, failure):
    life = QueryLife(jvm, "q")
    for _ in range(3):
        jvm.answer = failure
        assert not any(life.has_ended() for _ in range(SILENT_LOOKS_MAX - 1))
        jvm.answer = True
        assert not life.has_ended()
    jvm.answer = failure
    assert [life.has_ended() for _ in range(SILENT_LOOKS_MAX)][-1]


def test_a_jvm_that_has_exited_is_seen_at_once(jvm):
    jvm.answer, jvm.has_exited = Py4JNetworkError("broken"), True
    assert QueryLife(jvm, "q").has_ended()


def test_a_stopped_session_has_no_queries(jvm):
    life = QueryLife(jvm, "q")
    jvm.sparkContext._jsc = None
    assert life.has_ended()


def test_without_a_session_here_it_runs_as_long_as_the_process():
    assert not QueryLife(None, "q").has_ended()
