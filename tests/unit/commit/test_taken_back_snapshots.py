"""A snapshot that must be taken back: never one on which another commit builds already."""

from __future__ import annotations

import dataclasses

import pytest
from unit.commit.commit_world import APPEND, KEYED, RemoteMemory, World, message

from tidelake.errors import ConflictError, NotFoundError, OutcomeUnknownError
from tidelake.metadata import SchemaLog
from tidelake.metadata.log.chain import BASE, marked
from tidelake.testing import FaultyFileIO

MINE = [message("mine")]
OF_ANOTHER = KEYED.time_ms + 1


class Meanwhile(FaultyFileIO):
    """Others act right before or after our snapshot is put, and before or after its delete."""

    def __init__(self, world, snapshot_id, *, before=None, after=None, deleting=None, deleted=None):
        super().__init__(world.fileio)
        self._path = world.paths.snapshot(snapshot_id)
        self._acts = {"before": before, "after": after}
        self._acts |= {"deleting": deleting, "deleted": deleted}

    def _act(self, when):
        act, self._acts[when] = self._acts[when], None
        if act is not None:
            act()

    def put_if_absent(self, path, data, **held):
        if path != self._path:
            return super().put_if_absent(path, data, **held)
        self._act("before")
        done = super().put_if_absent(path, data, **held)
        self._act("after")
        return done

    def delete(self, path, **held):
        if path == self._path:
            self._act("deleting")
        done = super().delete(path, **held)
        if path == self._path:
            self._act("deleted")
        return done


@pytest.fixture
def world():
    made = World()
    for i in (1, 2):
        made.committer(i).commit([message(f"old{i}")], user="old", identifier=i)
    return made


def put_anothers(world, snapshot_id):
    """A commit of another writer under this id."""
    found = dataclasses.replace(world.log.load(1), id=snapshot_id, commit_user="another")
    assert world.log.put(found)


def recreate(world):
    """Drop and create, and the new table took the directories of the old one."""
    path = world.paths.schema(0)
    world.fileio.delete(path)
    other = dataclasses.replace(KEYED, time_ms=OF_ANOTHER)
    assert SchemaLog(world.fileio, world.paths).create(other)


def is_there(world, snapshot_id):
    return world.fileio.exists(world.paths.snapshot(snapshot_id))


def commit(world, fileio):
    return world.committer(3, fileio=fileio).commit(MINE, user="mine", identifier=1)


def test_a_snapshot_in_another_table_is_removed(world):
    fileio = Meanwhile(world, 3, after=lambda: recreate(world))
    with pytest.raises(NotFoundError, match="recreated"):
        commit(world, fileio)
    assert not is_there(world, 3)


def test_it_stays_where_another_commit_builds_on_it(world):
    def meanwhile():
        recreate(world)
        put_anothers(world, 4)

    before = world.manifest_files()
    with pytest.raises(OutcomeUnknownError, match=r"^Snapshot 3 .*builds on it"):
        commit(world, Meanwhile(world, 3, after=meanwhile))
    assert is_there(world, 3)
    assert world.manifest_files() > before


def test_it_is_put_again_where_a_commit_came_before_it_was_removed(world):
    fileio = Meanwhile(
        world, 3, after=lambda: recreate(world), deleted=lambda: put_anothers(world, 4)
    )
    with pytest.raises(OutcomeUnknownError, match=r"^Snapshot 3 .*builds on it"):
        commit(world, fileio)
    assert is_there(world, 3)


def roll_back(world):
    world.fileio.delete(world.paths.snapshot(2))


def test_a_snapshot_whose_base_was_rolled_back_is_kept_where_a_commit_builds_on_it(world):
    fileio = Meanwhile(
        world, 3, before=lambda: roll_back(world), deleted=lambda: put_anothers(world, 4)
    )
    done = commit(world, fileio)
    assert [one.id for one in done.snapshots] == [3]
    assert is_there(world, 3)


def files_of(world, snapshot_id):
    """Names of its manifest lists, and of the manifests in them."""
    snapshot = world.log.load(snapshot_id)
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    listed = [world.context().manifests.manifest_list(world.fileio, world.paths, n) for n in lists]
    return {*lists, *(manifest.file_name for found in listed for manifest in found)}


def taken_back(world):
    """A commit whose base is rolled back right before its put; the files of its snapshot."""
    seen = set()
    return seen, Meanwhile(
        world,
        3,
        before=lambda: roll_back(world),
        after=lambda: seen.update(files_of(world, 3)),
    )


def test_a_snapshot_that_was_taken_back_keeps_its_files():
    """Another may have taken it for its base before, and be about to put its own."""
    world = World(APPEND, manifest_merge_min_count=2)
    for i in (1, 2):
        messages = [message(f"old{i}", total_buckets=-1)]
        world.committer(i).commit(messages, user="old", identifier=i)
    seen, fileio = taken_back(world)
    messages = [message("mine", total_buckets=-1)]
    done = world.committer(3, fileio=fileio).commit(messages, user="mine", identifier=1)
    assert [one.id for one in done.snapshots] == [2]
    assert seen
    assert seen <= world.manifest_files()
    assert world.names() == {"old1", "mine"}


