"""Epochs of a job by its name alone, told from its journal and its tables."""

import pytest

import tidelake
from tidelake.cdc.command.job_epochs import epochs_of
from tidelake.cdc.journal.entry import EntryKind, JournalEntry
from tidelake.cdc.journal.job_state import JobState
from tidelake.cdc.journal.journal import FileJournal
from tidelake.cdc.kafka.topic_positions import TopicPositions
from tidelake.cdc.mysql.position import BinlogPositions
from tidelake.cdc.postgres.position import LogPositions
from tidelake.errors import CorruptError, NotFoundError
from tidelake.kafka import KafkaOffsets

POSITIONS = {
    "0/16B3748": (LogPositions, True),
    "A/1F:3": (LogPositions, False),
    "bin.000003:4127:0;3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77": (BinlogPositions, True),
    "bin.000003:4127:12": (BinlogPositions, False),
    KafkaOffsets({("t", 0): 7}, {}).to_json(): (TopicPositions, None),
}


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(tmp_path)


def begun(catalog, job, *positions):
    journal = FileJournal(catalog.fileio, f"{catalog.warehouse}/_cdc/{job}", job)
    for epoch, position in enumerate(positions):
        entry = JournalEntry(epoch, EntryKind.CHANGES, position, position, "r", epoch)
        journal.append(entry, JobState())


@pytest.mark.parametrize("text", POSITIONS)
def test_positions_tell_their_source(text):
    kinds = (LogPositions(), BinlogPositions(), TopicPositions())
    wanted, is_whole = POSITIONS[text]
    [found] = [kind for kind in kinds if kind.is_position(text)]
    assert isinstance(found, wanted)
    assert found.is_between_transactions(text) is is_whole
    assert not found.is_before(text, text)


@pytest.mark.parametrize("text", POSITIONS)
def test_an_epoch_is_judged_by_the_positions_of_its_source(catalog, text):
    begun(catalog, "shop", text, text)
    listed = epochs_of(catalog, "shop").epochs()
    assert listed["is_whole"].to_pylist() == [POSITIONS[text][1]] * 2


def test_a_job_that_is_not_there(catalog):
    with pytest.raises(NotFoundError, match="There is none") as refused:
        epochs_of(catalog, "shop")
    assert refused.value.kind == "cdc_no_job"
    begun(catalog, "shop", "0/1")
    with pytest.raises(NotFoundError, match="shop"):
        epochs_of(catalog, "shpo")
    with pytest.raises(NotFoundError, match="There are: shop"):
        epochs_of(catalog, "../elsewhere")


def test_positions_of_no_source_are_refused(catalog):
    begun(catalog, "shop", "12", "12")
    with pytest.raises(CorruptError, match="no source that is known: '12'"):
        epochs_of(catalog, "shop")
