"""A batch that comes again is told from another of its number, a rollback from expiry."""

from __future__ import annotations

import pytest
from proving.expiring import ALL, make

from tidelake.commit.stream_step import Covered, MadeCommit, StreamStep
from tidelake.errors import InvalidInputError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.table.write.result import CommitIdentity
from tidelake.table.write.transaction import WriteTransaction

USER = "query"


@pytest.fixture
def table():
    return make(MemoryFileIO())


def write(table, number, end, *, begin=None, before=None, rows=1):
    """Commit a batch up to `end`; what was committed, None if it was found."""
    step = StreamStep(Covered.between(begin, end), before)
    identity = CommitIdentity.of(table.handle, USER, number, step=step)
    transaction = WriteTransaction(table.handle, identity)
    result = transaction.write([{"k": k, "v": 0, "p": "a"} for k in range(rows)])
    return None if result.already_committed else transaction.made


def refused(kind, table, number, end, **given):
    before = table.latest_snapshot_id
    with pytest.raises(InvalidInputError, match=r"db\.t.*Nothing was written") as error:
        write(table, number, end, **given)
    assert error.value.kind == kind
    assert table.latest_snapshot_id == before
    return error.value.message


def test_all_snapshots_of_a_commit_say_what_it_covers(table):
    made = write(table, 0, "a", begin="")
    snapshot = table.handle.snapshots.load(made.snapshot_id)
    assert Covered.of(Snapshot.from_json(snapshot.to_json())) == Covered.between("", "a")
    assert made == MadeCommit.of(snapshot) == MadeCommit.from_json(made.to_json())
    assert made.identity == snapshot.identity
    table.write([{"k": 1, "v": 0, "p": "a"}])
    assert Covered.of(table.handle.snapshots.latest()) is None


def test_the_same_offsets_are_the_same_work(table):
    assert write(table, 0, "a") is not None
    assert write(table, 0, "a") is None
    said = refused("checkpoint_behind", table, 0, "b")
    assert "batch 0 up to b, but batch 0 is committed with the offsets a" in said
    assert "the last commit, of batch 0, ends at a" in said


def test_a_commit_of_an_older_version_is_told_by_its_number(table):
    table.write([{"k": 1, "v": 0, "p": "a"}], commit_user=USER, commit_identifier=3)
    assert write(table, 3, "anything") is None
    refused("checkpoint_behind", table, 2, "anything")


def test_a_batch_without_a_commit_is_told_by_the_next_one(table):
    write(table, 0, "a", begin="")
    write(table, 2, "c", begin="b")  # batch 1 had no rows
    assert write(table, 1, "b", begin="a") is None
    refused("checkpoint_behind", table, 1, "c", begin="a")
    write(table, 5, "f", begin="e")
    refused("checkpoint_behind", table, 3, "d", begin="c")  # 4 may have begun anywhere


def test_a_commit_that_has_expired_is_known_from_the_checkpoint(table):
    made = write(table, 0, "a")
    for number in range(3):
        table.write([{"k": number, "v": 1, "p": "a"}])
    table.maintenance.expire_snapshots(**ALL)
    assert table.handle.snapshots.find(made.snapshot_id) is None
    assert write(table, 0, "a", before=made) is None
    refused("checkpoint_behind", table, 0, "b", before=made)
    assert write(table, 1, "b", before=made) is not None


@pytest.mark.parametrize("commits_count", [0, 1, 3])
def test_a_commit_that_was_rolled_back_is_missed(table, commits_count):
    table.write([{"k": 7, "v": 0, "p": "a"}])
    made = write(table, 0, "a")
    table.rollback_to(snapshot_id=1)
    for number in range(commits_count):
        table.write([{"k": number, "v": 1, "p": "a"}])
    refused("target_rolled_back", table, 1, "b", before=made)
    refused("target_rolled_back", table, 0, "a", before=made)


def test_a_rollback_between_the_look_and_the_commit_is_noticed(table):
    table.write([{"k": 7, "v": 0, "p": "a"}])
    made = write(table, 0, "a")
    step = StreamStep(Covered.between("a", "b"), made)
    transaction = WriteTransaction(
        table.handle, CommitIdentity.of(table.handle, USER, 1, step=step)
    )
    assert transaction.replayed() is None
    with transaction as out:
        out.add([{"k": 8, "v": 0, "p": "a"}])
        table.rollback_to(snapshot_id=1)
        with pytest.raises(InvalidInputError, match="was rolled back to before snapshot 2"):
            out.commit()
    assert table.latest_snapshot_id == 1


def test_a_rollback_to_the_rows_of_a_commit_takes_only_its_compaction(table):
    made = write(table, 0, "a")
    table.compact(full=True)
    table.rollback_to(snapshot_id=made.snapshot_id)
    assert write(table, 1, "b", before=made) is not None


def test_long_offsets_are_cut_where_they_are_shown():
    covered = Covered.between(None, "x" * 5_000)
    assert len(covered.offsets) == 1_000
    assert covered.end != Covered.between(None, "x" * 4_999).end


@pytest.mark.parametrize("text", ["", "[]", "{", '{"identifier": 1}'])
def test_what_is_no_commit_is_refused(text):
    with pytest.raises(ValueError, match=r"no commit of a stream|Expecting"):
        MadeCommit.from_json(text)
