"""The journal of a job: epochs that rise, one run at a time, and a state that survives."""

from __future__ import annotations

import json

import pytest

from tidelake.cdc.journal.entry import EntryKind, JournalEntry
from tidelake.cdc.journal.job_state import JobState, Phase, SyncedTable
from tidelake.cdc.journal.journal import FULL_EVERY, KEPT_MIN, FileJournal
from tidelake.cdc.source.source_table import OldRows, SourceColumn, SourceName, SourceTable
from tidelake.engine.streams import MadeCommit
from tidelake.errors import ConflictError, CorruptError
from tidelake.fileio import MemoryFileIO
from tidelake.testing import FaultMode, FaultyFileIO
from tidelake.types import parse_type

NAME = SourceName("shop", "public", "orders")
TABLE = SourceTable(
    NAME,
    (
        SourceColumn("id", "integer", parse_type("INT NOT NULL"), 1),
        SourceColumn("d", "numeric(10,2)", parse_type("DECIMAL(10, 2)"), 2, has_default=True),
        SourceColumn("odd", "point", None, 3, comment="a place"),
    ),
    ("id",),
    OldRows.KEYS,
    "16384",
    "orders of the shop",
)
STATE = JobState(
    {NAME: SyncedTable("lake.orders", Phase.LIVE, TABLE, (7, 8), "", 1, 12, 1_700_000_000_000)},
    {"lake.orders": MadeCommit(3, 4, "abc", "digest")},
    2,
    "7/shop",
    {"lake.orders": 2},
)


def entry(epoch, run="r", end="0/2"):
    return JournalEntry(epoch, EntryKind.CHANGES, "0/1", end, run, 5)


@pytest.fixture
def files():
    return MemoryFileIO()


def opened(files):
    journal = FileJournal(files, "/lake/_cdc/job", "job")
    return journal, journal.load()


def test_a_new_journal_is_empty(files):
    _, progress = opened(files)
    assert progress.entry is None
    assert progress.state == JobState()


def test_what_was_begun_is_found_again_with_its_state(files):
    journal, _ = opened(files)
    journal.append(entry(0), JobState())
    journal.append(entry(1, end="0/3"), STATE)
    _, progress = opened(files)
    assert progress.entry.epoch == 1
    assert progress.entry.end == "0/3"
    assert progress.state == STATE


def test_an_entry_holds_what_changed_and_sometimes_all(files):
    journal, _ = opened(files)
    for epoch in range(2 * FULL_EVERY + 3):
        journal.append(entry(epoch), STATE)
    documents = [
        json.loads(files.read_bytes(f"/lake/_cdc/job/epoch-{epoch}"))
        for epoch in range(2 * FULL_EVERY + 3)
    ]
    assert [d["epoch"] for d in documents if d["full"]] == [0, FULL_EVERY, 2 * FULL_EVERY]
    assert documents[1]["state"] == {
        "tables": [],
        "made": {},
        "quarantined": 2,
        "source": "7/shop",
        "schemas": {},
    }
    assert opened(files)[1].state == STATE


def test_old_entries_are_deleted(files):
    journal, _ = opened(files)
    for epoch in range(5 * FULL_EVERY + 1):
        journal.append(entry(epoch), STATE)
    left = {file.name for file in files.list_dir("/lake/_cdc/job")}
    assert left == {f"epoch-{n}" for n in range(5 * FULL_EVERY - KEPT_MIN, 5 * FULL_EVERY + 1)}
    assert opened(files)[1].state == STATE


def test_a_journal_goes_on_after_a_restart(files):
    journal, _ = opened(files)
    journal.append(entry(0), STATE)
    again, _ = opened(files)
    again.append(entry(1), STATE)
    assert opened(files)[1].entry.epoch == 1


def test_of_two_runs_one_is_refused(files):
    first, _ = opened(files)
    first.append(entry(0, run="a"), JobState())
    second, _ = opened(files)
    second.append(entry(1, run="b"), JobState())
    with pytest.raises(ConflictError, match="another run began epoch 1") as caught:
        first.append(entry(1, run="a"), JobState())
    assert caught.value.kind == "cdc_job_taken"


