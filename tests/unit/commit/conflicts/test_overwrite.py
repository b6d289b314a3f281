"""An overwrite replaces what is in the partitions that it is for, and nothing else."""

import pytest
from unit.commit.commit_world import (
    APPEND,
    A,
    B,
    C,
    Racing,
    World,
    keyed,
    message,
    partitioned_world,
)

from tidelake.errors import InvalidInputError
from tidelake.metadata import CommitKind
from tidelake.types.predicate import Compare


def test_a_dynamic_overwrite_replaces_the_partitions_that_rows_come_for():
    world = partitioned_world()
    (snapshot,) = world.committer(2).overwrite(
        [message("a1", place=(A, 1))], user="u", identifier=2, partitions="dynamic"
    )
    assert snapshot.commit_kind is CommitKind.OVERWRITE
    assert (snapshot.delta_record_count, snapshot.total_record_count) == (0, 30)
    assert world.names() == {"a1", "b0", "c0"}


def test_a_dynamic_overwrite_without_rows_does_nothing():
    world = partitioned_world()
    assert not world.committer(2).overwrite([], user="u", partitions="dynamic").snapshots
    assert world.names() == {"a0", "b0", "c0"}


def test_a_static_overwrite_replaces_what_the_predicate_names():
    world = partitioned_world()
    world.committer(2).overwrite(
        [message("b1", place=(B, 0))], user="u", partitions=Compare(">=", "p", "b")
    )
    assert world.names() == {"a0", "b1"}


def test_a_static_overwrite_without_rows_empties_the_partition():
    world = partitioned_world()
    (snapshot,) = world.committer(2).overwrite([], user="u", partitions=Compare("==", "p", "b"))
    assert world.names() == {"a0", "c0"}
    assert snapshot.delta_record_count == -10


def test_rows_outside_a_static_overwrite_are_refused_before_anything_is_written():
    world = partitioned_world()
    before = world.manifest_files()
    with pytest.raises(InvalidInputError, match="p=c, which is not one of those"):
        world.committer(2).overwrite(
            [message("c1", place=(C, 0))], user="u", partitions=Compare("==", "p", "b")
        )
    assert world.manifest_files() == before


def test_a_word_that_is_not_known_does_not_overwrite_the_table():
    world = partitioned_world()
    with pytest.raises(InvalidInputError, match="'all' is not known"):
        world.committer(2).overwrite([message("a1", place=(A, 0))], user="u", partitions="all")
    assert world.names() == {"a0", "b0", "c0"}


@pytest.mark.parametrize("partitions", [None, "dynamic"])
def test_a_table_without_partitions_is_overwritten_whole(partitions):
    world = World(APPEND)
    world.committer(1).commit([message("a", "b")], user="u", identifier=1)
    world.committer(2).overwrite([message("c")], user="u", identifier=2, partitions=partitions)
    assert world.names() == {"c"}


def test_a_predicate_on_a_table_without_partitions_is_refused():
    world = World(APPEND)
    world.committer(1).commit([message("a")], user="u", identifier=1)
    with pytest.raises(InvalidInputError, match="has no partitions"):
        world.committer(2).overwrite([], user="u", partitions=Compare("==", "p", "b"))
    assert world.names() == {"a"}


def test_an_overwrite_of_an_empty_table_adds_its_files():
    world = World(APPEND)
    (snapshot,) = world.committer(1).overwrite([message("a")], user="u")
    assert (snapshot.id, snapshot.commit_kind) == (1, CommitKind.OVERWRITE)
    assert world.names() == {"a"}
    assert len(world.committer(2).overwrite([], user="v", partitions="dynamic")) == 1
    assert world.names() == set()


def test_an_overwrite_that_lost_a_race_replaces_what_the_winner_added():
    world = partitioned_world()

    def rival(number):
        late = [message(f"late{number}", place=(A, 0))]
        world.committer(50 + number).commit(late, user="r", identifier=number)

    world.committer(9, fileio=Racing(world, 2, rival)).overwrite(
        [message("a1", place=(A, 0))], user="u", identifier=2, partitions="dynamic"
    )
    assert world.names() == {"a1", "b0", "c0"}
    assert world.manifest_files() == world.referenced_manifest_files()


def test_an_overwrite_s_own_compaction_follows_it():
    world = World()
    world.committer(1).commit([message("old")], user="u", identifier=1)
    new, out = keyed("new", (1, 5)), keyed("out", (1, 5), level=5)
    done = world.committer(2).overwrite(
        [message(new, before=[new], after=[out])], user="u", identifier=2
    )
    assert [s.commit_kind for s in done] == [CommitKind.OVERWRITE, CommitKind.COMPACT]
    assert world.names() == {"out"}
