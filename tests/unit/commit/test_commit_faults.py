"""Every storage call of a commit fails in every way, while another writer commits between.

The failing writer adds two files and compacts them with an older one, so it makes two snapshots; a
rival commits right before each of them is published. Whatever happens, then:

- I1: what was acknowledged is in every later snapshot.
- I2: a commit is wholly there or not at all, in every snapshot.
- I3: no (user, identifier, kind) has two snapshots, also after the writer's successor tried again.
- I4: ids have no gaps, and no snapshot file was changed after it was there.
- A plain StorageError or ConflictError means that nothing of the commit is visible.
- Every manifest that a snapshot names is there with its recorded size.
"""

import itertools

import pytest
from sizes import SIZE
from unit.commit.commit_world import EMPTY_ROW, Racing, World, data_file, message

from tidelake.errors import OutcomeUnknownError, TidelakeError
from tidelake.fileio.file_io import file_missing
from tidelake.testing import FaultMode, FaultyFileIO, SimulatedCrash

OLD = data_file("old", keys=(1, 9), sequences=(0, 9))
NEW = tuple(data_file(f"new{i}", keys=(1, 9), sequences=(20 + i, 20 + i)) for i in range(2))
OUT = data_file("out", keys=(1, 9), level=5, rows=30, sequences=(0, 21))
MESSAGES = [message(*NEW, before=[OLD, *NEW], after=[OUT])]
MINE = {f.file_name for f in NEW}


class Watched(World):
    """A table whose published snapshot files are remembered, to see that none ever changes."""

    def __init__(self):
        super().__init__()
        self.committer(90).commit([message(OLD)], user="first", identifier=1)
        self.published = {}
        self.remember()

    def remember(self):
        for snapshot_id in self.log.ids():
            data = self.fileio.read_bytes(self.paths.snapshot(snapshot_id))
            assert self.published.setdefault(snapshot_id, data) == data, "a snapshot changed"


class RivalCommits(Racing):
    """Another writer commits new keys right before each publish; its commits are acknowledged."""

    def __init__(self, world, plan):
        super().__init__(world, times=2)
        self._plan = dict(plan)

    def append(self, number):
        rival = data_file(f"rival{number}", keys=(100 * number, 100 * number + 9))
        self.world.committer(100 + number).commit(
            [message(rival, place=(EMPTY_ROW, 1))], user="rival", identifier=number
        )
        self.world.remember()


def run(plan, *, made=Watched, env=None):
    """One run; how the writer's commit ended, and the world after it."""
    world = made()
    fileio = RivalCommits(world, plan)
    committer = world.committer(1, fileio=fileio, env=env)
    try:
        done = committer.commit(MESSAGES, user="w", identifier=5)
    except (SimulatedCrash, OutcomeUnknownError):
        return world, fileio, "unknown"
    except TidelakeError:
        return world, fileio, "refused"
    assert done.snapshots[0].commit_kind == "APPEND"
    return world, fileio, "acknowledged"


def visible(world, snapshot_id):
    """Whether the writer's rows are in a snapshot; it must be all of them or none."""
    names = world.names(snapshot_id)
    assert names >= MINE or not MINE & names, f"torn: {names}"
    assert not (MINE & names and "out" in names), "rows twice"
    return bool(MINE & names) or "out" in names


def check(world, ended):
    world.remember()
    ids = world.log.ids()
    assert ids == list(range(1, len(ids) + 1)), ids
    identities = [
        (s.commit_user, s.commit_identifier, s.commit_kind) for s in map(world.log.load, ids)
    ]
    assert len(set(identities)) == len(identities), identities
    assert world.referenced_manifest_files() <= world.manifest_files()
    seen = [visible(world, i) for i in ids]
    assert seen == sorted(seen), f"acknowledged rows vanished again: {seen}"
    if ended == "acknowledged":
        assert seen[-1]
    if ended == "refused":
        assert not any(seen)
    rivals = [i for user, i, _ in identities if user == "rival"]
    assert {f"rival{i}" for i in rivals} <= world.names()


