"""Threads that make calls: what is refused is not done later."""

from __future__ import annotations

import threading

import pytest

from tidelake.fileio.hdfs import workers
from tidelake.telemetry import PerProcess

SECONDS_MAX = 60


def test_a_call_whose_thread_cannot_start_is_never_made(monkeypatch):
    """Its caller was told that it failed, and may have done something else since."""
    monkeypatch.setattr(workers, "_WORKERS", PerProcess(workers._Workers))
    done = []

    def refuse(_):
        message = "can't start new thread"
        raise RuntimeError(message)

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            workers.submit(lambda: done.append("refused"))
    for name in ("a", "b"):
        workers.submit(lambda name=name: done.append(name)).result(SECONDS_MAX)
    assert done == ["a", "b"]
