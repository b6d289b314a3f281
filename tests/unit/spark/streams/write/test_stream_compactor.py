"""One table has one compactor; what fails is tried again, and a dead thread is replaced."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from proving.expiring import make
from py4j.protocol import Py4JError

from tidelake.fileio import MemoryFileIO
from tidelake.spark.streams.write import sink_run, stream_compactor
from tidelake.spark.streams.write.checkpoint import Checkpoint
from tidelake.spark.streams.write.sink_run import SinkRun
from tidelake.spark.streams.write.stream_compactor import StreamCompactor

WAIT_S = 60


@pytest.fixture
def spark(monkeypatch):
    """A session that is there, and cannot do anything."""
    monkeypatch.setattr(stream_compactor, "ROUND_S", 0.001)
    context = SimpleNamespace(_jsc=1, setLocalProperty=lambda *_: None)
    yield SimpleNamespace(sparkContext=context)
    context._jsc = None
    for one in list(stream_compactor._ALL.values()):
        assert one.wait(WAIT_S)
    stream_compactor._ALL.clear()


@pytest.fixture
def handle():
    return make(MemoryFileIO()).handle


@pytest.fixture
def rounds(monkeypatch):
    """What rounds raise, one after the other, and then nothing; set when that is so."""
    failures, is_over = [], threading.Event()

    def round_(self):
        if failures:
            raise failures.pop(0)
        is_over.set()

    monkeypatch.setattr(StreamCompactor, "_round", round_)
    return failures, is_over


def test_a_call_that_fails_ends_no_compactor(spark, handle, rounds, caplog):
    failures, is_over = rounds
    failures += [Py4JError("a connection broke"), OSError("away")]
    compactor = StreamCompactor.join(spark, handle)
    assert is_over.wait(WAIT_S)
    assert compactor.is_alive
    assert "a connection broke" in caplog.text
    compactor.leave()
    assert compactor.wait(WAIT_S)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_dead_compactor_is_replaced_for_every_stream_of_its_table(
    spark, handle, rounds, tmp_path, monkeypatch
):
    failures, is_over = rounds
    failures.append(ValueError("a bug"))
    monkeypatch.setattr(sink_run, "LOOK_S", 0.001)
    monkeypatch.setattr(sink_run, "LOOKS_PER_RENEWAL", 1)
    monkeypatch.setattr(sink_run.QueryLife, "has_ended", lambda _: False)
    checkpoint = Checkpoint.of(tmp_path, table="db.t")
    runs = [
        SinkRun(handle, checkpoint, name, run_id=name, batch_id=0, spark=spark, batch_spark=spark)
        for name in ("a", "b")
    ]
    assert is_over.wait(WAIT_S)
    until = threading.Event()
    for _ in range(1000):
        if runs[0].compactor is runs[1].compactor and runs[0].compactor.is_alive:
            break
        until.wait(0.01)
    compactor = runs[0].compactor
    assert compactor is runs[1].compactor
    assert list(stream_compactor._ALL.values()) == [compactor]
    runs[0].end()
    assert compactor.is_alive
    runs[1].end()
    assert compactor.wait(WAIT_S)
    assert stream_compactor._ALL == {}
    assert all(run.wait(WAIT_S) for run in runs)


def test_a_table_and_its_branch_have_a_compactor_each(spark, rounds):
    table = make(MemoryFileIO())
    table.branches.create("b")
    handles = [table.handle, table.branch("b").handle]
    main, branch = (StreamCompactor.join(spark, handle) for handle in handles)
    assert [one._handle.paths.branch for one in (main, branch)] == ["main", "b"]
    assert StreamCompactor.join(spark, handles[1]) is branch
    for one in (main, branch, branch):
        one.leave()
    assert main.wait(WAIT_S)
    assert branch.wait(WAIT_S)