def test_a_put_whose_answer_was_lost_is_ones_own(files):
    faulty = FaultyFileIO(files, {1: FaultMode.CONFLICT})
    journal = FileJournal(faulty, "/lake/_cdc/job", "job")
    journal.load()
    journal.append(entry(0), STATE)
    assert opened(files)[1].entry.epoch == 0


def test_a_gap_is_an_error(files):
    journal, _ = opened(files)
    for epoch in range(3):
        journal.append(entry(epoch), STATE)
    files.delete("/lake/_cdc/job/epoch-1")
    with pytest.raises(CorruptError, match="lacks /lake/_cdc/job/epoch-1"):
        opened(files)


def test_a_journal_without_its_first_state_is_an_error(files):
    journal, _ = opened(files)
    for epoch in range(3):
        journal.append(entry(epoch), STATE)
    files.delete("/lake/_cdc/job/epoch-0")
    with pytest.raises(CorruptError, match="begins with epoch 1"):
        opened(files)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"{", "damaged"),
        (b'{"v": 9}', "version 9"),
        (b'{"v": 1, "epoch": 0}', "damaged"),
        (b"[]", "damaged"),
    ],
)
def test_a_damaged_entry_is_an_error(files, data, match):
    files.make_dirs("/lake/_cdc/job")
    files.put_if_absent("/lake/_cdc/job/epoch-0", data)
    with pytest.raises(CorruptError, match=match) as caught:
        opened(files)
    assert caught.value.kind == "cdc_journal_damaged"


def test_a_damaged_state_is_an_error(files):
    files.make_dirs("/lake/_cdc/job")
    state = {"tables": [{"name": ["a", "b"]}]}
    whole = JournalEntry(0, EntryKind.COPY, "", "", "r", 1, state, is_full=True)
    files.put_if_absent("/lake/_cdc/job/epoch-0", whole.to_bytes())
    with pytest.raises(CorruptError, match="damaged"):
        opened(files)


def test_the_time_of_a_position_is_kept_and_may_be_missing(files):
    journal, _ = opened(files)
    journal.append(JournalEntry(0, EntryKind.CHANGES, "0/1", "0/1", "r", 5, start_ms=77), STATE)
    assert opened(files)[1].entry.start_ms == 77
    path = "/lake/_cdc/job/epoch-0"
    older = json.loads(files.read_bytes(path))
    assert older.pop("at") == 77
    files.delete(path)
    files.put_if_absent(path, json.dumps(older).encode())
    assert opened(files)[1].entry.start_ms is None


def put(files, *kinds):
    """Epochs from 0 on: kind, start, end."""
    journal, _ = opened(files)
    for number, (kind, start, end) in enumerate(kinds):
        journal.append(JournalEntry(number, kind, start, end, "r", 5), STATE)
    return [record.epoch for record in journal.history()]


def test_an_epoch_is_complete_when_the_next_begins(files):
    copy, changes = EntryKind.COPY, EntryKind.CHANGES
    done = [(copy, "", ""), (changes, "1", "1"), (changes, "1", "2")]
    assert put(files, *done) == [0, 1]
    record = opened(files)[0].history()[0]
    assert (record.kind, record.end, record.state) == (copy, "1", STATE)


def test_a_copy_that_is_followed_by_a_copy_is_not_complete(files):
    copy, changes = EntryKind.COPY, EntryKind.CHANGES
    assert put(files, (copy, "", ""), (copy, "", ""), (changes, "1", "1")) == [1, 2]


def test_an_epoch_that_was_given_up_is_not_complete(files):
    copy, changes = EntryKind.COPY, EntryKind.CHANGES
    lost = [(changes, "1", "1"), (changes, "1", "2"), (copy, "", ""), (changes, "7", "7")]
    assert put(files, *lost) == [0, 2, 3]


def test_history_begins_with_a_whole_state(files):
    journal, _ = opened(files)
    count = 2 * FULL_EVERY + KEPT_MIN + 7
    for number in range(count):
        journal.append(entry(number, end="0/1"), STATE)
    found = journal.history()
    assert [one.epoch for one in found] == list(range(found[0].epoch, count))
    assert len(found) >= KEPT_MIN
    assert all(one.state == STATE for one in found)