def test_a_commit_that_conflicts_after_it_was_taken_back_is_lost_and_keeps_its_manifests(world):
    seen, fileio = taken_back(world)
    with pytest.raises(ConflictError):
        commit(world, fileio)
    assert seen
    assert seen <= world.manifest_files()
    assert world.names() == {"old1"}


def test_it_is_not_called_published_where_anothers_took_its_number(world):
    def meanwhile():
        put_anothers(world, 4)
        put_anothers(world, 3)

    fileio = Meanwhile(world, 3, before=lambda: roll_back(world), deleted=meanwhile)
    before = world.manifest_files()
    with pytest.raises(OutcomeUnknownError, match=r"^Snapshot 3 .*rollback"):
        commit(world, fileio)
    assert world.manifest_files() > before


def test_a_commit_of_another_that_took_its_number_after_a_rollback_stays(world):
    """A rollback has removed our snapshot already; what has its number is acknowledged."""

    def meanwhile():
        world.fileio.delete(world.paths.snapshot(3))
        put_anothers(world, 2)
        put_anothers(world, 3)

    fileio = Meanwhile(world, 3, before=lambda: roll_back(world), deleting=meanwhile)
    with pytest.raises(ConflictError, match="was rolled back"):
        commit(world, fileio)
    assert world.log.load(3).commit_user == "another"


# what came late beside it

UNBUCKETED = {"total_buckets": -1}


class Far(World):
    files = RemoteMemory


def grown(kind):
    """An append table with snapshots 1 to 5."""
    made = kind(APPEND)
    for i in range(1, 6):
        add(made, f"old{i}", seed=i)
    return made


def add(world, name, *, seed, fileio=None):
    committer = world.committer(seed, fileio=fileio)
    done = committer.commit([message(name, **UNBUCKETED)], user=name, identifier=1)
    return [one.id for one in done.snapshots]


def roll_back_to_first(world):
    """As a rollback on a store does it; returns the files that it removed."""
    fileio, paths = world.fileio, world.paths
    fileio.replace(paths.latest_hint, b"1")
    one = fileio.read_bytes(paths.snapshot(1))
    removed = {n: fileio.read_bytes(paths.snapshot(n)) for n in range(5, 1, -1)}
    for number in removed:
        if number == 2:
            again = marked(world.log.load(1), "of-this-rollback").to_json().encode()
            assert fileio.put_if_absent(paths.snapshot(1), again, over=one)
        fileio.delete(paths.snapshot(number))
    return removed


@pytest.mark.parametrize("others", [0, 1, 2])
@pytest.mark.parametrize("back", [(5,), (4, 5), (3, 5), (3, 4, 5)])
def test_nothing_is_acknowledged_on_a_base_that_came_back_after_a_rollback(back, others):
    """However many others came back with it, so that it follows the one before it."""
    world = grown(Far)

    def meanwhile():
        removed = roll_back_to_first(world)
        for i in range(others):
            add(world, f"new{i}", seed=50 + i)
        for number in back:
            world.fileio.put_if_absent(world.paths.snapshot(number), removed[number])

    fileio = Meanwhile(world, 6, before=meanwhile)
    assert add(world, "mine", seed=9, fileio=fileio) == [2 + others]
    assert world.names() == {"old1", *(f"new{i}" for i in range(others)), "mine"}


@pytest.mark.parametrize("hint", [None, b"1", b"4"])
def test_a_hint_that_is_behind_takes_no_commit_back(hint):
    """The writer then looks whether readers come to its snapshot, and they do."""
    world = grown(Far)
    path = world.paths.latest_hint

    def meanwhile():
        world.fileio.delete(path)
        if hint is not None:
            world.fileio.replace(path, hint)

    assert add(world, "mine", seed=9, fileio=Meanwhile(world, 6, before=meanwhile)) == [6]
    assert world.log.latest_id() == 6


@pytest.mark.parametrize("kind", [World, Far])
def test_what_came_late_behind_it_does_not_build_on_it(kind):
    """It names another base, so nobody loses a commit if ours is taken back."""
    world = kind(APPEND)
    for i in (1, 2):
        add(world, f"old{i}", seed=i)

    def meanwhile():
        late = {BASE: "list-of-another-3"}
        found = dataclasses.replace(world.log.load(2), id=4, properties=late)
        roll_back(world)
        world.fileio.replace(world.paths.latest_hint, b"1")
        assert world.log.put(found)

    fileio = Meanwhile(world, 3, before=meanwhile)
    assert add(world, "mine", seed=9, fileio=fileio) == [2]
    assert world.names() == {"old1", "mine"}
