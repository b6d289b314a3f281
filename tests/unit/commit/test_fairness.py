"""Turns: who loses again and again is waited for, by whom, how long, and what stays behind."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from proving.fsck import check_table
from unit.commit.commit_world import World, keyed, message

import tidelake
from tidelake.commit import fairness
from tidelake.commit.fairness import Turns
from tidelake.errors import ConflictError, StorageError
from tidelake.fileio import MemoryFileIO
from tidelake.table.write import transaction
from tidelake.telemetry import Env, ManualClock

SCHEMA = pa.schema([("p", pa.string()), ("k", pa.int64()), ("n", pa.int64())])
LAYOUTS = {
    "keyed": ({"bucket": "1"}, ["k"], []),
    "keys that move": ({}, ["k"], ["p"]),
    "append": ({}, [], []),
    "append, marked": ({"deletion-vectors.enabled": "true"}, [], []),
}


class Waits(Exception):
    """A commit would wait now."""


class Refusing:
    """A clock that waits for nobody."""

    def __init__(self, clock):
        self._clock = clock

    def __getattr__(self, name):
        return getattr(self._clock, name)

    def sleep_ms(self, duration_ms):
        raise Waits


def opened(fileio, seed, *, refuses=False):
    env = Env.seeded(seed)
    if refuses:
        env = replace(env, clock=Refusing(env.clock))
    return tidelake.open("/w", fileio=fileio, env=env)


def filled(fileio, layout):
    options, keys, partition_keys = LAYOUTS[layout]
    table = opened(fileio, 1).create_table(
        "db.t", SCHEMA, primary_keys=keys, partition_keys=partition_keys, options=options
    )
    table.write([{"p": "a", "k": k, "n": 0} for k in range(10)])
    return table


def more(count):
    return lambda rows: pc.add(rows["n"], count)


class Rival(MemoryFileIO):
    """Before each put of a snapshot of ours another writer commits, unless it waits."""

    def __init__(self):
        super().__init__()
        self.act = None
        self.is_acting = False
        self.done = self.waited = 0

    def put_if_absent(self, path, data, **held):
        if "/snapshot-" in path and self.act is not None and not self.is_acting:
            self.is_acting = True
            try:
                self.act()
                self.done += 1
            except Waits:
                self.waited += 1
            finally:
                self.is_acting = False
        return super().put_if_absent(path, data, **held)


def turn_files(table):
    names = [s.name for s in table.fileio.list_dir(table.paths.schema_dir)]
    return [name for name in names if name.startswith("turn-")]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_update_beside_a_rival_of_the_same_rows_gets_through(layout):
    fileio = Rival()
    table = filled(fileio, layout)
    theirs = opened(fileio, 2, refuses=True).table("db.t")
    fileio.act = lambda: theirs.update({"n": more(1)}, "k = 3")
    table.update({"n": more(1000)}, "k = 3")
    fileio.act = None
    assert fileio.done == fairness.LOSSES_BEFORE
    assert fileio.waited
    values = {row["k"]: row["n"] for row in table.to_arrow().to_pylist()}
    assert values[3] == 1000 + fileio.done
    assert not turn_files(table)
    check_table(fileio, table.paths.location)


def test_the_turn_goes_when_the_statement_fails():
    fileio = Rival()
    table = filled(fileio, "keyed")
    theirs = opened(fileio, 2).table("db.t")  # its clock moves its hands: it never waits long
    seen = []

    def act():
        seen.append(len(turn_files(table)))
        theirs.update({"n": more(1)}, "k = 3")

    fileio.act = act
    with pytest.raises(ConflictError):
        table.update({"n": more(1000)}, "k = 3")
    assert seen == [0] * fairness.LOSSES_BEFORE + [1] * (
        transaction.TRIES_MAX - fairness.LOSSES_BEFORE
    )
    assert not turn_files(table)


def still_env():
    """Its clock moves when a commit sleeps, and never else."""
    return replace(Env.seeded(3), clock=ManualClock())


def announced(world, until_ms, user="slow"):
    name = f"turn-{until_ms}-{fairness._digest(user)}"
    world.fileio.put_if_absent(f"{world.paths.schema_dir}/{name}", b"{}")
    return name


def commit(world, name, env):
    return world.committer(env=env).commit([message(name)], user=f"u-{name}", identifier=1)


def test_a_commit_waits_until_the_turn_is_over_and_builds_on_what_came():
    world, env = World(), still_env()
    began = env.clock.now_ms()
    name = announced(world, began + 20_000)

    class Clock(Refusing):
        def sleep_ms(self, duration_ms):
            self._clock.sleep_ms(duration_ms)
            if self._clock.now_ms() >= began + 5_000 and world.fileio.exists(path):
                world.committer(5).commit([message("slow")], user="slow", identifier=1)
                world.fileio.delete(path)

    path = f"{world.paths.schema_dir}/{name}"
    waiting = replace(env, clock=Clock(env.clock))
    commit(world, "late", waiting)
    assert 5_000 <= env.clock.now_ms() - began <= 5_000 + 2 * fairness.POLL_MS
    assert [world.log.load(i).commit_user for i in world.log.ids()] == ["slow", "u-late"]
    assert world.referenced_manifest_files() == world.manifest_files()


def test_a_turn_that_is_never_given_back_is_waited_for_once_and_not_longer_than_its_lease():
    world, env = World(), still_env()
    began = env.clock.now_ms()
    announced(world, began + 4_000)
    commit(world, "a", env)
    waited = env.clock.now_ms() - began
    assert 4_000 <= waited <= 4_000 + 2 * fairness.POLL_MS
    commit(world, "b", env)
    assert env.clock.now_ms() - began == waited, "its lease has ended"


def test_one_commit_waits_no_longer_than_the_bound_though_turns_are_renewed():
    world, env = World(), still_env()
    began = env.clock.now_ms()

    announced(world, began + fairness.LEASE_MS_MAX)
    announced(world, began + fairness.LEASE_MS_MAX, user="other")
    listed = world.fileio.list_dir

    def list_dir(path):
        if path == world.paths.schema_dir:
            announced(world, env.clock.now_ms() + fairness.LEASE_MS_MAX)
        return listed(path)

    world.fileio.list_dir = list_dir
    commit(world, "a", env)
    assert env.clock.now_ms() - began <= fairness.LEASE_MS_MAX + fairness.POLL_MS


@pytest.mark.parametrize("end_ms", [-1, 0, fairness.LEASE_MS_MAX + 1, 10**9])
def test_ends_that_no_lease_can_have_are_passed_over(end_ms):
    world, env = World(), still_env()
    began = env.clock.now_ms()
    announced(world, began + end_ms)
    commit(world, "a", env)
    assert env.clock.now_ms() == began


def test_the_file_of_a_statement_that_was_killed_is_removed_long_after_its_end():
    world, env = World(), still_env()
    announced(world, env.clock.now_ms() - fairness.STALE_MS - 1)
    kept = announced(world, env.clock.now_ms() - fairness.STALE_MS)
    commit(world, "a", env)
    names = {status.name for status in world.fileio.list_dir(world.paths.schema_dir)}
    assert names == {"schema-0", kept}


def test_holders_wait_in_the_order_of_their_ends():
    world, env = World(), still_env()
    now = env.clock.now_ms()
    names = [announced(world, now + 1_000, "a"), announced(world, now + 2_000, "b")]
    names = [*names, "schema-0", "turn-", "turn-x-y", "turn-12"]

    def waits(user):
        env = still_env()
        env = replace(env, clock=Refusing(env.clock))
        try:
            return Turns(world.committer(env=env)._context).wait(names, user)
        except Waits:
            return True

    assert [waits(user) for user in ("a", "b", "c")] == [False, True, True]


def test_a_compaction_does_not_wait():
    world, env = World(), still_env()
    world.committer(env=env).commit([message(keyed("a", (1, 5)))], user="u", identifier=1)
    announced(world, env.clock.now_ms() + 10_000)
    began = env.clock.now_ms()
    done = world.committer(env=env).commit(
        [message(before=(keyed("a", (1, 5)),), after=(keyed("b", (1, 5), level=1),))],
        user="c",
        identifier=1,
    )
    assert len(done.snapshots) == 1
    assert env.clock.now_ms() == began


def test_the_lease_lasts_two_tries_within_its_bounds():
    for took_ms, lease_ms in ((10, 1_000), (4_000, 8_000), (60_000, 30_000)):
        world, env, tries = World(), still_env(), []

        def work(env=env, took_ms=took_ms, world=world, tries=tries):
            tries.append(
                [s.name for s in world.fileio.list_dir(world.paths.schema_dir) if "turn" in s.name]
            )
            env.clock.sleep_ms(took_ms)
            if len(tries) < 5:
                raise ConflictError("lost", kind="lost", table="db.t")
            return env.clock.now_ms()

        world.committer(env=env).in_turns("slow", work, kinds=("lost",), tries=9)
        assert [len(names) for names in tries] == [0, 0, 0, 1, 1]
        ends = [int(names[0].split("-")[1]) for names in tries[3:]]
        assert ends[1] - ends[0] == took_ms
        assert env.clock.now_ms() - ends[1] == took_ms - lease_ms


def test_the_file_names_its_holder():
    world = World()
    texts = []

    def work():
        for status in world.fileio.list_dir(world.paths.schema_dir):
            if status.name.startswith("turn-"):
                texts.append(
                    json.loads(world.fileio.read_bytes(f"{world.paths.schema_dir}/{status.name}"))
                )
        raise ConflictError("lost", kind="lost", table="db.t")

    with pytest.raises(ConflictError):
        world.committer(1).in_turns("slow", work, kinds=("lost",), tries=4)
    assert [text["commitUser"] for text in texts] == ["slow"]


def test_a_storage_that_takes_no_turn_fails_nothing(monkeypatch):
    world = World()

    def refuse(path, data):
        raise StorageError("no", kind="io", path=path)

    monkeypatch.setattr(world.fileio, "put_if_absent", refuse)
    tries = []

    def work():
        tries.append(1)
        if len(tries) < 6:
            raise ConflictError("lost", kind="lost", table="db.t")
        return "done"

    assert world.committer(1).in_turns("u", work, kinds=("lost",), tries=9) == "done"


def test_other_errors_and_the_last_conflict_are_raised():
    world = World()
    for kind, tries in (("lost", 4), ("other", 1)):
        count = []

        def work(kind=kind, count=count):
            count.append(1)
            raise ConflictError("lost", kind=kind, table="db.t")

        with pytest.raises(ConflictError):
            world.committer(1).in_turns("u", work, kinds=("lost",), tries=4)
        assert len(count) == tries


def test_a_slow_update_beside_a_thread_that_never_rests_gets_through():
    fileio = MemoryFileIO()
    table = tidelake.open("/w", fileio=fileio).create_table(
        "db.t", SCHEMA, primary_keys=["k"], options={"bucket": "1"}
    )
    table.write([{"p": "a", "k": k, "n": 0} for k in range(10)])
    stop = threading.Event()
    done = []

    def rest_never():
        own = tidelake.open("/w", fileio=fileio).table("db.t")
        while not stop.is_set():
            own.write([{"p": "a", "k": 3, "n": 0}])
            done.append(1)

    rival = threading.Thread(target=rest_never)
    rival.start()
    tries = []

    def slow(rows):
        tries.append(1)
        stop.wait(0.3)
        return [7] * rows.num_rows

    try:
        table.update({"n": slow}, "k = 3")
    finally:
        stop.set()
        rival.join()
    assert done
    assert len(tries) <= transaction.TRIES_MAX
