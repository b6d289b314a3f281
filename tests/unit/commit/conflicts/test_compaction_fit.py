"""A compaction that no longer fits gives way; the data that was committed with it stays."""

import pytest
from unit.commit.commit_world import (
    EMPTY_ROW,
    Racing,
    World,
    keyed,
    message,
)

from tidelake.errors import ConflictError, StorageError
from tidelake.metadata import CommitKind
from tidelake.testing import FaultMode, FaultyFileIO


def test_a_compaction_of_files_that_are_gone_gives_way_and_the_data_stays():
    world = World()
    old = keyed("old", (1, 5))
    world.committer(1).commit([message(old)], user="u", identifier=1)
    world.committer(2).commit(
        [message(before=[old], after=[keyed("theirs", (1, 5), level=5)])], user="c", identifier=1
    )
    new = keyed("new", (1, 5), sequences=(10, 19))
    done = world.committer(3).commit(
        [message(new, before=[old, new], after=[keyed("mine", (1, 5), level=5)])],
        user="u",
        identifier=2,
    )
    assert [s.commit_kind for s in done] == [CommitKind.APPEND]
    (error,) = done.dropped_compactions
    assert isinstance(error, ConflictError)
    assert "'old' is not live now" in str(error)
    assert world.live() == {(EMPTY_ROW, 0, 5): {"theirs"}, (EMPTY_ROW, 0, 0): {"new"}}
    assert world.manifest_files() == world.referenced_manifest_files()


def test_only_the_bucket_in_conflict_gives_way():
    world = World()
    old = [keyed(f"old{b}", (1, 5)) for b in (0, 1)]
    world.committer(1).commit(
        [message(old[b], place=(EMPTY_ROW, b)) for b in (0, 1)], user="u", identifier=1
    )
    world.committer(2).commit(
        [message(before=[old[0]], after=[keyed("theirs", (1, 5), level=5)])], user="c"
    )
    done = world.committer(3).commit(
        [
            message(
                place=(EMPTY_ROW, b), before=[old[b]], after=[keyed(f"mine{b}", (1, 5), level=5)]
            )
            for b in (0, 1)
        ],
        user="d",
    )
    assert [e.context["bucket"] for e in done.dropped_compactions] == [0]
    assert world.names() == {"theirs", "mine1"}


def test_a_compaction_alone_that_gives_way_commits_nothing_and_says_so():
    world = World()
    done = world.committer().commit([message(before=[keyed("x", (1, 2))])], user="u")
    assert not done.snapshots
    assert len(done.dropped_compactions) == 1
    assert world.log.ids() == []


def test_a_race_between_two_compactions_has_one_winner():
    world = World()
    old = keyed("old", (1, 5))
    world.committer(1).commit([message(old)], user="u", identifier=1)

    def rival(number):
        world.committer(50).commit(
            [message(before=[old], after=[keyed("theirs", (1, 5), level=5)])], user="c"
        )

    done = world.committer(fileio=Racing(world, 1, rival)).commit(
        [message(before=[old], after=[keyed("mine", (1, 5), level=5)])], user="d"
    )
    assert len(done.dropped_compactions) == 1
    assert world.names() == {"theirs"}
    assert world.manifest_files() == world.referenced_manifest_files()


def test_once_the_data_is_committed_a_failing_compaction_is_no_error():
    new, out = keyed("new", (1, 5)), keyed("out", (1, 5), level=5)
    both = [message(new, before=[new], after=[out])]
    world = World()
    trial = FaultyFileIO(world.fileio)
    world.committer(fileio=trial).commit(both, user="u", identifier=1)
    puts = [t.call for t in trial.trace if t.op == "put_if_absent" and "/snapshot-" in t.path]
    assert len(puts) == 2
    failed = 0
    for call in range(puts[0] + 1, len(trial.trace) + 1):
        world = World()
        plan = dict.fromkeys(range(call, call + 60), FaultMode.EIO_BEFORE)
        fileio = FaultyFileIO(world.fileio, plan)
        done = world.committer(fileio=fileio).commit(both, user="u", identifier=1)
        assert done.snapshots[0].commit_kind is CommitKind.APPEND
        assert world.log.load(1) == done.snapshots[0]
        failed += bool(done.dropped_compactions)
        assert world.names() in ({"new"}, {"out"})
    assert failed > 3


def test_a_compaction_alone_raises_what_the_storage_says():
    world = World()
    old = keyed("old", (1, 5))
    world.committer(1).commit([message(old)], user="u", identifier=1)
    fileio = FaultyFileIO(world.fileio, dict.fromkeys(range(1, 99), FaultMode.EIO_BEFORE))
    with pytest.raises(StorageError):
        world.committer(9, fileio=fileio).commit(
            [message(before=[old], after=[keyed("mine", (1, 5), level=5)])], user="d"
        )
