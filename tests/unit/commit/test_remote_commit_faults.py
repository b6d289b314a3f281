"""A commit whose independent requests go side by side: one fails, the others did not begin, are
still in flight, or are done.

A remote storage gets such requests from threads, whose order is chance. Here an executor of one
thread stands for them and chooses: in order or backwards, and whether an error stops the rest
(they had not begun) or the rest still happens (they were in flight). In order, with the rest not
begun, is what ``test_commit_faults.py`` does, whose checks are used here too; a refused commit
leaves no file behind. Then the same with threads, real waits and interrupts.
"""

from __future__ import annotations

import _thread
import dataclasses
import threading

import pytest
from unit.commit.commit_world import (
    APPEND,
    KEYED,
    LOCATION,
    RemoteHolding,
    RemoteMemory,
    World,
    message,
)
from unit.commit.test_commit_faults import Watched, fault, run
from unit.commit.test_taken_back_snapshots import OF_ANOTHER, recreate

from tidelake.errors import ConflictError, NotFoundError, StorageError
from tidelake.metadata import SchemaLog
from tidelake.telemetry import Env, ReadThreads, SerialExecutor
from tidelake.testing import FaultMode, FaultyFileIO

MUTATING = {"write_once", "put_if_absent", "replace", "delete"}
SECONDS_MAX = 60


class RemoteWorld(Watched):
    files = RemoteMemory


class Order(SerialExecutor):
    """Runs the pieces of each call in a chosen order, on one thread.

    Parameters
    ----------
    backwards : bool
        Whether the last one comes first.
    in_flight : bool
        Whether the others still happen after one has failed.
    """

    depth = 0

    def __init__(self, *, backwards: bool, in_flight: bool) -> None:
        self.backwards, self.in_flight = backwards, in_flight

    def map(self, work, items):
        pieces = list(enumerate(items))
        done, failed = {}, {}
        Order.depth += len(pieces) > 1
        for number, item in reversed(pieces) if self.backwards else pieces:
            try:
                done[number] = work(item)
            except BaseException as error:  # noqa: BLE001 - a crash too
                failed[number] = error
                if not self.in_flight:
                    break
        Order.depth -= len(pieces) > 1
        for _, error in sorted(failed.items()):
            raise error
        yield from (done[number] for number, _ in pieces)


ORDERS = {
    "backwards, the rest never began": {"backwards": True, "in_flight": False},
    "in order, the rest in flight": {"backwards": False, "in_flight": True},
    "backwards, the rest in flight": {"backwards": True, "in_flight": True},
}


IN_FLIGHT = ORDERS["backwards, the rest in flight"]


def remote(order):
    reads = Order(**order)
    return {
        "made": RemoteWorld,
        "env": dataclasses.replace(Env.seeded(11), reads=ReadThreads(reads, reads, reads)),
    }


@pytest.fixture(params=[*ORDERS.values()], ids=[*ORDERS])
def order(request):
    return request.param


@pytest.fixture
def beside_others(order, monkeypatch):
    """The calls of a commit that are made beside others, by their numbers in the trace."""
    found = []
    call = FaultyFileIO._call

    def noted(self, *what, **more):
        if Order.depth:
            found.append(len(self.trace) + 1)
        return call(self, *what, **more)

    with monkeypatch.context() as patch:
        patch.setattr(FaultyFileIO, "_call", noted)
        _, fileio, ended = run({}, **remote(order))
    assert ended == "acknowledged"
    calls = [entry for entry in fileio.trace if entry.call in set(found)]
    assert {"write_once", "read_bytes", "list_dir", "size", "open_dir"} <= {t.op for t in calls}
    return calls


def test_any_write_may_fail_in_any_way_beside_others(order, beside_others):
    ended = [
        fault({entry.call: mode}, **remote(order))
        for entry in beside_others
        if entry.op in MUTATING
        for mode in FaultMode
        if mode.affects(entry.op)
    ]
    assert {"acknowledged", "refused", "unknown"} == set(ended)


def test_any_read_may_fail_beside_others(order, beside_others):
    reads = [entry.call for entry in beside_others if entry.op not in MUTATING]
    ended = {fault({call: FaultMode.EIO_AFTER}, **remote(order)) for call in reads}
    assert {"acknowledged", "refused"} <= ended


def test_any_further_fault_may_follow_a_doubtful_put():
    trace = run({}, **remote(IN_FLIGHT))[1].trace
    puts = [t.call for t in trace if t.op == "put_if_absent" and "/snapshot-" in t.path]
    ended = set()
    for put in puts:
        for mode in (FaultMode.EIO_BEFORE, FaultMode.EIO_AFTER):
            for call in range(put + 1, put + 8):
                plan = {put: mode, call: FaultMode.EIO_BEFORE}
                ended.add(fault(plan, **remote(IN_FLIGHT)))
    assert {"acknowledged", "unknown"} <= ended


