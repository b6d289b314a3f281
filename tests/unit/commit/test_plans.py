"""A plan is a value: what it says depends on the base it is asked about, and on nothing else."""

from __future__ import annotations

import dataclasses

import pytest
from unit.commit.commit_world import A, B, World, keyed, message, partitioned_world

from tidelake.commit.delta import compactions
from tidelake.commit.plans import (
    AppendPlan,
    Base,
    CompactionPlan,
    ManifestMergePlan,
    OverwritePlan,
    StatisticsPlan,
)
from tidelake.errors import ConflictError
from tidelake.metadata.data_file import FileKind
from tidelake.metadata.log.snapshot import CommitKind
from tidelake.testing import FaultyFileIO


def said(planned):
    """What a plan said, comparable."""
    entries = planned.delta.entries.to_entries()
    return (
        [(e.kind, e.bucket_id, e.file.file_name) for e in entries],
        planned.index and [e.file.file_name for e in planned.index.after({})],
        [str(error) for error in planned.dropped_compactions],
        planned.interleaved,
        planned.statistics,
        planned.merges_manifests,
    )


def plans(context):
    """One of each, made on snapshot 1 of a world with the file `a`."""
    a = keyed("a", (1, 5), sequences=(0, 4))
    compacting = [message(before=[a], after=[keyed("out", (1, 5), sequences=(0, 4), level=5)])]
    first = context.log.load(1)
    new = [message(keyed("n", (1, 9), sequences=(5, 9)))]
    far = [message(keyed("m", (70, 90), sequences=(10, 19)))]
    return [
        AppendPlan.of(context, new, base_snapshot_id=1, read_snapshot=None),
        AppendPlan.of(context, far, base_snapshot_id=1, read_snapshot=first),
        OverwritePlan.of(context, new, partitions=None, read_snapshot=None),
        CompactionPlan(context, compactions(compacting), all_or_nothing=False),
        ManifestMergePlan(context),
        StatisticsPlan("stat-1"),
    ]


@pytest.fixture
def world():
    world = World()
    world.committer(1).commit(
        [message(keyed("a", (1, 5), sequences=(0, 4)))], user="u", identifier=1
    )
    world.committer(2).commit(
        [message(keyed("b", (3, 7), sequences=(5, 9)))], user="u", identifier=2
    )
    return world


@pytest.mark.parametrize("which", range(6))
def test_a_plan_says_the_same_whatever_it_was_asked_before(world, which):
    one, two = world.log.load(1), world.log.load(2)
    fresh = [said(plans(world.context(3))[which].against(Base(base))) for base in (one, two)]
    plan = plans(world.context(4))[which]
    asked = [said(plan.against(Base(base))) for base in (one, two, one, two, two)]
    assert asked == [fresh[0], fresh[1], fresh[0], fresh[1], fresh[1]]


def test_plans_cannot_be_changed(world):
    for plan in plans(world.context(3)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(plan, dataclasses.fields(plan)[0].name, None)
        assert not hasattr(plan, "__dict__")


def test_each_plan_names_the_kind_of_its_snapshot(world):
    assert [plan.kind for plan in plans(world.context(3))] == [
        CommitKind.APPEND,
        CommitKind.APPEND,
        CommitKind.OVERWRITE,
        CommitKind.COMPACT,
        CommitKind.COMPACT,
        CommitKind.ANALYZE,
    ]


def test_an_append_says_where_sequence_numbers_interleave(world):
    plan = plans(world.context(3))[0]
    assert plan.against(Base(world.log.load(1))).interleaved == ()
    assert [b.bucket for b in plan.against(Base(world.log.load(2))).interleaved] == [0]


def test_an_overwrite_removes_what_is_live_in_the_base_itself():
    world = partitioned_world()
    new = [message(keyed("new", (1, 2)), place=(A, 0))]
    plan = OverwritePlan.of(world.context(3), new, partitions="dynamic", read_snapshot=None)
    for identifier, (key, name) in enumerate([(A, "a1"), (B, "b1")], start=2):
        world.committer(identifier).commit(
            [message(name, place=(key, 0))], user="u", identifier=identifier
        )
    removed = {
        snapshot_id: {
            e.file.file_name
            for e in plan.against(Base(world.log.load(snapshot_id))).delta.entries.to_entries()
            if e.kind is FileKind.DELETE
        }
        for snapshot_id in (1, 2, 3)
    }
    assert removed == {1: {"a0"}, 2: {"a0", "a1"}, 3: {"a0", "a1"}}


def test_the_next_attempt_reads_only_snapshots_since_the_last_one(world):
    fileio = FaultyFileIO(world.fileio)
    plan = dataclasses.replace(plans(world.context(3, fileio=fileio))[1], base_snapshot_id=None)
    world.committer(4).commit([message(keyed("c", (1, 2)))], user="u", identifier=3)
    newest = world.log.load(3)

    def read(base):
        calls = len(fileio.trace)
        plan.against(base)
        return {c.path[-1] for c in fileio.trace[calls:] if "/snapshot-" in c.path}

    assert read(Base(newest)) == {"1", "2", "3"}
    assert read(Base(newest, (world.log.load(2),))) == {"2", "3"}


def test_a_base_of_another_history_than_the_attempts_before_conflicts(world):
    plan = plans(world.context(3))[0]
    other = dataclasses.replace(world.log.load(2), commit_user="another")
    with pytest.raises(ConflictError) as caught:
        plan.against(Base(world.log.load(2), (other,)))
    assert caught.value.kind == "rolled_back"
    plan = plans(world.context(3))[1]
    with pytest.raises(ConflictError) as caught:
        plan.against(Base(world.log.load(2), (other,)))
    assert caught.value.kind == "rows_changed"
