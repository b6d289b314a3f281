"""Writers on one bucket all succeed; the committer says where their rows interleave."""

import pytest
from unit.commit.commit_world import (
    APPEND,
    EMPTY_ROW,
    World,
    data_file,
    message,
)

from tidelake.errors import ConflictError


def test_two_writers_on_one_bucket_both_succeed_and_nothing_is_missing():
    world = World()
    base = world.committer(1).commit([message("base")], user="u0", identifier=1).snapshots[0]
    mine = message(data_file("mine", keys=(1, 5), sequences=(10, 14)))
    theirs = message(data_file("theirs", keys=(3, 9), sequences=(10, 19)))
    first = world.committer(2).commit([theirs], user="u2", identifier=1, base_snapshot_id=base.id)
    second = world.committer(3).commit([mine], user="u1", identifier=1, base_snapshot_id=base.id)
    assert world.names() == {"base", "mine", "theirs"}
    assert first.interleaved == ()
    assert second.interleaved == ((EMPTY_ROW, 0),)


def test_writers_on_different_buckets_do_not_interleave():
    world = World()
    for bucket in (0, 1):
        file = data_file(f"f{bucket}", keys=(1, 5), sequences=(0, 9))
        done = world.committer(bucket).commit(
            [message(file, place=(EMPTY_ROW, bucket))],
            user=f"u{bucket}",
            identifier=1,
            base_snapshot_id=0,
        )
        assert done.interleaved == ()
    assert world.names() == {"f0", "f1"}


def test_newer_sequence_numbers_do_not_interleave():
    world = World()
    for i in range(2):
        file = data_file(f"f{i}", keys=(1, 5), sequences=(10 * i, 10 * i + 9))
        done = world.committer(i).commit(
            [message(file)], user=f"u{i}", identifier=1, base_snapshot_id=0
        )
        assert done.interleaved == ()


def test_rows_of_append_tables_do_not_interleave():
    world = World(APPEND)
    for i in range(2):
        done = world.committer(i).commit(
            [message(f"f{i}")], user=f"u{i}", identifier=1, base_snapshot_id=0
        )
        assert done.interleaved == ()


def test_rows_that_were_numbered_on_what_was_rolled_back_are_refused():
    """An overwrite had begun the numbers anew: older rows that came back would win over these."""
    world = World()
    world.committer(1).commit([message("base")], user="u0", identifier=1)
    late = message(data_file("late", keys=(1, 5), sequences=(0, 4)))
    with pytest.raises(ConflictError, match="its newest is now 1") as refused:
        world.committer(2).commit([late], user="u1", identifier=1, base_snapshot_id=2)
    assert refused.value.kind == "rolled_back"
    assert world.names() == {"base"}


def test_rows_that_are_numbered_above_what_came_back_go_on():
    world = World()
    world.committer(1).commit([message("base")], user="u0", identifier=1)
    late = message(data_file("late", keys=(1, 5), sequences=(100, 104)))
    world.committer(2).commit([late], user="u1", identifier=1, base_snapshot_id=2)
    assert world.names() == {"base", "late"}