class Remote(World):
    files = RemoteMemory


def test_a_refused_commit_leaves_no_file_behind(order):
    """Whichever write fails before the put, and whether it had taken effect."""
    world = Remote()
    trial = FaultyFileIO(world.fileio)
    committer(world, order, trial).commit([message("mine")], user="u", identifier=1)
    calls = [t.call for t in trial.trace if t.op == "write_once"]
    assert len(calls) >= 3
    for call in calls:
        for mode in (FaultMode.EIO_BEFORE, FaultMode.EIO_AFTER, FaultMode.ENOSPC):
            world = Remote()
            fileio = FaultyFileIO(world.fileio, {call: mode})
            with pytest.raises(StorageError):
                committer(world, order, fileio).commit([message("mine")], user="u", identifier=1)
            assert world.manifest_files() == set()
            assert world.log.ids() == []


def committer(world, order, fileio):
    return world.committer(fileio=fileio, env=remote(order)["env"])


# -- another table, another history
class Meddled(FaultyFileIO):
    """Another process acts right before one call of the commit."""

    def __init__(self, world, call, act):
        super().__init__(world.fileio)
        self._call_number, self._act = call, act

    def _call(self, op, *rest, **more):
        if len(self.trace) + 1 == self._call_number:
            self._act()
        return super()._call(op, *rest, **more)


def with_history(made=Remote):
    world = made()
    for i in (1, 2):
        world.committer(i).commit([message(f"old{i}")], user="old", identifier=i)
    return world


def test_a_table_created_again_at_any_moment_never_gets_the_commit(order):
    """Acknowledged before the other table was there, or not at all."""
    world = with_history()
    trial = FaultyFileIO(world.fileio)
    committer(world, order, trial).commit([message("mine")], user="u", identifier=1)
    put = next(t.call for t in trial.trace if t.path.endswith("snapshot-3") and "put" in t.op)
    for number in range(1, len(trial.trace) + 1):
        world = with_history()
        fileio = Meddled(world, number, lambda world=world: recreate(world))
        try:
            committer(world, order, fileio).commit([message("mine")], user="u", identifier=1)
        except NotFoundError:
            assert not world.fileio.exists(world.paths.snapshot(3)), number
        else:
            assert number > put + 1, number


def test_a_base_rolled_back_before_the_put_never_comes_back(order):
    world = with_history()
    trial = FaultyFileIO(world.fileio)
    committer(world, order, trial).commit([message("mine")], user="u", identifier=1)
    [put] = [t.call for t in trial.trace if t.path.endswith("snapshot-3") and "put" in t.op]
    for number in range(1, put + 1):
        world = with_history()
        base = world.paths.snapshot(2)
        fileio = Meddled(world, number, lambda world=world, base=base: world.fileio.delete(base))
        try:
            committer(world, order, fileio).commit([message("mine")], user="u", identifier=1)
        except ConflictError:  # what came back could win over it
            assert world.names() == {"old1"}
        else:
            assert world.log.ids() == [1, 2]
            assert world.names() == {"old1", "mine"}


class Holding(World):
    files = RemoteHolding


def create_anew(world):
    """Drop with all files, and create, as on HDFS."""
    world.fileio.delete_dir(LOCATION)
    other = dataclasses.replace(KEYED, time_ms=OF_ANOTHER)
    assert SchemaLog(world.fileio, world.paths).create(other)


def test_a_held_directory_keeps_a_commit_out_of_a_table_created_again(order):
    """Not even for a moment, in which others could build on it: what was opened first decides."""
    world = with_history(Holding)
    trial = FaultyFileIO(world.fileio)
    committer(world, order, trial).commit([message("mine")], user="u", identifier=1)
    put = next(t.call for t in trial.trace if t.path.endswith("snapshot-3") and "put" in t.op)
    for number in range(1, put + 1):
        world = with_history(Holding)
        fileio = Meddled(world, number, lambda world=world: create_anew(world))
        with pytest.raises(NotFoundError):
            committer(world, order, fileio).commit([message("mine")], user="u", identifier=1)
        assert not [t for t in fileio.trace if t.path.endswith("snapshot-3") and t.op == "delete"]
        assert world.log.ids() == [], number


