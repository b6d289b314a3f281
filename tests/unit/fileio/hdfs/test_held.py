"""Hidden directories of dead processes are cleared by whoever lets go of the same directory."""

from __future__ import annotations

import pytest
from servers.name_node import CHANGED_MS, Fault, NameNode, library, rpc_error

from tidelake.errors import NotFoundError, StorageError, StorageRefusedError
from tidelake.fileio import _optional
from tidelake.fileio.hdfs import HdfsFileIO, HdfsSettings
from tidelake.fileio.hdfs.held import (
    ABANDONED_MS,
    HELD_PREFIX,
    RENEW_SECONDS,
    SWEPT_MAX,
    Sweeps,
)
from tidelake.fileio.location import parse_location
from tidelake.telemetry import Env

DIRECTORY = "/w/t/snapshot"
NO_RIGHT = rpc_error("org.apache.hadoop.security.AccessControlException", "Permission denied")


@pytest.fixture
def node(monkeypatch):
    found = NameNode()
    monkeypatch.setattr(_optional, "hdfs_native", lambda: library(lambda _: found))
    return found


@pytest.fixture
def env():
    return Env.seeded(1)


@pytest.fixture
def files(node, env):
    found = HdfsFileIO(parse_location("hdfs://nn:8020/w"), HdfsSettings(), env)
    found.make_dirs(DIRECTORY)
    return found


def left_by_another(node, name, age_ms):
    path = f"{DIRECTORY}/{HELD_PREFIX}{name}"
    node.nodes |= {path: None, f"{path}/half": b"1"}
    node.times[path] = CHANGED_MS - age_ms
    return path


def test_what_nobody_has_changed_for_an_hour_is_cleared_and_nothing_else(node, files):
    dead = left_by_another(node, "dead", ABANDONED_MS + 1)
    alive = left_by_another(node, "alive", ABANDONED_MS)
    node.nodes |= {f"{DIRECTORY}/snapshot-1": b"1", f"{DIRECTORY}/old": None}
    node.times |= {f"{DIRECTORY}/snapshot-1": 0, f"{DIRECTORY}/old": 0}
    with files.open_dir(DIRECTORY):
        assert dead in node.nodes
    assert sorted(p for p in node.nodes if p.startswith(f"{DIRECTORY}/")) == sorted(
        [alive, f"{alive}/half", f"{DIRECTORY}/old", f"{DIRECTORY}/snapshot-1"]
    )


def test_a_directory_is_looked_through_once_an_hour(node, files, env):
    for expected, wait_ms in ((1, 0), (1, 1_800_000), (2, 1_800_000)):
        env.clock.sleep_ms(wait_ms)
        files.open_dir(DIRECTORY).close()
        assert node.calls.count("list_status") == expected
    files.make_dirs("/w/t/tag")
    files.open_dir("/w/t/tag").close()
    assert node.calls.count("list_status") == 3


def test_a_delete_of_a_reused_name_that_comes_late_takes_nothing(node, files, monkeypatch):
    """The client sends a call again where its connection broke; the first may still arrive."""
    path, sent, rename = f"{DIRECTORY}/snapshot-1", [], node.rename

    def record(source, target, *, overwrite):
        sent.append((source, target))
        rename(source, target, overwrite=overwrite)

    files.write_once(path, b"old")
    with files.open_dir(DIRECTORY) as held:
        monkeypatch.setattr(node, "rename", record)
        assert files.delete(path, within=held, reused=True)
        assert files.put_if_absent(path, b"new", within=held)
        late = sent[0]
        with pytest.raises(FileExistsError):
            rename(*late, overwrite=False)
    with pytest.raises(FileNotFoundError):
        rename(*late, overwrite=False)
    assert files.read_bytes(path) == b"new"
    assert [s.name for s in files.list_dir(DIRECTORY)] == ["snapshot-1"]
    assert not [name for name in node.nodes if HELD_PREFIX in name]


@pytest.mark.parametrize("call", ["list_status", "delete"])
def test_one_s_own_goes_even_where_those_of_others_may_not_be_touched(node, files, call):
    left_by_another(node, "dead", ABANDONED_MS + 1)
    node.faults.append(Fault(call, before=NO_RIGHT))
    with files.open_dir(DIRECTORY) as held:
        pass
    assert held.hidden not in node.nodes


def test_who_works_elsewhere_for_an_hour_keeps_its_directories(node, files, env):
    """An expiry that reads and deletes for hours puts nothing into what it holds."""
    other = HdfsFileIO(parse_location("hdfs://nn:8020/w"), HdfsSettings(), Env.seeded(2))
    with files.open_dir(DIRECTORY) as slow:
        node.times[slow.hidden] = CHANGED_MS - ABANDONED_MS - 1
        env.clock.sleep_ms(RENEW_SECONDS * 900)
        files.exists("/w/t")
        assert slow.hidden in node.times
        env.clock.sleep_ms(RENEW_SECONDS * 100)
        files.exists("/w/t")
        other.open_dir(DIRECTORY).close()
        assert files.put_if_absent(f"{DIRECTORY}/snapshot-1", b"1", within=slow)
        assert files.delete(f"{DIRECTORY}/snapshot-1", within=slow)
    assert [path for path in node.nodes if path.startswith(f"{DIRECTORY}/")] == []


def test_who_stood_still_for_an_hour_puts_nothing(node, files):
    slow = files.open_dir(DIRECTORY)
    node.times[slow.hidden] = CHANGED_MS - ABANDONED_MS - 1
    other = HdfsFileIO(parse_location("hdfs://nn:8020/w"), HdfsSettings(), Env.seeded(2))
    other.open_dir(DIRECTORY).close()
    with pytest.raises(NotFoundError, match="t/snapshot"):
        files.put_if_absent(f"{DIRECTORY}/snapshot-1", b"1", within=slow)
    node.nodes[f"{DIRECTORY}/snapshot-1"] = b"theirs"
    for name in ("snapshot-1", "snapshot-2"):
        with pytest.raises(StorageRefusedError, match="was moved or removed"):
            files.delete(f"{DIRECTORY}/{name}", within=slow)
    assert node.nodes.pop(f"{DIRECTORY}/snapshot-1") == b"theirs"
    slow.close()
    assert files.list_dir(DIRECTORY) == []


def test_who_stood_still_in_the_midst_of_a_put_says_that_nobody_knows(node, files):
    other = HdfsFileIO(parse_location("hdfs://nn:8020/w"), HdfsSettings(), Env.seeded(2))
    with files.open_dir(DIRECTORY) as slow:

        def swept():
            node.times[slow.hidden] = CHANGED_MS - ABANDONED_MS - 1
            other.open_dir(DIRECTORY).close()

        node.hooks["rename"] = swept
        with pytest.raises(StorageError) as caught:
            files.put_if_absent(f"{DIRECTORY}/snapshot-1", b"1", within=slow)
    assert caught.value.kind == "outcome_unknown"
    assert files.list_dir(DIRECTORY) == []


def test_the_directories_that_were_cleared_last_are_remembered():
    """A process that goes through many tables forgets the first ones, not the one in use."""
    sweeps = Sweeps(Env.seeded(1).clock)
    for number in range(SWEPT_MAX + 1):
        assert sweeps.is_due(f"/w/{number}")
    assert not sweeps.is_due(f"/w/{SWEPT_MAX}")
    assert not sweeps.is_due("/w/1")
    assert len(sweeps._swept) == SWEPT_MAX
