"""What a batch covers is read from Spark's files, and the last commit is kept beside them."""

from __future__ import annotations

import pytest

from tidelake.commit.stream_step import MadeCommit
from tidelake.errors import CorruptError
from tidelake.spark.streams.write.checkpoint import Checkpoint
from tidelake.spark.streams.write.sink_steps import COMMIT_FILE, SinkSteps

MADE = MadeCommit(0, 7, "manifest-list-a-1", "6f")


@pytest.fixture
def checkpoint(tmp_path):
    (tmp_path / "offsets").mkdir()
    return Checkpoint.of(tmp_path, table="db.t")


def put(checkpoint, number, *offsets, time_ms=1):
    head = ["v1", f'{{"batchWatermarkMs":0,"batchTimestampMs":{time_ms}}}']
    (checkpoint.folder.path / "offsets" / str(number)).write_text("\n".join([*head, *offsets]))


def covered(checkpoint, number):
    return SinkSteps(checkpoint).step(number).covered


def test_equal_offsets_are_equal_work_whenever_the_batch_is_planned(checkpoint):
    put(checkpoint, 0, '{"snapshot": 2}')
    put(checkpoint, 1, '{"snapshot": 3, "index": 0}', "-")
    first = covered(checkpoint, 1)
    put(checkpoint, 1, '{"index":0,"snapshot":3}', "-", time_ms=2)
    assert covered(checkpoint, 1) == first
    put(checkpoint, 1, '{"snapshot": 4, "index": 0}', "-")
    assert covered(checkpoint, 1).end != first.end


def test_a_batch_begins_where_the_one_before_ends(checkpoint):
    put(checkpoint, 0, "5")
    put(checkpoint, 1, "6")
    steps = SinkSteps(checkpoint)
    first, second = steps.step(0), steps.step(1)
    assert second.covered.begin == first.covered.end
    assert covered(checkpoint, 1) == second.covered, "read, or known from the batch before"
    put(checkpoint, 9, "7")
    assert covered(checkpoint, 9).begin is None, "Spark has removed it"
    assert SinkSteps(checkpoint).step(10) is None


@pytest.mark.parametrize("name", ["1", "1.compact"])
def test_a_number_in_the_log_of_a_file_source_stands_for_its_files(checkpoint, name):
    """Planned anew, a batch of files has the same number and perhaps other files."""
    log = checkpoint.folder.path / "sources" / "1"
    log.mkdir(parents=True)

    def files(*found):
        entries = [f'{{"path":"file:///{path}","timestamp":1,"batchId":1}}' for path in found]
        before = '{"path":"file:///old","timestamp":0,"batchId":0}'
        (log / name).write_text("\n".join(["v1", before, *entries]))
        put(checkpoint, 1, "5", '{"logOffset":1}')
        return covered(checkpoint, 1).end

    assert files("a", "b") == files("b", "a")
    assert files("a", "b", "c") != files("a", "b")


def test_the_last_commit_is_kept_in_the_checkpoint(checkpoint):
    put(checkpoint, 1, "6")
    steps = SinkSteps(checkpoint)
    assert steps.step(1).before is None
    steps.done(None)  # a batch without rows
    steps.done(MADE)
    assert steps.step(1).before == SinkSteps(checkpoint).step(1).before == MADE


def test_a_damaged_file_of_the_last_commit_is_said(checkpoint):
    put(checkpoint, 1, "6")
    path = checkpoint.folder.path / COMMIT_FILE
    path.write_text("")  # a kill on a storage that cannot replace a file at once
    assert SinkSteps(checkpoint).step(1).before is None
    for text in ("{", "[]", '{"identifier": 1}'):
        path.write_text(text)
        with pytest.raises(CorruptError, match="or remove this file") as refused:
            SinkSteps(checkpoint).step(1)
        assert refused.value.kind == "checkpoint_damaged"
