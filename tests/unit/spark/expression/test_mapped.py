"""Errors of tasks reach the user by their message; the frames that help stay."""

import os
import traceback

import pytest

from tidelake.errors import CorruptError, InvalidInputError
from tidelake.spark.expression import mapped
from tidelake.spark.expression.mapped import message_first


@pytest.fixture
def in_a_task(monkeypatch):
    """As in a worker of Spark, whose variables stay as they were."""
    monkeypatch.setattr(mapped.TaskContext, "get", staticmethod(object))
    monkeypatch.setenv(mapped._HIDE_TRACEBACK, "")


def failing(error):
    def deep():
        raise error

    def work(numbers):
        yield from numbers
        deep()

    return message_first(work)


@pytest.mark.parametrize(
    ("error", "frames", "hidden"),
    [(InvalidInputError("No."), ["checked"], "1"), (CorruptError("Gone."), ["work", "deep"], "")],
)
def test_frames_stay_where_they_help(in_a_task, error, frames, hidden):
    given = failing(error)([1, 2])
    assert [next(given), next(given)] == [1, 2]
    with pytest.raises(type(error)) as raised:
        next(given)
    assert [f.name for f in traceback.extract_tb(raised.tb)][-len(frames) :] == frames
    assert ("deep" in str(traceback.extract_tb(raised.tb))) is (frames == ["work", "deep"])
    assert os.environ[mapped._HIDE_TRACEBACK] == hidden


def test_this_process_is_no_worker(monkeypatch):
    monkeypatch.setenv(mapped._HIDE_TRACEBACK, "")
    with pytest.raises(InvalidInputError):
        list(failing(InvalidInputError("No."))([1]))
    assert not os.environ[mapped._HIDE_TRACEBACK]


def test_the_name_of_the_work_stays_for_explain():
    assert failing(InvalidInputError("No.")).__name__ == "work"