def recover(world):
    """The writer's successor: asks what was committed, and tries the same commit again."""
    successor = world.committer(2)
    if successor.filter_committed("w", [5]):
        successor.commit(MESSAGES, user="w", identifier=5)
    else:
        assert visible(world, world.log.latest_id())
    again = world.committer(3).commit(MESSAGES, user="w", identifier=5)
    assert again.replayed
    world.committer(4).commit([message("after", place=(EMPTY_ROW, 1))], user="x", identifier=1)
    check(world, "acknowledged")


def fault(plan, **how):
    world, fileio, ended = run(plan, **how)
    try:
        check(world, ended)
        recover(world)
    except AssertionError as error:
        hit = [t for t in fileio.trace if t.mode is not None]
        raise AssertionError(f"{ended} after {hit}: {error}") from error
    return ended


TRACE = run({})[1].trace
CALLS = len(TRACE)


def test_without_a_fault_all_is_acknowledged():
    world, fileio, ended = run({})
    check(world, ended)
    assert ended == "acknowledged"
    assert world.names() == {"rival1", "rival2", "out"}
    assert world.manifest_files() == world.referenced_manifest_files()
    assert {"put_if_absent", "write_once", "read_bytes", "exists", "replace", "delete"} <= {
        t.op for t in fileio.trace
    }


@pytest.mark.parametrize("mode", list(FaultMode))
def test_any_call_may_fail_in_this_way(mode):
    first = list(FaultMode).index(mode) % SIZE.commit_faults_step
    calls = [entry.call for entry in TRACE if mode.affects(entry.op)]
    ended = [fault({call: mode}) for call in calls[first :: SIZE.commit_faults_step]]
    assert ended
    if mode in {FaultMode.EIO_BEFORE, FaultMode.EIO_AFTER}:
        assert {"refused", "acknowledged"} <= set(ended)
    if mode in {FaultMode.DUP, FaultMode.STALE_LIST}:
        assert set(ended) == {"acknowledged"}


def test_any_second_fault_may_follow_a_doubtful_put():
    puts = [t.call for t in TRACE if t.op == "put_if_absent"]
    first_modes = (FaultMode.EIO_BEFORE, FaultMode.EIO_AFTER, FaultMode.DUP)
    second_modes = (FaultMode.EIO_BEFORE, FaultMode.CRASH_AFTER)
    ended = set()
    cases = itertools.product(puts, first_modes, second_modes)
    for turn, (put, mode, then) in enumerate(cases):
        first = put + 1 + turn % SIZE.commit_faults_step
        for call in range(first, put + 7, SIZE.commit_faults_step):
            ended.add(fault({put: mode, call: then}))
    assert {"acknowledged", "unknown"} <= ended


def test_a_storage_that_stays_broken_never_loses_or_doubles_rows():
    for start in range(1, CALLS + 1, 2):
        plan = dict.fromkeys(range(start, start + 200), FaultMode.EIO_BEFORE)
        fault(plan)


class Mutant(FaultyFileIO):
    """A storage whose publish replaces, as renaming does: the checks of this file must notice."""

    def put_if_absent(self, path, data, **held):
        self._inner.replace(path, data)
        return True


def test_these_checks_notice_a_publish_that_replaces():
    world = Watched()
    first = world.committer(1).commit([message("lost")], user="a", identifier=1)
    world.remember()
    assert first.snapshots[0].id == 2

    class Late(Mutant):
        has_put = False

        def put_if_absent(self, path, data, **held):
            self.has_put = self.has_put or path.endswith("snapshot-2")
            return super().put_if_absent(path, data, **held)

        def exists(self, path, **held):
            return False if path.endswith("snapshot-2") else super().exists(path, **held)

        def read_bytes(self, path, **bound):
            if path.endswith("snapshot-2") and not self.has_put:
                raise file_missing(path)
            return b"1" if path.endswith("LATEST") else super().read_bytes(path, **bound)

    world.committer(2, fileio=Late(world.fileio)).commit([message("x")], user="b", identifier=1)
    with pytest.raises(AssertionError, match="a snapshot changed"):
        check(world, "unknown")