def test_a_table_is_checked_after_its_directory_was_opened():
    """With threads: the directory that opens late is the other table's."""
    world = with_history(Holding)
    checked = threading.Event()

    class Late(FaultyFileIO):
        puts = 0

        def read_bytes(self, path, **bound):
            data = super().read_bytes(path, **bound)
            if is_opening.is_set():
                checked.set()
            return data

        def open_dir(self, path, *, make=False):
            is_opening.set()
            checked.wait(0.05)
            create_anew(world)
            return super().open_dir(path, make=make)

        def put_if_absent(self, path, data, **held):
            self.puts += 1
            return super().put_if_absent(path, data, **held)

    is_opening = threading.Event()
    late = Late(world.fileio)
    with pytest.raises(NotFoundError):
        world.committer(3, fileio=late, env=threaded()).commit([message("mine")], user="u")
    assert late.puts == 0


class LateIntoAnother(FaultyFileIO):
    """The put of snapshot 3 fails; it takes effect late, in a table created again meanwhile."""

    def __init__(self, world):
        super().__init__(world.fileio)
        self.world, self.late = world, None

    def put_if_absent(self, path, data, **held):
        if self.late is None and path.endswith("snapshot-3"):
            self.late = path, data
            raise StorageError("timed out", path=path)
        return super().put_if_absent(path, data, **held)

    def read_bytes(self, path, **bound):
        if self.late and path == self.late[0] and not self._inner.exists(path):
            recreate(self.world)
            self._inner.put_if_absent(*self.late)
        return super().read_bytes(path, **bound)


def test_a_late_put_into_a_table_created_again_is_not_acknowledged(order):
    """The table is looked at after the answer that shows the snapshot, not beside it."""
    world = with_history()
    with pytest.raises(NotFoundError, match="recreated"):
        committer(world, order, LateIntoAnother(world)).commit([message("mine")], user="u")
    assert not world.fileio.exists(world.paths.snapshot(3))


# -- threads
class Waiting(RemoteMemory):
    """Writes of manifests wait until they are let go; the one whose name ends so fails at once."""

    fails_on = "-list-"

    def __init__(self):
        super().__init__()
        self.is_armed = False
        self.began, self.released = threading.Semaphore(0), threading.Event()
        self.running = 0

    def write_once(self, path, data):
        if self.is_armed:
            self.running += 1
            self.began.release()
            assert self.released.wait(SECONDS_MAX)
            super().write_once(path, data)
            self.running -= 1
            if self.fails_on in path:
                raise StorageError(f"{path}: a test says so", path=path)
        else:
            super().write_once(path, data)


class WaitingWorld(World):
    files = Waiting


def threaded():
    return dataclasses.replace(Env.seeded(11), reads=ReadThreads())


def waiting():
    world = WaitingWorld(APPEND)
    world.committer(1).commit([message("a", total_buckets=-1)], user="u", identifier=1)
    files = world.fileio
    assert isinstance(files, Waiting)
    files.is_armed = True
    return world, files, world.manifest_files()


def mine(world):
    messages = [message("b", total_buckets=-1)]
    return world.committer(2, env=threaded()).commit(messages, user="v", identifier=1)


def test_an_error_is_raised_when_no_write_is_in_flight_and_all_are_removed():
    world, files, before = waiting()

    def let_go():
        for _ in range(3):  # manifest, and both lists
            assert files.began.acquire(timeout=SECONDS_MAX)
        files.released.set()

    threading.Thread(target=let_go).start()
    with pytest.raises(StorageError, match="a test says so"):
        mine(world)
    assert files.running == 0
    assert world.manifest_files() == before
    assert world.log.ids() == [1]


def test_an_interrupt_is_raised_when_no_write_is_in_flight_and_nothing_is_published():
    world, files, _ = waiting()
    files.fails_on = "no path"

    def interrupt():
        for _ in range(3):
            assert files.began.acquire(timeout=SECONDS_MAX)
        for _ in range(2):
            _thread.interrupt_main()
        files.released.set()

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        mine(world)
    assert files.running == 0
    assert world.log.ids() == [1]
    files.is_armed = False
    assert mine(world).snapshots[0].id == 2
    assert world.names() == {"a", "b"}


def test_a_newer_schema_than_the_one_read_beside_the_snapshot_is_read_again():
    """Another alters the table and commits after the schemas were listed, before LATEST is read."""
    trial_world = with_history()
    trial = FaultyFileIO(trial_world.fileio)
    committer(trial_world, IN_FLIGHT, trial).commit([message("mine")], user="u")
    asks = next(t.call for t in trial.trace if t.path.endswith("LATEST"))
    assert asks > next(t.call for t in trial.trace if t.op == "list_dir")
    world = with_history()

    def alter_and_commit():
        assert SchemaLog(world.fileio, world.paths).create(dataclasses.replace(world.schema, id=1))
        world.committer(9).commit([message("other")], user="other", identifier=1)

    fileio = Meddled(world, asks, alter_and_commit)
    done = committer(world, IN_FLIGHT, fileio).commit([message("mine")], user="u")
    assert [(one.id, one.schema_id) for one in done.snapshots] == [(4, 1)]
